"""Say what may be lost, or how wrong counts may be, and get the mechanism.

A loss AGE=LOSS limits what all outputs so far reveal about an event of that
age. Between two ages the later limit holds; past the last one the last does,
up to the horizon. Ages are durations (1h, 30d, 1y; they need --tick) or plain
numbers of steps. The options come best first; --save keeps one as a plan file
that other commands accept with --plan.

examples:
  fadecount plan --tick 1m --horizon 1y --loss 1h=0.5 --loss 30d=2 --loss 1y=4
  fadecount plan --tick 1d --horizon 10y --max-error 500 --beta 0.01
  fadecount plan --horizon 1000000 --loss 0=0.1 --loss 1000000=3 --json
  fadecount plan --tick 1m --horizon 1y --loss 1d=1 --loss 1y=4 --delay 1h \\
    --plot plan.png --save plan.json
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 --per-person 24/day
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 --delta 1e-9 \\
    --per-person 3/tick --keys-per-person 4 --save plan.json
  fadecount plan --open
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from fadecount.cli._options import (
    JSON_OPTION,
    TICK_OPTION,
    add_options,
    person_from,
    tick_seconds_from,
)
from fadecount.cli._output import waiting
from fadecount.durations import format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.rounding import short_loss

if TYPE_CHECKING:
    from fadecount.planning import Option, Person, Plan, Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = "which option to draw and save (default: the best)"
    person = "limit the loss of all N events of a person (in any TIME; N/tick: in one step)"
    add_options(
        parser.add_argument_group("wishes"),
        TICK_OPTION,
        ("--horizon", "TIME", "how long to plan for (default: the oldest age with a loss)", str),
        ("--loss", "AGE=LOSS", "largest loss up to an age; repeat it", list),
        ("--mean-error", "E", "largest root of the mean squared error", float),
        ("--max-error", "E", "error that no output exceeds, but with probability BETA", float),
        ("--beta", "BETA", "the probability that a stated error is exceeded (0.05)", float),
        ("--delay", "TIME", "outputs may lag by this much: offer options that do", str),
        ("--per-person", "N[/TIME]", person, str),
        ("--keys-per-person", "K", "each event of a person is under up to K keys", 1),
        ("--delta", "D", "offer Gaussian noise too: promises that fail with chance D", float),
    )
    add_options(
        parser.add_argument_group("results"),
        ("--option", "N", option, int),
        ("--plot", "FILE", "draw limits, the option and others (.png, .svg, .pdf)", str),
        ("--save", "FILE", "save the option as a plan file", str),
        ("--force", None, "overwrite the plan file", bool),
        JSON_OPTION,
        ("--open", None, "choose the curve on a page in the browser, for this machine only", bool),
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount import plan
    from fadecount.planning import plan_json, save_plan

    if arguments.open:
        return _open(arguments)
    tick = tick_seconds_from(arguments)
    wishes = _wishes(arguments, tick)
    if arguments.plot:
        from fadecount.plots import check_picture

        check_picture(arguments.plot)
    with waiting("planning"):
        made = plan(**wishes)
    chosen = _chosen(made, arguments.option)
    # Before the picture: a plan file that exists is refused, and then nothing is written.
    if arguments.save:
        save_plan(arguments.save, made, chosen, force=arguments.force)
    if arguments.plot:
        _draw(arguments.plot, made, chosen)
    if arguments.json:
        print(plan_json(made, chosen))
        return 0
    print(plan_table(made, chosen))
    for what, path in (("plan saved as", arguments.save), ("picture in", arguments.plot)):
        if path:
            print(f"{what} {path}")
    return 0


def _open(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, and open it in the browser."""
    import threading
    import webbrowser

    from fadecount.cli._plan_page import serve_plan_page

    for name, value in vars(arguments).items():
        if name != "open" and value != arguments.parser.get_default(name) and name != "command":
            option = f"--{name.replace('_', '-')}"
            raise ParameterError(f"{option} must be left out with --open; the page asks for it")

    def announce(address: str) -> None:
        print(f"choose your curve at {address}\nCtrl-C ends it", flush=True)
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    return serve_plan_page(announce)


def _draw(path: str, made: Plan, chosen: Option) -> None:
    from fadecount.plots import new_figure, save_figure
    from fadecount.plots.curves import draw_plan

    figure = new_figure()
    draw_plan(figure, made, chosen)
    save_figure(figure, path)


def _chosen(made: Plan, number: int | None) -> Option:
    if number is None:
        return made.best
    if not 1 <= number <= len(made.options):
        bound, remedy = f"from 1 to {len(made.options)}", "it is the number in the first column"
        raise bad_parameter("--option", number, bound, remedy)
    return made.options[number - 1]


def _wishes(arguments: argparse.Namespace, tick: int | None) -> dict[str, Any]:
    """Return what the options ask for, as :func:`fadecount.plan` takes it."""
    wishes = {
        name: getattr(arguments, name)
        for name in ("mean_error", "max_error", "beta", "delta")
        if getattr(arguments, name) is not None
    }
    for name in ("horizon", "delay"):
        if getattr(arguments, name) is not None:
            wishes[name] = steps_or_duration(getattr(arguments, name))
    limits = [_limit_from(text) for text in arguments.loss]
    if len(dict(limits)) < len(limits):
        raise ParameterError("--loss must name each age once; remove the duplicate")
    return {
        **wishes,
        "loss": dict(limits) or None,
        "tick": tick,
        "person": _person(arguments, tick),
    }


