"""A privacy loss, and exact sums of budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

UNITS = 1 << 83
"""Units of one: every budget is a whole number of them, as it is at least 2**-30 with 53 bits."""
INFINITE = 1 << 1200
"""Units that stand for an infinite budget: more than any sum of others."""


def units_of(budget: float) -> int:
    """A budget as an exact number of units."""
    return INFINITE if math.isinf(budget) else int(math.ldexp(budget, UNITS.bit_length() - 1))


def loss_of_units(units: int) -> float:
    """A sum of units as a loss, rounded up."""
    return math.inf if units >= INFINITE else round_up(Fraction(units, UNITS))


def round_up(exact: Fraction) -> float:
    """The smallest float at or above a number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


@dataclass(frozen=True, slots=True)
class Loss:
    """What everything published can reveal about one unit, or about several contributions of one
    person: no event of it is more than ``exp(epsilon)`` times likelier with them than without them,
    plus ``delta``. Nothing is ``Loss(0.0)``.

    >>> Loss(0.25).certainty > Loss(0.0).certainty == 0.5
    True
    >>> Loss.together([(Loss(0.25), 2), (Loss(0.5, 1e-9), 1)])
    Loss(epsilon=1.0, delta=1e-09)
    """

    epsilon: float
    delta: float = 0.0

    @property
    def certainty(self) -> float:
        """How often a best guess from a fifty-fifty start is right, at most: ``1 / (1 +
        exp(-epsilon))``; ``delta`` is apart."""
        if not self.epsilon:
            return 0.5
        return max(1.0 / (1.0 + math.exp(-self.epsilon)), math.nextafter(0.5, 1.0))

    @classmethod
    def together(cls, losses: Iterable[tuple[Loss, int]]) -> Loss:
        """A bound on the loss of one person: the losses of single contributions, each so many
        times. Each sum is rounded up once."""
        parts = list(losses)
        epsilon = _sum((loss.epsilon, times) for loss, times in parts)
        return cls(epsilon, _sum((loss.delta, times) for loss, times in parts))


def _sum(parts: Iterable[tuple[float, int]]) -> float:
    """A sum of numbers, each so many times, rounded up."""
    total = Fraction(0)
    for number, times in parts:
        if math.isinf(number):
            return math.inf
        total += Fraction(number) * times
    return round_up(total)
