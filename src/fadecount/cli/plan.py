"""Say what a publication will show when, how exact it is, and what is lost by then.

FILE is the TOML of a publication. For a one-off without one, say what may be
lost, or how wrong counts may be, and get the mechanism.

A loss AGE=LOSS limits what all outputs so far reveal about an event of that
age. Between two ages the later limit holds; past the last one the last does,
up to the horizon. Ages are durations (1h, 30d, 1y; they need --tick) or plain
numbers of steps. The options come best first; --save keeps one as a plan file
that other commands accept with --plan.

examples:
  fadecount plan rides.toml
  fadecount plan rides.toml --plot plan.svg
  fadecount plan --tick 1m --horizon 1y --loss 1h=0.5 --loss 30d=2 --loss 1y=4
  fadecount plan --tick 1d --horizon 10y --mean-error 100
  fadecount plan --horizon 1000000 --loss 0=0.1 --loss 1000000=3 --json
  fadecount plan --tick 1m --horizon 1y --loss 1d=1 --loss 1y=4 --delay 1h \\
    --save plan.json
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 --per-person 4/day
  fadecount plan --tick 1m --horizon 1y --loss 1y=4 \\
    --per-person 3/tick --keys-per-person 4 --save plan.json
  fadecount plan --tick 1m --loss 1h=0.5 --loss 30d=2 --loss 1y=4 --delta 1e-9 \\
    --per-person 1/day --discover 1d --save plan.json
  fadecount plan --tick 1h --loss 1y=4 --per-person 4/day \\
    --sample rides.csv --time at --person card
  fadecount plan --tick 1m --loss 1h=0.5 --loss 1y=4 --plot plan.svg
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fadecount.cli._options import (
    JSON_OPTION,
    TICK_OPTION,
    add_options,
    limits_from,
    per_person,
    tick_seconds_from,
)
from fadecount.cli._output import aligned, json_text, waiting
from fadecount.durations import format_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.rounding import short_loss

if TYPE_CHECKING:
    from fadecount.mechanisms import Unit
    from fadecount.planning import Option, Plan, Request, Width


def add_arguments(parser: argparse.ArgumentParser) -> None:
    option = "which option to show and save (default: the best)"
    discover = "keys appear by themselves, with this part of every loss (1), at --delta"
    person = "protect one person's tick, hour, day or month, with at most N events"
    parser.add_argument("file", metavar="FILE", nargs="?", help="a publication, such as rides.toml")
    add_options(
        parser.add_argument_group("wishes"),
        TICK_OPTION,
        ("--horizon", "TIME", "how long to plan for (default: the oldest age with a loss)", str),
        ("--loss", "AGE=LOSS", "largest loss up to an age; repeat it", list),
        ("--mean-error", "E", "largest root of the mean squared error", float),
        ("--delay", "TIME", "outputs lag by this much (default: %(default)s)", "0"),
        ("--per-person", "N/TIME", person, str),
        ("--keys-per-person", "K", "up to N events under each of up to K keys", 1),
        ("--max-amount", "N", "largest amount of an event; more is cut to it", 1),
        ("--discover", "1d[=PART]", discover, str),
        ("--delta", "D", "chance that a key appears that one person alone brought", float),
    )
    add_options(
        parser.add_argument_group("sample", "for you only: which cap leaves out how much"),
        ("--sample", "FILE", "show what each cap would leave out of these events", str),
        ("--person", "COL", "its column of a person's id", str),
        ("--time", "COL", "its column of the time", str),
    )
    add_options(
        parser.add_argument_group("results"),
        ("--option", "N", option, int),
        ("--save", "FILE", "save the option as a plan file", str),
        ("--force", None, "overwrite the plan file", bool),
        JSON_OPTION,
        ("--plot", "FILE", "draw promise, errors and times as .png, .svg, .pdf or .html", str),
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount import Blocks, plan
    from fadecount.planning import plan_json, save_plan

    if arguments.plot:
        from fadecount.plots import check_picture

        check_picture(arguments.plot)
    if arguments.file is not None:
        return _plan_publication(arguments)
    with waiting("planning"):
        made = plan(**_plan_arguments(arguments))
    chosen = _chosen(made, arguments.option)
    caps = [*_caps(arguments, made, chosen)]
    if arguments.save:
        save_plan(arguments.save, made, chosen, force=arguments.force)
    if arguments.plot:
        _plot(arguments.plot, made, chosen)
    if arguments.json:
        print(plan_json(made, chosen))
        return 0
    print("\n".join([plan_table(made, chosen), *caps]))
    if arguments.save:
        print(f"plan saved as {arguments.save}")
        if not isinstance(chosen.mechanism, Blocks) or made.request.unit.amount != 1:
            print("not for Spark, which counts events in blocks; run and serve take it")
    return 0


def _plan_publication(arguments: argparse.Namespace) -> int:
    """Plan the publication of a file; it says all that the other options could."""
    from fadecount.cli._publication import plan_lines, read_file

    publication = read_file(arguments.file, arguments, {"file", "json", "plot"})
    with waiting("planning"):
        made = publication.plan()
    if arguments.plot:
        from fadecount.plots import draw_publication, save_figure

        save_figure(draw_publication(made), arguments.plot)
    print(json_text(made.to_json()) if arguments.json else "\n".join(plan_lines(made)))
    return 0


def _caps(arguments: argparse.Namespace, made: Plan, chosen: Option) -> Iterator[str]:
    """Return lines on what caps of persons leave out of a sample, and how exact counts are then."""
    given = [name for name in ("sample", "person", "time") if getattr(arguments, name) is not None]
    if not given:
        return
    if len(given) < 3 or arguments.tick is None:
        raise ParameterError("--sample, --person, --time and --tick must be given together")
    from fadecount.planning.published import widths
    from fadecount.sources import SourceOptions, read

    unit = made.request.unit
    slot = "1d" if unit.of == "event" else unit.per
    yield f"\nof {arguments.sample}, for you only: these are exact counts"
    rows = [("events per person", "rows left out", "a day", "total")]
    about = {"tick": arguments.tick, "time": arguments.time, "person": arguments.person}
    cap, dropped = 1, 1
    while dropped:
        options = SourceOptions(**about, per_person=cap, person_per=slot)
        with waiting("reading"):
            report = read(arguments.sample, options).report
        good, dropped = report.rows_read - report.rows_skipped, report.rows_dropped
        exact = widths(chosen.mechanism.scaled(unit.events / cap), made.request)
        left_out = f"{100.0 * dropped / max(1, good):.3g} %"
        per = "day" if unit.of == "event" else unit.slot
        rows.append((f"{cap} per {per}", left_out, *_day_and_total(exact)))
        cap *= 2
    yield from aligned(rows, ">>>>")


def _day_and_total(widths: list[Width]) -> tuple[str, str]:
    """How exact a day is in the end, if the tick is a part of one, and the total."""
    day = next((each.final or 0 for each in widths if each.name == "a day"), None)
    total = f"± {_figure(widths[-1].half_width)}"
    return "-" if day is None else f"± {_figure(day)}", total


def _plot(path: str, made: Plan, chosen: Option) -> None:
    from fadecount.plots import draw_plan, new_figure, save_figure

    figure = new_figure(7.6, 6.2)
    draw_plan(figure, made, chosen)
    save_figure(figure, path)


def _chosen(made: Plan, number: int | None) -> Option:
    if number is None:
        return made.best
    if not 1 <= number <= len(made.options):
        bound, remedy = f"from 1 to {len(made.options)}", "it is the number in the first column"
        raise bad_parameter("--option", number, bound, remedy)
    return made.options[number - 1]


def _plan_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the options ask for, as :func:`fadecount.plan` takes it."""
    limits = limits_from(arguments.loss, name="--loss")
    discover = arguments.discover
    if discover is not None and "=" in discover:
        discover = limits_from([discover], name="--discover", shape="1d=PART")
    horizon = arguments.horizon
    return {
        "tick": tick_seconds_from(arguments),
        "horizon": None if horizon is None else steps_or_duration(horizon),
        "loss": {steps_or_duration(age): loss for age, loss in limits.items()} or None,
        "mean_error": arguments.mean_error,
        "delay": steps_or_duration(arguments.delay),
        "unit": _unit(arguments),
        "delta": arguments.delta,
        "discover": discover,
    }


