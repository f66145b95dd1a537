"""The running counter of block counters.

State between two steps, for each key: the *cover*, which is the sum of the largest figures that are
out; for each level the *open* count of its block (without the smaller open blocks in it); figures
under embargo. When a block ends, its figures are made, its count is added to the open count of the
block above, and forgotten. So a block is the sum of its children by construction, and no true count
outlives its block.

The cover changes by *jumps*. A figure that comes out takes the place of what the cover held for its
block: its own stage before, or its children at their last stage. All of them are known when the
block ends, so the jump is too. Of a tied block it is the difference that the block announced.

In a step, in this order: blocks open and announce their differences, largest first; the input is
counted; blocks end, smallest first; what is due is published. The live total is the cover plus the
shares of announced differences (:mod:`fadecount.mechanisms.views`).

``extend`` does the same for many steps at once: the noises of a level in bulk, from the top down,
then counts, figures and jumps from the bottom up, and one cumulative sum.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import LONGEST
from fadecount.counters.counter import Counter
from fadecount.counters.inputs import LARGEST_SUM, Inputs
from fadecount.counters.state import Parts, SavedState, damaged
from fadecount.errors import ParameterError, SumOverflowError
from fadecount.mechanisms import ANNOUNCED, Blocks, Figure, scale_of
from fadecount.noise import (
    MOST_LISTED,
    Ahead,
    Chain,
    Lineage,
    Listed,
    Named,
    NoiseSource,
    Ratchet,
    SystemNoise,
    require_lineage,
)

_AT_ONCE = 1 << 18
_WIDE = 1 << 13
"""From so many keys on, ``extend`` goes step by step: a row is work enough."""
_MOST_KEPT = 1 << 22
"""How many published numbers wait for :meth:`BlockCounter.figures`."""
_LONGEST_QUIET = 1 << 12
"""For so many steps at most the figures of the smallest blocks are kept on their own."""
_UNLIKELY = 64
"""No noise is farther away than so many times its scale (probability exp(-64))."""

Rows = NDArray[np.int64]


class _Level:
    """What the counter knows of a level: fixed numbers, and the state of its open block."""

    __slots__ = (
        *(
            "ahead",
            "at_once",
            "chain",
            "double",
            "group",
            "lags",
            "length",
            "number",
            "ratio",
            "tied",
            "wide",
        ),
        *("below", "children", "noise", "open", "ties", "waiting"),
    )

    def __init__(self, mechanism: Blocks, number: int) -> None:
        level = mechanism.levels[number]
        self.number, self.length, self.tied = number, level.length, level.tied
        self.lags = [stage.lag for stage in level.stages]
        self.chain = Chain(number, [scale_of(stage.epsilon) for stage in level.stages])
        self.ratio = level.length // mechanism.levels[number - 1].length if number else 1
        self.group = next(group for group in mechanism.groups if number in group)
        self.double = 2 * mechanism.levels[self.group[-1]].length // level.length
        """Twice the number of its blocks in one of the largest of its group."""
        self.ahead = len(self.group) > 1
        """Whether noise is drawn when a block opens: for ties."""
        self.at_once = number == 1 and self.lags == [0] and (self.tied or not self.ahead)
        """Whether its figures are published as their blocks end, and change no other share."""
        self.open: Any = 0
        """The count of the open block, without the smaller open blocks in it."""
        self.below: Any = 0
        """What the children in the open block add up to at their last stage, if it is not tied."""
        self.noise: list[Any] | None = None
        self.children: Ahead | None = None
        self.ties: deque[Any] = deque()
        """The differences announced by blocks that are not out yet."""
        self.waiting: list[deque[tuple[Any, Any]]] = [deque() for _ in level.stages]
        """Figures and their jumps under embargo, for each stage."""
        largest, smallest = (mechanism.levels[self.group[end]].length for end in (-1, 0))
        scale = max(scale_of(mechanism.levels[one].epsilon) for one in self.group)
        farthest = _UNLIKELY * (self.ratio + 1) * scale * (largest // smallest)
        self.wide = self.tied and farthest > 2.0**55
        """Whether multiples of its differences may leave int64."""

    def due(self, step: int, stage: int) -> int:
        """How many blocks are out at a stage after a step."""
        return max(0, step - self.lags[stage]) // self.length


class BlockCounter(Counter):
    """A counter of :class:`fadecount.Blocks`; ``Counter(mechanism)`` gives one."""

    __slots__ = (
        *("_above", "_ahead", "_bound", "_covered", "_levels", "_shares"),
        *("_group", "_larger", "_next_due", "_opening", "_scalar", "_source", "_stages"),
        *("_kept", "_many", "_numbers", "_quiet", "_quiet_values", "_time"),
        *("_child", "_numerator", "_shared", "_single", "_slope", "_whole"),
    )

    # What a quiet step needs: the shares of its own group's differences are ``_numerator //
    # _whole``, and grow by ``_slope // _whole``; those of the others are ``_shared``, included.
    _above: _Level | None
    _quiet_values: list[Any]
    _single: Callable[[int], Any]
    _child: Callable[[], Any]
    _numerator: Any
    _slope: Any
    _whole: int
    _shared: Any

    def _prepare(self, mechanism: Any, width: int | None, source: NoiseSource) -> None:
        self._inputs = Inputs(width)
        self._mechanism, self._source = mechanism, source
        self._time, self._total, self._bound = 0, self._zeros(), 0
        self._levels = [_Level(mechanism, number) for number in range(len(mechanism.levels))]
        for level in self._levels:
            level.open, level.below = self._zeros(), self._zeros()
        self._next_due = 0
        self._shares: dict[range, Any] = {group: 0 for group in mechanism.groups if group[1:]}
        first, *larger = self._levels
        wide = any(self._levels[number].wide for number in first.group)
        simple = first.length == 1 and first.lags == [0] and larger and not wide
        self._above, self._larger = (larger[0], larger) if simple else (None, self._levels)
        self._stages = [
            (level, stage, lag)
            for level in self._larger
            for stage, lag in enumerate(level.lags)
            if not level.at_once
        ]
        self._ahead = [level for level in self._larger if level.ahead]
        self._opening = self._ahead[0].length if self._ahead else LONGEST
        quiet = simple and larger[0].tied
        self._covered = {group: -1 for group in self._shares if group[0] or not quiet}
        self._group = larger[: first.group[-1]] if quiet else []
        self._scalar, self._numerator, self._slope, self._shared = width is None, 0, 0, 0
        self._whole = first.double
        law = first.chain.sharpest
        self._single = partial(source.one, law, 0, 0) if width is None else self._row
        self._forget_published()
        self._settle()
        self._lock = threading.Lock()
        self._lineage = Lineage.current

    def _zeros(self) -> Any:
        return 0 if self._inputs.width is None else np.zeros(self._inputs.width, dtype=np.int64)

    @property
    def time(self) -> int:
        """How many steps have been taken."""
        return self._time

    # One step
    # --------------------------------------------------------------------------------------------
    def step(self, item: Any) -> Any:
        """Count one step's input and return the live total: see :class:`Counter`."""
        if self._lineage is not Lineage.current:
            require_lineage(self._lineage)
        scalar = self._scalar
        if not (scalar and item.__class__ is int and -LARGEST_SUM <= item <= LARGEST_SUM):
            item = self._inputs.one(item)
        lock = self._lock
        lock.acquire()  # a with statement would take as long as a draw
        try:
            bound = self._bound + (abs(item) if scalar else _farthest(item))
            if bound > LARGEST_SUM:
                bound = self._require_room(bound - self._bound)
            step = self._time + 1
            if step < self._quiet:
                output = self._quiet_step(step, item)
            else:
                output = self._any_step(step, item)
            self._bound = bound
            return output
        finally:
            lock.release()

    def _require_room(self, added: int) -> int:
        """Refuse inputs that could take a count or a total out of the exact range."""
        inside = sum(_farthest(np.asarray(level.open)) for level in self._levels)
        bound = max(_farthest(np.asarray(self._total)), inside) + added
        if bound > LARGEST_SUM:
            raise SumOverflowError("sum could pass +-2**62 and lose exactness; start a new counter")
        return bound

    def _quiet_step(self, step: int, item: Any) -> Any:
        """A step in which nothing but a block of one step opens, ends and is published."""
        above = self._above
        assert above is not None
        value = item + (self._child() if above.tied else self._single(step))
        total = self._total
        total += value
        above.open += item
        self._total, self._time = total, step
        if self._scalar:
            self._quiet_values.append(value)
        else:
            self._keep(0, 0, step, value)
        if above.tied:
            numerator = self._numerator
            numerator += self._slope
            self._numerator = numerator
            return total + numerator // self._whole
        above.below += value
        return total + self._shared

    def _any_step(self, step: int, item: Any) -> Any:
        above = self._above
        if not (step - 1) % self._opening:
            self._open_blocks(step)
            self._begin_quiet(step - 1)
        if above is None:
            first = self._levels[0]
            first.open = first.open + item
            self._end_blocks(step)
            self._time = step
        else:
            output = self._quiet_step(step, item)
            if not step % above.length:
                self._end_blocks(step)
            if len(self._quiet_values) > _LONGEST_QUIET:
                self._keep_quiet()
            if step < self._next_due:
                if step >= self._quiet and step % self._opening:
                    self._begin_quiet(step)
                return output
        if step >= self._next_due:
            self._publish_waiting(step)
        self._settle()
        return self._total + (self._numerator // self._whole if self._group else self._shared)

    def _drawn(self, level: _Level, block: int) -> Any:
        if self._inputs.width is None:
            return level.chain.one(self._source, block)
        rows = level.chain.many(self._source, range(block, block + 1), self._inputs.width)
        return [row[0] for row in rows]

    def _children_of(
        self, level: _Level, block: int, saved: Iterator[bytes] | None = None
    ) -> Ahead:
        """The noises of the children of a tied block, from the child with this number on."""
        law, width = self._levels[level.number - 1].chain.sharpest, self._inputs.width
        if isinstance(self._source, SystemNoise):
            state = None if saved is None else next(saved)
            if width is not None or level.ratio > MOST_LISTED:
                return Ratchet(law, width, state)
            if state is None:
                return Listed(self._source.several(law, level.ratio))
            return Listed.of(state, (1 - block) % level.ratio)
        return Named(self._source, law, level.number - 1, block, width)

    def _open_blocks(self, step: int) -> None:
        opening = []
        for level in self._ahead:
            if (step - 1) % level.length:
                break
            opening.append(level)
        for level in reversed(opening):
            block = (step - 1) // level.length
            if level.number == level.group[-1]:
                level.noise = self._drawn(level, block + 1)
            else:
                children = self._levels[level.number + 1].children
                assert children is not None
                level.noise = [children.next()]
            if level.tied:
                level.children = self._children_of(level, block * level.ratio + 1)
                difference = level.noise[0] - level.children.total(level.ratio)
                level.ties.append(difference)
                self._keep(level.number, ANNOUNCED, step - 1 + level.length, difference)

    def _end_blocks(self, step: int) -> None:
        for level in self._larger:
            if step % level.length:
                break
            count, level.open = level.open, self._zeros()
            noises = level.noise or self._drawn(level, step // level.length)
            level.noise = level.children = None
            values = [count + noise for noise in noises]
            jump = level.ties[-1] if level.tied else values[0] - level.below
            level.below = self._zeros()
            if level.at_once:
                self._publish(level, 0, step, values[0], jump)
            else:
                level.waiting[0].append((values[0], jump))
                for stage in range(1, len(values)):
                    level.waiting[stage].append((values[stage], values[stage] - values[stage - 1]))
            if level.number + 1 < len(self._levels):
                above = self._levels[level.number + 1]
                above.open = above.open + count
                if not above.tied:
                    above.below = above.below + values[-1]

    def _publish_waiting(self, step: int) -> None:
        for level, stage, lag in self._stages:
            if step > lag and not (step - lag) % level.length:
                self._publish(level, stage, step - lag, *level.waiting[stage].popleft())

    def _publish(self, level: _Level, stage: int, end: int, value: Any, jump: Any) -> None:
        self._keep(level.number, stage, end, value)
        if level.tied and stage == 0:
            level.ties.popleft()
        self._total = self._total + jump

    def _settle(self) -> None:
        """Share the announced differences as of now, and find the next step in which a figure comes
        out that waits, or whose block is larger than the second smallest."""
        step = self._time
        for group, before in self._covered.items():
            smallest = self._levels[group[0]]
            covered = max(0, step - smallest.lags[0]) // smallest.length
            if covered != before:
                self._covered[group] = covered
                self._shares[group] = self._share(group, covered)
        self._shared = sum(self._shares.values())
        if step >= self._next_due:
            self._next_due = min(
                (
                    max(0, step - lag) // level.length * level.length + level.length + lag
                    for level, _, lag in self._stages
                ),
                default=LONGEST,
            )
        self._begin_quiet(step)

    def _begin_quiet(self, step: int) -> None:
        """Find the step after this one up to which only blocks of one step come and go, and what
        their group gets of its differences meanwhile."""
        self._quiet, above = 0, self._above
        if above is None:
            return
        if above.children is not None or step % self._opening:
            ends = step - step % above.length + above.length
            self._quiet = min(self._next_due, ends, step + _LONGEST_QUIET)
        if above.tied:
            slope, numerator = 0, self._whole // 2 + self._whole * self._shared
            for level in self._group:
                if level.children is not None:
                    twice = level.double * level.ties[0]
                    slope = slope + twice
                    numerator = numerator + twice * (step % level.length)
            self._slope, self._numerator = slope, numerator
            if above.children is not None:
                self._child = above.children.next

    def _row(self, step: int) -> Rows:
        law, width = self._levels[0].chain.sharpest, self._inputs.width or 1
        row: Rows = self._source.many(law, 0, range(1), range(step, step + 1), width)[0, 0]
        return row

    def _share(self, group: range, covered: int) -> Any:
        """What the part of open tied blocks that is covered gets of their differences; ``covered``
        is the number of the smallest blocks that are out."""
        smallest, largest = self._levels[group[0]], self._levels[group[-1]]
        numerator, whole = 0, largest.length // smallest.length
        for level in self._levels[group[1] : group[-1] + 1]:
            per = level.length // smallest.length
            if covered % per:
                factor = covered % per * (whole // per)
                numerator = numerator + _exact(level, level.ties[0]) * factor
        return _rounded(numerator, whole)

    # Many steps
    # --------------------------------------------------------------------------------------------
    def extend(self, items: ArrayLike) -> Any:
        """Count the inputs of many steps and return the live total after each: see
        :class:`Counter`."""
        require_lineage(self._lineage)
        array = self._inputs.many(items)
        width = self._inputs.width or 1
        with self._lock:
            bound = self._bound + len(array) * _farthest(array)
            if bound > LARGEST_SUM:
                bound = self._require_room(bound - self._bound)
            self._bound = bound
            released = np.empty(array.shape, dtype=np.int64)
            if width >= _WIDE:
                for place, row in enumerate(array):
                    step = self._time + 1
                    take = self._quiet_step if step < self._quiet else self._any_step
                    released[place] = take(step, row)
            else:
                self._keep_quiet()
                rows = max(1, _AT_ONCE // width)
                for start in range(0, len(array), rows):
                    part = slice(start, start + rows)
                    _Chunk(self, array[part], released[part]).run()
        return released

    # What was published
    # --------------------------------------------------------------------------------------------
    def _keep(self, level: int, stage: int, end: int, value: Any) -> None:
        """Keep one published number for :meth:`figures`."""
        self._numbers -= 1
        if self._numbers >= 0:
            self._kept.append((level, stage, end, value))

    def _keep_quiet(self) -> None:
        """Keep the figures of the quiet steps up to now."""
        values, self._quiet_values = self._quiet_values, []
        self._keep_many(0, 0, self._time + 1 - len(values), values)

    def _keep_many(self, level: int, stage: int, end: int, values: Rows | list[Any]) -> None:
        """Keep the numbers of adjacent blocks, the first of which ends at ``end``."""
        self._numbers -= len(values)
        if self._numbers >= 0 and len(values):
            self._many.append((level, stage, end, values))

    def _forget_published(self) -> None:
        self._kept: list[tuple[int, int, int, Any]] = []
        self._many: list[tuple[int, int, int, Rows | list[Any]]] = []
        self._quiet_values = []
        self._numbers = _MOST_KEPT // (self._inputs.width or 1)

    def figures(self) -> list[Figure]:
        """What was published since the last call, in the order of publication.

        A figure is ``(level, start, end, stage, value)`` for the steps ``start + 1 .. end``; the
        value is an array over the keys for a vector of counts. The stage ``-1`` is no count: it is
        the difference that a tied block announced when it opened. At most 2**22 numbers wait for a
        call; a saved state does not hold them.
        """
        with self._lock:
            self._keep_quiet()
            kept, lost = self._kept, self._numbers < 0
            for level, stage, end, values in self._many:
                length = self._levels[level].length
                listed = values.tolist() if isinstance(values, np.ndarray) else values
                kept.extend(
                    (level, stage, end + place * length, value)
                    for place, value in enumerate(values if self.shape else listed)
                )
            self._forget_published()
        if lost:
            raise ParameterError(
                f"figures must be asked for before {_MOST_KEPT} numbers wait, got more; call"
                " figures() more often"
            )
        ordered = sorted(kept, key=self._place)
        lengths = [level.length for level in self._levels]
        return [
            Figure(level, end - lengths[level], end, stage, value)
            for level, stage, end, value in ordered
        ]

    def _place(self, figure: tuple[int, int, int, Any]) -> tuple[int, int, int, int]:
        """When a figure was published, and its place among those of the same step."""
        number, stage, end, _ = figure
        level = self._levels[number]
        if stage == ANNOUNCED:
            return end - level.length + 1, 0, -number, 0
        return end + level.lags[stage], 1, number, stage

    # Saved states
    # --------------------------------------------------------------------------------------------
    def save(self) -> bytes:
        """The state as versioned bytes: see :meth:`Counter.save`."""
        require_lineage(self._lineage)
        with self._lock:
            rows: list[Any] = []
            ratchets = []
            for level in self._levels:
                rows += [level.open, level.below, *(level.noise or ()), *level.ties]
                rows += [number for waiting in level.waiting for both in waiting for number in both]
                if isinstance(level.children, Listed | Ratchet):
                    ratchets.append(level.children.state)
            return SavedState(
                mechanism=self._mechanism,
                width=self._inputs.width,
                parts=Parts(
                    time=self._time,
                    total=np.asarray(self._total, dtype=np.int64),
                    delayed=(),
                    tails=[np.asarray(row, dtype=np.int64) for row in rows],
                    ratchets=tuple(ratchets),
                ),
            ).to_bytes()

    def _continue(self, parts: Parts) -> None:
        own: Any = int if self._inputs.width is None else np.copy
        rows, ratchets = map(own, parts.tails), iter(parts.ratchets)
        self._total = own(parts.total)
        self._time = time = parts.time
        self._bound = LARGEST_SUM  # the next input finds the true one
        self._next_due = 0
        for level in self._levels:
            level.open, level.below = next(rows), next(rows)
            if level.ahead and time % level.length:
                level.noise = [next(rows) for _ in level.lags]
            if level.tied:
                begun = -(-time // level.length)
                level.ties.extend(next(rows) for _ in range(begun - level.due(time, 0)))
            for stage, waiting in enumerate(level.waiting):
                for _ in range(time // level.length - level.due(time, stage)):
                    waiting.append((next(rows), next(rows)))
            if level.tied and time % level.length:
                child = -(-time // self._levels[level.number - 1].length) + 1
                try:
                    level.children = self._children_of(level, child, ratchets)
                except (StopIteration, ValueError):
                    raise damaged() from None
        if any(True for _ in ratchets):
            raise damaged()
        self._settle()


class _Chunk:
    """Many steps at once: ``items`` in, live totals out. A row is of one step or of one block, with
    one number per key if there are keys."""

    __slots__ = (
        "_after", "_counter", "_items", "_levels", "_now", "_out", "_tail", "_ties", "_width",
    )  # fmt: skip

    def __init__(self, counter: BlockCounter, items: Rows, out: Rows) -> None:
        self._counter, self._items, self._out = counter, items, out
        self._levels, self._tail = counter._levels, counter.shape
        self._now, self._after = counter._time, counter._time + len(items)
        self._width = counter._inputs.width or 1
        self._ties: dict[int, Rows] = {}
        """The differences of tied levels, from the block on that is the next to come out."""

    def run(self) -> None:
        counter, out = self._counter, self._out
        noises = self._open_blocks()
        out[...] = 0
        self._end_blocks(noises)
        each_step = self._share()
        spread = [group for group in counter._shares if each_step is None or group[0]]
        out[0] += counter._total + sum(counter._shares[group] for group in spread)
        np.cumsum(out, axis=0, out=out)
        counter._time = self._after
        for number, ties in self._ties.items():
            level = self._levels[number]
            left = ties[level.due(self._after, 0) - level.due(self._now, 0) :]
            level.ties = deque(left.tolist() if self._tail == () else list(left.copy()))
        counter._settle()
        counter._total = self._own(out[-1]) - sum(counter._shares[group] for group in spread)
        if each_step is not None:
            out += each_step

    def _own(self, row: Any) -> Any:
        """A row that no longer depends on this chunk: an int, or an array over the keys."""
        return int(row) if self._tail == () else row.copy()

    def _rows(self, rows: list[Any]) -> Rows:
        return np.array(rows, dtype=np.int64).reshape(-1, *self._tail)

    # Noise, from the top down
    # --------------------------------------------------------------------------------------------
    def _open_blocks(self) -> list[list[Rows]]:
        """The noises of the blocks that end in this chunk, for each level and stage. Differences
        are announced, and blocks that stay open keep their noise."""
        noises: list[list[Rows]] = [[] for _ in self._levels]
        opened: Rows | None = None
        for level in reversed(self._levels):
            ended, ending = self._now // level.length, self._after // level.length
            if not level.ahead:
                noises[level.number] = self._drawn(level, ended, ending)
                continue
            first, after = -(-self._now // level.length), (self._after - 1) // level.length + 1
            drawn = self._drawn(level, first, after) if opened is None else [opened]
            opened = self._tie(level, drawn[0], first) if level.tied else None
            if level.noise is not None:
                drawn = [
                    np.concatenate([self._rows([old]), new])
                    for old, new in zip(level.noise, drawn, strict=True)
                ]
            noises[level.number] = [rows[: ending - ended] for rows in drawn]
            left_open = self._after % level.length > 0
            level.noise = [self._own(rows[-1]) for rows in drawn] if left_open else None
        return noises

    def _drawn(self, level: _Level, first: int, after: int) -> list[Rows]:
        """The noises of the blocks ``first + 1 .. after`` of a level, for each stage."""
        if first >= after:
            return [self._rows([]) for _ in level.lags]
        blocks = range(first + 1, after + 1)
        rows = level.chain.many(self._counter._source, blocks, self._width)
        return [each.reshape(-1, *self._tail) for each in rows]

    def _tie(self, level: _Level, own: Rows, first: int) -> Rows:
        """The noises of the children that open in this chunk. ``own`` are the noises of the blocks
        ``first + 1 ..`` of a tied level that open in it: their differences are announced."""
        ratio, below = level.ratio, self._levels[level.number - 1]
        next_child = -(-self._now // below.length)
        last_child = (self._after - 1) // below.length + 1
        children = [self._rows([])]
        differences = [self._rows(list(level.ties))]
        known = len(level.ties)
        if level.children is not None:  # the rest of a block that is open already
            count = min(last_child, first * ratio) - next_child
            children.append(self._rows([level.children.next() for _ in range(count)]))
        whole = max(0, self._after // level.length - first)
        if whole:
            blocks = range(first * ratio + 1, (first + whole) * ratio + 1)
            noises = self._counter._source.many(
                below.chain.sharpest, below.number, range(1), blocks, self._width
            ).reshape(-1, *self._tail)
            children.append(noises)
            sums = noises.reshape(whole, ratio, *self._tail).sum(axis=1)
            differences.append(own[:whole] - sums)
        if self._after % level.length == 0:
            level.children = None
        elif len(own) > whole:  # the last block stays open
            begun = (first + whole) * ratio
            level.children = self._counter._children_of(level, begun + 1)
            differences.append(self._rows([own[-1] - level.children.total(ratio)]))
            count = last_child - begun
            children.append(self._rows([level.children.next() for _ in range(count)]))
        self._ties[level.number] = ties = np.concatenate(differences)
        end = (first + 1) * level.length
        self._counter._keep_many(level.number, ANNOUNCED, end, ties[known:])
        return np.concatenate(children)

    # Counts, from the bottom up
    # --------------------------------------------------------------------------------------------
    def _end_blocks(self, noises: list[list[Rows]]) -> None:
        """Make the figures of the blocks that end in this chunk, carry their counts up, and add the
        jumps that are due to the output."""
        sums = _prefix_sums(self._items)
        inside: Any = 0  # what the open block of a level held before this chunk
        reached, lower = len(self._items), sums[:1]
        for level in self._levels:
            length, number = level.length, level.number
            ended, ending = self._now // length, self._after // length
            first, last = (ended + 1) * length - self._now, ending * length - self._now
            carried, inside = inside, inside + level.open
            counts = self._items if length == 1 else _blocks(sums[first::length], inside)
            if ending > ended:
                level.open = self._own(sums[reached] - sums[last])
            elif reached > 0:
                level.open = level.open + carried + self._own(sums[reached])
            reached = last
            values = [counts + noise for noise in noises[number]]
            jump = values[0]
            if level.tied:
                out = level.due(self._now, 0)
                jump = self._ties[number][ended - out : ending - out]
            elif number:
                children = self._now // self._levels[number - 1].length
                place = (ended + 1) * level.ratio - children
                jump = jump - _blocks(lower[place :: level.ratio], level.below)
                if ending > ended:
                    level.below = self._own(lower[-1] - lower[ending * level.ratio - children])
                else:
                    level.below = level.below + self._own(lower[-1])
            for stage, change in enumerate([jump, *(new - old for old, new in pairwise(values))]):
                self._publish(level, stage, values[stage], change)
            if number + 1 < len(self._levels) and not self._levels[number + 1].tied:
                lower = _prefix_sums(values[-1])

    def _publish(self, level: _Level, stage: int, values: Rows, jumps: Rows) -> None:
        """Publish what is due at a stage, put its jumps into the output, and keep the rest back."""
        waiting, length = level.waiting[stage], level.length
        if waiting:
            values = np.concatenate([self._rows([value for value, _ in waiting]), values])
            jumps = np.concatenate([self._rows([jump for _, jump in waiting]), jumps])
        out = level.due(self._now, stage)
        due = level.due(self._after, stage) - out
        if due:
            first = (out + 1) * length
            place = first + level.lags[stage] - self._now - 1
            self._out[place::length][:due] += jumps[:due]
            self._counter._keep_many(level.number, stage, first, values[:due])
        level.waiting[stage] = deque(
            (self._own(value), self._own(jump))
            for value, jump in zip(values[due:], jumps[due:], strict=True)
        )

    def _share(self) -> Rows | None:
        """Put the shares of announced differences into the output as jumps; return those that
        change with every step, to be added afterwards."""
        each_step = None
        for group, before in self._counter._shares.items():
            levels = [self._levels[number] for number in group]
            smallest, whole = levels[0], levels[-1].length // levels[0].length
            done, after = smallest.due(self._now, 0), smallest.due(self._after, 0)
            if done == after:
                continue
            numerator: Any = 0
            for level in levels[1:]:
                per = level.length // smallest.length
                numerator = numerator + self._parts(level, per, whole // per, done + 1, after + 1)
            shares = _rounded(numerator, whole)
            if smallest.number == 0 and smallest.length == 1 and smallest.lags[0] == 0:
                each_step = shares
            else:
                place = (done + 1) * smallest.length + smallest.lags[0] - self._now - 1
                jumps = shares.copy()
                jumps[1:] -= shares[:-1]
                jumps[0] -= before
                self._out[place :: smallest.length][: after - done] += jumps
        return each_step

    def _parts(self, level: _Level, per: int, factor: int, first: int, after: int) -> Any:
        """For each number of smallest blocks from ``first`` on: how many of them the open block of
        a tied level holds, times ``factor`` and its difference."""
        ties, out = self._ties[level.number], level.due(self._now, 0)
        begin, end = first // per, (after - 1) // per + 1
        used = _exact(level, ties[begin - out : end - out]) * factor
        if len(used) < end - begin:  # the next block is not open yet, and none of it is covered
            used = np.concatenate([used, np.zeros_like(used, shape=(1, *self._tail))])
        if per <= after - first:
            parts = np.arange(per).reshape(1, per, *(1 for _ in self._tail))
            all_parts = (used[:, np.newaxis] * parts).reshape(-1, *self._tail)
            return all_parts[first - begin * per : after - begin * per]
        starts: Any = np.arange(begin, end + 1) * per
        times: Any = np.diff(np.clip(starts, first, after))
        parts = np.arange(first, after) - np.repeat(starts[:-1], times)
        return np.repeat(used, times, axis=0) * parts.reshape(-1, *(1 for _ in self._tail))


def _farthest(numbers: Any) -> int:
    """The largest absolute value."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def _prefix_sums(rows: Rows) -> Rows:
    sums = np.zeros((len(rows) + 1, *rows.shape[1:]), dtype=np.int64)
    np.cumsum(rows, axis=0, out=sums[1:])
    return sums


def _blocks(sums: Rows, first: Any) -> Rows:
    """The sums of adjacent blocks from the running sums at their ends; ``first`` is what the first
    one held before."""
    counts = sums.copy()
    counts[1:] -= sums[:-1]
    counts[:1] += first
    return counts


def _exact(level: _Level, differences: Any) -> Any:
    """Differences in a form whose multiples do not wrap."""
    wide = level.wide and isinstance(differences, np.ndarray)
    return differences.astype(object) if wide else differences


def _rounded(numerator: Any, whole: int) -> Any:
    """``numerator / whole`` as the nearest integer, the larger one of two."""
    share = (2 * numerator + whole) // (2 * whole)
    return share.astype(np.int64) if isinstance(share, np.ndarray) else share
