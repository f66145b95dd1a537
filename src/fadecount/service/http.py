"""HTTP: finding the handler of a request, the headers of every answer, reading bodies and sending
answers."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from fadecount.noise.entropy import unpredictable
from fadecount.service.problems import (
    MEDIA_TYPE,
    Problem,
    bad_request,
    internal,
    not_found,
    too_large,
    unavailable,
    wrong_host,
)
from fadecount.service.routes import Router
from fadecount.service.settings import Limits

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
Headers = tuple[tuple[bytes, bytes], ...]
SECURITY_HEADERS: Headers = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_FRESH = (b"no-cache", b"max-age=31536000, immutable")
"""How long readers may keep an answer: until they ask again, or for ever, if it never changes."""

_GZIP = 31
PIECE_BYTES = 16 * 1024
"""A larger body is sent in pieces of this size, each after the client has read most of those
before."""

MOST_SENDING = 64 << 20
"""Bytes of large answers that are being sent at a time, all together. The same answer to several
readers counts once."""

WRITE = "fadecount.write"
"""Where the protocol puts a function that sends a whole answer at once."""

_ONCE = frozenset(
    {b"host", b"authorization", b"content-type", b"content-encoding", b"idempotency-key"}
)
"""Headers that may occur only once: programs disagree on which of two they use."""


class ClientGone(Exception):  # noqa: N818 - a client that left is no error
    """The client closed the connection, so no answer can be sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, ready to be sent, to any number of readers."""

    body: bytes
    status: int = 200
    headers: Headers = ()


class Application:
    """The ASGI application: refuses foreign host names, finds the handler of a request, adds the
    security headers, and turns every failure into an answer.

    An attacker can make a browser send requests to any address under a host name that the attacker
    chose (DNS rebinding), but not with another Host header. So a host name that was not allowed
    gets status 421 before any other check. An unexpected error becomes a status 500 and a line in
    the log, both without values, and both with the random id of the request. The ids are no
    numbers in a row, which would show how much others send.

    ``answered`` gets the declared path of a route, its method and the status.
    """

    def __init__(
        self,
        router: Router,
        *,
        hosts: frozenset[str],
        answered: Callable[[str, str, int], None] = lambda *_: None,
    ) -> None:
        self._router, self._answered = router, answered
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._ids = _request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, write = next(self._ids), scope.pop(WRITE, None)
        begun, path = False, ""

        async def send_headed(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                own = (*SECURITY_HEADERS, (b"x-request-id", request_id))
                message["headers"] = [*message["headers"], *own]
                self._answered(path, scope["method"], message["status"])
            await send(message)

        async def reply(answer: Answer) -> None:
            headers = (*answer.headers, (b"x-request-id", request_id))
            small = write is not None and len(answer.body) <= PIECE_BYTES
            if small and write(answer.status, headers, answer.body):
                self._answered(path, scope["method"], answer.status)
            else:
                await _send(answer, send_headed)

        try:
            self._check(scope)
            path, handler = self._router.find(scope)
            answer: Any = await handler(Request(scope, receive))
            if isinstance(answer, Answer):
                await reply(answer)
            else:
                await answer(scope, receive, send_headed)
        except (ClientGone, ClientDisconnect):
            return
        except asyncio.CancelledError:  # the service stops before the answer is ready
            if not begun:
                await reply(problem_answer(unavailable("the service is ending; send it again")))
        except Exception as error:
            problem = error if isinstance(error, Problem) else internal(error, request_id)
            # it refers to this call, and so would keep the request until the next garbage
            # collection
            error.__traceback__ = None
            if not begun:
                await reply(problem_answer(problem))

    def _check(self, scope: Scope) -> None:
        once = [each for each in scope["headers"] if each[0] in _ONCE]
        sent = dict(once)
        repeated = len(once) != len(sent)
        if sent.get(b"host", b"").lower() not in self._hosts or (
            repeated and [name for name, _ in once].count(b"host") > 1
        ):
            raise wrong_host()
        if repeated:
            detail = "Authorization, Content-Type and Idempotency-Key may be sent once"
            raise bad_request("repeated_header", detail)
        # no name has a slash or a zero; PostgreSQL takes no zero
        if b"%2f" in scope["raw_path"].lower() or "\0" in scope["path"]:
            raise not_found()


def _request_ids() -> Iterator[bytes]:
    """Random ids, with one call to the system for many of them."""
    while True:
        pool = unpredictable(8 * 512).hex().encode()
        yield from (pool[at : at + 16] for at in range(0, len(pool), 16))


def allowed_hosts(host: str, port: int, extra: tuple[str, ...] = ()) -> frozenset[str]:
    """The accepted Host headers: the listening address, the loopback names, those the operator
    adds; with and without port.

    >>> sorted(allowed_hosts("::1", 8000, ("counts.example.org", "localhost:8080")))[:3]
    ['127.0.0.1', '127.0.0.1:8000', '[::1]']
    """
    own = {f"[{host}]" if ":" in host else host, "localhost", "127.0.0.1", "[::1]"} - {
        "0.0.0.0",  # noqa: S104 - not names
        "[::]",
        "",
    }
    return frozenset(name for each in own | set(extra) for name in (each, f"{each}:{port}"))


class Sending:
    """The large answers that are being sent. Clients that do not read theirs cannot fill the memory
    with them."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._readers: Counter[int] = Counter()

    @contextmanager
    def holding(self, body: bytes) -> Iterator[None]:
        """While a body is being sent; raises a Problem with status 503 if there are too many of
        them."""
        if id(body) not in self._readers:
            if self._bytes + len(body) > self._most:
                raise unavailable("too many large answers are being sent; send it again")
            self._bytes += len(body)
        self._readers[id(body)] += 1
        try:
            yield
        finally:
            self._readers[id(body)] -= 1
            if not self._readers[id(body)]:
                del self._readers[id(body)]
                self._bytes -= len(body)


