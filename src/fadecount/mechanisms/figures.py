"""Published figures of blocks, as views read them. Where blocks begin and end, a
:class:`fadecount.calendar.Calendar` says."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

UNKNOWN = 1 << 62
"""The end of a block that a calendar does not know yet. Later than every step."""


class Figure(NamedTuple):
    """A published number about the steps ``start + 1 .. end``: the count of a block of a level at a
    stage (from 0). With keys, the value is an array over them."""

    level: int
    start: int
    end: int
    stage: int
    value: Any


class Figures(Protocol):
    """Published figures, as a view reads them: one row for each block, one column for each key."""

    @property
    def keys(self) -> int:
        """How many columns there are."""

    def sums(self, level: int, stage: int, ends: Integers) -> Integers:
        """The sum of the figures of all blocks up to the one that ends at each of ``ends``,
        counted from anywhere: only differences inside one range of ``Views.needs`` are used."""


class ListedFigures:
    """Figures as a counter returns them, of counts (not of real numbers)."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        columns: dict[tuple[int, int], dict[int, Any]] = {}
        self.shape: tuple[int, ...] = ()
        for level, _, end, stage, value in figures:
            columns.setdefault((level, stage), {})[end] = value
            self.shape = np.shape(value)
        self.keys = math.prod(self.shape)
        self._columns = {}
        for name, values in columns.items():
            ends = np.array(sorted(values), dtype=np.int64)
            given = np.array([np.ravel(values[end]) for end in ends.tolist()])
            rows = given.astype(np.int64, casting="same_kind")
            sums = np.concatenate([np.zeros_like(rows[:1]), np.cumsum(rows, axis=0)])
            self._columns[name] = ends, sums

    def sums(self, level: int, stage: int, ends: Integers) -> Integers:
        known, sums = self._columns[level, stage]
        return sums[np.searchsorted(known, ends, side="right")]
