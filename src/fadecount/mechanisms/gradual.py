"""Gradual expiration: Algorithms 2 and 3 of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import LARGEST_BUDGET, LONGEST, require_budget, require_integer, require_real
from fadecount.mechanisms.calibration import smallest_meeting
from fadecount.mechanisms.level_budgets import LevelMechanism
from fadecount.mechanisms.schedule import LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradual(LevelMechanism):
    """A running count whose loss grows like a power of the logarithm of the age: ``epsilon * O(log(age)**exponent)``.

    ``epsilon`` is the loss at first sight, ``exponent`` (lambda in the paper) how fast it grows afterwards, ``delay`` (B) by how
    many steps outputs lag behind, during which an item loses nothing. Noise of level ``l`` has scale ``(1 + l)**(1 - exponent) /
    epsilon``. Above 3/2 the squared error stays bounded for ever; 1 gives a loss of ``epsilon * (floor(log2(age + 1)) + 1)``.

    Formal guarantee: epsilon-differential privacy with expiration ``g(age) = loss(age) / epsilon`` (Definition 1 of
    the paper), for streams that differ by at most 1 in one step. Proof: docs/theory.md, sections 2 and 4. Test:
    tests/mechanisms/test_exact_loss.py.

    >>> import fadecount as fc
    >>> [fc.Gradual(epsilon=1.0, exponent=2.0).loss(age) for age in (0, 1, 3, 7, 10, 100, 10**9)]
    [1.0, 2.0, 4.0, 7.0, 9.0, 28.0, 465.0]
    """

    epsilon: float
    exponent: float = 1.0
    delay: int = 0
    kind: ClassVar[str] = "gradual"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_budget("epsilon", self.epsilon))
        exponent = require_real("exponent", self.exponent, low=0.0, high=64.0, remedy="1 gives logarithmic fading")
        object.__setattr__(self, "exponent", exponent)
        delay = require_integer("delay", self.delay, minimum=0, maximum=LONGEST, remedy="0 means no delay")
        object.__setattr__(self, "delay", delay)
        require_budget("epsilon at the highest level", self._level_budget(LEVELS - 1))

    @property
    def _delay(self) -> int:
        return self.delay

    def _level_budget(self, level: int) -> float:
        return min(self.epsilon * math.pow(1.0 + level, self.exponent - 1.0), LARGEST_BUDGET)

    def paper_closed_form(self, age: ArrayLike) -> float | NDArray[np.float64]:
        """The closed form of the paper's bound: epsilon * 2 (1 + ((log2(d + 1) + 1)**k - 1) / k), never below :meth:`loss`.

        Here ``d`` is the age past the delay and ``k`` the exponent; for ``k = 0`` the fraction is the natural logarithm. It
        replaces the sum of :meth:`paper_loss` by an integral, so it is above that sum for exponents up to 1 only.
        """
        self.paper_loss(age)  # refuses what is no age
        shown = np.asarray(age, dtype=np.int64) - self.delay
        logs = np.log2(np.maximum(shown, 0) + 1.0) + 1.0
        power = self.exponent
        grown = np.log(logs) if power == 0 else (logs**power - 1.0) / power
        bound = np.where(shown >= 0, self.epsilon * 2.0 * (1.0 + grown) * (1.0 + 1e-14), 0.0)
        return bound if bound.ndim else float(bound)

    @classmethod
    def for_mse(cls, mse: float, *, horizon: int, exponent: float = 1.0, delay: int = 0, resolution_bits: float = 0) -> Self:
        """The most private one (smallest epsilon) whose mean squared error over the horizon is at most ``mse``."""

        def build(factor: float) -> Any:
            return cls(epsilon=factor, exponent=exponent, delay=delay)

        result: Self = smallest_meeting(build, mse, horizon, resolution_bits)
        return result
