"""Publications: reading one CSV file for three measures, or with persons, against one measure of
events, in turns.

Run ``python -m benchmarks.measures`` (five million rows of a million persons on one day) or with
``--rows 1000000``. Time is that of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from fadecount.mechanisms import Unit
from fadecount.planning.publication import Measure, Publication
from fadecount.sources.files import count_rows
from fadecount.sources.measures import PublicationRows

KEYS = tuple(f"key{number:04d}" for number in range(1000))
RIDES = Measure(name="rides", key=("key",), keys=KEYS, per=("1h", "1d"))
MINUTES = Measure(name="minutes", sum="value", max=120, per=("1h", "1d"))
ALL = Measure(name="all", key=("key",), keys=KEYS, overall=True, per=("1h", "1d"))
RIDERS = Measure(name="riders", count="persons", key=("key",), keys=KEYS, overall=True)
DAY = Unit(of="person", per="1d", events=4)
SIDES: dict[str, tuple[Unit, tuple[Measure, ...]]] = {
    "one": (Unit(), (RIDES,)),
    "three": (Unit(), (RIDES, MINUTES, ALL)),
    "persons": (DAY, (RIDES,)),
    "three of persons": (DAY, (RIDES, MINUTES, RIDERS)),
}
BOUNDS = {"three": ("one", 1.8), "persons": ("one", 2.2), "three of persons": ("persons", 1.8)}
"""Of each side: with which other one it is compared, and the largest ratio."""


def generate(path: Path, rows: int, persons: int) -> None:
    """Each row of any person, at any time of the day."""
    random = np.random.default_rng(2026)
    seconds = random.integers(0, 86_400, rows) + 1_772_323_200
    who = pl.Series("person", random.integers(0, persons, rows)).cast(pl.String)
    key = pl.Series("key", random.integers(0, len(KEYS), rows))
    frame = pl.DataFrame(
        [pl.Series("time", seconds * 1000).cast(pl.Datetime("ms")), who, key]
    ).with_columns(
        pl.col("key").replace_strict(range(len(KEYS)), KEYS),
        pl.Series("value", random.integers(0, 100, rows)),
        person="person " + pl.col("person"),
    )
    frame.write_csv(path, datetime_format="%Y-%m-%dT%H:%M:%SZ")


def seconds_of(side: str, path: Path) -> float:
    """Seconds of the processor that reading takes."""
    unit, measures = SIDES[side]
    publication = Publication(
        name="rides",
        zone="UTC",
        start="2026-03-01",
        unit=unit,
        promise={"ever": 1},
        measures=measures,
    )
    wanted = PublicationRows(publication=publication)
    start = time.process_time()
    result = count_rows(path, wanted)
    taken = time.process_time() - start
    assert result.series[0].counts.sum() + result.report.rows_dropped == result.report.rows_read
    return taken


def main() -> int:
    """Print one line per side; the exit status says whether the bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measures", description=__doc__)
    parser.add_argument("--rows", type=int, default=5 * 10**6)
    parser.add_argument("--persons", type=int, default=10**6)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        generate(path, arguments.rows, arguments.persons)
        rounds = [
            {side: seconds_of(side, path) for side in SIDES} for _ in range(arguments.repeats)
        ]
    for side in SIDES:
        line = f"{side:18}{statistics.median(each[side] for each in rounds):6.2f} s"
        if side in BOUNDS:
            other, most = BOUNDS[side]
            ratio = statistics.median(each[side] / each[other] for each in rounds)
            missed |= ratio > most
            line += f"   {ratio:4.2f} of {other} (at most {most:g})"
        print(line)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
