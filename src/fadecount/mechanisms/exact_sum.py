"""Sums of floats that are exact, and rounded up once at the very end.

Level budgets are float64 numbers taken as exact. A loss is a minimum over sums of them, and must
never be shown too small. Each :class:`ExactSum` carries an unevaluated pair ``high + low`` (Knuth's
two-sum); any multiple of a unit ``u`` below ``2**105 * u`` is held exactly. With budgets between
``2**-30`` and ``2**14`` and at most 64 levels that covers every sum of level budgets. Where a sum
leaves this range (a level without noise doubles the cost of the level above it), ``low`` is rounded
*up*, so that the result stays an upper bound.

All numbers may be arrays: a million ages need no Python loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import Whole

INFINITE = 2.0**1000
"""Stands for an infinite cost inside sums, where a real infinity would turn differences into
NaN."""


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The exact number ``high + low`` with ``|low| <= ulp(high) / 2``; both parts floats, or arrays
    of one shape."""

    high: Any
    low: Any = 0.0

    def __add__(self, other: ExactSum | Any) -> ExactSum:
        right = other if isinstance(other, ExactSum) else ExactSum(other)
        high, error = _two_sum(self.high, right.high)
        low = _add_up(error, _add_up(self.low, right.low))
        total = high + low
        return ExactSum(total, low - (total - high))

    def minimum(self, other: ExactSum | Any) -> ExactSum:
        right = other if isinstance(other, ExactSum) else ExactSum(other)
        smaller = (self.high < right.high) | ((self.high == right.high) & (self.low < right.low))
        return self.where(smaller, right)

    def maximum(self, other: ExactSum) -> ExactSum:
        greater = (self.high > other.high) | ((self.high == other.high) & (self.low > other.low))
        return self.where(greater, other)

    def where(self, condition: Any, otherwise: ExactSum) -> ExactSum:
        """This sum where the condition holds, the other one elsewhere."""
        return ExactSum(
            np.where(condition, self.high, otherwise.high),
            np.where(condition, self.low, otherwise.low),
        )

    def rounded_up(self) -> NDArray[np.float64]:
        """The smallest float at or above the exact sum."""
        raised = np.where(self.low > 0, np.nextafter(self.high, np.inf), self.high)
        result: NDArray[np.float64] = np.where(raised >= INFINITE / 2, math.inf, raised)
        return result


def times(count: Whole, budget: float) -> ExactSum:
    """``count * budget`` for an integer count in [0, 2**60]: exact below 2**52, beyond it rounded
    up in the last bits of ``low``.

    The count is cut into pieces of 20 bits and the budget into halves of at most 27 bits, so that
    each product is exact.
    """
    if budget >= INFINITE:
        return ExactSum(np.where(count > 0, INFINITE, 0.0))
    upper = budget * 134217729.0
    upper = upper - (upper - budget)
    total = ExactSum(0.0 * count)
    for shift in (0, 20, 40):
        piece = ((count >> shift) & 0xFFFFF) * float(1 << shift)
        total = total + piece * upper + piece * (budget - upper)
    return total


def sum_rounded_up(values: list[float]) -> float:
    """The smallest float at or above the exact sum of non-negative floats, however many."""
    total = math.fsum(values)
    if math.isinf(total) or math.fsum([*values, -total]) <= 0.0:
        return total
    return math.nextafter(total, math.inf)


def _two_sum(left: Any, right: Any) -> tuple[Any, Any]:
    total = left + right
    back = total - left
    return total, (left - (total - back)) + (right - back)


def _add_up(left: Any, right: Any) -> Any:
    total, error = _two_sum(left, right)
    return np.where(error > 0, np.nextafter(total, np.inf), total)
