"""The noise of running counts, for many steps at once.

:class:`NoisePath`. At clock ``u`` the noise in an output is the sum over the levels of the variable
in use. A step renews the levels ``0 .. n`` for some ``n`` and keeps the higher ones, so only the
*tails* are needed: for each level ``l`` the sum of the variables in use on the levels ``>= l``,
carry included. They are listed from the highest level (above all that are in use: the carry alone)
to level 0, whose tail is the output noise. Renewing means dropping the last ``n + 1`` and
rebuilding them from the one before. A block of steps is built top-down by doubling: the tails of
level ``l + 1`` over the block, each repeated for its two halves, plus the new variables of level
``l``. That is two additions and two draws per step, whatever the number of levels.

:class:`MemoryPath`, of a Gaussian counter: integers that store decaying sums of noise (memories).
:mod:`fadecount.mechanisms.memories` defines a step. A block of steps has the same result, bit by
bit. Within an epoch of a memory there is no rounding, so its values are cumulative sums. From one
epoch to the next, ``y' = (y + sum) >> shift``. As floors of floors are floors, several such steps
are one: ``(y + d_0 + 2**s d_1 + 4**s d_2 + ...) >> (n s)``. That recurrence over groups is repeated
for all groups at once until nothing changes. This takes few repetitions: each one reduces the
remaining error by ``2**(n s)``.

Overflow of memories is always detected. If no product exceeds 2**61 and no value of a memory
exceeds its limit, then by induction over the steps every sum is the true one: a step changes a
value by less than 2**61, so the first true value beyond its limit would still be computed
correctly, and detected. Limits are 32 standard deviations: where one is exceeded, which no counter
will live to see, the block is refused, and its noise is forgotten.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import max_abs, running_sums
from fadecount.errors import SumOverflowError
from fadecount.mechanisms import CARRY, IntervalSchedule, Memories, Schedule, scale_of
from fadecount.mechanisms.memories import BLOCK, Memory
from fadecount.noise import DiscreteLaplace, NoiseSource, RoundedGaussian

_BLOCK = 1 << 18
_FEW = 8
_WIDE = 64
Rows = NDArray[np.int64]
"""Of one number per count."""


class Path(Protocol):
    """The noise of some counts, step by step."""

    shown: int
    """For how many steps there was noise."""
    tails: list[Rows]
    """All that the noise of later steps needs of the variables in use."""

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps. A call that fails changes nothing but
        ``sums``."""

    def fresh(self, width: int) -> list[Rows]:
        """The tails of ``width`` more counts, with a new variable for each that is in use. So they
        have the same law as if they had been there from the beginning: variables that are over are
        not needed."""


class NoisePath:
    """The noise variables in use by some counts. ``tails`` are those from level 0 upwards, the
    carry last."""

    __slots__ = ("_alternating", "_carry_law", "_laws", "_schedule", "_source", "shown", "tails")

    def __init__(self, schedule: Schedule, source: NoiseSource, width: int) -> None:
        self._schedule, self._source = schedule, source
        self._laws = [law_of(budget) for budget in schedule.budgets]
        self._carry_law, self._alternating = law_of(schedule.carry_budget), schedule.alternating
        self.shown = 0
        self.tails = self.fresh(width)

    def fresh(self, width: int) -> list[Rows]:
        round_number, clock = self._schedule.place(self.shown)
        tails = [np.zeros(width, dtype=np.int64)]
        if round_number:
            tails = [self._carries(range(round_number, round_number + 1), width)[0, 0]]
        for level in range(clock.bit_length() - 1, -1, -1):
            law = self._laws[level] if not self._alternating or clock >> level & 1 else None
            node = clock >> level
            tails.append(tails[-1] + variable(self._source, law, level, round_number, node, width))
        return tails[::-1]

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
        assert self._carry_law is not None
        return self._source.many(self._carry_law, CARRY, rounds, range(1), width)

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
        law, alternating = self._laws[level], self._alternating
        new = range(nodes.start | 1, nodes.stop, 2) if alternating else nodes
        draws = None
        if law is not None and len(new):
            draws = self._source.many(law, level, rounds, new, halves.shape[-1])
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

    __slots__ = ("_laws", "_schedule", "_source", "shown", "tails")

    def __init__(self, schedule: IntervalSchedule, source: NoiseSource) -> None:
        self._schedule, self._source = schedule, source
        self._laws = [law_of(budget) for budget in schedule.budgets]
        self.shown = 0
        self.tails: list[Rows] = []

    def fresh(self, width: int) -> list[Rows]:
        return [self._variable(number, width) for number in self._schedule.in_use(self.shown)]

    def _variable(self, number: int, width: int) -> Rows:
        return variable(self._source, self._laws[number], number, 0, 0, width)

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


