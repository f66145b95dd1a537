"""What is destroyed is gone from the disk: true counts when their block ends, and noise when its
figure is out. Planted values are searched in all bytes of the database."""

from __future__ import annotations

import hashlib
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.noise import DiscreteLaplace
from fadecount.streams import Batch, Description, Reader, Seal, Store, Stream, sqlite
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.backup import make_backup
from fadecount.streams.embargo import largest_count
from fadecount.streams.inputs import LARGEST_COUNT
from tests.counters.block_reference import NamedNoise
from tests.streams.backends import PostgresBackend, SQLiteBackend
from tests.streams.block_streams import DESIGN, FIRST, HOURS, create

SECRET_TABLES = ("state", "inputs", "embargo")


class Shifted(NamedNoise):
    """Noise so large that no figure looks like a count, or like a sum of counts."""

    def value(self, level: int, stage: int, block: int, key: int = 0) -> int:
        return 1_234_567_890_123 * (level + 1) + block

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        each = [[self.value(level, stage, node) for node in nodes] for stage in rounds]
        return np.repeat(np.array(each, dtype=np.int64)[..., np.newaxis], width, axis=2)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def traces(content: bytes, count: int) -> int:
    """How often a number is there, as a store writes numbers, as text, or as SQLite does."""
    wanted = (struct.pack("<q", count), struct.pack(">q", count)[2:], str(count).encode())
    return sum(content.count(each) for each in wanted)


