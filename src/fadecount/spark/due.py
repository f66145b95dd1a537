"""Which figures become public in a range of ticks, and what they are: the count of a block plus
noise that has a name. Pure NumPy; runs on executors.

The noise of a figure depends on the secret, the epoch, the stream, the mechanism, its level, stage,
block and key, and on nothing else. So no order between keys or ticks matters, and no state is kept:
some keys and their counts are all that a task needs. The figures are those of
:class:`fadecount.counters.figures.FigureMaker` with the same noise (tests/spark/test_due.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms import ANNOUNCED, Blocks, Calendar, scale_of
from fadecount.noise import Chain, KeyedNoise

CELLS = 1 << 17
"""How many figures, or noises that they need, are made at once."""
Numbers = NDArray[np.int64]


class Counts(NamedTuple):
    """Counts that are not 0, sorted by position: how many events in which tick, under which key."""

    positions: Numbers
    keys: Numbers
    events: Numbers


class Piece(NamedTuple):
    """Adjacent blocks of a level at a stage: positions where they begin and end, and after how many
    ticks they are public. At the stage ``ANNOUNCED`` they announce their difference."""

    level: int
    stage: int
    starts: Numbers
    ends: Numbers
    public: Numbers


def due(mechanism: Blocks, calendar: Calendar, after: int, until: int) -> list[Piece]:
    """Everything that becomes public after more than ``after`` and at most ``until`` ticks."""
    pieces = []
    for number, level in enumerate(mechanism.levels):
        if level.tied and after < until:
            starts = calendar.edges(number, max(after - 1, 0), until - 1)
            if after == 0:
                starts = np.concatenate([[0], starts])
            ends = np.asarray(calendar.end(number, starts + 1))
            pieces.append(Piece(number, ANNOUNCED, starts, ends, starts + 1))
        for stage, (lag, _) in enumerate(level.stages):
            ends = calendar.edges(number, max(after - lag, 0), max(until - lag, 0))
            starts = np.asarray(calendar.frontier(number, ends - 1))
            pieces.append(Piece(number, stage, starts, ends, ends + lag))
    return [piece for piece in pieces if len(piece.ends)]


def make(
    mechanism: Blocks, calendar: Calendar, pieces: list[Piece], counts: Counts, noise: KeyedNoise
) -> Iterator[tuple[Piece, Numbers]]:
    """The figures of some blocks in the shape (blocks, keys), a limited number at a time."""
    width = len(noise.tags)
    chains = [
        Chain(number, [scale_of(stage.epsilon, 0) for stage in level.stages])
        for number, level in enumerate(mechanism.levels)
    ]

    def noises(level: int, stage: int, start: int, end: int) -> Numbers:
        """Those of the blocks between two ends of blocks."""
        first, last = (int(calendar.count(level, 0, each)) + 1 for each in (start, end))
        return chains[level].many(noise, range(first, last), width)[stage]

    for level, stage, *columns in pieces:
        start, end, size = int(columns[0][0]), int(columns[1][-1]), len(columns[1])
        needed = size if stage != ANNOUNCED else int(calendar.count(level - 1, start, end))
        at_once = max(1, CELLS * size // (width * needed))
        for begin in range(0, size, at_once):
            part = Piece(level, stage, *(each[begin : begin + at_once] for each in columns))
            start, end = int(part.starts[0]), int(part.ends[-1])
            values = noises(level, max(stage, 0), start, end)
            if stage == ANNOUNCED:
                children = np.asarray(calendar.count(level - 1, start, part.starts))
                below = noises(level - 1, 0, start, end)
                yield part, values - np.add.reduceat(below, children, axis=0)
            else:
                yield part, values + _counted(part, counts, width)


def _counted(part: Piece, counts: Counts, width: int) -> Numbers:
    """The counts of adjacent blocks, in the shape (blocks, keys)."""
    first, last = np.searchsorted(counts.positions, [part.starts[0], part.ends[-1]]).tolist()
    positions, keys, events = (column[first:last] for column in counts)
    totals = np.zeros((len(part.ends), width), dtype=np.int64)
    np.add.at(totals, (np.searchsorted(part.ends, positions, side="right"), keys), events)
    return totals
