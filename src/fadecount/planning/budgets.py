"""The best budgets for given levels: a small convex problem, solved for many lists of levels at
once.

A list of levels is a list of *steps*: a step publishes a level for the first time, or again as a
later stage. Step ``n`` spends the increment ``d[n] > 0``; a stage's whole budget ``e[n]`` is the
sum of its level's increments up to it. The mean squared error is the sum of ``weight * v(e)``, with
the variance ``v(e) = 1 / (2 sinh(e/2)**2)`` of discrete Laplace noise. Each target bounds a sum of
increments, each of which counts as often as its region says. This is convex; a primal-dual interior
point method solves it to twelve digits in about twenty rounds.

Nothing here is trusted: budgets are rounded down to millionths, and the promise is checked
afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_ROUNDS = 45
_CLOSE = 1e-10
_LARGEST = 600.0
"""Noise of a larger budget is 0 in practice, and its formula would underflow."""


def variance(budget: Vector) -> Vector:
    """The variance of discrete Laplace noise."""
    return np.asarray(0.5 / np.sinh(0.5 * np.minimum(budget, _LARGEST)) ** 2)


@dataclass(frozen=True, slots=True)
class Budgets:
    """Increments (``lists x steps``), prices of the caps (``lists x targets``) and mean squared
    errors."""

    increments: Vector
    prices: Vector
    errors: Vector


def best_budgets(
    weights: Vector,
    regions: NDArray[np.int64],
    later: NDArray[np.bool_],
    counts: Vector,
    caps: Vector,
) -> Budgets:
    """The increments with the least error for several lists of levels.

    ``weights``, ``regions`` and ``later`` (whether a step is a later stage of the step before) have
    one row per list, padded with weight 0. ``counts[i, r]`` says how often an increment in region
    ``r`` counts against ``caps[i]``.
    """
    used = weights > 0.0
    level = np.cumsum(~later, axis=1)
    same = (level[:, :, None] == level[:, None, :]) & np.tri(weights.shape[1], dtype=bool)
    sums = (same & used[:, :, None]).astype(np.float64)  # whole budgets are sums @ increments
    charge = np.where(used[:, None, :], counts[:, regions].transpose(1, 0, 2), 0.0)
    # Begin with an equal part of what every cap allows.
    allowed = (caps[:, None] / np.maximum(charge, 1e-300)).min(axis=1)
    spent = np.where(used, 0.9 * allowed / used.sum(axis=1, keepdims=True), 1.0)
    scale = _error(weights, sums, spent)[0]
    weights = weights / scale[:, None]
    slack = caps - _times(charge, spent)
    # Multipliers of the caps, and of increments >= 0.
    price, floor = 0.1 / slack, np.where(used, 0.1 / spent, 0.0)
    number = used.sum(axis=1) + len(caps)
    for _ in range(_ROUNDS):
        error, first, second = _error(weights, sums, spent)
        gradient = _times(np.swapaxes(sums, 1, 2), first)
        gap = (price * slack).sum(axis=1) + (floor * spent).sum(axis=1)
        pull = gradient + _times(np.swapaxes(charge, 1, 2), price) - floor
        wrong = np.abs(np.where(used, pull, 0.0)).max(axis=1) / np.abs(first).max(axis=1)
        moving = (gap >= _CLOSE * error) | (wrong >= _CLOSE)
        if not moving.any():
            break
        aim = (0.1 * gap / number)[:, None]
        matrix = np.swapaxes(sums, 1, 2) @ (second[:, :, None] * sums)
        matrix += np.swapaxes(charge, 1, 2) @ ((price / slack)[:, :, None] * charge)
        toward = aim / spent - gradient - _times(np.swapaxes(charge, 1, 2), aim / slack)
        move = _solve(matrix, np.where(used, floor / spent, 1.0), np.where(used, toward, 0.0))
        taken = _times(charge, move)
        price_move = aim / slack - price + price / slack * taken
        floor_move = np.where(used, aim / spent - floor - floor / spent * move, 0.0)
        length = moving * np.minimum(_longest(spent, move), _longest(slack, -taken))
        other = moving * np.minimum(_longest(price, price_move), _longest(floor, floor_move))
        spent, slack = spent + length[:, None] * move, slack - length[:, None] * taken
        price, floor = price + other[:, None] * price_move, floor + other[:, None] * floor_move
    return Budgets(
        increments=np.where(used, spent, 0.0),
        prices=price * scale[:, None],
        errors=_error(weights, sums, spent)[0] * scale,
    )


def _error(weights: Vector, sums: Vector, spent: Vector) -> tuple[Vector, Vector, Vector]:
    """The mean squared errors, and their first two derivatives by the whole budgets."""
    whole = np.where(weights > 0.0, _times(sums, spent), 1.0)
    half = 0.5 * np.minimum(whole, _LARGEST)
    sine, cosine = np.sinh(half), np.cosh(half)
    each = 0.5 * weights / sine**2
    return each.sum(axis=1), -each * cosine / sine, each * (2.0 * cosine**2 + 1.0) / (2.0 * sine**2)


def _times(matrices: Vector, vectors: Vector) -> Vector:
    """The products of each matrix and its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def _solve(matrices: Vector, diagonals: Vector, vectors: Vector) -> Vector:
    """The solutions for positive definite matrices with more on their diagonals, scaled to ones."""
    at = range(vectors.shape[1])
    matrices[:, at, at] += diagonals
    root = 1.0 / np.sqrt(matrices[:, at, at])
    matrices *= root[:, :, None] * root[:, None, :]
    matrices[:, at, at] += 1e-14  # never singular
    return np.asarray(root * np.linalg.solve(matrices, (root * vectors)[:, :, None])[:, :, 0])


def _longest(values: Vector, moves: Vector) -> Vector:
    """The largest part of a move, at most 1, that keeps all values positive."""
    ratio = np.where(moves < 0.0, -moves / np.maximum(values, 1e-300), 0.0).max(axis=1)
    return np.asarray(np.minimum(1.0, 0.99 / np.maximum(ratio, 1e-300)))
