"""Argument checks: each brings an argument into one form, or refuses it in one clear line."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.errors import ParameterError, bad_parameter

Whole = int | NDArray[np.int64]

LONGEST = (1 << 60) - 1
"""The largest horizon, step, age, delay or window that may be asked about (more than 10**18)."""

LONGEST_TICK = 366 * 86400
"""The most seconds that a step or a tick may have."""

SMALLEST_BUDGET = 2.0**-30
LARGEST_BUDGET = 2.0**14
SMALLEST_DELTA = 1e-300
SMALLEST_BETA = 1e-280  # below it the share of one step of a long horizon is no float any more


def require_integer(name: str, value: Any, *, minimum: int, maximum: int, remedy: str) -> int:
    """``value`` as a plain int, or a :class:`ParameterError`. Booleans are not numbers here."""
    try:
        number = None if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not minimum <= number <= maximum:
        bound = f"an integer from {minimum} to {_power(maximum)}"
        raise bad_parameter(name, value, bound, remedy)
    return number


def require_real(
    name: str, value: Any, *, low: float, high: float, remedy: str, open_ends: bool = False
) -> float:
    """``value`` as a float within [low, high] (or (low, high) with ``open_ends``), or a
    :class:`ParameterError`."""
    try:
        unusable = isinstance(value, bool | np.bool | str | bytes)
        number = math.nan if unusable or getattr(value, "ndim", 0) > 0 else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    inside = low < number < high if open_ends else low <= number <= high
    if not inside:
        bound = f"{'strictly ' if open_ends else ''}between {low:.12g} and {high:.12g}"
        raise bad_parameter(name, value, bound, remedy)
    return number


def require_budget(name: str, value: Any) -> float:
    """A budget as a float that exact sums and samplers support, or a :class:`ParameterError`."""
    remedy = "a smaller budget is more private and noisier"
    return require_real(name, value, low=SMALLEST_BUDGET, high=LARGEST_BUDGET, remedy=remedy)


def set_fields(value: object, **fields: Any) -> None:
    """Write the checked fields of a frozen dataclass."""
    for name, each in fields.items():
        object.__setattr__(value, name, each)


def planned_tick(value: int | None) -> int | None:
    """The length of a step for which a mechanism was planned, in seconds, or None."""
    return None if value is None else require_tick("planned_tick_seconds", value)


def require_tick(name: str, value: int) -> int:
    remedy = "it is the length of a step in seconds, such as 3600"
    return require_integer(name, value, minimum=1, maximum=LONGEST_TICK, remedy=remedy)


def require_whole(name: str, value: ArrayLike, *, minimum: int, remedy: str) -> Whole:
    try:
        array = np.asarray(value)
    except ValueError:  # ragged nested lists
        raise bad_parameter(name, value, "an integer or an array of integers", remedy) from None
    if array.ndim == 0:
        scalar = value.item() if isinstance(value, np.ndarray) else value
        return require_integer(name, scalar, minimum=minimum, maximum=LONGEST, remedy=remedy)
    if array.dtype.kind not in "iu":
        raise bad_parameter(name, array.dtype, "an array of integers", remedy)
    if array.size:
        require_integer(
            f"smallest {name}", int(array.min()), minimum=minimum, maximum=LONGEST, remedy=remedy
        )
        require_integer(
            f"largest {name}", int(array.max()), minimum=minimum, maximum=LONGEST, remedy=remedy
        )
    return array.astype(np.int64)


def broadcast(ages: Whole, places: Whole) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    try:
        age, place = np.broadcast_arrays(ages, places)
    except ValueError:
        shapes = f"{np.shape(ages)} and {np.shape(places)}"
        raise ParameterError(
            f"age and position must have shapes that fit, got {shapes}; give one position per age"
        ) from None
    return np.array(age), np.array(place)


def shaped(values: NDArray[np.float64], like: Whole) -> float | NDArray[np.float64]:
    return values if isinstance(like, np.ndarray) else float(values)


def require_horizon(value: int) -> int:
    return require_integer(
        "horizon", value, minimum=1, maximum=LONGEST, remedy="it is the number of outputs looked at"
    )


def require_delta(value: float) -> float:
    remedy = "it is the chance that the promise may fail, such as 1e-9"
    return require_real("delta", value, low=SMALLEST_DELTA, high=0.5, open_ends=True, remedy=remedy)


def require_beta(value: float) -> float:
    remedy = "it is the probability that the bound may fail, such as 0.05"
    return require_real("beta", value, low=SMALLEST_BETA, high=1.0, open_ends=True, remedy=remedy)


def _power(number: int) -> str:
    exponent = number.bit_length() - 1
    return f"2**{exponent}" if number > 10**9 and number == 1 << exponent else str(number)
