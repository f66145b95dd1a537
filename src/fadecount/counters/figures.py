"""The figures of block counters on any calendar, without live totals: what a durable stream runs.

State between two steps: for each level its open block (:class:`OpenBlock`). When a block ends, the
figures of all its stages are made, its count is added to the open count of the block above, and
forgotten. So a block is the sum of its children by construction, and no true count outlives its
block.

Ties need noise that is drawn ahead: that of an open tied block and of its open child, and a ratchet
(:mod:`fadecount.noise.ahead`) for the children to come. It can be destroyed
(:meth:`FigureMaker.destroy_noise_ahead`): then the open tied blocks are *void*. Their figures are
never made; those of their children are, with noise of their own.

In a step, in this order: blocks open and announce their differences, the input is counted, blocks
end. Many steps are taken at once: noises in bulk from the largest level down, then counts from the
smallest up.

A block has as many counts as there were keys when it opened. A key that is declared later begins
with the next block of each level.

:func:`keyed_figures` makes the same figures of any blocks, in any order and without state, from
noise that has a name (:class:`fadecount.noise.KeyedNoise`): it depends on a figure's level, stage,
block and key, and on nothing that was drawn before. :mod:`fadecount.spark` makes its figures so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import running_sums
from fadecount.mechanisms import ANNOUNCED, Blocks, scale_of
from fadecount.mechanisms.figures import Calendar
from fadecount.noise import (
    Ahead,
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
    ``noise`` (for each stage, of blocks in a tied group) and ``children`` (of tied blocks) are
    drawn ahead.
    """

    start: int
    end: int
    count: Rows
    noise: list[Rows] | None = None
    children: Ahead | None = None
    void: bool = False

    @property
    def width(self) -> int:
        """How many keys there were when the block opened."""
        return len(self.count)


class Due(NamedTuple):
    """Adjacent blocks of a level, at one stage (or when they announce their differences).

    Block ``i`` holds the steps up to ``ends[i]``, from ``starts[i] + 1`` on, and becomes public
    after step ``public[i]``.
    """

    level: int
    stage: int
    starts: Rows
    ends: Rows
    public: Rows


