"""Persons: a run that caps what each person adds to a day, against the same run without that unit,
on the same CSV or Parquet file, in turns.

Run ``python -m benchmarks.persons`` (five million rows of a million persons on one day), or with
``--rows 1000000 --persons 200000``. Each run is in a fresh process. Time is that of the processor,
from the first row to the last figure; memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

LARGEST_RATIOS = {".csv": 2.0, ".parquet": 6.0}
"""Of a Parquet file the run without the unit does not even read the persons."""
LARGEST_MEGABYTES = 1000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SIDES = {"no unit": None, "4 events": 4, "persons": 1}
"""How many events of a person count a day; without the unit, all."""


def generate(folder: Path, rows: int, persons: int, days: int) -> list[Path]:
    """Each row of any person, at any time of the days, as CSV and as Parquet."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(2026)
    seconds = random.integers(0, days * 86_400, rows) + int(BEGIN.timestamp())
    who = pl.Series("person", random.integers(0, persons, rows)).cast(pl.String)
    moments = pl.Series("time", seconds * 1000).cast(pl.Datetime("ms"))
    frame = pl.DataFrame([moments, who]).with_columns(person="person " + pl.col("person"))
    paths = [folder / "events.csv", folder / "events.parquet"]
    frame.write_csv(paths[0], datetime_format="%Y-%m-%dT%H:%M:%SZ")
    frame.write_parquet(paths[1])
    return paths


def counted(side: str, path: Path, days: int) -> dict[str, float]:
    """Seconds of the processor and peak megabytes of a run in this process."""
    import fadecount as fc
    from fadecount.runs import run
    from fadecount.sources import SourceOptions

    options = SourceOptions(tick="1h", time="time")
    if (events := SIDES[side]) is not None:
        options = SourceOptions(
            tick="1h", time="time", person="person", per_person=events, person_per="1d"
        )
    mechanism = fc.Blocks(fc.Level(1, 0.3), fc.Level(24, 0.7))
    start = time.process_time()
    until = BEGIN + timedelta(days=days)
    counting = run(path, options, mechanism=mechanism, start=BEGIN, until=until)
    for _ in counting:
        pass
    seconds = time.process_time() - start
    with Path("/proc/self/status").open() as status:
        peak = next(line for line in status if line.startswith("VmHWM")).split()[1]
    counts = counting.report.rows_read - counting.report.rows_dropped
    return {"seconds": seconds, "megabytes": int(peak) / 1024, "rows": counts}


def measured(side: str, path: Path, days: int) -> dict[str, float]:
    """:func:`counted` in a fresh process."""
    words = [sys.executable, "-m", "benchmarks.persons", "--side", side, "--file", str(path)]
    words += ["--days", str(days)]
    return dict(json.loads(subprocess.run(words, check=True, capture_output=True).stdout))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.persons", description=__doc__)
    parser.add_argument("--rows", type=int, default=5 * 10**6)
    parser.add_argument("--persons", type=int, default=10**6)
    parser.add_argument("--days", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the files are written for a time")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side is not None:
        print(json.dumps(counted(arguments.side, arguments.file, arguments.days)))
        return 0
    missed = False
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for path in generate(Path(folder), arguments.rows, arguments.persons, arguments.days):
            rounds = [
                {side: measured(side, path, arguments.days) for side in SIDES}
                for _ in range(arguments.repeats)
            ]
            most = LARGEST_RATIOS[path.suffix]
            for side in SIDES:
                seconds = statistics.median(each[side]["seconds"] for each in rounds)
                ratio = statistics.median(
                    each[side]["seconds"] / each["no unit"]["seconds"] for each in rounds
                )
                megabytes = statistics.median(each[side]["megabytes"] for each in rounds)
                missed |= ratio > most or megabytes > LARGEST_MEGABYTES
                print(
                    f"{path.suffix[1:]:8} {side:8} {rounds[0][side]['rows']:>12,} rows count  "
                    f" {seconds:6.2f} s, {ratio:4.2f} (at most {most:g})   peak"
                    f" {megabytes:4.0f} MB (at most {LARGEST_MEGABYTES})"
                )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
