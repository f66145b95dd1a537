"""Calendars of blocks, and published figures about them: what views are made of.

A calendar says which steps the blocks of each level hold. Position 0 is the stream's beginning and
an end of every level; a block holds the steps after the end before it up to its own end. Blocks
nest, and their ends are fixed before they open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

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
