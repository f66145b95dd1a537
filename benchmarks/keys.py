"""Keys that appear by themselves: a day with a million distinct keys through a run, against polars
that counts the same persons under the same keys and writes all counts into an SQLite file.

Run ``python -m benchmarks.keys`` (a million keys, two million rows, each of another person), or
with ``--keys 100000``. Each side runs in a fresh process, in turns. Time is that of the processor,
memory the peak; both of the whole process.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

LARGEST_RATIO = 2.0
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def generate(path: Path, keys: int) -> None:
    """Each key once, and as many rows more under few of them: a long tail."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(2026)
    numbers = np.concatenate([np.arange(keys), random.zipf(1.3, keys) % keys])
    random.shuffle(numbers)
    seconds = random.integers(0, 86_400, 2 * keys) + int(BEGIN.timestamp())
    frame = pl.DataFrame(
        {
            "time": pl.Series(seconds * 1000).cast(pl.Datetime("ms")),
            "key": pl.Series(numbers).cast(pl.String),
            "person": pl.Series(random.permutation(2 * keys)).cast(pl.String),
        }
    )
    frame = frame.with_columns(key="/page/" + pl.col("key"), person="person " + pl.col("person"))
    frame.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")


def without_privacy(path: Path, folder: Path) -> int:
    """Count distinct persons with polars, and store every count."""
    import polars as pl

    texts = dict.fromkeys(("time", "key", "person"), pl.String())
    moments = pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%SZ")
    table = (
        pl.scan_csv(path, schema=texts)
        .group_by(moments.dt.date().alias("day"), "key")
        .agg(pl.col("person").n_unique())
        .with_columns(pl.col("day").cast(pl.String))
        .collect(engine="streaming")
    )
    with sqlite3.connect(folder / "counts.db") as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE counts (day, key, persons, PRIMARY KEY (day, key))")
        database.executemany("INSERT INTO counts VALUES (?, ?, ?)", table.iter_rows())
    return len(table)


def with_privacy(path: Path, folder: Path) -> int:
    """Run a stream in which keys appear by themselves."""
    import fadecount as fc
    from fadecount.runs import run
    from fadecount.sources import SourceOptions
    from fadecount.streams import FileFence, SQLiteStore

    options = SourceOptions(
        tick="1h", time="time", key="key", discover=True, person="person", person_per="1d"
    )
    with SQLiteStore(folder / "state" / "s.db", fence=FileFence(folder / "fence")) as store:
        under_way = run(
            path,
            options,
            store=store,
            mechanism=fc.Blocks(fc.Level(1, 0.3), fc.Level(24, 0.7)),
            discovery=fc.Discovery("1d", ((0, 1.0), (720, 3.0)), 1e-9),
            start=BEGIN,
            until=BEGIN + timedelta(days=1),
        )
        for _ in under_way:
            pass
        return len(under_way.published.discovered()["key"])


SIDES = {"polars": without_privacy, "fadecount": with_privacy}


def measured(side: str, path: Path) -> dict[str, float]:
    """Seconds of the processor and peak megabytes of a side, in a fresh process."""
    words = [sys.executable, "-m", "benchmarks.keys", "--side", side, "--file", str(path)]
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True).stdout))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keys", description=__doc__)
    parser.add_argument("--keys", type=int, default=10**6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        with tempfile.TemporaryDirectory() as folder:
            found = SIDES[arguments.side](arguments.file, Path(folder))
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "megabytes": megabytes, "keys": found}))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.csv"
        generate(path, arguments.keys)
        rounds = [{side: measured(side, path) for side in SIDES} for _ in range(arguments.repeats)]
    missed = False
    for what in ("seconds", "megabytes"):
        one, other = (statistics.median(each[side][what] for each in rounds) for side in SIDES)
        missed |= other > LARGEST_RATIO * one
        print(f"{what}: polars {one:.2f}, fadecount {other:.2f}: {other / one:.2f} x")
    shown = [int(each["keys"]) for each in rounds[-1].values()]
    print(f"{shown[0]:,} keys, of which {shown[1]:,} appeared by the end of the day")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
