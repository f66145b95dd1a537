"""The planning process: reads one wish per line, writes one plan per line. ``python -m
fadecount.service.planner``.

It knows no store, no stream and no token. It simulates on made-up counts; the noise is the
library's.
"""

from __future__ import annotations

import math
import os
import select
import sys
from datetime import UTC, datetime
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.durations import UNITS, format_duration
from fadecount.errors import FadecountError
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.noise_law import window_half_widths
from fadecount.planning import Option, Person, Plan, person_losses, plan, plan_json
from fadecount.rounding import shown_chance, shown_loss
from fadecount.service.answers import (
    PlanAnswer,
    Planned,
    PlannedLoss,
    PlannedOption,
    SimulatedCount,
    Wish,
)

Numbers = NDArray[np.int64]
LOW_PRIORITY = 10
IDLE_SECONDS = 300.0
"""A process without work ends after this time: it takes about 60 MiB."""

_MOST_TICKS = 400_000
_SIMULATED_SECONDS = UNITS["mo"]
_FEWEST_TICKS = 30
_POINTS = 240
_AGES = 96
_SAMPLED = 64
_MONDAY = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
_WEEK = np.array([1.0, 1.0, 1.05, 1.1, 1.2, 0.9, 0.75])


def answer(wish: Wish) -> PlanAnswer:
    """The plan for a wish, with a simulated stream for the option that it chooses (the last, if
    there are fewer)."""
    made = _planned(without_choice(wish))
    number = min(wish.option, len(made.options))
    chosen = made.options[number - 1]
    totals, windows = _simulated(chosen.mechanism, wish)
    return PlanAnswer(
        unit=_unit(wish),
        tick_seconds=wish.tick_seconds,
        horizon_ticks=wish.horizon,
        window=format_duration(_window(wish) * wish.tick_seconds),
        option=number,
        options=[_option(each, wish) for each in made.options],
        losses=_losses(made, chosen, wish),
        totals=totals,
        windows=windows,
        file=plan_json(made, chosen),
    )


def without_choice(wish: Wish) -> Wish:
    """The wish without what does not change the plan itself: its name in the cache."""
    return msgspec.structs.replace(wish, daily=1, option=1)


@lru_cache(maxsize=64)
def _planned(wish: Wish) -> Plan:
    person = (
        None
        if wish.events is None
        else Person.in_time(wish.events, wish.every_seconds, wish.tick_seconds)
    )
    return plan(
        targets=dict(wish.losses),
        horizon=wish.horizon,
        person=person,
        tick_seconds=wish.tick_seconds,
        delta=wish.delta,
    )


def _unit(wish: Wish) -> str:
    if wish.events is None:
        return "one event"
    often = "once" if wish.events == 1 else f"{wish.events:,} times"
    return (
        f"a person who comes at most {often} in any"
        f" {format_duration(wish.every_seconds).removeprefix('1 ')}"
    )


def _window(wish: Wish) -> int:
    """The ticks of a day, or one tick if a day has no whole number of them."""
    return UNITS["d"] // wish.tick_seconds if UNITS["d"] % wish.tick_seconds == 0 else 1


