"""Figures of blocks against the plain thing, in turns: ``python -m benchmarks.figures``.

Closing: ticks of 100,000 keys, over a day of minutes, against writing the same counts as plain
numbers to the same kind of database, one commit each. The bound is 1.5 for the mean; the worst tick
is reported. Reading: a million figures as a data frame, against reading the same rows by SQL and
making a frame of them. The bound is 2.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import fadecount as fc
from fadecount.streams import Description, FileFence, SQLiteStore, Stream, Ticks

MINUTES = Ticks(tick_seconds=60)
MOST_CLOSING, MOST_READING = 1.5, 2.0


def design() -> fc.Mechanism:
    """The readable plan of a year of minutes."""
    return fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4}).mechanism


def plain_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"):
        connection.execute(pragma).fetchall()
    connection.execute("CREATE TABLE counts (tick INTEGER PRIMARY KEY, body BLOB)")
    return connection


class Costs:
    """What repeated work took: seconds on the clock, seconds of the processor, bytes written."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processor: list[float] = []
        self.written = 0

    def add(self, work: Callable[[], object]) -> None:
        """Do some work and note its costs."""
        written, clock, processor = _bytes_written(), time.perf_counter(), time.process_time()
        work()
        self.clock.append(time.perf_counter() - clock)
        self.processor.append(time.process_time() - processor)
        self.written += _bytes_written() - written

    def text(self) -> str:
        mean, median = 1e3 * statistics.mean(self.clock), 1e3 * statistics.median(self.clock)
        processor, each = 1e3 * statistics.mean(self.processor), self.written / len(self.clock)
        return (
            f"mean {mean:.1f} ms, median {median:.1f}, worst {1e3 * max(self.clock):.1f};"
            f" processor {processor:.1f} ms, {each / 1e6:.2f} MB written"
        )


def _bytes_written() -> int:
    """How many bytes this process has given to the system to write, where it says so."""
    counters = Path("/proc/self/io")
    lines = counters.read_text().splitlines() if counters.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("wchar")), 0)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def close(stream: Stream, tick: int, rows: NDArray[np.int64]) -> None:
    """Close one tick."""
    for _ in stream.release(tick, rows):
        pass


def closing(store: SQLiteStore, folder: Path, keys: int, ticks: int) -> float:
    """Close ticks one by one, each beside its plain write; return the ratio of the means."""
    names = [f"key{number}" for number in range(keys)]
    description = Description(name="close", mechanism=design(), ticks=MINUTES)
    stream = store.create(description, keys=names, start_tick=0)
    plain = plain_database(folder / "plain.db")
    counts = np.random.default_rng(1).poisson(2.0, (8, 1, keys)).astype(np.int64)
    ours, theirs = Costs(), Costs()
    for tick in range(ticks):
        rows = counts[tick % 8]
        values = (tick, rows.tobytes())
        theirs.add(partial(plain.execute, "INSERT INTO counts VALUES (?, ?)", values))
        ours.add(partial(close, stream, tick, rows))
    plain.close()
    ratio = statistics.mean(ours.clock) / statistics.mean(theirs.clock)
    processor = statistics.mean(ours.processor) / statistics.mean(theirs.processor)
    print(
        f"closing {ticks:,} ticks of {keys:,} keys: {ratio:.2f} x plain counts"
        f" (processor {processor:.2f} x)"
    )
    print(f"  ours: {ours.text()}")
    print(f"  plain: {theirs.text()}")
    return ratio


def reading(store: SQLiteStore, folder: Path, repeats: int) -> float:
    """Read a million figures as a frame, beside the same rows by SQL; return the median ratio."""
    keys, days = [f"key{number:02}" for number in range(20)], 35
    description = Description(name="read", mechanism=design(), ticks=MINUTES)
    stream = store.create(description, keys=keys, start_tick=0)
    counts = np.random.default_rng(2).poisson(2.0, (days * 1440, len(keys))).astype(np.int64)
    for _ in stream.release(0, counts):
        pass
    reader = store.reader()
    frame = reader.frame("read", per="1m")
    plain = sqlite3.connect(folder / "rows.db", isolation_level=None)
    columns = "start INTEGER, end INTEGER, key TEXT, value INTEGER, low INTEGER, high INTEGER,"
    plain.execute(f"CREATE TABLE rows ({columns} status TEXT, partial INTEGER, published INTEGER)")
    plain.execute("BEGIN")
    times = [pl.col(name).dt.epoch("s") for name in ("start", "end", "published")]
    rows = frame.with_columns(times).rows()
    plain.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    plain.execute("COMMIT")

    def by_sql() -> object:
        rows = plain.execute("SELECT * FROM rows").fetchall()
        return pl.DataFrame(rows, schema=frame.columns, orient="row", infer_schema_length=1)

    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(timed(lambda: reader.frame("read", per="1m")))
        theirs.append(timed(by_sql))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(
        f"{len(frame):,} figures as a frame: {statistics.median(ours):.3f} s ="
        f" {ratio:.2f} x the same rows by SQL"
    )
    plain.close()
    return ratio


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--keys", type=int, default=100_000, metavar="N")
    parser.add_argument("--ticks", type=int, default=1440, metavar="N")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        fence = FileFence(folder / "fence")
        with SQLiteStore(folder / "state" / "streams.db", fence=fence) as store:
            read = reading(store, folder, arguments.repeats)
            closed = closing(store, folder, arguments.keys, arguments.ticks)
    return 0 if read <= MOST_READING and closed <= MOST_CLOSING else 1


if __name__ == "__main__":
    sys.exit(main())
