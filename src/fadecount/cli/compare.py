"""Compare refreshing a privacy budget with letting privacy fade, at the same error.

"We refresh our budget every W: what do we really lose, and what would fading
cost at the same error?" Each refresh publishes the sum of all earlier rounds
once more, so the losses add up; the fading mechanism gets the same mean
squared error over the horizon. With --plan, the mechanism of the plan is
shown as it is, beside its own error.

examples:
  fadecount compare --window 1d --tick 1m --epsilon-current 1 --epsilon-past 0.1
  fadecount compare --window 127 --epsilon-current 0.74 --exponent 2 --json
  fadecount compare --window 1w --tick 1h --epsilon-current 1 --plot both.svg
  fadecount compare --window 30d --tick 1m --epsilon-current 1 --plan plan.json
"""

from __future__ import annotations

import argparse
import json

from fadecount import Gradual, Mechanism, Refresh, crossing_age
from fadecount.cli._ages import (
    add_tick_option,
    age_name,
    default_horizon,
    lines_of,
    shown_ages,
    steps_from,
    tick_seconds_from,
)
from fadecount.cli._options import json_text
from fadecount.errors import bad_parameter
from fadecount.mechanisms import read_mechanism
from fadecount.rounding import rounded_up

_USUAL_RATIO = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--window", required=True, metavar="W", help="steps between two refreshes, or (with --tick) as 1d")
    parser.add_argument("--epsilon-current", type=float, required=True, metavar="E", help="budget of the running round")
    parser.add_argument(
        "--epsilon-past", type=float, metavar="E", help="budget for all earlier rounds (default: a tenth of that)"
    )
    parser.add_argument("--plan", metavar="FILE", help="the fading mechanism from a JSON file, with the error that it has")
    parser.add_argument("--exponent", type=float, default=1.0, metavar="K", help="how fast the fading loss grows (default: 1)")
    parser.add_argument(
        "--delay", type=int, default=0, metavar="STEPS", help="steps by which the fading outputs lag (default: 0)"
    )
    parser.add_argument("--horizon", metavar="N", help="steps over which the errors are equal (default: a year, or 10^6 steps)")
    add_tick_option(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw both curves as .png, .svg or .pdf")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    tick = tick_seconds_from(arguments)
    window = steps_from(arguments.window, tick, name="--window", minimum=1)
    horizon = default_horizon(tick) if arguments.horizon is None else steps_from(arguments.horizon, tick, name="--horizon")
    if horizon <= window:
        raise bad_parameter(
            "--horizon", horizon, f"more steps than the window, {window}", "a budget never refreshed adds nothing up"
        )
    current = arguments.epsilon_current
    past = _USUAL_RATIO * current if arguments.epsilon_past is None else arguments.epsilon_past
    refresh = Refresh(window=window, epsilon_current=current, epsilon_past=past)
    mse = refresh.mse(horizon)
    fading: Mechanism = (
        read_mechanism(arguments.plan, tick_seconds=tick)
        if arguments.plan
        else Gradual.for_mse(mse, horizon=horizon, exponent=arguments.exponent, delay=arguments.delay)
    )
    crossing = crossing_age(refresh, fading)
    if arguments.plot:
        _plot(arguments, refresh, fading, horizon, tick)
    found = [(age, refresh.loss(age), fading.loss(age)) for age in shown_ages(horizon, tick)]
    if arguments.json:
        losses = [
            {"age": age, "seconds": age * tick if tick else None, "refresh": ours, "fading": new} for age, ours, new in found
        ]
        about = {"refresh": json.loads(refresh.to_json()), "fading": json.loads(fading.to_json()), "horizon": horizon}
        errors = {"mse": mse, "fading_mse": fading.mse(horizon)}
        print(json_text({**about, **errors, "crossing_age": crossing, "losses": losses}))
        return 0
    table = [["age (steps)", "age", "refreshing loses", "fading loses"]]
    table += [[f"{age:,}", age_name(age, tick), rounded_up(ours, 4), rounded_up(new, 4)] for age, ours, new in found]
    print(f"refreshing: {refresh}\nfading:     {fading}")
    print(f"{_errors(mse, fading.mse(horizon))} over {_named(horizon, tick)}\n\n{lines_of(table, tick_seconds=tick)}\n")
    print(_verdict(refresh, fading, crossing, horizon, tick))
    return 0


def _errors(refreshing: float, fading: float) -> str:
    if abs(refreshing - fading) < 1e-6 * refreshing:
        return f"both have a typical error of {refreshing**0.5:,.3g}"
    return f"refreshing has a typical error of {refreshing**0.5:,.3g}, fading of {fading**0.5:,.3g},"


def _verdict(refresh: Refresh, fading: Mechanism, crossing: int | None, horizon: int, tick: int | None) -> str:
    if crossing is None:
        return "Refreshing never loses more for good."
    end = f"After {_named(horizon, tick)} it is {refresh.loss(horizon) / fading.loss(horizon):,.3g} times as much."
    if crossing > horizon:
        return f"Fading loses less only from an age of {_named(crossing, tick)} on.\n{end}"
    return f"From an age of {_named(crossing, tick)} on, refreshing always loses at least as much.\n{end}"


def _named(steps: int, tick: int | None) -> str:
    return f"{age_name(steps, tick)} ({steps:,} steps)" if tick and steps else f"{steps:,} steps"


def _plot(arguments: argparse.Namespace, refresh: Refresh, fading: Mechanism, horizon: int, tick: int | None) -> None:
    from fadecount.plots import Curve, draw_curves, new_figure, save_figure

    curves = [
        Curve.of(
            refresh, horizon=horizon + 1, label=f"refreshing every {_named(refresh.window, tick)}", kind="baseline", group=1
        ),
        Curve.of(fading, horizon=horizon + 1, label="fading, as planned" if arguments.plan else "fading, same error", group=0),
    ]
    figure = new_figure()
    draw_curves(figure, curves, tick_seconds=tick, columns=2, title="What is lost about one event")
    save_figure(figure, arguments.plot)
