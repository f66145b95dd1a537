"""Mechanisms with one budget per level of dyadic intervals, and their exact loss.

Gradual is Algorithms 2 and 3 of the paper, Linear is Algorithm 1.

Each interval ``I`` of level ``l`` owns one noise variable of budget ``e_l`` (scale ``1 / e_l``).
The exact loss of the item shown first at clock ``j``, given all outputs up to clock ``t``, is the
cost of the cheapest shift of the noise that turns one output sequence into the other. Shifting the
variable of ``[first, last]`` changes the outputs from ``first`` on, and takes that back from
``last + 1`` on. So the intervals are the edges of a graph, and the cheapest shift is the shortest
way from ``j`` to the future, which is everything after ``t``. Proofs are in docs/theory.md: the
value is attained (so it is no mere bound), integral shifts suffice, and the first item is the
worst. :func:`shortest_way` takes O(log t).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import (
    LARGEST_BUDGET,
    planned_tick,
    require_budget,
    require_real,
    set_fields,
)
from fadecount.mechanisms.base import require_delay
from fadecount.mechanisms.loss import units_of
from fadecount.mechanisms.running_total import LEVELS, RunningTotal, Schedule

_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


class LevelMechanism(RunningTotal):
    """A mechanism given by level budgets and a delay; its loss is exact for any budgets
    (docs/theory.md, section 4)."""

    __slots__ = ()

    @abstractmethod
    def _level_budget(self, level: int) -> float:
        """The budget of each noise variable of a level."""

    @property
    def noise(self) -> Schedule:
        return _schedule(self)

    def _exact(self, age: int, position: int | None) -> int:
        first = 1 if position is None else position  # the first item is the worst
        seen = age - self.delay
        return shortest_way(_units(self), first, first + seen) if seen >= 0 else 0

    def _paper(self, age: int) -> int:
        """Twice the sum of the budgets of all levels reached: the paper covers an age by at most
        two intervals per level."""
        return 2 * sum(_units(self)[: max(0, age - self.delay + 1).bit_length()])


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
    planned_tick_seconds: int | None = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = "gradual"
    _budget_fields: ClassVar[tuple[str, ...]] = ("epsilon",)

    def __post_init__(self) -> None:
        remedy = "1 gives logarithmic fading"
        set_fields(
            self,
            epsilon=require_budget("epsilon", self.epsilon),
            exponent=require_real("exponent", self.exponent, low=0.0, high=64.0, remedy=remedy),
            delay=require_delay(self.delay),
            planned_tick_seconds=planned_tick(self.planned_tick_seconds),
        )
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
        set_fields(self, epsilon=require_budget("epsilon", self.epsilon))

    @property
    def delay(self) -> int:
        return 1

    def _level_budget(self, level: int) -> float:
        return self.epsilon if level == 0 else math.inf

    def _paper(self, age: int) -> int:
        return self._exact(age, None)


@lru_cache(maxsize=256)
def _schedule(mechanism: LevelMechanism) -> Schedule:
    return Schedule(budgets=tuple(mechanism._level_budget(level) for level in range(LEVELS)))


@lru_cache(maxsize=256)
def _units(mechanism: LevelMechanism) -> list[int]:
    return [units_of(budget) for budget in mechanism.noise.budgets]


def shortest_way(budgets: Sequence[int], first: int, last: int) -> int:
    """The cheapest way from clock ``first`` to the future after clock ``last``, along intervals
    that cost their level's budget each.

    Level by level: ``start`` and ``end`` are the costs from ``first`` to both ends of the interval
    that holds it, ``rest`` is that from the beginning of the interval that holds ``last`` to the
    future, and ``across`` that of crossing a whole interval, in one piece or in two halves. Once
    one interval holds both, its end is the future.
    """
    start, end, rest, across = 0, budgets[0], budgets[0], budgets[0]
    joined = first == last
    for budget in budgets[1 : last.bit_length()]:
        if first & 1:
            start += across
        elif not joined:
            joined = first ^ 1 == last
            end += rest if joined else across
        rest = min(rest + across * (last & 1), budget)
        if first > 1:
            start, end = min(start, end + budget), min(end, start + budget)
        across = min(budget, 2 * across)
        first, last = first >> 1, last >> 1
    return end if joined else end + rest


@lru_cache(maxsize=1 << 14)
def rounded_power(base: int, exponent: float) -> float:
    """``base**exponent`` in 60 digits, then as a float64 number: the same one on every machine,
    which ``math.pow`` does not promise.

    >>> rounded_power(4, -0.5), rounded_power(9, 1.5), rounded_power(3, 0.25)
    (0.5, 27.0, 1.3160740129524924)
    """
    return float(_EXACT.power(Decimal(base), Decimal(exponent)))
