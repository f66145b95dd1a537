"""Say what may be lost, or how wrong counts may be, and get the mechanism.

A loss AGE=LOSS limits what all outputs so far reveal about an event of that
age. Between two ages the later limit holds; past the last one the last does,
up to the horizon. Ages are durations (1h, 30d, 1y; they need --tick) or plain
numbers of steps. The options come best first; --save keeps one as a plan file
that other commands accept with --plan. A stream publishes running totals: block
counters are for fadecount.Counter, and --save takes one only with --option.

examples:
  fadecount plan --tick 1m --horizon 1y --loss 1h=0.5 --loss 30d=2 --loss 1y=4
  fadecount plan --tick 1d --horizon 10y --max-error 500@0.01
  fadecount plan --horizon 1000000 --loss 0=0.1 --loss 1000000=3 --json
  fadecount plan --tick 1m --horizon 1y --loss 1d=1 --loss 1y=4 --delay 1h \\
    --plot plan.png --save plan.json
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 --per-person 24/day
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 --delta 1e-9 \\
    --per-person 3/tick --keys-per-person 4 --save plan.json
  fadecount plan --tick 1m --horizon 1y --loss 1h=0.5 --loss 1y=4 --delta 1e-9
  fadecount plan --tick 1h --horizon 1y --loss 1y=4 --visits 1/day --for 30d
  fadecount plan --open
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap
from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from fadecount.cli._options import PERIODS, add_visit_options, person_from, steps_from
from fadecount.cli._output import json_text, visits_loss, waiting
from fadecount.durations import format_duration, parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.rounding import short_loss

if TYPE_CHECKING:
    from fadecount.planning import Option, Person, Plan, Request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    wishes = parser.add_argument_group("wishes")
    wishes.add_argument(
        "--tick",
        metavar="TIME",
        help="length of a step, such as 1m; without it, ages are numbers of steps",
    )
    wishes.add_argument(
        "--horizon",
        metavar="TIME",
        help="how long to plan for (default: the oldest age with a loss)",
    )
    wishes.add_argument(
        "--loss",
        action="append",
        default=[],
        metavar="AGE=LOSS",
        help="largest loss up to an age; repeat it",
    )
    wishes.add_argument(
        "--mean-error", type=float, metavar="E", help="largest root of the mean squared error"
    )
    wishes.add_argument(
        "--max-error",
        metavar="E[@BETA]",
        help="error no output exceeds, but with probability BETA (0.05)",
    )
    wishes.add_argument(
        "--delay", metavar="TIME", help="outputs may lag by this much: offer options that do"
    )
    wishes.add_argument(
        "--per-person",
        metavar="N[/TIME]",
        help="limit the loss of all N events of a person (in any TIME; N/tick: in one step)",
    )
    wishes.add_argument(
        "--keys-per-person",
        type=int,
        default=1,
        metavar="K",
        help="each event of a person is under up to K keys",
    )
    wishes.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="offer Gaussian noise too: promises that fail with chance D",
    )
    results = parser.add_argument_group("results")
    results.add_argument(
        "--option",
        type=int,
        metavar="N",
        help="which option to draw and save (default: the best; for --save the best that a stream"
        " can publish)",
    )
    results.add_argument(
        "--plot",
        metavar="FILE",
        help="draw limits, the option and its alternatives (.png, .svg, .pdf)",
    )
    results.add_argument("--save", metavar="FILE", help="save the option as a plan file")
    results.add_argument("--force", action="store_true", help="overwrite the plan file")
    add_visit_options(results, "what is lost about all their visits with the option")
    results.add_argument("--json", action="store_true", help="print everything as JSON")
    results.add_argument(
        "--open",
        action="store_true",
        help="choose the curve on a page in the browser instead, served to this machine only",
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount import plan
    from fadecount.planning import plan_json, save_plan
    from fadecount.streams.forks import StreamLoss

    tick = None if arguments.tick is None else parse_duration(arguments.tick, name="--tick")
    if arguments.open:
        return _open(arguments)
    wishes = wishes_from(arguments, tick)
    if arguments.plot:
        from fadecount.plots import check_picture

        check_picture(arguments.plot)
    with waiting("planning"):
        made = plan(**wishes, tick=tick)
    chosen = _chosen(made, arguments.option, for_stream=arguments.save is not None)
    # Before the picture: a plan file that exists is refused, and then nothing is written.
    if arguments.save:
        save_plan(arguments.save, made, chosen, force=arguments.force)
    if arguments.plot:
        _draw(arguments.plot, made, chosen)
    person = None
    if arguments.visits is not None:
        person = visits_loss(StreamLoss(mechanism=chosen.mechanism), arguments, tick)
    if arguments.json:
        found = json.loads(plan_json(made, chosen))
        if person is not None:
            found["plan"]["someone"] = person
        print(json_text(found))
    else:
        print(plan_table(made, chosen))
        if person is not None:
            print(f"\n{textwrap.fill(person['sentence'], WIDTH)}")
        if arguments.save and arguments.option is None and chosen is not made.best:
            number = made.options.index(chosen) + 1
            print(f"saved is option {number}, the best that a stream can publish (any: --option N)")
        for what, path in (("plan saved as", arguments.save), ("picture in", arguments.plot)):
            if path:
                print(f"{what} {path}")
    return 0


_HANDLES = ("1h", "1d", "1mo", "1y")


def _open(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, and open it in the browser with the wishes that were given."""
    import threading
    import webbrowser

    from fadecount.cli._plan_page import serve_plan_page

    wishes = _address(arguments)

    def announce(address: str) -> None:
        print(f"choose your curve at {address}{wishes}\nCtrl-C ends it", flush=True)
        threading.Thread(target=webbrowser.open, args=(address + wishes,), daemon=True).start()

    return serve_plan_page(announce)


