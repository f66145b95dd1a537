"""The distribution of the noise: its scale, variance, and how far a sum of noises may be from 0.

On the integers, ``Pr[z] ~ exp(-|z| / scale)``. A shift by one costs ``1 / scale``, so a budget
``e`` needs ``scale = 1 / e``.

Quantiles of weighted sums of independent noises come from Fourier inversion. The characteristic
function of one variable of scale ``s`` at ``x`` is ``1 / (1 + (sin(x / 2) / sinh(1 / (2 s)))**2)``,
real and positive, and that of a sum is the product. Its values at the multiples of ``2 pi / N``
give the distribution modulo ``N``, which differs from the distribution itself by at most the chance
of ``N / 2`` and more; Chernoff's bound says how large ``N`` must be.

*Narrow sums*: while the weights have a small common denominator, the sum lives on a grid, and the
quantile is the smallest point of the grid that keeps the promise. It is taken at ``beta - 1e-11``,
which covers all errors: it is never too small.

*Other sums* ``X`` get a normal variable ``U`` of standard deviation ``s`` added. If ``X > q`` and
``U >= -3 s``, then ``X + U > q - 3 s``. So ``Pr[|X| > q] <= Pr[|X + U| > q - 3 s] / Phi(3)``: the
quantile of ``X + U`` at ``beta Phi(3)``, plus ``3 s``, is a bound for ``X``. Its distribution has
no steps, and its characteristic function ends where that of ``U`` does. All errors are below 1e-7.
With ``s`` one part in 4096 of the farthest that ``X`` comes, a bound is too wide by 1.5 % of the
scale of the widest variable, or 0.5 % of the standard deviation of a sum of many: 95.1 %."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.rounding import DUST

Weighted = tuple[tuple[Fraction, float, int], ...]
"""Noise: for each weight and budget how many variables. A negative number divides the transform: so
many of a coarser budget are each less by independent noise of this one."""

Distribution = tuple[tuple[tuple[int, int, float], int], ...]
"""The same without signs, weights as numerators and denominators, sorted: a name of the
distribution."""

Numbers = NDArray[np.float64]

FINEST_GRID = 64
_LARGEST_GRID = 1 << 15
"""How many points of the grid a narrow sum may have."""
_SLACK, _SMOOTH_SLACK = 1e-11, 1e-7
_SMALLEST_EXACT = 1e-6
_MOST_KNOWN = 1 << 12
_NEGLIGIBLE, _SMOOTH_NEGLIGIBLE = 60.0, 25.0
_ROOM = 1 << 22
"""How many factors of the transforms are looked at in one go."""
_SMOOTH = 1 << 12
"""How many standard deviations of the added normal variable the farthest sum is away."""
_PHI_3 = 0.99865010196837
_SMOOTH_SIZE = 1 << 20
_SMOOTH_TURNS = 7_424
"""Beyond it the transform of the normal variable is below exp(-16), and 2e-9 in all."""

_known: dict[tuple[Distribution, float], float] = {}


def scale_of(budget: float) -> float:
    """The noise scale that a level budget needs (0 for an infinite budget: no noise).

    It is larger than needed by a relative ``2**-46``, give or take two roundings. So the loss of
    the noise that runs is below the loss computed from the budgets by at least a relative
    ``2**-47``: what :mod:`fadecount.rounding` needs to show six times 0.1 as 0.6, although float64
    has no 0.1.
    """
    return 0.0 if math.isinf(budget) else 1.0 / budget * (1.0 + 2.0 * DUST)


def variance_of(budget: float, *, continuous: bool = False) -> float:
    """The variance of one noise variable: 2p / (1 - p)**2 with p = exp(-1 / scale); of the paper's
    continuous Laplace noise, 2 / budget**2."""
    if math.isinf(budget):
        return 0.0
    if continuous:
        return 2.0 / budget**2
    half = 0.5 / scale_of(budget)
    return 0.5 / math.sinh(half) ** 2 if half < 350.0 else 0.0


def quantile(noise: Weighted, beta: float) -> float:
    """A bound that the absolute weighted sum of noise variables exceeds with probability at most
    ``beta``: the smallest one, if the sum is narrow and its weights' common denominator is at most
    64. A ``beta`` below 1e-6 gets Chernoff's bound, which is larger.

    >>> one = (Fraction(1), 0.5, 1)
    >>> quantile((one,), 0.05), quantile((one, (Fraction(1), 0.25, 2)), 0.05)
    (6.0, 17.0)
    """
    return quantiles([noise], beta)[0]


def quantiles(noises: Sequence[Weighted], beta: float) -> list[float]:
    """:func:`quantile` of many sums. The last few thousand results are kept."""
    distributions = [_merged(noise) for noise in noises]
    bounds = {distribution: _known.get((distribution, beta)) for distribution in distributions}
    new = [distribution for distribution, bound in bounds.items() if bound is None]
    if new:
        computed = dict(zip(new, _quantiles(new, beta).tolist(), strict=True))
        if len(_known) + len(computed) > _MOST_KNOWN:
            _known.clear()
        _known.update(((distribution, beta), bound) for distribution, bound in computed.items())
        bounds |= computed
    return [bounds[distribution] for distribution in distributions]  # type: ignore[misc]


def quantiles_of_rows(
    rows: NDArray[np.int64], noise_of: Callable[[int], Weighted], beta: float
) -> Numbers:
    """:func:`quantile` of the noise of each row, which depends on its numbers alone: equal rows are
    computed once."""
    together, size = rows.tobytes(), rows.shape[1] * rows.itemsize
    names = [together[start : start + size] for start in range(0, len(together), size)]
    rows_of = dict(zip(names, range(len(names)), strict=True))
    computed = quantiles([noise_of(row) for row in rows_of.values()], beta)
    bounds = dict(zip(rows_of, computed, strict=True))
    return np.array([*map(bounds.__getitem__, names)], dtype=np.float64)


def _merged(noise: Weighted) -> Distribution:
    merged: Counter[tuple[int, int, float]] = Counter()
    for weight, budget, count in noise:
        merged[abs(weight.numerator), weight.denominator, budget] += count
    return tuple(sorted(term for term in merged.items() if term[1] and term[0][2] < math.inf))


def _quantiles(distributions: list[Distribution], beta: float) -> Numbers:
    """One row for each distribution; columns are its terms, with weight 0 where it has fewer."""
    shape = len(distributions), max(1, *map(len, distributions))
    weights, counts, scales = np.zeros(shape), np.zeros(shape), np.ones(shape)
    for row, distribution in enumerate(distributions):
        for column, ((numerator, denominator, budget), count) in enumerate(distribution):
            weights[row, column], counts[row, column] = numerator / denominator, count
            scales[row, column] = scale_of(budget)
    if beta < _SMALLEST_EXACT:
        return np.asarray(chernoff(weights, scales, counts, beta))
    spread = counts * scales**2
    widest = np.argmax(spread * weights**2, axis=1)
    spread *= np.sin(math.pi * weights) ** 2  # where the widest repeats itself, these do not
    spread[counts < 0] = np.finfo(np.float64).max  # these come second: they make factors larger
    spread[np.arange(len(distributions)), widest] = np.inf
    order = np.argsort(-spread, axis=1)
    weights, scales, counts = (
        np.take_along_axis(each, order, axis=1) for each in (weights, scales, counts)
    )
    farthest = np.asarray(chernoff(weights, scales, counts, 1e-13))
    grids = np.array(
        [
            math.lcm(*(bottom for (_, bottom, _), _ in distribution))
            for distribution in distributions
        ],
        dtype=np.float64,
    )
    sizes = np.exp2(np.ceil(np.log2(2.0 * grids * farthest + 16.0)))
    smooth = (grids > FINEST_GRID) | (sizes > _LARGEST_GRID)
    if smooth.any():
        some = chernoff(weights[smooth], scales[smooth], counts[smooth], _SMOOTH_SLACK / 8.0)
        farthest[smooth] = np.exp2(np.ceil(8.0 * np.log2(some)) / 8.0)  # few different periods
        grids[smooth] = 0.5 * _SMOOTH_SIZE / farthest[smooth]
        sizes[smooth] = _SMOOTH_SIZE
    units = weights * grids[:, None]
    units = np.where(smooth[:, None], units, np.rint(units))
    reached = np.zeros(len(distributions))
    for size in set(sizes.astype(np.int64).tolist()):
        alike = np.flatnonzero(sizes == size)
        for part in np.array_split(alike, -(-len(alike) * min(size, _LARGEST_GRID) // _ROOM)):
            reached[part] = _inverted(units[part], scales[part], counts[part], beta, size)
    bounds: Numbers = reached / grids + smooth * (3.0 / _SMOOTH) * farthest
    return bounds


def _inverted(
    units: Numbers, scales: Numbers, counts: Numbers, beta: float, size: int
) -> NDArray[np.int64]:
    """For each row the smallest number ``q`` of grid units with enough of the distribution in ``-q
    .. q``.

    The distribution modulo ``size`` is a sum of as many cosines, and that of ``-q .. q`` one of
    Dirichlet kernels, or of their limit if the sum is smooth. Most factors are negligible: they are
    left out, and ``q`` is found by bisection. Term by term, fewer factors are left."""
    smooth = size == _SMOOTH_SIZE
    turns = np.arange(_SMOOTH_TURNS if smooth else size // 2 + 1)
    spans = np.sinh(np.minimum(0.5 / scales, 300.0))

    def logarithms_of(units: Numbers, spans: Numbers, turns: NDArray[np.int64]) -> Numbers:
        turned = units * turns if smooth else units * turns % size  # whole numbers stay exact
        return np.log1p((np.sin(turned * (math.pi / size)) / spans) ** 2)

    normal = 0.5 * (math.pi / _SMOOTH * turns) ** 2 * smooth
    pairs, which = np.unique([units[:, 0], spans[:, 0]], axis=1, return_inverse=True)
    widest = logarithms_of(pairs[0][:, None], pairs[1][:, None], turns)
    logarithms, first = normal + counts[:, :1] * widest[which], 1
    while first < counts.shape[1] and (counts[:, first] < 0).any():
        each = logarithms_of(units[:, first, None], spans[:, first, None], turns)
        logarithms += counts[:, first, None] * each
        first += 1
    negligible = _SMOOTH_NEGLIGIBLE if smooth else _NEGLIGIBLE
    rows, turns = np.nonzero(logarithms < negligible)
    logarithms = logarithms[rows, turns]
    for column in range(first, units.shape[1]):
        each = logarithms_of(units[rows, column], spans[rows, column], turns)
        logarithms += counts[rows, column] * each
        kept = logarithms < negligible
        rows, turns, logarithms = rows[kept], turns[kept], logarithms[kept]
    factors = np.exp(-logarithms) * np.where((turns > 0) & (2 * turns < size), 2.0, 1.0) / size
    kernel = turns * (math.pi / size)
    factors /= np.where(turns > 0, kernel if smooth else np.sin(kernel), 1.0)
    inside = 1.0 - beta * _PHI_3 + _SMOOTH_SLACK if smooth else 1.0 - beta + _SLACK
    low, high = np.full(len(units), -1), np.full(len(units), size // 2 - 1)
    while np.any(high - low > 1):
        middle = (low + high) // 2
        odd = (2 * middle + (not smooth))[rows]
        kernels = np.where(turns > 0, np.sin(odd * turns % (2 * size) * (math.pi / size)), odd)
        enough = np.bincount(rows, factors * kernels, len(units)) >= inside
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def chernoff(weights: ArrayLike, scales: Numbers, counts: Numbers, beta: float) -> Any:
    """Chernoff's bound on the absolute weighted sum, at its best exponent; for one row of weights,
    or for each.

    The moment generating function of a discrete Laplace variable of scale ``s`` at ``x`` is ``1 /
    (1 - (sinh(x/2) / sinh(1/(2s)))**2)`` for ``|x| < 1/s``, never above that of the continuous one,
    ``1 / (1 - (x s)**2)``. The closed form of the paper, nu * sqrt(8 ln(2 / beta)), is what one
    fixed exponent gives; the best exponent is never worse.
    """
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
