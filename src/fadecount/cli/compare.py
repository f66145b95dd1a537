"""Compare refreshing a privacy budget with letting privacy fade, at the same error.

Give the fading counter (--plan or --epsilon): the rival refreshes its budget
every day, or as --window says, and has the same mean squared error over the
horizon. Or give the refresh that you run (--epsilon-current): then a fading
counter gets its error. The refresh is the paper's baseline: a binary tree in
each period, and the sum of all earlier periods published again in every
period, so the losses of the periods add up. Other ways to refresh can lose
less. The last lines say in words which of these two loses less, and from
which age on.

examples:
  fadecount compare --tick 1h --epsilon 0.1
  fadecount compare --tick 1m --plan plan.json --window 1w --plot both.svg
  fadecount compare --window 1d --tick 1m --epsilon-current 1 --epsilon-past 0.1
  fadecount compare --window 127 --epsilon-current 0.74 --exponent 2 --json
"""

from __future__ import annotations

import argparse
import json
import textwrap

import fadecount as fc
from fadecount.cli._options import (
    JSON_OPTION,
    add_options,
    add_tick_option,
    default_horizon,
    steps_from,
    tick_seconds_from,
)
from fadecount.cli._output import age_name, json_text, lines_of, shown_ages
from fadecount.durations import UNITS
from fadecount.errors import ParameterError, bad_parameter
from fadecount.rounding import rounded_up, shown_loss

