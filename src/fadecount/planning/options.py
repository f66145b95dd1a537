"""One option of a plan: a mechanism, its curve, its error, and why one would take it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fadecount.mechanisms import Designed, Gradual, Mechanism, minimum_error
from fadecount.planning.request import Request
from fadecount.planning.targets import Person

_THEOREM_BETA = 1.0 / 3.0
_SLOW = 1e-4
"""Below this loss at first sight the search for the lower bound would take more than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The errors that the noise causes, in counts.

    ``mean`` is the root of the mean squared error over the horizon. ``start`` and ``horizon`` bound the error of the first output
    that shows anything, and of the last; ``worst`` bounds the errors of all outputs at once; each fails with
    probability at most ``beta``. ``minimum`` is the least error that any mechanism with this loss curve can keep at all
    outputs with probability 2/3 (0 if unknown), and ``distance`` by which factor the mechanism's own bound is above it.
    """

    mean: float
    start: float
    horizon: float
    worst: float
    beta: float
    minimum: int
    distance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A mechanism that a plan offers.

    ``curve`` holds ``(age, loss)`` pairs, for a person if the plan is for one. ``share`` is the largest ratio of a loss to its
    target (None without targets), ``meets`` says whether the errors asked for are kept. ``reason`` is one sentence.
    """

    name: str
    mechanism: Gradual | Designed
    curve: tuple[tuple[int, float], ...]
    forecast: Forecast
    share: float | None
    meets: bool
    reason: str = ""


def forecast(mechanism: Gradual | Designed, request: Request) -> Forecast:
    """What the mechanism's noise will cause."""
    horizon, beta = request.horizon, request.beta
    least = minimum_error(mechanism, horizon) if mechanism.loss(mechanism.delay) >= _SLOW else 0
    own = mechanism.max_error_bound(horizon, _THEOREM_BETA, largest_input=0)
    return Forecast(
        mean=math.sqrt(mechanism.mse(horizon)),
        start=mechanism.error_bound(mechanism.delay + 1, beta, largest_input=0),
        horizon=mechanism.error_bound(horizon, beta, largest_input=0),
        worst=mechanism.max_error_bound(horizon, beta, largest_input=0),
        beta=beta,
        minimum=least,
        distance=own / least if least else None,
    )


def curve_ages(request: Request) -> list[int]:
    """The ages at which a curve is listed: the targets', the horizon, and one per doubling."""
    doublings = {1 << power for power in range(request.horizon.bit_length())}
    return sorted({0, request.horizon, *doublings, *(age for age, _ in request.targets)})


def person_losses(mechanism: Mechanism, ages: list[int], person: Person, delay: int) -> list[float]:
    """What all contributions of a person during the last ``age`` steps lose together, at most, rounded up."""
    if person == Person():
        return [float(loss) for loss in np.asarray(mechanism.loss(np.array(ages, dtype=np.int64)))]
    result = []
    for age in ages:
        parts = list(person.parts(age - delay + 1, fine=True)) if age >= delay else []
        single = np.asarray(mechanism.loss(np.array([reach - 1 + delay for reach, _ in parts], dtype=np.int64))).tolist()
        total = sum((Fraction(loss) * times for loss, (_, times) in zip(single, parts, strict=True)), Fraction(0))
        nearest = float(total)
        result.append(nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf))
    return result