class Made(NamedTuple):
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
        self._numbers = range(len(mechanism.levels))
        self._chains = chains_of(mechanism)
        self._groups = mechanism.groups

    def saved_children(self, level: int, state: bytes) -> Ahead:
        """The noises of the children to come of the open block of a tied level, from a saved
        ratchet. Another state is refused with a ``ValueError``."""
        begun = int(self.calendar.end(level - 1, self.time))
        return self._children(level, begun, self.open[level].width, state)

    def _children(self, level: int, begun: int, width: int, state: bytes | None = None) -> Ahead:
        """The noises of the children of a block of a tied level that begin after ``begun``."""
        child = int(self.calendar.count(level - 1, 0, begun)) + 1
        law = self._chains[level - 1].sharpest
        return self._source.ahead(law, level - 1, child, width, state)

    def destroy_noise_ahead(self) -> list[tuple[int, int]]:
        """Forget all noise that is drawn ahead. Returns (level, end) of the blocks that are void
        from now on: those that had announced a difference."""
        void = []
        for number, block in self.open.items():
            block.noise = block.children = None
            if self.mechanism.levels[number].tied and not block.void:
                block.void = True
                void.append((number, block.end))
        return void

    def close(self, counts: Rows) -> list[Made]:
        """Count so many steps, a row of counts (one for each key) for each. Returns the figures of
        the blocks that ended, and the differences that blocks announced when they opened.

        The counts must be so small that no sum of them can wrap.
        """
        require_lineage(self._lineage)
        made: list[Made] = []
        if len(counts):
            after = self.time + len(counts)
            spans = [self._span(number, after) for number in self._numbers]
            noises: list[list[Rows]] = [[] for _ in self._numbers]
            for group in self._groups:
                self._draw(group, spans, noises, made)
            self._count(counts, spans, noises, made)
            self.time = after
        return made

    def _span(self, number: int, after: int) -> _Span:
        block = self.open.get(number)
        if block is not None and after < block.end:
            return _Span(block, _NO_STEPS, _NO_STEPS, False)
        ends = self.calendar.edges(number, self.time, after)
        starts = ends[: len(ends) - (after in ends[-1:])]
        if block is None:
            starts = np.concatenate([[self.time], starts])
        stays_open = len(starts) > 0 and len(starts) + (block is not None) > len(ends)
        return _Span(block, starts, ends, stays_open)

    # Noise, from the largest level down
    # --------------------------------------------------------------------------------------------
    def _draw(
        self, group: range, spans: list[_Span], noises: list[list[Rows]], made: list[Made]
    ) -> None:
        """Open the blocks of a group, and find the noises of those that end: for each level and
        stage an array in the shape (blocks, keys)."""
        if len(group) == 1:  # noise is drawn when a block ends
            span = spans[group[0]]
            noises[group[0]] = self._fresh(group[0], span.begin(self.time), len(span.ends))
            self._open_last(group[0], span)
            return
        opened: list[Rows] = []
        for number in reversed(group):
            span = spans[number]
            if number == group[-1]:
                opened = self._fresh(number, span.starts, len(span.starts))
            everything = opened
            if span.before is not None and len(span.ends):
                waiting = span.before.noise or self._fresh(number, span.before.start, 1)
                everything = []
                for old, new in zip(waiting, opened, strict=True):
                    rows = np.zeros((1 + len(new), self.width), dtype=np.int64)
                    rows[0, : old.shape[-1]], rows[1:] = old, new
                    everything.append(rows)
            noises[number] = [rows[: len(span.ends)] for rows in everything]
            ahead = [rows[-1].copy() for rows in opened] if span.stays_open else None
            children = None
            if number > group[0]:
                below, children = self._tie(number, span, opened[0], spans[number - 1].starts, made)
                opened = [below]
            self._open_last(number, span, ahead, children)

    def _tie(
        self, number: int, span: _Span, own: Rows, below: Rows, made: list[Made]
    ) -> tuple[Rows, Ahead | None]:
        """Announce the differences of the tied blocks that open, with the noises ``own``. Returns
        the noises of their children and of those of an older block that begin at ``below``, and of
        the children still to come of the block that stays open."""
        older = 0 if span.before is None else int(np.searchsorted(below, span.before.end))
        rows, children = self._next_children(number, span.before, below[:older]), None
        differences = own.copy()
        whole = len(span.starts) - span.stays_open
        if whole:
            places = np.searchsorted(below, span.starts[:whole])
            until = len(below)
            if span.stays_open:
                until = int(np.searchsorted(below, span.starts[whole]))
            (some,) = self._fresh(number - 1, below[older : older + 1], until - older)
            differences[:whole] -= np.add.reduceat(some, places - older, axis=0)
            rows.append(some)
        if span.stays_open:
            start = int(span.starts[-1])
            end = int(self.calendar.end(number, start + 1))
            children = self._children(number, start, self.width)
            differences[-1] -= children.total(int(self.calendar.count(number - 1, start, end)))
            begun = len(below) - int(np.searchsorted(below, start))
            rows += children.take(begun)
        if len(span.starts):
            ends = np.asarray(self.calendar.end(number, span.starts + 1))
            made.append(Made(number, ANNOUNCED, span.starts, ends, span.starts + 1, differences))
        return rows[0] if len(rows) == 1 else np.concatenate([self._no_rows, *rows]), children

    def _next_children(self, number: int, block: OpenBlock | None, starts: Rows) -> list[Rows]:
        """The noises of the next children of an open tied block, which begin at ``starts``; for a
        void one, and for keys that it does not have, new ones."""
        if block is None or not len(starts):
            return []
        if block.children is not None and block.width == self.width:
            return block.children.take(len(starts))
        (fresh,) = self._fresh(number - 1, starts, len(starts))
        rows = fresh.copy()
        if block.children is not None:
            rows[:, : block.width] = np.concatenate(block.children.take(len(starts)))
        return [rows]

    def _fresh(self, number: int, first: Any, count: int) -> list[Rows]:
        """New noises of so many adjacent blocks, the first of which begins at ``first``: for each
        stage an array in the shape (blocks, keys)."""
        if not count:
            return [self._no_rows for _ in self.mechanism.levels[number].stages]
        start = int(np.ravel(first)[0])
        block = int(self.calendar.count(number, 0, start)) + 1
        return self._chains[number].many(self._source, range(block, block + count), self.width)

    @property
    def _no_rows(self) -> Rows:
        return np.empty((0, self.width), dtype=np.int64)

    def _open_last(
        self,
        number: int,
        span: _Span,
        noise: list[Rows] | None = None,
        children: Ahead | None = None,
    ) -> None:
        """Remember the block that stays open, if it has just opened; without what it counts."""
        if len(span.ends):
            self.open.pop(number, None)
        if span.stays_open:
            start = int(span.starts[-1])
            self.open[number] = OpenBlock(
                start=start,
                end=int(self.calendar.end(number, start + 1)),
                count=np.zeros(self.width, dtype=np.int64),
                noise=noise,
                children=children,
            )

    # Counts, from the smallest level up
    # --------------------------------------------------------------------------------------------
    def _count(
        self, counts: Rows, spans: list[_Span], noises: list[list[Rows]], made: list[Made]
    ) -> None:
        """Make the figures of the blocks that end, and carry their counts up."""
        sums = running_sums(counts)
        nothing = np.zeros(self.width, dtype=np.int64)

        def counted(step: int) -> Rows:
            """What these steps have up to one of them."""
            return sums[step - self.time - 1] if step > self.time else nothing

        touched = set()
        held = nothing  # in the open block of a level before this
        reached = self.time + len(counts)  # where the last block of the level below ended
        for number, (span, level) in enumerate(zip(spans, self.mechanism.levels, strict=True)):
            before, ends, carried = span.before, span.ends, held
            if len(ends):  # if not, no larger block ends either
                totals, begins = counts, span.starts[: len(ends)]
                if len(ends) < len(counts):
                    totals = sums[ends - self.time - 1]
                    totals[1:] -= totals[:-1].copy()
                figures = [totals + noise for noise in noises[number]]
                if before is not None:
                    held = before.count + carried[: before.width]
                    for values in figures:
                        values[0, : len(held)] += held
                    begins = np.concatenate([[before.start], span.starts])[: len(ends)]
                for stage, values in enumerate(figures):
                    lag = level.stages[stage].lag
                    public = ends + lag if lag else ends
                    whole = Made(number, stage, begins, ends, public, values)
                    made.extend(_split(whole, before, self.width))
            if span.stays_open:
                start = int(span.starts[-1])
                self.open[number].count = counted(reached) - counted(start)
                touched.add(number)
            elif before is not None and not len(ends) and reached > self.time:
                own = slice(before.width)  # blocks in it may have more keys
                before.count += counted(reached)[own]
                if carried is not nothing:
                    before.count += carried[own]
                touched.add(number)
            reached = int(ends[-1]) if len(ends) else self.time
        self.touched = frozenset(touched)


