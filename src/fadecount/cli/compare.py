"""Compare letting privacy fade with refreshing a privacy budget, at the same error.

Give the fading counter (--plan or --epsilon): the rival refreshes its budget
every day, or as --window says, and has the same mean squared error over the
horizon. The refresh is the paper's baseline: a binary tree in each period, and
the sum of all earlier periods published again in every period, so the losses
of the periods add up. Other ways to refresh can lose less. The last lines say
in words which of these two loses less, and from which age on.

examples:
  fadecount compare --tick 1h --epsilon 0.1
  fadecount compare --tick 1m --plan plan.json --window 1w
  fadecount compare --window 127 --epsilon 0.1 --exponent 2 --json
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
from fadecount.durations import UNITS
from fadecount.errors import ParameterError, bad_parameter
from fadecount.rounding import shown_loss


def add_arguments(parser: argparse.ArgumentParser) -> None:
    window = "time between two refreshes: 1d, 1w, 1mo, 1y (default: 1d), or steps"
    horizon = "steps over which the errors are equal (default: a year, or 10^6 steps)"
    add_mechanism_options(parser)
    add_options(
        parser,
        TICK_OPTION,
        ("--window", "W", window, str),
        ("--horizon", "N", horizon, str),
        JSON_OPTION,
    )


def run(arguments: argparse.Namespace) -> int:
    tick = tick_seconds_from(arguments)
    fading = plan_from(arguments, tick_seconds=tick).mechanism
    window = _window(arguments, tick)
    horizon = _horizon(arguments, tick, window)
    shape = fc.Refresh(window, 1.0, fc.Refresh.best_ratio(window=window, horizon=horizon))
    refresh = shape.for_mse(max(fading.mse(horizon), 1e-6), horizon=horizon)
    crossing = fc.crossing_age(refresh, fading)
    if isinstance(fading, fc.Intervals | fc.Binary) and (crossing or 0) >= fading.horizon:
        crossing = None  # what publishes no more loses no more
    losses = [
        loss_row(age, tick, refresh=refresh.loss(age), fading=fading.loss(age))
        for age in shown_ages(horizon, tick)
    ]
    verdict = _verdict(refresh, fading, crossing, horizon, tick)
    if arguments.json:
        about = {
            "refresh": json.loads(refresh.to_json()),
            "fading": json.loads(fading.to_json()),
            "horizon": horizon,
            "mse": refresh.mse(horizon),
            "fading_mse": fading.mse(horizon),
            "crossing_age": crossing,
            "sentence": verdict,
            "losses": losses,
        }
        print(json_text(about))
        return 0
    for name, mechanism in (("refreshing:", refresh), ("fading:", fading)):
        print(textwrap.fill(f"{name:11} {mechanism}", 88, subsequent_indent=" " * 12))
    span = age_words(horizon, tick) + (f" ({horizon:,} steps)" if tick else "")
    print(f"both have a typical error of {fading.mse(horizon) ** 0.5:,.3g} over {span}\n")
    titles = {"refresh": "refreshing loses", "fading": "fading loses"}
    print(*loss_lines(losses, titles), sep="\n")
    print(f"\n{textwrap.fill(verdict, 88)}")
    return 0


def _window(arguments: argparse.Namespace, tick: int | None) -> int:
    """The steps between two refreshes: a day unless given, or as long as that is two steps."""
    if arguments.window is not None:
        return steps_from(arguments.window, tick, name="--window", minimum=1)
    if tick is None:
        raise ParameterError("--window must be given where --tick is not; such as --window 24")
    return next(
        (UNITS[unit] // tick for unit in ("d", "w", "mo", "y") if UNITS[unit] >= 2 * tick), 2
    )


def _horizon(arguments: argparse.Namespace, tick: int | None, window: int) -> int:
    """The steps over which the errors are equal: by default long enough for a few refreshes."""
    if arguments.horizon is None:
        return max(default_horizon(tick), 4 * window)
    horizon = steps_from(arguments.horizon, tick, name="--horizon")
    if horizon <= window:
        bound = f"more steps than the window, {window}"
        remedy = "a budget never refreshed adds nothing up"
        raise bad_parameter("--horizon", horizon, bound, remedy)
    return horizon


def _verdict(
    refresh: fc.Refresh, fading: fc.Mechanism, crossing: int | None, horizon: int, tick: int | None
) -> str:
    """Which one loses less, from which age on, both losses at the horizon, and what was
    compared."""
    there, here = shown_loss(refresh.loss(horizon)), shown_loss(fading.loss(horizon))
    after = age_words(horizon, tick)
    return (
        f"At the same typical error, {_which_loses_less(crossing, tick)}. After {after} the loss of"
        f" one event is ε ≤ {here} with fading, and ε ≤ {there} with refreshing. Refreshing"
        " is the paper's baseline here: a binary tree in each period, the sum of all earlier"
        f" periods published again in every period, and its budget split to lose least after"
        f" {after}. Another split can lose less for young events. Adding up noisy periods, instead"
        " of publishing their sum again, can lose less than both for old ones."
    )


def _which_loses_less(crossing: int | None, tick: int | None) -> str:
    """Which of the two loses less and from which age on, from their crossing age."""
    if crossing == 0:
        return "fading loses less, or as much, at every age"
    if crossing is None:
        return "there is no age from which on fading loses less"
    age = age_words(crossing, tick) if tick is None else f"about {age_words(crossing, tick)}"
    return (
        f"refreshing can lose less for events younger than {age}; for older events fading loses"
        " less, or as much"
    )