def planted() -> list[int]:
    """Two distinctive counts, whose sum is one too."""
    chance = random.SystemRandom()
    most = largest_count(HOURS) // 4
    return [chance.randrange(most // 2, most) for _ in range(2)]


def check_destruction(store: Store, content: Callable[[], bytes]) -> None:
    """Plants counts in the first two hours of a part of a day, and one more event in each hour so
    that no open block holds one of them alone."""
    stream = create(store, ["a"])
    stream.close_through(FIRST + 1)  # the part of the day ends
    one, two = planted()
    stream.add({"a": one})
    assert traces(content(), one), "it is found while it is there"
    stream.close_through(FIRST + 2)
    stream.add({"a": two})
    stream.close_through(FIRST + 3)
    bodies = content()
    assert not traces(bodies, one) and not traces(bodies, two), "the hours have ended"
    assert traces(bodies, one + two), "the count of the open part of a day, and of the day"
    stream.add({"a": 1000})
    stream.close_through(FIRST + 7)  # the part of the day ends
    stream.add({"a": 777})
    stream.close_through(FIRST + 13)  # the next one too: the day holds both
    bodies = content()
    assert not traces(bodies, one + two) and not traces(bodies, one + two + 1000)
    whole = one + two + 1777
    assert traces(bodies, whole), "the count of the open day"
    stream.add({"a": 4321})
    stream.close_through(FIRST + 25)  # the day ends; its later stage waits
    stream.add({"a": 5432})
    stream.close_through(FIRST + 49)
    bodies = content()
    for count in (one, two, one + two, one + two + 1000, whole, whole + 4321):
        assert not traces(bodies, count)
    assert traces(bodies, whole + 4321 + 5432), "the count of the open month"


def test_true_counts_on_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
    backend = SQLiteBackend(tmp_path)
    with backend.open(noise=Shifted()) as store:  # type: ignore[arg-type]
        check_destruction(store, lambda: bytes_of(tmp_path))


def test_the_log_is_emptied_within_a_minute_and_a_reader_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, now = SQLiteBackend(tmp_path), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = backend.path.with_name(backend.path.name + "-wal")
    with backend.open() as store:
        stream = create(store)
        stream.close_through(FIRST)
        assert log.stat().st_size > 0
        now[0] += 59
        stream.close_through(FIRST + 1)
        assert log.stat().st_size > 0
        now[0] += 1
        stream.close_through(FIRST + 2)
        assert log.stat().st_size == 0
        with backend.reader() as reader:
            reader.database.change("BEGIN")
            assert reader.status("doors").steps == 3
            now[0] += 60
            stream.close_through(FIRST + 3)  # it does not wait for the reader
            assert log.stat().st_size > 0
            reader.database.change("ROLLBACK")
        stream.close_through(FIRST + 4)
        assert log.stat().st_size == 0, "tried again with the next tick"
        stream.close_through(FIRST + 5)
        with backend.reader() as reader:
            assert reader.status("doors").steps == 6
            store.close()
            assert log.stat().st_size == 0, "closing empties it, also beside a reader"


def test_counts_of_many_streams_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the tree are split and joined meanwhile, which must not leave copies behind."""
    monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
    backend, chance = SQLiteBackend(tmp_path), random.Random(3)
    most, old = LARGEST_COUNT // 20, list[int]()
    with backend.open(noise=Shifted()) as store:  # type: ignore[arg-type]
        streams = [
            create(store, [f"k{key}" for key in range((1, 20, 300)[at % 3])], name=f"s{at}")
            for at in range(41)
        ]
        for hour in range(14):
            for stream in streams:
                counts = {key: chance.randrange(most // 2, most) for key in stream.keys[:20]}
                old += counts.values()
                stream.add(counts)
                stream.close_through(FIRST + hour)
            if hour == 2:  # all that the part of a day holds, which has just begun
                content = bytes_of(tmp_path)
                assert all(struct.pack("<q", each) in content for each in counts.values())
            if hour == 5:
                for stream in streams[:5]:
                    store.delete(stream.description.name)
                del streams[:5]
        content = bytes_of(tmp_path)
    # the first hour of a part of a day is all that the open part and the day hold
    assert len(old) > 5000
    content += bytes(16)
    for offset in range(8):
        numbers = np.frombuffer(content[offset:][: len(content) // 8 * 8 - 8], dtype="<i8")
        assert not np.isin(np.array(old), numbers).any()


def test_nothing_is_in_the_clear_in_a_sealed_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
    backend = SQLiteBackend(tmp_path)
    (one, two), seal = planted(), Seal(b"k" * 32)
    with backend.open(noise=Shifted(), seal=seal) as store:  # type: ignore[arg-type]
        stream = create(store, ["a"])
        for tick, count in enumerate((one, two)):
            stream.add({"a": count})
            bodies = bytes_of(tmp_path)
            assert not traces(bodies, one) and not traces(bodies, one + two)
            stream.close_through(FIRST + tick)
        bodies = bytes_of(tmp_path)
        assert not any(traces(bodies, count) for count in (one, two, one + two))
        # the later stage of the day, which waits
        noise = Shifted().of(DESIGN)
        assert not traces(bodies, one + two + noise(2, 1, 1))


def test_backups_hold_no_count_of_an_ended_block(tmp_path: Path) -> None:
    """Also where the log of the store was not emptied yet."""
    backend = SQLiteBackend(tmp_path)
    one, two = planted()
    with backend.open(noise=Shifted()) as store:  # type: ignore[arg-type]
        stream = create(store, ["a"])
        stream.close_through(FIRST + 1)
        stream.add({"a": one})
        stream.close_through(FIRST + 2)
        stream.add({"a": two})
        stream.close_through(FIRST + 3)
        make_backup(backend.path, tmp_path / "backup.db", audit_log=AuditLog(tmp_path / "log"))
    content = (tmp_path / "backup.db").read_bytes()
    assert not traces(content, one) and not traces(content, two)
    assert traces(content, one + two)
    with Reader.of_file(tmp_path / "backup.db") as reader:
        assert reader.status("doors").steps == 4


def confirmed(content: bytes, stream: Stream, keys: list[bytes], persons: list[str]) -> list[int]:
    """How many of these persons a thief of the files confirms: with the keys that are in the files;
    and with all of them."""
    hashes = stream.hashes(persons)
    counts = []
    for some in ([key for key in keys if key in content], keys):
        names = [
            {each, *(hashlib.blake2b(each, key=key, digest_size=16).digest() for key in some)}
            for each in hashes
        ]
        counts.append(sum(any(name in content for name in each) for each in names))
    return counts


@pytest.mark.parametrize("per", ["tick", "1d"])
def test_a_thief_confirms_no_person_of_an_ended_tick_or_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    """In the file, its log and all that is beside it."""
    monkeypatch.setattr(sqlite, "SCRUB_SECONDS", 0.0)
    persons = [f"person {number}" for number in range(300)]
    unit = fc.Unit(of="person", per=per)
    described = Description(name="doors", mechanism=DESIGN, ticks=HOURS, unit=unit)
    with SQLiteBackend(tmp_path).open() as store:
        stream = store.create(described, start_tick=FIRST)
        for open_tick in (FIRST, FIRST + 24):
            stream.add_many([Batch(counts={"all": 1}, person=each) for each in persons])
            keys = [body for _, body in stream._rows.read("secrets")]
            assert confirmed(bytes_of(tmp_path), stream, keys, persons) == [300, 300]
            stream.close_through(open_tick if per == "tick" else open_tick + 23)
            assert confirmed(bytes_of(tmp_path), stream, keys, persons) == [0, 0]
            if per == "tick":
                stream.close_through(open_tick + 23)


def test_true_counts_on_postgres(postgres_url: str, tmp_path: Path) -> None:
    """After a full vacuum of the tables that hold secrets, in the files of the tables."""
    import psycopg

    backend = PostgresBackend(tmp_path, postgres_url, "destroyed")

    def content() -> bytes:
        with psycopg.connect(backend.url, autocommit=True) as connection:
            for table in SECRET_TABLES:
                connection.execute(f"VACUUM FULL {table}".encode())
            connection.execute("CHECKPOINT")
            rows = connection.execute(
                "SELECT pg_relation_filepath(oid), pg_relation_filepath(nullif(reltoastrelid, 0))"
                " FROM pg_class WHERE relnamespace = 'destroyed'::regnamespace AND relkind IN"
                " ('r', 'i', 't')"
            ).fetchall()
            ((folder,),) = connection.execute("SHOW data_directory").fetchall()
        paths = [Path(folder) / path for row in rows for path in row if path]
        assert len(paths) > 20
        return b"".join(path.read_bytes() for path in paths)

    with backend.open(noise=Shifted()) as store:  # type: ignore[arg-type]
        check_destruction(store, content)
