"""The HTTP protocol of uvicorn, with limits for one connection: time, bytes, one request."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fadecount.service import http
from fadecount.service.http import (
    PIECE_BYTES,
    WRITE,
    Answer,
    Headers,
    problem_answer,
)
from fadecount.service.problems import Problem, bad_request, too_large, too_slow
from fadecount.service.settings import Limits

HEAD_BYTES = 16 * 1024
FRAMING_BYTES = 64 * 1024
"""Bytes allowed for chunk headers, extensions and trailers, in addition to as many bytes as the
largest body has."""

_quiet = logging.getLogger("fadecount.service.protocol")
_quiet.setLevel(logging.ERROR)  # garbage from anybody must not fill the log


class GuardedProtocol(HttpToolsProtocol):
    """Guarantees, for every connection:

    - every byte has a deadline: a request must be complete ``request_seconds`` after its first
      byte, the next one must begin ``idle_seconds`` after an answer, whatever arrives in between,
      and a client must read the answer it requested;
    - headers take at most ``HEAD_BYTES``, a whole message at most twice the largest body and a
      little; trailers are ignored;
    - there is one request at a time: what is sent behind it before its answer (pipelining) is not
      read, and the connection is closed after the answer; the client sends it again on another one.

    A connection that exceeds a limit gets an answer if no other answer has begun, and is closed. If
    there are too many connections, the one is closed that has waited longest without a request to
    answer: silent ones cannot keep others out.
    """

    limits: ClassVar[Limits] = Limits()
    waiting: ClassVar[OrderedDict[GuardedProtocol, None]] = OrderedDict()
    """The connections of a server without a request to answer, those that have waited longest
    first."""

    _message_bytes = 0
    _head_bytes = 0
    _in_message = False
    _in_head = True

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self.logger = _quiet
        self._deadline = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE_BYTES)
        if len(self.connections) > self.limits.connections:
            if not self.waiting:
                transport.abort()
                return
            self.waiting.popitem(last=False)[0].transport.abort()
        self.waiting[self] = None
        self._arm(self.limits.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        for timer in filter(None, (self._alarm, self._reading)):
            timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._message_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing() or not self._in_message:
            return
        if self._in_head and self._message_bytes > HEAD_BYTES:
            detail = f"the head of a request must be at most {HEAD_BYTES} bytes"
            self._refuse(Problem(431, "head_too_large", detail))
        elif self._message_bytes > HEAD_BYTES + 2 * self.limits.body_bytes + FRAMING_BYTES:
            self._refuse(too_large(self.limits.body_bytes))

    def on_message_begin(self) -> None:
        if self._is_unanswered():
            raise OverflowError("one request at a time")  # the parser stops here
        self._in_message, self._in_head, self._message_bytes, self._head_bytes = True, True, 0, 0
        self._arm(self.limits.request_seconds)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(name) + len(value) + 4
            if self._head_bytes > HEAD_BYTES:  # a whole head may come in one piece
                raise OverflowError("the head is too large")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.url) > HEAD_BYTES or not self._has_plain_target():
            raise ValueError("not a target that every program reads alike")
        self.waiting.pop(self, None)
        super().on_headers_complete()
        self.scope[WRITE] = partial(_write, self.cycle)  # type: ignore[literal-required]
        if self.parser.should_upgrade():  # what follows would be another protocol, and is not read
            self.cycle.keep_alive = False

    def _has_plain_target(self) -> bool:
        """Whether the target is a path, or an address of the host that the Host header names;
        without a fragment."""
        if b"#" in self.url:
            return False
        if self.url.startswith(b"/"):
            return True
        hosts = [value for name, value in self.headers if name == b"host"]
        return any(self.url.lower().startswith(b"http://%b/" % host.lower()) for host in hosts)

    def on_message_complete(self) -> None:
        self._in_message, self._deadline = False, math.inf
        super().on_message_complete()
        # it was answered before it was complete
        if not self._is_unanswered():
            self._arm(self.limits.idle_seconds)

    def on_response_complete(self) -> None:
        # nobody reads it any more, and the connection may stay open for long
        self.cycle.body = bytearray()
        super().on_response_complete()
        if not self.transport.is_closing():
            self.waiting[self] = None
            if not self._in_message:
                self._arm(self.limits.idle_seconds)

    def _is_unanswered(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Refuse a request that the parser cannot read, in the same form as every refusal; what
        follows a request that is being answered is left alone."""
        if self._is_unanswered() and not self._in_message and not self.cycle.response_started:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        detail = "the request must be HTTP/1.1 within the limits of this service"
        self._refuse(bad_request("not_http", detail))

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is sent: check that it reads at all."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        super().resume_writing()

    def _watch(self, unsent: int) -> None:
        self._reading = self.loop.call_later(self.limits.send_seconds, self._look, unsent)

    def _look(self, before: int) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= before:
            self.transport.abort()
        else:
            self._watch(unsent)

    def _arm(self, seconds: float) -> None:
        """Set the deadline. The alarm is set only if it would come too late: most deadlines are
        kept, and a timer for each would cost more than its request."""
        self._deadline = self.loop.time() + seconds
        if self._alarm is None or self._alarm.when() > self._deadline:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self.loop.call_at(self._deadline, self._give_up)

    def _give_up(self) -> None:
        """If the deadline has passed, send the reason, if the request can still be answered; then
        close."""
        self._alarm = None
        if self._deadline > self.loop.time():
            if self._deadline < math.inf:
                self._alarm = self.loop.call_at(self._deadline, self._give_up)
        elif self._in_message and not self._in_head:
            self._refuse(too_slow())
        else:
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer, if no other answer has begun, and close."""
        if self._is_unanswered():
            if self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        answer = problem_answer(problem)
        self.transport.write(_head(answer, close=True) + answer.body)
        self.transport.close()


async def _write(cycle: Any, answer: Answer, request_id: bytes) -> None:
    """Send a whole answer, unless the client is gone or another answer to it has begun.

    Takes a third of the time that uvicorn takes: the headers are our own, so they need no check. A
    client that does not read holds no more than a piece of a large body in the buffers of its
    connection.
    """
    if cycle.flow.write_paused:  # it must read its last answers first
        await cycle.flow.drain()
    if cycle.disconnected or cycle.response_started:
        return
    body = b"" if cycle.scope["method"] == "HEAD" else answer.body
    own = (*cycle.default_headers, (b"x-request-id", request_id))
    head = _head(answer, own, close=not cycle.keep_alive)
    with http.SENDING.holding(body) if len(body) > PIECE_BYTES else nullcontext():
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        cycle.transport.write(head + body[:PIECE_BYTES])
        for at in range(PIECE_BYTES, len(body), PIECE_BYTES):
            await cycle.flow.drain()
            if cycle.disconnected:
                return
            cycle.transport.write(body[at : at + PIECE_BYTES])
    cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()


def _head(answer: Answer, own: Headers = (), *, close: bool) -> bytes:
    lines = b"".join([b"%b: %b\r\n" % header for header in own])
    end = b"connection: close\r\n\r\n" if close else b"\r\n"
    return b"".join(
        (STATUS_LINE[answer.status], lines, _lines(answer.headers), _lines(answer.security), end)
    )


@lru_cache(maxsize=1024)
def _lines(headers: Headers) -> bytes:
    """Headers as they are sent. Many readers get the same answer."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def guarded(limits: Limits) -> type[Any]:
    """The protocol with these bounds, as a class: uvicorn makes one per connection."""
    return type("Guarded", (GuardedProtocol,), {"limits": limits, "waiting": OrderedDict()})
