"""Where streams live: files only their owner may read, state that stays small, servers that lose
connections."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import MissingExtraError, ParameterError, StoreError
from fadecount.streams import Batch, Description, Ticks
from tests.streams.backends import Backend, PostgresBackend, SQLiteBackend, totals_of
from tests.streams.scripted import NamedNoise, expected

MECHANISM = fc.Gradual(epsilon=0.5)
DESCRIPTION = Description(name="doors", mechanism=MECHANISM, ticks=Ticks(tick_seconds=60))


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_files_are_private_whatever_the_mask(tmp_path: Path, mask: int) -> None:
    backend = SQLiteBackend(tmp_path)
    before = os.umask(mask)
    try:
        with backend.open() as store:
            store.create(DESCRIPTION, start_tick=0).close_through(3)
            files = [path for path in tmp_path.rglob("*") if path.is_file()]
    finally:
        os.umask(before)
    assert {"streams.db", "streams.db-wal", "streams.db-shm", "streams.db.lock"} <= {
        path.name for path in files
    }
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o177 == 0 for path in files if path.exists())


def test_state_per_key_grows_with_the_logarithm_of_time(backend: Backend) -> None:
    keys, delay = 1000, 3
    mechanism = fc.Gradual(epsilon=0.5, delay=delay)
    description = Description(name="doors", mechanism=mechanism, ticks=Ticks(tick_seconds=60))
    with backend.open() as store:
        stream = store.create(description, keys=[f"key{at}" for at in range(keys)], start_tick=1)
        for steps in (10, 100, 1000):
            stream.close_through(steps)
            size = backend.query("SELECT SUM(LENGTH(body)) FROM state")[0][0]
            assert float(size) / keys <= 8 * (math.ceil(math.log2(steps)) + 4) + 8 * delay


def test_nothing_that_holds_counts_shows_them(backend: Backend) -> None:
    with backend.open() as store:
        stream = store.create(DESCRIPTION, start_tick=0)
        batch = Batch(counts={"all": 987654321}, id="x")
        stream.add_many([batch])
        shown = f"{batch!r} {stream!r} {store!r} {stream.status!r} {stream._loaded!r}"
        assert "987654321" not in shown


def test_other_processes_accept_events_while_one_closes_ticks(
    tmp_path: Path, postgres_url: str
) -> None:
    backend = PostgresBackend(tmp_path, postgres_url, "several")
    with backend.open(noise=NamedNoise()) as leader, backend.open() as other:
        stream = leader.create(DESCRIPTION, start_tick=0)
        intake = other.intake("doors")
        assert intake.add_many([Batch(counts={"all": 2}, id="a"), Batch(counts={"all": 3})]) == [
            True,
            True,
        ]
        assert stream.add({"all": 2}, id="a") is False
        rows = [stream.close_through(0)[0].values]
        assert intake.add_many(
            [Batch(counts={"all": 4}, id="a"), Batch(counts={"all": 5}, id="b")]
        ) == [False, True]
        rows.append(stream.close_through(1)[0].values)
        stream.declare(["new"])
        assert intake.add_many([Batch(counts={"new": 1})]) == [True], (
            "keys declared elsewhere are known"
        )
    np.testing.assert_array_equal(np.concatenate(rows), expected(MECHANISM, np.array([[5], [5]])))


def test_a_lost_connection_ends_the_writer_and_another_takes_over(
    tmp_path: Path, postgres_url: str
) -> None:
    import psycopg

    backend = PostgresBackend(tmp_path, postgres_url, "lost")
    noise = NamedNoise()
    first = backend.open(noise=noise)
    stream = first.create(DESCRIPTION, start_tick=0)
    stream.close_through(4)
    stream.add({"all": 3}, id="a")
    ((process,),) = first._database.query("SELECT pg_backend_pid()")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", (process,))
    with pytest.raises(StoreError, match="store failed: PostgreSQL") as refused:
        stream.close_through(5)
    assert "\n" not in str(refused.value)
    with pytest.raises(StoreError, match="left it in doubt"):
        stream.close_through(5)
    with backend.open(noise=noise) as second:
        taken = second.open("doors")
        assert taken.add({"all": 3}, id="a") is False
        taken.close_through(6)
    first.close()
    with backend.reader() as reader:
        values = np.array(list(totals_of(reader).values()))
    inputs = np.zeros((7, 1), dtype=np.int64)
    inputs[5] = 3
    np.testing.assert_array_equal(values, expected(MECHANISM, inputs))


def test_an_unreachable_server_and_a_missing_package_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fadecount.streams import Reader

    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="is the server reachable"):
        Reader.of_server("postgresql://nobody@localhost:1/none")
    with pytest.raises(ParameterError, match=r"must be an address .* 'mysql://\.\.\.'; such"):
        Reader.of_server("mysql://user:secret@localhost/none")
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[postgres\]'"):
        Reader.of_server("postgresql://nobody@localhost:1/none")
