"""The events of the crash campaign, and what a correct job releases of them."""

from __future__ import annotations

import json
import os
from collections import Counter as Tally
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TICK = 10
SECRET = "".join(f"{number:02x}" for number in range(32))


@dataclass(frozen=True)
class Part:
    """The events of one file: seconds after the start, and keys by number."""

    seconds: np.ndarray[Any, Any]
    chosen: np.ndarray[Any, Any]


def make_events(
    root: Path, *, start: int, events: int, keys: int, files: int
) -> tuple[list[str], list[Part]]:
    """Writes the input, and returns the keys and the events, file by file. Some events come late,
    some before their time."""
    source = np.random.default_rng(20260101)
    names = [f"page-{number:07}" for number in range(keys)]
    pd.DataFrame({"page": names}).to_parquet(root / "keys.parquet")
    (root / "in").mkdir()
    parts = []
    for number in range(files):
        part = events // files + (number < events % files)
        seconds = number * TICK + source.integers(0, TICK, part)
        old = source.random(part) < 0.1
        seconds = np.maximum(seconds - np.where(old, source.integers(0, 3 * TICK, part), 0), 0)
        chosen = np.minimum(source.zipf(1.3, part) - 1, source.integers(0, keys, part))
        frame = pd.DataFrame(
            {
                "at": pd.to_datetime(start + seconds, unit="s", utc=True),
                "page": np.array(names)[chosen],
            }
        )
        path = root / "in" / f"{number:04}.parquet"
        frame.to_parquet(path, coerce_timestamps="us")
        os.utime(path, (start + number, start + number))  # Spark reads the oldest file first
        parts.append(Part(seconds, chosen))
    return names, parts


def logged_batches(checkpoint: Path) -> list[tuple[int, int]]:
    """For each micro-batch, by Spark's log: when it began (in milliseconds), and the last entry of
    files it read."""
    found = []
    for log in sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)):
        _, metadata, files, *_ = log.read_text().splitlines()
        found.append(
            (
                int(json.loads(metadata)["batchTimestampMs"]),
                -1 if files == "-" else int(json.loads(files)["logOffset"]),
            )
        )
    return found


def micro_batches(checkpoint: Path) -> list[tuple[int, list[int]]]:
    """The clock of each micro-batch in seconds, and the numbers of the files that Spark put into
    it.

    Mostly one file, but for a driver that was killed after it wrote a file down and before it began
    a micro-batch with it: the next driver takes another file along.
    """
    places: dict[int, int] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            places[int(Path(entry["path"]).stem)] = int(entry["batchId"])
    batches, before = [], -1
    for clock, last in logged_batches(checkpoint):
        batches.append(
            (
                clock // 1000,
                sorted(file for file, place in places.items() if before < place <= last),
            )
        )
        before = last
    return batches


def ticks_closed(clock: int, start: int) -> int:
    """How many ticks are over at a moment, in seconds."""
    return max(0, clock - start) // TICK


def counts_of(
    parts: list[Part], batches: list[tuple[int, list[int]]], names: list[str], *, start: int
) -> tuple[Tally[tuple[int, str]], int]:
    """The counts (tick, key) that a correct job freezes, and how many events came late."""
    counts: Tally[tuple[int, str]] = Tally()
    late = open_tick = 0
    for clock, files in batches:
        for part in (parts[file] for file in files):
            ticks = part.seconds // TICK
            late += int(np.count_nonzero(ticks < open_tick))
            for tick, key in zip(np.maximum(ticks, open_tick).tolist(), part.chosen, strict=True):
                counts[tick, names[key]] += 1
        open_tick = max(open_tick, ticks_closed(clock, start))
    return counts, late


def all_read(checkpoint: Path, files: int) -> bool:
    """Whether micro-batches with every file are committed, and so is one that began two ticks after
    the last of them."""
    committed = {int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")}
    batches = [
        batch for number, batch in enumerate(micro_batches(checkpoint)) if number in committed
    ]
    with_files = [clock for clock, some in batches if some]
    return (
        sum(len(some) for _, some in batches) == files
        and batches[-1][0] >= with_files[-1] + 2 * TICK
    )
