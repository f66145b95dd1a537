"""From a wanted loss curve to the level budgets with the least error."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import overload

import numpy as np

from fadecount.checks import LARGEST_HEAD_START, LONGEST, require_head_start
from fadecount.errors import ParameterError, bad_parameter
from fadecount.intervals import steps_in_use, top_level
from fadecount.mechanisms import Designed, Gaussian, Mechanism
from fadecount.mechanisms.gaussian import require_delta
from fadecount.planning.certify import certified, excess
from fadecount.planning.convex import Vector, variance
from fadecount.planning.cutting_planes import CuttingPlanes
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.request import Person, Targets, read_targets
from fadecount.planning.search import Search

OBJECTIVES = ("mse", "worst")

_FAR = 1 << 40
"""From this horizon on a head start is given to known budgets, and no others are searched: that
would take long."""

_SMALL, _QUICK = 1 << 6, 1 << 16
"""Below these horizons a search takes a moment, so that all head starts are tried, or three."""

_FEW, _MANY = 8, 24
"""With limits on at most so many ages the search is wide; with more than so many (people who
contribute often) there is none."""

_EXPONENTS = (1.0, 1.5, 2.0)
"""Gradual curves that are tried with a head start where others are not searched."""

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
    head_start: int | None = None,
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
    head_start: None = None,
) -> Gaussian: ...
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    objective: str = "mse",
    person: Person | None = None,
    delta: float | None = None,
    head_start: int | None = None,
) -> Designed | Gaussian:
    """The level budgets with the least error over the horizon that the search finds, and a loss at
    or below every target.

    With a ``delta``, losses are epsilons at that delta, and the result is a Gaussian counter. Other
    constructions than level budgets are not searched.

    ``targets`` maps ages to losses. Between two targets the limit is that of the next one; past the
    last one the last holds to the horizon. ``objective`` is "mse", the mean squared error over the
    steps ``1 .. horizon``, or "worst", the variance at the horizon, which no earlier step exceeds.
    With a ``person`` the targets limit what all contributions of one person during the last ``age``
    steps lose together (docs/planning.md). ``head_start`` is chosen if it is None: with one, the
    first outputs have the error of later ones, and the error over the horizon is smaller; 0 means
    none.

    Guarantees: the loss of the result, computed exactly, is at or below the target at every age
    from 0 to the horizon. The error is never above that of the best budgets under the sufficient
    condition "pay once for every level", up to rounding; it is often well below, because the exact
    loss is. What happens after the horizon is not part of the plan.

    >>> import fadecount as fc
    >>> curve = fc.design(targets={0: 0.1, 60: 0.5, 10**6: 4.0}, horizon=10**6)
    >>> all(curve.loss(age) <= most for age, most in ((0, 0.1), (60, 0.5), (10**6, 4.0)))
    True
    >>> year = fc.design(targets={60: 0.5, 43_200: 2.0, 525_600: 4.0}, horizon=525_600, delta=1e-9)
    >>> year.mse(525_600) ** 0.5 < 26.3, year.loss(525_600) <= 4.0
    (True, True)
    """
    if objective not in OBJECTIVES:
        raise bad_parameter(
            "objective",
            objective,
            f"one of {', '.join(OBJECTIVES)}",
            "mse is the mean squared error",
        )
    started = None if head_start is None else require_head_start(head_start)
    read = read_targets(targets, horizon=horizon, delay=delay, person=person)
    if delta is None:
        return design_for(read, objective, started)
    if started:
        raise bad_parameter(
            "head_start", started, "left out with a delta", "a Gaussian counter has none"
        )
    return gaussian_design_for(read, objective, require_delta(delta))


def design_for(targets: Targets, objective: str = "mse", head_start: int | None = None) -> Designed:
    """The same for checked targets."""
    plain = _without_head_start(targets, objective)
    if head_start == 0:
        return plain
    tried = _head_starts(targets, objective) if head_start is None else [head_start]
    started = [
        found
        for each in tried
        if (found := _with_head_start(targets, objective, each, plain)) is not None
    ]
    if head_start is None:
        started.append(plain)
    return min(started, key=lambda each: cost_of(each, targets.horizon, objective), default=plain)


def cost_of(mechanism: Mechanism, horizon: int, objective: str) -> float:
    """What an objective minimizes."""
    steps = min(horizon, LONGEST)
    return float(mechanism.variance(steps)) if objective == "worst" else mechanism.mse(steps)


def _without_head_start(targets: Targets, objective: str) -> Designed:
    limits = targets.limits()
    highest = max(top_level(reach) for limit in limits for reach, _ in limit.parts)
    found = Search(_shares(targets, highest + 1, objective), limits).run()
    budgets = certified(targets.limits(fine=True), found.budgets)
    return Designed(budgets=_continued(targets, budgets), delay=targets.delay)


def _head_starts(targets: Targets, objective: str) -> list[int]:
    """The head starts to try: an eighth of the horizon, with limits on few ages a quarter too or,
    where that takes no long time, the most promising ones of several.

    Larger ones gain little and add noise at the first steps.
    """
    top = top_level(targets.horizon - targets.delay)
    if targets.horizon >= _QUICK or _ages(targets) > _FEW:
        return sorted(
            {
                min(max(1, top - less), LARGEST_HEAD_START)
                for less in ((3, 2) if _ages(targets) <= _FEW else (3,))
            }
        )
    small = targets.horizon < _SMALL
    several = range(1 if small else max(1, top - 3), max(2, top + small))
    noise = {each: _planes(targets, objective, each).at_first_sight() for each in several}
    return sorted(several, key=lambda each: noise[each])[: 2 if small else 1]


def _ages(targets: Targets) -> int:
    return sum(len(limit.parts) for limit in targets.limits())


def _planes(targets: Targets, objective: str, head_start: int) -> CuttingPlanes:
    shares = _shares(targets, _levels(targets, head_start), objective, head_start)
    return CuttingPlanes(shares, targets.limits(), head_start)


def _levels(targets: Targets, head_start: int) -> int:
    """How many levels are in use up to the horizon."""
    return top_level(targets.horizon - targets.delay + (1 << head_start) - 1) + 1


def _with_head_start(
    targets: Targets, objective: str, head_start: int, plain: Designed
) -> Designed | None:
    """The best design with a head start, or None if there is no noise that can be drawn for it."""
    levels, fine = _levels(targets, head_start), targets.limits(fine=True)
    start = np.array([plain.budgets[min(level, len(plain.budgets) - 1)] for level in range(levels)])
    if targets.horizon < _FAR and _ages(targets) <= _MANY:
        shapes = [_planes(targets, objective, head_start).run(start, wide=_ages(targets) <= _FEW)]
    else:
        shapes = [
            start,
            *(np.arange(1.0, levels + 1.0) ** (exponent - 1.0) for exponent in _EXPONENTS),
        ]
    shares = np.append(_shares(targets, levels, objective, head_start), 0.0)
    continued = [
        np.append(each, each[np.isfinite(each)][-1]) for each in shapes
    ]  # past the horizon the last noise goes on
    coarse = targets.limits()
    for shape in sorted(
        continued,
        key=lambda each: shares @ variance(each / float(excess(coarse, each.tolist(), head_start))),
    ):
        with contextlib.suppress(ParameterError):
            budgets = certified(fine, shape, head_start)
            return Designed(budgets=budgets, delay=targets.delay, head_start=head_start)
    return None


def _continued(targets: Targets, budgets: tuple[float, ...]) -> tuple[float, ...]:
    """Budgets for the levels past the horizon, which the plan does not cover: the last finite one
    in use, if allowed."""
    used = budgets[: _levels(targets, 0)]
    later = next(budget for budget in reversed(used) if math.isfinite(budget))
    if used == budgets:
        return budgets if budgets[-1] == later else (*budgets, later)
    fits = excess(targets.limits(fine=True), (*used, later)) <= 1
    return (*used, later) if fits else (*budgets, later)


def _shares(targets: Targets, levels: int, objective: str, head_start: int = 0) -> Vector:
    """How much each level counts: the share of the steps at which it is in use, or 1 if only the
    horizon matters."""
    skipped = (1 << head_start) - 1
    last = targets.horizon - targets.delay + skipped
    steps = [steps_in_use(level, last) - steps_in_use(level, skipped) for level in range(levels)]
    if objective == "worst":
        return np.array([1.0 if count else _UNUSED for count in steps])
    return np.array([count / targets.horizon if count else _UNUSED for count in steps])
