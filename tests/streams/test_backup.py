"""Backups: consistent beside a writer, whole or not there, refused when damaged; restored without
touching the fence."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import FadecountError, FenceError, ParameterError, StoreError
from fadecount.streams import Description, FileFence, Reader, Store, Ticks
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.backup import (
    check_backup,
    lost_streams,
    make_backup,
    restore_file,
    restore_server,
    restored_streams,
)
from fadecount.streams.database import Checkpoints
from fadecount.streams.postgres import PostgresDatabase
from fadecount.streams.sqlite import SQLiteDatabase
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend
from tests.streams.test_copies import Writing, open_store, writing

__all__ = ["writing"]
EXACT = fc.Gradual(epsilon=2.0**14)


def describe(name: str) -> Description:
    return Description(name=name, mechanism=EXACT, ticks=Ticks(tick_seconds=60))


def values(reader: Reader, name: str = "doors") -> list[list[int]]:
    return [row for piece in reader.releases(name) for row in piece.values.tolist()]


def filled(backend: Backend) -> None:
    with backend.open() as store:
        doors = store.create(describe("doors"), keys=["a", "b"], start_tick=1)
        for tick in range(1, 6):
            doors.add({"a": tick}, id=f"batch {tick}")
            doors.close_through(tick)
        doors.add({"b": 4}, id="waiting")
        store.create(describe("windows"), start_tick=1).close_through(2)
        store.create(describe("gone"), start_tick=1).close_through(3)
        store.begin_deletion("gone")  # its rows are still there: a new stream must not get them


def restored(backend: Backend, backup: Path, folder: Path, url: str | None) -> Store:
    """The backup as a store of the other kind, or of the same."""
    log = AuditLog.in_folder(folder)
    folder.mkdir()
    if url is None:
        restore_file(backup, folder / "streams.db", audit_log=log)
        return SQLiteBackend_at(folder, backend).open()
    database = PostgresDatabase(url, writes=True)
    restore_server(backup, database, folder=folder, audit_log=log)
    with pytest.raises(ParameterError, match="must be empty"):
        restore_server(backup, database, folder=folder, audit_log=log)
    database.close()
    from fadecount.streams import PostgresStore

    return PostgresStore(url, fence=backend.fence, audit_log=log)


def SQLiteBackend_at(folder: Path, backend: Backend) -> SQLiteBackend:  # noqa: N802 - a constructor
    made = SQLiteBackend(folder)
    made.path, made.fence = folder / "streams.db", backend.fence
    return made


def source_of(backend: Backend) -> SQLiteDatabase | PostgresDatabase:
    if isinstance(backend, PostgresBackend):
        return PostgresDatabase(backend.url, writes=False)
    assert isinstance(backend, SQLiteBackend)
    return SQLiteDatabase(backend.path, writes=False)


@pytest.mark.parametrize("into", ["sqlite", "postgres"])
def test_a_restored_store_goes_on_where_the_backup_was(
    backend: Backend, tmp_path: Path, into: str, request: pytest.FixtureRequest
) -> None:
    filled(backend)
    log = AuditLog.in_folder(tmp_path)
    source = source_of(backend)
    made = make_backup(source, tmp_path / "counts.fadecount", audit_log=log)
    with pytest.raises(ParameterError, match="a backup is never replaced"):
        make_backup(source, tmp_path / "counts.fadecount", audit_log=log)
    source.close()
    assert made == check_backup(made.path)
    assert (made.streams, made.path.stat().st_mode & 0o777) == (("doors", "windows"), 0o600)
    url = None
    if into == "postgres":
        base = request.getfixturevalue("postgres_url")
        url = PostgresBackend(tmp_path, base, f"restored{os.urandom(4).hex()}").url
    with restored(backend, made.path, tmp_path / "new", url) as store:
        assert [each.may_go_on for each in restored_streams(store._database, backend.fence)] == [
            True,
            True,
        ]
        doors = store.open("doors")
        assert not doors.add({"b": 4}, id="waiting"), "it is in the backup"
        assert doors.close_through(6)[0].values.tolist() == [[15, 4]]
        assert values(store.reader()) == [[1, 0], [3, 0], [6, 0], [10, 0], [15, 0], [15, 4]]
        with pytest.raises(ParameterError, match="never used"):
            store.create(describe("gone"), start_tick=1)
        store.create(describe("another"), start_tick=1).close_through(1)
        assert lost_streams(store._database, backend.fence) == []
    with backend.open() as store, pytest.raises(FenceError, match="published up to step 6"):
        store.open("doors")  # the original is the older one now
    acts = [
        entry.act
        for folder in (tmp_path, tmp_path / "new")
        for entry in AuditLog.in_folder(folder).entries()
    ]
    assert Act.BACKUP_MADE in acts and Act.BACKUP_RESTORED in acts
    assert not list(tmp_path.rglob("*.partial*"))


def test_an_older_backup_is_refused_stream_by_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    where = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence")]
    assert main(["backup", str(tmp_path / "counts.fadecount"), *where]) == 0
    assert main(["backup", str(tmp_path / "counts.fadecount"), "--check"]) == 0
    with backend.open() as store:
        store.open("doors").close_through(9)
        store.create(describe("later"), start_tick=1).close_through(1)
    assert main(["restore", str(tmp_path / "counts.fadecount"), *where]) == 1
    assert "restoring never replaces a store" in capsys.readouterr().err
    (tmp_path / "state").rename(tmp_path / "lost")
    assert main(["restore", str(tmp_path / "counts.fadecount"), *where]) == 0
    said = capsys.readouterr().out
    assert "rollback protection still holds" in said
    assert (
        "doors: is refused. The backup is at step 5, but step 9 was published. fadecount streams"
        " accept-history doors" in said
    )
    assert "windows: goes on at step 2" in said
    assert "later: was published here, and is not in the backup" in said
    with backend.open() as store:
        store.open("windows").close_through(3)
        for name in ("doors", "later"):
            with pytest.raises(FadecountError):
                store.open(name)
        with pytest.raises(FenceError, match="was used at this place"):
            store.create(describe("later"), start_tick=1)
        before = store.reader().status("doors").loss.of_step(5).epsilon
        after = store.accept_histories("doors", 1).loss
        assert after.of_step(5).epsilon == 2 * EXACT.loss(4) > before, "step 9 of the other history"
    marks = FileFence(tmp_path / "fence")
    (tmp_path / "elsewhere").mkdir()
    assert marks.read("nothing") is None
    words = [
        "--state",
        str(tmp_path / "elsewhere" / "state"),
        "--fence",
        str(tmp_path / "elsewhere" / "fence"),
    ]
    assert main(["restore", str(tmp_path / "counts.fadecount"), *words]) == 0
    assert "the fence has no mark of it" in capsys.readouterr().out


def test_a_backup_beside_a_writer_is_one_moment(writing: Writing, tmp_path: Path) -> None:
    for number in range(3):
        writing.close_tick()
        source = SQLiteDatabase(tmp_path / "state" / "streams.db", writes=False)
        make_backup(source, tmp_path / f"{number}.fadecount", audit_log=AuditLog(None))
        source.close()
        restore_file(
            tmp_path / f"{number}.fadecount",
            tmp_path / f"new{number}" / "streams.db",
            audit_log=AuditLog(None),
        )
        with Reader.of_file(tmp_path / f"new{number}" / "streams.db") as reader:
            assert reader.status("doors").steps == writing.tick == len(values(reader))
    writing.close_tick()
    with open_store(tmp_path, "new2") as store, pytest.raises(FenceError):
        store.open("doors")


def test_a_damaged_or_short_backup_is_refused(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    source = source_of(backend)
    made = make_backup(source, tmp_path / "good", audit_log=AuditLog(None))
    source.close()
    content = made.path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for at, bad in enumerate(
        (
            b"",
            content[:-1],
            content[: len(content) // 2],
            content + b"\n",
            bytes(flipped),
            content[100:],
        )
    ):
        (tmp_path / f"bad{at}").write_bytes(bad)
        with pytest.raises(StoreError) as refused:
            restore_file(
                tmp_path / f"bad{at}", tmp_path / "none" / "streams.db", audit_log=AuditLog(None)
            )
        assert "\n" not in str(refused.value)
        with pytest.raises(StoreError):
            check_backup(tmp_path / f"bad{at}")
    with pytest.raises(StoreError, match="cannot be read"):
        check_backup(tmp_path / "nowhere")
    assert list((tmp_path / "none").iterdir()) == []


def test_a_backup_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    connection = sqlite3.connect(backend.path)
    with connection:
        connection.execute("UPDATE about SET value = '99' WHERE name = 'format'")
    connection.close()
    source = SQLiteDatabase(backend.path, writes=False)
    with pytest.raises(ParameterError, match="format of the backup must be at most"):
        make_backup(source, tmp_path / "counts", audit_log=AuditLog(None))
    source.close()
    assert not (tmp_path / "counts").exists()


DOOMED = """
import os, signal, sys
from pathlib import Path
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup, restore_file
from fadecount.streams.database import Checkpoints
from fadecount.streams.sqlite import SQLiteDatabase
folder, doom = Path(sys.argv[1]), sys.argv[2]
class Killer(Checkpoints):
    def __call__(self, step):
        if step == doom:
            os.kill(os.getpid(), signal.SIGKILL)
