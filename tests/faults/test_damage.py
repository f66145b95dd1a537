"""Damaged files: refused, or without consequence; never a wrong value."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fadecount.errors import FadecountError
from fadecount.streams import Reader, SQLiteStore
from tests.faults.victim import check, main, open_store
from tests.streams.backends import totals_of

TICKS = 10
FLIPS = 150


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with ten ticks closed and one batch waiting, in one file."""
    folder = tmp_path_factory.mktemp("intact") / "v"
    folder.mkdir()
    assert main(folder, TICKS) == 0
    with open_store(folder) as store:
        store.open("doors").add({"key0": 1, "key1": TICKS}, id=str(TICKS))
    return folder


def outcome(folder: Path) -> bool:
    """Whether the store can be used; if so, all that it says must be right."""
    try:
        with open_store(folder) as store:
            stream = store.open("doors")
            assert stream.add({"key0": 1, "key1": TICKS}, id=str(TICKS)) is False
            stream.close_through(TICKS)
        with Reader.of_file(folder / "state" / "streams.db") as reader:
            keys = reader.keys("doors")
            rows = list(totals_of(reader).values())
    except FadecountError as error:
        assert "\n" not in str(error)
        return False
    assert keys[:3] == ("key0", "key1", "key2")
    assert [row[:3] for row in rows] == [
        [tick + 1, tick * (tick + 1) // 2, 0] for tick in range(TICKS + 1)
    ]
    return True


def copied(intact: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(intact, to)
    return to / "state" / "streams.db"


def test_bit_flips_are_refused_or_without_consequence(intact: Path, tmp_path: Path) -> None:
    chance = random.Random(11)
    refused = 0
    for _ in range(FLIPS):
        path = copied(intact, tmp_path / "v")
        content = bytearray(path.read_bytes())
        used = [at for at, byte in enumerate(content) if byte]  # most of a small file is empty
        content[chance.choice(used)] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        refused += not outcome(tmp_path / "v")
    assert refused > FLIPS // 10, "most flips that hit something must be found"


def test_every_byte_of_small_tables_counts(intact: Path, tmp_path: Path) -> None:
    """Flips aimed at what is stored about the stream: its place, keys, state, inputs, batch ids and
    releases."""
    words = [b"gradual", b"key1", b"key25", b"tick_seconds", b"doors"]
    content = copied(intact, tmp_path / "v").read_bytes()
    for word in words:
        at = content.find(word)
        assert at > 0
        path = copied(intact, tmp_path / "v")
        path.write_bytes(content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :])
        assert not outcome(tmp_path / "v"), word


def check_structure(database: sqlite3.Connection) -> None:
    """SQLite's own check finds nothing."""
    database.commit()
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("table", ["state", "inputs", "figures"])
def test_a_bit_that_flips_in_a_value_is_found_though_sqlite_does_not(
    intact: Path, tmp_path: Path, table: str
) -> None:
    with closing(sqlite3.connect(copied(intact, tmp_path / "v"))) as database:
        sql = f"SELECT rowid, body FROM {table} ORDER BY rowid LIMIT 1"  # noqa: S608 - constants
        ((row, body),) = database.execute(sql).fetchall()
        flipped = bytes([body[0] ^ 1]) + body[1:]
        database.execute(f"UPDATE {table} SET body = ? WHERE rowid = ?", (flipped, row))  # noqa: S608
        check_structure(database)
    assert not outcome(tmp_path / "v")


def test_a_part_that_is_older_than_the_others_or_missing_is_found(
    intact: Path, tmp_path: Path
) -> None:
    """As if the disk had lost a write: the noise of an interval that ended would be used again."""
    newer = tmp_path / "newer"
    copied(intact, newer)
    with open_store(newer) as store:
        store.open("doors").close_through(TICKS)
    attach = f"ATTACH '{copied(intact, tmp_path / 'older')}' AS older"
    with closing(sqlite3.connect(newer / "state" / "streams.db")) as database:
        database.execute(attach)
        parts = database.execute(
            "SELECT kind, number FROM main.state JOIN older.state AS other USING (kind, number)"
            " WHERE main.state.body <> other.body"
        ).fetchall()
        assert len(parts) >= 2
    for kind, number in parts:
        part = f"kind = {kind} AND number = {number}"
        shutil.copytree(newer, tmp_path / "v", dirs_exist_ok=True)
        with closing(sqlite3.connect(tmp_path / "v" / "state" / "streams.db")) as database:
            database.execute(attach)
            older = f"SELECT body FROM older.state WHERE {part}"  # noqa: S608 - numbers
            database.execute(f"UPDATE main.state SET body = ({older}) WHERE {part}")  # noqa: S608
            check_structure(database)
        assert not outcome(tmp_path / "v")
        with closing(sqlite3.connect(copied(newer, tmp_path / "v"))) as database:
            database.execute(f"DELETE FROM state WHERE {part}")  # noqa: S608
            check_structure(database)
        assert not outcome(tmp_path / "v")


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(intact: Path, tmp_path: Path, share: float) -> None:
    path = copied(intact, tmp_path / "v")
    content = path.read_bytes().rstrip(b"\0")  # what is cut off holds something
    path.write_bytes(content[: int(share * len(content))])
    assert not outcome(tmp_path / "v")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    for at, content in enumerate(
        (b"not a database at all, but long enough to be one" * 50, bytes(range(256)) * 64)
    ):
        path = tmp_path / f"x{at}" / "streams.db"
        path.parent.mkdir()
        path.write_bytes(content)
        with pytest.raises(FadecountError, match="store failed"):
            SQLiteStore(path)


def test_a_torn_log_is_recovered(intact: Path, tmp_path: Path) -> None:
    """A write-ahead log that ends anywhere: what was committed before is there, and the victim goes
    on."""
    folder = tmp_path / "v"
    copied(intact, folder)
    with open_store(folder) as store:
        stream = store.open("doors")
        stream.close_through(TICKS)
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
    log = copy / "state" / "streams.db-wal"
    whole = log.read_bytes()
    for share in (1.0, 0.999):
        shutil.rmtree(tmp_path / "torn", ignore_errors=True)
        shutil.copytree(copy, tmp_path / "torn")
        (tmp_path / "torn" / "state" / "streams.db-wal").write_bytes(
            whole[: int(share * len(whole))]
        )
        assert outcome(tmp_path / "torn")
    check(copy, TICKS + 3)
