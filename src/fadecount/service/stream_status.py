"""Where each stream stands, as gauges for Prometheus.

Everything here is public: what a stream is, which ticks are released, what the clock and the fence
say, and the released values themselves. Nothing depends on events that are not released. When a
tick is released can be seen by every reader, so the lag (in whole seconds) shows nothing more.
There is no figure about accepted events, requests of writers or waiting work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily

from fadecount.service.answers import ReleasedValue
from fadecount.service.parsing import MOST_STREAMS
from fadecount.service.problems import Problem
from fadecount.service.read_routes import ReadContext, released_tick
from fadecount.service.reader_pool import read_stream
from fadecount.service.stream_info import StreamInfo, stream_info
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status

ANSWER_SECONDS = 2.0
"""Seconds that ``/metrics`` waits for the store; after that it shows no single streams."""

Values = dict[str, list[ReleasedValue]]
_ENDS: tuple[tuple[str, str, Callable[[ReleasedValue], int]], ...] = (
    ("count", "last released count of a key: the true count with noise", lambda row: row.value),
    ("low", "the true count is at least this, 97.5 % of the time", lambda row: row.low),
    ("high", "the true count is at most this, 97.5 % of the time", lambda row: row.high),
)


async def stream_gauges(context: ReadContext, most_values: int) -> list[GaugeMetricFamily]:
    """The gauges of each stream, for at most ``MOST_STREAMS`` streams and ``most_values`` released
    values; none if the store does not answer.

    A stream whose keys would exceed ``most_values`` has no values here. Which streams those are
    depends on public facts only.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            statuses, values = await context.pool.ask(lambda reader: _read(reader, most_values))
    except (Problem, TimeoutError):
        return []
    now = context.clock.now()
    families = list(_of_streams(statuses, context.state_of, now))
    return [*families, *_of_values(statuses, values)] if most_values else families


def _read(reader: Reader, most_values: int) -> tuple[list[Status], Values]:
    """The status of the first streams, and the values of those that fit."""
    statuses = reader.statuses(limit=MOST_STREAMS + 1)
    values = Values()
    for status in statuses[:MOST_STREAMS]:
        if status.published_steps and status.width <= most_values:
            stream = read_stream(reader, status.description.name)
            if stream is not None and stream.last_tick is not None:
                most_values -= status.width
                values[stream.name] = released_tick(reader, stream, stream.last_tick).releases
    return statuses, values


def _of_values(statuses: list[Status], values: Values) -> Iterator[GaugeMetricFamily]:
    shown = [each.description.name for each in statuses if each.published_steps]
    left_out = sum(name not in values for name in shown)
    about = "streams whose released counts are not shown: too many keys"
    yield _single("fadecount_released_left_out", about, left_out)
    for ending, about, value in _ENDS:
        family = GaugeMetricFamily(f"fadecount_released_{ending}", about, labels=["stream", "key"])
        for name, rows in values.items():
            for row in rows:
                family.add_metric([name, row.key], value(row))
        yield family


def _of_streams(
    statuses: list[Status], state_of: Callable[[str], str], now: float
) -> Iterator[GaugeMetricFamily]:
    shown = [
        (each, stream_info(each, state_of(each.description.name), now))
        for each in statuses[:MOST_STREAMS]
    ]

    def family(name: str, about: str, value: Callable[[StreamInfo], float]) -> GaugeMetricFamily:
        made = GaugeMetricFamily(f"fadecount_stream_{name}", about, labels=["stream"])
        for _, each in shown:
            made.add_metric([each.name], value(each))
        return made

    about = "1 if there are more streams than are shown one by one"
    yield _single("fadecount_streams_left_out", about, len(statuses) > MOST_STREAMS)
    about = "when the last released tick ended (Unix seconds)"
    last = GaugeMetricFamily(
        "fadecount_stream_last_release_timestamp_seconds", about, labels=["stream"]
    )
    for status, each in shown:
        if status.published_steps and status.published_tick is not None:
            ended = status.description.ticks.start_seconds(status.published_tick + 1)
            last.add_metric([each.name], ended)
    yield last
    yield family("lag_seconds", "how late the next release is", lambda each: each.lag_seconds)
    yield family("tick_seconds", "length of a tick", lambda each: each.tick_seconds)
    about = "1 if the stream cannot be written; the log says why"
    yield family("refused", about, lambda each: each.state == "refused")
    about = "1 if the stream has had all the ticks of its mechanism"
    yield family("ended", about, lambda each: each.state == "ended")
    about = "1 if the clock is too far ahead or behind"
    yield family("clock_wrong", about, lambda each: each.state.startswith("clock"))


def _single(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=float(value))
