"""Files: reading them, and a whole run, against polars alone, on the same file, in turns.

Run ``python -m benchmarks.files`` (a million rows) or ``python -m benchmarks.files --rows
10000000`` (the stated size). The reference is the fastest query known to us that reads the same
columns and groups them by tick and key: it trusts every row, and parses the time with one fixed
layout. Memory is the peak of a fresh process that only reads the file.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

import fadecount as fc
from fadecount.runs import run
from fadecount.sources import SourceOptions, read

KEYS = tuple(f"key{number:04d}" for number in range(1000))
OPTIONS = SourceOptions(tick=3600, time="time", key="key", keys=KEYS)
BEGIN, DAYS = datetime(2026, 1, 1, tzinfo=UTC), 30
BLOCKS = fc.plan(tick="1h", loss={"1d": 0.5, "30d": 1.0, "1y": 2.0}).mechanism
LARGEST_RATIO = 2.0
LARGEST_MEGABYTES = 1000


def generate(folder: Path, rows: int) -> list[Path]:
    """One CSV and one Parquet file with the same events: 30 days, 1,000 keys, in no order of
    time."""
    random = np.random.default_rng(2026)
    seconds = random.integers(0, DAYS * 86_400, rows) + int(BEGIN.timestamp())
    frame = pl.DataFrame({"time": pl.Series(seconds * 1000).cast(pl.Datetime("ms"))})
    frame = frame.with_columns(
        pl.Series("key", random.integers(0, len(KEYS), rows)).replace_strict(
            range(len(KEYS)), KEYS
        ),
        pl.Series("value", random.integers(0, 100, rows)),
    )
    paths = [folder / "events.csv", folder / "events.parquet"]
    frame.write_csv(paths[0], datetime_format="%Y-%m-%dT%H:%M:%SZ")
    frame.write_parquet(paths[1])
    return paths


def with_polars(path: Path) -> int:
    """Read and group with polars alone."""
    if path.suffix == ".csv":
        rows = pl.scan_csv(path, schema={"time": pl.String, "key": pl.String, "value": pl.Int64})
        moments = pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%SZ")
    else:
        rows, moments = pl.scan_parquet(path), pl.col("time")
    groups = (
        rows.group_by(moments.dt.truncate("1h"), "key").agg(pl.len()).collect(engine="streaming")
    )
    return int(groups["len"].sum())


def with_fadecount(path: Path) -> int:
    """Read, judge and group with fadecount."""
    return int(read(path, OPTIONS).counts.sum())


def with_run(path: Path) -> int:
    """Read, judge and group with fadecount, and publish figures of hours, days and the month."""
    until = BEGIN + timedelta(days=DAYS)
    counting = run(path, OPTIONS, mechanism=BLOCKS, start=BEGIN, until=until)
    for _ in counting:
        pass
    assert len(counting.published.figures("1d")) == DAYS
    return counting.report.rows_read


def peak_megabytes(path: Path) -> float:
    """The peak memory of a process that reads the file with fadecount, as Linux accounts for it."""
    program = (  # not getrusage: its peak is inherited from the process that starts this one
        "import sys; from fadecount.sources import SourceOptions, read\nkeys ="
        " tuple(f'key{n:04d}' for n in range(1000))\nread(sys.argv[1],"
        " SourceOptions(tick=3600, time='time', key='key', keys=keys))\nprint(next(line for line in"
        " open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(path)], check=True, capture_output=True, text=True
    )
    return int(answer.stdout) / 1024


def compare(path: Path, repeats: int) -> list[float]:
    """Median seconds of the reference, of reading and of a whole run, measured in turns."""
    readers = (with_polars, with_fadecount, with_run)
    if len({reader(path) for reader in readers}) > 1:
        raise AssertionError("the readers disagree")
    taken: list[list[float]] = [[] for _ in readers]
    for _ in range(repeats):
        for reader, seconds in zip(readers, taken, strict=True):
            start = time.perf_counter()
            reader(path)
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in taken]


def main(arguments: list[str] | None = None) -> int:
    """Print one line per format; the exit status says whether the bounds hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args(arguments)
    held = True
    with tempfile.TemporaryDirectory() as folder:
        for path in generate(Path(folder), chosen.rows):
            alone, *ours = compare(path, chosen.repeats)
            memory = peak_megabytes(path)
            held &= max(ours) <= LARGEST_RATIO * alone and memory <= LARGEST_MEGABYTES
            shown = "".join(
                f"   {name} {seconds:6.2f} s, {seconds / alone:4.2f} (at most {LARGEST_RATIO:g})"
                for name, seconds in zip(("reading", "run"), ours, strict=True)
            )
            print(
                f"{path.suffix[1:]:8} {chosen.rows:>12,} rows   polars alone {alone:6.2f} s{shown} "
                f"  peak {memory:4.0f} MB (at most {LARGEST_MEGABYTES})"
            )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
