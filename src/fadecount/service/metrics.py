"""Figures about the service for Prometheus. None is derived from events.

How often a stream is written to says how much happens there: it *is* the count that the noise
protects. So requests are counted for routes that read, never for the one that takes events. There
is no figure for bytes, commits, queue lengths or memory, because all of them depend on the events.
For the same reason the registry has none of the library's default collectors. Ticks are closed on
schedule, independent of events, so they may be counted. The gauges of single streams are in
``stream_status``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Metric,
    disable_created_metrics,
    generate_latest,
)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts of what readers did and what the clock did."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.ready = Gauge(
            "fadecount_ready", "1 when streams can be read and written", registry=registry
        )
        self.streams = Gauge(
            "fadecount_streams", "streams that this process knows", registry=registry
        )
        self.ticks_closed = Counter(
            "fadecount_ticks_closed",
            "releases by this process; ticks of a stream that are closed together count once",
            registry=registry,
        )
        self.lag = Gauge(
            "fadecount_tick_lag_seconds", "how late the most overdue tick is", registry=registry
        )
        self.failures = Counter(
            "fadecount_ticker_failures", "attempts to close a tick that failed", registry=registry
        )
        self.live_readers = Gauge(
            "fadecount_live_readers", "open live connections", registry=registry
        )
        self._requests = Counter(
            "fadecount_read_requests",
            "answers of reading routes",
            ["route", "status"],
            registry=registry,
        )
        self._answers: dict[tuple[str, int], Counter] = {}

    def answered(self, route: str, status: int) -> None:
        """One answer of a reading route, by the route's pattern: never by a name, a key or a
        token."""
        counter = self._answers.get((route, status))
        if counter is None:
            counter = self._answers[route, status] = self._requests.labels(route, str(status))
        counter.inc()

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