def _address(arguments: argparse.Namespace) -> str:
    """The wishes as the page reads them from its address."""
    from urllib.parse import urlencode

    for name in ("mean_error", "max_error", "delay", "keys_per_person", "visits", "plot", "save"):
        if getattr(arguments, name) not in (None, 1):
            raise ParameterError(
                f"--{name.replace('_', '-')} must be left out with --open; the page takes losses"
                " and shows errors"
            )
    found = {
        name: str(getattr(arguments, name))
        for name in ("tick", "horizon", "delta")
        if getattr(arguments, name) is not None
    }
    handles = {parse_duration(name): name for name in _HANDLES}
    losses = []
    for text in arguments.loss:
        age, _, loss = text.partition("=")
        handle = handles.get(parse_duration(age, name="--loss"))
        if handle is None:
            raise bad_parameter(
                "--loss",
                text,
                f"at one of the ages {', '.join(_HANDLES)} with --open",
                "these have handles",
            )
        losses.append(f"{handle}:{_number('--loss', text, loss, 'such as 1d=2')!r}")
    if losses:
        found["losses"] = ",".join(losses)
    if arguments.per_person is not None:
        events, _, period = (part.strip() for part in arguments.per_person.partition("/"))
        every = PERIODS.get(period, period)
        if every not in ("1d", "1w") or not events.isdecimal():
            raise bad_parameter(
                "--per-person",
                arguments.per_person,
                "a number per day or week with --open",
                "such as 2/day",
            )
        found["person"] = f"{events}/{every}"
    return f"#{urlencode(found)}" if found else ""


def _draw(path: str, made: Plan, chosen: Option) -> None:
    from fadecount.plots import new_figure, save_figure
    from fadecount.plots.curves import draw_plan

    figure = new_figure()
    draw_plan(figure, made, chosen)
    save_figure(figure, path)


def _chosen(made: Plan, number: int | None, *, for_stream: bool) -> Option:
    if number is None:
        able = made.options if not for_stream else filter(_for_streams, made.options)
        return next(iter(able), made.best)
    if not 1 <= number <= len(made.options):
        raise bad_parameter(
            "--option",
            number,
            f"from 1 to {len(made.options)}",
            "it is the number in the first column",
        )
    return made.options[number - 1]


def wishes_from(arguments: argparse.Namespace, tick: int | None) -> dict[str, Any]:
    """Return what the options ask for, in steps."""
    wishes: dict[str, Any] = {
        "mean_error": arguments.mean_error,
        "person": _person(arguments, tick),
        "delta": arguments.delta,
    }
    if arguments.horizon is not None:
        wishes["horizon"] = _steps("--horizon", arguments.horizon, tick)
    if arguments.delay is not None:
        wishes["delay"] = _steps("--delay", arguments.delay, tick)
    if arguments.loss:
        pairs = [_loss(text, tick) for text in arguments.loss]
        wishes["loss"] = dict(pairs)
        if len(wishes["loss"]) < len(pairs):
            raise ParameterError("--loss must name each age once; remove the duplicate")
    if arguments.max_error is not None:
        error, _, beta = arguments.max_error.partition("@")
        wishes["max_error"] = _number(
            "--max-error", arguments.max_error, error, "such as 500 or 500@0.01"
        )
        if beta:
            wishes["beta"] = _number(
                "--max-error", arguments.max_error, beta, "such as 500 or 500@0.01"
            )
    return wishes


def _person(arguments: argparse.Namespace, tick: int | None) -> Person | None:
    person = person_from(arguments.per_person, tick, name="--per-person")
    if arguments.keys_per_person == 1:
        return person
    if person is None:
        raise ParameterError("--per-person must be given with --keys-per-person; such as 1/tick")
    return dataclasses.replace(person, keys=arguments.keys_per_person)


def _loss(text: str, tick: int | None) -> tuple[int, float]:
    age, equals, loss = text.partition("=")
    if not equals:
        raise bad_parameter("--loss", text, "AGE=LOSS", "such as 30d=2")
    return _steps("--loss", age, tick), _number("--loss", text, loss, "such as 30d=2")


def _steps(name: str, text: str, tick: int | None) -> int:
    """Rounded up to whole steps: an age rounded up is the stricter limit."""
    return steps_from(text, tick, name=name, rounding="up")


def _number(name: str, text: str, part: str, remedy: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise bad_parameter(name, text, "a number", remedy) from None


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
    yield f"{'':3} {'error of the counts':25}{heads}{'x least':>8}{'stream':>7}"
    for number, option in enumerate(made.options, start=1):
        errors = option.forecast
        mark = "*" if option is chosen else " "
        distance = "-" if errors.distance is None else f"{errors.distance:.3g}"
        figures = "".join(
            f"{_figure(value):>9}"
            for value in (errors.mean, errors.start, errors.horizon, errors.worst)
        )
        stream = "yes" if _for_streams(option) else "no"
        yield f"{mark}{number:>2} {option.name[:25]:25}{figures}{distance:>8}{stream:>7}"
    beta = f"{100.0 * made.request.beta:g} %"
    yield from textwrap.wrap(
        f"mean: root of the mean squared error; start, horizon: exceeded with probability {beta};"
        f" worst: exceeded anywhere with probability {beta}; x least: above the lower bound for any"
        " mechanism; stream: whether a stream can publish it now (fadecount.Counter runs all)",
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


def _for_streams(option: Option) -> bool:
    from fadecount.mechanisms import publishes_running_totals

    return publishes_running_totals(option.mechanism)


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
