"""Figures about the service for Prometheus. None is derived from events.

How often a stream is written to says how much happens there: it *is* the count that the noise protects. So requests are counted
for routes that read, never for the one that takes events; and there is no figure for bytes, commits, queue lengths or memory,
all of which follow the events. Ticks are closed on schedule, whatever happened in them, so they may be counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts of what readers did and what the clock did."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self.live_readers = 0
        self.ticks_closed = 0
        self.ticker_failures = 0

    def answered(self, route: str, status: int) -> None:
        """One answer of a reading route, by the route's pattern: never by a name, a key or a token."""
        self._requests[route, status] += 1

    def text(self, *, streams: int, ready: bool, lag_seconds: float) -> str:
        """Everything, in the exposition format."""
        lines: list[str] = []
        one = (
            ("fadecount_ready", "gauge", "1 when streams can be read and written", int(ready)),
            ("fadecount_streams", "gauge", "streams in the store", streams),
            ("fadecount_ticks_closed_total", "counter", "ticks released by this process", self.ticks_closed),
            ("fadecount_tick_lag_seconds", "gauge", "how late the most overdue tick is", round(lag_seconds, 1)),
            ("fadecount_ticker_failures_total", "counter", "attempts to close a tick that failed", self.ticker_failures),
            ("fadecount_live_readers", "gauge", "open live connections", self.live_readers),
        )
        for name, kind, text, value in one:
            lines += _family(name, kind, text, [("", value)])
        served = [(f'{{route="{route}",status="{status}"}}', count) for (route, status), count in sorted(self._requests.items())]
        lines += _family("fadecount_read_requests_total", "counter", "answers of reading routes", served)
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, text: str, values: Iterable[tuple[str, float]]) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *(f"{name}{labels} {value}" for labels, value in values)]
