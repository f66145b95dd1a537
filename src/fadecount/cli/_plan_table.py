"""A plan as text that fits into 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fadecount.durations import format_duration
from fadecount.shown import short_loss

if TYPE_CHECKING:
    from fadecount.planning import Option, Plan, Request

WIDTH = 80
_SHOWN = 6
"""Options side by side in the table of losses."""


def plan_table(made: Plan, chosen: Option) -> str:
    """Errors and losses of the options, the reasons, and what was asked."""
    return "\n".join([*_asked(made.request), "", *_errors(made, chosen), "", *_losses(made), "", *_reasons(made)])


def _asked(request: Request) -> Iterator[str]:
    tick = "" if request.tick_seconds is None else f", each {format_duration(request.tick_seconds)}"
    yield f"plan for {request.horizon:,} steps{tick}"
    person = request.person
    if person.events > 1 or person.steps is not None:
        period = "ever" if person.steps is None else f"in any {_age(request, person.steps)}"
        yield from textwrap.wrap(f"for a person with at most {person.events:,} events {period}, all of them together", WIDTH)
    if request.mean_error is not None:
        yield f"wanted: a mean error of at most {request.mean_error:,.6g}"
    if request.max_error is not None:
        yield f"wanted: no error above {request.max_error:,.6g}, except with probability {request.beta:g}"


def _errors(made: Plan, chosen: Option) -> Iterator[str]:
    yield f"{'':3} {'error of the counts':26}{'mean':>10}{'start':>10}{'horizon':>10}{'worst':>10}{'x least':>9}"
    for number, option in enumerate(made.options, start=1):
        errors = option.forecast
        mark = "*" if option is chosen else " "
        distance = "-" if errors.distance is None else f"{errors.distance:.3g}"
        figures = "".join(f"{_figure(value):>10}" for value in (errors.mean, errors.start, errors.horizon, errors.worst))
        yield f"{mark}{number:>2} {option.name[:26]:26}{figures}{distance:>9}"
    beta = f"{100.0 * made.request.beta:g} %"
    yield from textwrap.wrap(
        f"mean: root of the mean squared error; start, horizon: exceeded with probability {beta};"
        f" worst: exceeded anywhere with probability {beta}; x least: above the lower bound for any mechanism",
        WIDTH,
    )


def _losses(made: Plan) -> Iterator[str]:
    request, shown = made.request, made.options[:_SHOWN]
    allowed = dict(request.targets)
    curves = [dict(option.curve) for option in shown]
    ages = sorted({0, request.horizon, *allowed})
    yield f"{'loss up to age':18}{'limit':>8}" + "".join(f"{f'#{at + 1}':>9}" for at in range(len(shown)))
    for age in ages:
        limit = _limit(allowed[age]) if age in allowed else ""
        yield f"{_age(request, age)[:18]:18}{limit:>8}" + "".join(f"{short_loss(curve[age]):>9}" for curve in curves)


def _limit(loss: float) -> str:
    """A limit as it was asked for, if that is short."""
    written = f"{loss:.6g}"
    return written if float(written) == loss and len(written) < 8 else short_loss(loss)


def _reasons(made: Plan) -> Iterator[str]:
    for number, option in enumerate(made.options, start=1):
        yield from textwrap.wrap(option.reason, WIDTH, initial_indent=f"{number:>3} ", subsequent_indent="    ")


def _age(request: Request, steps: int) -> str:
    if request.tick_seconds is None:
        return f"{steps:,}" if steps < 10**12 else f"{steps:.4g}"
    return "first sight" if steps == 0 else format_duration(steps * request.tick_seconds)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 10**8 else f"{value:.3g}"
