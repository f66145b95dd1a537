"""Windows against reading the releases that they are made of, in turns: ``python -m
benchmarks.windows``.

A million windows: 1,000 days of 1,000 keys, from ticks of a day (each window is one tick: the
hardest case) and of six hours. The bound is 3 times the time of reading the releases of the same
stream with their intervals. The view without negative counts is measured too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fadecount as fc
from fadecount.streams import Description, FileFence, Reader, SQLiteStore, Ticks

KEYS = [f"key{number:04}" for number in range(1000)]
DAYS = 1000
MOST_RATIO = 3.0


def fill(store: SQLiteStore, name: str, tick_seconds: int) -> None:
    """A stream of 1,000 days."""
    description = Description(
        name=name, mechanism=fc.Gradual(epsilon=0.1), ticks=Ticks(tick_seconds=tick_seconds)
    )
    stream = store.create(description, keys=KEYS, start_tick=19_000 * 86_400 // tick_seconds)
    steps = DAYS * 86_400 // tick_seconds
    for first in range(0, steps, 500):
        rows = np.full((min(500, steps - first), len(KEYS)), 10, dtype=np.int64)
        for _ in stream.release((stream.open_tick or 0) + len(rows) - 1, rows):
            pass


def read(reader: Reader, name: str) -> int:
    """Every release with its interval."""
    return sum(
        len(piece.values) + int(piece.half_widths[0] >= 0) for piece in reader.releases(name)
    )


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windows", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as made:
        fence = FileFence(Path(made) / "fence")
        with SQLiteStore(Path(made) / "state" / "streams.db", fence=fence) as store:
            ratios = [
                measure(store, name, tick_seconds, arguments.repeats)
                for name, tick_seconds in (
                    ("ticks-of-a-day", 86_400),
                    ("ticks-of-six-hours", 21_600),
                )
            ]
    return 1 if max(ratios) > MOST_RATIO else 0


def measure(store: SQLiteStore, name: str, tick_seconds: int, repeats: int) -> float:
    """Print what a stream takes, and return the ratio of its windows to reading."""
    fill(store, name, tick_seconds)
    reader = store.reader()
    figures: dict[str, list[float]] = {"read": [], "windows": [], "view": []}
    for _ in range(repeats):
        figures["read"].append(timed(lambda: read(reader, name)))
        figures["windows"].append(timed(lambda: reader.windows(name, per="1d")))
        figures["view"].append(timed(lambda: reader.windows(name, per="1d", nonnegative=True)))
    reading, windows, view = (statistics.median(each) for each in figures.values())
    print(f"{name}: reading all releases takes {reading:.3f} s")
    print(f"  {DAYS * len(KEYS):,} windows: {windows:.3f} s = {windows / reading:.2f} x")
    print(f"  without negative counts: {view:.3f} s = {view / reading:.2f} x")
    return windows / reading


if __name__ == "__main__":
    sys.exit(main())
