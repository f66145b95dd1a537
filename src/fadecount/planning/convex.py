"""The convex core of a design: the least noise under linear limits on the level budgets.

    minimize   sum of share_l * variance(e_l)   subject to   limits @ e <= 1   (all coefficients at
    least 0)

where ``variance`` is that of discrete Laplace noise, ``1 / (2 sinh(e / 2)**2)``. A primal-dual
interior-point method: with at most 62 levels and a handful of limits a step costs some ten small
matrix operations, and about ten steps suffice. Nothing here is trusted: the caller checks every
result exactly (:mod:`fadecount.planning.certify`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_STEPS = 40
_LARGEST = 300.0
"""Noise of a larger budget is 0 in practice (variance below 10**-130), and its formula would
underflow."""


def variance(budgets: Vector) -> Vector:
    """The variance of discrete Laplace noise for each budget (0 for an infinite one)."""
    half = 0.5 * np.minimum(budgets, 2.0 * _LARGEST)
    return np.where(np.isinf(budgets), 0.0, 0.5 / np.sinh(half) ** 2)


def least_noise(
    shares: Vector, limits: Vector, start: Vector, precision: float
) -> tuple[Vector, Vector]:
    """The budgets with the least noise under the limits, infinite where no limit applies, and the
    price (dual) of each limit.

    ``start`` is any positive point, such as the solution under other limits; infinite entries are
    allowed. The noise is within the relative ``precision`` of the least.
    """
    bound = limits.any(axis=0)
    if bound.all():
        return _interior(shares, limits, start, precision)
    result = np.full(len(shares), np.inf)
    result[bound], prices = _interior(shares[bound], limits[:, bound], start[bound], precision)
    return result, prices


def _interior(
    shares: Vector, limits: Vector, start: Vector, precision: float
) -> tuple[Vector, Vector]:
    point = np.where(
        np.isinf(start), 2.0 * np.max(start, initial=0.0, where=np.isfinite(start)) + 1e-3, start
    )
    point = np.minimum(point * (0.9 / (limits @ point).max()), _LARGEST)
    slack = 1.0 - limits @ point
    slope, curvature, value = _derivatives(shares, point)
    price = -(slope @ point) / len(slack) / np.maximum(slack, 0.1)
    diagonal = np.arange(len(slack))
    for _ in range(_STEPS):
        unmet = slope + price @ limits
        gap = price @ slack
        if gap + np.abs(unmet) @ point <= precision * value:
            break
        aim = (0.1 if gap > 1e-3 * value else 0.01) * gap / len(slack)
        scaled = limits / curvature
        matrix = scaled @ limits.T
        matrix[diagonal, diagonal] += slack / price
        off = limits @ point + slack - 1.0
        toward = aim / price - slack
        try:
            price_step = np.linalg.solve(matrix, off + toward - scaled @ unmet)
        except np.linalg.LinAlgError:
            break
        step = -(unmet + price_step @ limits) / curvature
        slack_step = toward - slack / price * price_step
        reach = min(_reach(point, step), _reach(slack, slack_step))
        point = np.minimum(point + reach * step, _LARGEST)
        slack = slack + reach * slack_step
        price = price + _reach(price, price_step) * price_step
        slope, curvature, value = _derivatives(shares, point)
    return point / (limits @ point).max(), price


def _reach(values: Vector, step: Vector) -> float:
    """How far one can go along a step with all values staying positive."""
    worst = float(np.min(step / values))
    return 1.0 if worst > -0.95 else 0.95 / -worst


def _derivatives(shares: Vector, budgets: Vector) -> tuple[Vector, Vector, float]:
    """First and second derivatives of the noise in each budget, and the noise itself."""
    half = 0.5 * budgets
    sinh, cosh = np.sinh(half), np.cosh(half)
    parts = shares * 0.5 / (sinh * sinh)
    slope = -parts * cosh / sinh
    return slope, parts * (1.5 * (cosh / sinh) ** 2 - 0.5), float(parts.sum())
