"""The law of the noise in an output: its scale, variance, tail and error intervals.

On the integers, ``Pr[z] ~ exp(-|z| / scale)``. A shift by one costs ``1 / scale``, so a budget
``e`` on a grid of ``2**-bits`` needs ``scale = 2**bits / e`` grid units.
``resolution_bits=math.inf`` means the limit of ever finer grids, which is the continuous Laplace
noise of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def window_half_widths(
    mechanism: Mechanism,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    beta: float = 0.05,
    copies: ArrayLike = 1,
) -> NDArray[np.int64]:
    """How far the difference of the outputs of two steps may be from the true one, for many pairs
    of steps; from step 0 on, it is the output itself.

    Guarantees: it is farther away with probability at most ``beta``, for each pair separately.
    Stores, exports, the service and Spark all use this function for error intervals. With a delay,
    the true count is the one ``delay`` steps earlier: the output shows nothing later.

    With a second axis, it is about the sums over that axis of differences with their own noise,
    each ``copies`` times: the total of many keys.
    """
    shown = mechanism.shown(starts), mechanism.shown(ends)
    return mechanism.noise.window_half_widths(*shown, beta, copies)