@dataclass(frozen=True, slots=True)
class _Span:
    """The blocks of a level in some steps: one that was open before, where others begin, and where
    blocks end."""

    before: OpenBlock | None
    starts: Rows
    ends: Rows
    stays_open: bool
    """Whether a block that opens in these steps stays open."""

    def begin(self, time: int) -> int:
        """Where the first block begins that is open at or after ``time``."""
        return time if self.before is None else self.before.start


def _split(made: Made, before: OpenBlock | None, width: int) -> list[Made]:
    """Figures by the number of keys of their blocks, without that of a void block."""
    if before is None or not (before.void or before.width < width):
        return [made]
    first, rest = (
        Made(made.level, made.stage, *(column[part] for column in made[2:]))
        for part in (slice(0, 1), slice(1, None))
    )
    first = first._replace(values=first.values[:, : before.width])
    return [
        each for each in (first, rest) if len(each.ends) and not (each is first and before.void)
    ]


# Figures by the names of their noise
# ------------------------------------------------------------------------------------------------
def due_blocks(mechanism: Blocks, calendar: Calendar, after: int, until: int) -> list[Due]:
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


def keyed_figures(
    mechanism: Blocks,
    calendar: Calendar,
    due: list[Due],
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

    for level, stage, *columns in due:
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
