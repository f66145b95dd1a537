"""Totals from tied blocks: a running total, and nothing else.

Blocks, lags and stages are those of :mod:`fadecount.mechanisms.blocks`, but nothing is published
about a block. Levels with one first lag are *tied*: they form a *group*, and of a group only the
largest level has later stages. Output of step ``t``: the count of the first ``t - delay`` steps
plus ``N_t``. That is the sum of the noises of the blocks that cover these steps, and for each group
a share of noise for its open blocks. Where the part ``phi`` of an open block ``v`` of a tied level
is covered, its *bridge* ``D = Z_v - sum(Z_c)``, its noise less those of its children ``c``, is in
``N_t`` with the weight ``phi``. At the end of ``v`` the noise of its part has become ``Z_v``.

So within a group ``N_t`` is a running sum over its smallest blocks ``b``: of ``Z_b`` plus, for each
larger block ``v`` that holds ``b``, the part ``length(b) / length(v)`` of its bridge. Over a block
of the largest level these parts add up to its noise. ``N_t`` is a sum of noises with rational
weights: its numerator is computed exactly and rounded once per output, half to even, which is odd
in the noises and adds no bias. Rounding moves an output by at most 1/2, and adds at most 1/4 to its
mean square, which variances here leave out.

Loss. All outputs are functions of the figures ``y_I = S_I + Z_I`` of the blocks and of the bridges.
Remove an event, and raise by 1 the noise of its block of each level with some lag of at most ``d``:
the figures that are in use by then stay, and so do the bridges, since ``v`` and its child that
holds the event have one lag and move alike. So everything up to age ``d`` loses at most the sum of
the budgets of the last stages with a lag of at most ``d``. Proofs: docs/totals.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.checks import require_horizon
from fadecount.errors import bad_parameter
from fadecount.mechanisms.base import Steps
from fadecount.mechanisms.levels import Level, NestedLevels, cover_weights
from fadecount.mechanisms.noise_distribution import Weighted, quantiles, variance_of
from fadecount.mechanisms.running_total import RunningTotal

MOST_CHILDREN = 1 << 16
"""How many smaller blocks a tied block may have: their noise is kept while it is open."""
Weights = dict[int, Fraction]
"""The weight of the noise of each stage of a block."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Totals(NestedLevels, RunningTotal):
    """The running total with the least error under most promises: nested blocks whose noises are
    tied, and of which only totals are published.

    Takes the levels of :class:`fadecount.Blocks`, the smallest of length 1. Levels with the same
    lag are tied. ``loss`` is that of the blocks; with a ``position``, an upper bound. A counter in
    Python and one-off runs take it; stores do not, because its state holds noise of blocks that
    have not ended. Proof: docs/totals.md. Test: tests/mechanisms/test_totals.py.

    >>> import fadecount as fc
    >>> total = fc.Totals(fc.Level(1, 0.25), fc.Level(20, 0.25), fc.Level(60, 1.5, lag=61))
    >>> total.loss(60), total.loss(61)
    (0.5, 2.0)
    >>> total.variance(20) == fc.Blocks(*total.levels).variance(20) < total.variance(19)
    True
    """

    levels: tuple[Level, ...]
    planned_tick_seconds: int | None = field(compare=False)
    kind: ClassVar[str] = "totals"

    def __init__(self, *levels: Level, planned_tick_seconds: int | None = None) -> None:
        super(Totals, self).__init__(*levels, planned_tick_seconds=planned_tick_seconds)
        self.require_ordered_lags()
        if levels[0].length != 1:
            remedy = "a total counts every step"
            raise bad_parameter("levels[0] length", levels[0].length, "1", remedy)
        for number, (below, level) in enumerate(pairwise(levels), start=1):
            if level.lag == below.lag and level.length > MOST_CHILDREN * below.length:
                bound = f"at most {MOST_CHILDREN:,} times {below.length}, the level below"
                remedy = "put a level in between, or give it a later lag"
                raise bad_parameter(f"levels[{number}] length", level.length, bound, remedy)

    @property
    def noise(self) -> Bridges:
        return Bridges(self.levels)

    def _exact(self, age: int, position: int | None) -> int:
        """In millionths. The worst event ends a block of every level.

        Of an event at a position a group reveals nothing until its smallest block is out. Then that
        block's noise is shifted, and each bridge above must stay as it is: either the larger block
        is shifted too, or, while it is not out, its last child is shifted back, with the last child
        of that one if it is open, and so on. The cheaper one counts.
        """
        if position is None:
            return NestedLevels._exact(self, age, None)
        now, total = position + age, 0
        for group in self.noise.groups:
            levels = [self.levels[number] for number in group]
            ends = [-(-position // level.length) * level.length for level in levels]
            if ends[0] + levels[0].lag > now:
                continue
            shift, above = 0, None
            for place, level in reversed(list(enumerate(levels))):
                if above is not None and above + level.lag > now and ends[place] < above:
                    shift = min(shift, _shift_back(levels[: place + 1], above, now))
                shift += level.spent(now - ends[place]) or level.stages[0].millionths
                above = ends[place]
            total += shift
        return total


def _shift_back(levels: Sequence[Level], end: int, now: int) -> int:
    """The budget of the block of the largest of these levels that ends at ``end``, and of its last
    child as long as the block above is open."""
    *smaller, level = levels
    back = level.stages[0].millionths
    return back + (_shift_back(smaller, end, now) if smaller and end - level.length < now else 0)


@dataclass(frozen=True)
class Bridges:
    """The rule of :class:`Totals`. Steps are shown ones: the first ``shown`` inputs are counted at
    step ``shown + delay``."""

    levels: tuple[Level, ...]

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """The numbers of the levels that are tied to each other, smallest first."""
        starts = [0]
        for number, (below, level) in enumerate(pairwise(self.levels), start=1):
            if level.lag != below.lag or level.length == below.length:
                starts.append(number)
        return tuple(range(first, after) for first, after in pairwise([*starts, len(self.levels)]))

    def out(self, level: int, stage: int, shown: Any) -> Any:
        """The end of the last block of a level that is in use at a stage."""
        length, lag = self.levels[level].length, self.levels[level].stages[stage].lag
        step = shown + self.levels[0].lag - lag
        return np.maximum(step, 0) // length * length

    # Errors
    # --------------------------------------------------------------------------------------------
    def window_variance(self, firsts: Any, lasts: Any) -> NDArray[np.float64]:
        """The variances of the noise in the differences of the outputs of two steps."""
        if not np.any(firsts):
            return self._variances(np.asarray(lasts))
        pairs = np.broadcast(firsts, lasts)
        variances = [_variance(self.between(int(first), int(last))) for first, last in pairs]
        return np.array(variances).reshape(pairs.shape)

    def _variances(self, shown: Steps) -> NDArray[np.float64]:
        """Of the noise in outputs: of the blocks that cover the steps, and for each tied level
        ``phi**2`` times the variance of its noise less those of its children."""
        total, reached = np.zeros(shown.shape), np.zeros_like(shown)
        for number, level in reversed(list(enumerate(self.levels))):
            for stage in reversed(range(len(level.stages))):
                out = self.out(number, stage, shown)
                variance = variance_of(level.stages[stage].epsilon)
                total += (out - reached) // level.length * variance
                reached = out
        for group in self.groups:
            covered = self.out(group[0], 0, shown)
            for number in group[1:]:
                part = covered % self.levels[number].length / self.levels[number].length
                total += part**2 * self._gain(number)
        return total

    def _gain(self, number: int, *, continuous: bool = False) -> float:
        """The variance of the noise of a tied block less those of its children."""
        level, below = self.levels[number], self.levels[number - 1]
        own, child = (
            variance_of(each.stages[0].epsilon, continuous=continuous) for each in (level, below)
        )
        return own - level.length // below.length * child

    def mean_variance(self, shown: int, *, continuous: bool = False) -> float:
        """The variance of the noise, averaged over the steps ``1 .. shown``, in closed form."""
        horizon, total = require_horizon(shown + self.levels[0].lag), 0.0
        for level, weights in zip(self.levels, cover_weights(self.levels, horizon), strict=True):
            for stage, weight in zip(level.stages, weights, strict=True):
                total += weight * variance_of(stage.epsilon, continuous=continuous)
        for group in self.groups:
            finest = self.levels[group[0]]
            for number in group[1:]:
                length = self.levels[number].length
                part = mean_square_part(length, finest.length, finest.lag, horizon)
                total += float(part) * self._gain(number, continuous=continuous)
        return total * horizon / shown

    def half_widths(self, firsts: Steps, lasts: Steps, beta: float, copies: ArrayLike = 1) -> Steps:
        """How far the differences of the outputs of two steps are from the true ones at most,
        except with probability ``beta``; with a second axis, the sums over it of differences with
        their own noise, each so many times. An output is rounded once, by at most 1/2."""
        both = np.broadcast_arrays(*np.atleast_1d(firsts, lasts, copies))
        rows = np.stack([each.reshape(len(each), -1) for each in both], axis=-1).tolist()
        noises = [
            tuple(
                (weight, budget, count * times)
                for first, last, times in row
                for weight, budget, count in self.between(first, last)
            )
            for row in rows
        ]
        moved = [sum(times * (1 + (first > 0)) / 2 for first, _, times in row) for row in rows]
        bounds = np.array(quantiles(noises, beta)) + np.array(moved)
        widths: Steps = np.floor(bounds).astype(np.int64)
        return widths

    # The noise in the difference of two outputs
    # --------------------------------------------------------------------------------------------
    def between(self, first: int, last: int) -> Weighted:
        """The noise in the difference of the outputs of two steps, before they are rounded: of
        each weight and budget how many. A negative number stands for noise that is less: the
        difference of two stages is noise of the coarser one without that of the sharper one."""
        counted: Counter[tuple[Fraction, float]] = Counter()
        for number, level in enumerate(self.levels):
            pieces = [*self._weights(number, first, -1), *self._weights(number, last, 1)]
            edges = sorted({edge for low, high, _, _ in pieces for edge in (low, high)})
            for begin, end in pairwise(edges):
                weights: Weights = {}
                for low, high, stage, weight in pieces:
                    if low <= begin and end <= high:
                        weights[stage] = weights.get(stage, Fraction(0)) + weight
                budgets = [stage.epsilon for stage in level.stages]
                for (weight, budget), times in _chain_terms(weights, budgets).items():
                    counted[weight, budget] += times * ((end - begin) // level.length)
        return tuple((weight, budget, n) for (weight, budget), n in counted.items() if n)

    def _weights(
        self, number: int, shown: int, sign: int
    ) -> Iterator[tuple[int, int, int, Fraction]]:
        """The blocks of a level, by the steps that they hold, with a weight for the noise of a
        stage in the output of a step: the blocks that cover, and those in open tied blocks."""
        group = next(group for group in self.groups if number in group)
        level, whole = self.levels[number], Fraction(sign)
        high = int(self.out(number, 0, shown))
        if number == group[-1]:
            edges = [int(self.out(number, stage, shown)) for stage in range(len(level.stages))]
            larger = number + 1 < len(self.levels)
            edges.append(int(self.out(number + 1, 0, shown)) if larger else 0)
            for stage, (end, begin) in enumerate(pairwise(edges)):
                yield begin, end, stage, whole
        else:
            yield int(self.out(number + 1, 0, shown)), high, 0, whole
        covered = int(self.out(group[0], 0, shown))
        if number > group[0] and covered > high:  # the open block of this level
            yield high, high + level.length, 0, sign * Fraction(covered - high, level.length)
        if number < group[-1]:  # children of the open block above
            length = self.levels[number + 1].length
            begin = covered // length * length
            if covered > begin:
                yield begin, begin + length, 0, -sign * Fraction(covered - begin, length)


def _chain_terms(weights: Weights, budgets: Sequence[float]) -> Counter[tuple[Fraction, float]]:
    """The noise of one block: the noise of an earlier stage is that of a later one plus an
    independent difference, whose distribution is the quotient of both."""
    terms: Counter[tuple[Fraction, float]] = Counter()
    total = Fraction(0)
    stages = sorted(weights)
    for stage, after in pairwise([*stages, None]):
        assert stage is not None
        total += weights[stage]
        if total:
            terms[total, budgets[stage]] += 1
            if after is not None:
                terms[total, budgets[after]] -= 1
    return terms


def _variance(noise: Weighted) -> float:
    return sum(float(weight) ** 2 * count * variance_of(budget) for weight, budget, count in noise)


def mean_square_part(length: int, finest: int, lag: int, horizon: int) -> Fraction:
    """The mean over the steps ``1 .. horizon`` of the square of the part of the open block that is
    covered by blocks of the finest length of its group."""
    ratio = length // finest
    whole, rest = divmod(max(0, horizon - lag + 1), finest)
    groups, part = divmod(whole, ratio)
    squares = groups * _squares(ratio) + _squares(part)
    return Fraction(finest * squares + rest * part**2, ratio**2 * horizon)


def _squares(count: int) -> int:
    """The sum of the squares of ``0 .. count - 1``."""
    return (count - 1) * count * (2 * count - 1) // 6
