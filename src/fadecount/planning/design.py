"""From a wanted loss curve to the level budgets with the least error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import overload

import numpy as np

from fadecount.errors import bad_parameter
from fadecount.intervals import steps_in_use, top_level
from fadecount.mechanisms import Designed, Gaussian
from fadecount.mechanisms.gaussian import require_delta
from fadecount.planning.certify import certified, excess
from fadecount.planning.convex import Vector
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.request import Person, Targets, read_targets
from fadecount.planning.search import Search

OBJECTIVES = ("mse", "worst")

_UNUSED = 1e-12
"""The weight of a level that is entered only after the horizon: its noise never shows, but an age may reach it."""


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
    """The level budgets with the least error over the horizon whose loss stays at or below every target.

    With a ``delta``, losses are epsilons at that delta, and the result is the Gaussian counter with the least error.

    ``targets`` maps ages to losses. Between two targets the limit is that of the next one; past the last one the last holds
    to the horizon. ``objective`` is "mse", the mean squared error over the steps ``1 .. horizon``, or "worst", the variance at
    the horizon, which no earlier step exceeds. With a ``person`` the targets limit what all contributions of one person
    during the last ``age`` steps lose together (docs/planning.md).

    Guarantees: the loss of the result, computed exactly, is at or below the target at every age from 0 to the horizon. The
    error is never above that of the best budgets under the sufficient condition "pay once for every level", up to rounding;
    it is often well below, because the exact loss is. What happens after the horizon is not part of the plan.

    >>> import fadecount as fc
    >>> curve = fc.design(targets={0: 0.1, 60: 0.5, 10**6: 4.0}, horizon=10**6)
    >>> [round(curve.loss(age), 3) for age in (0, 60, 10**6)]
    [0.084, 0.5, 4.0]
    >>> year = fc.design(targets={60: 0.5, 43_200: 2.0, 525_600: 4.0}, horizon=525_600, delta=1e-9)
    >>> year.mse(525_600) ** 0.5 < 26.3, year.loss(525_600) <= 4.0
    (True, True)
    """
    if objective not in OBJECTIVES:
        raise bad_parameter("objective", objective, f"one of {', '.join(OBJECTIVES)}", "mse is the mean squared error")
    read = read_targets(targets, horizon=horizon, delay=delay, person=person)
    return design_for(read, objective) if delta is None else gaussian_design_for(read, objective, require_delta(delta))


def design_for(targets: Targets, objective: str = "mse") -> Designed:
    """The same for targets that have been read."""
    limits = targets.limits()
    highest = max(top_level(reach) for limit in limits for reach, _ in limit.parts)
    found = Search(_shares(targets, highest + 1, objective), limits).run()
    budgets = certified(targets.limits(fine=True), found.budgets)
    return Designed(budgets=_continued(targets, budgets), delay=targets.delay)


def _continued(targets: Targets, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """Sensible budgets for the levels past the horizon, where the plan has no say: the last finite one in use, if it may."""
    used = budgets[: top_level(targets.horizon - targets.delay) + 1]
    later = next(budget for budget in reversed(used) if math.isfinite(budget))
    if used == budgets:
        return budgets if budgets[-1] == later else (*budgets, later)
    return (*used, later) if excess(targets.limits(fine=True), (*used, later)) <= 1 else (*budgets, later)


def _shares(targets: Targets, levels: int, objective: str) -> Vector:
    """How much each level counts: the share of the steps at which it is in use, or 1 if only the horizon matters."""
    shown = targets.horizon - targets.delay
    steps = [steps_in_use(level, shown) for level in range(levels)]
    if objective == "worst":
        return np.array([1.0 if count else _UNUSED for count in steps])
    return np.array([count / targets.horizon if count else _UNUSED for count in steps])
