"""The audit log: one JSON line for each administrative act on a store, in a file that is only ever
appended to.

The log is a file in the store's folder, also for PostgreSQL, where it is in a folder of the
machine: a table in the database would go back in time with a restored backup.

A line is written and synced *before* its act takes effect. So there is no act without a line; after
a crash there may be a line whose act did not happen, or one that was cut short. A line names an
actor, an act, and what it was done to. It holds no count, input or secret, and nothing that depends
on events.
"""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path

from fadecount.calendar import iso_time
from fadecount.errors import FadecountError
from fadecount.streams.sqlite import owned_file, sync_folder

FILE_NAME = "fadecount-audit.jsonl"
_actor: ContextVar[str | None] = ContextVar("actor", default=None)


class Act(StrEnum):
    """What an operator can do to a store."""

    TOKEN_CREATED = "token created"  # noqa: S105 - not a password
    TOKEN_REVOKED = "token revoked"  # noqa: S105 - not a password
    STREAM_CREATED = "stream created"
    STREAM_DELETED = "stream deleted"
    STREAM_CAUGHT_UP = "stream caught up"
    KEYS_DECLARED = "keys declared"
    SEAL_ROTATED = "key rotated"
    BACKUP_MADE = "backup made"
    BACKUP_RESTORED = "backup restored"
    RETENTION_SET = "retention set"
    FIGURES_REMOVED = "figures removed"


class AuditLogError(FadecountError):
    """The audit log cannot be written."""


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
    """The acts recorded in the file ``fadecount-audit.jsonl`` of a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE_NAME

    def record(self, act: Act, what: str, **details: str | int) -> None:
        """Append a line, durably. Call this just before the act takes effect: if it raises, the act
        must not happen.

        ``what`` is the name of a stream, the id of a token or the like. ``details`` must not depend
        on events.
        """
        entry = {
            "time": iso_time(int(time.time())),
            "actor": _actor.get() or _local_user(),
            "act": act,
            "object": what,
            "details": details,
        }
        try:
            self._append(json.dumps(entry).encode() + b"\n")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise AuditLogError(
                f"audit log {str(self.path)!r} cannot be written: {reason}; nothing was changed"
            ) from error

    def _append(self, line: bytes) -> None:
        folder = self.path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = not self.path.exists()
        descriptor = owned_file(self.path, os.O_APPEND)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line  # a crash cut the last one short
            if os.write(descriptor, line) != len(line):
                raise OSError(0, "short write")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            sync_folder(folder)


def _local_user() -> str:
    """The user of this process, as the log names it."""
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        return f"user {os.geteuid()}"
