"""HTTP: what a handler gets and what it answers, the headers of every answer, reading bodies."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request

from fadecount.service.problems import (
    MEDIA_TYPE,
    Problem,
    too_large,
    unavailable,
)
from fadecount.service.tokens import Grant

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
ANY_ORIGIN = (b"access-control-allow-origin", b"*")
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
JSON = "application/json"

PIECE_BYTES = 32 * 1024
"""A larger body is sent in pieces of this size, each after the client has read most of those
before."""

MOST_SENDING = 64 << 20
"""Bytes of large answers that are being sent at a time, all together. The same answer to several
readers counts once."""


WRITE = "fadecount.write"
"""Where the protocol puts a function that sends a whole answer."""


class Call(Request):
    """A request that was allowed: what its token allows (None: it needs none), and its query."""

    grant: Grant | None = None
    query: Any = None

    @property
    def stream_name(self) -> str:
        """The stream that the path names."""
        name: str = self.path_params["name"]
        return name


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, ready to be sent, to any number of readers; ``security`` are the headers that
    say where browsers may show it."""

    body: bytes
    status: int = 200
    headers: Headers = ()
    security: Headers = SECURITY_HEADERS


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


def problem_answer(problem: Problem) -> Answer:
    """A refusal as it is sent."""
    own = tuple((name.encode(), text.encode()) for name, text in problem.headers.items())
    return plain_answer(problem.body(), MEDIA_TYPE, status=problem.status, headers=own)


def json_answer(value: object, *, status: int = 200) -> Answer:
    """A value as JSON that nobody may keep."""
    return plain_answer(msgspec.json.encode(value), JSON, status=status)


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


class Tagged:
    """A body with its entity tag, for any number of readers.

    ``next_page`` is the query of the page after it, if there is one.
    """

    __slots__ = ("_about", "_headers", "_tag", "body")

    def __init__(
        self, body: bytes, media_type: str = JSON, *, next_page: str | None = None
    ) -> None:
        self.body, kind = body, media_type.encode()
        self._tag = f'"{hashlib.sha256(kind + body).hexdigest()[:32]}"'
        self._headers: Headers = (
            (b"etag", self._tag.encode()),
            (b"vary", b"Accept, Authorization"),
        )
        if next_page:  # relative, so it also works behind a proxy
            self._headers += ((b"link", f'<?{next_page}>; rel="next"'.encode()),)
        self._about: Headers = ((b"content-type", kind), (b"content-length", b"%d" % len(body)))

    def __len__(self) -> int:
        return len(self.body)

    def answer(self, request: Request, *, public: bool, seconds: int = 0) -> Answer:
        """The body, or status 304 if the client has it. It may be kept for some ``seconds``, and
        after that for as long as its tag is confirmed."""
        fresh = b"max-age=%d" % seconds if seconds else b"no-cache"
        kept: Headers = ((b"cache-control", (b"public, " if public else b"private, ") + fresh),)
        if public:  # any page may read it
            kept += (ANY_ORIGIN,)
        known = request.headers.get("if-none-match")
        if known and self._tag in {each.strip().removeprefix("W/") for each in known.split(",")}:
            return Answer(b"", 304, (*self._headers, *kept))
        return Answer(self.body, 200, (*self._headers, *kept, *self._about))


def tagged_json(value: object) -> Tagged:
    """A value as JSON."""
    return Tagged(msgspec.json.encode(value))


def wants_csv(request: Request) -> bool:
    """Whether ``Accept`` asks for CSV and not for JSON before it."""
    kinds = [
        each.partition(";")[0].strip().lower()
        for each in request.headers.get("accept", "").split(",")
    ]
    return "text/csv" in kinds and JSON not in kinds[: kinds.index("text/csv")]


async def read_body(request: Request, most: int) -> bytes:
    """The whole body. It is refused as soon as it is known to be larger than ``most`` bytes. The
    protocol limits the time."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and (len(declared) > 18 or int(declared) > most):
        raise too_large(most)
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Problem(415, "unsupported_encoding", "Content-Encoding must be absent")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_large(most)
    return bytes(body)
