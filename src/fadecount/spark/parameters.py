"""The parameters of a release job, checked before anything else happens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from fadecount.checks import require_integer, require_real
from fadecount.durations import parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Mechanism, require_planned_tick
from fadecount.spark.job import require_location


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a release job was asked for, in checked form. ``ticks`` is 0 for a stream, which has no
    end."""

    mechanism: Mechanism
    tick_seconds: int
    start_seconds: int
    late_seconds: int
    shards: int
    beta: float
    stream: str
    secret: str
    ticks: int

    @classmethod
    def checked(
        cls,
        mechanism: Any,
        *,
        tick: Any,
        start: Any,
        end: Any,
        late: Any,
        shards: Any,
        beta: Any,
        stream: Any,
        secret: Any,
        streaming: bool,
    ) -> Parameters:
        """Every parameter within its bounds, or a :class:`ParameterError`."""
        if streaming and end is not None:
            raise ParameterError("end must not be given for a stream, which has none; leave it out")
        if not streaming and end is None:
            raise ParameterError(
                "end must be given for a table; name the end of the last tick to release"
            )
        seconds, first = require_seconds("tick", tick, minimum=1), require_moment("start", start)
        return cls(
            mechanism=require_mechanism(mechanism, seconds),
            tick_seconds=seconds,
            start_seconds=first,
            late_seconds=require_seconds("late", late, minimum=0),
            shards=require_shards(shards),
            beta=require_beta(beta),
            stream=require_stream(stream),
            secret=require_location(secret),
            ticks=0 if streaming else ticks_between(first, end, seconds),
        )


LATEST = 253402300799  # the last second of the year 9999
MOST_SHARDS = 1 << 24


def require_mechanism(mechanism: Any, tick_seconds: int) -> Mechanism:
    if not isinstance(mechanism, Mechanism):
        raise bad_parameter(
            "mechanism",
            mechanism,
            "a fadecount mechanism",
            "such as fadecount.Gradual(epsilon=0.1)",
        )
    if isinstance(mechanism, Blocks):
        raise ParameterError(
            "mechanism on Spark must publish running totals only, got Blocks; choose another option"
            " of the plan, such as gradual"
        )
    if not math.isfinite(mechanism.loss(mechanism.schedule.delay)):
        raise ParameterError(
            "mechanism must have a finite loss, got inf; make the first budget finite"
        )
    require_planned_tick(mechanism, tick_seconds)
    return mechanism


def require_seconds(name: str, value: Any, *, minimum: int) -> int:
    """A duration in whole seconds: ``"15m"``, a timedelta, or a number of seconds."""
    if isinstance(value, str) and not (minimum == 0 and value == "0s"):
        return parse_duration(value, name=name)
    if value == "0s":
        return 0
    remedy = "give whole seconds, such as 900 or '15m'"
    if isinstance(value, timedelta):
        if value % timedelta(seconds=1):
            raise bad_parameter(name, value, "whole seconds", remedy)
        value = value // timedelta(seconds=1)
    return require_integer(name, value, minimum=minimum, maximum=1 << 33, remedy=remedy)


def require_moment(name: str, value: Any) -> int:
    """A point in time as whole seconds since 1970; a text or datetime without a zone is UTC."""
    remedy = "give a time such as '2026-01-01T00:00:00Z', from 1970 on, in whole seconds"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise bad_parameter(name, value, "a point in time", remedy) from None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        if aware.microsecond:
            raise bad_parameter(name, value, "in whole seconds", remedy)
        value = int(aware.timestamp())
    return require_integer(name, value, minimum=0, maximum=LATEST, remedy=remedy)


def require_shards(value: Any) -> int:
    remedy = "take about four for each core, and 1,000 to 100,000 keys in each"
    return require_integer("shards", value, minimum=1, maximum=MOST_SHARDS, remedy=remedy)


def require_beta(value: Any) -> float:
    remedy = "it is the probability that a release lies outside its interval, such as 0.05"
    return require_real("beta", value, low=0.0, high=1.0, open_ends=True, remedy=remedy)


def require_column(name: str, value: Any, columns: list[str]) -> str:
    if not isinstance(value, str) or value not in columns:
        raise bad_parameter(
            name, value, f"a column of the events ({', '.join(columns)})", "check the spelling"
        )
    return value


def require_time_type(name: str) -> None:
    """A number is refused: taken for seconds where it means milliseconds, it would close all ticks
    of the next 50,000 years."""
    if name not in ("timestamp", "timestamp_ntz", "date", "string"):
        remedy = "convert it, such as with timestamp_seconds or timestamp_millis"
        raise ParameterError(f"time must be a timestamp, got a column of type {name}; {remedy}")


def require_stream(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise bad_parameter(
            "stream", value, "a name", "streams with one secret need different names"
        )
    return value


def ticks_between(start: int, end: Any, tick: int) -> int:
    """How many whole ticks lie between two points in time."""
    last = require_moment("end", end)
    if last <= start or (last - start) % tick:
        raise bad_parameter(
            "end", end, "a whole number of ticks after start", "releases cover whole ticks"
        )
    return (last - start) // tick
