"""Reading a request's body: never more than allowed, never longer than allowed, unpacked on the way."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fadecount.service.limits import Limits
from fadecount.service.problems import Problem, bad_request, too_large

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
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
