"""A calendar of blocks of any lengths, for the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fadecount.calendar import Calendar
from fadecount.mechanisms.figures import UNKNOWN, Integers


class EdgedBlocks(Calendar):
    """Blocks of any lengths, by their ends: for each level all that are known, sorted.

    >>> dates = EdgedBlocks(([1, 2, 3, 4, 5], [2, 5]))
    >>> dates.end(1, np.array([0, 1, 2, 3, 6])).tolist() == [0, 2, 2, 5, UNKNOWN]
    True
    >>> dates.frontier(1, 4), dates.count(0, 2, 5), dates.edges(0, 2, 4)
    (np.int64(2), np.int64(3), array([3, 4]))
    """

    def __init__(self, edges: Iterable[ArrayLike]) -> None:
        self.shifts = ()
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
