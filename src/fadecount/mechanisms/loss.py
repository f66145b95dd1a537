"""A privacy loss in the form in which losses add up, and exact sums of budgets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from fadecount.mechanisms.gaussian_law import certainty, epsilon_at

UNITS = 1 << 83
"""Units of one: every budget is a whole number of them, as it is at least 2**-30 with 53 bits."""
INFINITE = 1 << 1200
"""Units that stand for an infinite budget: more than any sum of others."""
_UP = 1.0 + 1e-12


def units_of(budget: float) -> int:
    """A budget as an exact number of units."""
    return INFINITE if math.isinf(budget) else int(math.ldexp(budget, UNITS.bit_length() - 1))


def float_above(units: int) -> float:
    """The smallest float at or above a sum of units."""
    if units >= INFINITE:
        return math.inf
    nearest = units / UNITS
    return nearest if units_of(nearest) >= units else math.nextafter(nearest, math.inf)


@dataclass(frozen=True, slots=True)
class Loss:
    """What everything published can reveal about one unit, or about several contributions of one
    person.

    ``amount`` adds up: it is ``epsilon`` for pure noise (``delta`` is None), and ``mu`` for
    Gaussian noise. An epsilon at a delta does not add up: it is 0 where ``mu`` is small, and many
    such losses together are large. Nothing is ``Loss(0.0)``.

    >>> Loss(0.25).epsilon, Loss(0.0).certainty, Loss.together([(Loss(0.25), 2), (Loss(0.5), 1)])
    (0.25, 0.5, Loss(amount=1.0, delta=None))
    >>> young = Loss(0.002, delta=1e-3)
    >>> young.epsilon, round(Loss.together([(young, 1000)]).epsilon, 2)
    (0.0, 7.58)
    """

    amount: float
    delta: float | None = None

    @property
    def epsilon(self) -> float:
        """The loss as an epsilon at the delta, rounded up."""
        return self.amount if self.delta is None else float(epsilon_at(self.amount, self.delta))

    @property
    def certainty(self) -> float:
        """How often a best guess from a fifty-fifty start is right, at most: ``1 / (1 +
        exp(-epsilon))``, or ``Phi(mu / 2)``."""
        if self.delta is not None:
            return certainty(self.amount)
        if not self.amount:
            return 0.5
        return max(1.0 / (1.0 + math.exp(-self.amount)), math.nextafter(0.5, 1.0))

    @classmethod
    def together(cls, losses: Iterable[tuple[Loss, int]]) -> Loss:
        """A bound on the loss of one person: the losses of single contributions, each so many
        times. Rounded up once."""
        parts = list(losses)
        delta = next((loss.delta for loss, _ in parts if loss.delta is not None), None)
        if any(math.isinf(loss.amount) for loss, _ in parts):
            return cls(math.inf, delta)
        total = sum((Fraction(loss.amount) * times for loss, times in parts), Fraction(0))
        amount = float(total)
        amount = amount if Fraction(amount) >= total else math.nextafter(amount, math.inf)
        return cls(amount if delta is None else amount * _UP, delta)
