"""A schedule of noise of your own: one noise variable for each of any intervals of steps.

The output of step ``t`` is the sum of the inputs up to ``t`` plus the variables of all intervals
that hold ``t``. By claims 1 and 2 of docs/theory.md, section 4, the loss of the item at step ``j``,
given the outputs up to ``t``, is exactly the cost of the cheapest whole shift of the variables that
changes the outputs ``j .. t`` by 1, and no others. Shifting the variable of ``[first, last]``
changes the outputs from ``first`` on, and takes that back from ``last + 1`` on. So the intervals
are the edges of a graph, each between ``first`` and ``last + 1`` (or the future, if it reaches
beyond ``t``), and the cheapest shift is the shortest way from ``j`` to the future.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import require_budget, require_integer, set_fields
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import require_sequence
from fadecount.mechanisms.loss import units_of
from fadecount.mechanisms.noise_distribution import variance_of
from fadecount.mechanisms.running_total import RunningTotal, Schedule

Interval = tuple[int, int, float]
"""The first step, the last step, and the budget of the noise."""

LONGEST_SCHEDULE, MOST_INTERVALS, MOST_IN_USE = 1024, 8192, 64
"""A loss is a shortest way for each pair of steps: two seconds for 1,000 steps and 2,000
intervals."""


@dataclass(frozen=True, slots=True, repr=False)
class Intervals(RunningTotal):
    """A running count with noise of your own schedule: each ``(first, last, epsilon)`` is one noise
    variable of scale ``1 / epsilon`` in the outputs of the steps ``first .. last``.

    At least one interval begins at every step, at most 64 hold a step, and there are at most 1,024
    steps. Guarantees: ``loss`` is exact, computed from the schedule alone (docs/theory.md,
    section 4); nothing about it is taken on trust. Test: tests/mechanisms/test_own_schedules.py.

    >>> import fadecount as fc
    >>> pairs = [(step, step + 1, 0.5) for step in (1, 3, 5)]   # noise for two steps each
    >>> singles = [(step, step, 0.25) for step in range(1, 7)]  # and for each step
    >>> mechanism = fc.Intervals([*pairs, *singles])
    >>> mechanism.loss(0), mechanism.loss(5), mechanism.loss(2, position=2)
    (0.25, 1.5, 0.75)
    """

    intervals: tuple[Interval, ...]
    kind: ClassVar[str] = "intervals"

    def __post_init__(self) -> None:
        remedy = "such as [(1, 2, 0.5), (2, 2, 0.25)]: first step, last step, epsilon"
        given = require_sequence("intervals", self.intervals, remedy)
        checked = tuple(_checked(each, remedy) for each in given)
        if not 1 <= len(checked) <= MOST_INTERVALS:
            bound = f"1 to {MOST_INTERVALS} intervals"
            raise bad_parameter("intervals", len(checked), bound, remedy)
        set_fields(self, intervals=checked)
        begin = np.bincount([first for first, _, _ in checked], minlength=self.horizon + 1)[1:]
        if not begin.all():
            raise ParameterError(
                f"intervals must begin at every step up to {self.horizon}, got none for step"
                f" {int(np.argmin(begin)) + 1}; without new noise its output would show its input"
            )
        over = np.bincount([last for _, last, _ in checked], minlength=self.horizon + 1)[:-1]
        in_use = np.cumsum(begin - over)
        if in_use.max() > MOST_IN_USE:
            raise ParameterError(
                f"intervals must hold a step at most {MOST_IN_USE} times, got {in_use.max()} for"
                f" step {int(np.argmax(in_use)) + 1}; join some of them"
            )

    @classmethod
    def levels(cls, budgets: Sequence[float]) -> Self:
        """The dyadic intervals of :class:`fadecount.Gradual` with any budgets: level ``l`` has
        intervals of ``2**l`` steps with noise of scale ``1 / budgets[l]``, up to step ``2 **
        len(budgets) - 1``. An infinite budget leaves the noise of its level out.

        >>> import fadecount as fc
        >>> fc.Intervals.levels([0.5, 0.25, 0.25]).loss(6)
        1.0
        """
        remedy = "give one budget per level, lowest first"
        given = [*require_sequence("budgets", budgets, remedy)]
        most = LONGEST_SCHEDULE.bit_length() - 1
        if not 1 <= len(given) <= most:
            raise bad_parameter("number of budgets", len(given), f"from 1 to {most}", remedy)
        horizon = (1 << len(given)) - 1
        return cls(
            tuple(
                (first, first + (1 << level) - 1, budget)
                for level, budget in enumerate(given)
                if budget != math.inf
                for first in range(1 << level, horizon + 1, 1 << level)
            )
        )

    def __repr__(self) -> str:
        return f"Intervals({len(self.intervals)} intervals over {self.horizon} steps)"

    @property
    def horizon(self) -> int:
        """The last step of the schedule."""
        return max(last for _, last, _ in self.intervals)

    @property
    def last_step(self) -> int:
        return self.horizon

    @property
    def noise(self) -> IntervalSchedule:
        budgets = tuple(budget for _, _, budget in self.intervals)
        return IntervalSchedule(budgets=budgets, intervals=self.intervals)

    def scaled(self, factor: float) -> Self:
        return type(self)(
            tuple((first, last, factor * budget) for first, last, budget in self.intervals)
        )

    def _exact(self, age: int, position: int | None) -> int:
        ways, worst = _ways(self.intervals)
        if position is None:
            return worst[min(age, self.horizon - 1)]
        return ways[min(position + age, self.horizon) - 1][position - 1]


def _checked(interval: object, remedy: str) -> Interval:
    if not isinstance(interval, list | tuple) or len(interval) != 3:
        raise bad_parameter("intervals", interval, "triples of two steps and an epsilon", remedy)
    first = require_integer(
        "intervals: first step", interval[0], minimum=1, maximum=LONGEST_SCHEDULE, remedy=remedy
    )
    last = require_integer(
        "intervals: last step", interval[1], minimum=first, maximum=LONGEST_SCHEDULE, remedy=remedy
    )
    return first, last, require_budget("intervals: epsilon", interval[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalSchedule(Schedule):
    """Noise variables for any intervals of steps, by their number in the list."""

    intervals: tuple[Interval, ...]

    def in_use(self, shown: int) -> list[int]:
        """The numbers of the intervals that hold a step."""
        return [
            number
            for number, (first, last, _) in enumerate(self.intervals)
            if first <= shown <= last
        ]

    def renewed(self, firsts: Any, lasts: Any) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
        begin, end, budgets = np.array(self.intervals).T
        used = [
            (begin <= step) & (step <= end)
            for step in (np.asarray(each)[..., np.newaxis] for each in (firsts, lasts))
        ]
        return budgets, (used[0] != used[1]).astype(np.int8)

    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        steps = (max(0, min(last, shown) - first + 1) for first, last, _ in self.intervals)
        return sum(
            count / shown * variance_of(budget, continuous=continuous)
            for count, budget in zip(steps, self.budgets, strict=True)
        )


@lru_cache(maxsize=8)
def _ways(intervals: tuple[Interval, ...]) -> tuple[list[list[int]], list[int]]:
    """The losses by the last step seen and by position, and the largest by age; of items that never
    get so old, at the end of the schedule."""
    horizon = max(last for _, last, _ in intervals)
    whole = [(first, last, units_of(budget)) for first, last, budget in intervals]
    ways = [_shortest(whole, now) for now in range(1, horizon + 1)]
    worst = [
        max(ways[min(at + age, horizon - 1)][at] for at in range(horizon)) for age in range(horizon)
    ]
    return ways, worst


def _shortest(intervals: list[tuple[int, int, int]], now: int) -> list[int]:
    """The shortest ways from the steps ``1 .. now`` to the future, ``now + 1`` (Dijkstra)."""
    edges: list[list[tuple[int, int]]] = [[] for _ in range(now + 2)]
    for first, last, cost in intervals:
        if first <= now:
            end = min(last, now) + 1
            edges[first].append((end, cost))
            edges[end].append((first, cost))
    costs: dict[int, int] = {}
    waiting = [(0, now + 1)]
    while waiting:
        cost, place = heapq.heappop(waiting)
        if place not in costs:
            costs[place] = cost
            for other, more in edges[place]:
                if other not in costs:
                    heapq.heappush(waiting, (cost + more, other))
    return [costs[place] for place in range(1, now + 1)]
