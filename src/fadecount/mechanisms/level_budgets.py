"""Mechanisms with one budget per level of dyadic intervals, and their exact loss.

Gradual is Algorithms 2 and 3 of the paper, Linear is Algorithm 1, Designed has any budgets.

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

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    LARGEST_BUDGET,
    Number,
    planned_tick,
    require_budget,
    require_real,
)
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import Mechanism, require_delay, require_sequence
from fadecount.mechanisms.exact_sum import INFINITE, ExactSum
from fadecount.mechanisms.schedule import LEVELS, Schedule, Steps, bit_length

_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


class LevelMechanism(Mechanism):
    """A mechanism given by level budgets and a delay; its loss is exact for any budgets
    (docs/theory.md, section 4)."""

    __slots__ = ()

    @abstractmethod
    def _level_budget(self, level: int) -> float:
        """The budget of each noise variable of a level."""

    @property
    @abstractmethod
    def delay(self) -> int:
        """How many steps outputs lag behind."""

    @property
    def schedule(self) -> Schedule:
        return _schedule(self)

    def _worst_loss(self, age: Steps) -> Number:
        shown = np.maximum(age - self.delay, 0)
        return np.where(age >= self.delay, worst_case(self.schedule.budgets, shown), 0.0)

    def _position_loss(self, age: Steps, position: Steps) -> Number:
        last = position + np.maximum(age - self.delay, 0)
        loss = at_position(self.schedule.budgets, position, last)
        return np.where(age >= self.delay, loss, 0.0)

    def _paper_loss(self, age: Steps) -> Number:
        """Twice the sum of the budgets of all levels reached: the paper covers an age by at most
        two intervals per level."""
        levels_reached = bit_length(np.maximum(age - self.delay, 0) + 1)
        return np.where(age >= self.delay, _paper_sums(self)[levels_reached], 0.0)


@dataclass(frozen=True, slots=True)
class Gradual(LevelMechanism):
    """A running count whose loss grows like a power of the logarithm of the age: ``epsilon *
    O(log(age)**exponent)``.

    ``epsilon`` is the loss at the first output that shows the item, ``exponent`` (lambda in the
    paper) how fast it grows afterwards, ``delay`` (B) how many steps outputs lag behind; during the
    delay an item loses nothing. Noise of level ``l`` has scale ``(1 + l)**(1 - exponent) /
    epsilon``. With an exponent above 3/2 the squared error stays bounded; 1 gives a loss of
    ``epsilon * (floor(log2(age + 1)) + 1)``.

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
        object.__setattr__(self, "delay", require_delay(self.delay))
        object.__setattr__(self, "planned_tick_seconds", planned_tick(self.planned_tick_seconds))
        require_budget("epsilon at the highest level", self._level_budget(LEVELS - 1))

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
    def delay(self) -> int:
        """Outputs lag behind by one step."""
        return 1

    def _level_budget(self, level: int) -> float:
        return self.epsilon if level == 0 else math.inf

    def _paper_loss(self, age: Steps) -> Number:
        return self._worst_loss(age)


@dataclass(frozen=True, slots=True)
class Designed(LevelMechanism):
    """A running count with any level budgets: level ``l`` has noise of scale ``1 / budgets[l]``;
    the last one continues.

    ``math.inf`` is allowed: that level adds no noise, and the levels below pay for a shift of it.
    An infinite first budget leaves the first output without noise: its loss is infinite, and no
    counter runs it.

    Formal guarantee and proof as for ``Gradual``: the exact loss of docs/theory.md, section 4,
    holds for any budgets.

    >>> import fadecount as fc
    >>> fc.Designed(budgets=(0.5, 0.25)).loss(6)
    1.0
    """

    budgets: Sequence[float]
    _: KW_ONLY
    delay: int = 0
    planned_tick_seconds: float | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "designed"
    _budget_fields: ClassVar[tuple[str, ...]] = ("budgets",)

    def __post_init__(self) -> None:
        remedy = "give one budget per level, lowest first; the last one continues upward"
        budgets = tuple(
            require_budget(f"budgets[{at}]", each, infinite=True)
            for at, each in enumerate(require_sequence("budgets", self.budgets, remedy))
        )
        if not 1 <= len(budgets) <= LEVELS:
            raise bad_parameter("number of budgets", len(budgets), f"from 1 to {LEVELS}", remedy)
        object.__setattr__(self, "budgets", budgets)
        object.__setattr__(self, "delay", require_delay(self.delay))
        object.__setattr__(self, "planned_tick_seconds", planned_tick(self.planned_tick_seconds))

    def _level_budget(self, level: int) -> float:
        return self.budgets[min(level, len(self.budgets) - 1)]


