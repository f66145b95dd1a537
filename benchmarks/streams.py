"""Durable streams against plain SQLite on the same disk, in turns: ``python -m
benchmarks.streams``.

The reference is one row per transaction in plain SQLite (WAL, ``synchronous = FULL``). Ingest is
acknowledged when it is durable: many clients, each waiting for its own answer, share commits. A
tick is closed with its fence moved and its release published.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import fadecount as fc
from fadecount.streams import Batch, Description, FileFence, SQLiteStore, Stream, Ticks

GROUP = 1024
LEAST_RATIO = 10.0
KEYS = [f"key{number}" for number in range(100)]


def single_rows(folder: Path, rows: int) -> float:
    """Commits per second of plain SQLite, one row each."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    for pragma in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
        connection.execute(pragma).fetchall()
    connection.execute("CREATE TABLE IF NOT EXISTS events (key TEXT, count INTEGER)")
    started = time.perf_counter()
    for number in range(rows):
        connection.execute("INSERT INTO events VALUES (?, ?)", (KEYS[number % 100], 1))
    elapsed = time.perf_counter() - started
    connection.close()
    return rows / elapsed


def ingest(store: SQLiteStore, batches: int, events: int, label: str) -> float:
    """Acknowledged events per second in group commits: so many batches, each with its own id, share
    one transaction."""
    intake, counts = store.intake("bench"), dict.fromkeys(KEYS[:events], 1)
    started = time.perf_counter()
    for start in range(0, batches, GROUP):
        ids = (f"{label}/{at}" for at in range(start, min(start + GROUP, batches)))
        assert all(intake.add_many([Batch(counts=counts, id=each) for each in ids]))
    return batches * events / (time.perf_counter() - started)


def ticks(stream: Stream, count: int) -> float:
    """Ticks closed, fenced and published per second, one by one."""
    started = time.perf_counter()
    for _ in range(count):
        stream.close_through(stream.open_tick or 0)
    return count / (time.perf_counter() - started)


def gap(stream: Stream, count: int) -> float:
    """Seconds for so many empty ticks at once."""
    started = time.perf_counter()
    for _ in stream.release(
        (stream.open_tick or 0) + count - 1, np.zeros((1, stream.status.width), dtype=np.int64)
    ):
        pass
    return time.perf_counter() - started


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument(
        "--folder", type=Path, help="where the files go (default: a temporary folder)"
    )
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
        folder = Path(made)
        description = Description(
            name="bench", mechanism=fc.Gradual(epsilon=0.1), ticks=Ticks(tick_seconds=60)
        )
        with SQLiteStore(
            folder / "state" / "streams.db", fence=FileFence(folder / "fence")
        ) as store:
            stream = store.create(description, keys=KEYS, start_tick=0)
            figures: dict[str, list[float]] = {
                "plain": [],
                "single": [],
                "hundred": [],
                "ticks": [],
            }
            for turn in range(arguments.repeats):
                figures["plain"].append(single_rows(folder, 500))
                figures["single"].append(ingest(store, 6400, 1, f"one{turn}"))
                figures["hundred"].append(ingest(store, 1280, 100, f"hundred{turn}"))
                figures["ticks"].append(ticks(stream, 50))
            plain, single, hundred, closed = (statistics.median(each) for each in figures.values())
            one = store.create(
                Description(name="gap", mechanism=description.mechanism, ticks=description.ticks),
                start_tick=0,
            )
            seconds = gap(one, 10_000_000)
    print(f"plain SQLite, one row per commit: {plain:,.0f} rows/s")
    print(
        f"acknowledged, one event per batch: {single:,.0f} events/s = {single / plain:.1f} x plain"
    )
    print(
        f"acknowledged, 100 events per batch: {hundred:,.0f} events/s = {hundred / plain:.1f} x"
        " plain"
    )
    print(f"ticks of 100 keys, one by one, fenced and published: {closed:,.0f} per second")
    print(f"a gap of 10,000,000 empty ticks: {seconds:.1f} s")
    return 0 if hundred >= LEAST_RATIO * plain else 1


if __name__ == "__main__":
    sys.exit(main())
