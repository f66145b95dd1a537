"""The running counter of block counters: figures, and the live total after each step.

Figures come from :class:`fadecount.counters.figures.FigureMaker`. The live total is the *cover*,
which is the sum of the largest figures that are out, plus the shares of announced differences
(:mod:`fadecount.mechanisms.views`).

The cover changes by *jumps*. A figure that comes out takes the place of what the cover held for its
block: its own stage before, or its children at their last stage. All of them are known when the
block ends, so the jump is too. Of a tied block it is the difference that the block announced. Until
a figure is out, it waits with its jump under embargo.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.counters.counter import Counter
from fadecount.counters.figures import FigureMaker, Made, OpenBlock
from fadecount.counters.grid import LARGEST_SUM, Grid, accumulate
from fadecount.counters.state import Parts, SavedState, damaged
from fadecount.errors import ParameterError, SumOverflowError
from fadecount.mechanisms import ANNOUNCED, Blocks, Figure, Level, scale_of
from fadecount.noise import Lineage, NoiseSource, Ratchet, require_lineage

_AT_ONCE = 1 << 18
_MOST_KEPT = 1 << 22
"""How many published numbers wait for :meth:`BlockCounter.figures`."""
_UNLIKELY = 64
"""No noise is farther away than so many times its scale (probability exp(-64))."""

Rows = NDArray[np.int64]


class BlockCounter(Counter):
    """A counter of :class:`fadecount.Blocks`; ``Counter(mechanism)`` gives one."""

    __slots__ = (
        *("_groups", "_kept", "_levels", "_maker", "_numbers", "_wide"),
        *("_below", "_bound", "_shares", "_ties", "_waiting"),
    )

    def _prepare(self, mechanism: Any, width: int | None, source: NoiseSource) -> None:
        self._mechanism, self._grid = mechanism, Grid(width)
        self._levels: tuple[Level, ...] = mechanism.levels
        self._groups = [group for group in mechanism.groups if len(group) > 1]
        self._maker = FigureMaker(mechanism, mechanism.calendar, width or 1, source)
        self._total, self._bound = self._zeros(), 0
        self._below = [self._zeros() for _ in mechanism.levels]
        """What the children in each open block that is not tied add up to at their last stage."""
        self._ties = {
            number: self._rows([]) for number, level in enumerate(mechanism.levels) if level.tied
        }
        """The differences announced by blocks that are not out yet."""
        self._wide = {number for number in self._ties if _may_wrap(mechanism, number)}
        self._waiting: dict[tuple[int, int], deque[tuple[Rows, Rows]]] = {
            (number, stage): deque()
            for number, level in enumerate(mechanism.levels)
            for stage in range(len(level.stages))
        }
        """Figures and their jumps under embargo, for each level and stage."""
        self._shares: dict[range, tuple[int, Rows]] = {
            group: (-1, self._zeros()) for group in self._groups
        }
        """For how many smallest blocks of a tied group the last share was, and that share."""
        self._forget_published()
        self._lock = threading.Lock()
        self._lineage = Lineage.current

    def _zeros(self) -> Rows:
        return np.zeros(self._maker.width, dtype=np.int64)

    def _rows(self, rows: list[Rows]) -> Rows:
        return np.array(rows, dtype=np.int64).reshape(-1, self._maker.width)

    @property
    def time(self) -> int:
        """How many steps have been taken."""
        return self._maker.time

    # Counting
    # --------------------------------------------------------------------------------------------
    def step(self, item: Any) -> Any:
        """Count one step's input and return the live total: see :class:`Counter`."""
        row = np.reshape(self._grid.one(item), (1, -1))
        totals = self._taken(row)[0]
        return int(totals[0]) if self._grid.width is None else totals

    def extend(self, items: ArrayLike) -> Any:
        """Count the inputs of many steps and return the live total after each: see
        :class:`Counter`."""
        array = self._grid.many(items)
        return self._taken(array.reshape(len(array), self._maker.width)).reshape(array.shape)

    def _taken(self, items: Rows) -> Rows:
        require_lineage(self._lineage)
        totals = np.empty_like(items)
        with self._lock:
            self._require_room(items)
            at_once = max(1, _AT_ONCE // self._maker.width)
            for start in range(0, len(items), at_once):
                part = slice(start, start + at_once)
                self._take(items[part], totals[part])
        return totals

    def _require_room(self, items: Rows) -> None:
        """Refuse inputs that could take a count or a total out of the exact range."""
        added = len(items) * _farthest(items)
        bound = self._bound + added
        if bound > LARGEST_SUM:
            inside = sum(_farthest(block.count) for block in self._maker.open.values())
            bound = max(_farthest(self._total), inside) + added
        if bound > LARGEST_SUM:
            raise SumOverflowError("sum could pass +-2**62 and lose exactness; start a new counter")
        self._bound = bound

    def _take(self, items: Rows, totals: Rows) -> None:
        """Count some steps, and write the live total after each."""
        now = self.time
        made = {(each.level, each.stage): each for each in self._maker.close(items)}
        totals[...] = 0
        totals[0] = self._total
        below = nothing = self._rows([])  # the last stages of the smaller blocks that ended
        for number, level in enumerate(self._levels):
            if (announced := made.get((number, ANNOUNCED))) is not None:
                self._ties[number] = np.concatenate([self._ties[number], announced.values])
                self._keep(announced)
            values = [nothing for _ in level.stages]
            if (number, 0) in made:
                values = [made[number, stage].values for stage in range(len(level.stages))]
            jumps = self._first_jumps(number, values[0], below, now)
            for stage, each in enumerate(values):
                if stage:
                    jumps = each - values[stage - 1]
                self._publish(number, stage, each, jumps, totals, now)
            below = values[-1]
        self._total = accumulate(totals)[-1].copy()
        for group in self._groups:
            self._share(group, totals, now)
        for number, ties in self._ties.items():
            out = self._due(number, 0, self.time) - self._due(number, 0, now)
            if out:
                self._ties[number] = ties[out:].copy()

    def _due(self, number: int, stage: int, step: int) -> int:
        """How many blocks of a level are out at a stage after a step."""
        level = self._levels[number]
        return max(0, step - level.stages[stage].lag) // level.length

    def _first_jumps(self, number: int, values: Rows, below: Rows, now: int) -> Rows:
        """By how much the first figures of the blocks that ended change the cover: the smallest by
        all of it, tied ones by what they announced, others by what is not in their children."""
        levels = self._levels
        if number == 0:
            return values
        length = levels[number].length
        ended = now // length
        if levels[number].tied:
            first = ended - self._due(number, 0, now)
            return self._ties[number][first : first + len(values)]
        if not len(below):
            return values
        sums = accumulate(below.copy())
        if not len(values):
            self._below[number] = self._below[number] + sums[-1]
            return values
        child = levels[number - 1].length
        last = ((ended + np.arange(1, len(values) + 1)) * length - now // child * child) // child
        held = sums[last - 1]
        rest = sums[-1] - held[-1]
        held[1:] -= held[:-1].copy()
        held[0] += self._below[number]
        self._below[number] = rest
        return values - held

    def _publish(
        self, number: int, stage: int, values: Rows, jumps: Rows, totals: Rows, now: int
    ) -> None:
        """Publish what is due at a stage, add its jumps to the totals, and keep the rest back."""
        waiting, level = self._waiting[number, stage], self._levels[number]
        out = self._due(number, stage, now)
        due = self._due(number, stage, self.time) - out
        if not due and not len(values):
            return
        early = [waiting.popleft() for _ in range(min(due, len(waiting)))]
        rest = due - len(early)
        if rest < len(values):
            waiting.extend(zip(values[rest:].copy(), jumps[rest:].copy(), strict=True))
        if not due:
            return
        if early:
            values = np.concatenate([self._rows([value for value, _ in early]), values[:rest]])
            jumps = np.concatenate([self._rows([jump for _, jump in early]), jumps[:rest]])
        ends = np.arange(out + 1, out + due + 1) * level.length
        public = ends + level.stages[stage].lag
        totals[public[0] - now - 1 :: level.length][:due] += jumps[:due]
        self._keep(Made(number, stage, ends - level.length, ends, public, values[:due]))

    def _share(self, group: range, totals: Rows, now: int) -> None:
        """Add to the totals what the part of open tied blocks that is covered gets of their
        differences."""
        smallest = self._levels[group[0]]
        steps = np.arange(now + 1, now + len(totals) + 1)
        covered = np.maximum(steps - smallest.lag, 0) // smallest.length
        known, share = self._shares[group]
        if covered[0] < covered[-1] or covered[0] != known:
            shares = self._shares_of(group, np.arange(covered[0], covered[-1] + 1), now)
            share = shares if len(shares) == len(totals) else shares[covered - covered[0]]
            self._shares[group] = int(covered[-1]), shares[-1].copy()
        totals += share

    def _shares_of(self, group: range, numbers: Rows, now: int) -> Rows:
        """The share for each number of smallest blocks of the group that are covered."""
        levels = self._levels
        finest, whole = levels[group[0]].length, levels[group[-1]].length // levels[group[0]].length
        wide = not self._wide.isdisjoint(group)
        sums = np.full((len(numbers), self._maker.width), whole, dtype=object if wide else np.int64)
        for number in group[1:]:
            per = levels[number].length // finest
            blocks = numbers // per
            parts = (numbers - blocks * per) * (2 * whole // per)
            if parts.any():  # else no block is covered in part, and perhaps none is open
                open_blocks = blocks - self._due(number, 0, now)
                ties = self._ties[number].take(open_blocks, axis=0, mode="clip")
                sums += (ties.astype(object) if wide else ties) * parts[:, np.newaxis]
        sums //= 2 * whole
        return sums.astype(np.int64, copy=False)

    # What was published
    # --------------------------------------------------------------------------------------------
    def _keep(self, published: Made) -> None:
        """Keep published numbers for :meth:`figures`."""
        self._numbers -= len(published.ends)
        if self._numbers >= 0:
            self._kept.append(published)

    def _forget_published(self) -> None:
        self._kept: list[Made] = []
        self._numbers = _MOST_KEPT // self._maker.width

    def figures(self) -> list[Figure]:
        """What was published since the last call, in the order of publication.

        A figure is ``(level, start, end, stage, value)`` for the steps ``start + 1 .. end``; the
        value is an array over the keys for a vector of counts. The stage ``-1`` is no count: it is
        the difference that a tied block announced when it opened. At most 2**22 numbers wait for a
        call; a saved state does not hold them.
        """
        with self._lock:
            kept, lost = self._kept, self._numbers < 0
            self._forget_published()
        if lost:
            raise ParameterError(
                f"figures must be asked for before {_MOST_KEPT} numbers wait, got more; call"
                " figures() more often"
            )
        listed = []
        for level, stage, starts, ends, public, values in kept:
            place = (0, -level) if stage == ANNOUNCED else (1, level)
            given: Any = values if self.shape else values[:, 0].tolist()
            for start, end, step, value in zip(
                starts.tolist(), ends.tolist(), public.tolist(), given, strict=True
            ):
                listed.append(((step, *place, stage), Figure(level, start, end, stage, value)))
        listed.sort(key=lambda each: each[0])
        return [figure for _, figure in listed]

    # Saved states
    # --------------------------------------------------------------------------------------------
    def save(self) -> bytes:
        """The state as versioned bytes: see :meth:`Counter.save`."""
        require_lineage(self._lineage)
        with self._lock:
            rows: list[Rows] = []
            ratchets = []
            for number, level in enumerate(self._levels):
                block = self._maker.open.get(number)
                rows += [self._zeros() if block is None else block.count, self._below[number]]
                if block is not None:
                    rows += block.noise or ()
                    if isinstance(block.children, Ratchet):
                        ratchets.append(block.children.state)
                rows += [*self._ties.get(number, ())]
                for stage in range(len(level.stages)):
                    rows += [row for both in self._waiting[number, stage] for row in both]
            return SavedState(
                mechanism=self._mechanism,
                width=self._grid.width,
                parts=Parts(
                    time=self.time,
                    total=self._total,
                    delayed=(),
                    tails=rows,
                    ratchets=tuple(ratchets),
                ),
            ).to_bytes()

    def _continue(self, parts: Parts) -> None:
        rows, ratchets = (np.array(row).reshape(-1) for row in parts.tails), iter(parts.ratchets)
        maker, time, levels = self._maker, parts.time, self._levels
        self._total = np.array(parts.total).reshape(-1)
        maker.time = time
        self._bound = LARGEST_SUM  # the next input finds the true one
        tied = {number for group in self._groups for number in group}
        for number, level in enumerate(levels):
            count, self._below[number] = next(rows), next(rows)
            if time % level.length:
                start = time // level.length * level.length
                noise = [next(rows) for _ in level.stages] if number in tied else None
                maker.open[number] = OpenBlock(
                    start=start, end=start + level.length, count=count, noise=noise
                )
            if level.tied:
                begun = -(-time // level.length) - self._due(number, 0, time)
                self._ties[number] = self._rows([next(rows) for _ in range(begun)])
            for stage in range(len(level.stages)):
                for _ in range(time // level.length - self._due(number, stage, time)):
                    self._waiting[number, stage].append((next(rows), next(rows)))
            if level.tied and time % level.length:
                try:
                    children = maker.saved_children(number, next(ratchets, None))
                except ValueError:
                    raise damaged() from None
                maker.open[number].children = children
        if any(True for _ in ratchets):
            raise damaged()


def _farthest(numbers: Rows) -> int:
    """The largest absolute value."""
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def _may_wrap(mechanism: Blocks, number: int) -> bool:
    """Whether multiples of the differences of a tied level may leave int64."""
    levels = mechanism.levels
    group = next(each for each in mechanism.groups if number in each)
    children = levels[number].length // levels[number - 1].length
    scale = max(scale_of(levels[each].epsilon) for each in group)
    factor = levels[group[-1]].length // levels[group[0]].length
    return _UNLIKELY * (children + 1) * scale * factor > 2.0**55
