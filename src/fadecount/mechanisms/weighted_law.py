"""The law of a weighted sum of independent discrete Laplace variables: exact quantiles of many.

Quantiles come from Fourier inversion on the grid of the weights' common denominator (see
:mod:`fadecount.mechanisms.noise_law` for the bounds). If that is finer than 1/64, weights are
rounded to the nearest 1/64. Larger weights alone would not make a band safe: laws on different
lattices are not ordered by their peakedness. So what the rounded weights miss, a weighted sum of
the same variables, gets Chernoff's bound at a thousandth of ``beta``, and both are added (union
bound).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.mechanisms.noise_law import scale_of

Weighted = tuple[tuple[Fraction, float, int], ...]
"""Noise: for each weight and budget how many variables."""

Law = tuple[tuple[tuple[int, int, float], int], ...]
"""The same without signs, weights as numerators and denominators, sorted: a name of the law."""

Numbers = NDArray[np.float64]

FINEST_GRID = 64
_SLACK = 1e-11
_MISSED = 2.0**-10
"""The part of ``beta`` for what rounded weights miss."""
_SMALLEST_EXACT = 1e-6
_WIDEST = 1 << 12
_MOST_KNOWN = 1 << 12
_NEGLIGIBLE = 60.0
_ROOM = 1 << 22
"""How many factors of the transforms are looked at in one go."""
_COLUMNS = 1 << 11

_known: dict[tuple[Law, float], float] = {}


def quantile(noise: Weighted, beta: float) -> float:
    """A bound that the absolute weighted sum of noise variables exceeds with probability at most
    ``beta``: the smallest one, if the weights' common denominator is at most 64.

    A ``beta`` below 1e-6, and noise too wide for the grid, get Chernoff's bound, which is larger.

    >>> one = (Fraction(1), 0.5, 1)
    >>> quantile((one,), 0.05), quantile((one, (Fraction(1), 0.25, 2)), 0.05)
    (6.0, 17.0)
    """
    return quantiles([noise], beta)[0]


def quantiles(noises: Sequence[Weighted], beta: float) -> list[float]:
    """:func:`quantile` of many sums. The last few thousand results are kept."""
    laws = [_merged(noise) for noise in noises]
    bounds = {law: _known.get((law, beta)) for law in laws}
    new = [law for law, bound in bounds.items() if bound is None]
    if new:
        found = dict(zip(new, _quantiles(new, beta).tolist(), strict=True))
        if len(_known) + len(found) > _MOST_KNOWN:
            _known.clear()
        _known.update(((law, beta), bound) for law, bound in found.items())
        bounds |= found
    return [bounds[law] for law in laws]  # type: ignore[misc]


def _merged(noise: Weighted) -> Law:
    merged: Counter[tuple[int, int, float]] = Counter()
    for weight, budget, count in noise:
        merged[abs(weight.numerator), weight.denominator, budget] += count
    return tuple(sorted(merged.items()))


def _quantiles(laws: list[Law], beta: float) -> Numbers:
    """One row for each law; columns are its terms, with weight 0 where it has fewer."""
    shape = len(laws), max(1, *map(len, laws))
    weights, counts, scales = np.zeros(shape), np.zeros(shape), np.ones(shape)
    for row, law in enumerate(laws):
        for column, ((numerator, denominator, budget), count) in enumerate(law):
            weights[row, column], counts[row, column] = numerator / denominator, count
            scales[row, column] = scale_of(budget, 0)
    spread = np.sqrt((counts * (weights * scales) ** 2).sum(axis=1))
    wide = (spread > _WIDEST) | (beta < _SMALLEST_EXACT)
    bounds = np.zeros(len(laws))
    bounds[wide] = chernoff(weights[wide], scales[wide], counts[wide], beta)
    narrow = np.flatnonzero(~wide)
    weights, scales, counts = (each[narrow] for each in (weights, scales, counts))
    common = [math.lcm(*(denominator for (_, denominator, _), _ in laws[row])) for row in narrow]
    grids = np.array([min(each, FINEST_GRID) for each in common], dtype=np.int64)
    rounded = np.array([each > FINEST_GRID for each in common], dtype=bool)
    units = np.rint(weights * grids[:, None])
    rest = np.where(rounded[:, None], np.abs(weights - units / grids[:, None]), 0.0)
    missed = chernoff(rest, scales, counts, _MISSED * beta)
    inside = 1.0 - np.where(rounded, beta - _MISSED * beta, beta) + _SLACK
    farthest = chernoff(units / grids[:, None], scales, counts, 1e-13)
    sizes = 1 << np.ceil(np.log2(2.0 * grids * farthest + 16.0)).astype(np.int64)
    reached = np.zeros(len(narrow))
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        for part in np.array_split(alike, -(-len(alike) * size // _ROOM)):
            terms = units[part], scales[part], counts[part]
            reached[part] = _inverted(*terms, inside[part], size)
    bounds[narrow] = reached / grids + missed
    return bounds


def _inverted(
    units: Numbers, scales: Numbers, counts: Numbers, inside: Numbers, size: int
) -> NDArray[np.int64]:
    """For each row the smallest number ``q`` of grid units with so much of the law in ``-q .. q``.

    The law modulo ``size`` is a sum of as many cosines, and that of ``-q .. q`` one of Dirichlet
    kernels. Wide noise has few factors above exp(-60); the others are left out, and ``q`` is found
    by bisection. Both sums are off by less than 1e-13: their terms are below 20 in all.
    """
    pairs, which = np.unique([units.ravel(), scales.ravel()], axis=1, return_inverse=True)
    times = np.zeros((len(units), pairs.shape[1]))
    np.add.at(times, (np.arange(len(units)).repeat(units.shape[1]), which), counts.ravel())
    steps, spans = pairs[0].astype(np.int64), np.sinh(np.minimum(0.5 / pairs[1], 300.0))
    squares, kept = np.sin(np.arange(size) * (math.pi / size)) ** 2, []
    for first in range(0, size // 2 + 1, _COLUMNS):
        turns = np.arange(first, min(first + _COLUMNS, size // 2 + 1))
        ratios = squares[np.outer(steps, turns) % size] / spans[:, np.newaxis] ** 2
        logarithms = times @ np.log1p(ratios)
        rows, columns = np.nonzero(logarithms < _NEGLIGIBLE)
        kept.append((rows, turns[columns], np.exp(-logarithms[rows, columns])))
    rows, turns, factors = (np.concatenate(each) for each in zip(*kept, strict=True))
    factors *= np.where(turns % (size // 2) > 0, 2.0, 1.0) / size
    factors /= np.where(turns > 0, np.sin(turns * (math.pi / size)), 1.0)
    low, high = np.full(len(units), -1), np.full(len(units), size // 2 - 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        odd = (2 * middle + 1)[rows]
        kernels = np.where(turns > 0, np.sin(odd * turns % (2 * size) * (math.pi / size)), odd)
        enough = np.bincount(rows, factors * kernels, len(units)) >= inside
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def chernoff(weights: ArrayLike, scales: Numbers, counts: Numbers, beta: float) -> Any:
    """Chernoff's bound on the absolute weighted sum, at its best exponent (see
    :func:`fadecount.mechanisms.noise_law.tail_bound`); for one row of weights, or for each."""
    halves, spans = 0.5 * np.asarray(weights, dtype=np.float64), 0.5 / scales
    used = (halves > 0.0).any(axis=-1)
    if not used.any():
        return 0.0 * used
    largest = np.where(halves > 0.0, spans, np.inf) / np.where(halves > 0.0, halves, 1.0)
    largest = np.where(used, largest.min(axis=-1), 1.0)
    needed = math.log(2.0 / beta)

    def bound(fraction: Numbers) -> Numbers:
        exponent = fraction * largest
        small = exponent[..., None] * halves
        ratio = np.exp(small - spans) * np.expm1(-2.0 * small) / np.expm1(-2.0 * spans)
        total: Numbers = (needed - (counts * np.log1p(-ratio * ratio)).sum(axis=-1)) / exponent
        return total

    golden = (math.sqrt(5.0) - 1.0) / 2.0
    low, high = np.full_like(largest, 1e-9), np.full_like(largest, 1.0 - 1e-9)
    for _ in range(32):
        width = golden * (high - low)
        lower = bound(high - width) < bound(low + width)
        low, high = np.where(lower, low, high - width), np.where(lower, low + width, high)
    return np.where(used, bound(0.5 * (low + high)) * (1.0 + 1e-12), 0.0)[()]
