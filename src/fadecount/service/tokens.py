"""Tokens, and who may do what with them: write, read or administer which stream.

A token is ``fc_<id>_<secret>``: a public id for lookup, and 256 random bits. The store's database
holds the SHA-256 of the secret only. With that much entropy no slower hash is needed, and the
database alone gives no access. Secrets are compared in constant time, also when the id is unknown.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from fadecount.checks import require_integer
from fadecount.errors import bad_parameter
from fadecount.noise.entropy import unpredictable
from fadecount.service.http import Problem, unavailable
from fadecount.streams.audit_log import Act
from fadecount.streams.database import Database
from fadecount.streams.loss import require_name

SECRET_BYTES = 32
LONGEST_LABEL = 100
LONGEST_LIFE = 100 * 365 * 86400
LONGEST_AGE = 30.0
"""Seconds after which a copy of the tokens is not used any more: the store does not answer, and a
token may have been revoked."""

_COLUMNS = "token, role, stream, label, created, expires, digest"


class Role(StrEnum):
    """What a token is for. An admin may do what the others may."""

    WRITER = "writer"
    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows: a role, on one stream or (``stream=None``) on all of them, until it
    expires. Holds no secret, only its digest."""

    id: str
    role: Role
    stream: str | None
    label: str
    created: int
    expires: int | None
    digest: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The token as the audit log names it."""
        return f"token {self.id} ({self.label})" if self.label else f"token {self.id}"

    def has_expired(self, now: float) -> bool:
        """Whether the token is refused because its time is over."""
        return self.expires is not None and now >= self.expires

    def require_stream(self, stream: str | None) -> None:
        """Refuse a stream that the token is not for (None: something about all streams)."""
        if self.stream not in (None, stream):
            raise _forbidden()


class Tokens:
    """The tokens of a service, in the database of its store."""

    def __init__(
        self,
        database: Database,
        record: Callable[..., None],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``record`` writes a line of the audit log, just before an act takes effect."""
        self._database, self._record, self._now = database, record, now

    def create(
        self,
        role: Role,
        *,
        stream: str | None = None,
        label: str = "",
        expires_seconds: int | None = None,
    ) -> tuple[str, Grant]:
        """A new token and what it allows. The token is returned here and never again."""
        if len(label) > LONGEST_LABEL or not (label.isprintable() and label == label.strip()):
            bound = f"at most {LONGEST_LABEL} printable characters"
            raise bad_parameter("label", label, bound, "it says what the token is for")
        if stream is not None:
            require_name("stream", stream, "such as visits or door-3")
        if expires_seconds is not None:
            remedy = "it is in how many seconds the token expires; leave it out for never"
            require_integer(
                "expires", expires_seconds, minimum=1, maximum=LONGEST_LIFE, remedy=remedy
            )
        secret = base64.urlsafe_b64encode(unpredictable(SECRET_BYTES)).rstrip(b"=").decode()
        name, created = unpredictable(6).hex(), int(self._now())
        expires = None if expires_seconds is None else created + expires_seconds
        grant = Grant(name, Role(role), stream, label, created, expires, _digest(secret))
        details = {"role": str(grant.role), "stream": stream or "all"}
        with self._database.transaction():
            self._database.change(
                f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - a constant
                (name, str(role), stream, label, created, expires, grant.digest),
            )
            details |= {"label": label} if label else {}
            self._record(Act.TOKEN_CREATED, name, **details)
        return f"fc_{name}_{secret}", grant

    def grants(self) -> list[Grant]:
        """Every token that was not revoked, oldest first. Some may have expired."""
        sql = f"SELECT {_COLUMNS} FROM tokens ORDER BY created, token"  # noqa: S608 - a constant
        return [Grant(name, Role(role), *more) for name, role, *more in self._database.query(sql)]

    def revoke(self, token_id: str) -> None:
        """Revoke a token. Running services notice within a second."""
        with self._database.transaction():
            if not self._database.change("DELETE FROM tokens WHERE token = ?", (token_id,)):
                remedy = "fadecount token list shows them"
                raise bad_parameter("token id", token_id, "one of the tokens", remedy)
            self._record(Act.TOKEN_REVOKED, token_id)


class Access:
    """Decides whether a request is allowed, from a copy of the tokens in memory, which must be
    replaced at least every ``LONGEST_AGE`` seconds. With ``public``, reading needs no token;
    everything else always needs one.

    A wrong stream and an unknown stream get the same refusal, so a token of one stream cannot find
    out which others exist.
    """

    def __init__(self, *, public: bool, now: Callable[[], float] = time.time) -> None:
        self._public, self._now = public, now
        self._grants: dict[str, Grant] = {}
        self._replaced = -LONGEST_AGE

    def replace(self, grants: Iterable[Grant]) -> bool:
        """Take a new copy; whether a token was added or revoked or has expired since the last."""
        now = self._now()
        current = {grant.id: grant for grant in grants if not grant.has_expired(now)}
        changed = current != self._grants
        self._grants, self._replaced = current, time.monotonic()
        return changed

    def grant_of(self, token: str) -> Grant | None:
        """What a presented token allows, or None. Takes the same time for every wrong secret."""
        marker, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        grant = self._grants.get(token_id)
        matches = hmac.compare_digest(_digest(secret), grant.digest if grant else _NOBODY)
        return grant if grant and matches and marker == "fc" and self.still(grant) else None

    def allow(self, authorization: str | None, role: Role) -> Grant | None:
        """What allows a request with this header to do what ``role`` may; raises a Problem if
        nothing does. None where no token is needed."""
        if self._public and role is Role.READER and authorization is None:
            return None
        if reason := self.not_ready_reason():
            raise unavailable(reason)
        scheme, _, token = (authorization or "").partition(" ")
        grant = self.grant_of(token.strip()) if scheme.lower() == "bearer" else None
        if grant is None:
            detail = "send a valid token: Authorization: Bearer fc_..."
            challenge = (b"www-authenticate", b'Bearer realm="fadecount"')
            raise Problem(401, "unauthorized", detail, challenge)
        if grant.role not in (role, Role.ADMIN):
            raise _forbidden()
        return grant

    def still(self, grant: Grant | None) -> bool:
        """Whether a grant given earlier is still valid: neither revoked nor expired."""
        if grant is None:
            return True
        is_kept = grant.id in self._grants and self.not_ready_reason() is None
        return is_kept and not grant.has_expired(self._now())

    def not_ready_reason(self) -> str | None:
        """Why every token is refused; None if the tokens are known."""
        is_current = time.monotonic() - self._replaced < LONGEST_AGE
        return None if is_current else "the tokens cannot be read from the store"


def _forbidden() -> Problem:
    detail = "the token does not allow this; use one with the role and the stream that it needs"
    return Problem(403, "forbidden", detail)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


_NOBODY = _digest("")