SENDING = Sending(MOST_SENDING)


async def _send(answer: Answer, send: Send) -> None:
    """Send an answer as ASGI messages. A client that does not read holds no more than a piece of a
    large body in the buffers of its connection."""
    body = answer.body
    with SENDING.holding(body) if len(body) > PIECE_BYTES else nullcontext():
        headers = list(answer.headers)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        for at in range(0, max(1, len(body)), PIECE_BYTES):
            piece, more = body[at : at + PIECE_BYTES], at + PIECE_BYTES < len(body)
            await send({"type": "http.response.body", "body": piece, "more_body": more})


def problem_answer(problem: Problem) -> Answer:
    """A refusal as it is sent."""
    own = tuple((name.encode(), text.encode()) for name, text in problem.headers.items())
    return plain_answer(problem.body(), MEDIA_TYPE, status=problem.status, headers=own)


def json_answer(value: object, *, status: int = 200) -> Answer:
    """A value as JSON that nobody may keep."""
    return plain_answer(msgspec.json.encode(value), "application/json", status=status)


def plain_answer(
    body: bytes, media_type: str, *, status: int = 200, headers: Headers = ()
) -> Answer:
    """A body that nobody may keep."""
    about = (
        (b"cache-control", b"no-store"),
        (b"content-type", media_type.encode()),
        (b"content-length", b"%d" % len(body)),
    )
    return Answer(body, status, (*headers, *about))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """A body with its entity tag, for any number of readers. A closed range never changes, so it
    may be kept without limit."""

    body: bytes
    media_type: str
    tag: str
    closed: bool
    next_page: str | None

    @classmethod
    def of(
        cls,
        body: bytes,
        media_type: str = "application/json",
        *,
        closed: bool = False,
        next_page: str | None = None,
    ) -> Tagged:
        """Tag a body. ``next_page`` is the query of the page after it, if there is one."""
        tag = f'"{hashlib.sha256(media_type.encode() + body).hexdigest()[:32]}"'
        return cls(body=body, media_type=media_type, tag=tag, closed=closed, next_page=next_page)

    def __len__(self) -> int:
        return len(self.body)

    def answer(self, request: Request, *, public: bool) -> Answer:
        """The body, or status 304 if the client has it."""
        headers: Headers = (
            (b"etag", self.tag.encode()),
            (b"vary", b"Accept, Authorization"),
            (b"cache-control", (b"public, " if public else b"private, ") + _FRESH[self.closed]),
        )
        if self.next_page:  # relative, so it also works behind a proxy
            headers += ((b"link", f'<?{self.next_page}>; rel="next"'.encode()),)
        known = request.headers.get("if-none-match")
        if known is not None and self.tag in {
            each.strip().removeprefix("W/") for each in known.split(",")
        }:
            return Answer(b"", 304, headers)
        about = (
            (b"content-type", self.media_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
        )
        return Answer(self.body, 200, (*headers, *about))


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [
        each.partition(";")[0].strip().lower()
        for each in request.headers.get("accept", "").split(",")
    ]
    return "text/csv" in kinds and "application/json" not in kinds[: kinds.index("text/csv")]


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body as sent. It is refused as soon as it is known to be too large. The protocol
    limits the time."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limits.body_bytes):
        raise too_large(limits.body_bytes)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(415, "unsupported_encoding", "Content-Encoding must be gzip or absent")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limits.body_bytes:
            raise too_large(limits.body_bytes)
    return bytes(body)


def is_packed(request: Request) -> bool:
    return request.headers.get("content-encoding", "identity").strip().lower() == "gzip"


def unpacked(packed: bytes, limit: int) -> bytes:
    """Unpacks at most ``limit`` bytes: a decompression bomb takes no more memory than any other
    body."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        body = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        raise bad_request("not_gzip", "the body must be gzip, as Content-Encoding says") from None
    if len(body) > limit:
        raise too_large(limit)
    if not unpacker.eof or unpacker.unused_data:
        raise bad_request("not_gzip", "the body must be one complete gzip member")
    return body
