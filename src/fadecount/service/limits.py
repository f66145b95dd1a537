"""Bounds that a service needs against strangers, whatever is in front of it."""

from __future__ import annotations

import resource
from dataclasses import dataclass

BACKLOG = 128
"""Connections that may wait in the system's queue before the first of them is accepted."""

_OTHER_FILES = 128
"""Open files that the store, the fence and the readers need at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on requests. The defaults suit one machine on a network that is not trusted. Limits
    for single clients are for the proxy in front."""

    body_bytes: int = 1 << 20
    events_per_request: int = 50_000
    request_seconds: float = 10.0
    idle_seconds: float = 15.0
    send_seconds: float = 10.0
    connections: int = 1024
    waiting_batches: int = 4096
    waiting_bytes: int = 64 << 20
    """What the batches that wait to be committed may take in memory, about."""


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
