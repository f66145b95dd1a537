"""Random targets, and the best gradual curve to compare designs with."""

from __future__ import annotations

import math
import random

import numpy as np

import fadecount as fc
from fadecount.errors import ParameterError

LENGTHS = (
    (1, (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    (60, (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)),
    (3600, (1, 2, 3, 4, 6, 8, 12)),
    (86_400, (1, 2, 3, 5, 6, 7, 10, 14, 15, 28, 30, 60, 90, 91, 180, 182, 364)),
    (360 * 86_400, (1, 2, 4, 10, 20, 40, 100)),
)
"""The lengths among which the known designs are best: the calendar's, weeks and parts of months."""


def random_targets(chance: random.Random, *, longest: float = 9.0) -> tuple[dict[int, float], int]:
    """One to seven losses between 0.01 and 10 at ages up to a horizon of up to 10**longest
    steps."""
    horizon = int(10 ** chance.uniform(0.5, longest))
    ages = {int(horizon ** chance.random()) for _ in range(chance.randint(1, 5))}
    ages |= {0} if chance.random() < 0.5 else set()
    ages |= {horizon} if chance.random() < 0.5 else set()
    losses = sorted(10 ** chance.uniform(-2, 1) for _ in ages)
    return dict(zip(sorted(ages), losses, strict=True)), horizon


def limit_at(targets: dict[int, float], age: int) -> float:
    """Between targets the limit is that of the next one; past the last one the last holds."""
    later = [end for end in sorted(targets) if age <= end]
    return targets[later[0] if later else max(targets)]


def gradual_mse(targets: dict[int, float], horizon: int) -> float:
    """The least mean squared error of a gradual curve under the targets: a grid of exponents,
    refined around the best."""
    grid = np.linspace(0.0, 8.0, 41)
    errors = [_fitted_mse(targets, horizon, exponent) for exponent in grid]
    at = int(np.argmin(errors))
    finer = np.linspace(grid[max(0, at - 1)], grid[min(40, at + 1)], 21)
    return min(min(errors), *(_fitted_mse(targets, horizon, exponent) for exponent in finer))


def _fitted_mse(targets: dict[int, float], horizon: int, exponent: float) -> float:
    unit = fc.Gradual(epsilon=1e-3, exponent=exponent)
    epsilon = 1e-3 * min(limit_at(targets, age) / unit.loss(age) for age in {*targets, horizon})
    try:
        return fc.Gradual(epsilon=epsilon, exponent=exponent).mse(horizon)
    except ParameterError:
        return math.inf
