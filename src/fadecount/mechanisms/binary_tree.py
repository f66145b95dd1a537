"""The binary mechanism, the classical counter without expiration, and the tree of nodes that it
publishes.

At step ``t`` the output holds one node per set bit of ``t``: for bit ``l`` the node that ends at
``t`` with its lower ``l`` bits cleared. Each step begins exactly one new node, so the shift that
turns one output sequence into its neighbour is unique: one for each published node that holds the
changed step. The exact loss is therefore the node budget times the number of published nodes that
hold the step and have ended. A node of level ``l`` that holds step ``p`` is published if bit ``l``
of ``p - 1`` is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter
from typing import Any, ClassVar

import numpy as np

from fadecount.checks import LONGEST, Number, Whole, require_budget, require_integer
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.exact_sum import times
from fadecount.mechanisms.schedule import Schedule, Steps, bit_length


@dataclass(frozen=True, slots=True)
class Binary(Mechanism):
    """A running count over a known number of steps that promises the same loss ``epsilon`` at all
    ages (Chan, Shi and Song 2011).

    Each of the ``horizon.bit_length()`` levels gets an equal share of ``epsilon``. The promise is
    ``epsilon`` at every age. The exact loss, given by ``loss``, grows to it with the number of
    nodes published.

    >>> import fadecount as fc
    >>> fc.Binary(epsilon=1.0, horizon=255).loss(0), fc.Binary(epsilon=1.0, horizon=255).loss(254)
    (0.125, 1.0)
    """

    epsilon: float
    horizon: int
    kind: ClassVar[str] = "binary"
    _budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_budget("epsilon", self.epsilon))
        remedy = "it is the number of steps the counter will ever take"
        horizon = require_integer(
            "horizon", self.horizon, minimum=1, maximum=LONGEST, remedy=remedy
        )
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
        return Schedule(
            budgets=(self._share,) * self._levels, alternating=True, horizon=self.horizon
        )

    def _worst_loss(self, age: Steps) -> Number:
        return times(np.minimum(bit_length(age + 1), self._levels), self._share).rounded_up()

    def _position_loss(self, age: Steps, position: Steps) -> Number:
        if np.max(position, initial=1) > self.horizon:
            raise bad_parameter(
                "position",
                int(np.max(position)),
                f"at most the horizon, {self.horizon}",
                "no later item exists",
            )
        last = np.minimum(position + age, self.horizon)
        return times(nodes_seen(position, last, self._levels), self._share).rounded_up()

    def _paper_loss(self, age: Steps) -> Number:
        return np.asarray(self.epsilon + 0.0 * age, dtype=np.float64)


def node_budget(epsilon: float, levels: int) -> float:
    """An equal share of a budget for each level, rounded down so that all levels together stay
    within it."""
    share = epsilon / levels
    return share if Fraction(share) * levels <= Fraction(epsilon) else nextafter(share, -inf)


def nodes_seen(step: Whole, last: Whole, levels: int) -> Whole:
    """How many published nodes hold ``step`` and end at or before ``last``."""
    before = step - 1
    seen: Whole = 0 * step
    for level in range(levels):
        ends: Any = ((before >> level) + 1) << level
        seen = seen + (((before >> level) & 1 == 0) & (ends <= last))
    return seen


def most_nodes_seen(earliest: int, window: int) -> int:
    """The largest ``nodes_seen(step, window)`` over the steps ``earliest .. window``.

    Let ``u = step - 1`` and ``h`` the highest bit in which ``u`` and ``window`` differ. The nodes
    of the levels above ``h`` end too late; below, each zero bit of ``u`` counts. So look for the
    ``u >= earliest - 1`` with the fewest ones below ``h``: either a smaller ``h`` with only zeros
    below it, or the same ``h`` with the fewest ones that still reach ``earliest - 1``.
    """
    before = earliest - 1
    split = (before ^ window).bit_length() - 1
    rest = before & ((1 << split) - 1)
    run = split - (rest ^ ((1 << split) - 1)).bit_length()
    ones = run + (rest & ((1 << (split - run)) - 1) > 0)
    lower = window & ((1 << split) - 1)
    return max(1 + split - ones, lower.bit_length())
