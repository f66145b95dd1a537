"""From requested losses and errors to a ranked list of mechanisms, each with its curve, its error
and the reason to choose it.

A plan file *is* the JSON of its mechanism, indented, with one more section named ``plan``.
``Mechanism.from_json`` reads only the mechanism. So a plan is accepted wherever a mechanism is, and
no edit of the section can change what runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from fadecount.durations import format_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import Designed, Gaussian, Loss, Mechanism, minimum_error
from fadecount.planning.certify import (
    Shape,
    best_gradual,
    exact_sums,
    gradual,
    least_factor,
    meets,
    scaled,
)
from fadecount.planning.design import cost_of, design_for, require_objective
from fadecount.planning.gaussian_design import gaussian_design_for, person_mu
from fadecount.planning.request import Person, Request, read_request

PLAN_VERSION = 1
_ALIKE = 0.005
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request and the options that answer it, best first."""

    request: Request
    options: tuple[Option, ...]

    @property
    def best(self) -> Option:
        """The first option: the recommended one."""
        return self.options[0]


def plan(
    targets: Mapping[int, float] | None = None,
    *,
    horizon: int | None = None,
    mean_error: float | None = None,
    max_error: float | None = None,
    beta: float = 0.05,
    delay: int = 0,
    person: Person | None = None,
    tick_seconds: float | None = None,
    objective: str = "mse",
    delta: float | None = None,
) -> Plan:
    """The mechanisms that fit the request, best first: designed and gradual ones, with and without
    the allowed delay.

    "designed" has the least mean squared error, "designed, even" the least variance at the last
    step, which is the worst. With ``objective="worst"`` "designed" has the least variance at the
    last step, and "designed, mean" the least mean squared error.

    Losses given (``targets``, ages to losses): each option keeps them, exactly, and the one with
    the least error comes first. Errors given (``mean_error``, or ``max_error`` with probability ``1
    - beta``): each option has that error, and the one that has lost least at the horizon comes
    first. Both given: the options that keep both come first, scaled down to what the error allows,
    so that they lose no more than necessary; the others say how far they are from it. With a
    ``delta`` (a small chance that the promise fails, such as 1e-9) the options include a Gaussian
    counter. Without a horizon the oldest target is the horizon. See :class:`Request` for the exact
    meaning of each error.

    >>> import fadecount as fc
    >>> fc.plan({60: 0.5, 43_200: 2.0, 525_600: 4.0}, horizon=525_600).best.name
    'designed'
    """
    require_objective(objective)
    request = read_request(
        horizon=horizon,
        targets=targets,
        mean_error=mean_error,
        max_error=max_error,
        beta=beta,
        delay=delay,
        person=person,
        tick_seconds=tick_seconds,
        objective=objective,
        delta=delta,
    )
    candidates = [_option(name, shape, request) for name, shape in _candidates(request)]
    fitting = [option for option in candidates if option is not None]
    options: list[Option] = []
    for option in sorted(fitting, key=lambda option: _rank(option, request)):
        if not any(_alike(option, other) for other in options):
            options.append(option)
    if not options:
        raise ParameterError(
            "no noise that can be drawn has the error asked for; ask for a larger one, or for a"
            " smaller one"
        )
    reasons = [_reason(request, option, options) for option in options]
    explained = (
        dataclasses.replace(option, reason=reason)
        for option, reason in zip(options, reasons, strict=True)
    )
    return Plan(request=request, options=tuple(explained))


def _candidates(request: Request) -> Iterator[tuple[str, Shape]]:
    """Shapes that use up the targets, with names."""

    def cost(mechanism: Shape) -> float:
        return cost_of(mechanism, request.horizon, request.objective)

    for delay in dict.fromkeys((0, request.delay)):
        targets = request.targets_with(delay)
        late = f", {delay} late" if delay else ""
        yield f"designed{late}", design_for(targets, request.objective)
        other, name = (
            ("mse", "designed, mean")
            if request.objective == "worst"
            else ("worst", "designed, even")
        )
        yield f"{name}{late}", design_for(targets, other)
        best = best_gradual(targets, cost)
        others = (
            gradual(targets, exponent)
            for exponent in (1.0, 2.0)
            if best is None or exponent != best.exponent
        )
        for shape in (best, *others):
            if shape is not None:
                yield f"gradual {shape.exponent:g}{late}", shape
        if request.delta is not None:
            yield f"gaussian{late}", gaussian_design_for(targets, request.objective, request.delta)


