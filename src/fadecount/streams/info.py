"""What is public about a stream, in one form for HTTP and the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fadecount.calendar import Calendar
from fadecount.mechanisms import Blocks, Mechanism, Unit
from fadecount.streams.loss import UnitLoss
from fadecount.streams.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class NextFigure:
    """The block from `start` to `end` is published at the time `published`."""

    start: str
    end: str
    published: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInfo:
    """One publication of each block of a level, `lag_seconds` after the block's end. From then on
    one unit has lost at most `loss` (ε), by all that is published: what is lost at `age_seconds`,
    counted from the unit's start. `next` is the figure of this stage that comes next."""

    status: str
    lag_seconds: int
    age_seconds: int
    loss: float
    next: NextFigure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelInfo:
    """Blocks of the length `per`, whose figures become sharper with each of the `stages`."""

    per: str
    stages: tuple[StageInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """Everything that is public about a stream.

    `state` is running, ended, refused, clock ahead, clock behind, led elsewhere, or unknown while
    the store is away or no service was asked. Every loss is stated for one `unit`, in words
    `unit_text`. `hidden` says how undeclared keys appear by
    themselves (null: they do not): the `discovery`, with the `thresholds` of its stages, and the
    chance `delta` in words. `group` is what all streams about the same people together lose:
    `name`, `unit` and `text` in words, a `curve` of `loss` up to `age_seconds` (null: for ever),
    except with the probability `delta`; null for a stream in no group: then losses of other streams
    are not added. Figures are kept for `retain_seconds` (null: for ever). `first_start` is the
    start of the first tick as of which nothing was removed. Everything is published that was due at
    `published_through`, the end of the last tick that is over (null: none is), and `open_start` is
    the start of the tick that is open now. The next publication is `lag_seconds` late. `levels` are
    the blocks that have figures of their own; none for running totals. `interval` says what
    intervals cover. `default_per` is what people read first. Where each person counts once in slots
    of `distinct_per`, longer times do not add up. A list of streams leaves out `keys` and the
    `next` figures.
    """

    name: str
    state: str
    tick_seconds: int
    zone: str
    key_count: int
    keys: tuple[str, ...]
    mechanism: dict[str, Any]
    levels: tuple[LevelInfo, ...]
    default_per: str
    distinct_per: str | None
    unit: Unit
    unit_text: str
    interval: str
    group: dict[str, Any] | None
    hidden: dict[str, Any] | None
    retain_seconds: int | None
    first_start: str | None
    published_through: str | None
    open_start: str
    lag_seconds: int


def stream_info(
    status: Status, state: str, now: float, keys: tuple[str, ...] | None = None
) -> StreamInfo:
    """Describes a stream at a time; without ``keys`` as in a list. ``state`` is what the process
    that writes says of it.

    Everything here is public. When a tick is published can be seen by every reader, so the lag
    shows nothing more.
    """
    description, ticks = status.description, status.description.ticks
    hidden, loss = description.hidden, description.loss
    first, last = status.shown_from, status.published_tick
    horizon = description.mechanism.last_step
    ended = horizon is not None and status.published_steps >= horizon
    due = None if ended else ticks.start_seconds(last + 2)
    is_published = status.published_steps > 0
    return StreamInfo(
        name=description.name,
        state="ended" if ended else state,
        tick_seconds=ticks.tick_seconds,
        zone=ticks.zone,
        key_count=status.width,
        keys=keys or (),
        mechanism=_as_json(description.mechanism),
        levels=_levels(status, loss, with_next=keys is not None),
        default_per=description.default_per,
        distinct_per=description.unit.distinct_per,
        unit=description.unit,
        unit_text=description.unit.text,
        interval=f"95 %, {description.covers}",
        group=None if status.group is None else status.group.about,
        hidden=None if hidden is None else hidden.about,
        retain_seconds=status.retain_seconds,
        first_start=ticks.local(first) if is_published else None,
        published_through=ticks.local(last + 1) if is_published else None,
        open_start=ticks.local(ticks.at(now)),
        lag_seconds=0 if due is None else max(0, int(now - due)),
    )


def _levels(status: Status, loss: UnitLoss, with_next: bool) -> tuple[LevelInfo, ...]:
    description, calendar = status.description, status.calendar if with_next else None
    mechanism, seconds = description.mechanism, description.ticks.tick_seconds
    if not isinstance(mechanism, Blocks):
        return ()
    span = -(-description.span_seconds // seconds)
    return tuple(
        LevelInfo(
            per=per,
            stages=tuple(
                StageInfo(
                    status=level.status(number),
                    lag_seconds=stage.lag * seconds,
                    age_seconds=(stage.lag + span) * seconds,
                    loss=loss.at_age(stage.lag + span).epsilon,
                    next=_next_figure(status, calendar, at, stage.lag) if calendar else None,
                )
                for number, stage in enumerate(level.stages)
            ),
        )
        for at, (per, level) in enumerate(zip(description.levels, mechanism.levels, strict=True))
    )


def _next_figure(status: Status, calendar: Calendar, level: int, lag: int) -> NextFigure:
    """The block of a level that has its figure of this stage next."""
    start = calendar.out(level, max(0, status.published_steps - lag))
    calendar = calendar.reaching(start)
    end = calendar.end(level, start + 1)
    shown, first = status.description.ticks.local, calendar.first_tick
    return NextFigure(
        start=shown(first + start),
        end=shown(first + end),
        published=shown(first + calendar.due(level, end) + lag),
    )


@lru_cache(maxsize=1024)
def _as_json(mechanism: Mechanism) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(mechanism.to_json())
    return fields
