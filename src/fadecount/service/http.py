"""HTTP: which hosts are answered, what every answer carries, how bodies are read and answers made."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fadecount.service.limits import Limits
from fadecount.service.problems import MEDIA_TYPE, Problem, bad_request, too_large, wrong_host

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

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


class Guard:
    """Wraps an application: refuses foreign host names, adds the security headers to every answer.

    A browser can be made to send requests to any address under a name of an attacker's choosing (DNS rebinding); it cannot be
    made to send another Host. So a name that was not allowed gets 421, before anything else looks at the request.
    """

    def __init__(self, application: Application, hosts: frozenset[str]) -> None:
        self._application = application
        self._hosts = frozenset(host.lower().encode() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        if self.allows(scope):
            await self._application(scope, receive, send_guarded)
        else:
            await send_problem(send_guarded, wrong_host())

    def allows(self, scope: Scope) -> bool:
        """Whether the request names one host, and one that is served here."""
        found = None
        for name, value in scope["headers"]:
            if name == b"host":
                if found is not None:
                    return False
                found = value
        return found is not None and found.lower() in self._hosts


async def send_problem(send: Send, problem: Problem) -> None:
    """Answer with a refusal."""
    headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send_bytes(send, problem.status, problem.body(), MEDIA_TYPE, (*headers, (b"cache-control", b"no-store")))


async def send_bytes(
    send: Send, status: int, body: bytes, media_type: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Answer with a whole body."""
    start = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


def allowed_hosts(host: str, port: int, extra: tuple[str, ...] = ()) -> frozenset[str]:
    """The Host headers to answer: the address listened on, the loopback names, what the operator adds; with and without port."""
    names = {host, "localhost", "127.0.0.1", "[::1]", *extra} - {"0.0.0.0", "::", ""}  # noqa: S104 - not a name anyone may use
    return frozenset(name for each in names for name in (each, f"{each}:{port}"))


_GZIP = 31


class Gone(Exception):  # noqa: N818 - a client that left is no error
    """The client closed the connection; there is nobody to answer."""


async def read_body(receive: Receive, headers: dict[bytes, bytes], limits: Limits) -> bytes:
    """The whole body, unpacked; refused as soon as it is known to be too large. How long it may take, the protocol bounds."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > limits.body_bytes):
        raise too_large(limits.body_bytes)
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"gzip"):
        raise Problem(415, "unsupported_encoding", "Content-Encoding must be gzip or absent")
    packed, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        packed += message.get("body", b"")
        more = message.get("more_body", False)
        if len(packed) > limits.body_bytes:
            raise too_large(limits.body_bytes)
    return _unpacked(packed, limits.body_bytes) if encoding == b"gzip" else packed


def _unpacked(packed: bytes, limit: int) -> bytes:
    """Unpacks at most ``limit`` bytes: a bomb costs no more memory than an honest body."""
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


FOR_EVER = "max-age=31536000, immutable"
FRESH = "no-cache"
NEVER = "no-store"


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def json_answer(value: Any, *, status: int = 200, cache: str = NEVER) -> Response:
    return Response(as_json(value), status, {"Cache-Control": cache}, "application/json")


def tagged(request: Request, body: bytes, media_type: str, *, closed: bool, public: bool) -> Response:
    """An answer with an entity tag: 304 if the client has it. A closed range never changes, so it may be kept for ever."""
    tag = f'"{hashlib.sha256(media_type.encode() + body).hexdigest()[:32]}"'
    scope = "public" if public else "private"
    headers = {"ETag": tag, "Cache-Control": f"{scope}, {FOR_EVER if closed else FRESH}", "Vary": "Accept, Authorization"}
    known = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if tag in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def as_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]
    return "text/csv" in kinds and "application/json" not in kinds[: kinds.index("text/csv")]
