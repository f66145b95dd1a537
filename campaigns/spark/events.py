"""The events of the crash campaign, and what a correct job releases of them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.spark.oracle import START

TICK = 60


@dataclass(frozen=True)
class Part:
    """The events of one file: seconds after the start, and keys by number."""

    seconds: np.ndarray[Any, Any]
    chosen: np.ndarray[Any, Any]


def make_events(root: Path, *, events: int, keys: int, files: int) -> tuple[list[str], list[Part]]:
    """Writes the input, and returns the keys and the events, file by file."""
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
        frame = pd.DataFrame({"at": pd.to_datetime(START + seconds, unit="s", utc=True), "page": np.array(names)[chosen]})
        path = root / "in" / f"{number:04}.parquet"
        frame.to_parquet(path, coerce_timestamps="us")
        os.utime(path, (START + number, START + number))  # Spark reads the oldest file first
        parts.append(Part(seconds, chosen))
    return names, parts


def micro_batches(checkpoint: Path) -> list[list[int]]:
    """Which files Spark put into which micro-batch, by its own logs.

    One each, but for a driver that was killed after it wrote a file down and before it began a micro-batch with it: the next
    driver takes another file along.
    """
    places: dict[int, int] = {}
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            entry = json.loads(line)
            places[int(Path(entry["path"]).stem)] = int(entry["batchId"])
    offsets: dict[int, int] = {}
    for log in (checkpoint / "offsets").glob("[0-9]*"):
        offsets[int(log.name)] = json.loads(log.read_text().splitlines()[-1])["logOffset"]
    batches, before = [], -1
    for number in sorted(offsets):
        batches.append(sorted(file for file, place in places.items() if before < place <= offsets[number]))
        before = offsets[number]
    return batches


def counts_of(parts: list[Part], batches: list[list[int]], keys: int) -> tuple[np.ndarray[Any, Any], int]:
    """The counts (tick, key) that a correct job releases, and how many events came late."""
    counts = np.zeros((len(parts) + 2, keys), dtype=np.int64)
    watermark = late = 0
    for files in batches:
        closed = watermark // TICK
        for part in (parts[file] for file in files):
            late += int(np.count_nonzero(part.seconds // TICK < closed))
            np.add.at(counts, (np.maximum(part.seconds // TICK, closed), part.chosen), 1)
            watermark = max(watermark, int(part.seconds.max()))
    return counts[: watermark // TICK], late
