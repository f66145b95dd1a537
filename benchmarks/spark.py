"""What privacy costs on Spark: figures of a table, against the same counts by groupBy without
noise.

    python -m benchmarks.spark [--events 2000000] [--keys 20000] [--days 4] [--repeats 3]

Both jobs read the same Parquet files, and write a row for every key in every hour, day and month
(UTC), also where nothing happened, with the same columns. The figures have a later stage on top of
that: more rows. They are taken in turns; the fastest run of each counts. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import fadecount as fc
from fadecount.mechanisms import scale_of
from fadecount.noise import DiscreteLaplace, KeyedNoise
from fadecount.sources import SourceOptions
from fadecount.spark import Stream, figures

START, HOUR = 1_767_225_600, 3600
MECHANISM = fc.Blocks(
    fc.Level(1, 0.5), fc.Level(24, 0.8, later=((26, 2.0),)), fc.Level(720, 1.0, lag=26)
)
MOST_TIMES, MOST_NANOSECONDS = 1.3, 12.0


def make_events(root: Path, *, events: int, keys: int, hours: int) -> None:
    """Eight files of events, and the declared keys."""
    source = np.random.default_rng(5)
    names = np.array([f"page-{number:07}" for number in range(keys)])
    pd.DataFrame({"page": names}).to_parquet(root / "keys.parquet")
    (root / "in").mkdir()
    for number in range(8):
        seconds = START + source.integers(0, hours * HOUR, events // 8)
        at = pd.to_datetime(seconds, unit="s", utc=True)
        pages = names[source.integers(0, keys, events // 8)]
        path = root / "in" / f"{number}.parquet"
        pd.DataFrame({"at": at, "page": pages}).to_parquet(path, coerce_timestamps="us")


def private(session: Any, root: Path, place: Path, hours: int) -> None:
    """The figures that are public when these hours are over."""
    keys = pd.read_parquet(root / "keys.parquet")["page"].tolist()
    stream = Stream(
        MECHANISM,
        SourceOptions(tick="1h", time="at", key="page", keys=keys),
        start="2026-01-01",
        secret_file=str(root / "secret"),
        state=str(place / "state"),
        fence=str(place / "fence"),
    )
    until = datetime.fromtimestamp(START + hours * HOUR, UTC)
    rows = figures(session.read.parquet(str(root / "in")), stream, until=until)
    rows.write.parquet(str(place / "out"))


def plain(session: Any, root: Path, place: Path, hours: int) -> None:
    """The counts of the same blocks, as one would write it without privacy."""
    events = session.read.parquet(str(root / "in"))
    keys = session.read.parquet(str(root / "keys.parquet"))
    levels = []
    for per, length, unit in (("1h", 1, "hour"), ("1d", 24, "day")):
        last = hours // length
        starts = session.range(last).selectExpr(
            f"timestamp_seconds({START}L + id * {length * HOUR}L) as start",
            f"timestamp_seconds({START}L + (id + 1) * {length * HOUR}L) as end",
        )
        counts = events.groupBy(sql.date_trunc(unit, "at").alias("start"), "page").count()
        dense = keys.crossJoin(sql.broadcast(starts)).join(counts, ["start", "page"], "left")
        levels.append(
            dense.selectExpr(
                "'counts' as stream",
                f"'{per}' as per",
                "start",
                "end",
                "page as key",
                "0 as stage",
                "'final' as status",
                "coalesce(count, 0L) as value",
                "coalesce(count, 0L) as low",
                "coalesce(count, 0L) as high",
                "end as published",
            )
        )
    levels[0].unionByName(levels[1]).write.parquet(str(place / "out"))


def draw_nanoseconds() -> float:
    """The processor time of one keyed draw, in bulk: the best of several runs."""
    keys = [f"page-{number:07}" for number in range(1000)]
    noise = KeyedNoise(b"b" * 32, epoch="e", stream="s", mechanism="m", keys=keys)
    best = float("inf")
    for number in range(30):
        distribution = DiscreteLaplace(scale_of(0.5))
        began = time.process_time()
        noise.many(distribution, number, range(1), range(1, 1001), len(keys))
        best = min(best, time.process_time() - began)
    return best * 1e9 / (1000 * len(keys))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark", description=(__doc__ or "").partition("\n")[0]
    )
    defaults = {"events": 2_000_000, "keys": 20_000, "days": 4, "repeats": 3}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    wanted = parser.parse_args(words)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    jobs: dict[str, Callable[..., None]] = {"plain": plain, "private": private}
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="fadecount-benchmark-") as folder:
        root, hours = Path(folder), 24 * wanted.days
        (root / "secret").write_text("benchmark " * 4)
        make_events(root, events=wanted.events, keys=wanted.keys, hours=hours)
        for number in range(wanted.repeats + 1):  # the first one only warms up
            for name, job in jobs.items():
                place = root / f"{name}-{number}"
                began = time.perf_counter()
                job(session, root, place, hours)
                if number:
                    seconds[name].append(round(time.perf_counter() - began, 2))
                rows[name] = session.read.parquet(str(place / "out")).count()
                print(json.dumps({name: seconds[name]}), file=sys.stderr, flush=True)
    session.stop()
    report = {
        "events": wanted.events,
        "rows": rows,
        "seconds": seconds,
        "cost of privacy": round(min(seconds["private"]) / min(seconds["plain"]), 3),
        "nanoseconds per keyed draw": round(draw_nanoseconds(), 1),
    }
    print(json.dumps(report, indent=2))
    good = report["cost of privacy"] <= MOST_TIMES
    return 0 if good and report["nanoseconds per keyed draw"] <= MOST_NANOSECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
