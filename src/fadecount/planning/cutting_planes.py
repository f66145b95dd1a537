"""Designs with a head start: the convex problem again, with limits on the worst items found so far.

The loss of one item is a minimum of linear functions of the level budgets: one for each way to
shift the noise, which pays the budget of each level a number of times. The way that is cheapest at
one point is a limit that is safe for that item at every other. So each round finds the worst item
of each age at the current budgets, adds it to the items known, chooses the cheapest way of every
known item anew, solves the convex problem under these limits (:mod:`fadecount.planning.convex`),
and scales the result to what the worst items allow. It settles in about ten rounds. Levels that no
way pays for have no noise: they are dropped.

This goes downhill to the nearest local optimum. So where there is time, it starts from what a
search far and wide has found (:mod:`fadecount.planning.evolution`); otherwise from a few curves,
and drops levels or brings them back, one at a time.

Nothing here is trusted: the caller checks every result exactly (:mod:`fadecount.planning.certify`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fadecount.intervals import top_level
from fadecount.mechanisms.head_start import worst_item
from fadecount.planning.convex import Vector, least_noise, variance
from fadecount.planning.evolution import Row, evolved
from fadecount.planning.patterns import Limit

ROUNDS = 14
_EXPONENTS = (1.0, 2.0)
_STARTS = 2
_SHORT, _LONG, _BROAD = (2, 20, 40), (4, 40, 150), (10, 40, 100)
"""Wide searches: how many populations, how many members each, how many generations."""

_LOW, _TALL = 8, 28
"""Up to so many levels a wide search is broad; from so many on it alone is not enough."""

_PRECISION = 1e-5
_BETTER = 1.0 - 1e-4
_PROMISING = 1.1
_PATIENCE = 3
_BEYOND = 3
"""How many levels are looked at past those that an age or a clock reaches. Items higher up lose no
more."""


class CuttingPlanes:
    """One search: the share of the steps at which each level is in use, the limits, and the head
    start."""

    def __init__(self, shares: Vector, limits: Sequence[Limit], head_start: int) -> None:
        self._shares, self._head_start = shares, head_start
        first = Limit(
            most=min(limit.most for limit in limits), parts=((1, 1),)
        )  # implied; it keeps the first budget finite
        self._limits = (first, *limits)
        self._levels = len(shares)
        highest = max(top_level(reach) for limit in limits for reach, _ in limit.parts)
        self._beyond = max(highest - self._levels, 0) + _BEYOND

    def run(self, start: Vector, *, wide: bool) -> Vector:
        """The best budgets from a starting point, a few gradual curves, curves on every other level
        only, and a wide search."""
        levels = np.arange(1.0, self._levels + 1.0)
        curves = [levels ** (exponent - 1.0) for exponent in _EXPONENTS]
        halves = [
            np.where((levels > 2) & (levels % 2 == odd), np.inf, curve)
            for curve in curves
            for odd in (0, 1)
        ]
        scaled = sorted(
            (self._scaled(budgets) for budgets in (start, *curves, *halves)), key=_noise
        )[:_STARTS]
        if wide:
            scaled += [
                self._scaled(budgets)
                for budgets in evolved(self._shares, self._worst, *self._size(_LONG))
            ]
        best = min((self._improved(*found) for found in scaled), key=_noise)
        return best[0] if wide and self._levels < _TALL else self._varied(*best)[0]

    def at_first_sight(self) -> float:
        """About the least noise: that of a short wide search."""
        return min(
            self._scaled(budgets)[1]
            for budgets in evolved(self._shares, self._worst, *self._size(_SHORT))
        )

    def _size(self, otherwise: tuple[int, int, int]) -> tuple[int, int, int]:
        """Few levels take so little time that the search can always be broad."""
        return _BROAD if self._levels <= _LOW else otherwise

    def _varied(self, budgets: Vector, noise: float) -> tuple[Vector, float]:
        """A better one nearby, with one level dropped or brought back at a time; the same if there
        is none."""
        best = budgets, noise
        for level in range(self._levels - 1, 0, -1):
            changed = best[0].copy()
            around = [
                each
                for each in changed[max(0, level - 1) : level + 2].tolist()
                if math.isfinite(each)
            ]
            changed[level] = np.mean(around) if np.isinf(changed[level]) and around else np.inf
            found = self._scaled(changed)
            if found[1] < _PROMISING * best[1]:
                found = self._improved(*found)
                best = found if found[1] < _BETTER * best[1] else best
        return best

    def _improved(self, budgets: Vector, noise: float) -> tuple[Vector, float]:
        best, rows, late = (budgets, noise), dict.fromkeys(self._worst(budgets)), 0
        for _ in range(ROUNDS):
            matrix = np.array([self._paid(row, budgets) for row in rows])
            budgets, _ = least_noise(self._shares, matrix, budgets, _PRECISION)
            rows |= dict.fromkeys(self._worst(budgets))
            budgets, noise = self._scaled(budgets)
            late = 0 if noise < _BETTER * best[1] else late + 1
            best = min(best, (budgets, noise), key=_noise)
            if late == _PATIENCE:
                break
        return best

    def _scaled(self, budgets: Vector) -> tuple[Vector, float]:
        """The largest multiple of the budgets that the worst items allow, up to rounding, and its
        noise."""
        finite = np.where(np.isinf(budgets), 0.0, budgets)
        scaled: Vector = budgets / max(
            self._paid(row, budgets) @ finite for row in self._worst(budgets)
        )
        return scaled, float(self._shares @ variance(scaled))

    def _worst(self, budgets: Vector) -> list[Row]:
        """For each limit its worst items."""
        each = budgets.tolist()
        continued = (*each, *[each[_last_noisy(each)]] * self._beyond)
        rows = []
        for limit in self._limits:
            firsts = [
                (times, reach, _worst_item(continued, self._head_start, reach - 1))
                for reach, times in limit.parts
            ]
            rows.append(
                tuple(
                    (times / limit.most, first, first + reach - 1) for times, reach, first in firsts
                )
            )
        return rows

    def _paid(self, row: Row, budgets: Vector) -> Vector:
        """How often each budget is paid by the cheapest ways of some items together."""
        each = tuple(budgets.tolist())
        paid: Vector = np.sum(
            [weight * cheapest_way(each, first, last) for weight, first, last in row], axis=0
        )
        return paid


_worst_item = lru_cache(maxsize=256)(worst_item)

Way = tuple[float, int]
"""The cost of a way to shift noise, and how often it pays each budget: 64 bits for each level."""


def cheapest_way(budgets: tuple[float, ...], first: int, last: int) -> Vector:
    """How often the cheapest shift for the item shown at clock ``first`` pays each budget, given
    all outputs up to ``last``.

    Levels past the last budget have the last finite one.
    """
    count, later = len(budgets), _last_noisy(budgets)
    own: list[Way] = [(budget, 1 << 64 * level) for level, budget in enumerate(budgets)]
    own += [own[later]] * (last.bit_length() - count)
    whole = [own[0]]
    for each in own[1:]:
        whole.append(min(each, (2.0 * whole[-1][0], 2 * whole[-1][1])))
    meeting, tree, last_tree = (
        (first ^ last).bit_length(),
        first.bit_length() - 1,
        last.bit_length() - 1,
    )
    together = tree == last_tree
    zero, one, right = own[0], (0.0, 0), own[0]
    for level in range(meeting - 1 if together else last_tree):
        right = min(_sum(right, whole[level]) if last >> level & 1 else right, own[level + 1])
    for level in range(meeting - 1 if together else tree):
        zero, one = (
            (zero, _sum(one, whole[level]))
            if first >> level & 1
            else (_sum(zero, whole[level]), one)
        )
        zero, one = min(zero, _sum(own[level + 1], one)), min(one, _sum(own[level + 1], zero))
    if not together:
        for between in whole[tree + 1 : last_tree]:
            zero = _sum(zero, between)
        return _counts(_sum(zero, right), count)
    if meeting:
        zero = _sum(zero, right)
        zero, one = min(zero, _sum(own[meeting], one)), min(one, _sum(own[meeting], zero))
    for level in range(meeting, tree):
        one = _sum(one, whole[level]) if first >> level & 1 else one
        zero, one = min(zero, _sum(own[level + 1], one)), min(one, _sum(own[level + 1], zero))
    return _counts(zero, count)


def _last_noisy(budgets: Sequence[float]) -> int:
    """The highest level with noise. Its budget goes on upward."""
    return max(level for level, budget in enumerate(budgets) if math.isfinite(budget))


def _sum(left: Way, right: Way) -> Way:
    return left[0] + right[0], left[1] + right[1]


def _counts(way: Way, count: int) -> Vector:
    return np.frombuffer(way[1].to_bytes(8 * count, "little"), dtype="<u8").astype(np.float64)


def _noise(found: tuple[Vector, float]) -> float:
    return found[1]
