"""Tokens: who may write, read or administer which stream.

A token is ``fc_<id>_<secret>``: a public id for lookup, and 256 random bits. Only the SHA-256 of the secret is stored. With that
much entropy no slower hash is needed, and the file alone gives no access. Secrets are compared in constant time, also when
the id is unknown. The file (``tokens.json``, mode 0600) is replaced as a whole under a lock; a running service sees a new or
revoked token with the next request.
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
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from fadecount.errors import FadecountError, bad_parameter
from fadecount.noise.entropy import unpredictable
from fadecount.streams.audit_log import Act, AuditLog

FILE_NAME = "tokens.json"
SECRET_BYTES = 32
_VERSION = 1


class TokenFileError(FadecountError):
    """The token file cannot be used."""


class Role(StrEnum):
    """What a token is for. An admin may do what the others may."""

    WRITER = "writer"
    READER = "reader"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token allows: a role, on one stream or (``stream=None``) on all of them. Holds no secret."""

    id: str
    role: Role
    stream: str | None
    created: int

    @property
    def shown(self) -> str:
        """The token as the audit log names it."""
        return f"token {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored(Grant):
    sha256: str


class TokenFile:
    """The tokens of a service, in one file. Reads see every change; writes are atomic and durable."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._audit_log = AuditLog.in_folder(path.parent)
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, _Stored] = {}

    def create(self, role: Role, *, stream: str | None = None) -> tuple[str, Grant]:
        """A new token and what it allows. The token is returned here and never again."""
        secret = base64.urlsafe_b64encode(unpredictable(SECRET_BYTES)).rstrip(b"=").decode()
        stored = _Stored(
            id=unpredictable(6).hex(), role=Role(role), stream=stream, created=int(time.time()), sha256=_hashed(secret)
        )
        with self._locked():
            tokens = {**self._read(), stored.id: stored}
            self._audit_log.record(Act.TOKEN_CREATED, stored.id, role=str(stored.role), stream=stored.stream or "all")
            self._write(tokens)
        return f"fc_{stored.id}_{secret}", _public(stored)

    def grants(self) -> list[Grant]:
        """Every token that is valid, oldest first, without its secret."""
        return [_public(each) for each in sorted(self._current().values(), key=lambda each: (each.created, each.id))]

    def revoke(self, token_id: str) -> None:
        """Revoke a token; this takes effect at once."""
        with self._locked():
            tokens = self._read()
            if tokens.pop(token_id, None) is None:
                raise bad_parameter("token id", token_id, "one of the valid tokens", "fadecount token list shows them")
            self._audit_log.record(Act.TOKEN_REVOKED, token_id)
            self._write(tokens)

    def grant_of(self, token: str) -> Grant | None:
        """What a presented token allows, or None. Takes the same time for every wrong secret."""
        marker, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        stored = self._current().get(token_id)
        expected = stored.sha256 if stored else _NOBODY
        matches = hmac.compare_digest(_hashed(secret), expected)
        return _public(stored) if stored and matches and marker == "fc" else None

    def is_valid(self, grant: Grant) -> bool:
        """Whether a grant has not been revoked."""
        return grant.id in self._current()

    @property
    def version(self) -> tuple[int, int, int] | None:
        """Changes whenever the file is written; None without a file."""
        try:
            status = self._path.stat()
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
            if document["version"] != _VERSION:
                raise ValueError
            each = [_Stored(**{**fields, "role": Role(fields["role"])}) for fields in document["tokens"]]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise _unreadable(error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise TokenFileError("the token file is damaged or newer than this version; restore it from a backup") from error
        return {stored.id: stored for stored in each}

    def _write(self, tokens: dict[str, _Stored]) -> None:
        document = {"fadecount": "tokens", "version": _VERSION, "tokens": [asdict(each) for each in tokens.values()]}
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".tokens-")  # mkstemp makes it 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
                file.flush()
                self._keep_owner(file.fileno())
                os.fsync(file.fileno())
            Path(name).replace(self._path)
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
        handle = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            self._keep_owner(handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _unreadable(error: OSError) -> TokenFileError:
    reason = error.strerror or type(error).__name__
    return TokenFileError(f"the token file cannot be read ({reason}); it must belong to the user that the service runs as")


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _public(stored: _Stored) -> Grant:
    return Grant(id=stored.id, role=stored.role, stream=stored.stream, created=stored.created)


_NOBODY = _hashed("")
