"""What a mechanism will publish when, what is lost by then, and how exact it will be.

All widths are exact: half the length of the interval that holds the true count with at least 95 %.
They are known before the first event, since noise does not depend on data. Months have 30 days.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.durations import UNITS, format_duration
from fadecount.mechanisms import Blocks, Gradual, Loss, Mechanism, views_of
from fadecount.mechanisms.views import Views
from fadecount.planning.discovery import discovery_for
from fadecount.planning.request import Request

Steps = NDArray[np.int64]
Shape = Blocks | Gradual
BETA = 0.05
_SLOTS = (("an hour", UNITS["h"]), ("a day", UNITS["d"]), ("a month", UNITS["mo"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """A figure of ``length`` steps (None: the running total), ``per`` hour or day as people say it,
    published ``lag`` steps after its end, and how far it may then be from the true count.

    ``loss`` is what everything published reveals at most about the unit of the plan, once its first
    event is ``lag`` steps old.
    """

    per: str
    length: int | None
    status: str
    lag: int
    loss: float
    half_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """How far a count that people ask for may be from the true one.

    A slot of time is known ``lag`` steps after its end within ``half_width``, and in the end within
    ``final``. A count that grows all day is within ``half_width`` at half of all times of the day,
    and ``at_worst`` at the time with the most noise.
    """

    name: str
    half_width: int
    at_worst: int | None = None
    lag: int | None = None
    final: int | None = None


def published_figures(mechanism: Shape, request: Request) -> list[PublishedFigure]:
    """What a mechanism publishes, in the order of lengths and lags."""

    if isinstance(mechanism, Blocks):
        return [
            PublishedFigure(
                per=level.name(request.tick_seconds),
                length=level.length,
                status=level.status(place),
                lag=stage.lag,
                loss=lost(mechanism, stage.lag, request),
                half_width=mechanism.figure_interval(number, place),
            )
            for number, level in enumerate(mechanism.levels)
            for place, stage in enumerate(level.stages)
        ]
    total = total_width(mechanism, request)
    return [
        PublishedFigure(
            per="total",
            length=None,
            status="final",
            lag=mechanism.delay,
            loss=lost(mechanism, mechanism.delay, request),
            half_width=total.at_worst or total.half_width,
        )
    ]


def widths(mechanism: Shape, request: Request) -> list[Width]:
    """How exact the counts will be that people ask for: so far today, an hour, a day, a month (if
    the tick is a part of them), and the total after a year, all at the end of that year."""
    last = _end(request)
    result: list[Width] = []
    for name, seconds in _SLOTS:
        length = _in_ticks(seconds, request)
        if 0 < length <= min(last, request.longest_figure):
            end = last // length * length
            if name == "a day" and length > 1:
                times = end - length + np.arange(1, length + 1)
                result.insert(0, _live("so far today", mechanism, end - length, times))
            result.append(_slot(name, mechanism, length, end))
    return [*result, total_width(mechanism, request)]


def total_width(mechanism: Shape, request: Request) -> Width:
    """How exact the total after a year is, or at the horizon if that is sooner, during its last
    day."""
    end = _end(request)
    after = f"{end:,} steps"
    if request.tick_seconds is not None:
        after = format_duration(end * request.tick_seconds)
    day = max(1, min(end, _in_ticks(UNITS["d"], request)))
    return _live(f"the total after {after}", mechanism, 0, end - day + np.arange(1, day + 1))


def _end(request: Request) -> int:
    return min(request.horizon, _in_ticks(UNITS["y"], request) or request.horizon)


def _in_ticks(seconds: int, request: Request) -> int:
    """A duration in ticks; 0 if it has no whole number of them."""
    tick = request.tick_seconds
    return 0 if tick is None or seconds % tick else int(seconds // tick)


def _slot(name: str, mechanism: Shape, length: int, end: int) -> Width:
    """The slot of a length up to ``end``: its figure, or what is computed from figures."""
    lag = last = mechanism.delay
    if isinstance(mechanism, Blocks):
        for number, level in enumerate(mechanism.levels):
            if level.length == length:
                first, final = (
                    mechanism.figure_interval(number, stage) for stage in (0, len(level.stages) - 1)
                )
                return Width(name=name, half_width=first, lag=level.lag, final=final)
        lag = max(level.lag for level in mechanism.levels if length % level.length == 0)
        last = mechanism.levels[-1].length + mechanism.levels[-1].stages[-1].lag
    as_of = end + np.array([lag, last])
    first, final = _half_widths(mechanism, end - length, np.full(2, end), as_of).tolist()
    return Width(name=name, half_width=first, lag=lag, final=final)


def _live(name: str, mechanism: Shape, start: int, ends: Steps) -> Width:
    """A count that grows, as it is seen at these times."""
    if isinstance(mechanism, Blocks):
        # Exact widths of all of them would take a second.
        order = np.argsort(_views(mechanism, start, ends, ends).variances(), kind="stable")
        ends = ends[order[[(len(ends) - 1) // 2, -1]]]
    around = np.sort(_half_widths(mechanism, start, ends, ends))
    return Width(name=name, half_width=int(around[(len(ends) - 1) // 2]), at_worst=int(around[-1]))


def _half_widths(mechanism: Shape, start: int, ends: Steps, as_of: Steps) -> Steps:
    if isinstance(mechanism, Blocks):
        return _views(mechanism, start, ends, as_of).half_widths(BETA)
    delay = mechanism.delay
    starts = np.full_like(ends, start + delay if start else 0)
    return mechanism.half_widths(starts, ends + delay, beta=BETA)


def _views(blocks: Blocks, start: int, ends: Steps, as_of: Steps) -> Views:
    return views_of(blocks, np.full_like(ends, start), ends, as_of, calendar=blocks.calendar)


def lost(mechanism: Mechanism, age: int, request: Request) -> float:
    """What is lost at most about the unit of a request at an age. With keys that appear by
    themselves, it is the larger of both losses, or their sum where events count twice."""
    shown, discovery = request.unit.loss(mechanism, age), discovery_for(request)
    if request.discover is None or discovery is None:
        return shown.epsilon
    hidden = Loss(float(discovery.loss(age)))
    if request.discover[1] == 1.0:
        return max(shown.epsilon, hidden.epsilon)
    return Loss.together([(shown, 1), (hidden, 1)]).epsilon
