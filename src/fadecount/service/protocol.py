"""The HTTP protocol of uvicorn, with bounds on what comes before a request is complete enough to be routed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 16 * 1024


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers take too long or are too large, and one connection too many.

    uvicorn bounds the idle time between requests, not the time before the first one: a client that connects and says nothing, or
    says it byte by byte, would hold its connection for ever.
    """

    head_seconds = 10.0
    most_connections = 1024
    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
        else:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        if self._deadline is None:
            self._arm()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._head_bytes = 0
        super().on_response_complete()

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(head_seconds: float, most_connections: int) -> type[Any]:
    """The protocol with these bounds, as a class: uvicorn makes one per connection."""
    return type("Guarded", (GuardedProtocol,), {"head_seconds": head_seconds, "most_connections": most_connections})
