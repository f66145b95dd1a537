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

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
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

from fadecount.service.parsing import MOST_STREAMS
from fadecount.service.stream_info import StreamInfo

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _seconds(moment: str | None) -> float | None:
    return None if moment is None else datetime.fromisoformat(moment).timestamp()


Value = Callable[[StreamInfo], float | None]
_STREAM_GAUGES: tuple[tuple[str, str, Value], ...] = (
    (
        "last_release_timestamp_seconds",
        "when the last released tick ended (Unix seconds)",
        lambda each: _seconds(each.published_through),
    ),
    ("lag_seconds", "how late the next release is", lambda each: each.lag_seconds),
    ("tick_seconds", "length of a tick", lambda each: each.tick_seconds),
    (
        "refused",
        "1 if the stream cannot be written; the log says why",
        lambda each: each.state == "refused",
    ),
    (
        "ended",
        "1 if the stream has had all the ticks of its mechanism",
        lambda each: each.state == "ended",
    ),
    (
        "clock_wrong",
        "1 if the clock is too far ahead or behind",
        lambda each: each.state.startswith("clock"),
    ),
)
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
        requests = counter("read_requests", "answers of reading routes", ("route", "status"))
        self._requests = cache(lambda *labels: requests.labels(*labels))

    def answered(self, route: str, status: int) -> None:
        """One answer of a reading route, by the route's pattern: never by a name, a key or a
        token."""
        self._requests(route, str(status)).inc()

    def text(self, streams: Sequence[StreamInfo] | None) -> bytes:
        """Everything in the exposition format, with the gauges of single streams if the streams are
        known."""
        service = generate_latest(self._registry)
        return service if streams is None else service + generate_latest(_Streams(streams))


class _Streams(CollectorRegistry):
    """The gauges of single streams, at one moment; of at most ``MOST_STREAMS``."""

    def __init__(self, streams: Sequence[StreamInfo]) -> None:
        super().__init__(auto_describe=False)
        self._streams, self._left_out = streams[:MOST_STREAMS], len(streams) > MOST_STREAMS

    def collect(self) -> Iterator[Metric]:
        about = "1 if there are more streams than are shown one by one"
        yield GaugeMetricFamily("fadecount_streams_left_out", about, value=float(self._left_out))
        for name, about, value in _STREAM_GAUGES:
            family = GaugeMetricFamily(f"fadecount_stream_{name}", about, labels=["stream"])
            for each in self._streams:
                if (number := value(each)) is not None:
                    family.add_metric([each.name], number)
            yield family
