"""HTTP: which requests are answered, the headers of every answer, reading bodies and making answers."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fadecount.service.limits import Limits
from fadecount.service.problems import MEDIA_TYPE, Problem, bad_request, not_found, noted, too_large, unavailable, wrong_host

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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
FOR_EVER = "max-age=31536000, immutable"
FRESH = "no-cache"
NEVER = "no-store"
_GZIP = 31
_ONCE = (b"host", b"authorization", b"content-type", b"content-encoding", b"idempotency-key")
"""Headers that may occur only once: programs disagree on which of two they use."""


class ClientGone(Exception):  # noqa: N818 - a client that left is no error
    """The client closed the connection, so no answer can be sent."""


class Guard:
    """Wraps the application: refuses foreign host names, adds the security headers, and turns every failure into an answer.

    An attacker can make a browser send requests to any address under a host name that the attacker chose (DNS rebinding), but not
    with another Host header. So a host name that was not allowed gets status 421 before any other check. An unexpected error
    becomes a status 500 and a line in the log, both without values, and both with the random id of the request.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str], before: Callable[[Scope], None], new_id: Callable[[], str]
    ) -> None:
        self._app, self._before, self._new_id = app, before, new_id
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        request_id = self._new_id()

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                own = (b"x-request-id", request_id.encode())
                message["headers"] = [*message.get("headers", ()), own, *SECURITY_HEADERS]
            await send(message)

        try:
            self._check(scope)
            self._before(scope)
            await self._app(scope, receive, send_guarded)
        except (ClientGone, ClientDisconnect):
            return
        except asyncio.CancelledError:  # the service stops before the answer is ready
            if not begun:
                await problem_answer(unavailable("the service is ending; send it again"))(scope, receive, send_guarded)
        except Exception as error:
            problem = error if isinstance(error, Problem) else noted(error, request_id)
            if not begun:
                await problem_answer(problem)(scope, receive, send_guarded)

    def _check(self, scope: Scope) -> None:
        seen = [name for name, _ in scope["headers"] if name in _ONCE]
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise wrong_host()
        if len(seen) != len(set(seen)):
            raise bad_request("repeated_header", "Authorization, Content-Type and Idempotency-Key may be sent once")
        if b"%2f" in scope["raw_path"].lower():
            raise not_found()


def allowed_hosts(host: str, port: int, extra: tuple[str, ...] = ()) -> frozenset[str]:
    """The accepted Host headers: the listening address, the loopback names, those the operator adds; with and without port.

    >>> sorted(allowed_hosts("::1", 8000, ("counts.example.org", "localhost:8080")))[:3]
    ['127.0.0.1', '127.0.0.1:8000', '[::1]']
    """
    own = {f"[{host}]" if ":" in host else host, "localhost", "127.0.0.1", "[::1]"} - {"0.0.0.0", "[::]", ""}  # noqa: S104 - not names
    return frozenset(name for each in own | set(extra) for name in (each, f"{each}:{port}"))


def problem_answer(problem: Problem) -> Response:
    """A refusal as it is sent."""
    return Response(problem.body(), problem.status, {**problem.headers, "Cache-Control": NEVER}, MEDIA_TYPE)


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body as sent. It is refused as soon as it is known to be too large. The protocol limits the time."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limits.body_bytes):
        raise too_large(limits.body_bytes)
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("identity", "gzip"):
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
    """Unpacks at most ``limit`` bytes: a decompression bomb takes no more memory than any other body."""
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
    return Response(msgspec.json.encode(value), status, {"Cache-Control": cache}, "application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """A body with its entity tag, for any number of readers. A closed range never changes, so it may be cached without limit."""

    body: bytes
    media_type: str
    tag: str
    closed: bool
    next_cursor: str | None = None

    @classmethod
    def of(cls, body: bytes, media_type: str, *, closed: bool = False, next_cursor: str | None = None) -> Tagged:
        tag = f'"{hashlib.sha256(media_type.encode() + body).hexdigest()[:32]}"'
        return cls(body=body, media_type=media_type, tag=tag, closed=closed, next_cursor=next_cursor)

    def answer(self, request: Request, *, public: bool) -> Response:
        """The body, or status 304 if the client has it."""
        cache = f"{'public' if public else 'private'}, {FOR_EVER if self.closed else FRESH}"
        headers = {"ETag": self.tag, "Cache-Control": cache, "Vary": "Accept, Authorization"}
        if self.next_cursor:
            headers["Link"] = f'<{_with_cursor(request, self.next_cursor)}>; rel="next"'
        known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
        if self.tag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


def _with_cursor(request: Request, cursor: str) -> str:
    """The same query, from a cursor on. It is relative, so it also works behind a proxy."""
    kept = [each for each in request.url.query.split("&") if each and not each.startswith("cursor=")]
    return "?" + "&".join([*kept, f"cursor={cursor}"])


def as_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]
    return "text/csv" in kinds and "application/json" not in kinds[: kinds.index("text/csv")]
