"""A short way for small event requests: from the parser to the writer and back, without a task per request.

Most of what a small request costs is the machinery around it. A request that qualifies (a POST to a stream's events with a
declared, small, unpacked body, and nothing else under way on its connection) is answered from callbacks alone. It passes the
same checks, in the same order, through the same code, and gets the same answer as on the long way; a test compares the two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from fadecount.service.http import SECURITY_HEADERS, Scope
from fadecount.service.problems import MEDIA_TYPE, Problem, noted, unavailable
from fadecount.service.write_routes import ACCEPTED, REPEATED

LARGEST_BODY = 1 << 15
Lane = Callable[[Scope, bytes, "LaneCycle"], None]
_ALWAYS = b"".join(b"%b: %b\r\n" % header for header in ((b"cache-control", b"no-store"), *SECURITY_HEADERS))


def qualifies(method: bytes, url: bytes, headers: list[tuple[bytes, bytes]], limit: int) -> bool:
    """Whether a request may take the short way."""
    if method != b"POST" or not url.endswith(b"/events"):
        return False
    length = -1
    for name, value in headers:
        if name == b"content-length":
            length = int(value) if value.isdigit() and len(value) < 9 else -1
        elif name in (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade"):
            return False
    return 0 <= length <= min(LARGEST_BODY, limit)


class LaneCycle:
    """Stands where uvicorn has the cycle of a request and its answer, and has what the protocol asks of one."""

    __slots__ = (
        "_begun", "_default_headers", "_lane", "_on_response", "_transport",
        "body", "disconnected", "keep_alive", "message_event", "more_body", "response_complete", "response_started", "scope",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        transport: asyncio.Transport,
        default_headers: list[tuple[bytes, bytes]],
        lane: Lane,
        on_response: Callable[[], None],
        *,
        keep_alive: bool,
    ) -> None:
        self.scope, self.keep_alive = scope, keep_alive
        self.body, self.more_body = b"", True
        self.disconnected = self.response_started = self.response_complete = False
        self.message_event = self
        self._transport, self._default_headers = transport, default_headers
        self._lane, self._on_response, self._begun = lane, on_response, False

    def set(self) -> None:
        """The protocol says that something has arrived; when it is the end of the body, the request is on its way."""
        if not self.more_body and not self._begun and not self.disconnected:
            self._begun = True
            self._lane(self.scope, self.body, self)

    def answer(self, status: int, body: bytes, media_type: str = "application/json", more: bytes = b"") -> None:
        """Send the whole answer in one piece."""
        if self.disconnected or self.response_started:
            return
        self.response_started = True
        close = b"" if self.keep_alive else b"connection: close\r\n"
        default = b"".join([b"%b: %b\r\n" % header for header in self._default_headers])
        self._transport.write(
            b"HTTP/1.1 %d %b\r\n%bcontent-type: %b\r\ncontent-length: %d\r\n%b%b%b\r\n%b"
            % (status, HTTPStatus(status).phrase.encode(), default, media_type.encode(), len(body), _ALWAYS, more, close, body)
        )
        self.response_complete = True
        if not self.keep_alive:
            self._transport.close()
        self._on_response()

    def refuse(self, problem: Problem) -> None:
        more = b"".join(f"{name.lower()}: {value}\r\n".encode() for name, value in problem.headers.items())
        self.answer(problem.status, problem.body(), MEDIA_TYPE, more)


def finish(done: asyncio.Future[bool], cycle: LaneCycle) -> None:
    """Answer a request when the writer has answered."""
    error = None if done.cancelled() else done.exception()
    if isinstance(error, Problem):
        cycle.refuse(error)
    elif error is not None or done.cancelled():
        cycle.refuse(noted(error) if isinstance(error, Exception) else unavailable())
    else:
        cycle.answer(202, ACCEPTED if done.result() else REPEATED)
