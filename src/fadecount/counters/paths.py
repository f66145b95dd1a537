"""The noise of running counts, for many steps at once.

:class:`NoisePath`. At clock ``u`` the noise in an output is the sum over the levels of the variable
in use. A step renews the levels ``0 .. n`` for some ``n`` and keeps the higher ones, so only the
*tails* are needed: for each level ``l`` the sum of the variables in use on the levels ``>= l``,
carry included. They are listed from the highest level (above all that are in use: the carry alone)
to level 0, whose tail is the output noise. Renewing means dropping the last ``n + 1`` and
rebuilding them from the one before. A block of steps is built top-down by doubling: the tails of
level ``l + 1`` over the block, each repeated for its two halves, plus the new variables of level
``l``. That is two additions and two draws per step, whatever the number of levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.bridges import BridgePath
from fadecount.counters.state import damaged
from fadecount.mechanisms import CARRY, IntervalSchedule, RunningTotal, Schedule, scale_of
from fadecount.mechanisms.totals import Bridges
from fadecount.noise import DiscreteLaplace, NoiseSource

_BLOCK = 1 << 18
Rows = NDArray[np.int64]
"""Of one number per count."""


def path_of(
    mechanism: RunningTotal, source: NoiseSource, width: int
) -> NoisePath | IntervalPath | BridgePath:
    """The noise of a running total, by its rule."""
    rule = mechanism.noise
    if isinstance(rule, Bridges):
        return BridgePath(rule, source, width)
    if isinstance(rule, IntervalSchedule):
        return IntervalPath(rule, source)
    return NoisePath(rule, source, width)


def _restore(
    path: NoisePath | IntervalPath, shown: int, tails: Sequence[Rows], expected: int
) -> None:
    if len(tails) != expected:
        raise damaged()
    path.shown, path.tails = shown, [row.copy() for row in tails]


class NoisePath:
    """The noise variables in use by some counts. ``tails`` are those from level 0 upwards, the
    carry last."""

    __slots__ = (
        "_alternating",
        "_carry_distribution",
        "_distributions",
        "_schedule",
        "_source",
        "shown",
        "tails",
    )

    def __init__(self, schedule: Schedule, source: NoiseSource, width: int) -> None:
        self._schedule, self._source = schedule, source
        self._distributions = [distribution_of(budget) for budget in schedule.budgets]
        self._carry_distribution, self._alternating = (
            distribution_of(schedule.carry_budget),
            schedule.alternating,
        )
        self.shown = 0
        self.tails = self.fresh(width)

    def fresh(self, width: int) -> list[Rows]:
        """The tails of ``width`` more counts, with a new variable for each that is in use. So they
        have the same distribution as if they had been there from the beginning: variables that are
        over are not needed."""
        round_number, clock = self._schedule.place(self.shown)
        tails = [np.zeros(width, dtype=np.int64)]
        if round_number:
            tails = [self._carries(range(round_number, round_number + 1), width)[0, 0]]
        for level in range(clock.bit_length() - 1, -1, -1):
            distribution = (
                self._distributions[level] if not self._alternating or clock >> level & 1 else None
            )
            node = clock >> level
            tails.append(
                tails[-1] + variable(self._source, distribution, level, round_number, node, width)
            )
        return tails[::-1]

    def restore(self, shown: int, tails: Sequence[Rows]) -> None:
        _restore(self, shown, tails, self._schedule.place(shown)[1].bit_length() + 1)

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps, block by block."""
        width, length = sums.shape[1], self._schedule.round_length
        tails, done = self.tails[::-1], 0
        limit = min(max(1, _BLOCK // width), len(sums))
        # Room for two levels, used in turn.
        rooms = [np.empty(limit * width, dtype=np.int64) for _ in range(2)]
        while done < len(sums):
            left = min(limit, len(sums) - done)
            round_number, clock = self._schedule.place(self.shown + done + 1)
            rounds = range(round_number, round_number + 1)
            if length is not None and clock == 1 and round_number:
                rounds = range(round_number, round_number + max(1, left // length))
                tails = [self._carries(rounds, width)]
            part = left if length is None else min(left, length - clock + 1)
            noise, tails = self._tree(rounds, clock, part, tails, rooms)
            noise = noise.reshape(-1, width)
            sums[done : done + len(noise)] += noise
            done += len(noise)
        self.tails = tails[::-1]
        self.shown += done

    def _carries(self, rounds: range, width: int) -> Rows:
        """The tails at the beginning of later rounds: their carries alone."""
        assert self._carry_distribution is not None
        return self._source.many(self._carry_distribution, CARRY, rounds, range(1), width)

    def _tree(
        self, rounds: range, first: int, count: int, tails: list[Rows], rooms: list[Rows]
    ) -> tuple[Rows, list[Rows]]:
        """The noise of ``count`` clock readings from ``first`` on in each of some rounds (in the
        shape (rounds, steps, width)), and the tails of the last round."""
        last = first + count - 1
        highest = ((first - 1) ^ last).bit_length() - 1  # of the levels renewed on the way
        width = tails[0].shape[-1]
        kept = tails[: max(1, len(tails) - 1 - highest)]
        path = np.reshape(kept[-1], (-1, 1, width))
        for level in range(highest, -1, -1):
            start, end = first >> level, last >> level
            shape = (len(rounds), end - start + 1, width)
            halves = rooms[level & 1][: math.prod(shape)].reshape(shape)
            begun = start << level < first
            if begun:
                halves[:, 0] = np.reshape(tails[max(0, len(tails) - 1 - level)], (-1, width))
            new = range(start + begun, end + 1)
            self._fill(halves[:, int(begun) :], path, level, rounds, new, start >> 1)
            path = halves
            kept.append(path[-1, -1].copy())
        kept[0] = kept[0].reshape(-1, width)[-1]  # of many rounds, the carry of the last
        return path, kept

    def _fill(
        self, halves: Rows, above: Rows, level: int, rounds: range, nodes: range, at: int
    ) -> None:
        """The tails of new nodes: those of the nodes above (which are numbered from ``at`` on) plus
        the new variables."""
        distribution, alternating = self._distributions[level], self._alternating
        new = range(nodes.start | 1, nodes.stop, 2) if alternating else nodes
        draws = None
        if distribution is not None and len(new):
            draws = self._source.many(distribution, level, rounds, new, halves.shape[-1])
        for odd in (0, 1):
            skip = (nodes.start + odd) & 1
            target = halves[:, skip::2]
            parent = (nodes.start + skip >> 1) - at
            parents = above[:, parent : parent + target.shape[1]]
            if draws is None or (alternating and not odd):
                target[...] = parents
            else:
                np.add(parents, draws if alternating else draws[:, skip::2], out=target)


class IntervalPath:
    """The noise of a schedule of one's own: one variable for each interval that holds the step.

    ``tails`` are the variables of the intervals that hold the last step, in the order of the
    schedule.
    """

    __slots__ = ("_distributions", "_schedule", "_source", "shown", "tails")

    def __init__(self, schedule: IntervalSchedule, source: NoiseSource) -> None:
        self._schedule, self._source = schedule, source
        self._distributions = [distribution_of(budget) for budget in schedule.budgets]
        self.shown = 0
        self.tails: list[Rows] = []

    def fresh(self, width: int) -> list[Rows]:
        """The tails of ``width`` more counts, with a new variable for each that is in use."""
        return [self._variable(number, width) for number in self._schedule.in_use(self.shown)]

    def restore(self, shown: int, tails: Sequence[Rows]) -> None:
        _restore(self, shown, tails, len(self._schedule.in_use(shown)))

    def _variable(self, number: int, width: int) -> Rows:
        return variable(self._source, self._distributions[number], number, 0, 0, width)

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps."""
        in_use, width = self._schedule.in_use, sums.shape[1]
        kept = dict(zip(in_use(self.shown), self.tails, strict=True))
        for step, row in enumerate(sums, start=self.shown + 1):
            before = kept
            kept = {}
            for number in in_use(step):
                drawn = before.get(number)
                kept[number] = self._variable(number, width) if drawn is None else drawn
                row += kept[number]
        self.shown, self.tails = self.shown + len(sums), list(kept.values())


def variable(
    source: NoiseSource,
    distribution: DiscreteLaplace | None,
    level: int,
    round_number: int,
    node: int,
    width: int,
) -> Rows:
    """A variable by its name; zeros where there is no noise."""
    if distribution is None:
        return np.zeros(width, dtype=np.int64)
    rounds, nodes = range(round_number, round_number + 1), range(node, node + 1)
    drawn: Rows = source.many(distribution, level, rounds, nodes, width)[0, 0]
    return drawn


@lru_cache(maxsize=1024)
def distribution_of(budget: float) -> DiscreteLaplace | None:
    """The noise of a budget; None for an infinite one."""
    scale = scale_of(budget)
    return DiscreteLaplace(scale) if scale else None
