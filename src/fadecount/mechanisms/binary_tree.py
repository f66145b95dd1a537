"""Counters made of binary trees: the classical one without expiration, and budget refresh, the
baseline of the paper.

At step ``t`` the output holds one node per set bit of ``t``: for bit ``l`` the node that ends at
``t`` with its lower ``l`` bits cleared. Each step begins exactly one new node, so the shift that
turns one output sequence into its neighbour is unique: one for each published node that holds the
changed step. The exact loss is therefore the node budget times the number of published nodes that
hold the step and have ended.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from fadecount.checks import LONGEST, require_budget, require_horizon, require_integer, set_fields
from fadecount.mechanisms.loss import units_of
from fadecount.mechanisms.running_total import RunningTotal, Schedule


class _Trees(RunningTotal):
    """A counter with a tree over so many steps; its levels have equal shares of a budget."""

    __slots__ = ()

    @property
    @abstractmethod
    def _whole(self) -> tuple[int, float]:
        """The steps of a tree, and its budget."""

    @property
    def _levels(self) -> int:
        return self._whole[0].bit_length()

    @property
    def _share(self) -> float:
        """The budget of a node, rounded down so that all levels together stay within theirs."""
        levels, epsilon = self._levels, self._whole[1]
        share = epsilon / levels
        return share if Fraction(share) * levels <= epsilon else math.nextafter(share, 0.0)


@dataclass(frozen=True, slots=True)
class Binary(_Trees):
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
        horizon, remedy = self.horizon, "it is the number of steps the counter will ever take"
        horizon = require_integer("horizon", horizon, minimum=1, maximum=LONGEST, remedy=remedy)
        set_fields(self, epsilon=require_budget("epsilon", self.epsilon), horizon=horizon)
        require_budget("epsilon per level", self._share)

    @property
    def _whole(self) -> tuple[int, float]:
        return self.horizon, self.epsilon

    @property
    def noise(self) -> Schedule:
        return Schedule(budgets=(self._share,) * self._levels, alternating=True)

    @property
    def last_step(self) -> int:
        return self.horizon

    def _exact(self, age: int, position: int | None) -> int:
        first = 1 if position is None else position  # the first item is the worst
        return units_of(self._share) * nodes_seen(first, min(first + age, self.horizon))

    def _paper(self, age: int) -> int:  # noqa: ARG002 - it is the same at every age
        return units_of(self.epsilon)


@dataclass(frozen=True, slots=True)
class Refresh(_Trees):
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
        budgets = {name: require_budget(name, getattr(self, name)) for name in self._budget_fields}
        set_fields(self, window=window, **budgets)
        require_budget("epsilon_current per level", self._share)

    @property
    def _whole(self) -> tuple[int, float]:
        return self.window, self.epsilon_current

    @property
    def noise(self) -> Schedule:
        return Schedule(
            budgets=(self._share,) * self._levels,
            alternating=True,
            round_length=self.window,
            carry_budget=self.epsilon_past,
        )

    def _exact(self, age: int, position: int | None) -> int:
        if position is None:
            return max(self._exact(age, step) for step in self._worst_steps(age))
        share, past = units_of(self._share), units_of(self.epsilon_past)
        earlier, step = (position - 1) // self.window, (position - 1) % self.window + 1
        last = min(step + age, self.window)
        seen = nodes_seen(step, last)
        own = share * seen
        if earlier:
            # One may shift the carry: then the nodes that begin the round before the item cost,
            # and those after it do not.
            shifted = seen - last.bit_length() + 2 * (step - 1).bit_length()
            own = min(own, share * shifted + past)
        rounds, offset = divmod(step - 1 + age, self.window)
        if not rounds:
            return own
        # In a later round, one shifts the carry, or the nodes seen that begin the round.
        part = min(share * (offset + 1).bit_length(), past)
        return own + part + (rounds - 1) * min(share * self._levels, past)

    def _worst_steps(self, age: int) -> set[int]:
        """Steps of the first round, whose items lose most, one of which has the largest loss.

        The last round shows more nodes from certain steps on. Of the steps from one of these on,
        the most nodes of their own have those with a binary form that is rounded up.
        """
        window, rest = self.window, age % self.window
        offsets = [0, *((1 << level) - 1 for level in range(self._levels))]
        starts = {max(0, shown - rest) for shown in offsets} | {0}
        starts |= {window - rest + shown for shown in offsets if shown < rest}
        steps = set(starts)
        for level in range(1, self._levels):
            steps.update(((start >> level) + 1) << level for start in starts)
        return {step + 1 for step in steps if step < window}

    def _paper(self, age: int) -> int:
        """The worst position of the paper's account: every node that holds the item and has ended,
        and one past budget a round.

        At age ``a * window + b`` either the item at the largest power of two has all its nodes and
        ``a`` rounds behind it, or one of the last ``b`` items of a round has ``a + 1``, and the
        nodes that end within the round.
        """
        share, past = units_of(self._share), units_of(self.epsilon_past)
        rounds, rest = divmod(age, self.window)
        early = self._levels * share + rounds * past
        ended = sum(self.window % (1 << level) < rest for level in range(self._levels))
        return max(early, ended * share + (rounds + 1) * past) if rest else early

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


def nodes_seen(step: int, last: int) -> int:
    """How many published nodes hold ``step`` and end at or before ``last``.

    One of level ``l`` that holds the step is published if bit ``l`` of ``step - 1`` is 0. It has
    ended if ``l`` is at most the highest bit in which ``step - 1`` and ``last`` differ.
    """
    levels = ((step - 1) ^ last).bit_length()
    return levels - ((step - 1) & ((1 << levels) - 1)).bit_count()
