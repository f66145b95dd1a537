"""The seam between sources and streams: counts per tick and key, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROWS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class TickBatch:
    """Three arrays of one length: row i says that ``counts[i]`` was counted in tick ``ticks[i]`` under key ``keys[i]``.

    Guarantees: int64 throughout; ticks never decrease within a batch nor from one batch to the next; keys are indices into the
    declared keys (0 where none are declared); counts are >= 0. A pair of tick and key may occur more than once: its counts add
    up. A tick that appears says that every earlier tick is complete.
    """

    ticks: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ticks)

    def __repr__(self) -> str:
        return f"TickBatch({len(self.ticks)} rows)"  # the counts are what is protected: never shown


def no_rows() -> TickBatch:
    """A batch that says nothing."""
    return TickBatch(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def batches_of(counts: dict[tuple[int, int], int]) -> Iterator[TickBatch]:
    """The sums per (tick, key) as batches, sorted by tick and then by key."""
    order = sorted(counts)
    for start in range(0, len(order), ROWS_PER_BATCH):
        part = order[start : start + ROWS_PER_BATCH]
        pairs = np.array(part, dtype=np.int64).reshape(-1, 2)
        sums = np.fromiter((counts[pair] for pair in part), dtype=np.int64, count=len(part))
        yield TickBatch(pairs[:, 0].copy(), pairs[:, 1].copy(), sums)
