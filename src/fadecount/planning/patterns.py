"""The exact loss as a minimum of linear functions of the level budgets, and which of them is the
smallest.

The loss at an age is the cheapest of many ways to shift the noise (docs/theory.md, section 4). Each
way is a *pattern*: how often each level's budget is paid. The loss is at most ``pattern @ budgets``
for every pattern, with equality for the cheapest. So the pattern that is cheapest at one point
gives a linear limit that is safe at every other point: a design may move wherever ``pattern @
budgets`` stays within the target.

Two kinds of choices make up the patterns. A whole interval of level ``l`` is shifted by its *own*
variable, or by shifting both halves. And the cover of the last, partly seen interval is one
variable of a *stop* level, plus the blocks seen above that level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadecount.intervals import top_level
from fadecount.planning.convex import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A weighted sum of losses must stay at or below ``most``.

    Each part ``(reach, times)`` stands for so many items, each seen for ``reach`` outputs (its age
    past the delay, plus one).
    """

    most: float
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """One pattern per part: which levels use their own variable for a whole interval, and the stop
    level of each part."""

    own: tuple[bool, ...]
    stops: tuple[int, ...]

    def chains(self) -> tuple[list[int], list[float]]:
        """For each level: which level pays for a whole interval, and how many times its budget."""
        payer, factor = [0], [1.0]
        for level in range(1, len(self.own)):
            payer.append(level if self.own[level] else payer[-1])
            factor.append(1.0 if self.own[level] else 2.0 * factor[-1])
        return payer, factor


class Patterns:
    """All patterns of a set of limits over a number of levels."""

    def __init__(self, limits: Sequence[Limit], levels: int) -> None:
        self.reaches = sorted({reach for limit in limits for reach, _ in limit.parts})
        place = {reach: at for at, reach in enumerate(self.reaches)}
        self.weights = np.zeros((len(limits), len(place)))
        for row, limit in zip(self.weights, limits, strict=True):
            for reach, times in limit.parts:
                row[place[reach]] += times / limit.most
        self.levels = levels
        self.tops = [top_level(reach) for reach in self.reaches]
        self._index = np.arange(levels)
        self.entered = (self._index < np.array(self.tops)[:, None]).astype(np.float64)
        bits = [[reach >> level & 1 for level in range(levels)] for reach in self.reaches]
        self.seen = np.array(bits, dtype=np.float64) * self.entered

    def whole_payments(self, choices: Choices) -> Vector:
        """Row ``l``: how often each budget is paid to shift a whole interval of level ``l``."""
        payer, factor = choices.chains()
        unit = np.zeros((self.levels, self.levels))
        unit[self._index, payer] = factor
        return unit

    def shifted(self, choices: Choices) -> Vector:
        """How often each part shifts a whole interval of each level."""
        return self.entered + self.seen * (self._index >= np.array(choices.stops)[:, None])

    def matrix(self, choices: Choices) -> Vector:
        """How often each limit pays the budget of each level, in units of the most it may pay."""
        paid = self.shifted(choices) @ self.whole_payments(choices)
        paid[np.arange(len(paid)), choices.stops] += 1.0
        return self.weights @ paid

    def cumulative(self) -> Choices:
        """Pay once for every level entered: always safe, seldom cheapest."""
        return Choices((True,) * self.levels, tuple(self.tops))

    def cheapest(self, budgets: Vector) -> Choices:
        """The choices that are cheapest at the given budgets (some of which may be infinite, not
        the first)."""
        each = budgets.tolist()
        whole, own = [each[0]], [True]
        for budget in each[1:]:
            own.append(budget <= 2.0 * whole[-1])
            whole.append(min(budget, 2.0 * whole[-1]))
        return Choices(
            tuple(own),
            tuple(
                _stop(reach, each, whole, top)
                for reach, top in zip(self.reaches, self.tops, strict=True)
            ),
        )

    def toggled(self, choices: Choices, level: int, budgets: Vector) -> Choices:
        """The same, except that a level's own variable is used for whole intervals, or else not
        used at all."""
        own = (*choices.own[:level], not choices.own[level], *choices.own[level + 1 :])
        if own[level] or level not in choices.stops:
            return Choices(own, choices.stops)
        each = budgets.tolist()
        whole = each[:1]
        for below in range(1, level):
            whole.append(each[below] if own[below] else 2.0 * whole[-1])
        lower = (
            _stop(reach, each, whole, level - 1) if stop == level else stop
            for reach, stop in zip(self.reaches, choices.stops, strict=True)
        )
        return Choices(own, tuple(lower))


def _stop(reach: int, budgets: list[float], whole: list[float], highest: int) -> int:
    """The level, at most ``highest``, of the one variable in the cheapest cover of the last
    interval."""
    stop, cost = 0, budgets[0]
    for level in range(1, highest + 1):
        if reach >> level - 1 & 1:
            cost += whole[level - 1]
        if budgets[level] <= cost:
            stop, cost = level, budgets[level]
    return stop
