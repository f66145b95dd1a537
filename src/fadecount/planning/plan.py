"""From requested losses and errors to the mechanism with the least error (:func:`design`), and to
a ranked list of mechanisms, each with its curve, its error and the reason to choose it
(:func:`plan`).

A plan file *is* the JSON of its mechanism, indented, with one more section named ``plan`` (and one
named ``discovery`` where keys appear by themselves). ``Mechanism.from_json`` reads only the
mechanism. So a plan is accepted wherever a mechanism is, and no edit of the section can change what
runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fadecount.calendar import Length
from fadecount.durations import UNITS, format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import ONE_EVENT, Blocks, Discovery, Gradual, Totals, Unit
from fadecount.planning.blocks import (
    DAYS,
    block_request_for,
    blocks_for,
    in_steps,
    totals_for,
)
from fadecount.planning.discovery import appearances, discovery_for
from fadecount.planning.published import (
    PublishedFigure,
    Shape,
    Width,
    lost,
    published_figures,
    widths,
)
from fadecount.planning.request import Request, read_request

PLAN_VERSION = 1
EXPONENTS = tuple(0.25 * step for step in range(33))
_MINUTES = 5
"""Where a tick is a minute, a plan offers figures every so many minutes beside those of each."""


def design(
    targets: Mapping[int, float], *, horizon: int, delay: int = 0, unit: Unit = ONE_EVENT
) -> Totals | Gradual:
    """The running total with the least error over the horizon that the search finds, and a loss at
    or below every target: totals from tied blocks, or the paper's gradual one where that is better,
    which is where the loss of the first few steps is the tight one.

    ``targets`` maps ages to losses. Between two targets the limit is that of the next one; past the
    last one the last holds to the horizon. With a person as the ``unit`` the targets limit what all
    contributions of one person in a slot lose together (docs/planning.md). The error is the mean
    squared error over the steps ``1 .. horizon``. Counters in Python and one-off runs take the
    result; what a store publishes comes from :func:`plan`.

    Guarantees: the loss of the result, computed exactly, is at or below the target at every age
    from 0 to the horizon. What happens after the horizon is not part of the plan. The same call
    gives the same result on every machine.

    >>> import fadecount as fc
    >>> total = fc.design({60: 0.5, 43_200: 2.0, 525_600: 4.0}, horizon=525_600)
    >>> total.mse(525_600) ** 0.5 < 17.5, total.loss(60), total.loss(61), total.loss(525_600)
    (True, 0.5, 2.0, 4.0)
    """
    request = read_request(loss=targets, horizon=horizon, delay=delay, unit=unit, name="targets")
    made = [each for each in (totals_for(request), best_gradual(request)) if each is not None]
    if not made:
        raise ParameterError(
            "targets must be within reach of noise that can be drawn, got a loss of"
            f" {request.targets[0][1]:.12g}; allow a larger loss, or a shorter horizon"
        )
    return min(made, key=lambda each: each.mse(request.horizon))


def best_gradual(request: Request) -> Gradual | None:
    """The gradual curve under the limits with the least mean squared error, over exponents from 0
    to 8; None if none can be drawn."""
    curves = [gradual(request, exponent) for exponent in EXPONENTS]
    drawn = [each for each in curves if each is not None]
    return min(drawn, key=lambda each: each.mse(request.horizon), default=None)


def gradual(request: Request, exponent: float) -> Gradual | None:
    """The gradual curve of an exponent with the largest budgets, up to rounding, that keep all
    limits exactly, or None if they cannot be drawn."""
    shape = Gradual(epsilon=2.0**-10, exponent=exponent, delay=request.delay)
    room = [most / request.unit.loss(shape, age).epsilon for age, most in request.limits()]
    slip = 2.0**-52
    while True:
        try:
            factor = min(room) * (1.0 - slip)
            curve = dataclasses.replace(shape, epsilon=shape.epsilon * factor)
        except ParameterError:
            return None
        if request.kept_by(curve):
            return curve
        slip *= 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A mechanism that a plan offers.

    ``curve`` holds ``(age, loss)`` pairs, for a person if the plan is for one. ``error`` is the
    root of the mean squared error of the live total over the horizon, in counts: what the noise
    causes. ``reason`` is one sentence.
    """

    name: str
    mechanism: Shape
    curve: tuple[tuple[int, float], ...]
    error: float
    reason: str = ""

    @property
    def final_loss(self) -> float:
        """The loss by the horizon."""
        return self.curve[-1][1]


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
    tick: str | int | None = None,
    horizon: int | str | None = None,
    mean_error: float | None = None,
    delay: int | str = 0,
    unit: Unit = ONE_EVENT,
    figures: Mapping[int, float] | Mapping[str, float] | None = None,
    delta: float | None = None,
    discover: str | Mapping[str, float] | None = None,
) -> Plan:
    """The mechanisms that fit the request, best first: block counters and the paper's best gradual
    one.

    "blocks" has levels that people read, among them hours and days, and a total within a few per
    cent of the best; "blocks for the total" has the least mean squared error of the live total,
    "blocks for days" sharper days. Where a tick is a minute, "blocks every 5 minutes" has a live
    total that changes less often and is a quarter more exact. With ``figures``,
    which maps lengths to the weights of their figures beside the total, "blocks" is for these.

    Losses given (``loss``, ages to losses): each option keeps them, exactly, and the one with the
    least error comes first. With ``mean_error``, the root of the mean squared error of the live
    total over the horizon, each option has that error, and the one that has lost least at the
    horizon comes first; with losses too, only options that keep both.

    With ``discover="1d"`` keys appear by themselves: ``Plan.discovery`` has stages that use up the
    losses, for a ``person`` of that length, beside block counters for declared keys; ``delta`` is
    the chance (such as 1e-9) with which a key may appear that this person alone brought.
    ``{"1d": 0.5}`` gives it half of every loss and the other half to the counters: for streams
    whose events count twice, under their hidden key and under ``other``.

    With a ``delay`` outputs lag by that much, and lose nothing until then.

    Ages, lengths, ``horizon`` and ``delay`` are durations such as "30d", or numbers of steps;
    ``tick`` is a duration, or a number of seconds. Without a horizon the oldest age is the horizon.

    >>> import fadecount as fc
    >>> year = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4})
    >>> days = [figure for figure in year.published() if figure.length == 1440]
    >>> [(figure.status, figure.lag, figure.loss, figure.half_width) for figure in days]
    [('provisional', 61, 2.0, 4), ('final', 43201, 4.0, 2)]
    >>> year.best.name, [level.length for level in year.mechanism.levels]
    ('blocks', [1, 12, 60, 1440, 43200])
    """
    request = read_request(
        loss=loss,
        tick=tick,
        horizon=horizon,
        mean_error=mean_error,
        delay=delay,
        unit=unit,
        figures=figures,
        delta=delta,
        discover=discover,
    )
    discovery_for(request)  # refuses what it cannot be
    made = [_option(name, shape, request) for shape, name in _candidates(request).items()]
    options = _ranked([option for option in made if option is not None], request)
    if not options and mean_error is None:
        remedy = "allow more, or plan for a smaller unit"
        raise bad_parameter("loss", loss, "one that some noise can keep", remedy)
    if not options:
        bound = "an error that noise under these losses can have"
        raise bad_parameter("mean_error", mean_error, bound, "ask for another, or allow more")
    return Plan(
        request=request,
        options=tuple(
            dataclasses.replace(option, reason=_reason(request, option, options))
            for option in options
        ),
    )


