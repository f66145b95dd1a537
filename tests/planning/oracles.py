"""Independent answers to compare designs with: scipy's solver under the sufficient condition, and
the best gradual curve."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

import fadecount as fc
from fadecount.errors import ParameterError


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


def convex_mse(targets: dict[int, float], horizon: int) -> float:
    """The least mean squared error if every level entered up to an age must be paid for, by scipy's
    SLSQP."""
    levels = horizon.bit_length()
    shares = np.array([max(0, horizon - (1 << level) + 1) / horizon for level in range(levels)])
    rows, most = [], []
    for age in sorted({*targets, horizon}):
        entered = min((age + 1).bit_length(), levels)
        rows.append([1.0] * entered + [0.0] * (levels - entered))
        most.append(limit_at(targets, age))
    matrix, bounds = np.array(rows), np.array(most)
    start = np.full(levels, 0.9 * bounds.min() / levels)
    scale = float(shares @ _variance(start))

    def noise(logs: NDArray[np.float64]) -> Any:
        budgets = start * np.exp(logs)
        gradient = -shares * _variance(budgets) * budgets / np.tanh(0.5 * budgets)
        total = float(shares @ _variance(budgets))
        return math.log(total / scale), gradient / total

    room = {
        "type": "ineq",
        "fun": lambda logs: 1.0 - matrix @ (start * np.exp(logs)) / bounds,
        "jac": lambda logs: -matrix * (start * np.exp(logs)) / bounds[:, None],
    }
    options = {"maxiter": 500, "ftol": 1e-10}
    solve: Any = minimize
    answer = solve(
        noise, np.zeros(levels), jac=True, method="SLSQP", constraints=[room], options=options
    )
    budgets = start * np.exp(answer.x)
    budgets /= max(1.0, float((matrix @ budgets / bounds).max()))
    return float(shares @ _variance(budgets))


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


def _variance(budgets: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 / np.sinh(0.5 * budgets) ** 2
