"""One option of a plan: a mechanism, its curve, its error, and the reason to choose it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fadecount.durations import format_duration
from fadecount.mechanisms import Designed, Gaussian, Loss, Mechanism, minimum_error
from fadecount.planning.certify import Shape, exact_sums, least_factor
from fadecount.planning.gaussian_design import person_mu
from fadecount.planning.request import Person, Request

_THEOREM_BETA = 1.0 / 3.0
_SLOW = 1e-4
"""Below this first loss the search for the lower bound would take more than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The errors that the noise causes, in counts.

    ``mean`` is the root of the mean squared error over the horizon. ``start`` and ``horizon`` bound
    the error of the first output that shows anything, and of the last; ``worst`` bounds the errors
    of all outputs at once; each fails with probability at most ``beta``. ``minimum`` is the least
    error that any mechanism with this loss curve can keep at all outputs with probability 2/3 (0 if
    unknown), and ``distance`` by which factor the mechanism's own bound is above it.
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

    ``curve`` holds ``(age, loss)`` pairs, for a person if the plan is for one. ``share`` is the
    largest ratio of a loss to its target (None without targets), ``meets`` says whether the errors
    asked for are kept. ``reason`` is one sentence.
    """

    name: str
    mechanism: Shape
    curve: tuple[tuple[int, float], ...]
    forecast: Forecast
    share: float | None
    meets: bool
    reason: str = ""


def forecast(mechanism: Shape, request: Request) -> Forecast:
    """What the mechanism's noise will cause."""
    horizon, beta = request.horizon, request.beta
    known = (
        not isinstance(mechanism, Gaussian) and mechanism.loss(mechanism.delay) >= _SLOW
    )  # the bound is for pure losses
    least = minimum_error(mechanism, horizon) if known else 0
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


def person_losses(mechanism: Mechanism, ages: list[int], person: Person, delay: int) -> list[Loss]:
    """What all contributions of a person during the last ``age`` steps lose together, at most,
    rounded up."""
    whole = np.array(ages, dtype=np.int64)
    if isinstance(mechanism, Gaussian):
        event = person == Person()
        amounts = (
            np.asarray(mechanism.mu(whole))
            if event
            else [person_mu(mechanism, age, person, delay) for age in ages]
        )
        return [Loss(float(mu), mechanism.delta) for mu in amounts]
    if person == Person():
        return [Loss(float(loss)) for loss in np.asarray(mechanism.loss(whole))]
    every = [
        list(person.parts(age - delay + 1, fine=True, per_key=person.keys)) if age >= delay else []
        for age in ages
    ]
    reaches = sorted({reach for parts in every for reach, _ in parts})
    single = np.asarray(mechanism.loss(np.array(reaches, dtype=np.int64) - 1 + delay)).tolist()
    result = []
    for total in exact_sums(dict(zip(reaches, single, strict=True)), every):
        nearest = float(total)
        result.append(
            Loss(nearest if Fraction(nearest) >= total else math.nextafter(nearest, math.inf))
        )
    return result


def with_reasons(request: Request, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options, each with a sentence that compares it with the others."""
    return tuple(
        dataclasses.replace(option, reason=_reason(request, option, options)) for option in options
    )


def _reason(request: Request, option: Option, options: Sequence[Option]) -> str:
    parts = [_standing(request, option, options), _character(option)]
    rivals = [other for other in options if isinstance(other.mechanism, Gaussian)]
    if option is options[0] and rivals and option not in rivals:
        parts.append(
            "better here than Gaussian noise, which costs more where the loss of the first moments"
            " is the tight one"
        )
    if option.mechanism.delay:
        parts.append(f"outputs lag by {_lag(request, option.mechanism.delay)}")
    return "; ".join(part for part in parts if part) + "."


def _standing(request: Request, option: Option, options: Sequence[Option]) -> str:
    best = options[0]
    if not option.meets:
        factor = least_factor(option.mechanism, request)
        return "misses the error asked for" + (
            f", which needs {factor:.3g} times the losses" if factor else ""
        )
    if not request.targets:
        if option is best:
            return "loses least by the horizon, of these options, for this error"
        return (
            f"loses {_compared(option.curve[-1][1], best.curve[-1][1], '')} by the horizon for the"
            " same error"
        )
    if request.wants_error:
        return (
            f"has the error asked for with {100.0 * (option.share or 0.0):.3g} % of the losses"
            " allowed"
        )
    if option is best:
        return "has the least error of these options under these losses"
    if request.objective == "worst":
        return (
            f"has {_compared(option.forecast.horizon, best.forecast.horizon, ' error')} at the"
            " horizon compared with the best"
        )
    return (
        f"has {_compared(option.forecast.mean, best.forecast.mean, ' error')} compared with the"
        " best"
    )


def _character(option: Option) -> str:
    if isinstance(option.mechanism, Gaussian):
        return f"Gaussian noise, whose promise may fail with probability {option.mechanism.delta:g}"
    if isinstance(option.mechanism, Designed):
        chosen = ", chosen for the last step" if "even" in option.name else ""
        return f"every level has its own budget{chosen}"
    return f"one formula, a loss of the order log(age)^{option.mechanism.exponent:g}"


def _compared(value: float, least: float, what: str) -> str:
    """A phrase that says how much larger a value is than the least one."""
    more = 100.0 * (value / least - 1.0) if least > 0 else math.inf
    return f"about as little{what}" if more < 0.05 else f"{more:.3g} % more{what}"


def _lag(request: Request, delay: int) -> str:
    return (
        f"{delay} steps"
        if request.tick_seconds is None
        else format_duration(delay * request.tick_seconds)
    )