FAR_APART = 8.0
"""Curves that end so many times apart are drawn on a logarithmic axis: on a linear one the lower
could not be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    window = "time between two refreshes: 1d, 1w, 1mo, 1y (default: 1d), or steps"
    past = "budget for all earlier rounds (default: what loses least by the horizon)"
    horizon = "steps over which the errors are equal (default: a year, or 10^6 steps)"
    add_options(parser, ("--window", "W", window, str))
    add_options(
        parser.add_argument_group("the fading counter, if it is given"),
        ("--plan", "FILE", "the fading mechanism from a JSON file", str),
        ("--epsilon", "E", "gradual expiration with this loss at first", float),
        ("--exponent", "K", "how fast the fading loss grows (default: 1)", 1.0),
        ("--delay", "STEPS", "steps by which the fading outputs lag (default: 0)", 0),
    )
    add_options(
        parser.add_argument_group("the refresh, if it is given"),
        ("--epsilon-current", "E", "budget of the running round", float),
        ("--epsilon-past", "E", past, float),
    )
    add_tick_option(parser)
    add_options(
        parser,
        ("--horizon", "N", horizon, str),
        ("--plot", "FILE", "draw both curves as .png, .svg or .pdf", str),
        JSON_OPTION,
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount.mechanisms.comparison import what_refreshing_is

    tick = tick_seconds_from(arguments)
    window = _window(arguments, tick)
    horizon = _horizon(arguments, tick, window)
    refresh, fading = _both(arguments, tick, window, horizon)
    mse, crossing = refresh.mse(horizon), fc.crossing_age(refresh, fading)
    if arguments.plot:
        _plot(arguments, refresh, fading, horizon, tick)
    found = [(age, refresh.loss(age), fading.loss(age)) for age in shown_ages(horizon, tick)]
    verdict = _verdict(refresh, fading, crossing, horizon, tick)
    if isinstance(fading, fc.Gaussian):
        verdict += (
            f" Each fading loss holds except with a chance of {fading.delta:g}; refreshing has no"
            " such exception."
        )
    after = age_name(horizon, tick) if tick else f"{horizon:,} steps"
    least = f"its budget split to lose least after {after}"
    split = least if arguments.epsilon_past is None else "its budget split as given"
    verdict += f" {what_refreshing_is(split)}"
    if arguments.json:
        losses = [
            {"age": age, "seconds": age * tick if tick else None, "refresh": ours, "fading": new}
            for age, ours, new in found
        ]
        about = {
            "refresh": json.loads(refresh.to_json()),
            "fading": json.loads(fading.to_json()),
            "horizon": horizon,
        }
        errors = {"mse": mse, "fading_mse": fading.mse(horizon)}
        print(
            json_text(
                {**about, **errors, "crossing_age": crossing, "sentence": verdict, "losses": losses}
            )
        )
        return 0
    table = [["age (steps)", "age", "refreshing loses", "fading loses"]]
    table += [
        [f"{age:,}", age_name(age, tick), rounded_up(ours, 4), rounded_up(new, 4)]
        for age, ours, new in found
    ]
    print(f"refreshing: {refresh}\nfading:     {fading}")
    print(
        f"{_errors(mse, fading.mse(horizon))} over"
        f" {_named(horizon, tick)}\n\n{lines_of(table, tick_seconds=tick)}\n"
    )
    print(textwrap.fill(verdict, 88))
    return 0


def _window(arguments: argparse.Namespace, tick: int | None) -> int:
    """The steps between two refreshes: a day unless given, or as long as that is two steps."""
    if arguments.window is not None:
        return steps_from(arguments.window, tick, name="--window", minimum=1)
    if tick is None:
        raise ParameterError(
            "--window must be given where --tick is not; it is the number of steps between two"
            " refreshes"
        )
    return next(
        (UNITS[unit] // tick for unit in ("d", "w", "mo", "y") if UNITS[unit] >= 2 * tick), 2
    )


def _horizon(arguments: argparse.Namespace, tick: int | None, window: int) -> int:
    """What was given, or a year, or four windows if that is longer."""
    if arguments.horizon is None:
        return max(default_horizon(tick), 4 * window)
    horizon = steps_from(arguments.horizon, tick, name="--horizon")
    if horizon <= window:
        raise bad_parameter(
            "--horizon",
            horizon,
            f"more steps than the window, {window}",
            "a budget never refreshed adds nothing up",
        )
    return horizon


def _both(
    arguments: argparse.Namespace, tick: int | None, window: int, horizon: int
) -> tuple[fc.Refresh, fc.Mechanism]:
    """One of the two is given, the other gets its error. If both are given, both stay as they
    are."""
    if arguments.plan and arguments.epsilon is not None:
        raise ParameterError("--epsilon must be left out with --plan; the plan holds the mechanism")
    current, past, fading = (
        arguments.epsilon_current,
        arguments.epsilon_past,
        _given(arguments, tick),
    )
    if current is None:
        if fading is None:
            raise ParameterError(
                "--plan, --epsilon or --epsilon-current must be given: the other counter gets its"
                " error"
            )
        if past is not None:
            raise ParameterError(
                "--epsilon-current must be given with --epsilon-past; they are the budgets of one"
                " refresh"
            )
        from fadecount.mechanisms import refresh_with_error_of

        return refresh_with_error_of(fading, window=window, horizon=horizon), fading
    share = fc.Refresh.best_ratio(window=window, horizon=horizon)
    refresh = fc.Refresh(
        window=window,
        epsilon_current=current,
        epsilon_past=share * current if past is None else past,
    )
    shape = fc.Gradual(1.0, exponent=arguments.exponent, delay=arguments.delay)
    return refresh, fading or shape.for_mse(refresh.mse(horizon), horizon=horizon)


def _given(arguments: argparse.Namespace, tick: int | None) -> fc.Mechanism | None:
    if arguments.plan:
        from fadecount.mechanisms import read_mechanism

        return read_mechanism(arguments.plan, tick_seconds=tick)
    if arguments.epsilon is None:
        return None
    return fc.Gradual(epsilon=arguments.epsilon, exponent=arguments.exponent, delay=arguments.delay)


def _same(refreshing: float, fading: float) -> bool:
    return abs(refreshing - fading) < 1e-6 * refreshing


def _errors(refreshing: float, fading: float) -> str:
    if _same(refreshing, fading):
        return f"both have a typical error of {refreshing**0.5:,.3g}"
    return (
        f"refreshing has a typical error of {refreshing**0.5:,.3g}, fading of {fading**0.5:,.3g},"
    )


def _verdict(
    refresh: fc.Refresh, fading: fc.Mechanism, crossing: int | None, horizon: int, tick: int | None
) -> str:
    """Which one loses less, from which age on, and both losses at the horizon."""
    from fadecount.mechanisms import which_loses_less

    same = _same(refresh.mse(horizon), fading.mse(horizon))
    begin = "At the same typical error" if same else "Their errors differ. As they are"
    when = which_loses_less(crossing, ours="fading", tick_seconds=tick)
    there, here = shown_loss(refresh.loss(horizon)), shown_loss(fading.loss(horizon))
    after = age_name(horizon, tick) if tick else f"{horizon:,} steps"
    return (
        f"{begin}, {when}. After {after} the loss of one event is ε ≤ {here} with fading and ε ≤"
        f" {there} with refreshing."
    )


def _named(steps: int, tick: int | None) -> str:
    return f"{age_name(steps, tick)} ({steps:,} steps)" if tick and steps else f"{steps:,} steps"


def _label(
    arguments: argparse.Namespace, refresh: fc.Refresh, fading: fc.Mechanism, horizon: int
) -> str:
    return (
        "same error"
        if _same(refresh.mse(horizon), fading.mse(horizon))
        else "as planned"
        if arguments.plan
        else "as given"
    )


def _plot(
    arguments: argparse.Namespace,
    refresh: fc.Refresh,
    fading: fc.Mechanism,
    horizon: int,
    tick: int | None,
) -> None:
    from fadecount.plots import Curve, draw_curves, new_figure, save_figure

    curves = [
        Curve.of(
            refresh,
            horizon=horizon + 1,
            label=f"refreshing every {_named(refresh.window, tick)}",
            kind="baseline",
            group=1,
        ),
        Curve.of(
            fading,
            horizon=horizon + 1,
            label=f"fading, {_label(arguments, refresh, fading, horizon)}",
            group=0,
        ),
    ]
    figure = new_figure()
    apart = max(refresh.loss(horizon), fading.loss(horizon)) > FAR_APART * min(
        refresh.loss(horizon), fading.loss(horizon)
    )
    draw_curves(
        figure,
        curves,
        tick_seconds=tick,
        columns=2,
        logarithmic=apart,
        title="What is lost about one event",
    )
    save_figure(figure, arguments.plot)