def _candidates(request: Request) -> dict[Shape, str]:
    """Shapes that use up the targets, and their names."""
    names: dict[Shape, str] = {}
    requests = {"blocks": block_request_for(request)}
    if days := in_steps(DAYS, request.tick_seconds, request.horizon):
        for name, figures in (("blocks for the total", {}), ("blocks for days", days)):
            weighted = dataclasses.replace(request, figures=tuple(figures.items()))
            requests[name] = block_request_for(weighted)
        if request.tick_seconds == UNITS["m"]:
            requests[f"blocks every {_MINUTES} minutes"] = block_request_for(request, _MINUTES)
    for name, each in requests.items():
        blocks = blocks_for(request, each)
        if blocks is not None:
            names.setdefault(blocks, name)
    if request.discover is None:
        curve = best_gradual(request)
        if curve is not None:
            names[curve] = f"gradual {curve.exponent:g}"
    return names


def _option(name: str, shape: Shape, request: Request) -> Option | None:
    """The option, scaled down to the error asked for; None if it does not have it."""
    mechanism, mean_error = shape, request.mean_error
    if mean_error is not None:
        try:
            mechanism = shape.for_mse(mean_error**2, horizon=request.horizon)
        except ParameterError:
            return None
        if request.targets and shape.mse(request.horizon) > mean_error**2:
            return None
    ages = _curve_ages(request)
    return Option(
        name=name,
        mechanism=_for_tick(mechanism, request.tick_seconds),
        curve=tuple((age, lost(mechanism, age, request)) for age in ages),
        error=math.sqrt(mechanism.mse(request.horizon)),
    )


