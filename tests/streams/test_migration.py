"""Stores of older formats, as the last version with each format wrote them: migrated at once and
whole, and they go on."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import ParameterError, StoreError
from fadecount.streams import Description, FileFence, Reader, SQLiteStore, Store, Ticks
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import FORMAT, Database

STORES = Path(__file__).parent / "stores"
KNOWN: dict[str, Any] = json.loads((STORES / "format-1.json").read_text(encoding="utf-8"))


def unpacked(version: int, folder: Path) -> Path:
    """The folder, with the store of a format and its fence."""
    known = json.loads((STORES / f"format-{version}.json").read_text(encoding="utf-8"))
    (folder / "state").mkdir()
    (folder / "fence").mkdir()
    (folder / "state" / "streams.db").write_bytes(
        gzip.decompress((STORES / f"format-{version}.db.gz").read_bytes())
    )
    for uid, mark in known["fence"].items():
        (folder / "fence" / f"{uid}.mark").write_text(mark, encoding="utf-8")
    return folder


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The folder with the store of format 1 and its fence."""
    return unpacked(1, tmp_path)


def open_store(folder: Path) -> Store:
    return SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))


def content(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def released(reader: Reader, name: str) -> list[list[Any]]:
    return [
        [piece.first_tick + at, row]
        for piece in reader.releases(name)
        for at, row in enumerate(piece.values.tolist())
    ]


def test_everything_released_and_every_loss_stays(first: Path) -> None:
    with open_store(first) as store:
        assert store.names() == sorted(KNOWN["streams"])
        (entry,) = store.audit_log.entries()
        assert (entry.act, entry.details) == (
            Act.STORE_MIGRATED,
            {"from_format": 1, "to_format": FORMAT},
        )
    with Reader.of_file(first / "state" / "streams.db") as reader:
        for name, known in KNOWN["streams"].items():
            status = reader.status(name)
            assert released(reader, name) == known["releases"]
            assert list(reader.keys(name)) == known["keys"]
            assert (status.steps, [fork.last_step for fork in status.forks]) == (
                known["steps"],
                known["forks"],
            )
            assert status.loss.of_step(1).epsilon == known["loss_of_step_1"]


def test_streams_go_on_where_they_were(first: Path) -> None:
    """The noise of this stream is 0: its counts are 15, 10 and 0, and a batch waits that holds 7
    and 1 more."""
    with open_store(first) as store:
        doors = store.open("doors")
        assert not doors.add({"a": 7, "c": 1}, id="waiting"), "it is known"
        (chunk,) = doors.close_through(28_000_010)
        assert chunk.values.tolist() == [[22, 10, 1]]
        for name in ("people", "forked"):
            stream = store.open(name)
            stream.close_through((stream.open_tick or 0) + 3)
        with pytest.raises(ParameterError, match="never used in this store"):
            store.create(
                Description(
                    name="gone", mechanism=fc.Gradual(epsilon=1.0), ticks=Ticks(tick_seconds=60)
                )
            )


def test_caps_of_persons_hold_over_the_migration(first: Path) -> None:
    """Persons are hashed in another way since format 2: what waits for the open tick is left out
    rather than counted twice."""
    with open_store(first) as store:
        people = store.open("people")
        assert people.persons_counted(["ann"]).tolist() == [0]
        assert store._database.query(
            "SELECT COUNT(*) FROM inputs WHERE stream = ?", (people.status.id,)
        ) == [(0,)]


def test_format_2_keeps_its_keys_and_what_persons_have_in_the_open_tick(tmp_path: Path) -> None:
    """The cap is 2. Ann has two events in the open tick and Bob one; the noise is 0."""
    with open_store(unpacked(2, tmp_path)) as store:
        people = store.open("people")
        assert people.keys == ("a", "b", "c")
        assert people.persons_counted(["ann", "bob", "eve"]).tolist() == [2, 1, 0]
        for person in ("ann", "bob", "bob"):
            people.add({"c": 1}, person=person)
        (chunk,) = people.close_through(28_000_001)
        assert chunk.values.tolist() == [[3, 1, 1]], (
            "one of the first tick, two of Ann and two of Bob"
        )
        assert people.persons_counted(["ann", "bob"]).tolist() == [0, 0]


def test_a_reader_refuses_another_format_and_the_command_migrates(
    first: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--state", str(first / "state"), "--fence", str(first / "fence")]
    with pytest.raises(ParameterError, match="fadecount streams migrate brings it up to date"):
        Reader.of_file(first / "state" / "streams.db")
    assert main(["streams", "list", *where]) == 1
    assert main(["streams", "migrate", "--state", str(first / "nowhere")]) == 1
    assert not (first / "nowhere").exists()
    capsys.readouterr()
    for _ in range(2):
        assert main(["streams", "migrate", *where]) == 0
        assert f"current format, {FORMAT}; it holds 3 streams" in capsys.readouterr().out
    assert main(["streams", "list", *where]) == 0


@pytest.mark.parametrize("found", [str(FORMAT + 1), "0", "x"])
def test_a_newer_or_damaged_format_is_refused_and_left_as_it_is(first: Path, found: str) -> None:
    path = first / "state" / "streams.db"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE about SET value = ? WHERE name = 'format'", (found,))
    connection.close()
    before = content(path)
    for refused in (lambda: open_store(first), lambda: Reader.of_file(path)):
        with pytest.raises((StoreError, ParameterError), match="format") as error:
            refused()
        assert "\n" not in str(error.value)
    assert content(path) == before


def test_a_migration_that_fails_changes_nothing(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = first / "state" / "streams.db"
    before = content(path)

    def fail(_log: AuditLog, act: Act, *_: object, **__: object) -> None:
        assert act is Act.STORE_MIGRATED
        raise StoreError("the log cannot be written")

    with monkeypatch.context() as patched:
        patched.setattr(AuditLog, "record", fail)
        with pytest.raises(StoreError, match="log cannot be written"):
            open_store(first)
    assert content(path) == before
    with open_store(first) as store:
        assert len(store.names()) == 3


def test_postgresql_is_migrated_in_the_same_way(first: Path, postgres_url: str) -> None:
    """The tables of format 1 in PostgreSQL, filled with the rows of the stored file."""
    import psycopg

    from fadecount.streams import PostgresStore
    from fadecount.streams.database import NEW_IN_FORMAT_2, TABLES
    from fadecount.streams.postgres import PostgresDatabase

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA format1")
    url = f"{postgres_url}&options=-csearch_path%3Dformat1"
    new = [
        words.split("ADD COLUMN ")[1].split()[0]
        for words in NEW_IN_FORMAT_2
        if "ADD COLUMN" in words
    ]
    source = sqlite3.connect(first / "state" / "streams.db")
    database: Database = PostgresDatabase(url, writes=True, tables=TABLES)
    with database.transaction():
        for table in ("requests", "key_blocks"):
            database.change(f"DROP TABLE {table}")
        database.change(
            "CREATE TABLE keys (stream BIGINT, position BIGINT, name TEXT, PRIMARY KEY (stream,"
            " position))"
        )
        for column in new:
            table = "streams" if "tick" in column or "retain" in column else "deleted"
            database.change(f"ALTER TABLE {table} DROP COLUMN {column}")
        for table in (
            "about",
            "streams",
            "keys",
            "state",
            "inputs",
            "seen",
            "persons",
            "positions",
            "releases",
            "deleted",
        ):
            for row in source.execute(f"SELECT * FROM {table}"):  # noqa: S608 - a constant
                names = [each[1] for each in source.execute(f"PRAGMA table_info({table})")]
                marks = ", ".join("?" * len(row))
                database.change(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", row)  # noqa: S608 - constants
    database.close()
    source.close()
    with pytest.raises(ParameterError, match="streams migrate"):
        Reader.of_server(url)
    log = AuditLog.in_folder(first / "state")
    with PostgresStore(url, fence=FileFence(first / "fence"), audit_log=log) as store:
        assert store.open("doors").close_through(28_000_010)[0].values.tolist() == [[22, 10, 1]]
    with Reader.of_server(url) as reader:
        assert released(reader, "doors")[:-1] == KNOWN["streams"]["doors"]["releases"]
