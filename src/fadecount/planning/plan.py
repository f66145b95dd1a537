"""From requested losses and errors to a ranked list of mechanisms, each with its curve, its error
and the reason to choose it.

A plan file *is* the JSON of its mechanism, indented, with one more section named ``plan`` (and one
named ``discovery`` where keys appear by themselves). ``Mechanism.from_json`` reads only the
mechanism. So a plan is accepted wherever a mechanism is, and no edit of the section can change what
runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fadecount.durations import UNITS, BlockLength, format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Discovery, Gaussian
from fadecount.mechanisms.blocks import Blocks
from fadecount.planning.blocks import DAYS, blocks_for, in_steps, wish_for
from fadecount.planning.certify import (
    Shape,
    best_gradual,
    gradual,
    least_factor,
    meets,
)
from fadecount.planning.discovery import appearances, discovery_for
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.published import (
    PublishedFigure,
    Width,
    lost,
    published_figures,
    widths,
)
from fadecount.planning.request import Person, Request, read_request

PLAN_VERSION = 1
_ALIKE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The errors of the live total that the noise causes, in counts.

    ``mean`` is the root of the mean squared error over the horizon; ``worst`` bounds the errors of
    all outputs at once, except with probability ``beta``.
    """

    mean: float
    worst: float
    beta: float


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
    def discovery(self) -> Discovery | None:
        """How keys appear by themselves, with every option; None if that was not asked for."""
        return discovery_for(self.request)

    @property
    def best(self) -> Option:
        """The first option: the recommended one."""
        return self.options[0]

    @property
    def mechanism(self) -> Shape:
        """The mechanism of the first option."""
        return self.best.mechanism

    def published(self, option: Option | None = None) -> list[PublishedFigure]:
        """What an option, by default the best, publishes when, what is lost by then, and how exact
        it is."""
        return published_figures((option or self.best).mechanism, self.request)

    def widths(self, option: Option | None = None) -> list[Width]:
        """How exact the counts of an option, by default the best, will be: so far today, an hour, a
        day, a month, and the total after a year."""
        return widths((option or self.best).mechanism, self.request)


def plan(
    loss: Mapping[int, float] | Mapping[str, float] | None = None,
    *,
    tick: str | float | None = None,
    horizon: int | str | None = None,
    mean_error: float | None = None,
    max_error: float | None = None,
    beta: float = 0.05,
    delay: int | str = 0,
    person: Person | None = None,
    figures: Mapping[int, float] | Mapping[str, float] | None = None,
    delta: float | None = None,
    discover: str | Mapping[str, float] | None = None,
) -> Plan:
    """The mechanisms that fit the request, best first: block counters and the paper's gradual ones,
    with and without the allowed delay.

    "blocks" has levels that people read, among them hours and days, and a total within a few per
    cent of the best; "blocks for the total" has the least mean squared error of the live total,
    "blocks for days" sharper days. They need the length of a step, ``tick``. With ``figures``,
    which maps lengths to the weights of their figures beside the total, "blocks" is for these.

    Losses given (``loss``, ages to losses): each option keeps them, exactly, and the one with the
    least error comes first. Errors given (``mean_error``, or ``max_error`` with probability ``1 -
    beta``): each option has that error, and the one that has lost least at the horizon comes first.
    Both given: the options that keep both come first, scaled down to what the error allows, so that
    they lose no more than necessary; the others say how far they are from it. With a ``delta`` (a
    small chance that the promise fails, such as 1e-9) the options include a Gaussian counter.

    With ``discover="1d"`` keys appear by themselves: ``Plan.discovery`` has stages that use up the
    losses, for a ``person`` of that length, at ``delta``, beside block counters for declared keys.
    ``{"1d": 0.5}`` gives it half of every loss and the other half to the counters: for streams
    whose events count twice, under their hidden key and under ``other``.

    Ages, lengths, ``horizon`` and ``delay`` are durations such as "30d", or numbers of steps;
    ``tick`` is a duration, or a number of seconds. Without a horizon the oldest age is the horizon.
    See :class:`Request` for the exact meaning of each error.

    >>> import fadecount as fc
    >>> year = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4})
    >>> days = [figure for figure in year.published() if figure.length == 1440]
    >>> [(figure.status, figure.lag, figure.loss, figure.half_width) for figure in days]
    [('final', 61, 2.0, 5)]
    >>> year.best.name, [level.length for level in year.mechanism.levels]
    ('blocks', [1, 20, 60, 1440, 43200])
    """
    request = read_request(
        loss=loss,
        tick=tick,
        horizon=horizon,
        mean_error=mean_error,
        max_error=max_error,
        beta=beta,
        delay=delay,
        person=person,
        figures=figures,
        delta=delta,
        discover=discover,
    )
    discovery_for(request)  # refuses what it cannot be
    candidates = [_option(name, shape, request) for name, shape in _candidates(request)]
    fitting = [option for option in candidates if option is not None]
    options: list[Option] = []
    for option in sorted(fitting, key=lambda option: _rank(option, fitting, request)):
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
    horizon, tick = request.horizon, request.tick_seconds
    for delay in dict.fromkeys((0, request.delay)):
        targets = request.targets_with(delay)
        late = f", {delay} late" if delay else ""
        wishes = {"blocks": None if request.figures is None else dict(request.figures)}
        if days := in_steps(DAYS, tick, horizon):
            wishes |= {"blocks for the total": {}, "blocks for days": days}
        for name, figures in wishes.items():
            blocks = blocks_for(targets, wish_for(horizon, tick, figures))
            if blocks is not None:
                yield f"{name}{late}", blocks
        if request.discover is not None:
            continue
        best = best_gradual(targets)
        others = (
            gradual(targets, exponent)
            for exponent in (1.0, 2.0)
            if best is None or exponent != best.exponent
        )
        for shape in (best, *others):
            if shape is not None:
                yield f"gradual {shape.exponent:g}{late}", shape
        if request.delta is not None:
            yield f"gaussian{late}", gaussian_design_for(targets, request.delta)