def _option(name: str, shape: Shape, request: Request) -> Option | None:
    mechanism, kept = shape, True
    if request.wants_error and (not request.targets or meets(shape, request)):
        factor = least_factor(shape, request)
        if factor is None:
            return None
        mechanism = scaled(shape, factor)
    elif request.wants_error:
        kept = False
    ages = _curve_ages(request)
    losses = [
        loss.epsilon for loss in person_losses(mechanism, ages, request.person, mechanism.delay)
    ]
    curve = tuple(zip(ages, losses, strict=True))
    allowed = dict(request.targets)
    shares = [loss / allowed[age] for age, loss in curve if age in allowed]
    return Option(
        name=name,
        mechanism=dataclasses.replace(mechanism, planned_tick_seconds=request.tick_seconds),
        curve=curve,
        forecast=_forecast(mechanism, request),
        share=max(shares, default=None),
        meets=kept,
    )


def _alike(option: Option, other: Option) -> bool:
    """Whether a second design differs too little from the first to be worth a line."""
    one, two = option.mechanism, other.mechanism
    if (one.kind, one.delay) != (two.kind, two.delay):
        return False
    figures = (
        (each.forecast.mean, each.forecast.worst, each.curve[-1][1]) for each in (option, other)
    )
    return all(
        abs(first - second) <= _ALIKE * second for first, second in zip(*figures, strict=True)
    )


def _rank(option: Option, request: Request) -> tuple[bool, float]:
    if not request.targets:
        return False, option.curve[-1][1]
    if not option.meets or not request.wants_error:
        worst = request.objective == "worst"
        return not option.meets, option.forecast.horizon if worst else option.forecast.mean
    return False, math.inf if option.share is None else option.share


def _forecast(mechanism: Shape, request: Request) -> Forecast:
    """What the mechanism's noise will cause."""
    horizon, beta = request.horizon, request.beta
    # The bound is for pure losses.
    known = not isinstance(mechanism, Gaussian) and mechanism.loss(mechanism.delay) >= _SLOW
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


def _curve_ages(request: Request) -> list[int]:
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


# The reason, in one sentence
# ------------------------------------------------------------------------------------------------
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
    if request.tick_seconds is None:
        return f"{delay} steps"
    return format_duration(delay * request.tick_seconds)


# The plan file
# ------------------------------------------------------------------------------------------------
def plan_dict(made: Plan, chosen: Option) -> dict[str, object]:
    """What a plan file holds in addition to the mechanism, as plain values."""
    request = dataclasses.asdict(made.request)
    request["targets"] = {str(age): loss for age, loss in made.request.targets}
    return {
        "request": {name: value for name, value in request.items() if value is not None},
        "option": _option_dict(chosen),
        "alternatives": [_option_dict(option) for option in made.options if option is not chosen],
    }


def _option_dict(option: Option) -> dict[str, object]:
    """An option as plain values, for JSON."""
    return {
        "name": option.name,
        "reason": option.reason,
        "meets": option.meets,
        "share_of_targets": option.share,
        "forecast": dataclasses.asdict(option.forecast),
        "curve": {str(age): loss for age, loss in option.curve},
    }


def plan_json(made: Plan, chosen: Option | None = None) -> str:
    """The text of a plan file for an option, by default the best."""
    option = made.best if chosen is None else chosen
    mechanism = json.loads(option.mechanism.to_json())
    return (
        json.dumps(
            {**mechanism, "plan": {"version": PLAN_VERSION, **plan_dict(made, option)}},
            indent=2,
            allow_nan=False,
        )
        + "\n"
    )


def save_plan(
    path: str | Path, made: Plan, chosen: Option | None = None, *, force: bool = False
) -> None:
    """Write a plan file. An existing file is refused unless ``force`` is given: a running counter
    may depend on it."""
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(plan_json(made, chosen))
    except FileExistsError:
        raise ParameterError(
            f"save must be a new file, got {str(path)!r}; choose another name, or overwrite it with"
            " force (--force)"
        ) from None
    except OSError as error:
        raise ParameterError(
            f"save must be a writable file, got {str(path)!r} ({error.strerror}); check the path"
        ) from error
