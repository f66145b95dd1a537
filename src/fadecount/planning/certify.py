"""The exact check behind the promise of a design, and mechanisms scaled to what the check or an
error allows.

The check does not depend on any solver's tolerance.

Budgets are float64 numbers taken as exact. The loss of each part of each limit is computed exactly
and rounded up (:func:`~fadecount.mechanisms.level_budgets.worst_case`), summed as fractions, and
compared with the target. If the sum is too large, all budgets are scaled down by a little more each
time. The loss is proportional to the budgets, so this ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from fadecount.errors import ParameterError
from fadecount.mechanisms import Blocks, Gaussian, Gradual
from fadecount.mechanisms.level_budgets import worst_case
from fadecount.mechanisms.schedule import LEVELS
from fadecount.planning.request import Limit, Request, Targets


def excess(limits: Sequence[Limit], budgets: Sequence[float]) -> Fraction:
    """The largest ratio of a loss to its limit, never understated: at most 1 means that all limits
    are kept."""
    continued = [*budgets, *[budgets[-1]] * (LEVELS - len(budgets))]
    reaches = sorted({reach for limit in limits for reach, _ in limit.parts})
    ages = np.array(reaches, dtype=np.int64) - 1
    losses = dict(zip(reaches, worst_case(continued, ages).tolist(), strict=True))
    sums = exact_sums(losses, [limit.parts for limit in limits])
    return max(each / Fraction(limit.most) for each, limit in zip(sums, limits, strict=True))


def exact_sums(
    losses: Mapping[int, float], sums: Iterable[Sequence[tuple[int, int]]]
) -> list[Fraction]:
    """The sum of the losses of so many items each, for several lists of ``(reach, times)``."""
    ratios = {
        reach: loss.as_integer_ratio() if math.isfinite(loss) else (1 << 1000, 1)
        for reach, loss in losses.items()
    }
    unit = max((parts for _, parts in ratios.values()), default=1)  # a power of two, as all of them
    lost = {reach: number * (unit // parts) for reach, (number, parts) in ratios.items()}
    return [Fraction(sum(lost[reach] * times for reach, times in parts), unit) for parts in sums]


Shape = Blocks | Gradual | Gaussian

EXPONENTS = tuple(0.25 * step for step in range(33))
_NARROW = 1e-7


def best_gradual(targets: Targets) -> Gradual | None:
    """The gradual curve under the targets with the least mean squared error, over exponents from 0
    to 8; None if none can be drawn."""
    limits, errors = targets.limits(), {}
    for exponent in EXPONENTS:
        shape = _unscaled(targets, exponent)
        with contextlib.suppress(ParameterError):
            factor = 1.0 / float(excess(limits, shape.schedule.budgets))
            fitting = dataclasses.replace(shape, epsilon=shape.epsilon * factor)
            errors[exponent] = fitting.mse(targets.horizon)
    curves = (gradual(targets, exponent) for exponent in sorted(errors, key=errors.__getitem__))
    return next((each for each in curves if each is not None), None)


def gradual(targets: Targets, exponent: float) -> Gradual | None:
    """The gradual curve of an exponent with the largest budgets, up to rounding, that keep all
    targets exactly, or None if they cannot be drawn."""
    limits, shape = targets.limits(), _unscaled(targets, exponent)
    factor, slip = 1.0 / float(excess(limits, shape.schedule.budgets)), 2.0**-52
    while slip < 0.5:
        try:
            smaller = dataclasses.replace(shape, epsilon=shape.epsilon * (factor * (1.0 - slip)))
        except ParameterError:
            return None
        if excess(limits, smaller.schedule.budgets) <= 1:
            return smaller
        slip *= 2.0
    return None


def _unscaled(targets: Targets, exponent: float) -> Gradual:
    return Gradual(epsilon=2.0**-10, exponent=exponent, delay=targets.delay)


def meets(mechanism: Shape, request: Request) -> bool:
    """Whether the noise stays within every requested error."""
    horizon, mean, most = request.horizon, request.mean_error, request.max_error
    if mean is not None and math.sqrt(mechanism.mse(horizon)) > mean:
        return False
    return most is None or mechanism.max_error_bound(horizon, request.beta, largest_input=0) <= most


def least_factor(shape: Shape, request: Request) -> float | None:
    """The smallest factor at which the shape meets the requested errors, or None if no noise that
    can be drawn does."""

    def enough(factor: float) -> bool:
        try:
            return meets(shape.scaled(factor), request)
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