def _option(name: str, shape: Shape, request: Request) -> Option | None:
    mechanism, kept = shape, True
    if request.wants_error and (not request.targets or meets(shape, request)):
        factor = least_factor(shape, request)
        if factor is None:
            return None
        mechanism = shape.scaled(factor)
    elif request.wants_error:
        kept = False
    ages = _curve_ages(request)
    curve = tuple(zip(ages, lost(mechanism, ages, request), strict=True))
    allowed = dict(request.targets)
    shares = [loss / allowed[age] for age, loss in curve if age in allowed]
    return Option(
        name=name,
        mechanism=_for_tick(mechanism, request.tick_seconds),
        curve=curve,
        forecast=Forecast(
            mean=math.sqrt(mechanism.mse(request.horizon)),
            worst=mechanism.max_error_bound(request.horizon, request.beta, largest_input=0),
            beta=request.beta,
        ),
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


def _rank(option: Option, options: Sequence[Option], request: Request) -> tuple[float, ...]:
    """Block counters stand together where their best total does; among them the readable first."""
    if not request.targets:
        return (option.curve[-1][1],)
    if not option.meets or not request.wants_error:
        alike = [each for each in options if each.mechanism.kind == option.mechanism.kind]
        together = alike if isinstance(option.mechanism, Blocks) else [option]
        least = min(
            each.forecast.mean
            for each in together
            if each.mechanism.delay == option.mechanism.delay
        )
        return not option.meets, least, " for " in option.name, option.forecast.mean
    return (False, math.inf if option.share is None else option.share)


def _for_tick(mechanism: Shape, tick_seconds: float | None) -> Shape:
    """The mechanism, planned for steps of this length."""
    if isinstance(mechanism, Blocks):
        return Blocks(*mechanism.levels, planned_tick_seconds=tick_seconds)
    return dataclasses.replace(mechanism, planned_tick_seconds=tick_seconds)


def _curve_ages(request: Request) -> list[int]:
    """The ages at which a curve is listed: the targets', the horizon, and one per doubling."""
    doublings = {1 << power for power in range(request.horizon.bit_length())}
    return sorted({0, request.horizon, *doublings, *(age for age, _ in request.targets)})


# The reason, in one sentence
# ------------------------------------------------------------------------------------------------
def _reason(request: Request, option: Option, options: Sequence[Option]) -> str:
    parts = [_standing(request, option, options), _character(option)]
    rivals = [other for other in options if isinstance(other.mechanism, Gaussian)]
    if option is options[0] and rivals and option not in rivals:
        parts.append("better here than Gaussian noise, and its promise never fails")
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
            f"loses {_compared(option.curve[-1][1], best.curve[-1][1], '')} by the horizon than the"
            " first, for the same error"
        )
    if request.wants_error:
        return (
            f"has the error asked for with {100.0 * (option.share or 0.0):.3g} % of the losses"
            " allowed"
        )
    if option is best and option.forecast.mean == min(each.forecast.mean for each in options):
        return "has the least error of these options under these losses"
    if option is best:
        return "has nearly the least error of these options, and hours and days that can be read"
    return f"has {_compared(option.forecast.mean, best.forecast.mean, ' error')} than the first"


