"""From a wanted loss curve to the level budgets with the least error.

The exact loss at an age is the cheapest of many ways to shift the noise (docs/theory.md, section
4). Each way pays the budget of each level a number of times. So the way that is cheapest at one
point is a linear limit that is safe at every other point. For fixed ways the best budgets follow
from the price of each limit (:func:`least_noise`). The search starts from "pay once for every
level" and from a few gradual curves, and repeats: take the cheapest ways at the current budgets,
and solve for the best budgets under them, as long as that leaves less noise.

Nothing here is trusted: every result is checked exactly (:mod:`fadecount.planning.certify`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import overload

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import LARGEST_BUDGET, SMALLEST_BUDGET
from fadecount.errors import bad_parameter
from fadecount.intervals import steps_in_use, top_level
from fadecount.mechanisms import Designed, Gaussian, Mechanism
from fadecount.mechanisms.gaussian import require_delta
from fadecount.planning.certify import certified, excess
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.request import Limit, Person, Targets, read_targets

Vector = NDArray[np.float64]
OBJECTIVES = ("mse", "worst")

_EXPONENTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Gradual curves from which a search starts."""

_ROUNDS, _STEPS = 12, 400
_BETTER, _NEAR = 1.0 - 1e-4, 1e-6
_LARGEST = 600.0
"""Noise of a larger budget is 0 in practice (variance below 10**-250), and its formula would
underflow."""

_UNUSED = 1e-12
"""The weight of a level that is entered only after the horizon: its noise never shows, but an age
may reach it."""


@overload
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    objective: str = "mse",
    person: Person | None = None,
    delta: None = None,
) -> Designed: ...
@overload
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    objective: str = "mse",
    person: Person | None = None,
    delta: float,
) -> Gaussian: ...
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    objective: str = "mse",
    person: Person | None = None,
    delta: float | None = None,
) -> Designed | Gaussian:
    """The level budgets with the least error over the horizon that the search finds, and a loss at
    or below every target.

    With a ``delta``, losses are epsilons at that delta, and the result is a Gaussian counter. Other
    constructions than level budgets are not searched.

    ``targets`` maps ages to losses. Between two targets the limit is that of the next one; past the
    last one the last holds to the horizon. ``objective`` is "mse", the mean squared error over the
    steps ``1 .. horizon``, or "worst", the variance at the horizon, which no earlier step exceeds.
    With a ``person`` the targets limit what all contributions of one person during the last ``age``
    steps lose together (docs/planning.md).

    Guarantees: the loss of the result, computed exactly, is at or below the target at every age
    from 0 to the horizon. What happens after the horizon is not part of the plan.

    >>> import fadecount as fc
    >>> curve = fc.design(targets={0: 0.1, 60: 0.5, 10**6: 4.0}, horizon=10**6)
    >>> all(curve.loss(age) <= most for age, most in ((0, 0.1), (60, 0.5), (10**6, 4.0)))
    True
    >>> year = fc.design(targets={60: 0.5, 43_200: 2.0, 525_600: 4.0}, horizon=525_600, delta=1e-9)
    >>> year.mse(525_600) ** 0.5 < 26.3, year.loss(525_600) <= 4.0
    (True, True)
    """
    require_objective(objective)
    read = read_targets(targets, horizon=horizon, delay=delay, person=person)
    if delta is None:
        return design_for(read, objective)
    return gaussian_design_for(read, objective, require_delta(delta))


def require_objective(objective: str) -> None:
    """Raise a ParameterError if there is no such objective."""
    if objective not in OBJECTIVES:
        names = f"one of {', '.join(OBJECTIVES)}"
        raise bad_parameter("objective", objective, names, "mse is the mean squared error")


def design_for(targets: Targets, objective: str = "mse") -> Designed:
    """The same for checked targets, without a delta."""
    limits, fine = targets.limits(), targets.limits(fine=True)
    highest = max(top_level(reach) for limit in limits for reach, _ in limit.parts)
    shape = best_budgets(_shares(targets, highest + 1, objective), limits)

    def build(factor: float) -> Designed:
        kept = np.clip(shape * factor, SMALLEST_BUDGET, LARGEST_BUDGET)
        return Designed(np.where(np.isinf(shape), np.inf, kept).tolist(), delay=targets.delay)

    budgets = certified(build, fine).budgets
    return Designed(_continued(targets, tuple(budgets)), delay=targets.delay)


def cost_of(mechanism: Mechanism, horizon: int, objective: str) -> float:
    """What an objective minimizes."""
    return float(mechanism.variance(horizon)) if objective == "worst" else mechanism.mse(horizon)


