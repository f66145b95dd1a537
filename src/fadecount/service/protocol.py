"""The HTTP protocol of uvicorn, with bounds on what comes before a request is complete enough to be routed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fadecount.service.http import SECURITY_HEADERS
from fadecount.service.lane import Lane, LaneCycle, qualifies
from fadecount.service.limits import Limits
from fadecount.service.problems import too_slow

HEAD_BYTES = 16 * 1024
_BODY = too_slow().body()
_TOO_SLOW = b"".join(
    (
        b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json\r\nconnection: close\r\n",
        *(b"%b: %b\r\n" % header for header in SECURITY_HEADERS),
        b"content-length: %d\r\n\r\n%b" % (len(_BODY), _BODY),
    )
)


class GuardedProtocol(HttpToolsProtocol):
    """Closes a connection whose request takes too long to arrive or whose headers are too large, and one connection too many.

    uvicorn bounds the idle time between requests, not the time before the first one: a client that connects and says nothing, or
    says it byte by byte, would hold its connection for ever. So would one that asks for much and does not read it: a connection
    whose unsent bytes do not get fewer is cut off.
    """

    request_seconds = 10.0
    send_seconds = 10.0
    most_connections = 1024
    most_body = 1 << 20
    lane: Lane | None = None
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
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
        self._stop_watching()
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
        free = self.cycle is None or self.cycle.response_complete
        if self.lane is None or not free or not qualifies(self.parser.get_method(), self.url, self.headers, self.most_body):
            super().on_headers_complete()
            return
        place = {"method": "POST", "path": self.url.decode("latin-1"), "raw_path": self.url, "query_string": b""}
        self.cycle = LaneCycle(  # type: ignore[assignment]
            {**self.scope, **place},
            self.transport,
            self.server_state.default_headers,
            self.lane,
            self.on_response_complete,
            keep_alive=self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive(),
        )

    def on_message_complete(self) -> None:
        self._disarm()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client is slower than the answer: see whether it reads at all."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()

    def _watch(self, unsent: int) -> None:
        self._stop_watching()
        self._unread = self.loop.call_later(self.send_seconds, self._look, unsent)

    def _look(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= before:
            self.transport.abort()
        else:
            self._watch(unsent)

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.request_seconds, self._give_up)

    def _give_up(self) -> None:
        """Say why, if the request got far enough for an answer and has none yet; then close."""
        if not self._in_head and self.cycle is not None and not self.cycle.response_started:
            self.transport.write(_TOO_SLOW)
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close() if not self._in_head else self.transport.abort()

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def guarded(limits: Limits, lane: Lane | None) -> type[Any]:
    """The protocol with these bounds, as a class: uvicorn makes one per connection."""
    settings = {
        "request_seconds": limits.request_seconds,
        "send_seconds": limits.send_seconds,
        "most_connections": limits.connections,
        "most_body": limits.body_bytes,
        "lane": None if lane is None else staticmethod(lane),
    }
    return type("Guarded", (GuardedProtocol,), settings)
