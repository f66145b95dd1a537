"""Refusals as the service sends them: a status, a code for programs, a sentence for people. Never a
value that was sent.

The body is ``application/problem+json`` (RFC 9457). Messages are written here, by hand, from
constants and bounds only, so that nothing that a client sent, and nothing that a stream holds, can
come back in one.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from fadecount.errors import FadecountError

MEDIA_TYPE = "application/problem+json"
log = logging.getLogger("fadecount.service")


class Problem(FadecountError):  # noqa: N818 - the word that RFC 9457 has for it
    """A request is refused. ``detail`` is shown to the client: bounds and remedies, no values."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}

    def body(self) -> bytes:
        return json.dumps(
            {"status": self.status, "code": self.code, "detail": self.detail}
        ).encode()


def bad_request(code: str, detail: str) -> Problem:
    return Problem(400, code, detail)


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


def unauthorized() -> Problem:
    detail = "send a valid token: Authorization: Bearer fc_..."
    return Problem(
        401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="fadecount"'}
    )


def forbidden() -> Problem:
    return Problem(
        403,
        "forbidden",
        "the token does not allow this; use one with the role and the stream that it needs",
    )


def not_found(detail: str = "there is nothing here; GET /v1/streams lists the streams") -> Problem:
    return Problem(404, "not_found", detail)


def removed() -> Problem:
    return Problem(
        410,
        "removed",
        "figures of that time were removed; ask from first_start of the stream on, or for longer"
        " slots",
    )


def too_large(limit: int) -> Problem:
    return Problem(
        413,
        "too_large",
        f"the body must be at most {limit} bytes; send several smaller ones",
    )


def too_slow() -> Problem:
    return Problem(408, "too_slow", "the request took too long to arrive; send it again")


def unavailable(
    detail: str = "the service cannot take this now; send it again", *, seconds: int = 1
) -> Problem:
    return Problem(503, "unavailable", detail, headers={"Retry-After": str(seconds)})


def wrong_host() -> Problem:
    return Problem(
        421,
        "wrong_host",
        "this host name is not served here; the operator allows it with --allow-host",
    )


def wrong_method(allowed: list[str]) -> Problem:
    methods = ", ".join(allowed)
    detail = f"this route takes {methods}"
    return Problem(405, "wrong_method", detail, headers={"Allow": methods})


def internal(error: Exception, request_id: bytes) -> Problem:
    """Logs what failed and where, without values, and returns the answer to send."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    what, file = type(error).__name__, where.filename.rpartition("/")[2]
    request = request_id.decode()
    log.error("failed: %s in %s line %s (request %s)", what, file, where.lineno, request)
    return Problem(500, "internal", "something went wrong here; the operator's log names it")
