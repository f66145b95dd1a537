"""Gradual expiration: Algorithms 2 and 3 of the paper."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    LARGEST_BUDGET,
    LONGEST,
    planned_tick,
    require_budget,
    require_integer,
    require_real,
)
from fadecount.mechanisms.calibration import smallest_meeting
from fadecount.mechanisms.level_budgets import LevelMechanism
from fadecount.mechanisms.schedule import LEVELS


@dataclass(frozen=True, slots=True)
class Gradual(LevelMechanism):
    """A running count whose loss grows like a power of the logarithm of the age: ``epsilon *
    O(log(age)**exponent)``.

    ``epsilon`` is the loss at the first output that shows the item, ``exponent`` (lambda in the
    paper) how fast it grows afterwards, ``delay`` (B) how many steps outputs lag behind; during the
    delay an item loses nothing. Noise of level ``l`` has scale ``(1 + l)**(1 - exponent) /
    epsilon``. With an exponent above 3/2 the squared error stays bounded; 1 gives a loss of ``epsilon * (floor(log2(age + 1)) + 1)``.

    Formal guarantee: epsilon-differential privacy with expiration ``g(age) = loss(age) / epsilon``
    (Definition 1 of the paper), for streams that differ by at most 1 in one step. Proof:
    docs/theory.md, sections 2 and 4. Test: tests/mechanisms/test_exact_loss.py.

    >>> import fadecount as fc
    >>> [fc.Gradual(1.0, exponent=2.0).loss(age) for age in (0, 1, 3, 7, 10, 100, 10**9)]
    [1.0, 2.0, 4.0, 7.0, 9.0, 28.0, 465.0]
    """

    epsilon: float
    exponent: float = 1.0
    _: KW_ONLY
    delay: int = 0
    planned_tick_seconds: float | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "gradual"
    _budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_budget("epsilon", self.epsilon))
        exponent = require_real(
            "exponent", self.exponent, low=0.0, high=64.0, remedy="1 gives logarithmic fading"
        )
        object.__setattr__(self, "exponent", exponent)
        delay = require_integer(
            "delay", self.delay, minimum=0, maximum=LONGEST, remedy="0 means no delay"
        )
        object.__setattr__(self, "delay", delay)
        object.__setattr__(self, "planned_tick_seconds", planned_tick(self.planned_tick_seconds))
        require_budget("epsilon at the highest level", self._level_budget(LEVELS - 1))

    @property
    def _delay(self) -> int:
        return self.delay

    def _level_budget(self, level: int) -> float:
        return min(self.epsilon * rounded_power(1 + level, self.exponent - 1.0), LARGEST_BUDGET)

    def paper_closed_form(self, age: ArrayLike) -> float | NDArray[np.float64]:
        """The closed form of the paper's bound: epsilon * 2 (1 + ((log2(d + 1) + 1)**k - 1) / k),
        never below :meth:`loss`.

        Here ``d`` is the age past the delay and ``k`` the exponent; for ``k = 0`` the fraction is
        the natural logarithm. It replaces the sum of :meth:`paper_loss` by an integral, so it is
        above that sum for exponents up to 1 only.
        """
        self.paper_loss(age)  # refuses an invalid age
        shown = np.asarray(age, dtype=np.int64) - self.delay
        logs = np.log2(np.maximum(shown, 0) + 1.0) + 1.0
        power = self.exponent
        grown = np.log(logs) if power == 0 else (logs**power - 1.0) / power
        bound = np.where(shown >= 0, self.epsilon * 2.0 * (1.0 + grown) * (1.0 + 1e-14), 0.0)
        return bound if bound.ndim else float(bound)

    @classmethod
    def for_mse(
        cls,
        mse: float,
        *,
        horizon: int,
        exponent: float = 1.0,
        delay: int = 0,
        resolution_bits: float = 0,
    ) -> Self:
        """The most private one (smallest epsilon) whose mean squared error over the horizon is at
        most ``mse``."""

        def build(factor: float) -> Any:
            return cls(epsilon=factor, exponent=exponent, delay=delay)

        result: Self = smallest_meeting(build, mse, horizon, resolution_bits)
        return result


@lru_cache(maxsize=1 << 14)
def rounded_power(base: int, exponent: float, *, digits: int = 40) -> float:
    """``base**exponent`` rounded to the nearest float64: the same number on every machine, which
    ``math.pow`` does not promise.

    A rational power is computed exactly. Any other is irrational, so it lies strictly between two
    neighbouring candidates, and arithmetic with enough digits tells which is nearer.

    >>> rounded_power(4, -0.5), rounded_power(9, 1.5), rounded_power(3, 0.25)
    (0.5, 27.0, 1.3160740129524924)
    """
    while not exponent.is_integer() and math.isqrt(base) ** 2 == base:
        base, exponent = math.isqrt(base), 2.0 * exponent
    if exponent.is_integer():
        return float(Fraction(base) ** int(exponent))
    while True:
        context = Context(prec=digits, rounding=ROUND_HALF_EVEN)
        power = context.exp(context.multiply(context.ln(Decimal(base)), Decimal(exponent)))
        slack = context.multiply(
            power, Decimal(1).scaleb(4 - digits)
        )  # three roundings; the exponent is below 300
        low, high = float(context.subtract(power, slack)), float(context.add(power, slack))
        if low == high:
            return low
        digits *= 2
