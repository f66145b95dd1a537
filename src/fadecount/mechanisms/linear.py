"""Linear expiration: Algorithm 1 of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from fadecount.checks import Number, Whole, require_budget
from fadecount.mechanisms.calibration import smallest_meeting
from fadecount.mechanisms.level_budgets import LevelMechanism


@dataclass(frozen=True, slots=True)
class Linear(LevelMechanism):
    """A running count with a delay of one step and fresh noise of scale ``1 / epsilon`` at every
    step: loss ``epsilon * age``.

    It is the schedule with noise on level 0 only and a delay of one step, and its loss follows from
    the same exact formula.

    >>> import fadecount as fc
    >>> [fc.Linear(epsilon=0.5).loss(age) for age in (0, 1, 2, 10)]
    [0.0, 0.5, 1.0, 5.0]
    """

    epsilon: float
    kind: ClassVar[str] = "linear"
    _budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_budget("epsilon", self.epsilon))

    @property
    def _delay(self) -> int:
        return 1

    def _level_budget(self, level: int) -> float:
        return self.epsilon if level == 0 else math.inf

    def _paper_loss(self, age: Whole) -> Number:
        return self._worst_loss(age)

    @classmethod
    def for_mse(cls, mse: float, *, horizon: int, resolution_bits: float = 0) -> Self:
        """The most private one whose mean squared error over the horizon is at most ``mse``."""
        return smallest_meeting(lambda factor: cls(epsilon=factor), mse, horizon, resolution_bits)
