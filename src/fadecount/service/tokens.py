"""Tokens: who may write, read or administer which stream.

A token is ``fc_<id>_<secret>``: a public id for lookup, and 256 random bits. Only the SHA-256 of
the secret is stored. With that much entropy no slower hash is needed, and the file alone gives no
access. Secrets are compared in constant time, also when the id is unknown. The file
(``tokens.json``, mode 0600) is replaced as a whole under a lock; a running service sees a new or
revoked token with the next request, and refuses a token from the second on at which it expires.

On which day a token was last used is in a file of its own (``token-use.json``), written now and
then and never while a request waits. It is for the operator: the last use of a writer's token
depends on events, so no reader may see it, and a day is enough to find tokens that nobody uses.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from fadecount.checks import require_integer, require_real
from fadecount.errors import FadecountError, bad_parameter
from fadecount.noise.entropy import unpredictable
from fadecount.streams.audit_log import Act, AuditLog

FILE_NAME = "tokens.json"
USE_FILE_NAME = "token-use.json"
SECRET_BYTES = 32
LONGEST_LABEL = 100
LONGEST_LIFE = 100 * 365 * 86400
_VERSION = 2
_READABLE = (1, 2)
"""Version 1 has no labels, expiries or limits. It is read, and becomes version 2 when it is next
written."""

_DAY = 86400


class TokenFileError(FadecountError):
    """The token file cannot be used."""


class Role(StrEnum):
    """What a token is for. An admin may do what the others may."""

    WRITER = "writer"
    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token allows: a role, on one stream or (``stream=None``) on all of them, until it
    expires. Holds no secret.

    Limits, each None for no limit: requests a second, connections in use at once, live readers at
    once.
    """

    id: str
    role: Role
    stream: str | None
    created: int
    label: str = ""
    expires: int | None = None
    rate: float | None = None
    connections: int | None = None
    live_readers: int | None = None

    @property
    def shown(self) -> str:
        """The token as the audit log names it."""
        return f"token {self.id} ({self.label})" if self.label else f"token {self.id}"

    @property
    def is_limited(self) -> bool:
        """Whether the token has any limit of its own."""
        return (
            self.rate is not None or self.connections is not None or self.live_readers is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A token as it is stored: what it allows, and the hash of its secret."""

    grant: Grant
    sha256: str


class TokenFile:
    """The tokens of a service, in one file. Reads see every change; writes are atomic and
    durable."""

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._used: dict[str, int] = {}
        self._saved: dict[str, int] = {}
        self._audit_log = AuditLog(path.parent)
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, _Stored] = {}

    def create(
        self,
        role: Role,
        *,
        stream: str | None = None,
        label: str = "",
        expires_seconds: int | None = None,
        rate: float | None = None,
        connections: int | None = None,
        live_readers: int | None = None,
    ) -> tuple[str, Grant]:
        """A new token and what it allows. The token is returned here and never again."""
        _check(label, expires_seconds, rate, connections, live_readers)
        secret = base64.urlsafe_b64encode(unpredictable(SECRET_BYTES)).rstrip(b"=").decode()
        created = int(self._now())
        grant = Grant(
            id=unpredictable(6).hex(),
            role=Role(role),
            stream=stream,
            created=created,
            label=label,
            expires=None if expires_seconds is None else created + expires_seconds,
            rate=rate,
            connections=connections,
            live_readers=live_readers,
        )
        with self._locked():
            tokens = {**self._read(), grant.id: _Stored(grant=grant, sha256=_hashed(secret))}
            words = {
                "role": str(grant.role),
                "stream": grant.stream or "all",
                **({"label": label} if label else {}),
            }
            self._audit_log.record(Act.TOKEN_CREATED, grant.id, **words)
            self._write(tokens)
        return f"fc_{grant.id}_{secret}", grant

    def grants(self) -> list[Grant]:
        """Every token that was not revoked, oldest first, without its secret. Some may have
        expired."""
        return sorted(
            (each.grant for each in self._current().values()),
            key=lambda each: (each.created, each.id),
        )

    def revoke(self, token_id: str) -> None:
        """Revoke a token; this takes effect at once."""
        with self._locked():
            tokens = self._read()
            if tokens.pop(token_id, None) is None:
                raise bad_parameter(
                    "token id", token_id, "one of the tokens", "fadecount token list shows them"
                )
            self._audit_log.record(Act.TOKEN_REVOKED, token_id)
            self._write(tokens)

    def grant_of(self, token: str) -> Grant | None:
        """What a presented token allows, or None. Takes the same time for every wrong secret."""
        marker, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        stored = self._current().get(token_id)
        expected = stored.sha256 if stored else _NOBODY
        matches = hmac.compare_digest(_hashed(secret), expected)
        if not (stored and matches and marker == "fc") or self.has_expired(stored.grant):
            return None
        self._used[token_id] = int(self._now()) // _DAY
        return stored.grant

    def has_expired(self, grant: Grant) -> bool:
        """Whether a token is refused because its time is over."""
        return grant.expires is not None and self._now() >= grant.expires

    def is_valid(self, grant: Grant) -> bool:
        """Whether a grant has neither been revoked nor expired."""
        return grant.id in self._current() and not self.has_expired(grant)

    def expired(self) -> int:
        """How many tokens have expired: live connections are checked again when this grows."""
        return sum(self.has_expired(each.grant) for each in self._current().values())

    def last_uses(self) -> Mapping[str, date]:
        """The day (UTC) on which each token was last used, by its id: here, or as last saved by a
        service."""
        return {
            name: date.fromordinal(_EPOCH + day)
            for name, day in _latest(dict(self._used), self._read_uses()).items()
        }

    def save_uses(self) -> None:
        """Write the days on which tokens were last used, if any is new. Several services may share
        the file."""
        new = dict(self._used)
        if new == self._saved:
            return
        with self._locked():
            known = self._read()
            days = {
                name: day for name, day in _latest(new, self._read_uses()).items() if name in known
            }
            self._replace(self._use_path, {"fadecount": "token use", "version": 1, "days": days})
        self._saved = new

    @property
    def _use_path(self) -> Path:
        return self._path.with_name(USE_FILE_NAME)

    def _read_uses(self) -> dict[str, int]:
        """Empty if the file is absent or damaged: it can be done without."""
        try:
            found = json.loads(self._use_path.read_text(encoding="utf-8"))["days"]
            return {str(name): int(day) for name, day in found.items() if 0 <= int(day) < 1_000_000}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    @property
    def version(self) -> tuple[int, int, int] | None:
        """Changes whenever the file is written; None without a file."""
        try:
            status = os.stat(self._path)  # noqa: PTH116 - at every request, and half as fast as a method of the path
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(error) from error
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _current(self) -> dict[str, _Stored]:
        seen = self.version
        if seen is None:
            return {}
        if seen != self._seen:
            self._tokens, self._seen = self._read(), seen
        return self._tokens

    def _read(self) -> dict[str, _Stored]:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            if document["version"] not in _READABLE:
                raise ValueError
            each = [_stored(**fields) for fields in document["tokens"]]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise _unreadable(error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise TokenFileError(
                "the token file is damaged or newer than this version; restore it from a backup"
            ) from error
        return {stored.grant.id: stored for stored in each}

    def _write(self, tokens: dict[str, _Stored]) -> None:
        rows = [{**asdict(each.grant), "sha256": each.sha256} for each in tokens.values()]
        self._replace(self._path, {"fadecount": "tokens", "version": _VERSION, "tokens": rows})

    def _replace(self, path: Path, document: dict[str, object]) -> None:
        handle, name = tempfile.mkstemp(
            dir=self._path.parent, prefix=".tokens-"
        )  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.flush()
                self._keep_owner(file.fileno())
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _keep_owner(self, handle: int) -> None:
        """A file written by root gets the owner of the folder, so that the service can read it."""
        if os.geteuid() == 0:
            owner = self._path.parent.stat()
            os.fchown(handle, owner.st_uid, owner.st_gid)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(
            self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600
        )
        try:
            self._keep_owner(handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _latest(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}


def _unreadable(error: OSError) -> TokenFileError:
    reason = error.strerror or type(error).__name__
    return TokenFileError(
        f"the token file cannot be read ({reason}); it must belong to the user that the service"
        " runs as"
    )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _stored(*, sha256: str, role: str, **fields: Any) -> _Stored:
    return _Stored(grant=Grant(role=Role(role), **fields), sha256=sha256)


def _check(
    label: str,
    expires: int | None,
    rate: float | None,
    connections: int | None,
    live_readers: int | None,
) -> None:
    if len(label) > LONGEST_LABEL or not (label.isprintable() and label == label.strip()):
        raise bad_parameter(
            "label",
            label,
            f"at most {LONGEST_LABEL} printable characters",
            "it says what the token is for",
        )
    if expires is not None:
        remedy = "it is in how many seconds the token expires; leave it out for never"
        require_integer("expires", expires, minimum=1, maximum=LONGEST_LIFE, remedy=remedy)
    remedy = "leave it out for no limit"
    if rate is not None:
        require_real("rate", rate, low=0.001, high=1e9, remedy=remedy)
    for name, value in (("connections", connections), ("live_readers", live_readers)):
        if value is not None:
            require_integer(name, value, minimum=1, maximum=1_000_000, remedy=remedy)


_EPOCH = date(1970, 1, 1).toordinal()
_NOBODY = _hashed("")
