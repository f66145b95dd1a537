"""Where a store is, as an operator says it, and how it is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.reader import Reader
    from fadecount.streams.store import Store

STORE_NAME = "streams.db"


def default_folder() -> Path:
    """The folder that the environment names; else ``$XDG_DATA_HOME/fadecount``, by default
    ``~/.local/share/fadecount``."""
    if chosen := os.environ.get("FADECOUNT_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fadecount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where the streams and the tokens are: in a database, or else in the embedded store of a
    folder (mode 0700), which holds the audit log in both cases."""

    folder: Path
    database: str | None = None
    fence: str | Path | None = None
    key_file: str | Path | None = None

    @property
    def store_path(self) -> Path:
        """The file of the embedded store."""
        return self.folder / STORE_NAME

    def audit_log(self) -> AuditLog:
        """Where administrative acts are recorded."""
        from fadecount.streams.audit_log import AuditLog

        return AuditLog(self.folder)


def open_store(storage: Storage, *, lock_wait_seconds: float = 0.0) -> Store:
    """The store for writing; raises when another process writes to it."""
    from fadecount.streams import PostgresStore, SQLiteStore, fence_from, seal_from

    seal, fence = seal_from(storage.key_file), fence_from(storage.fence)
    if storage.database is not None:
        return PostgresStore(
            storage.database,
            fence=fence,
            seal=seal,
            lock_wait_seconds=lock_wait_seconds,
            audit_log=storage.audit_log(),
        )
    return SQLiteStore(storage.store_path, fence=fence, seal=seal)


def open_reader(storage: Storage) -> Reader:
    """A connection that can only read."""
    from fadecount.streams.reader import Reader

    if storage.database is not None:
        return Reader.of_server(storage.database)
    return Reader.of_file(storage.store_path)
