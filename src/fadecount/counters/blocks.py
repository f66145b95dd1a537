"""The running counter of block counters: the live total beside the figures.

The figures come from a :class:`~fadecount.counters.figures.FigureMaker`. The live total is the
*cover*, the sum of the largest figures that are out (:mod:`fadecount.mechanisms.views`). A figure
that comes out takes the place of what the cover held for its block: its own stage before, or its
children at their last stage. All of them are known when the block ends, so the change of the total
is too: the totals of many steps are the running sums of these changes.

What a state holds, and what whoever reads it learns: the live total, which is public; counts of
open blocks; figures under embargo, and by how much they will change the total; for each open block
the sum of its children's figures, some of which may be under embargo. No true count outlives its
block, and there is no noise of a block that has not ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fadecount.counters.counter import Counter, Rows
from fadecount.counters.figures import FigureMaker, OpenBlock
from fadecount.counters.inputs import LARGEST_SUM, max_abs, running_sums, sum_too_large
from fadecount.counters.state import Parts, damaged
from fadecount.errors import ParameterError
from fadecount.mechanisms import Blocks, Figure
from fadecount.noise import NoiseSource

_AT_ONCE = 1 << 17
"""How many numbers are counted at once: they stay in cache."""
_MOST_KEPT = 1 << 22
"""For how many steps, over all keys, figures wait for :meth:`BlockCounter.figures`."""


class BlockCounter(Counter):
    """A counter of :class:`fadecount.Blocks`; ``Counter(mechanism)`` gives one."""

    __slots__ = ("_below", "_dropped", "_embargo", "_kept", "_levels", "_maker", "_room")
    _mechanism: Blocks

    def _start(self, source: NoiseSource) -> None:
        self._mechanism.require_ordered_lags()
        self._levels, calendar = self._mechanism.levels, self._mechanism.calendar
        self._maker = FigureMaker(self._mechanism, calendar, self._width, source)
        self._below = self._zeros(len(self._levels))
        """For each level, what the children in its open block add up to at their last stage."""
        self._embargo: dict[tuple[int, int], tuple[Rows, Rows]] = {}
        """By level and stage the figures of adjacent blocks that are not published yet, and by how
        much each will change the live total."""
        self._kept: deque[tuple[int, int, int, int, Rows]] = deque()
        """What was published: by which step, level, stage, where the first block ends, and a row
        for each."""
        self._dropped = self._room = 0
        """Up to which step figures were dropped that nobody asked for; how much may be added before
        sums are measured again."""

    @property
    def time(self) -> int:
        """How many steps have been taken."""
        return self._maker.time

    def _step(self, counted: Any) -> Any:
        return self._listed(self._extend(np.reshape(counted, (1, -1))))[0]

    def _extend(self, rows: Rows) -> Rows:
        self._require_room(len(rows) * max_abs(rows))
        released = self._zeros(len(rows))
        at_once = max(1, _AT_ONCE // self._width)
        for start in range(0, len(rows), at_once):
            self._count(rows[start : start + at_once], released[start : start + at_once])
        return released

    def _require_room(self, added: int) -> None:
        """Refuse inputs that could take a count or a total out of the exact range."""
        if self._room < added:
            blocks, waiting = self._maker.open, self._embargo.get((0, 0))
            total = max_abs(np.asarray(self._total))  # and what is not in it yet
            total += max_abs(blocks[0].count) if 0 in blocks else 0
            total += len(waiting[0]) * max_abs(waiting[0]) if waiting else 0
            held = max(total, sum(max_abs(block.count) for block in blocks.values()))
            if held + added > LARGEST_SUM:
                raise sum_too_large()
            self._room = LARGEST_SUM - held
        self._room -= added

    def _count(self, rows: Rows, released: Rows) -> None:
        """Count some steps, and write the live total after each."""
        before = self.time
        made = {(each.level, each.stage): each.values for each in self._maker.close(rows)}
        while self._kept and self._kept[0][0] < self.time - _MOST_KEPT // self._width:
            self._dropped = self._kept.popleft()[0]
        for number, level in enumerate(self._levels):
            children = self._children(number, made, before)
            for stage in range(len(level.stages)):
                values = made.get((number, stage))
                if values is not None:
                    self._hold(
                        number, stage, values, values if children is None else values - children
                    )
                    children = values
                if (number, stage) in self._embargo:
                    self._publish(number, stage, before, released)
        released[0] += self._total
        running_sums(released, out=released)
        (self._total,) = self._listed(released[-1:])

    def _children(self, number: int, made: dict[tuple[int, int], Rows], before: int) -> Any:
        """What the children of the blocks of a level that end add up to at their last stage; None
        for the smallest level. Keeps the sum of those in a block that stays open."""
        if not number:
            return None
        below = self._levels[number - 1]
        children = made.get((number - 1, len(below.stages) - 1))
        if children is None:
            return None
        ratio = self._levels[number].length // below.length
        first = ratio - before // below.length % ratio  # so many are left in the open block
        starts = np.concatenate([[0], np.arange(first, len(children), ratio)])
        sums = np.add.reduceat(children, starts, axis=0)
        sums[0] += self._below[number]
        ended = (len(children) + ratio - first) // ratio
        self._below[number] = sums[ended] if ended < len(sums) else 0
        return sums[:ended]

    def _hold(self, level: int, stage: int, values: Rows, changes: Rows) -> None:
        """Put the figures of blocks that ended under embargo, with what they will change."""
        if (level, stage) in self._embargo:
            held, held_changes = self._embargo[level, stage]
            values, changes = (
                np.concatenate([held, values]),
                np.concatenate([held_changes, changes]),
            )
        self._embargo[level, stage] = values, changes

    def _publish(self, level: int, stage: int, before: int, released: Rows) -> None:
        """Publish the figures that are due after the steps since ``before``, and add what they
        change to the steps that publish them."""
        done, due = (self._public(level, stage, step) for step in (before, self.time))
        if due > done:
            count, length = due - done, self._levels[level].length
            values, changes = self._embargo.pop((level, stage))
            first = (done + 1) * length + self._levels[level].stages[stage].lag
            released[first - before - 1 :: length][:count] += changes[:count]
            self._kept.append((self.time, level, stage, (done + 1) * length, values[:count]))
            if len(values) > count:
                self._embargo[level, stage] = values[count:].copy(), changes[count:].copy()

    def _public(self, level: int, stage: int, step: int) -> int:
        """How many blocks of a level are out at a stage after a step."""
        size = self._levels[level]
        return max(0, step - size.stages[stage].lag) // size.length

    # What was published
    # --------------------------------------------------------------------------------------------
    def figures(self) -> list[Figure]:
        """What was published since the last call, in the order of publication.

        A figure is ``(level, start, end, stage, value)`` for the steps ``start + 1 .. end``; the
        value is an array over the keys for a vector of counts. Figures wait for a call for 2**22
        steps, divided by the number of keys; a saved state does not hold them. A call after older
        ones were dropped is refused once; the next one returns those that are left.
        """
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                raise ParameterError(
                    f"figures must be asked for at least every {_MOST_KEPT // self._width:,} steps;"
                    f" those up to step {dropped:,} are dropped, call figures() again for the"
                    " later ones"
                )
            kept, self._kept = self._kept, deque()
        figures = []
        for _, level, stage, first, values in kept:
            length = self._levels[level].length
            for end, value in enumerate(self._listed(values)):
                start = first + (end - 1) * length
                figures.append(Figure(level, start, start + length, stage, value))
        return sorted(figures, key=self._order)

    def _order(self, figure: Figure) -> tuple[int, int, int]:
        """When a figure was published, and its place among those of the same step."""
        lag = self._levels[figure.level].stages[figure.stage].lag
        return figure.end + lag, figure.level, figure.stage

    # Saved states
    # --------------------------------------------------------------------------------------------
    def _waiting(self) -> Iterator[tuple[int, int, int]]:
        """Of which level and stage how many figures are under embargo, if any."""
        for number, level in enumerate(self._levels):
            for stage in range(len(level.stages)):
                ended = self.time // level.length - self._public(number, stage, self.time)
                if ended:
                    yield number, stage, ended

    def _parts(self) -> Parts:
        rows = [block.count for _, block in sorted(self._maker.open.items())]
        rows += list(self._below[1:])
        for level, stage, _ in self._waiting():
            for each in self._embargo[level, stage]:
                rows += list(each)
        return Parts(
            time=self.time,
            total=np.array(self._total, dtype=np.int64).reshape(-1),
            delayed=(),
            tails=[row.copy() for row in rows],
        )

    def _continue(self, parts: Parts) -> None:
        rows = iter(parts.tails)

        def array(count: int) -> Rows:
            taken = [next(rows) for _ in range(count)]
            return np.array(taken, dtype=np.int64).reshape(-1, self._width)

        self._maker.time = parts.time
        (self._total,) = self._listed(parts.total.reshape(1, self._width))
        for number, level in enumerate(self._levels):
            if parts.time % level.length:
                start = parts.time // level.length * level.length
                block = OpenBlock(start=start, end=start + level.length, count=array(1)[0])
                self._maker.open[number] = block
        self._below[1:] = array(len(self._levels) - 1)
        for each in self._waiting():
            self._embargo[each[:2]] = array(each[2]), array(each[2])
        if parts.delayed or parts.ahead or next(rows, None) is not None:
            raise damaged()