@lru_cache(maxsize=256)
def _schedule(mechanism: LevelMechanism) -> Schedule:
    budgets = tuple(mechanism._level_budget(level) for level in range(LEVELS))
    return Schedule(budgets=budgets, delay=mechanism.delay)


@lru_cache(maxsize=256)
def _paper_sums(mechanism: LevelMechanism) -> NDArray[np.float64]:
    """What the paper charges for the first 0, 1, 2, ... levels, each rounded up once."""
    sums = [ExactSum(0.0)]
    for budget in mechanism.schedule.budgets:
        sums.append(sums[-1] + min(2.0 * budget, INFINITE))
    return np.array([total.rounded_up() for total in sums])


def whole_costs(budgets: Sequence[float]) -> list[float]:
    """``F_l`` for each level: the cheapest way to shift all of an interval by one."""
    costs: list[float] = []
    for budget in budgets:
        split = min(2.0 * costs[-1], INFINITE) if costs else INFINITE
        costs.append(min(budget, split))
    return costs


def worst_case(budgets: Sequence[float], age: Steps) -> NDArray[np.float64]:
    """The largest loss over all positions at an age counted from the first output that shows the
    item, rounded up."""
    finite = [min(budget, INFINITE) for budget in budgets]
    whole = whole_costs(finite)
    reach = age + 1
    passed, part = ExactSum(0.0 * reach), ExactSum(finite[0] + 0.0 * reach)
    for level in range(1, int(np.max(reach, initial=1)).bit_length()):
        entered = (reach >> level) > 0
        block = whole[level - 1] * ((reach >> (level - 1)) & 1)
        part = (part + block).minimum(finite[level]).where(entered, part)
        passed = (passed + whole[level - 1]).where(entered, passed)
    return (passed + part).rounded_up()


def at_position(budgets: Sequence[float], first: Steps, last: Steps) -> NDArray[np.float64]:
    """The loss of the item first shown at clock ``first``, given all outputs up to clock ``last >=
    first``, rounded up."""
    finite = [min(budget, INFINITE) for budget in budgets]
    whole = whole_costs(finite)
    zero = ExactSum(0.0 * first)
    left = right = (zero + finite[0], zero)
    joined, between = first == last, zero
    for level in range(1, int(np.max(last, initial=1)).bit_length()):
        node, end = first >> (level - 1), last >> (level - 1)
        cost, budget = whole[level - 1], finite[level]
        odd, end_odd = (node & 1) == 1, (end & 1) == 1
        climbs, end_climbs = node > 1, (end > 1) & ~joined
        meet = ~joined & ~odd & climbs & (end == node + 1)

        met = (left[0] + right[0], left[1] + right[1])
        ones_beside = cost * (~joined & ~odd)
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
    result: NDArray[np.float64] = np.where(joined, together, apart)
    return result


def _own(costs: Any, budget: float) -> tuple[ExactSum, ExactSum]:
    """Costs of a node given what is above it (0 or 1), once it may also shift its own variable."""
    return costs[0].minimum(costs[1] + budget), costs[1].minimum(costs[0] + budget)


@lru_cache(maxsize=1 << 14)
def rounded_power(base: int, exponent: float) -> float:
    """``base**exponent`` in 60 digits, then as a float64 number: the same one on every machine,
    which ``math.pow`` does not promise.

    >>> rounded_power(4, -0.5), rounded_power(9, 1.5), rounded_power(3, 0.25)
    (0.5, 27.0, 1.3160740129524924)
    """
    return float(_EXACT.power(Decimal(base), Decimal(exponent)))