def _character(option: Option) -> str:
    if isinstance(option.mechanism, Gaussian):
        return f"Gaussian noise, whose promise may fail with probability {option.mechanism.delta:g}"
    if isinstance(option.mechanism, Blocks):
        return f"figures of {len(option.mechanism.levels)} lengths, each with noise of its own"
    return f"one formula, a loss of the order log(age)^{option.mechanism.exponent:g}"


def _compared(value: float, least: float, what: str) -> str:
    """A phrase that says how much larger or smaller a value is than that of the first option."""
    more = 100.0 * (value / least - 1.0) if least > 0 else math.inf
    if abs(more) < 0.05:
        return f"no more{what}"
    return f"{abs(more):.3g} % {'more' if more > 0 else 'less'}{what}"


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
    published = [dataclasses.asdict(figure) for figure in made.published(chosen)]
    exact = [dataclasses.asdict(width) for width in made.widths(chosen)]
    discovery = made.discovery
    keys = (
        [] if discovery is None else [dataclasses.asdict(each) for each in appearances(discovery)]
    )
    return {
        "request": {name: value for name, value in request.items() if value is not None},
        **({"appearances": keys} if keys else {}),
        "option": {**_option_dict(chosen), "published": published, "widths": exact},
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
    if made.discovery is not None:
        mechanism["discovery"] = json.loads(made.discovery.to_json())
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
    """Write a plan file that streams accept. An existing file is refused unless ``force`` is given:
    a running counter may depend on it."""
    _require_runnable(made.request, (chosen or made.best).mechanism)
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(plan_json(made, chosen))
    except FileExistsError:
        raise ParameterError(
            f"save must be a new file, got {str(path)!r}; choose another name, or give force to"
            " overwrite it"
        ) from None
    except OSError as error:
        raise ParameterError(
            f"save must be a writable file, got {str(path)!r} ({error.strerror}); check the path"
        ) from error


def _require_runnable(request: Request, mechanism: Shape) -> None:
    """Refuse a plan that no stream would accept: a person whom it cannot cap, steps that are no
    ticks, levels that are not on the calendar of the steps."""
    if not request.person.is_enforceable:
        raise bad_parameter(
            "person", request.person, "what a stream can cap, to be saved", "such as per='1d'"
        )
    tick, day = request.tick_seconds, UNITS["d"]
    if tick is not None and not (tick % 1 == 0 and tick <= 366 * day):
        remedy = "streams have ticks from a second to a year"
        raise bad_parameter("tick", tick, "whole seconds, to be saved", remedy)
    if isinstance(mechanism, Blocks) and len(mechanism.levels) > 1:
        lengths = [level.length for level in mechanism.levels]
        fit = tick is not None and day % tick == 0
        if tick is None or not (fit and all(BlockLength.of_ticks(each, tick) for each in lengths)):
            shown = "none" if tick is None else format_duration(tick)
            remedy = "blocks of other lengths are no slots of a calendar"
            raise bad_parameter("tick", shown, "a part of a day, to save blocks", remedy)
