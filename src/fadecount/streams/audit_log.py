"""The audit log: one line for each administrative act on a store, in a file that is only ever
appended to.

The log is a file in the store's folder, also for PostgreSQL, where it is in a folder of the
machine. A table in the database would go back in time with a restored backup, and acts that need no
database (tokens) could not be recorded in it.

A line is written and synced *before* its act takes effect. So there is no act without a line; after
a crash there may be a line whose act did not happen. Each line holds the SHA-256 of the line before
it: changing or removing a line breaks the chain. The end of the file can still be cut off, and a
person who may write the file may write all of it again. To detect that, keep the last hash
elsewhere, and check later that it is still in the log.

A line names an actor, an act, and what it was done to. It holds no count, input or secret, and
nothing that depends on events.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from fadecount.errors import FadecountError

FILE_NAME = "fadecount-audit.jsonl"
NOTHING_BEFORE = hashlib.sha256(b"").hexdigest()
"""What the first line states as the hash of the line before it."""

_TAIL = 1 << 13
"""Bytes at the end of the file that hold its last line, unless that is very long."""

_FIELDS = ("time", "actor", "act", "object", "details", "previous")
_actor: ContextVar[str | None] = ContextVar("actor", default=None)


class Act(StrEnum):
    """What an operator can do to a store."""

    TOKEN_CREATED = "token created"  # noqa: S105 - not a password
    TOKEN_REVOKED = "token revoked"  # noqa: S105 - not a password
    STREAM_CREATED = "stream created"
    STREAM_DELETED = "stream deleted"
    STREAM_ENDED = "stream ended"
    STREAM_CAUGHT_UP = "stream caught up"
    KEYS_DECLARED = "keys declared"
    HISTORIES_ACCEPTED = "other histories accepted"
    SEAL_ROTATED = "key rotated"
    BACKUP_MADE = "backup made"
    BACKUP_RESTORED = "backup restored"
    RETENTION_SET = "retention set"
    RELEASES_REMOVED = "releases removed"
    STORE_MIGRATED = "store migrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log. ``hash`` is what the next line states as ``previous``."""

    time: str
    actor: str
    act: str
    object: str
    details: dict[str, str | int]
    previous: str
    hash: str


class AuditLogError(FadecountError):
    """The audit log cannot be written, or was changed."""


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Inside this block, acts are recorded as those of ``actor``; elsewhere as those of the user of
    this process."""
    before = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(before)


class AuditLog:
    """The acts recorded in one file; without a path nothing is recorded (a store in memory has no
    operator)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def in_folder(cls, folder: str | Path) -> AuditLog:
        """The log of the store in a folder."""
        return cls(Path(folder) / FILE_NAME)

    @property
    def path(self) -> Path | None:
        """The file, if there is one."""
        return self._path

    def record(self, act: Act, what: str, **details: str | int) -> None:
        """Append a line, durably. Call this just before the act takes effect: if it raises, the act
        must not happen.

        ``what`` is the name of a stream, the id of a token or the like. ``details`` must not depend
        on events.
        """
        if self._path is None:
            return
        fields = {
            "time": datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "actor": _actor.get() or local_user(),
            "act": str(act),
            "object": what,
            "details": details,
        }
        try:
            self._append(self._path, fields)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise AuditLogError(
                f"audit log {str(self._path)!r} cannot be written: {reason}; nothing was changed"
            ) from error

    def _append(self, path: Path, fields: Mapping[str, object]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.geteuid() == 0:  # the service must be able to go on with a log that root began
                owner = path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            before, unfinished = _last_line(descriptor)
            text = json.dumps(
                {**fields, "previous": _hash(before)}, ensure_ascii=False, separators=(", ", ": ")
            )
            line = b"\n" * unfinished + text.encode() + b"\n"
            if os.write(descriptor, line) != len(line):
                raise OSError(0, "short write")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def entries(self) -> Iterator[Entry]:
        """Every entry, oldest first. Raises an :class:`AuditLogError` at the first line that breaks
        the chain.

        A line that a crash cut short is passed over, if the next one states its hash.
        """
        try:
            content = self._path.read_bytes() if self._path is not None else b""
        except FileNotFoundError:
            return
        except OSError as error:
            raise AuditLogError(
                f"audit log {str(self._path)!r} cannot be read: {error.strerror}"
            ) from error
        before = b""
        unfinished: int | None = None
        for number, line in enumerate(
            content.removesuffix(b"\n").split(b"\n") if content else (), 1
        ):
            entry = _entry(line)
            if entry is not None and entry.previous != _hash(before):
                raise self._changed(number)
            if entry is None and unfinished is not None:
                raise self._changed(unfinished)
            unfinished = number if entry is None else None
            before = line
            if entry is not None:
                yield entry
        if unfinished is not None and content.endswith(b"\n"):
            raise self._changed(unfinished)

    def _changed(self, number: int) -> AuditLogError:
        return AuditLogError(
            f"audit log {str(self._path)!r} was changed at or before line {number}: its hashes do"
            " not follow from each other"
        )


def _entry(line: bytes) -> Entry | None:
    """A line of the log; None for bytes that are none."""
    try:
        found = json.loads(line)
        return Entry(**{name: found[name] for name in _FIELDS}, hash=_hash(line))
    except (ValueError, KeyError, TypeError):
        return None


def _last_line(descriptor: int) -> tuple[bytes, bool]:
    """The last line, without its end; and whether a crash cut it short."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, _TAIL, max(0, size - _TAIL))
    if b"\n" not in tail[:-1]:
        tail = os.pread(descriptor, size, 0)
    unfinished = bool(tail) and not tail.endswith(b"\n")
    return tail.removesuffix(b"\n").rpartition(b"\n")[2], unfinished


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def local_user() -> str:
    """The user of this process, as the log names it."""
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        return f"user {os.geteuid()}"