def _ranked(options: Sequence[Option], request: Request) -> list[Option]:
    """Options best first. Block counters stand together where their best total does, the readable
    first. Distinct persons have no total: block counters are first, whose slots have figures of
    their own."""
    if request.mean_error is not None:
        return sorted(options, key=lambda option: option.final_loss)
    if request.unit.distinct_per:
        return sorted(options, key=lambda option: option.mechanism.kind != "blocks")
    least: dict[str, float] = {}
    for option in options:
        kind = option.mechanism.kind
        least[kind] = min(option.error, least.get(kind, math.inf))
    return sorted(options, key=lambda option: least[option.mechanism.kind])


def _for_tick(mechanism: Shape, tick_seconds: int | None) -> Shape:
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
    mechanism, best = option.mechanism, options[0]
    if request.mean_error is not None:
        more = _compared(option.final_loss, best.final_loss, "")
        parts = [f"loses {more} by the horizon than the first, for the same error"]
        if option is best:
            parts = ["loses least by the horizon, of these options, for this error"]
    elif option is not best:
        parts = [f"has {_compared(option.error, best.error, ' error')} than the first"]
    elif option.error == min(each.error for each in options if _every(each) == _every(best)):
        parts = ["has the least error of these options under these losses"]
    else:
        parts = ["has nearly the least error of these options, and hours and days that can be read"]
    if isinstance(mechanism, Blocks):
        several = f"{len(mechanism.levels)} lengths, each with noise of its own"
        parts.append(f"figures of {'one length' if len(mechanism.levels) == 1 else several}")
        if _every(option) > _every(best):
            parts.append(f"the total changes every {_every(option)} minutes")
    else:
        parts.append(f"one formula, a loss of the order log(age)^{mechanism.exponent:g}")
    return "; ".join(parts) + "."


def _every(option: Option) -> int:
    """Every how many steps the total of an option changes."""
    mechanism = option.mechanism
    return mechanism.levels[0].length if isinstance(mechanism, Blocks) else 1


def _compared(value: float, least: float, what: str) -> str:
    """A phrase that says how much larger or smaller a value is than that of the first option."""
    more = 100.0 * (value / least - 1.0) if least > 0 else math.inf
    if abs(more) < 0.05:
        return f"no more{what}"
    return f"{abs(more):.3g} % {'more' if more > 0 else 'less'}{what}"


# The plan file
# ------------------------------------------------------------------------------------------------
def plan_json(made: Plan, chosen: Option | None = None) -> str:
    """The text of a plan file for an option, by default the best."""
    option, discovery = chosen or made.best, made.discovery
    request = {**dataclasses.asdict(made.request), "targets": dict(made.request.targets)}
    plan: dict[str, object] = {
        "version": PLAN_VERSION,
        "request": {name: value for name, value in request.items() if value is not None},
        "option": {
            **_option_dict(option),
            "published": [dataclasses.asdict(figure) for figure in made.published(option)],
            "widths": [dataclasses.asdict(width) for width in made.widths(option)],
        },
        "alternatives": [_option_dict(other) for other in made.options if other is not option],
    }
    text = json.loads(option.mechanism.to_json())
    if discovery is not None:
        text["discovery"] = json.loads(discovery.to_json())
        plan["appearances"] = [dataclasses.asdict(each) for each in appearances(discovery)]
    return json.dumps({**text, "plan": plan}, indent=2, allow_nan=False) + "\n"


def _option_dict(option: Option) -> dict[str, object]:
    shown = {"name": option.name, "reason": option.reason, "error": option.error}
    return {**shown, "curve": dict(option.curve)}


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
            f"save must be a new file, got {str(path)!r}; choose another name, or overwrite it"
            " with force=True"
        ) from None
    except OSError as error:
        raise ParameterError(
            f"save must be a writable file, got {str(path)!r} ({error.strerror}); check the path"
        ) from error


def _require_runnable(request: Request, mechanism: Shape) -> None:
    """Refuse a plan that no stream would accept: levels that are not on the calendar of the
    steps."""
    tick, day = request.tick_seconds, UNITS["d"]
    if isinstance(mechanism, Blocks) and len(mechanism.levels) > 1:
        lengths = [level.length for level in mechanism.levels]
        fit = tick is not None and day % tick == 0
        if tick is None or not (fit and all(Length.of_ticks(each, tick) for each in lengths)):
            shown = "none" if tick is None else format_duration(tick)
            remedy = "blocks of other lengths are no slots of a calendar"
            raise bad_parameter("tick", shown, "a part of a day, to save blocks", remedy)
