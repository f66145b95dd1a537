"""Figures for Prometheus: about the service, and where each stream stands. None is derived from
events.

How often a stream is written to says how much happens there: it *is* the count that the noise
protects. So requests are counted for routes that read, never for the one that takes events. There
is no figure for bytes, commits, queue lengths, waiting work or memory, because all of them depend
on the events. For the same reason the registry has none of the library's default collectors. Ticks
are closed on schedule, independent of events, so they may be counted; every reader sees when a tick
is released, so the lag (in whole seconds) shows nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily

from fadecount.service.clock import Clock
from fadecount.service.parsing import MOST_STREAMS
from fadecount.service.problems import Problem
from fadecount.service.reader_pool import ReaderPool
from fadecount.service.stream_info import StreamInfo, stream_info

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ANSWER_SECONDS = 2.0
"""Seconds that ``/metrics`` waits for the store; after that it shows no single streams."""

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts of what readers did and what the clock did."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"fadecount_{name}", about, registry=self._registry)

        def counter(name: str, about: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(f"fadecount_{name}", about, labels, registry=self._registry)

        self.ready = gauge("ready", "1 when streams can be read and written")
        self.streams = gauge("streams", "streams that this process knows")
        self.lag = gauge("tick_lag_seconds", "how late the most overdue tick is")
        self.live_readers = gauge("live_readers", "open live connections")
        self.failures = counter("ticker_failures", "attempts to close a tick that failed")
        about = "releases by this process; ticks of a stream that are closed together count once"
        self.ticks_closed = counter("ticks_closed", about)
        self._requests = counter("read_requests", "answers of reading routes", ("route", "status"))

    def answered(self, route: str, status: int) -> None:
        """One answer of a reading route, by the route's pattern: never by a name, a key or a
        token."""
        self._requests.labels(route, str(status)).inc()

    def text(self, more: Sequence[Metric]) -> bytes:
        """Everything, and ``more``, in the exposition format."""
        return generate_latest(self._registry) + generate_latest(_Ready(more))


class _Ready(CollectorRegistry):
    """Families that are ready to be written."""

    def __init__(self, families: Sequence[Metric]) -> None:
        super().__init__(auto_describe=False)
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


async def stream_gauges(
    pool: ReaderPool, clock: Clock, state_of: Callable[[str], str]
) -> list[GaugeMetricFamily]:
    """The gauges of each stream, for at most ``MOST_STREAMS`` streams; none if the store does not
    answer."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            statuses = await pool.ask(lambda reader: reader.statuses(limit=MOST_STREAMS + 1))
    except (Problem, TimeoutError):
        return []
    now = clock.now()
    streams = [
        stream_info(each, state_of(each.description.name), now) for each in statuses[:MOST_STREAMS]
    ]

    def family(
        name: str, about: str, value: Callable[[StreamInfo], float | None]
    ) -> GaugeMetricFamily:
        made = GaugeMetricFamily(f"fadecount_stream_{name}", about, labels=["stream"])
        for each in streams:
            if (number := value(each)) is not None:
                made.add_metric([each.name], number)
        return made

    ends = {
        each.description.name: each.description.ticks.start_seconds(each.published_tick + 1)
        for each in statuses
        if each.published_steps and each.published_tick is not None
    }
    return [
        GaugeMetricFamily(
            "fadecount_streams_left_out",
            "1 if there are more streams than are shown one by one",
            value=float(len(statuses) > MOST_STREAMS),
        ),
        family(
            "last_release_timestamp_seconds",
            "when the last released tick ended (Unix seconds)",
            lambda each: ends.get(each.name),
        ),
        family("lag_seconds", "how late the next release is", lambda each: each.lag_seconds),
        family("tick_seconds", "length of a tick", lambda each: each.tick_seconds),
        family(
            "refused",
            "1 if the stream cannot be written; the log says why",
            lambda each: each.state == "refused",
        ),
        family(
            "ended",
            "1 if the stream has had all the ticks of its mechanism",
            lambda each: each.state == "ended",
        ),
        family(
            "clock_wrong",
            "1 if the clock is too far ahead or behind",
            lambda each: each.state.startswith("clock"),
        ),
    ]
