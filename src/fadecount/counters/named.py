"""Figures of any blocks, in any order and without state: counts of blocks plus noise that has a
name. :mod:`fadecount.spark` makes its figures so.

Such noise (:class:`fadecount.noise.KeyedNoise`) depends on a figure's level, stage, block and key,
and on nothing that was drawn before. So the counts of some keys are all that is needed. The figures
are those of :class:`fadecount.counters.figures.FigureMaker` with the same noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from fadecount.counters.figures import Made, Rows, chains_of
from fadecount.mechanisms import ANNOUNCED, Blocks
from fadecount.mechanisms.figures import Calendar
from fadecount.noise import KeyedNoise

CELLS = 1 << 17
"""How many figures, or noises that they need, are made at once."""


class Due(NamedTuple):
    """Adjacent blocks of a level at a stage, as in :class:`fadecount.counters.figures.Made`: after
    which steps they begin, end and become public."""

    level: int
    stage: int
    starts: Rows
    ends: Rows
    public: Rows


def due(mechanism: Blocks, calendar: Calendar, after: int, until: int) -> list[Due]:
    """Everything that becomes public after more than ``after`` and at most ``until`` steps."""
    blocks = []
    for number, level in enumerate(mechanism.levels):
        if level.tied and after < until:
            starts = calendar.edges(number, max(after - 1, 0), until - 1)
            if after == 0:
                starts = np.concatenate([[0], starts])
            ends = np.asarray(calendar.end(number, starts + 1))
            blocks.append(Due(number, ANNOUNCED, starts, ends, starts + 1))
        for stage, (lag, _) in enumerate(level.stages):
            ends = calendar.edges(number, max(after - lag, 0), max(until - lag, 0))
            starts = np.asarray(calendar.frontier(number, ends - 1))
            blocks.append(Due(number, stage, starts, ends, ends + lag))
    return [each for each in blocks if len(each.ends)]


def make(
    mechanism: Blocks,
    calendar: Calendar,
    due_blocks: list[Due],
    counts: tuple[Rows, Rows, Rows],
    noise: KeyedNoise,
) -> Iterator[Made]:
    """The figures of some blocks. ``counts`` are sorted: after which step, under which key, how
    many events."""
    width, chains = len(noise.tags), chains_of(mechanism)

    def noises(level: int, stage: int, start: int, end: int) -> Rows:
        """Those of the blocks between two ends of blocks."""
        first, last = (int(calendar.count(level, 0, each)) + 1 for each in (start, end))
        return chains[level].many(noise, range(first, last), width)[stage]

    for level, stage, *columns in due_blocks:
        size, begin, end = len(columns[0]), int(columns[0][0]), int(columns[1][-1])
        needed = size if stage != ANNOUNCED else int(calendar.count(level - 1, begin, end))
        at_once = max(1, CELLS * size // (width * needed))
        for place in range(0, size, at_once):
            starts, ends, public = (each[place : place + at_once] for each in columns)
            start, end = int(starts[0]), int(ends[-1])
            values = noises(level, max(stage, 0), start, end).copy()
            if stage == ANNOUNCED:
                children = np.asarray(calendar.count(level - 1, start, starts))
                values -= np.add.reduceat(noises(level - 1, 0, start, end), children, axis=0)
            else:
                first, last = np.searchsorted(counts[0], [start, end]).tolist()
                steps, keys, events = (column[first:last] for column in counts)
                np.add.at(values, (np.searchsorted(ends, steps, side="right"), keys), events)
            yield Made(level, stage, starts, ends, public, values)
