"""Show what a mechanism loses about an event as the event gets older.

The loss at an age is exact: what all outputs so far can reveal about one
event. For block counters, the list has the ages at which the loss grows, and
what is published then.

examples:
  fadecount curve --epsilon 0.1 --tick 1m
  fadecount curve --epsilon 0.05 --exponent 2 --until 1000000000
  fadecount curve --plan plan.json --tick 1m --until 10y --plot curve.svg
  fadecount curve --epsilon 0.1 --delay 5 --until 50 --json
"""

from __future__ import annotations

import argparse
import json
import textwrap

import fadecount as fc
from fadecount.cli._options import (
    JSON_OPTION,
    TICK_OPTION,
    add_mechanism_options,
    add_options,
    default_horizon,
    plan_from,
    steps_from,
    tick_seconds_from,
)
from fadecount.cli._output import age_words, json_text, loss_lines, loss_row, shown_ages
from fadecount.rounding import shown_loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_mechanism_options(parser)
    add_options(
        parser,
        TICK_OPTION,
        ("--until", "AGE", "oldest age, such as 1y or 1000 (default: a year, or 10^6 steps)", str),
        ("--plot", "FILE", "draw the curve as .png, .svg, .pdf or .html", str),
        JSON_OPTION,
    )


def run(arguments: argparse.Namespace) -> int:
    tick = tick_seconds_from(arguments)
    plan = plan_from(arguments, tick_seconds=tick)
    mechanism, discovery = plan.mechanism, plan.discovery
    oldest = min(default_horizon(tick), mechanism.last_step or default_horizon(tick))
    if arguments.until is not None:
        oldest = steps_from(arguments.until, tick, name="--until")
    causes: dict[int, str | None]
    if isinstance(mechanism, fc.Blocks):
        causes = {0: "", **dict(mechanism.loss_steps(tick))}
        titles = {"loss": "loss", "cause": "published then"}
    else:
        causes, titles = dict.fromkeys(shown_ages(oldest, tick)), {"loss": "loss"}
    losses = [
        loss_row(age, tick, loss=mechanism.loss(age), cause=cause)
        for age, cause in sorted(causes.items())
        if age <= oldest
    ]
    error = mechanism.mse(max(1, oldest)) ** 0.5
    if arguments.plot:
        _plot(arguments, mechanism, oldest, tick)
    if arguments.json:
        about = {
            "mechanism": json.loads(mechanism.to_json()),
            "discovery": None if discovery is None else json.loads(discovery.to_json()),
            "root_mean_squared_error": error,
            "losses": losses,
        }
        print(json_text(about))
        return 0
    print(textwrap.fill(str(mechanism), 88))
    print(f"typical error over {max(1, oldest):,} steps: {error:,.3g}")
    more = "" if plan.unit is None else "; the plan's unit is larger: see streams curve"
    print(f"loss: privacy loss (ε) of one event{more}\n", *loss_lines(losses, titles), sep="\n")
    if discovery is not None:
        print(f"\n{textwrap.fill(_hidden(discovery, tick), 88)}")
    return 0


def _hidden(discovery: fc.Discovery, tick: int | None) -> str:
    """What keys that appear by themselves lose, in a sentence."""
    stages = ", ".join(
        f"{shown_loss(float(discovery.loss(lag)))} "
        + (f"{age_words(lag, tick)} after it" if lag else "at its end")
        for lag, _ in discovery.stages
    )
    slot = "day" if discovery.per == "1d" else "month"
    return (
        f"With keys that appear by themselves, a person's {slot} loses {stages}, except with a"
        f" chance of {discovery.delta:g}: then a key appears that this person alone brought."
    )


def _plot(
    arguments: argparse.Namespace, mechanism: fc.Mechanism, oldest: int, tick: int | None
) -> None:
    from fadecount.plots import Curve, draw_curves, new_figure, save_figure

    curves = [Curve.of(mechanism, horizon=oldest + 1, label="exact loss")]
    figure, title = new_figure(), f"What is lost about one event: {mechanism.kind}"
    draw_curves(figure, curves, tick_seconds=tick, title=title)
    save_figure(figure, arguments.plot)
