"""The law of the noise in an output: its scale, variance, tail, exact quantiles and error
intervals.

On the integers, ``Pr[z] ~ exp(-|z| / scale)``. A shift by one costs ``1 / scale``, so a budget
``e`` on a grid of ``2**-bits`` needs ``scale = 2**bits / e`` grid units.
``resolution_bits=math.inf`` means the limit of ever finer grids, which is the continuous Laplace
noise of the paper.

Quantiles come from Fourier inversion, rounded outward. The noise in one output is a sum ``Z`` of
independent discrete Laplace variables. The characteristic function of one of scale ``s`` is ``1 /
(1 + (sin(x / 2) / sinh(1 / (2 s)))**2)``, real and positive, so that of the sum is their product.
The discrete Fourier transform of its values at ``N`` points gives the law of ``Z`` modulo ``N``,
which differs from the law of ``Z`` by at most ``Pr[|Z| >= N / 2]`` in total. ``N`` is taken so
large that Chernoff's inequality bounds this by 1e-13; the transform itself is off by less than
1e-12. The quantile is taken at ``beta - 1e-11``, which covers both: it is never too small.

Wide noise is first made coarser. A discrete Laplace variable of scale ``s`` has the law of
``floor(E) - floor(E')`` for two exponential variables of scale ``s``, and ``floor(E / c) - floor(E'
/ c)`` the law of scale ``s / c``. As ``floor(E)`` lies between ``c floor(E / c)`` and that plus ``c
- 1``, the sum of ``k`` variables and ``c`` times the sum of the coarser ones differ by at most ``k
(c - 1)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fadecount.rounding import DUST

if TYPE_CHECKING:
    from fadecount.mechanisms.base import Mechanism


def scale_of(budget: float, resolution_bits: int) -> float:
    """The noise scale in grid units that a level budget needs (0 for an infinite budget: no noise).

    It is larger than needed by a relative ``2**-46``, give or take two roundings. So the loss of
    the noise that runs is below the loss computed from the budgets by at least a relative
    ``2**-47``: what :mod:`fadecount.rounding` needs to show six times 0.1 as 0.6, although float64
    has no 0.1.
    """
    if math.isinf(budget):
        return 0.0
    return math.ldexp(1.0 / budget * (1.0 + 2.0 * DUST), resolution_bits)


def variance_of(budget: float, resolution_bits: float) -> float:
    """The variance of one noise variable, in squared counts: 2p / (1 - p)**2 grid units with p =
    exp(-1 / scale)."""
    if math.isinf(budget):
        return 0.0
    if math.isinf(resolution_bits):
        return 2.0 / budget**2
    bits = int(resolution_bits)
    half = 0.5 / scale_of(budget, bits)
    return math.ldexp(0.5 / math.sinh(half) ** 2, -2 * bits) if half < 350.0 else 0.0


def tail_bound(budgets: Iterable[float], beta: float, resolution_bits: float) -> float:
    """A bound on the absolute sum of independent noise variables that fails with probability at
    most ``beta``.

    Chernoff's inequality with the true moment generating function of the noise, at its best
    exponent. The function of a discrete Laplace variable of scale ``s`` at ``x`` is ``1 / (1 -
    (sinh(x/2) / sinh(1/(2s)))**2)`` for ``|x| < 1/s``, never above that of the continuous one, ``1
    / (1 - (x s)**2)``. The closed form of the paper, nu * sqrt(8 ln(2 / beta)), is what one fixed
    exponent gives; the best exponent is never worse.
    """
    finite = [budget for budget in budgets if math.isfinite(budget)]
    if not finite:
        return 0.0
    unit = 1.0 if math.isinf(resolution_bits) else math.ldexp(1.0, -int(resolution_bits))
    smallest = min(finite)
    needed = math.log(2.0 / beta)

    def bound(fraction: float) -> float:
        exponent = fraction * smallest
        total = needed
        for budget in finite:
            ratio = (
                exponent / budget
                if math.isinf(resolution_bits)
                else _sinh_ratio(exponent, budget, unit)
            )
            total -= math.log1p(-ratio * ratio)
        return total / exponent

    low, high = 1e-9, 1.0 - 1e-9
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(80):
        width = golden * (high - low)
        low, high = (
            (low, low + width) if bound(high - width) < bound(low + width) else (high - width, high)
        )
    return bound(0.5 * (low + high)) * (1.0 + 1e-12)


def _sinh_ratio(exponent: float, budget: float, unit: float) -> float:
    """sinh(exponent * unit / 2) / sinh(budget * unit / 2) for 0 < exponent < budget, without
    overflow."""
    small, large = 0.5 * exponent * unit, 0.5 * budget * unit
    return math.exp(small - large) * math.expm1(-2.0 * small) / math.expm1(-2.0 * large)


_WIDEST = 1 << 12
_SLACK = 1e-11
_SMALLEST_EXACT = 1e-6


def quantile_of(budgets: Iterable[float], beta: float) -> int:
    """An integer that the absolute sum of noise variables of these budgets exceeds with probability
    at most ``beta``.

    The smallest such integer while the noise is narrow; within about one part in 4,000 per variable
    otherwise. A ``beta`` below 1e-6 gets Chernoff's bound, which is larger.

    >>> quantile_of([0.5], 0.05), quantile_of([0.5, 0.25, 0.25], 0.05)
    (6, 17)
    """
    return _quantile(tuple(sorted(budget for budget in budgets if math.isfinite(budget))), beta)


@lru_cache(maxsize=4096)
def _quantile(budgets: tuple[float, ...], beta: float) -> int:
    if not budgets:
        return 0
    if beta < _SMALLEST_EXACT:
        return math.ceil(tail_bound(budgets, beta, 0))
    scales = np.array([scale_of(budget, 0) for budget in budgets])
    coarse = max(1, math.ceil(float(np.sqrt((scales**2).sum())) / _WIDEST))
    farthest = tail_bound([coarse / scale for scale in scales.tolist()], 1e-13, 0)
    size = 1 << math.ceil(math.log2(2.0 * farthest + 16.0))
    angles = np.sin(np.arange(size // 2 + 1) * (math.pi / size)) ** 2
    transform = np.ones(size // 2 + 1)
    for scale in scales / coarse:
        transform /= 1.0 + angles / math.sinh(min(0.5 / scale, 300.0)) ** 2
    law = np.fft.irfft(transform, size)
    inside = law[0] + 2.0 * np.concatenate([[0.0], np.cumsum(law[1 : size // 2])])
    found = int(np.argmax(inside >= 1.0 - beta + _SLACK))
    return coarse * found + len(budgets) * (coarse - 1)


def half_widths(
    mechanism: Mechanism, first_step: int, count: int, *, beta: float = 0.05
) -> NDArray[np.int64]:
    """For each of ``count`` steps from ``first_step`` on, how far the released count may be from
    the true one.

    Guarantees: it is farther away with probability at most ``beta``, for each step separately.
    Stores, exports, the service and Spark all use this function for error intervals. With a delay,
    the true count is the one ``delay`` steps earlier: the output shows nothing later.
    """
    steps = np.arange(first_step, first_step + count, dtype=np.int64)
    return mechanism.noise.half_widths(mechanism.shown(steps), beta)


def window_half_widths(
    mechanism: Mechanism, starts: NDArray[np.int64], ends: NDArray[np.int64], *, beta: float = 0.05
) -> NDArray[np.int64]:
    """:meth:`Mechanism.window_interval` for many windows at once."""
    return mechanism.noise.window_half_widths(mechanism.shown(starts), mechanism.shown(ends), beta)
