"""Figures for Prometheus: about the service, and how many streams are in which state. None is
derived from events.

How often a stream is written to says how much happens there: it *is* the count that the noise
protects. So requests are counted for routes that read, never for the one that takes events. There
is no figure for bytes, commits, queue lengths, waiting work or memory, because all of them depend
on the events. For the same reason the registry has none of the library's default collectors. Ticks
are closed on schedule, independent of events, so they may be counted; every reader sees when a tick
is released, so the lag (in whole seconds) shows nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("running", "clock ahead", "clock behind", "refused", "ended")
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics(Collector):
    """Counts of what readers did and what the clock did."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"fadecount_{name}", about, registry=self._registry)

        def counter(name: str, about: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(f"fadecount_{name}", about, labels, registry=self._registry)

        self.ready = gauge("ready", "1 when streams can be read and written")
        self.lag = gauge("tick_lag_seconds", "how late the most overdue tick is")
        self.live_readers = gauge("live_readers", "open live connections")
        self.failures = counter("ticker_failures", "attempts to close a tick that failed")
        about = "releases by this process; ticks of a stream that are closed together count once"
        self.ticks_closed = counter("ticks_closed", about)
        requests = counter("read_requests", "answers of reading routes", ("route", "status"))
        self._requests = cache(lambda *labels: requests.labels(*labels))
        self.streams: Callable[[], Mapping[str, int]] = dict
        """How many streams are in each state."""
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """The streams of this process by state."""
        about = "streams that this process leads, or would lead if they were in order"
        family, streams = (
            GaugeMetricFamily("fadecount_streams", about, None, ["state"]),
            self.streams(),
        )
        for state in STATES:
            family.add_metric([state], streams.get(state, 0))
        yield family

    def answered(self, route: str, method: str, status: int) -> None:
        """Count an answer of a reading route, by the route's pattern: never by a name, a key or a
        token."""
        if not route or method not in ("GET", "HEAD"):
            return
        self._requests(route, str(status)).inc()

    def text(self) -> bytes:
        """Everything in the exposition format."""
        return generate_latest(self._registry)
