"""Mechanisms of one shape, scaled: up to the largest loss that the targets allow, or to the least that an error allows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from fadecount.errors import ParameterError
from fadecount.mechanisms import Designed, Gradual
from fadecount.planning.certify import excess
from fadecount.planning.patterns import Limit
from fadecount.planning.request import Request
from fadecount.planning.targets import Targets

Shape = Gradual | Designed

EXPONENTS = tuple(0.25 * step for step in range(33))
_NARROW = 1e-7


def scaled(shape: Shape, factor: float) -> Shape:
    """The same shape with all budgets multiplied by a factor."""
    if isinstance(shape, Gradual):
        return dataclasses.replace(shape, epsilon=shape.epsilon * factor)
    return dataclasses.replace(shape, budgets=tuple(factor * budget for budget in shape.budgets))


def fitted(shape: Gradual, limits: Sequence[Limit]) -> Gradual:
    """The shape with the largest budgets, up to rounding, that keep all limits exactly."""
    factor, slip = 1.0 / float(excess(limits, shape.schedule.budgets)), 2.0**-52
    while slip < 0.5:
        found = dataclasses.replace(shape, epsilon=shape.epsilon * (factor * (1.0 - slip)))
        if excess(limits, found.schedule.budgets) <= 1:
            return found
        slip *= 2.0
    raise ParameterError("targets must be within reach of noise that can be drawn; allow a larger loss, or a shorter horizon")


def best_gradual(targets: Targets, cost: Callable[[Gradual], float]) -> Gradual | None:
    """The gradual curve under the targets with the least cost, over exponents from 0 to 8; None if none can be drawn."""
    best, least = None, math.inf
    for exponent in EXPONENTS:
        found = gradual(targets, exponent)
        if found is not None and (value := cost(found)) < least:
            best, least = found, value
    return best


def gradual(targets: Targets, exponent: float) -> Gradual | None:
    """The gradual curve of an exponent that uses up the targets, or None if its budgets cannot be drawn."""
    try:
        return fitted(Gradual(epsilon=2.0**-10, exponent=exponent, delay=targets.delay), targets.limits(fine=True))
    except ParameterError:
        return None


def meets(mechanism: Shape, request: Request) -> bool:
    """Whether the noise stays within every error asked for."""
    if request.mean_error is not None and math.sqrt(mechanism.mse(request.horizon)) > request.mean_error:
        return False
    return request.max_error is None or worst_error(mechanism, request) <= request.max_error


def worst_error(mechanism: Shape, request: Request) -> float:
    return mechanism.max_error_bound(request.horizon, request.beta, largest_input=0)


def least_factor(shape: Shape, request: Request) -> float | None:
    """The smallest factor at which the shape meets the errors asked for, or None if no noise that can be drawn does."""

    def enough(factor: float) -> bool:
        try:
            return meets(scaled(shape, factor), request)
        except ParameterError:
            return False

    low = high = 1.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 2.0**60:
            return None
    while low == high or enough(low):
        low, high = 0.5 * low, low
        if low < 2.0**-60:
            return high
    while high - low > _NARROW * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