def _unit(arguments: argparse.Namespace) -> Unit:
    from fadecount.mechanisms import Unit

    keys, amount = arguments.keys_per_person, arguments.max_amount
    if arguments.per_person is not None:
        events, slot = per_person(arguments.per_person)
        return Unit(of="person", events=events, keys=keys, amount=amount, per=slot)
    if keys != 1:
        raise ParameterError("--per-person must be given with --keys-per-person; such as 1/tick")
    return Unit(amount=amount)


def steps_or_duration(text: str) -> int | str:
    """Return a number of steps, or a duration as it is written."""
    return int(text) if text.isascii() and text.isdigit() else text


WIDTH = 80


def plan_table(made: Plan, chosen: Option) -> str:
    """What was asked; what the chosen option publishes when, what is lost by then and how exact it
    is; and the other options."""
    number = made.options.index(chosen) + 1
    return "\n".join(
        [
            *_request_lines(made.request),
            "",
            *textwrap.wrap(f"option {number}, {chosen.name}: {chosen.reason}", WIDTH),
            *_losses(made.request, chosen),
            "",
            *_published(made, chosen),
            "",
            *_appearances(made),
            *_widths(made, chosen),
            "",
            *_options(made, chosen),
        ]
    )


def _request_lines(request: Request) -> Iterator[str]:
    tick = "" if request.tick_seconds is None else f", each {format_duration(request.tick_seconds)}"
    yield f"plan for {request.horizon:,} steps{tick}"
    if (unit := request.unit).sensitivity > 1 or unit.of == "person":
        from_start = "" if unit.per == "tick" else f"; ages count from the {unit.slot}'s start"
        yield from textwrap.wrap(f"for {unit.text}{from_start}", WIDTH)
    if request.mean_error is not None:
        yield f"wanted: a mean error of at most {request.mean_error:,.6g}"


