"""The schedule of a mechanism: which noise slots are in use at a step, and which are renewed.

Every mechanism of fadecount releases the running sum plus the noise variables in use. A schedule
says which these are, as plain data, so that one counter runs them all:

* The first ``delay`` outputs are 0; afterwards the output at step ``t`` shows the inputs up to ``t
  - delay``.
* A *clock* starts at 1 with the first shown step, and again with each round.
* Slot ``l`` belongs to level ``l`` of the dyadic intervals of the clock, ``[k * 2**l, (k + 1) *
  2**l - 1]`` for every ``k >= 1``: one variable per interval, drawn when the interval begins. None
  starts at 0, which lets a stream run without a known end. An ``alternating`` schedule uses the
  intervals with an odd ``k`` only.
* The *carry* slot (rounds only) holds one variable per round for the sum of all earlier rounds,
  from the second round on.

A variable has the name ``(level, round, node)``, level ``CARRY`` for the carry slot. No two
variables share a name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import LONGEST, Whole
from fadecount.mechanisms.memories import Memories
from fadecount.mechanisms.noise_law import quantiles, tail_bound, variance_of

Steps = NDArray[np.int64]

LEVELS = 62
"""Levels that a schedule without an end describes: enough for a clock of 2**62 - 1 steps."""

CARRY = -1
"""The level under which a carry variable is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When noise is drawn, from which budget, and how long it is used. See the module for the
    rules."""

    budgets: tuple[float, ...]
    delay: int = 0
    alternating: bool = False
    round_length: int | None = None
    carry_budget: float = math.inf
    horizon: int | None = None
    memories: Memories | None = None
    """In place of slots: decaying sums of past noise."""

    def rows(self, shown: int) -> int:
        """How many numbers the noise of one count takes after so many shown steps."""
        if self.memories is not None:
            return self.memories.rows
        return (self.place(shown)[1] if shown else 0).bit_length() + 1

    def place(self, shown: int) -> tuple[int, int]:
        """The round (from 0) and the clock reading of a shown step ``shown >= 1``."""
        if self.round_length is None:
            return 0, shown
        rounds, offset = divmod(shown - 1, self.round_length)
        return rounds, offset + 1

    # The error of slots, by shown steps; 0 is the empty output before the first one.
    # --------------------------------------------------------------------------------------------
    def budgets_in_use(self, shown: int) -> list[float]:
        """The budgets of the noise variables in the output of a shown step."""
        return list(self._variables(shown).values())

    def budgets_between(self, first: int, last: int) -> list[float]:
        """The budgets of the noise variables in the difference of two outputs: those in use at one
        of the two steps only."""
        before, after = self._variables(first), self._variables(last)
        return [
            *(budget for name, budget in before.items() if name not in after),
            *(budget for name, budget in after.items() if name not in before),
        ]

    def _variables(self, shown: int) -> dict[tuple[int, int, int], float]:
        """The noise variables in the output of a shown step, by name."""
        if not shown:
            return {}
        rounds, clock = self.place(shown)
        used = {
            (level, rounds, clock >> level): budget
            for level, budget in enumerate(self.budgets)
            if clock >> level and (not self.alternating or clock >> level & 1)
        }
        return {**used, (CARRY, rounds, 0): self.carry_budget} if rounds else used

    def budgets_ever_in_use(self, shown: int) -> list[float]:
        """The budgets of every slot that is in use at some step up to a shown one."""
        if not shown:
            return []
        rounds, clock = self.place(shown)
        longest = self.round_length if rounds and self.round_length else clock
        used = [budget for level, budget in enumerate(self.budgets) if longest >> level]
        return [*used, self.carry_budget] if rounds else used

    def variance(self, shown: Steps) -> NDArray[np.float64]:
        """The variance of the noise in the output of each step."""
        distinct, inverse = np.unique(shown, return_inverse=True)
        values = [self.window_variance(0, one) for one in distinct.tolist()]
        return np.array(values, dtype=np.float64)[inverse].reshape(np.shape(shown))

    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        """The variance of the noise, averaged over the steps ``1 .. shown``."""
        rounds, clock = self.place(shown)
        total = 0.0
        for level, budget in enumerate(self.budgets):
            steps = steps_in_use(level, clock, alternating=self.alternating)
            if rounds:
                whole: Any = self.round_length
                steps += rounds * steps_in_use(level, whole, alternating=self.alternating)
            if steps:
                total += steps / shown * variance_of(budget, continuous=continuous)
        if rounds:
            carried: Any = shown - (self.round_length or 0)
            total += carried / shown * variance_of(self.carry_budget, continuous=continuous)
        return total

    def window_variance(self, first: int, last: int) -> float:
        """The variance of the noise in the difference of the outputs of two steps."""
        return sum(variance_of(budget) for budget in self.budgets_between(first, last))

    def farthest_ever(self, shown: int, beta: float) -> float:
        """A bound that the noise of any step up to this one exceeds with probability at most
        ``beta`` for each."""
        return tail_bound(self.budgets_ever_in_use(shown), beta)

    def half_widths(self, firsts: Steps, lasts: Steps, beta: float, copies: ArrayLike = 1) -> Steps:
        """How far the differences of the outputs of two steps are from the true ones at most,
        except with probability ``beta``; with a second axis, the sums over it of differences with
        their own noise, each so many times.

        There are few laws, so that each is computed once: without rounds a difference depends on
        three lengths only.
        """
        kinds = self._kinds(firsts, lasts)
        parts = [
            each.reshape(len(lasts), -1)
            for each in np.broadcast_arrays(firsts, lasts, np.atleast_1d(copies), kinds)
        ]
        _, places, inverse = np.unique(
            np.concatenate(parts[2:], axis=1), axis=0, return_index=True, return_inverse=True
        )
        laws = [
            tuple(
                (Fraction(1), budget, times)
                for first, last, times in zip(*row, strict=True)
                for budget in self.budgets_between(first, last)
            )
            for row in zip(*(each[places].tolist() for each in parts[:3]), strict=True)
        ]
        return np.array(quantiles(laws, beta), dtype=np.float64)[inverse].astype(np.int64)

    def _kinds(self, firsts: Steps, lasts: Steps) -> Steps:
        """Numbers for the differences of two outputs: equal ones have the same law."""
        if not self.alternating:
            bits = [np.asarray(bit_length(each)) for each in (firsts, lasts, firsts ^ lasts)]
            return np.asarray((bits[0] << 12) + (bits[1] << 6) + bits[2])
        if not firsts.any():  # how many variables are in use, and whether one of them is a carry
            rounds, clocks = np.divmod(np.maximum(lasts, 1) - 1, self.round_length or LONGEST)
            used = np.bitwise_count((clocks + 1) * (lasts > 0)).astype(np.int64)
            return np.asarray(2 * used + (rounds > 0))
        return np.arange(lasts.size).reshape(lasts.shape)


def steps_in_use(level: int, last: int, *, alternating: bool = False) -> int:
    """At how many clock readings among ``1 .. last`` an interval of this level is in use.

    >>> steps_in_use(2, 9), steps_in_use(1, 9, alternating=True)
    (6, 4)
    """
    length = 1 << level
    if not alternating:
        return max(0, last - length + 1)
    whole, rest = divmod(last + 1, 2 * length)
    return whole * length + max(0, rest - length)


def bit_length(number: Whole) -> Whole:
    """The length of the binary form of each number from 0 on."""
    if not isinstance(number, np.ndarray):
        return int(number).bit_length()
    ones = number.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        ones |= ones >> shift
    return np.bitwise_count(ones).astype(np.int64)
