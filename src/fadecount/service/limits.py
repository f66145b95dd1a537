"""Limits on requests: for one client, and for all clients together."""

from __future__ import annotations

import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil

from fadecount.service.problems import too_many
from fadecount.service.tokens import Grant

BACKLOG = 128
"""Connections that may wait in the system's queue before the first of them is accepted."""

_OTHER_FILES = 128
"""Open files that the store, the fence and the readers need at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on requests. The defaults suit one machine on a network that is not trusted."""

    body_bytes: int = 1 << 20
    events_per_request: int = 50_000
    request_seconds: float = 10.0
    idle_seconds: float = 15.0
    send_seconds: float = 10.0
    connections: int = 1024
    requests_per_second: float = 0.0
    burst: int = 200
    waiting_batches: int = 4096


def room_for(connections: int) -> int:
    """The largest number of connections: each is an open file, and the store must always get the
    few that it needs.

    The limit on open files is raised where the system allows it; otherwise fewer connections are
    accepted.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + BACKLOG + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, allowed - BACKLOG - _OTHER_FILES)


class RateLimit:
    """At most ``per_second`` requests a second from one client, after a burst; 0 means no limit.

    A token bucket per client, for at most ``most_clients`` clients at a time. The least recently
    seen client is dropped first, so memory does not grow with the number of addresses.
    """

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        most_clients: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._most_clients = most_clients
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Count one request, or raise a Problem with status 429."""
        if not self._per_second:
            return
        now = self._clock()
        level, since = self._buckets.pop(client, (self._burst, now))
        level = min(self._burst, level + (now - since) * self._per_second)
        if level < 1.0:
            self._buckets[client] = (level, now)
            raise too_many(int((1.0 - level) / self._per_second) + 1)
        self._buckets[client] = (level - 1.0, now)
        if len(self._buckets) > self._most_clients:
            self._buckets.popitem(last=False)


class TokenLimits:
    """Holds tokens to their own limits: requests a second, connections in use at once, live readers
    at once.

    A connection is in use while one of its requests is being answered, so connections that a proxy
    keeps open do not count.
    """

    def __init__(self) -> None:
        self._rates: dict[str, RateLimit] = {}
        self._requests: Counter[str] = Counter()
        self._live: Counter[str] = Counter()

    @contextmanager
    def request(self, grant: Grant, *, live: bool) -> Iterator[None]:
        """One request of a token, while it is being answered; raises a Problem with status 429 if
        it is too much."""
        used = [(self._requests, grant.connections)] + (
            [(self._live, grant.live_readers)] if live else []
        )
        for count, most in used:
            if most is not None and count[grant.id] >= most:
                raise too_many(1)
        if grant.rate is not None:
            bucket = self._rates.setdefault(grant.id, RateLimit(grant.rate, ceil(grant.rate)))
            bucket.take(grant.id)
        for count, _ in used:
            count[grant.id] += 1
        try:
            yield
        finally:
            for count, _ in used:
                count[grant.id] -= 1
                if not count[grant.id]:
                    del count[grant.id]
