"""Calendars: which steps the blocks of each level hold.

Position 0 is the stream's beginning and an end of every level; a block holds the steps after the
end before it up to its own end. Blocks nest, and their ends are fixed before they open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
        return np.arange(start // length + 1, end // length + 1, dtype=np.int64) * length


class EdgedBlocks:
    """Blocks of any lengths, by their ends: for each level all that are known, sorted.

    >>> dates = EdgedBlocks(([1, 2, 3, 4, 5], [2, 5]))
    >>> dates.end(1, np.array([0, 1, 2, 3, 6])).tolist() == [0, 2, 2, 5, UNKNOWN]
    True
    >>> dates.frontier(1, 4), dates.count(0, 2, 5), dates.edges(0, 2, 4)
    (np.int64(2), np.int64(3), array([3, 4]))
    """

    def __init__(self, edges: Iterable[ArrayLike]) -> None:
        self._edges = tuple(
            np.concatenate([[0], np.asarray(each, dtype=np.int64), [UNKNOWN]]) for each in edges
        )

    def frontier(self, level: int, steps: Any) -> Any:
        edges = self._edges[level]
        return edges[np.searchsorted(edges, np.maximum(steps, 0), side="right") - 1]

    def end(self, level: int, steps: Any) -> Any:
        return self._edges[level][np.searchsorted(self._edges[level], steps)]

    def count(self, level: int, starts: Any, ends: Any) -> Any:
        edges = self._edges[level]
        return np.searchsorted(edges, ends) - np.searchsorted(edges, starts)

    def edges(self, level: int, start: int, end: int) -> Integers:
        edges = self._edges[level]
        return edges[slice(*np.searchsorted(edges, [start, end], side="right"))]
