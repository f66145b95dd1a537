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

Numbers = NDArray[np.float64]

FINEST_GRID = 64
_SLACK = 1e-11
_MISSED = 2.0**-10
"""The part of ``beta`` for what rounded weights miss."""
_SMALLEST_EXACT = 1e-6
_WIDEST = 1 << 12
_MOST_KNOWN = 1 << 12
_ROOM = 1 << 22
"""How many numbers of a transform are held at once."""
_COLUMNS = 1 << 11

_known: dict[tuple[Weighted, float], float] = {}


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


def _merged(noise: Weighted) -> Weighted:
    merged: Counter[tuple[Fraction, float]] = Counter()
    for weight, budget, count in noise:
        merged[abs(weight), budget] += count
    return tuple(sorted((weight, budget, count) for (weight, budget), count in merged.items()))


def _quantiles(laws: list[Weighted], beta: float) -> Numbers:
    """One row for each law; columns are its terms, with weight 0 where it has fewer."""
    shape = len(laws), max(1, *map(len, laws))
    weights, counts, scales = np.zeros(shape), np.zeros(shape), np.ones(shape)
    for row, law in enumerate(laws):
        for column, (weight, budget, count) in enumerate(law):
            weights[row, column], counts[row, column] = weight, count
            scales[row, column] = scale_of(budget, 0)
    spread = np.sqrt((counts * (weights * scales) ** 2).sum(axis=1))
    wide = (spread > _WIDEST) | (beta < _SMALLEST_EXACT)
    bounds = np.zeros(len(laws))
    bounds[wide] = chernoff(weights[wide], scales[wide], counts[wide], beta)
    narrow = np.flatnonzero(~wide)
    weights, scales, counts = (each[narrow] for each in (weights, scales, counts))
    common = [math.lcm(*(weight.denominator for weight, _, _ in laws[row])) for row in narrow]
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
    """For each row the smallest number of grid units that holds so much of the law, by a Fourier
    transform of so many points."""
    pairs, which = np.unique(np.stack([units.ravel(), scales.ravel()]), axis=1, return_inverse=True)
    times = np.zeros((len(units), pairs.shape[1]))
    np.add.at(times, (np.arange(len(units)).repeat(units.shape[1]), which), counts.ravel())
    spans = np.sinh(np.minimum(0.5 / pairs[1], 300.0))
    transform = np.empty((len(units), size // 2 + 1))
    for first in range(0, size // 2 + 1, _COLUMNS):  # the rows of sines need room as well
        angles = np.arange(first, min(first + _COLUMNS, size // 2 + 1)) * (math.pi / size)
        ratios = np.sin(np.outer(pairs[0], angles)) / spans[:, None]
        transform[:, first : first + len(angles)] = np.exp(-times @ np.log1p(ratios * ratios))
    law = np.fft.irfft(transform, size, axis=1)[:, : size // 2]
    law[:, 1:] *= 2.0
    reached: NDArray[np.int64] = np.argmax(np.cumsum(law, axis=1) >= inside[:, None], axis=1)
    return reached


def chernoff(weights: ArrayLike, scales: Numbers, counts: Numbers, beta: float) -> Any:
    """Chernoff's bound on the absolute weighted sum, at its best exponent (see
    :func:`fadecount.mechanisms.noise_law.tail_bound`); for one row of weights, or for each."""
    halves, spans = 0.5 * np.asarray(weights, dtype=np.float64), 0.5 / scales
    used = (halves > 0.0).any(axis=-1)
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
    for _ in range(48):
        width = golden * (high - low)
        lower = bound(high - width) < bound(low + width)
        low, high = np.where(lower, low, high - width), np.where(lower, low + width, high)
    return np.where(used, bound(0.5 * (low + high)) * (1.0 + 1e-12), 0.0)[()]
