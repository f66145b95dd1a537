"""Views of block counters: the count of any window, from figures that are public at a time.

A window is covered by the largest blocks that are out, each at its latest stage. Where an end of
the window lies inside a tied block ``v``, the difference ``D`` that ``v`` announced is shared: the
part of ``v`` that lies before that end gets the same part of ``D``. Parts count children, not
steps, so they hold for unequal children too: ``part(v) = (complete children + part(open child)) /
children``. The shares of one tied group at one end are added up and rounded once. So the counts of
adjacent windows inside a tied block add up to that of the block, exactly and in integers.

The noise in a view is a sum of independent discrete Laplace variables with weights. A block that is
covered has the weight 1. If a tied block has the difference weight ``W`` (1 if it ends in the
window, plus its part at the window's end, less its part at the start), its own noise gets ``+W``
and that of each child ``-W``. So variances are exact.

Quantiles come from Fourier inversion on the grid of the weights' common denominator (see
:mod:`fadecount.mechanisms.noise_law` for the bounds). If that is finer than 1/64, weights are
rounded to the nearest 1/64. Larger weights alone would not make a band safe: laws on different
lattices are not ordered by their peakedness. So what the rounded weights miss, a weighted sum of
the same variables, gets Chernoff's bound at a thousandth of ``beta``, and both are added (union
bound).

Shares are rounded half up, so each tied group moves a value by at most one half at each end of the
window, and this is in every band. The rounding is not symmetric: where the part of a block is
``i / r`` in lowest terms and ``r`` is even, one of ``r`` remainders lies exactly between two
integers and goes up, and the mean of the live total is higher by about ``1 / (2 r)``, at most 1/4.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fadecount.mechanisms.noise_law import scale_of, variance_of

if TYPE_CHECKING:
    from fadecount.mechanisms.blocks import Blocks

ANNOUNCED = -1
"""The stage of a figure that is no count: the difference that a tied block announced."""


class Figure(NamedTuple):
    """A published number about the steps ``start + 1 .. end``: the count of a block of a level at a
    stage (from 0), or the difference that it announced (stage ``ANNOUNCED``). With keys, the value
    is an array over them."""

    level: int
    start: int
    end: int
    stage: int
    value: Any


class Calendar(Protocol):
    """The blocks of each level: nested, and fixed before they open."""

    def frontier(self, level: int, step: int) -> int:
        """The end of the last block of the level that ends at or before the step (0: none)."""

    def end(self, level: int, step: int) -> int:
        """The end of the block that holds the step; the step itself if it is such an end."""

    def count(self, level: int, start: int, end: int) -> int:
        """How many blocks of the level lie between two ends of blocks."""


@dataclass(frozen=True, slots=True)
class EqualBlocks:
    """Blocks of one length per level, from the first step on."""

    lengths: tuple[int, ...]

    def frontier(self, level: int, step: int) -> int:
        return max(0, step) // self.lengths[level] * self.lengths[level]

    def end(self, level: int, step: int) -> int:
        return -(-step // self.lengths[level]) * self.lengths[level]

    def count(self, level: int, start: int, end: int) -> int:
        return (end - start) // self.lengths[level]


class Run(NamedTuple):
    """Adjacent blocks of a level that a view adds up, at one stage."""

    level: int
    stage: int
    start: int
    end: int
    blocks: int


class Share(NamedTuple):
    """The part of a tied block that lies before an end of the window, and the block's latest
    stage."""

    level: int
    start: int
    end: int
    stage: int
    part: Fraction


Weighted = tuple[tuple[Fraction, float, int], ...]
"""Noise: for each weight and budget how many variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The count of the steps ``start + 1 .. end``, as figures to add and differences to share.

    ``end`` is where the figures that are out reach, at most where the window was asked to end.
    ``shares`` are grouped: those at the start of the window (to subtract) and at its end (to add),
    for each tied group; ``whole`` are the blocks whose difference is added as a whole.
    """

    start: int
    end: int
    runs: tuple[Run, ...]
    whole: tuple[Share, ...]
    at_start: tuple[tuple[Share, ...], ...]
    at_end: tuple[tuple[Share, ...], ...]
    noise: Weighted

    @property
    def roundings(self) -> int:
        """How often shares are rounded; each moves the value by at most one half."""
        groups = (*self.at_start, *self.at_end)
        return sum(any(share.part.denominator > 1 for share in group) for group in groups)

    def value(self, figures: Mapping[tuple[int, int, int], int], calendar: Calendar) -> int:
        """The count, from published figures by (level, end, stage). It costs no privacy."""
        total = 0
        for level, stage, start, end, _ in self.runs:
            while start < end:
                start = calendar.end(level, start + 1)
                total += figures[level, start, stage]

        def difference(share: Share) -> int:
            announced = figures[share.level, share.end, ANNOUNCED]
            if share.stage == 0:
                return announced
            first, latest = (figures[share.level, share.end, at] for at in (0, share.stage))
            return announced + latest - first

        total += sum(map(difference, self.whole))
        for sign, groups in ((1, self.at_end), (-1, self.at_start)):
            for group in groups:
                total += sign * rounded(sum(share.part * difference(share) for share in group))
        return total

    def variance(self, resolution_bits: float = 0) -> float:
        """The variance of the noise in the value (before shares are rounded)."""
        return math.fsum(
            count * float(weight) ** 2 * variance_of(budget, resolution_bits)
            for weight, budget, count in self.noise
        )

    def half_width(self, beta: float, resolution_bits: int = 0) -> float:
        """How far the value may be from the true count, except with probability ``beta``."""
        unit = math.ldexp(1.0, -resolution_bits)
        noise = tuple((weight, budget * unit, count) for weight, budget, count in self.noise)
        return math.floor(quantile(noise, beta) + Fraction(self.roundings, 2)) * unit


def rounded(value: Fraction | int) -> int:
    """The nearest integer, the larger one of two."""
    return math.floor(value + Fraction(1, 2))


def view_of(
    blocks: Blocks, start: int, end: int, as_of: int, calendar: Calendar | None = None
) -> View:
    """The view of the steps ``start + 1 .. end`` from what is public after step ``as_of``.

    ``start`` must be the end of a block of the smallest level, or 0; ``end`` is lowered to the last
    one that is out.
    """
    dates = calendar or blocks.calendar
    last = dates.frontier(0, min(end, as_of - blocks.levels[0].lag))
    runs = _cover(blocks, dates, start, last, as_of) if start < last else []
    whole: list[Share] = []
    at_start: list[tuple[Share, ...]] = []
    at_end: list[tuple[Share, ...]] = []
    noise: Counter[tuple[Fraction, float]] = Counter()
    used = {run: run.blocks for run in runs}
    for group in blocks.groups:
        first = dates.end(group[0], start)
        reached = dates.frontier(group[0], min(last, as_of - blocks.levels[group[0]].lag))
        if len(group) == 1 or first >= reached:
            continue
        begun = _shares(blocks, dates, group, first, as_of)
        ending = _shares(blocks, dates, group, reached, as_of)
        at_start.append(begun)
        at_end.append(ending)
        ended = [share for share in begun if share.end <= reached]
        whole += ended
        weights: dict[tuple[int, int], Fraction] = {}
        for sign, shares in ((-1, begun), (1, ending)):
            for share in shares:
                place = share.level, share.end
                weights[place] = weights.get(place, Fraction(0)) + sign * share.part
        for share in ended:
            weights[share.level, share.end] += 1
        for share in {(each.level, each.end): each for each in (*begun, *ending)}.values():
            _add_noise(blocks, dates, share, group, weights, used, noise)
    for run, count in used.items():
        noise[Fraction(1), blocks.stage(run.level, run.stage).epsilon] += count
    return View(
        start=start,
        end=max(start, last),
        runs=tuple(runs),
        whole=tuple(whole),
        at_start=tuple(at_start),
        at_end=tuple(at_end),
        noise=tuple(
            (weight, budget, count) for (weight, budget), count in noise.items() if weight and count
        ),
    )


def _cover(blocks: Blocks, dates: Calendar, start: int, end: int, as_of: int) -> list[Run]:
    """The largest blocks that are out and lie in the window, as runs of one level and stage."""
    runs: list[Run] = []
    low, high, number = start, end, 0
    while low < high:
        inner_low, inner_high = high, high
        if number + 1 < len(blocks.levels):
            above = blocks.levels[number + 1]
            inner_low = dates.end(number + 1, low)
            inner_high = dates.frontier(number + 1, min(high, as_of - above.lag))
        if inner_low >= inner_high:
            inner_low = inner_high = high
        for first, last in ((low, inner_low), (inner_high, high)):
            reached = first
            for stage in range(len(blocks.levels[number].stages) - 1, -1, -1):
                lag = blocks.levels[number].stages[stage].lag
                frontier = min(last, dates.frontier(number, as_of - lag))
                if frontier > reached:
                    count = dates.count(number, reached, frontier)
                    runs.append(Run(number, stage, reached, frontier, count))
                    reached = frontier
        low, high, number = inner_low, inner_high, number + 1
    return runs


def _shares(
    blocks: Blocks, dates: Calendar, group: range, end: int, as_of: int
) -> tuple[Share, ...]:
    """The tied blocks of a group inside of which a window ends, smallest first, with the parts
    before it."""
    shares, part = [], Fraction(0)
    for level in group[1:]:
        begin, after = dates.frontier(level, end), dates.end(level, end)
        if begin < end < after:
            complete = dates.count(level - 1, begin, dates.frontier(level - 1, end))
            part = (complete + part) / dates.count(level - 1, begin, after)
            stages = blocks.levels[level].stages
            latest = sum(after + stage.lag <= as_of for stage in stages[1:])
            shares.append(Share(level, begin, after, latest, part))
    return tuple(shares)


def _add_noise(
    blocks: Blocks,
    dates: Calendar,
    share: Share,
    group: range,
    weights: Mapping[tuple[int, int], Fraction],
    used: dict[Run, int],
    noise: Counter[tuple[Fraction, float]],
) -> None:
    """The noises of the children of a tied block that is shared, and its own if it is at the top.

    Children that the view covers are taken off the runs in ``used``, since their weight is not 1.
    """
    weight, level = weights[share.level, share.end], share.level
    if level == group[-1]:
        noise[weight, blocks.stage(level, share.stage).epsilon] += 1
    budget = blocks.stage(level - 1).epsilon
    others = dates.count(level - 1, share.start, share.end)
    for run in used:
        low, high = max(run.start, share.start), min(run.end, share.end)
        if run.level == level - 1 and low < high:
            covered = dates.count(level - 1, low, high)
            used[run] -= covered
            others -= covered
            noise[1 - weight, budget] += covered
    for (below, end), part in weights.items():
        if below == level - 1 and share.start < end <= share.end:
            others -= 1
            noise[part - weight, budget] += 1
    noise[-weight, budget] += others


# Quantiles
# ------------------------------------------------------------------------------------------------
FINEST_GRID = 64
_SLACK = 1e-11
_MISSED = 2.0**-10
"""The part of ``beta`` for what rounded weights miss."""
_SMALLEST_EXACT = 1e-6
_WIDEST = 1 << 12


def quantile(noise: Weighted, beta: float) -> float:
    """A bound that the absolute weighted sum of noise variables exceeds with probability at most
    ``beta``: the smallest one, if the weights' common denominator is at most 64.

    A ``beta`` below 1e-6, and noise too wide for the grid, get Chernoff's bound, which is larger.

    >>> one = (Fraction(1), 0.5, 1)
    >>> quantile((one,), 0.05), quantile((one, (Fraction(1), 0.25, 2)), 0.05)
    (6.0, 17.0)
    """
    merged: Counter[tuple[Fraction, float]] = Counter()
    for weight, budget, count in noise:
        merged[abs(weight), budget] += count
    return _quantile(tuple(sorted((w, b, n) for (w, b), n in merged.items())), beta)


@lru_cache(maxsize=4096)
def _quantile(noise: Weighted, beta: float) -> float:
    if not noise:
        return 0.0
    weights = np.array([float(weight) for weight, _, _ in noise])
    scales = np.array([scale_of(budget, 0) for _, budget, _ in noise])
    counts = np.array([count for _, _, count in noise], dtype=np.float64)
    spread = math.sqrt(float((counts * (weights * scales) ** 2).sum()))
    if beta < _SMALLEST_EXACT or spread > _WIDEST:
        return chernoff(weights, scales, counts, beta)
    grid, missed = math.lcm(*(weight.denominator for weight, _, _ in noise)), 0.0
    if grid > FINEST_GRID:
        grid, share = FINEST_GRID, _MISSED * beta
        rest = [float(abs(weight - Fraction(round(weight * grid), grid))) for weight, _, _ in noise]
        missed, beta = chernoff(rest, scales, counts, share), beta - share
    units = [round(weight * grid) for weight, _, _ in noise]
    farthest = chernoff(np.array(units) / grid, scales, counts, 1e-13)
    size = 1 << math.ceil(math.log2(2.0 * grid * farthest + 16.0))
    angles = np.arange(size // 2 + 1) * (math.pi / size)
    logarithm = np.zeros(size // 2 + 1)
    for unit, scale, count in zip(units, scales.tolist(), counts.tolist(), strict=True):
        ratio = np.sin(unit * angles) / math.sinh(min(0.5 / scale, 300.0))
        logarithm -= count * np.log1p(ratio * ratio)
    law = np.fft.irfft(np.exp(logarithm), size)
    inside = law[0] + 2.0 * np.concatenate([[0.0], np.cumsum(law[1 : size // 2])])
    return int(np.argmax(inside >= 1.0 - beta + _SLACK)) / grid + missed


def chernoff(
    weights: Sequence[float] | np.ndarray, scales: np.ndarray, counts: np.ndarray, beta: float
) -> float:
    """Chernoff's bound on the absolute weighted sum, at its best exponent (see
    :func:`fadecount.mechanisms.noise_law.tail_bound`)."""
    used = np.asarray(weights) > 0.0
    if not used.any():
        return 0.0
    halves, spans, counts = 0.5 * np.asarray(weights)[used], 0.5 / scales[used], counts[used]
    largest = float(np.min(spans / halves))
    needed = math.log(2.0 / beta)

    def bound(fraction: float) -> float:
        exponent = fraction * largest
        small = exponent * halves
        ratio = np.exp(small - spans) * np.expm1(-2.0 * small) / np.expm1(-2.0 * spans)
        return (needed - float(counts @ np.log1p(-ratio * ratio))) / exponent

    low, high, golden = 1e-9, 1.0 - 1e-9, (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(48):
        width = golden * (high - low)
        lower = bound(high - width) < bound(low + width)
        low, high = (low, low + width) if lower else (high - width, high)
    return bound(0.5 * (low + high)) * (1.0 + 1e-12)
