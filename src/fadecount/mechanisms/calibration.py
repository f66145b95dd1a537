"""The inverse of the error: the smallest budget that meets a mean squared error."""

from __future__ import annotations

import math
from typing import TypeVar

from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms.base import Mechanism, require_mse

Shape = TypeVar("Shape", bound=Mechanism)


def smallest_meeting(shape: Shape, mse: float, horizon: int, resolution_bits: float) -> Shape:
    """The mechanism scaled by the smallest factor with which its error over the horizon is at most
    ``mse``.

    With continuous noise the error falls as ``1 / factor**2``, which gives the starting point.
    Discrete noise has less variance, so bisection looks below it, down to the last bit; rounding
    Gaussian noise adds a little.
    """
    mse = require_mse(mse)
    unit = shape.mse(horizon, resolution_bits=math.inf)
    if unit == 0.0:
        remedy = "outputs within the delay hold no noise to calibrate"
        raise bad_parameter("horizon", horizon, "greater than the delay", remedy)

    def meets(factor: float) -> bool:
        try:
            return shape.scaled(factor).mse(horizon, resolution_bits=resolution_bits) <= mse
        except ParameterError:
            return False  # a factor outside the range of budgets is no answer

    start = math.sqrt(unit / mse)
    attempts = (1.0, 1.0 + 1e-15, 1.0 + 1e-12, 1.2, 0.1, 0.01, 0.001, 1e-4, 1e-5)
    high = next((start * each for each in attempts if meets(start * each)), None)
    if high is None:
        remedy = "a larger error needs a smaller budget, and back"
        raise bad_parameter("mse", mse, "within reach of the budgets allowed", remedy)
    low = 0.5 * high
    while meets(low):
        low *= 0.5
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if meets(middle) else (middle, high)
    return shape.scaled(high)