def _continued(targets: Targets, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """Budgets for the levels past the horizon, which the plan does not cover: the last finite one
    in use, if allowed."""
    used = budgets[: top_level(targets.horizon - targets.delay) + 1]
    later = next(budget for budget in reversed(used) if math.isfinite(budget))
    if used == budgets:
        return budgets if budgets[-1] == later else (*budgets, later)
    fits = excess(targets.limits(fine=True), (*used, later)) <= 1
    return (*used, later) if fits else (*budgets, later)


def _shares(targets: Targets, levels: int, objective: str) -> Vector:
    """How much each level counts: the share of the steps at which it is in use, or 1 if only the
    horizon matters."""
    steps = [steps_in_use(level, targets.horizon - targets.delay) for level in range(levels)]
    if objective == "worst":
        return np.array([1.0 if count else _UNUSED for count in steps])
    return np.array([count / targets.horizon if count else _UNUSED for count in steps])


def best_budgets(shares: Vector, limits: Sequence[Limit]) -> Vector:
    """The budgets with the least noise that the search finds under the limits, up to rounding;
    infinite for levels without noise."""
    levels = np.arange(1.0, len(shares) + 1.0)
    once = _matrix(limits, lambda reach: (levels <= top_level(reach) + 1).astype(np.float64))
    best, least = levels, math.inf
    for start in (least_noise(shares, once), *(levels ** (each - 1.0) for each in _EXPONENTS)):
        budgets, before = start, math.inf
        for _ in range(_ROUNDS):
            ways = _matrix(limits, partial(cheapest_way, budgets.tolist()))
            budgets = budgets / (ways @ np.where(np.isinf(budgets), 0.0, budgets)).max()
            noise = float(shares @ variance(budgets))
            best, least = (budgets, noise) if noise < least else (best, least)
            if noise > _BETTER * before:
                break
            budgets, before = least_noise(shares, ways), noise
    return best


def _matrix(limits: Sequence[Limit], way: Callable[[int], Vector]) -> Vector:
    """How often each limit pays the budget of each level, in units of the most it may pay."""
    return np.array(
        [
            np.sum([times / limit.most * way(reach) for reach, times in limit.parts], axis=0)
            for limit in limits
        ]
    )


def cheapest_way(budgets: Sequence[float], reach: int) -> Vector:
    """How often the cheapest shift for an item that is seen for ``reach`` outputs pays each
    budget: the closed form of :func:`~fadecount.mechanisms.level_budgets.worst_case`."""
    own = np.eye(len(budgets))
    whole, whole_cost = own[0], budgets[0]
    part, part_cost, passed = own[0], budgets[0], np.zeros(len(budgets))
    for level, budget in enumerate(budgets[1 : top_level(reach) + 1], start=1):
        passed = passed + whole
        if reach >> level - 1 & 1:
            part, part_cost = part + whole, part_cost + whole_cost
        if budget <= part_cost:
            part, part_cost = own[level], budget
        whole, whole_cost = (
            (own[level], budget) if budget <= 2.0 * whole_cost else (2.0 * whole, 2.0 * whole_cost)
        )
    paid: Vector = passed + part
    return paid


def least_noise(shares: Vector, limits: Vector) -> Vector:
    """The budgets with the least noise, ``shares @ variance(budgets)``, under ``limits @ budgets <=
    1``, nearly; infinite where no limit applies.

    Each limit has a price. At given prices every budget is where less noise is worth what it pays.
    Prices of limits that are exceeded rise, the others fall.
    """
    bound = limits.any(axis=0)
    rows, weights = limits[:, bound], shares[bound]
    prices = np.full(len(rows), 1.0 / len(rows))
    budgets = np.cbrt(weights / (prices @ rows))
    for _ in range(_STEPS):
        half = 0.5 * np.minimum(budgets, _LARGEST)
        slope = weights * np.cosh(half) / (2.0 * np.sinh(half) ** 3)
        budgets = budgets * (slope / (prices @ rows)) ** (1.0 / (3.0 + budgets))  # near Newton
        used = rows @ budgets
        if used.max() <= 1.0 + _NEAR and prices @ (1.0 - used) <= _NEAR * prices.sum():
            break
        prices = np.maximum(prices * used**2, 1e-200)
    result = np.full(len(shares), np.inf)
    result[bound] = budgets
    return result


def variance(budgets: Vector) -> Vector:
    """The variance of discrete Laplace noise for each budget (0 for an infinite one)."""
    half = 0.5 * np.minimum(budgets, _LARGEST)
    return np.where(np.isinf(budgets), 0.0, 0.5 / np.sinh(half) ** 2)
