"""Running totals: after each step the count of all inputs so far, plus noise.

There is one class over a *rule*. The rule gives each step weights on noise variables: the noise in
the output of a step is the weighted sum. :class:`fadecount.Linear`, :class:`fadecount.Gradual`,
:class:`fadecount.Refresh` and :class:`fadecount.Intervals` have weights of 1; those of
:class:`fadecount.Totals` are fractions (:mod:`fadecount.mechanisms.totals`). The outputs of the
first ``delay`` steps are 0; afterwards the output at step ``t`` shows the inputs up to ``t -
delay``: that many steps are *shown*.

A :class:`Schedule` is a rule with weights of 1, as plain data: which noise slots are in use at a
step, and which are renewed.

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

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import LONGEST, require_beta, require_horizon, shaped
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import (
    Losses,
    Mechanism,
    Steps,
    require_sensitivity,
    require_step,
    require_window,
)
from fadecount.mechanisms.noise_distribution import Weighted, quantiles_of_rows, variance_of


class Rule(Protocol):
    """Which noise is in the output of each step, with which weights. Steps are numbered from the
    first one that shows an input; 0 is the empty output before it."""

    def window_variance(self, firsts: Any, lasts: Any) -> NDArray[np.float64]:
        """The variances of the noise in the differences of the outputs of two steps."""

    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        """The variance of the noise, averaged over the steps ``1 .. shown``."""

    def half_widths(self, firsts: Steps, lasts: Steps, beta: float, copies: ArrayLike = 1) -> Steps:
        """How far the differences of the outputs of two steps are from the true ones at most,
        except with probability ``beta``; with a second axis, the sums over it of differences with
        their own noise, each so many times."""


class RunningTotal(Mechanism):
    """A running count with the noise of a rule."""

    __slots__ = ()
    _budget_fields: ClassVar[tuple[str, ...]]
    """The fields to which all losses are proportional."""

    @property
    @abstractmethod
    def noise(self) -> Any:
        """The :class:`Rule`."""

    def for_sensitivity(self, sensitivity: int) -> Self:
        """:meth:`Mechanism.for_sensitivity`: all budgets are divided by the sensitivity and rounded
        down until each noise budget fits, exactly.

        >>> import fadecount as fc
        >>> fc.Gradual(epsilon=1.0, exponent=2.0).for_sensitivity(4)
        Gradual(epsilon=0.25, exponent=2.0, delay=0)
        """
        divisor = require_sensitivity(sensitivity)
        smaller, factor, less = self, 1.0 / divisor, 2.0**-53
        while divisor > 1 and not _fits(smaller.noise, self.noise, divisor):
            smaller, factor, less = self.scaled(factor), factor * (1.0 - less), min(0.5, 2.0 * less)
        return smaller

    def scaled(self, factor: float) -> Self:
        assert dataclasses.is_dataclass(self)
        budgets = {name: factor * getattr(self, name) for name in self._budget_fields}
        return dataclasses.replace(self, **budgets)

    # Error
    # --------------------------------------------------------------------------------------------
    def last_input_included(self, steps: ArrayLike) -> Steps:
        """Returns the last input that the output of each step includes: 0 while the delay lasts."""
        last, end = int(np.max(steps, initial=0)), self.last_step
        if end is not None and last > end:
            bound = f"at most {end}, the last step"
            raise bad_parameter("step or horizon", last, bound, "give one within it")
        return np.maximum(np.asarray(steps, dtype=np.int64) - self.delay, 0)

    def variance(self, step: ArrayLike) -> float | Losses:
        steps = require_step(step)
        return shaped(self.noise.window_variance(0, self.last_input_included(steps)), steps)

    def mse(self, horizon: int, *, continuous: bool = False) -> float:
        shown = int(self.last_input_included(require_horizon(horizon)))
        mean: float = self.noise.mean_variance(shown, continuous=continuous) if shown else 0.0
        return mean * (shown / horizon)

    def window_variance(self, start: int, end: int) -> float:
        """The variance of the noise in the difference of the outputs of two steps, ``start < end``:
        the count of a window of time; ``start`` may be 0. Noise in use at both steps cancels.

        >>> import fadecount as fc
        >>> hourly = fc.Gradual(epsilon=0.5)
        >>> round(hourly.variance(1_000_000)), round(hourly.window_variance(999_999, 1_000_000))
        (157, 110)
        """
        first, last = self.last_input_included(require_window(start, end))
        return float(self.noise.window_variance(first, last))

    def window_interval(self, start: int, end: int, beta: float = 0.05) -> int:
        """How far the difference of the outputs of two steps is from the true one at most, except
        with probability ``beta``.

        Exact: the quantile of the noise that does not cancel (docs/figures.md). It costs no
        privacy. With a delay, the true count is the one ``delay`` steps earlier.
        """
        first, last = np.array(require_window(start, end)).reshape(2, 1)
        return int(self.half_widths(first, last, beta=require_beta(beta))[0])

    def half_widths(
        self, starts: Steps, ends: Steps, *, beta: float = 0.05, copies: ArrayLike = 1
    ) -> Steps:
        """:meth:`window_interval` for many windows at once; from step 0 on, it is about the output
        itself. With a second axis, it is about the sums over that axis of differences with their
        own noise, each ``copies`` times: the total of many keys."""
        shown = (self.last_input_included(each) for each in (starts, ends))
        widths: Steps = self.noise.half_widths(*shown, beta, copies)
        return widths


def _fits(schedule: Any, whole: Any, divisor: int) -> bool:
    """Whether each budget of a schedule is at most that of ``whole`` divided by ``divisor``: then
    so is each loss."""
    pairs = zip(
        (*schedule.budgets, schedule.carry_budget),
        (*whole.budgets, whole.carry_budget),
        strict=True,
    )
    return all(
        math.isinf(large) or Fraction(small) * divisor <= Fraction(large) for small, large in pairs
    )


# A rule with weights of 1
# ------------------------------------------------------------------------------------------------
LEVELS = 62
"""Levels that a schedule without an end describes: enough for a clock of 2**62 - 1 steps."""

CARRY = -1
"""The level under which a carry variable is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When noise is drawn, from which budget, and how long it is used. See the module for the
    rules. Errors are by shown steps; 0 is the empty output before the first one."""

    budgets: tuple[float, ...]
    alternating: bool = False
    round_length: int | None = None
    carry_budget: float = math.inf

    def place(self, shown: int) -> tuple[int, int]:
        """The round and the clock reading of a shown step; 0 and 0 before the first one."""
        if self.round_length is None or not shown:
            return 0, shown
        rounds, offset = divmod(shown - 1, self.round_length)
        return rounds, offset + 1

    def renewed(self, firsts: Any, lasts: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        """Budgets (columns), and how many variables of each are in use at one of two steps only:
        those in the difference of the outputs."""
        counts = []
        places = [_places(each, self.round_length) for each in (firsts, lasts)]
        longest = int(max(np.max(clocks, initial=0) for _, clocks in places))
        levels = min(len(self.budgets), longest.bit_length())
        for level in range(levels):
            nodes = [clocks >> level for _, clocks in places]
            used = [node & 1 if self.alternating else node > 0 for node in nodes]
            kept = (nodes[0] == nodes[1]) & (places[0][0] == places[1][0])
            counts.append(np.where(kept, 0, used[0] + 1 * used[1]))
        carried = [rounds > 0 for rounds, _ in places]
        counts.append(np.where(places[0][0] == places[1][0], 0, 1 * carried[0] + carried[1]))
        budgets = np.array([*self.budgets[:levels], self.carry_budget])
        return budgets, np.stack(np.broadcast_arrays(*counts), axis=-1).astype(np.int8)

    def window_variance(self, firsts: Any, lasts: Any) -> NDArray[np.float64]:
        """The variances of the noise in the differences of the outputs of two steps."""
        budgets, counts = self.renewed(firsts, lasts)
        return np.asarray(counts @ np.array([variance_of(each) for each in budgets.tolist()]))

    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        """The variance of the noise, averaged over the steps ``1 .. shown``."""
        rounds, clock = self.place(shown)
        total = 0.0
        for level, budget in enumerate(self.budgets):
            steps = steps_in_use(level, clock, alternating=self.alternating)
            if self.round_length is not None:
                whole = steps_in_use(level, self.round_length, alternating=self.alternating)
                steps += rounds * whole
            if steps:
                total += steps / shown * variance_of(budget, continuous=continuous)
        if rounds and self.round_length is not None:
            carried = shown - self.round_length
            total += carried / shown * variance_of(self.carry_budget, continuous=continuous)
        return total

    def half_widths(self, firsts: Steps, lasts: Steps, beta: float, copies: ArrayLike = 1) -> Steps:
        """How far the differences of the outputs of two steps are from the true ones at most,
        except with probability ``beta``; with a second axis, the sums over it of differences with
        their own noise, each so many times."""
        budgets, counts = self.renewed(firsts, lasts)
        sums = counts * np.asarray(np.atleast_1d(copies), dtype=np.int64)[..., np.newaxis]
        if sums.ndim == 3:
            sums = sums.sum(axis=1)

        def noise_of(row: int) -> Weighted:
            each = zip(budgets.tolist(), sums[row].tolist(), strict=True)
            return tuple((Fraction(1), budget, count) for budget, count in each)

        return quantiles_of_rows(sums, noise_of, beta).astype(np.int64)


def _places(shown: Any, round_length: int | None) -> tuple[Steps, Steps]:
    """Rounds and clock readings of shown steps; 0 and 0 before the first one."""
    rounds, offsets = np.divmod(np.maximum(shown, 1) - 1, round_length or LONGEST)
    return rounds, np.where(np.asarray(shown) > 0, offsets + 1, 0)


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