def _person(arguments: argparse.Namespace, tick: int | None) -> Person | None:
    from dataclasses import replace

    person = person_from(arguments.per_person, tick, name="--per-person")
    if arguments.keys_per_person == 1:
        return person
    if person is None:
        raise ParameterError("--per-person must be given with --keys-per-person; such as 1/tick")
    return replace(person, keys=arguments.keys_per_person)


def _limit_from(text: str) -> tuple[int | str, float]:
    age, _, loss = text.partition("=")
    try:
        return steps_or_duration(age), float(loss)
    except ValueError:
        raise bad_parameter("--loss", text, "AGE=LOSS", "such as 30d=2") from None


def steps_or_duration(text: str) -> int | str:
    """Return a number of steps, or a duration as it is written."""
    return int(text) if text.isascii() and text.isdigit() else text


WIDTH = 80
_SHOWN = 6
"""Options side by side in the table of losses."""


def plan_table(made: Plan, chosen: Option) -> str:
    """Errors and losses of the options, the reasons, and what was asked."""
    return "\n".join(
        [
            *_asked(made.request),
            "",
            *_errors(made, chosen),
            "",
            *_losses(made, chosen),
            "",
            *_figures(made.request, chosen),
            *_reasons(made),
        ]
    )


def _asked(request: Request) -> Iterator[str]:
    tick = "" if request.tick_seconds is None else f", each {format_duration(request.tick_seconds)}"
    yield f"plan for {request.horizon:,} steps{tick}"
    from fadecount.planning import Person

    person = request.person
    if person != Person():
        period = "ever" if person.steps is None else f"in any {_age(request, person.steps)}"
        events = (
            f"{person.events:,} event{'s' * (person.events > 1)}"
            f" {'in one step' if person.per_step else period}"
        )
        under = f", each under up to {person.keys:,} keys" if person.keys > 1 else ""
        yield from textwrap.wrap(
            f"for a person with at most {events}{under}, all of them together", WIDTH
        )
    if request.delta is not None:
        yield f"Gaussian options keep their promise except with probability {request.delta:g}"
    if request.mean_error is not None:
        yield f"wanted: a mean error of at most {request.mean_error:,.6g}"
    if request.max_error is not None:
        yield (
            f"wanted: no error above {request.max_error:,.6g}, except with probability"
            f" {request.beta:g}"
        )


def _errors(made: Plan, chosen: Option) -> Iterator[str]:
    heads = "".join(f"{each:>9}" for each in ("mean", "start", "horizon", "worst"))
    yield f"{'':3} {'error of the counts':25}{heads}{'x least':>8}"
    for number, option in enumerate(made.options, start=1):
        errors = option.forecast
        mark = "*" if option is chosen else " "
        distance = "-" if errors.distance is None else f"{errors.distance:.3g}"
        figures = "".join(
            f"{_figure(value):>9}"
            for value in (errors.mean, errors.start, errors.horizon, errors.worst)
        )
        yield f"{mark}{number:>2} {option.name[:25]:25}{figures}{distance:>8}"
    beta = f"{100.0 * made.request.beta:g} %"
    yield from textwrap.wrap(
        f"mean: root of the mean squared error; start, horizon: exceeded with probability {beta};"
        f" worst: exceeded anywhere with probability {beta}; x least: above the lower bound for any"
        " mechanism",
        WIDTH,
    )


def _losses(made: Plan, chosen: Option) -> Iterator[str]:
    request, numbered = made.request, list(enumerate(made.options, start=1))
    others = [pair for pair in numbered[:_SHOWN] if pair[1] is not chosen]
    own = (made.options.index(chosen) + 1, chosen)
    numbers, shown = zip(*sorted([*others[: _SHOWN - 1], own], key=itemgetter(0)), strict=True)
    allowed = dict(request.targets)
    curves = [dict(option.curve) for option in shown]
    ages = sorted({0, request.horizon, *allowed})
    yield f"{'loss up to age':18}{'limit':>8}" + "".join(f"{f'#{number}':>9}" for number in numbers)
    for age in ages:
        limit = _limit(allowed[age]) if age in allowed else ""
        yield f"{_age(request, age)[:18]:18}{limit:>8}" + "".join(
            f"{short_loss(curve[age]):>9}" for curve in curves
        )


def _figures(request: Request, chosen: Option) -> Iterator[str]:
    """What a block counter publishes when, what is lost by then, and how exact it is."""
    from fadecount.mechanisms import Blocks
    from fadecount.planning import published_figures

    if not isinstance(chosen.mechanism, Blocks):
        return
    yield f"{'figure of':18}{'published after':>18}{'deviation':>12}{'lost by then':>14}"
    for figure in published_figures(chosen.mechanism):
        lag = _age(request, figure.lag) if figure.lag else "its end"
        yield (
            f"{_age(request, figure.length)[:18]:18}{lag:>18}{_figure(figure.deviation):>12}"
            f"{short_loss(figure.loss):>14}"
        )
    yield ""


def _limit(loss: float) -> str:
    """A limit as it was asked for, if that is short."""
    written = f"{loss:.6g}"
    return written if float(written) == loss and len(written) < 8 else short_loss(loss)


def _reasons(made: Plan) -> Iterator[str]:
    for number, option in enumerate(made.options, start=1):
        yield from textwrap.wrap(
            option.reason, WIDTH, initial_indent=f"{number:>3} ", subsequent_indent="    "
        )


def _age(request: Request, steps: int) -> str:
    if request.tick_seconds is None:
        return f"{steps:,}" if steps < 10**12 else f"{steps:.4g}"
    return "first sight" if steps == 0 else format_duration(steps * request.tick_seconds)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 10**7 else f"{value:.3g}"
