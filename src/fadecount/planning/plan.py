"""From requested losses and errors to a ranked list of mechanisms.

A plan file *is* the JSON of its mechanism, indented, with one more section named ``plan``.
``Mechanism.from_json`` reads only the mechanism. So a plan is accepted wherever a mechanism is, and
no edit of the section can change what runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fadecount.errors import ParameterError
from fadecount.planning.certify import Shape, best_gradual, gradual, least_factor, meets, scaled
from fadecount.planning.design import cost_of, design_for, require_objective
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.options import Option, curve_ages, forecast, person_losses, with_reasons
from fadecount.planning.request import Person, Request, read_request

_ALIKE = 0.005


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
    return plan_for(
        read_request(
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
    )


def plan_for(request: Request) -> Plan:
    """The same for a checked request."""
    found = [
        option
        for name, shape in _candidates(request)
        if (option := _option(name, shape, request)) is not None
    ]
    options: list[Option] = []
    for option in sorted(found, key=lambda option: _rank(option, request)):
        if not any(_alike(option, other) for other in options):
            options.append(option)
    if not options:
        raise ParameterError(
            "no noise that can be drawn has the error asked for; ask for a larger one, or for a"
            " smaller one"
        )
    return Plan(request=request, options=with_reasons(request, options))


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
    ages = curve_ages(request)
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
        forecast=forecast(mechanism, request),
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


def plan_dict(made: Plan, chosen: Option) -> dict[str, object]:
    """What a plan file holds in addition to the mechanism, as plain values."""
    request = dataclasses.asdict(made.request)
    request["targets"] = {str(age): loss for age, loss in made.request.targets}
    return {
        "request": {name: value for name, value in request.items() if value is not None},
        "option": option_dict(chosen),
        "alternatives": [option_dict(option) for option in made.options if option is not chosen],
    }


def option_dict(option: Option) -> dict[str, object]:
    """An option as plain values, for JSON."""
    return {
        "name": option.name,
        "reason": option.reason,
        "meets": option.meets,
        "share_of_targets": option.share,
        "forecast": dataclasses.asdict(option.forecast),
        "curve": {str(age): loss for age, loss in option.curve},
    }


PLAN_VERSION = 1


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
