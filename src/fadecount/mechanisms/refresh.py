"""Budget refresh: the baseline of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fadecount.checks import (
    LONGEST,
    Number,
    require_budget,
    require_horizon,
    require_integer,
)
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.binary_tree import most_nodes_seen, node_budget, nodes_seen
from fadecount.mechanisms.exact_sum import ExactSum, times
from fadecount.mechanisms.schedule import Schedule, Steps, bit_length


@dataclass(frozen=True, slots=True)
class Refresh(Mechanism):
    """A running count in rounds of ``window`` steps, each with a fresh budget: the loss grows
    linearly in the age, without bound.

    Within a round the binary mechanism spends ``epsilon_current``; each later round publishes the
    sum of all earlier rounds once more, for ``epsilon_past``. ``loss`` is exact; ``paper_loss`` is
    the account of the paper, which also charges for nodes that are never published. Proof:
    docs/theory.md, section 3. Test: tests/mechanisms/test_exact_loss.py.

    >>> import fadecount as fc
    >>> refresh = fc.Refresh(window=7, epsilon_current=0.75, epsilon_past=0.25)
    >>> refresh.loss(0), refresh.loss(6), refresh.loss(700)
    (0.25, 0.75, 25.75)
    """

    window: int
    epsilon_current: float
    epsilon_past: float
    kind: ClassVar[str] = "refresh"
    _budget_fields: ClassVar[tuple[str, ...]] = ("epsilon_current", "epsilon_past")

    def __post_init__(self) -> None:
        remedy = "it is the number of steps between two refreshes of the budget"
        window = require_integer("window", self.window, minimum=1, maximum=LONGEST, remedy=remedy)
        object.__setattr__(self, "window", window)
        object.__setattr__(
            self, "epsilon_current", require_budget("epsilon_current", self.epsilon_current)
        )
        object.__setattr__(self, "epsilon_past", require_budget("epsilon_past", self.epsilon_past))
        require_budget("epsilon_current per level", self._share)

    @property
    def _levels(self) -> int:
        return self.window.bit_length()

    @property
    def _share(self) -> float:
        return node_budget(self.epsilon_current, self._levels)

    @property
    def schedule(self) -> Schedule:
        budgets = (self._share,) * self._levels
        return Schedule(
            budgets=budgets,
            alternating=True,
            round_length=self.window,
            carry_budget=self.epsilon_past,
        )

    def _later_round(self, offset: int) -> ExactSum:
        """The loss from a later round seen up to an offset: shift its carry, or the nodes seen that
        begin the round."""
        return times(offset.bit_length(), self._share).minimum(self.epsilon_past)

    def _whole_rounds(self, count: Any) -> ExactSum:
        """The loss from so many later rounds, each seen to its end."""
        if Fraction(self._share) * self._levels < Fraction(self.epsilon_past):
            return times(np.asarray(count * self._levels), self._share)
        return times(np.asarray(count), self.epsilon_past)

    def _worst_loss(self, age: Steps) -> Number:
        """At age ``a * window + b``: the best of both cases below for ``b``, plus a whole round for
        each of ``a - 1``."""
        rounds, rest = age // self.window, age % self.window
        started = np.minimum(rounds, 1) * self.window + rest
        distinct, inverse = np.unique(started, return_inverse=True)
        tables = [self._worst_within_two_rounds(int(one)) for one in distinct]
        high = np.array([one.high for one in tables], dtype=np.float64)[inverse].reshape(
            np.shape(age)
        )
        low = np.array([one.low for one in tables], dtype=np.float64)[inverse].reshape(
            np.shape(age)
        )
        return (ExactSum(high, low) + self._whole_rounds(np.maximum(rounds - 1, 0))).rounded_up()

    def _worst_within_two_rounds(self, age: int) -> ExactSum:
        """The largest loss at an age below twice the window, over the positions of the first round
        (whose items lose most).

        Either the item is young enough for its round to be still running (then the first position
        is the worst), or ``later`` whole rounds and a part of ``offset`` steps of the next one have
        passed, and the position with the most nodes is taken for each number of nodes that the part
        can show.
        """
        window, share = self.window, self._share
        worst = times((min(age, window - 1) + 1).bit_length(), share)
        for later in (0, 1):
            for level in range(self._levels):
                # The first position that shows so many nodes.
                earliest = max(1, (later + 1) * window + (1 << level) - age)
                if earliest <= window:
                    seen = times(most_nodes_seen(earliest, window), share)
                    rounds = self._later_round(1 << level) + (
                        self._later_round(window) if later else 0.0
                    )
                    worst = worst.maximum(seen + rounds)
        return worst

    def _position_loss(self, age: Steps, position: Steps) -> Number:
        earlier, step = (position - 1) // self.window, (position - 1) % self.window + 1
        last: Any = np.minimum(step + age, self.window)
        seen: Any = nodes_seen(step, last, self._levels)
        # From the second round on one may shift the carry: the nodes [1, 2**l] before the item then
        # cost, those after do not.
        before, after = bit_length(step - 1), bit_length(last)
        plain = times(np.asarray(seen), self._share)
        shifted = times(np.asarray(seen - after + 2 * before), self._share) + self.epsilon_past
        own = plain.minimum(shifted).where(np.asarray(earlier > 0), plain)

        begun, offset = (step - 1 + age) // self.window, (step - 1 + age) % self.window + 1
        part = times(np.asarray(bit_length(offset)), self._share).minimum(self.epsilon_past)
        part = part.where(np.asarray(begun > 0), ExactSum(0.0))
        return (own + part + self._whole_rounds(np.maximum(begun - 1, 0))).rounded_up()

    def _paper_loss(self, age: Steps) -> Number:
        """The worst position of the paper's account: every node that holds the item and has ended,
        and one past budget a round.

        At age ``a * window + b`` either the item at the largest power of two has all its nodes and
        ``a`` rounds behind it, or one of the last ``b`` items of a round has ``a + 1``, and the
        nodes that end within the round.
        """
        rounds, rest = age // self.window, age % self.window
        nodes: Any = 0 * age
        for level in range(self._levels):
            nodes = nodes + (self.window % (1 << level) < rest)
        early = times(self._levels + 0 * age, self._share) + times(rounds, self.epsilon_past)
        late = times(nodes, self._share) + times(rounds + 1, self.epsilon_past)
        return early.maximum(late.where(rest > 0, early)).rounded_up()

    @classmethod
    def best_ratio(cls, *, window: int, horizon: int) -> float:
        """The ``epsilon_past / epsilon_current`` with which the first round loses least by the
        horizon, at a given error.

        The first round accumulates ``epsilon_current + (rounds - 1) * epsilon_past``. If the error
        is ``V_tree / epsilon_current**2 + V_past / epsilon_past**2``, the least such loss is at
        ``(V_past / (V_tree * (rounds - 1)))**(1/3)``.
        """
        rounds = math.ceil(require_horizon(horizon) / window)
        past = 2.0 * max(0, horizon - window) / horizon
        whole = cls(window=window, epsilon_current=1.0, epsilon_past=1.0)
        tree = whole.mse(horizon, continuous=True) - past
        return (past / (tree * (rounds - 1))) ** (1.0 / 3.0) if rounds > 1 else 1.0
