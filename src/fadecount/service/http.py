"""HTTP: which requests are answered, the headers of every answer, reading bodies and making
answers."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fadecount.service.limits import Limits
from fadecount.service.problems import (
    MEDIA_TYPE,
    Problem,
    bad_request,
    from_starlette,
    not_found,
    noted,
    too_large,
    unavailable,
    wrong_host,
)

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_CACHES = {
    (
        public,
        closed,
    ): (
        f"{'public' if public else 'private'},"
        f" {'max-age=31536000, immutable' if closed else 'no-cache'}".encode()
    )
    for public in (False, True)
    for closed in (False, True)
}
"""How long readers may keep an answer: a closed range never changes."""

FRESH = "no-cache"
NEVER = "no-store"
_GZIP = 31
PIECE_BYTES = 16 * 1024
"""A body is sent in pieces of this size, each after the client has read most of those before."""

MOST_UNSENT = 64 << 20
"""Bytes of large answers that are being sent at a time, all together. The same answer to several
readers counts once."""

_ONCE = frozenset(
    {b"host", b"authorization", b"content-type", b"content-encoding", b"idempotency-key"}
)
"""Headers that may occur only once: programs disagree on which of two they use."""


class ClientGone(Exception):  # noqa: N818 - a client that left is no error
    """The client closed the connection, so no answer can be sent."""


class Guard:
    """Wraps the application: refuses foreign host names, adds the security headers, and turns every
    failure into an answer.

    An attacker can make a browser send requests to any address under a host name that the attacker
    chose (DNS rebinding), but not with another Host header. So a host name that was not allowed
    gets status 421 before any other check. An unexpected error becomes a status 500 and a line in
    the log, both without values, and both with the random id of the request.

    ``answered`` gets the status.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        new_id: Callable[[], str],
        answered: Callable[[Scope, int], None] = lambda *_: None,
    ) -> None:
        self._app, self._answered, self._new_id = app, answered, new_id
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        request_id = self._new_id()
        scope["app"] = self  # Starlette's router then raises what it refuses

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    *SECURITY_HEADERS,
                ]
                self._answered(scope, message["status"])
            elif len(message.get("body", b"")) > PIECE_BYTES:
                await _send_in_pieces(message["body"], message.get("more_body", False), send)
                return
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, send_guarded)
        except (ClientGone, ClientDisconnect):
            return
        except asyncio.CancelledError:  # the service stops before the answer is ready
            if not begun:
                await problem_answer(unavailable("the service is ending; send it again"))(
                    scope, receive, send_guarded
                )
        except Exception as error:
            answer = problem_answer(_problem(error, request_id))
            # it refers to this call, and so would keep the request until the next garbage
            # collection
            error.__traceback__ = None
            if not begun:
                await answer(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        once = [each for each in scope["headers"] if each[0] in _ONCE]
        seen = dict(once)
        repeated = len(once) != len(seen)
        if seen.get(b"host", b"").lower() not in self._hosts or (
            repeated and [name for name, _ in once].count(b"host") > 1
        ):
            raise wrong_host()
        if repeated:
            raise bad_request(
                "repeated_header",
                "Authorization, Content-Type and Idempotency-Key may be sent once",
            )
        if (
            b"%2f" in scope["raw_path"].lower() or "\0" in scope["path"]
        ):  # no name has either; PostgreSQL takes no zero
            raise not_found()


def _problem(error: Exception, request_id: str) -> Problem:
    """What a client gets to know of an error."""
    if isinstance(error, HTTPException):
        return from_starlette(error)
    return error if isinstance(error, Problem) else noted(error, request_id)


async def _send_in_pieces(body: bytes, more: bool, send: Send) -> None:
    """A client that does not read holds no more than a piece of its answer in the buffers of its
    connection."""
    for at in range(0, len(body), PIECE_BYTES):
        last = at + PIECE_BYTES >= len(body)
        await send(
            {
                "type": "http.response.body",
                "body": body[at : at + PIECE_BYTES],
                "more_body": more or not last,
            }
        )


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


def problem_answer(problem: Problem) -> Response:
    """A refusal as it is sent."""
    return Response(
        problem.body(), problem.status, {**problem.headers, "Cache-Control": NEVER}, MEDIA_TYPE
    )


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body as sent. It is refused as soon as it is known to be too large. The protocol
    limits the time."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limits.body_bytes):
        raise too_large(limits.body_bytes)
    if request.headers.get("content-encoding", "identity").strip().lower() not in (
        "identity",
        "gzip",
    ):
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


def json_answer(value: object, *, status: int = 200, cache: str = NEVER) -> Response:
    body = msgspec.json.encode(value)
    own = [
        (b"cache-control", cache.encode()),
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
    ]
    return Prepared(body, status, own)


class Prepared(Response):
    """An answer whose headers are ready to be sent."""

    def __init__(self, body: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.body, self.status_code, self.raw_headers, self.background = body, status, headers, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with (
            UNSENT.holding(bytes(self.body)) if len(self.body) > PIECE_BYTES else nullcontext()
        ):  # the same bytes, not a copy
            await super().__call__(scope, receive, send)


class Unsent:
    """The large answers that are being sent. Clients that do not read theirs cannot fill the memory
    with them."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes = most_bytes, 0
        self._readers: Counter[int] = Counter()

    @contextmanager
    def holding(self, body: bytes) -> Iterator[None]:
        """While a body is being sent; raises a Problem with status 503 if there are too many of
        them."""
        if not self._readers[id(body)]:
            if self._bytes + len(body) > self._most:
                del self._readers[id(body)]
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


UNSENT = Unsent(MOST_UNSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """A body with its entity tag, for any number of readers. A closed range never changes, so it
    may be cached without limit."""

    body: bytes
    tag: str
    closed: bool
    next_cursor: str | None
    _head: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    _body_head: tuple[tuple[bytes, bytes], ...] = field(repr=False)

    @classmethod
    def of(
        cls, body: bytes, media_type: str, *, closed: bool = False, next_cursor: str | None = None
    ) -> Tagged:
        tag = f'"{hashlib.sha256(media_type.encode() + body).hexdigest()[:32]}"'
        head = ((b"etag", tag.encode()), (b"vary", b"Accept, Authorization"))
        body_head = ((b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body)))
        return cls(
            body=body,
            tag=tag,
            closed=closed,
            next_cursor=next_cursor,
            _head=head,
            _body_head=body_head,
        )

    def __len__(self) -> int:
        return len(self.body)

    def answer(self, request: Request, *, public: bool) -> Response:
        """The body, or status 304 if the client has it."""
        headers = [*self._head, (b"cache-control", _CACHES[public, self.closed])]
        if self.next_cursor:
            headers.append(
                (
                    b"link",
                    f'<{_with_cursor(request, self.next_cursor)}>; rel="next"'.encode("latin-1"),
                )
            )
        known = request.headers.get("if-none-match")
        if known is not None and self.tag in {
            each.strip().removeprefix("W/") for each in known.split(",")
        }:
            return Prepared(b"", 304, headers)
        return Prepared(self.body, 200, [*headers, *self._body_head])


def _with_cursor(request: Request, cursor: str) -> str:
    """The same query, from a cursor on. It is relative, so it also works behind a proxy."""
    kept = [
        each for each in request.url.query.split("&") if each and not each.startswith("cursor=")
    ]
    return "?" + "&".join([*kept, f"cursor={cursor}"])


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [
        each.partition(";")[0].strip().lower()
        for each in request.headers.get("accept", "").split(",")
    ]
    return "text/csv" in kinds and "application/json" not in kinds[: kinds.index("text/csv")]
