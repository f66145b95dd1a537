"""Calendars: which steps the blocks of each level hold.

Position 0 is the stream's beginning and an end of every level; a block holds the steps after the
end before it up to its own end. Blocks nest, and their ends are fixed before they open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

UNKNOWN = 1 << 62
"""The end of a block that a calendar does not know yet. Later than every step."""


class Calendar(Protocol):
    """The blocks of each level. All methods but ``edges`` take integers or arrays of them."""

    def frontier(self, level: int, steps: Any) -> Any:
        """The end of the last block of the level that ends at or before the step (0: none)."""

    def end(self, level: int, steps: Any) -> Any:
        """The end of the block that holds the step; the step itself if it is such an end.
        ``UNKNOWN`` if that block has not opened, which a view never needs."""

    def count(self, level: int, starts: Any, ends: Any) -> Any:
        """How many blocks of the level lie between two ends of blocks."""

    def edges(self, level: int, start: int, end: int) -> Integers:
        """The ends of all blocks of the level in ``(start, end]``."""


@dataclass(frozen=True, slots=True)
class EqualBlocks:
    """Blocks of one length per level, from the first step on."""

    lengths: tuple[int, ...]

    def frontier(self, level: int, steps: Any) -> Any:
        return np.maximum(steps, 0) // self.lengths[level] * self.lengths[level]

    def end(self, level: int, steps: Any) -> Any:
        return -(-steps // self.lengths[level]) * self.lengths[level]

    def count(self, level: int, starts: Any, ends: Any) -> Any:
        return (ends - starts) // self.lengths[level]

    def edges(self, level: int, start: int, end: int) -> Integers:
        length = self.lengths[level]
        return np.arange(start // length * length + length, end + 1, length, dtype=np.int64)
