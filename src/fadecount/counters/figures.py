"""The figures of block counters on any calendar, without live totals: what a durable stream runs.

State between two steps: for each level its open block (:class:`OpenBlock`). When a block ends, its
noise is drawn, the figures of all its stages are made, its count is added to the open count of the
block above, and forgotten. So a block is the sum of its children by construction, no true count
outlives its block, and there is no noise of a block that has not ended.

Many steps are taken at once, levels from the smallest up.

A block has as many counts as there were keys when it opened. A key that is declared later begins
with the next block of each level.

:func:`keyed_figures` makes the same figures of any blocks, in any order and without state, from
noise that has a name (:class:`fadecount.noise.KeyedNoise`): it depends on a figure's level, stage,
block and key, and on nothing that was drawn before. :mod:`fadecount.spark` makes its figures so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import Calendar
from fadecount.counters.inputs import running_sums
from fadecount.mechanisms import Blocks, scale_of
from fadecount.noise import (
    Chain,
    KeyedNoise,
    Lineage,
    NoiseSource,
    SystemNoise,
    require_lineage,
)

Rows = NDArray[np.int64]
_NO_STEPS = np.zeros(0, dtype=np.int64)
CELLS = 1 << 17
"""How many figures, or noises that they need, :func:`keyed_figures` makes at once."""


@dataclass(slots=True, kw_only=True)
class OpenBlock:
    """A block of the steps ``start + 1 .. end`` that has begun and not ended.

    ``count`` is what was counted so far for each key, without the smaller open blocks in it.
    """

    start: int
    end: int
    count: Rows

    @property
    def width(self) -> int:
        """How many keys there were when the block opened."""
        return len(self.count)


class DueBlocks(NamedTuple):
    """Adjacent blocks of a level, at one stage.

    Block ``i`` holds the steps up to ``ends[i]``, from ``starts[i] + 1`` on, and becomes public
    after step ``public[i]``.
    """

    level: int
    stage: int
    starts: Rows
    ends: Rows
    public: Rows


class FigureBatch(NamedTuple):
    """The figures of such blocks: ``values`` has the shape (blocks, keys)."""

    level: int
    stage: int
    starts: Rows
    ends: Rows
    public: Rows
    values: Rows


def chains_of(mechanism: Blocks) -> list[Chain]:
    """The noises of the figures of each level."""
    return [
        Chain(number, [scale_of(stage.epsilon) for stage in level.stages])
        for number, level in enumerate(mechanism.levels)
    ]


class FigureMaker:
    """Counts steps into the open blocks of a calendar, and makes the figures of those that end.

    It does not publish: of what it returns, only the part that is public by now may be shown, and
    nothing before it is stored. Not safe for several threads.
    """

    def __init__(
        self,
        mechanism: Blocks,
        calendar: Calendar,
        width: int,
        source: NoiseSource | None = None,
        *,
        time: int = 0,
        open_blocks: Mapping[int, OpenBlock] | None = None,
    ) -> None:
        self.mechanism, self.calendar, self.width = mechanism, calendar, width
        self.time = time
        self.open: dict[int, OpenBlock] = dict(open_blocks or {})
        self.touched: frozenset[int] = frozenset()
        """The levels whose open block could have got counts in the last call, or opened."""
        self._source = SystemNoise() if source is None else source
        self._lineage = Lineage.current
        self._chains = chains_of(mechanism)

    def close(self, counts: Rows) -> list[FigureBatch]:
        """Count so many steps, a row of counts (one for each key) for each. Returns the figures of
        the blocks that ended.

        The counts must be so small that no sum of them can wrap.
        """
        require_lineage(self._lineage)
        made: list[FigureBatch] = []
        if not len(counts):
            return made
        after, sums = self.time + len(counts), running_sums(counts) if len(counts) > 1 else counts
        nothing = np.zeros(self.width, dtype=np.int64)

        def counted(step: int) -> Rows:
            """What these steps have up to one of them."""
            return sums[step - self.time - 1] if step > self.time else nothing

        touched = set()
        carried = nothing  # what the last open blocks below, which ended, held before these steps
        reached = after  # where the last block of the level below ended
        for number in range(len(self.mechanism.levels)):
            before = self.open.get(number)
            begin = self.time if before is None else before.start
            ends = self._ends(number, before, after)
            if len(ends):  # if not, no larger block ends either
                totals = counts
                if len(ends) < len(counts):
                    totals = sums[ends - self.time - 1]
                    totals[1:] -= totals[:-1].copy()
                if before is not None:
                    carried = before.count + carried[: before.width]
                made += self._figures(number, begin, ends, totals, carried, before)
                self.open.pop(number, None)
                begin, before = int(ends[-1]), None
            if before is not None:
                if reached > self.time:
                    own = slice(before.width)  # blocks in it may have more keys
                    before.count += counted(reached)[own] + carried[own]
                    touched.add(number)
            elif begin < after:
                end, count = int(self.calendar.end(number, begin + 1)), counted(reached)
                self.open[number] = OpenBlock(start=begin, end=end, count=count - counted(begin))
                touched.add(number)
            reached = int(ends[-1]) if len(ends) else self.time
        self.touched, self.time = frozenset(touched), after
        return made

    def _ends(self, number: int, before: OpenBlock | None, after: int) -> Rows:
        """Where blocks of a level end, up to a step."""
        if before is not None and after < before.end:
            return _NO_STEPS
        return self.calendar.edges(number, self.time, after)

    def _figures(
        self,
        number: int,
        begin: int,
        ends: Rows,
        totals: Rows,
        held: Rows,
        before: OpenBlock | None,
    ) -> list[FigureBatch]:
        """The figures of adjacent blocks of a level from ``begin`` on, with the counts ``totals``,
        the first one also with what it ``held`` before. All their noise is drawn here, once."""
        first = int(self.calendar.count(number, 0, begin)) + 1
        blocks, starts = range(first, first + len(ends)), np.concatenate([[begin], ends[:-1]])
        due = self.calendar.due(number, ends)
        noises = self._chains[number].many(self._source, blocks, self.width)
        made = []
        for stage, noise in enumerate(noises):
            values, lag = totals + noise, self.mechanism.levels[number].stages[stage].lag
            if before is not None:
                values[0, : len(held)] += held
            batch = FigureBatch(number, stage, starts, ends, due + lag if lag else due, values)
            made += _split(batch, self.width if before is None else before.width, self.width)
        return made


def _split(made: FigureBatch, first_width: int, width: int) -> list[FigureBatch]:
    """Figures by the number of keys of their blocks: the first one may have fewer."""
    if first_width == width:
        return [made]
    first, rest = (
        FigureBatch(made.level, made.stage, *(column[part] for column in made[2:]))
        for part in (slice(0, 1), slice(1, None))
    )
    first = first._replace(values=first.values[:, :first_width])
    return [first, rest] if len(rest.ends) else [first]


# Figures by the names of their noise
# ------------------------------------------------------------------------------------------------
def due_blocks(mechanism: Blocks, calendar: Calendar, after: int, until: int) -> list[DueBlocks]:
    """Everything that becomes public after more than ``after`` and at most ``until`` steps."""
    blocks = []
    for number, level in enumerate(mechanism.levels):
        for stage, (lag, _) in enumerate(level.stages):
            first, last = (calendar.out(number, max(each - lag, 0)) for each in (after, until))
            ends = calendar.edges(number, first, last)
            starts = np.asarray(calendar.frontier(number, ends - 1))
            public = calendar.due(number, ends) + lag
            blocks.append(DueBlocks(number, stage, starts, ends, public))
    return [each for each in blocks if len(each.ends)]


def keyed_figures(
    mechanism: Blocks,
    calendar: Calendar,
    due: list[DueBlocks],
    counts: tuple[Rows, Rows, Rows],
    noise: KeyedNoise,
) -> Iterator[FigureBatch]:
    """The figures of some blocks. ``counts`` are sorted: after which step, under which key, how
    many events."""
    width, chains = len(noise.tags), chains_of(mechanism)
    for level, stage, *columns in due:
        size = len(columns[0])
        at_once = max(1, CELLS // width)
        for place in range(0, size, at_once):
            starts, ends, public = (each[place : place + at_once] for each in columns)
            start, end = int(starts[0]), int(ends[-1])
            numbers = (int(calendar.count(level, 0, each)) + 1 for each in (start, end))
            values = chains[level].many(noise, range(*numbers), width)[stage].copy()
            first, last = np.searchsorted(counts[0], [start, end]).tolist()
            steps, keys, events = (column[first:last] for column in counts)
            np.add.at(values, (np.searchsorted(ends, steps, side="right"), keys), events)
            yield FigureBatch(level, stage, starts, ends, public, values)