log = AuditLog.in_folder(folder)
if "backup" in doom:
    source = SQLiteDatabase(folder / "state" / "streams.db", writes=False)
    make_backup(source, folder / "counts", audit_log=log, checkpoints=Killer())
else:
    restore_file(folder / "counts", folder / "new" / "streams.db", audit_log=log, checkpoints=Killer())
"""


@pytest.mark.parametrize(
    "doom",
    [
        "backup copied",
        "backup written",
        "before backup appears",
        "backup appeared",
        "restore copied",
        "restore checked",
        "before restore appears",
        "restore appeared",
    ],
)
def test_a_kill_leaves_a_whole_file_or_none(tmp_path: Path, doom: str) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)

    def back_up() -> None:
        source = source_of(backend)
        make_backup(
            source, tmp_path / "counts", audit_log=AuditLog(None), checkpoints=Checkpoints()
        )
        source.close()

    if "restore" in doom:
        back_up()
    ended = subprocess.run(
        [sys.executable, "-c", DOOMED, str(tmp_path), doom], check=False, timeout=120
    )
    assert ended.returncode == -signal.SIGKILL
    if doom == "backup appeared" or "restore" in doom:
        assert check_backup(tmp_path / "counts").streams == ("doors", "windows")
    else:
        assert not (tmp_path / "counts").exists()
        for left in tmp_path.glob(".counts*.partial"):
            if doom == "backup copied":
                with pytest.raises(StoreError, match="incomplete or no backup"):
                    check_backup(left)
        back_up()
    assert (tmp_path / "new" / "streams.db").exists() == (doom == "restore appeared")
    if doom != "restore appeared":
        restore_file(tmp_path / "counts", tmp_path / "new" / "streams.db", audit_log=AuditLog(None))
    with SQLiteBackend_at(tmp_path / "new", backend).open() as store:
        assert store.open("doors").close_through(6)[0].values.tolist() == [[15, 4]]