class MemoryPath:
    """The memories of some counts. ``tails`` are the part that never decays, then each memory,
    longest half-life first."""

    __slots__ = ("_law", "_memories", "_source", "shown", "tails")

    def __init__(self, memories: Memories, source: NoiseSource, width: int) -> None:
        self._memories, self._source = memories, source
        self._law = _gaussian_law(memories.deviation)
        self.shown = 0
        self.tails = self.fresh(width)

    def fresh(self, width: int) -> list[Rows]:
        """Memories of more counts begin empty: the promise is the same, because it holds for a
        stream that begins at any step, and their first outputs have less noise."""
        return [np.zeros(width, dtype=np.int64)] * self._memories.rows()

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps, a block at a time that stays in cache."""
        width, state, done = sums.shape[1], self.tails, 0
        while done < len(sums):
            first = self.shown + done
            count = min(max(1, BLOCK // width), len(sums) - done)
            nodes = range(first + 1, first + count + 1)
            drawn = self._source.many(self._law, 0, range(1), nodes, width)[0]
            before, state = state, [np.empty_like(row) for row in state]
            for start in range(0, width, BLOCK):
                columns = slice(start, start + BLOCK)
                self._block(
                    first,
                    drawn[:, columns],
                    [row[columns] for row in before],
                    [row[columns] for row in state],
                    sums[done : done + count, columns],
                )
            done += count
        self.tails, self.shown = state, self.shown + done

    def _block(
        self, first: int, drawn: Rows, state: list[Rows], after: list[Rows], sums: Rows
    ) -> None:
        """Add the noise of some steps to sums in the shape (steps, counts), and write the state
        after them. Refused if a number would not fit 64 bits."""
        plan = self._memories
        largest = max_abs(drawn)
        noise, room = np.zeros_like(drawn), np.empty_like(drawn)
        values = running_sums(drawn)
        values += state[0]
        if largest >> 46 or _passes(values, plan.kept_limit_bits):
            raise _too_far()
        after[0][:] = values[-1]
        if plan.kept:
            _shifted(state[0], values, plan.kept_dropped, noise)
            noise *= plan.kept
            noise >>= plan.kept_down
        for memory, start, last in zip(plan.memories, state[1:], after[1:], strict=True):
            grown, read = memory.factors(first, len(drawn))
            if largest * int(grown.max()) >> 61:
                raise _too_far()
            np.multiply(drawn, grown[:, np.newaxis], out=values)
            _remember(memory, first, start, values)
            if _passes(values, memory.limit_bits):
                raise _too_far()
            last[:] = values[-1]
            _shifted(start, values, memory.dropped, room)
            room *= read[:, np.newaxis]
            room >>= memory.down
            noise += room
        noise >>= 6
        noise += drawn
        noise += 1 << plan.unit_bits >> 1
        noise >>= plan.unit_bits
        sums += noise


def _remember(memory: Memory, first: int, start: Rows, values: Rows) -> None:
    """Turn what is added at each step into the values of a memory after each step, beginning with
    ``start``."""
    epoch = memory.epoch
    if values.shape[1] >= _WIDE:  # as it is defined
        for step, row in enumerate(values, start=first):
            row += start if step % epoch else start >> memory.shift
            start = row
        return
    np.cumsum(values, axis=0, out=values)
    begins = -first % epoch  # the first step of a new epoch in this block
    starts = np.arange(begins, len(values), epoch)
    before = np.concatenate([np.zeros_like(values[:1]), values])[starts]
    values[:begins] += start
    if len(starts):
        ends = _halved(start, np.diff(before, axis=0, prepend=0 * before[:1]), memory.shift)
        lengths = np.diff(np.append(starts, len(values)))
        values[begins:] += np.repeat(ends - before, lengths, axis=0)


def _halved(start: Rows, sums: Rows, shift: int) -> Rows:
    """``y_0 = (start + sums_0) >> shift``, ``y_(k+1) = (y_k + sums_(k+1)) >> shift``, for all k."""
    halved = np.empty_like(sums)
    together = _together(start, sums, shift) if len(sums) > _FEW else 1
    if together == 1:
        for at, row in enumerate(sums):
            start = (start + row) >> shift
            halved[at] = start
        return halved
    groups = len(sums) // together
    grouped = sums[: groups * together].reshape(groups, together, -1)
    joined = grouped[:, 0].copy()
    for at in range(1, together):
        joined += grouped[:, at] << (at * shift)
    ends = np.concatenate([[start], np.zeros_like(joined)])
    while True:
        again = (ends[:-1] + joined) >> (together * shift)
        if np.array_equal(again, ends[1:]):
            break
        ends[1:] = again
    value = ends[:-1]
    inside = halved[: groups * together].reshape(groups, together, -1)
    for at in range(together):
        value = (value + grouped[:, at]) >> shift
        inside[:, at] = value
    if groups * together < len(sums):
        halved[groups * together :] = _halved(ends[-1], sums[groups * together :], shift)
    return halved


def _together(start: Rows, sums: Rows, shift: int) -> int:
    """How many halvings may be done at once without exceeding 2**62."""
    largest = max(abs(int(each)) for each in (start.max(), start.min(), sums.max(), sums.min()))
    return max(1, min(16, len(sums), (60 - largest.bit_length()) // shift))


def _shifted(start: Rows, values: Rows, bits: int, out: Rows) -> None:
    """The values before each step, with their lowest bits dropped."""
    np.right_shift(start, bits, out=out[0])
    np.right_shift(values[:-1], bits, out=out[1:])


def _passes(values: Rows, bits: int) -> bool:
    return bool(max(int(values.max()), -1 - int(values.min())) >> bits)


def _too_far() -> SumOverflowError:
    return SumOverflowError("noise would pass +-2**62 and lose exactness; start a new counter")


def variable(
    source: NoiseSource,
    law: DiscreteLaplace | None,
    level: int,
    round_number: int,
    node: int,
    width: int,
) -> Rows:
    """A variable by its name; zeros where there is no noise."""
    if law is None:
        return np.zeros(width, dtype=np.int64)
    rounds, nodes = range(round_number, round_number + 1), range(node, node + 1)
    drawn: Rows = source.many(law, level, rounds, nodes, width)[0, 0]
    return drawn


@lru_cache(maxsize=1024)
def law_of(budget: float) -> DiscreteLaplace | None:
    """The noise of a budget; None for an infinite one."""
    scale = scale_of(budget)
    return DiscreteLaplace(scale) if scale else None


@lru_cache(maxsize=16)
def _gaussian_law(deviation: float) -> RoundedGaussian:
    return RoundedGaussian(deviation)
