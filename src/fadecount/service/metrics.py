"""Figures for Prometheus: about the service, and how many streams are in which state. None is
derived from events.

How often a stream is written to says how much happens there: it *is* the count that the noise
protects. So there is no figure for requests, bytes, commits, queue lengths, waiting work or memory,
because all of them depend on the events. For the same reason the registry has none of the library's
default collectors. Ticks are closed on schedule, independent of events, so they may be counted;
every reader sees when a tick is released, so the lag (in whole seconds) shows nothing more.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
    generate_latest,
)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("running", "clock ahead", "clock behind", "refused", "ended")
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What the clock did, and what the service is doing."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"fadecount_{name}", about, labels, registry=self._registry)

        def counter(name: str, about: str) -> Counter:
            return Counter(f"fadecount_{name}", about, registry=self._registry)

        self.ready = gauge("ready", "1 when streams can be read and written")
        self.lag = gauge("tick_lag_seconds", "how late the most overdue tick is")
        self.live_readers = gauge("live_readers", "open live connections")
        self.failures = counter("ticker_failures", "attempts to close a tick that failed")
        about = "releases by this process; ticks of a stream that are closed together count once"
        self.ticks_closed = counter("ticks_closed", about)
        about = "streams that this process leads, or would lead if they were in order"
        self.streams = gauge("streams", about, "state")

    def text(self) -> bytes:
        """Everything in the exposition format."""
        return generate_latest(self._registry)