def _losses(request: Request, chosen: Option) -> Iterator[str]:
    """What the chosen option loses up to the ages that were asked for, beside what is allowed."""
    allowed, curve = dict(request.targets), dict(chosen.curve)
    parts = [
        f"{short_loss(curve[age])} by {_age(request, age)}"
        + (f" (allowed: {_limit(allowed[age])})" if age in allowed else "")
        for age in sorted({*allowed, request.horizon})
    ]
    yield from textwrap.wrap(f"privacy loss (ε) of {request.unit.text}: {', '.join(parts)}", WIDTH)


def _published(made: Plan, chosen: Option) -> Iterator[str]:
    heads = ("figures per", "status", "published after its end", "lost (ε)", "95 %")
    yield from aligned([heads, *_published_rows(made, chosen)], "<<<>>")
    yield from textwrap.wrap(
        f"lost: about {made.request.unit.text}, at most, by everything that is published"
        " up to that age; 95 %: the true count is that close with at least 95 %",
        WIDTH,
    )


def _published_rows(made: Plan, chosen: Option) -> list[tuple[str, ...]]:
    """Return what an option publishes: slot, status, how long after its end, what is lost by then,
    and how exact it is."""
    return [
        (
            figure.per,
            figure.status,
            _age(made.request, figure.lag) if figure.lag else "at once",
            short_loss(figure.loss),
            f"± {figure.half_width:,}",
        )
        for figure in made.published(chosen)
    ]


def _appearances(made: Plan) -> Iterator[str]:
    """How many persons a key needs to appear by itself, if that was asked for."""
    from fadecount.planning import appearances

    discovery = made.discovery
    if discovery is None:
        return
    slot = "day" if discovery.per == "1d" else "month"
    rows = [(f"persons a {slot} that a key needs", "50 %", "95 %", "lost (ε)")]
    for stage in appearances(discovery):
        after = f"{_age(made.request, stage.lag)} after" if stage.lag else "at"
        persons = f"{stage.persons_50:,}", f"{stage.persons_95:,}"
        rows.append((f"to appear {after} its end", *persons, short_loss(stage.loss)))
    yield from aligned(rows, "<>>>")
    chance = short_loss(discovery.keys * discovery.passing(len(discovery.stages) - 1))
    keys = "a key" if discovery.keys == 1 else f"any of up to {discovery.keys} keys"
    yield from textwrap.wrap(
        f"{keys} that one person alone brought in one {slot} appears with a chance of at most"
        f" {chance} (allowed: {discovery.delta:g}); counts of keys that just appear lean high",
        WIDTH,
    )
    yield ""


def _widths(made: Plan, chosen: Option) -> Iterator[str]:
    yield "how exact counts will be (95 %)"
    rows = _width_rows(made, chosen)
    yield from aligned(
        [(name, f"{margin} ({why})" if why else margin) for name, margin, why in rows], "<<"
    )


def _width_rows(made: Plan, chosen: Option) -> list[tuple[str, str, str]]:
    """Return how exact counts will be: which, its margin, and when it is that exact or how exact it
    is otherwise."""
    rows = []
    for width in made.widths(chosen):
        margin, worst, final = width.half_width, width.at_worst, width.final
        if worst is not None:
            remark = f"or less half of the day; at worst ± {worst:,}" if worst != margin else ""
        else:
            remark = f"{_age(made.request, width.lag)} after its end" if width.lag else "at its end"
            remark += f"; ± {final:,} in the end" if final != margin else ""
        rows.append((width.name, f"± {margin:,}", remark))
    return rows


def _options(made: Plan, chosen: Option) -> Iterator[str]:
    rows = [("", "options, best first", "error", "a day", "total", "lost")]
    for number, option in enumerate(made.options, start=1):
        name = f"{'*' if option is chosen else ''}{number:>2}", option.name
        exact = _figure(option.error), *_day_and_total(made.widths(option))
        rows.append((*name, *exact, short_loss(option.final_loss)))
    yield from aligned(rows, "><>>>>")
    yield from textwrap.wrap(
        "error: root of the mean squared error of the live total; a day (in the end), total: 95 %;"
        " lost: ε by the horizon",
        WIDTH,
    )


def _limit(loss: float) -> str:
    """A limit as it was asked for, if that is short."""
    written = f"{loss:.6g}"
    return written if float(written) == loss and len(written) < 8 else short_loss(loss)


def _age(request: Request, steps: int) -> str:
    if request.tick_seconds is None:
        return f"{steps:,}" if steps < 10**12 else f"{steps:.4g}"
    return "first sight" if steps == 0 else format_duration(steps * request.tick_seconds)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 10**5 else f"{value:.3g}"
