"""Mechanisms with one budget per level of dyadic intervals (Gradual, Designed, Linear), and their
exact loss.

Each interval ``I`` of level ``l`` owns one noise variable of budget ``e_l`` (scale ``1 / e_l``).
The exact loss of the item shown first at clock ``j``, given all outputs up to clock ``t``, is the
value of

    minimize  sum of e_l(I) * |D_I|   subject to   sum of D_I over I containing s  =  [s >= j]   for
    every s <= t,

the cheapest way to shift the noise so that one output sequence turns into the other. Proofs are in
docs/theory.md: the value is attained (so it is no mere bound), integral shifts suffice, and the
first item is the worst.
Two ways to compute it in O(log t):

:func:`worst_case` uses the closed form for the first item. With ``F_0 = e_0``, ``F_l = min(e_l, 2
F_{l-1})`` (shifting a whole interval of level l) the trees ``[1], [2, 3], [4..7], ...`` cost
``F_l`` each, and the last one, seen in part, a running minimum.

:func:`at_position` climbs from ``j`` and from ``t`` and keeps two costs per node: given that the
intervals above contribute 0 or 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import Number, Whole
from fadecount.mechanisms.base import Mechanism
from fadecount.mechanisms.binary_tree import bit_length
from fadecount.mechanisms.exact_sum import INFINITE, ExactSum
from fadecount.mechanisms.schedule import LEVELS, Schedule


class LevelMechanism(Mechanism):
    """A mechanism given by level budgets and a delay; its loss is exact for any budgets
    (docs/theory.md, section 4)."""

    __slots__ = ()

    @abstractmethod
    def _level_budget(self, level: int) -> float:
        """The budget of each noise variable of a level."""

    @property
    @abstractmethod
    def _delay(self) -> int: ...

    @property
    def schedule(self) -> Schedule:
        return _schedule(self)

    def _worst_loss(self, age: Whole) -> Number:
        shown = age - self._delay
        return _since(shown, worst_case(self.schedule.budgets, _at_least(shown, 0)))

    def _position_loss(self, age: Whole, position: Whole) -> Number:
        shown = age - self._delay
        last = position + _at_least(shown, 0)
        return _since(shown, at_position(self.schedule.budgets, position, last))

    def _paper_loss(self, age: Whole) -> Number:
        """Twice the sum of the budgets of all levels reached: the paper covers an age by at most
        two intervals per level."""
        shown = age - self._delay
        levels_reached = bit_length(_at_least(shown, 0) + 1)
        paid: Number = _paper_sums(self)[levels_reached]
        return _since(shown, paid)


@lru_cache(maxsize=256)
def _schedule(mechanism: LevelMechanism) -> Schedule:
    budgets = tuple(mechanism._level_budget(level) for level in range(LEVELS))
    return Schedule(budgets=budgets, delay=mechanism._delay)


@lru_cache(maxsize=256)
def _paper_sums(mechanism: LevelMechanism) -> NDArray[np.float64]:
    """What the paper charges for the first 0, 1, 2, ... levels, each rounded up once."""
    sums = [ExactSum(0.0)]
    for budget in mechanism.schedule.budgets:
        sums.append(sums[-1] + min(2.0 * budget, INFINITE))
    return np.array([total.rounded_up() for total in sums])


def _since(shown: Whole, loss: Number) -> Number:
    """The loss once the item shows in an output, nothing before."""
    if isinstance(shown, np.ndarray):
        return np.where(shown >= 0, loss, 0.0)
    return loss if shown >= 0 else 0.0


def _at_least(value: Whole, floor: int) -> Whole:
    return np.maximum(value, floor) if isinstance(value, np.ndarray) else max(value, floor)


def whole_costs(budgets: Sequence[float]) -> list[float]:
    """``F_l`` for each level: the cheapest way to shift all of an interval by one."""
    costs: list[float] = []
    for budget in budgets:
        split = min(2.0 * costs[-1], INFINITE) if costs else INFINITE
        costs.append(min(budget, split))
    return costs


def worst_case(budgets: Sequence[float], age: Whole) -> Number:
    """The largest loss over all positions at an age counted from the first output that shows the
    item, rounded up."""
    finite = [min(budget, INFINITE) for budget in budgets]
    whole = whole_costs(finite)
    reach = age + 1
    passed, part = ExactSum(0.0 * reach), ExactSum(finite[0] + 0.0 * reach)
    for level in range(1, _levels(reach)):
        entered = (reach >> level) > 0
        block = whole[level - 1] * ((reach >> (level - 1)) & 1)
        part = (part + block).minimum(finite[level]).where(entered, part)
        passed = (passed + whole[level - 1]).where(entered, passed)
    return (passed + part).rounded_up()


def at_position(budgets: Sequence[float], first: Whole, last: Whole) -> Number:
    """The loss of the item first shown at clock ``first``, given all outputs up to clock ``last >=
    first``, rounded up."""
    finite = [min(budget, INFINITE) for budget in budgets]
    whole = whole_costs(finite)
    zero = ExactSum(0.0 * first)
    left = right = (zero + finite[0], zero)
    joined, between = first == last, zero
    for level in range(1, _levels(last)):
        node, end = first >> (level - 1), last >> (level - 1)
        cost, budget = whole[level - 1], finite[level]
        odd, end_odd = (node & 1) == 1, (end & 1) == 1
        climbs, end_climbs = node > 1, (end > 1) & _not(joined)
        meet = _not(joined) & _not(odd) & climbs & (end == node + 1)

        met = (left[0] + right[0], left[1] + right[1])
        ones_beside = cost * (_not(joined) & _not(odd))
        alone = (left[0] + ones_beside, left[1] + cost * odd)
        above = tuple(one.where(meet, other) for one, other in zip(met, alone, strict=True))
        new_left = tuple(
            one.where(climbs, other) for one, other in zip(_own(above, budget), left, strict=True)
        )

        end_above = (right[0] + cost * end_odd, right[1])
        new_right = tuple(
            one.where(end_climbs, other)
            for one, other in zip(_own(end_above, budget), right, strict=True)
        )

        passed = (node < 1) & (end > 1)
        between = (between + cost).where(passed, between)
        left, right = (new_left[0], new_left[1]), (new_right[0], new_right[1])
        joined = joined | meet
    apart = (left[0] + right[0] + between).rounded_up()
    together = left[0].rounded_up()
    result: Number = np.where(joined, together, apart)
    return result


def _own(costs: Any, budget: float) -> tuple[ExactSum, ExactSum]:
    """Costs of a node given what is above it (0 or 1), once it may also shift its own variable."""
    return costs[0].minimum(costs[1] + budget), costs[1].minimum(costs[0] + budget)


def _levels(reach: Whole) -> int:
    return (
        int(np.max(reach, initial=1)).bit_length()
        if isinstance(reach, np.ndarray)
        else reach.bit_length()
    )


def _not(condition: Any) -> Any:
    return ~condition if isinstance(condition, np.ndarray) else not condition