def _option(option: Option, wish: Wish) -> PlannedOption:
    mechanism, window = option.mechanism, min(_window(wish), wish.horizon)
    starts = (
        np.unique(np.linspace(0, wish.horizon // window - 1, _SAMPLED).astype(np.int64)) * window
    )
    variances = [mechanism.window_variance(start, start + window) for start in starts.tolist()]
    return PlannedOption(
        name=option.name,
        reason=option.reason,
        total_error=option.forecast.mean,
        total_margin=math.ceil(option.forecast.horizon),
        window_error=math.sqrt(sum(variances) / len(variances)),
        window_margin=mechanism.window_interval(int(starts[-1]), int(starts[-1]) + window, 0.05),
        final_loss=shown_loss(option.curve[-1][1]),
    )


def _losses(made: Plan, chosen: Option, wish: Wish) -> list[PlannedLoss]:
    """The curve of the chosen option from one tick to the horizon, evenly on a logarithmic axis,
    and at every limit."""
    grid = np.unique(np.rint(np.geomspace(1, wish.horizon, _AGES)).astype(np.int64)).tolist()
    limits = dict(wish.losses)
    ages = sorted({*grid, *limits})
    found = person_losses(chosen.mechanism, ages, made.request.person, chosen.mechanism.delay)
    return [
        PlannedLoss(
            age_seconds=age * wish.tick_seconds,
            age=format_duration(age * wish.tick_seconds),
            loss=loss.epsilon,
            shown=shown_loss(loss.epsilon),
            sure=shown_chance(loss.certainty) if age in limits else None,
            limit=limits.get(age),
        )
        for age, loss in zip(ages, found, strict=True)
    ]


def made_up(ticks: int, tick_seconds: int, daily: int) -> Numbers:
    """Made-up counts of a public place: more by day than by night, fewer at weekends; the same
    every time."""
    ends = np.arange(1, ticks + 1, dtype=np.float64) * (tick_seconds / UNITS["d"])
    days = np.arange(math.ceil(float(ends[-1])) + 1)
    before = np.concatenate([[0.0], np.cumsum(_WEEK[days % 7])])
    day = np.floor(ends).astype(np.int64)
    share = ends - day
    share -= 0.9 * np.sin(2.0 * math.pi * share) / (2.0 * math.pi)
    total = np.floor(daily * (before[day] + _WEEK[day % 7] * share)).astype(np.int64)
    return np.diff(total, prepend=0)


def _simulated(
    mechanism: Mechanism, wish: Wish
) -> tuple[list[SimulatedCount], list[SimulatedCount]]:
    """Totals and windows of up to a month of a stream with made-up counts and real noise."""
    month = max(_FEWEST_TICKS, _SIMULATED_SECONDS // wish.tick_seconds)
    ticks = min(wish.horizon, month, _MOST_TICKS)
    counts = made_up(ticks, wish.tick_seconds, wish.daily)
    released, truth = (
        np.concatenate([[0], each])
        for each in (Counter(mechanism).extend(counts), np.cumsum(counts))
    )
    shown = np.unique(np.rint(np.linspace(1, ticks, min(_POINTS, ticks))).astype(np.int64))
    edges = np.arange(0, ticks + 1, _window(wish), dtype=np.int64)
    totals = _between(mechanism, wish, released, truth, np.zeros_like(shown), shown, ends=False)
    return totals, _between(mechanism, wish, released, truth, edges[:-1], edges[1:], ends=True)


def _between(
    mechanism: Mechanism,
    wish: Wish,
    released: Numbers,
    truth: Numbers,
    starts: Numbers,
    stops: Numbers,
    *,
    ends: bool,
) -> list[SimulatedCount]:
    if not len(starts):
        return []
    values, true = released[stops] - released[starts], truth[stops] - truth[starts]
    around = window_half_widths(mechanism, starts, stops)
    begins = starts if ends else stops - 1
    columns = (each.tolist() for each in (begins, stops, values, around, true))
    return [
        SimulatedCount(
            tick=_time(begin, wish),
            tick_end=_time(stop, wish) if ends else None,
            value=value,
            low=value - half,
            high=value + half,
            truth=real,
        )
        for begin, stop, value, half, real in zip(*columns, strict=True)
    ]


def _time(tick: int, wish: Wish) -> str:
    return datetime.fromtimestamp(_MONDAY + tick * wish.tick_seconds, UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def respond(line: bytes) -> bytes:
    """A wish as JSON in, a plan as JSON out."""
    try:
        found = Planned(answer=answer(msgspec.json.decode(line, type=Wish)))
    except FadecountError:
        found = Planned(answer=None)
    return msgspec.json.encode(found) + b"\n"


def main() -> None:
    """Serve standard input until it ends, or until nothing was asked for a while."""
    os.nice(LOW_PRIORITY)
    wishes, plans = sys.stdin.buffer, sys.stdout.buffer
    while select.select([wishes], [], [], IDLE_SECONDS)[0]:
        line = wishes.readline()
        if not line:
            return
        plans.write(respond(line))
        plans.flush()


if __name__ == "__main__":
    main()
