"""The noise of :class:`fadecount.Totals`, for many steps at once.

For each group of tied levels the noise is a running sum over its smallest blocks
(:mod:`fadecount.mechanisms.totals`). When a block of a larger level is entered, the noises of all
its children are drawn, and those of the children to come wait. A block of the next group takes the
place of what the group before had for its steps, which is the last noise of its largest blocks; a
later stage takes the place of the one before. All of this changes the noise of an output at the
steps when blocks come into use: outputs are running sums of these changes, in numerators over one
denominator.

``tails`` holds, for each count: the whole part of the noise and the numerator of the rest; then for
each group the bridges of its open blocks and the noises of their children to come, the changes by
later stages that wait, and what the largest blocks add up to in blocks of the next group that are
not in use yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import LARGEST_SUM, max_abs, running_sums
from fadecount.counters.state import damaged
from fadecount.mechanisms import scale_of
from fadecount.mechanisms.totals import Bridges
from fadecount.noise import Chain, NoiseSource

_BLOCK = 1 << 17
"""How many numbers are made at once: they stay in cache."""
Rows = NDArray[np.int64]


class BridgePath:
    """The noise of the next steps. See the module."""

    __slots__ = ("_denominator", "_groups", "_rest", "_whole", "_width", "shown")

    def __init__(self, rule: Bridges, source: NoiseSource, width: int) -> None:
        self._groups: list[_Group] = []
        for group in rule.groups:
            before = self._groups[-1] if self._groups else None
            self._groups.append(_Group(rule, group, source, width, before))
        self._denominator = math.lcm(*(group.parts for group in self._groups))
        self._width, self.shown = width, 0
        self._whole = np.zeros((1, width), dtype=np.int64)
        self._rest = np.zeros((1, width), dtype=np.int64)

    @property
    def tails(self) -> list[Rows]:
        rows = [self._whole, self._rest, *(each for group in self._groups for each in group.rows)]
        return [row for each in rows for row in each]

    def restore(self, shown: int, tails: Sequence[Rows]) -> None:
        """Continue from saved tails; those that do not fit the steps are refused."""
        self.shown, rows = shown, list(tails)

        def take(count: int) -> Rows:
            if count > len(rows):
                raise damaged()
            taken = np.array(rows[:count], dtype=np.int64).reshape(count, self._width)
            del rows[:count]
            return taken

        self._whole, self._rest = take(1), take(1)
        for group in self._groups:
            group.restore(shown, take)
        if rows or np.any((self._rest < 0) | (self._rest >= self._denominator)):
            raise damaged()

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps, block by block."""
        at_once = max(1, _BLOCK // self._width)
        for start in range(0, len(sums), at_once):
            part = sums[start : start + at_once]
            changes: list[tuple[slice, Any, int]] = []
            for group in self._groups:
                changes += group.advance(self.shown, self.shown + len(part))
            part += self._outputs(len(part), changes)
            self.shown += len(part)

    def _outputs(self, steps: int, changes: list[tuple[slice, Any, int]]) -> Rows:
        """The noise in the next outputs, from the changes of numerators at some of them. Products
        that int64 does not hold are computed in Python's integers."""
        denominator = self._denominator
        most = sum(len(rows) * max_abs(rows) * denominator // parts for _, rows, parts in changes)
        kind: Any = np.int64 if 4 * (most + denominator) < LARGEST_SUM else object
        numerators = np.zeros((steps, self._width), dtype=kind)
        numerators[0] += self._rest[0]
        for places, rows, parts in changes:
            numerators[places] += rows.astype(kind, copy=False) * (denominator // parts)
        running_sums(numerators, out=numerators)
        more = numerators // denominator
        rest = numerators - more * denominator
        whole: Rows = self._whole + more.astype(np.int64)
        self._whole, self._rest = whole[-1:].copy(), rest[-1:].astype(np.int64)
        up = (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
        outputs: Rows = whole + up.astype(np.int64)
        return outputs


class _Group:
    """The noise of the blocks of some tied levels. Blocks of each level are numbered from 0."""

    __slots__ = (
        *("_below", "_bridges", "_chains", "_children", "_lags", "_length", "_longest", "_next"),
        *("_per", "_previous", "_source", "_stages", "_width", "parts"),
    )

    def __init__(
        self, rule: Bridges, group: range, source: NoiseSource, width: int, previous: _Group | None
    ) -> None:
        levels = [rule.levels[number] for number in group]
        self._source, self._width, self._previous = source, width, previous
        self._next: _Group | None = None
        if previous is not None:
            previous._next = self
        self._length, self._longest = levels[0].length, levels[-1].length
        self.parts = self._longest // self._length
        """How many of the smallest blocks the largest one has."""
        self._per = [level.length // self._length for level in levels]
        self._lags = [stage.lag - rule.levels[0].lag for stage in levels[-1].stages]
        self._chains = [
            Chain(number, [scale_of(stage.epsilon) for stage in level.stages])
            for number, level in zip(group, levels, strict=True)
        ]
        none = np.zeros((0, width), dtype=np.int64)
        self._bridges, self._children = [none for _ in levels], [none for _ in levels]
        """By level, if its block is open: its bridge, and the noises of its children to come."""
        self._stages = [none for _ in self._lags]
        """By stage the changes by the largest blocks that were entered, from the next one on."""
        self._below = none
        """For the next blocks the sums of the last noises of the group before."""

    def _used(self, shown: int, stage: int = 0) -> int:
        """How many of the smallest blocks are in use; at a later stage, of the largest ones."""
        length = self._longest if stage else self._length
        return max(0, shown - self._lags[stage]) // length

    # State
    # --------------------------------------------------------------------------------------------
    @property
    def rows(self) -> list[Rows]:
        """What is saved."""
        return [*self._bridges[1:], *self._children[1:], *self._stages[1:], self._below]

    def restore(self, shown: int, take: Callable[[int], Rows]) -> None:
        """Continue with what was saved; ``take`` gives so many rows of it."""
        used = self._used(shown)
        for level, per in enumerate(self._per[1:], start=1):
            self._bridges[level] = take(int(used % per > 0))
        for level, (below, per) in enumerate(pairwise(self._per), start=1):
            self._children[level] = take(-(-used // per) * (per // below) - -(-used // below))
        for stage in range(1, len(self._lags)):
            self._stages[stage] = take(-(-used // self.parts) - self._used(shown, stage))
        if (before := self._previous) is not None:
            entered = -(-before._used(shown) // before.parts) * before._longest
            self._below = take(-(-entered // self._length) - used)

    # Steps
    # --------------------------------------------------------------------------------------------
    def advance(self, first: int, last: int) -> list[tuple[slice, Any, int]]:
        """What changes in the outputs of the steps ``first + 1 .. last``: at which of them, by
        which numerators, over which denominator."""
        begin, end = self._used(first), self._used(last)
        changes: list[tuple[slice, Any, int]] = []
        if begin < end:
            numerators = self._enter(begin, end, first)
            if self._previous is not None:
                numerators -= self.parts * self._below[: end - begin].astype(numerators.dtype)
                self._below = self._below[end - begin :].copy()
            place = (begin + 1) * self._length + self._lags[0] - first - 1
            changes.append((slice(place, None, self._length), numerators, self.parts))
        for stage in range(1, len(self._lags)):
            done, due = self._used(first, stage), self._used(last, stage)
            if done < due:
                place = (done + 1) * self._longest + self._lags[stage] - first - 1
                rows, self._stages[stage] = np.split(self._stages[stage], [due - done])
                changes.append((slice(place, None, self._longest), rows, 1))
        return changes

    def _enter(self, begin: int, end: int, first: int) -> Any:
        """The numerators that the smallest blocks ``begin .. end - 1`` add. Draws the noises of
        the largest blocks that are entered, and of the children of all that are."""
        noises = self._draw(-1, -(-begin // self.parts), -(-end // self.parts))
        for stage in range(1, len(noises)):
            more = noises[stage] - noises[stage - 1]
            self._stages[stage] = np.concatenate([self._stages[stage], more])
        if self._next is not None:
            self._next._receive(first, -(-begin // self.parts), noises[-1])
        own, bridges = noises[0], []
        for level in range(len(self._per) - 1, 0, -1):
            per, below = self._per[level], self._per[level - 1]
            child, ratio = -(-begin // per) * (per // below), per // below
            (drawn,) = self._draw(level - 1, child, child + len(own) * ratio)
            fresh = own - drawn.reshape(len(own), ratio, self._width).sum(axis=1)
            bridges.append((level, np.concatenate([self._bridges[level], fresh])))
            self._bridges[level] = bridges[-1][1][-1:].copy() if end % per else fresh[:0]
            children = np.concatenate([self._children[level], drawn])
            entered = -(-end // below) - -(-begin // below)
            own, self._children[level] = children[:entered], children[entered:].copy()
        most = sum(max_abs(rows) * self.parts for _, rows in bridges) + max_abs(own) * self.parts
        kind: Any = np.int64 if 4 * most < LARGEST_SUM else object
        numerators = own.astype(kind, copy=False) * self.parts
        shares: Any = 0
        for level, rows in bridges:
            shares = shares + rows.astype(kind, copy=False) * (self.parts // self._per[level])
            below = self._per[level - 1]
            blocks = np.arange(begin // below, -(-end // below))
            shares = shares[blocks * below // self._per[level] - begin // self._per[level]]
        numerators += shares
        return numerators

    def _draw(self, level: int, first: int, after: int) -> list[Rows]:
        """The noises of adjacent blocks of a level, for each stage."""
        blocks = range(first + 1, after + 1)
        return self._chains[level].many(self._source, blocks, self._width)

    def _receive(self, shown: int, first: int, noises: Rows) -> None:
        """Add the last noises of the largest blocks of the group before, from the ``first`` on, to
        the blocks that hold them."""
        assert self._previous is not None
        per, used = self._length // self._previous._longest, self._used(shown)
        blocks = np.arange(first, first + len(noises)) // per - used
        if len(blocks):
            sums = np.zeros((int(blocks[-1]) + 1, self._width), dtype=np.int64)
            sums[: len(self._below)] = self._below
            starts = np.flatnonzero(np.diff(blocks, prepend=-1))
            sums[blocks[starts]] += np.add.reduceat(noises, starts, axis=0)
            self._below = sums
