"""HTTP/1.1 on a connection: httptools parses it; limits on time, bytes and requests are here."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, nullcontext
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote

import httptools

from fadecount.service.http import (
    Headers,
    Problem,
    Request,
    Response,
    bad_request,
    not_found,
    too_large,
    unavailable,
)
from fadecount.service.settings import Limits

if TYPE_CHECKING:
    from fadecount.service.routes import Application

log = logging.getLogger("fadecount.service")

HEAD_BYTES = 16 * 1024
FRAMING_BYTES = 64 * 1024
"""Bytes allowed for chunk headers, extensions and trailers, in addition to as many bytes as the
largest body has."""

PIECE_BYTES = 32 * 1024
"""A larger body is sent in pieces of this size, each after the client has read most of those
before."""

MOST_SENDING = 64 << 20
"""Bytes of large answers that are being sent at a time, all together. The same answer to several
readers counts once."""

ONCE = frozenset({"host", "authorization", "content-type", "content-encoding", "idempotency-key"})
"""Headers that may occur only once: programs disagree on which of two they use."""


class Connections:
    """The connections of a server, and what they have together."""

    def __init__(self, application: Application, limits: Limits) -> None:
        self.application, self.limits = application, limits
        self.open: set[Connection] = set()
        self.waiting: OrderedDict[Connection, None] = OrderedDict()
        """Those that wait for their client: for a whole request, or until it reads an answer; the
        ones that have waited longest first."""
        self.bodies: dict[Connection, int] = {}
        """How many bytes of a body each keeps until its request is answered, the oldest first."""
        self._kept = self._sending = 0
        self._readers: Counter[int] = Counter()

    def keep(self, connection: Connection, size: int) -> None:
        """Count bytes of a body that is arriving. If all bodies together have too many, the
        unfinished one that began first is refused, so that slow ones cannot keep others out."""
        self.bodies[connection] = self.bodies.get(connection, 0) + size
        self._kept += size
        while self._kept > self.limits.waiting_bytes:
            next(each for each in self.bodies if each.is_arriving).refuse_body()

    def drop(self, connection: Connection) -> None:
        """The body of a connection is not kept any more."""
        self._kept -= self.bodies.pop(connection, 0)

    @contextmanager
    def sending(self, body: bytes) -> Iterator[None]:
        """While a large body is being sent. Clients that do not read theirs cannot fill the memory
        with them: one too many is refused."""
        if id(body) not in self._readers:
            if self._sending + len(body) > MOST_SENDING:
                raise unavailable("too many large answers are being sent; send it again")
            self._sending += len(body)
        self._readers[id(body)] += 1
        try:
            yield
        finally:
            self._readers[id(body)] -= 1
            if not self._readers[id(body)]:
                del self._readers[id(body)]
                self._sending -= len(body)

    async def end(self, seconds: float) -> None:
        """Close every connection: those with a request after its answer, if that takes no
        longer."""
        tasks = [task for each in list(self.open) if (task := each.end())]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)


class Connection(asyncio.Protocol):
    """Guarantees, for every connection:

    - every byte has a deadline: a request must be complete ``request_seconds`` after its first
      byte, the next one must begin ``idle_seconds`` after an answer, whatever arrives in between,
      and a client must read the answer it requested;
    - headers take at most ``HEAD_BYTES``, a whole message at most twice the largest body and a
      little; trailers are ignored; a body is kept only after the head was found good;
    - there is one request at a time: what is sent behind it before its answer (pipelining) is not
      read, and the connection is closed after the answer; the client sends it again on another one.

    A connection that exceeds a limit gets an answer if no other answer has begun, and is closed. If
    there are too many connections, the one is closed that has waited longest for its client, also
    in the middle of a request or of an answer: silent and slow ones cannot keep others out.
    """

    transport: asyncio.Transport

    def __init__(self, server: Connections) -> None:
        self._server, self._limits = server, server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        # what follows a message that ends the connection is no reason not to answer it
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._deadline = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        """Answers the request; None while there is none that can be answered."""
        self._message_bytes = 0
        self._in_message = self._in_head = self._has_written = False
        self._keep_alive = True
        self._is_live = self._is_half_closed = False

    # What the transport says.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport, server = transport, self._server
        self._peer = transport.get_extra_info("peername")
        transport.set_write_buffer_limits(high=PIECE_BYTES)
        server.open.add(self)
        if len(server.open) > self._limits.connections:
            if not server.waiting:
                transport.abort()
                return
            server.waiting.popitem(last=False)[0].transport.abort()
        server.waiting[self] = None
        self._arm(self._limits.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's word
        self._server.open.discard(self)
        self._server.waiting.pop(self, None)
        self._server.drop(self)
        for each in (self._alarm, self._watching, self._task):
            if each is not None:
                each.cancel()
        self._writable.set()

    def eof_received(self) -> bool:
        """The client sends nothing more: it gets the answer to a whole request, and no live events,
        since one that is gone looks the same."""
        self._keep_alive, self._is_half_closed = False, True
        return self._task is not None and not self._is_live

    def data_received(self, data: bytes) -> None:
        if self._task is not None and not self._in_message:  # nothing is read before the answer
            self._keep_alive = False
            self.transport.pause_reading()
            return
        self._message_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # what follows would be another protocol
            self._keep_alive = False
        except httptools.HttpParserError:
            if self._task is not None and not self._in_message:  # it follows a good request
                self._keep_alive = False
                return
            self._refuse(bad_request("not_http", "the request must be HTTP/1.1 within the limits"))
            return
        if not self._in_message:
            return
        if self._in_head and self._message_bytes > HEAD_BYTES:
            detail = f"the head of a request must be at most {HEAD_BYTES} bytes"
            self._refuse(Problem(431, "head_too_large", detail))
        elif self._message_bytes > HEAD_BYTES + 2 * self._limits.body_bytes + FRAMING_BYTES:
            self._refuse(too_large(self._limits.body_bytes))

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is sent: check that it reads at all."""
        self._writable.clear()
        self._server.waiting[self] = None
        self._watch()

    def resume_writing(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._writable.set()
        if self._task is not None:
            self._server.waiting.pop(self, None)

    def _watch(self, before: float = math.inf) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent >= before:
            self.transport.abort()
        else:
            self._watching = self._loop.call_later(self._limits.send_seconds, self._watch, unsent)

    # What the parser says.

    def on_message_begin(self) -> None:
        if self._task is not None:
            raise OverflowError("one request at a time")  # the parser stops here
        self._server.waiting.move_to_end(self)
        self._in_message = self._in_head = True
        self._is_answered = self._has_written = False
        self._message_bytes = self._head_bytes = 0
        self._url, self._body = b"", bytearray()
        self._headers: dict[str, str] = {}
        self._repeats = False
        self._arm(self._limits.request_seconds)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:  # a trailer
            return
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEAD_BYTES:  # a whole head may come in one piece
            raise OverflowError("the head is too large")
        known, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if known in self._headers:
            self._repeats |= known in ONCE
            text = f"{self._headers[known]}, {text}"
        self._headers[known] = text

    def on_headers_complete(self) -> None:
        self._in_head = False
        parser, headers = self._parser, self._headers
        request = self._request = Request(
            method=parser.get_method().decode(),
            path="",
            query_string=b"",
            headers=headers,
            address=self._peer[0] if self._peer else "",
        )
        self._keep_alive = (
            parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
        )
        # an address would name a host a second time, and a fragment is no part of a target
        if not self._url.startswith(b"/") or len(self._url) > HEAD_BYTES or b"#" in self._url:
            raise ValueError("not a plain target")
        raw, _, request.query_string = self._url.partition(b"?")
        request.path = unquote(raw.decode("ascii"))
        try:
            if self._repeats:
                raise bad_request("repeated_header", f"{', '.join(sorted(ONCE))} may be sent once")
            # a slash that is one only for some programs; and PostgreSQL takes no zero
            if b"%2f" in raw.lower() or "\0" in request.path:
                raise not_found()
            self._handler, self._most = self._server.application.begin(request)
            if int(headers.get("content-length", "0")) > self._most:
                raise too_large(self._most)
        except Problem as problem:
            self._send(problem)
        else:
            if headers.get("expect", "").lower() == "100-continue":
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        if not self._is_answered:
            self._body += data
            if len(self._body) > self._most:
                self._send(too_large(self._most))
            else:
                self._server.keep(self, len(data))

    def on_message_complete(self) -> None:
        self._in_message, self._deadline = False, math.inf
        if not self._is_answered:
            self._request.body = bytes(self._body)
            self._send(None)
        elif self._task is None:
            self._arm(self._limits.idle_seconds)

    # Answers.

    @property
    def is_arriving(self) -> bool:
        """Whether a request is not complete that can still be answered."""
        return self._task is None

    def refuse_body(self) -> None:
        """Response before the body is complete: bodies take too much memory, all together."""
        self._send(unavailable("too many bodies are arriving; send it again"))

    def _send(self, problem: Problem | None) -> None:
        """Begin to answer the request: with a refusal, or with what its handler makes. What comes
        of the body after that is not kept."""
        self._is_answered, self._body = True, bytearray()
        if problem is not None:
            self._server.drop(self)
        if self._writable.is_set():
            self._server.waiting.pop(self, None)
        self._task = self._loop.create_task(self._answer(problem))

    async def _answer(self, problem: Problem | None) -> None:
        server, request = self._server, self._request
        try:
            await self._writable.wait()  # it must read its last answers first
            if problem is None:
                answer = await server.application.answer(self._handler, request)
            else:
                answer = problem.answer()
            await self._write(answer)
        except Problem as refusal:  # too many large answers
            await self._write(refusal.answer())
        except asyncio.CancelledError:  # the connection is lost, or the service ends
            self.transport.abort()
            raise
        except Exception as error:
            log.error("an answer failed: %s", type(error).__name__)
            self.transport.abort()
        self._task, request.body = None, b""  # the connection may stay open for long
        server.drop(self)
        if not self._keep_alive:
            self._close()
        elif not self.transport.is_closing():
            server.waiting[self] = None
            if not self._in_message:
                self._arm(self._limits.idle_seconds)

    async def _write(self, answer: Response) -> None:
        """Send an answer, unless the client is gone. A client that does not read holds no more than
        a piece of a large body in the buffers of its connection."""
        if self.transport.is_closing():
            return
        request = self._request
        body = b"" if request.method == "HEAD" else answer.body
        with self._server.sending(body) if len(body) > PIECE_BYTES else nullcontext():
            self._has_written = True
            self._keep_alive &= answer.frames is None
            self.transport.write(_head(answer, keep_alive=self._keep_alive) + body[:PIECE_BYTES])
            for at in range(PIECE_BYTES, len(body), PIECE_BYTES):
                await self._writable.wait()
                self.transport.write(body[at : at + PIECE_BYTES])
        if answer.frames is not None and request.method != "HEAD" and not self._is_half_closed:
            self._is_live = True
            self.transport.set_write_buffer_limits(high=0)  # a slow reader gets the newest only
            async with aclosing(answer.frames) as frames:
                async for frame in frames:
                    await self._writable.wait()
                    self.transport.write(frame)

    def _refuse(self, problem: Problem) -> None:
        """Response, if no answer has begun, and close."""
        if self._has_written:
            self.transport.abort()
            return
        if self._task is not None:
            self._task.cancel()
        answer = problem.answer()
        self.transport.write(_head(answer, keep_alive=False) + answer.body)
        self._close()

    def end(self) -> asyncio.Task[None] | None:
        """Close after the answer that is being made, if there is one; returns its task."""
        self._keep_alive = False
        if self._task is None:
            self._close()
        return self._task

    def _close(self) -> None:
        self.transport.close()  # when everything is sent
        self._arm(self._limits.send_seconds)

    # Time.

    def _arm(self, seconds: float) -> None:
        """Set the deadline. The alarm is set only if it would come too late: most deadlines are
        kept, and a timer for each would cost more than its request."""
        self._deadline = self._loop.time() + seconds
        if self._alarm is None or self._alarm.when() > self._deadline:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._loop.call_at(self._deadline, self._give_up)

    def _give_up(self) -> None:
        """If the deadline has passed, send the reason, if the request can still be answered; then
        close."""
        self._alarm = None
        if self._deadline > self._loop.time():
            if self._deadline < math.inf:
                self._alarm = self._loop.call_at(self._deadline, self._give_up)
        elif self._in_message and not self._in_head and not self.transport.is_closing():
            self._refuse(Problem(408, "too_slow", "the request took too long; send it again"))
        else:
            self.transport.abort()


def _head(answer: Response, *, keep_alive: bool) -> bytes:
    """The lines before the body, whose length they say if it has one."""
    endless = answer.frames is not None or answer.status in (204, 304)
    length = b"" if endless else b"content-length: %d\r\n" % len(answer.body)
    end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
    first = _first_lines(answer.status, int(time.time()))
    return b"".join((first, length, _lines(answer.headers), _lines(answer.security), end))


@lru_cache(maxsize=64)
def _first_lines(status: int, now: int) -> bytes:
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\ndate: {formatdate(now, usegmt=True)}\r\n".encode()


@lru_cache(maxsize=1024)
def _lines(headers: Headers) -> bytes:
    """Headers as they are sent. Many readers get the same answer."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])
