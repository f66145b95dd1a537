"""The exact check of a design, on which its promise rests: no solver's tolerance enters it.

Budgets are float64 numbers taken as exact. The loss of each part of each limit is computed exactly and rounded up
(:func:`fadecount.mechanisms.dyadic.worst_case`), summed as fractions, and compared with the target. If the sum is too large, all
budgets are scaled down by a little more each time. The loss is proportional to the budgets, so this ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fadecount.errors import ParameterError
from fadecount.mechanisms.arguments import LARGEST_BUDGET, SMALLEST_BUDGET
from fadecount.mechanisms.dyadic import worst_case
from fadecount.mechanisms.schedule import LEVELS
from fadecount.planning.convex import Vector
from fadecount.planning.patterns import Limit, Patterns


def excess(limits: Sequence[Limit], budgets: Sequence[float]) -> Fraction:
    """The largest ratio of a loss to what it may be, never too small: at most 1 means that all limits are kept."""
    continued = [*budgets, *[budgets[-1]] * (LEVELS - len(budgets))]
    reaches = sorted({reach for limit in limits for reach, _ in limit.parts})
    ages = np.array(reaches, dtype=np.int64) - 1
    exact = [worst_case(continued, int(age)) for age in ages] if len(ages) < 30 else worst_case(continued, ages)
    lost = dict(zip(reaches, map(_fraction, np.asarray(exact).tolist()), strict=True))
    return max(sum(lost[reach] * times for reach, times in limit.parts) / Fraction(limit.most) for limit in limits)


def certified(limits: Sequence[Limit], budgets: Vector) -> tuple[float, ...]:
    """The largest multiple of the budgets, up to rounding, that keeps all limits exactly; inf stays inf."""
    patterns = Patterns(limits, len(budgets))
    payments = patterns.matrix(patterns.cheapest(budgets))
    factor = 1.0 / float((payments @ np.where(payments.any(axis=0), budgets, 0.0)).max())
    slip = 2.0**-51
    while slip < 0.5:
        chosen = _within(budgets * (factor * (1.0 - slip)))
        if excess(limits, chosen) <= 1:
            return chosen
        slip *= 2.0
    smallest = min(limits, key=lambda limit: limit.most)
    raise ParameterError(
        f"targets must be within reach of noise that can be drawn, got a loss of {smallest.most:.12g};"
        " allow a larger loss, or a shorter horizon"
    )


def _within(budgets: Vector) -> tuple[float, ...]:
    """The budgets in the range that exact sums and samplers support. Less than the least is raised, and may then fail."""
    kept = np.where(np.isinf(budgets), np.inf, np.clip(budgets, SMALLEST_BUDGET, LARGEST_BUDGET))
    return tuple(kept.tolist())


def _fraction(loss: float) -> Fraction:
    return Fraction(loss) if math.isfinite(loss) else Fraction(1 << 1000)
