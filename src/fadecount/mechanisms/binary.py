"""The binary mechanism: the classical counter, without expiration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fadecount.errors import bad_parameter, require_integer
from fadecount.mechanisms.arguments import require_budget
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.calibration import smallest_meeting
from fadecount.mechanisms.exact import Number, Whole, times
from fadecount.mechanisms.schedule import LONGEST, Schedule
from fadecount.mechanisms.tree import bit_length, node_budget, nodes_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Mechanism):
    """A running count over a known number of steps that promises the same loss ``epsilon`` for ever (Chan, Shi and Song 2011).

    Each of the ``horizon.bit_length()`` levels gets an equal share of ``epsilon``. The promise is ``epsilon`` at
    every age; what is really lost grows to it with the number of nodes published, and ``loss`` says how.

    >>> import fadecount as fc
    >>> fc.Binary(epsilon=1.0, horizon=255).loss(0), fc.Binary(epsilon=1.0, horizon=255).loss(254)
    (0.125, 1.0)
    """

    epsilon: float
    horizon: int
    kind: ClassVar[str] = "binary"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_budget("epsilon", self.epsilon))
        remedy = "it is the number of steps the counter will ever take"
        horizon = require_integer("horizon", self.horizon, minimum=1, maximum=LONGEST, remedy=remedy)
        object.__setattr__(self, "horizon", horizon)
        require_budget("epsilon per level", self._share)

    @property
    def _levels(self) -> int:
        return self.horizon.bit_length()

    @property
    def _share(self) -> float:
        return node_budget(self.epsilon, self._levels)

    @property
    def schedule(self) -> Schedule:
        return Schedule(budgets=(self._share,) * self._levels, alternating=True, horizon=self.horizon)

    def _worst_loss(self, age: Whole) -> Number:
        return times(np.minimum(bit_length(age + 1), self._levels), self._share).rounded_up()

    def _position_loss(self, age: Whole, position: Whole) -> Number:
        if np.max(position, initial=1) > self.horizon:
            raise bad_parameter("position", int(np.max(position)), f"at most the horizon, {self.horizon}", "no later item exists")
        last = np.minimum(position + age, self.horizon)
        return times(nodes_seen(position, last, self._levels), self._share).rounded_up()

    def _paper_loss(self, age: Whole) -> Number:
        return np.asarray(self.epsilon + 0.0 * age, dtype=np.float64)

    @classmethod
    def for_mse(cls, mse: float, *, horizon: int, resolution_bits: float = 0) -> Self:
        """The most private one for this many steps whose mean squared error over them is at most ``mse``."""
        return smallest_meeting(lambda factor: cls(epsilon=factor, horizon=horizon), mse, horizon, resolution_bits)
