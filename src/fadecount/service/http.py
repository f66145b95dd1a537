"""HTTP: what a handler gets and what it answers, refusals, and the headers of every answer.

A refusal is ``application/problem+json`` (RFC 9457): a status, a code for programs, a sentence for
people. Its words are written here, by hand, from constants and bounds only, so that nothing that a
client sent, and nothing that a stream holds, can come back in one.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fadecount.errors import FadecountError

if TYPE_CHECKING:
    from fadecount.service.tokens import Grant

JSON, CSV = "application/json", "text/csv; charset=utf-8"
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
EMBEDDED_HEADERS: Headers = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors *",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)
"""The headers of what other websites may show or use. Nothing in it can run a script."""
ANY_ORIGIN = (b"access-control-allow-origin", b"*")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request is refused (RFC 9457). The answer repeats nothing that was sent."""

    status: int
    code: str
    detail: str


class Problem(FadecountError):  # noqa: N818 - the word that RFC 9457 has for it
    """A request is refused. ``detail`` is shown to the client: bounds and remedies, no values."""

    def __init__(self, status: int, code: str, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers

    def answer(self) -> Response:
        """The refusal as it is sent."""
        body = msgspec.json.encode(Refusal(self.status, self.code, self.detail))
        kind = "application/problem+json"
        return plain_answer(body, kind, status=self.status, headers=self.headers)


def bad_request(code: str, detail: str) -> Problem:
    return Problem(400, code, detail)


def not_found() -> Problem:
    detail = "there is no such stream, key or path; GET /v1/streams lists the streams"
    return Problem(404, "not_found", detail)


def too_large(limit: int) -> Problem:
    return Problem(413, "too_large", f"the body must be at most {limit} bytes; send smaller ones")


NOT_IN_ORDER = "the stream is not in order; the operator's log says why"


def unavailable(detail: str = "the service cannot take this now; send it again") -> Problem:
    return Problem(503, "unavailable", detail, (b"retry-after", b"1"))


@contextmanager
def refusing(
    code: str,
    detail: str,
    wrong: tuple[type[Exception], ...] = (TypeError, ValueError, OverflowError, OSError),
) -> Iterator[None]:
    """Turn what a library call says of a wrong value, which it may repeat, into a refusal. A call
    that does more than check it may fail otherwise: then only a ParameterError is ``wrong``."""
    try:
        yield
    except wrong:
        raise bad_request(code, detail) from None


@dataclass(slots=True, kw_only=True)
class Request:
    """A request: its decoded path, its headers with names in small letters, and who sent it; and
    what the checks made of it: the name in its path, what its token allows (None: it needs none),
    its query."""

    method: str
    path: str
    query_string: bytes
    headers: dict[str, str]
    address: str
    name: str = ""
    grant: Grant | None = None
    query: Any = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, ready to be sent, to any number of readers. ``security`` are the headers that say
    where browsers may show it. With ``frames`` it goes on for as long as there are some."""

    body: bytes
    status: int = 200
    headers: Headers = ()
    security: Headers = SECURITY_HEADERS
    frames: AsyncGenerator[bytes] | None = None


def plain_answer(
    body: bytes, media_type: str, *, status: int = 200, headers: Headers = ()
) -> Response:
    """A body that nobody may keep."""
    about = ((b"cache-control", b"no-store"), (b"content-type", media_type.encode()))
    return Response(body, status, (*headers, *about))


def json_answer(value: object, *, status: int = 200) -> Response:
    """A value as JSON that nobody may keep."""
    return plain_answer(msgspec.json.encode(value), JSON, status=status)


class Tagged:
    """A body with its entity tag, for any number of readers."""

    __slots__ = ("_headers", "_kind", "_tag", "body")

    def __init__(self, body: bytes, media_type: str = JSON) -> None:
        self.body, self._kind = body, media_type.encode()
        self._tag = f'"{hashlib.sha256(self._kind + body).hexdigest()[:32]}"'
        self._headers: Headers = ((b"etag", self._tag.encode()), (b"vary", b"Authorization"))

    def __len__(self) -> int:
        return len(self.body)

    def answer(
        self,
        request: Request,
        *,
        public: bool,
        seconds: int = 0,
        security: Headers = SECURITY_HEADERS,
    ) -> Response:
        """The body, or status 304 if the client has it. It may be kept for some ``seconds``, and
        after that for as long as its tag is confirmed."""
        fresh = b"max-age=%d" % seconds if seconds else b"no-cache"
        kept: Headers = ((b"cache-control", (b"public, " if public else b"private, ") + fresh),)
        if public:  # any page may read it
            kept += (ANY_ORIGIN,)
        known = request.headers.get("if-none-match", "")
        if self._tag in {each.strip().removeprefix("W/") for each in known.split(",")}:
            return Response(b"", 304, (*self._headers, *kept), security)
        kind = (b"content-type", self._kind)
        return Response(self.body, 200, (*self._headers, *kept, kind), security)


def tagged_json(value: object) -> Tagged:
    """A value as JSON."""
    return Tagged(msgspec.json.encode(value))
