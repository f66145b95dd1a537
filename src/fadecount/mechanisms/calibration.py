"""The inverse of the error: the smallest budget that meets a mean squared error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import Mechanism, require_mse

Built = TypeVar("Built", bound=Mechanism)


def smallest_meeting(
    build: Callable[[float], Built], mse: float, horizon: int, resolution_bits: float
) -> Built:
    """The mechanism ``build(factor)`` with the smallest factor whose error over the horizon is at
    most ``mse``.

    The error of ``build(factor)`` must fall as the factor grows. With continuous noise it falls as
    ``1 / factor**2``, which gives the starting point; discrete noise has less variance, so
    bisection looks below it, down to the last bit.
    """
    mse = require_mse(mse)
    unit = build(1.0).mse(horizon, resolution_bits=math.inf)
    if unit == 0.0:
        raise bad_parameter(
            "horizon",
            horizon,
            "greater than the delay",
            "outputs within the delay hold no noise to calibrate",
        )

    def meets(factor: float) -> bool:
        try:
            return build(factor).mse(horizon, resolution_bits=resolution_bits) <= mse
        except ParameterError:
            return False  # a factor outside the range of budgets is no answer

    high = math.sqrt(unit / mse)
    for attempt in (1.0, 1.0 + 1e-15, 1.0 + 1e-12, 1.2, 0.1, 0.01, 0.001, 1e-4, 1e-5):
        if meets(high * attempt):
            high *= attempt
            break
    else:
        raise bad_parameter(
            "mse",
            mse,
            "within reach of the budgets allowed",
            "a larger error needs a smaller budget, and back",
        )
    low = 0.5 * high
    while meets(low):
        low *= 0.5
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if meets(middle) else (middle, high)
    return build(high)
