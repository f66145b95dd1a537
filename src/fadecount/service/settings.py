"""What an operator chooses for a service: where the streams and the tokens are, who may read, the
bounds against strangers, and the clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadecount.service.tokens import Tokens
    from fadecount.service.website import Websites
    from fadecount.streams import Store
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.database import Database
    from fadecount.streams.reader import Reader

__all__ = ["Clock", "Limits", "Settings", "Storage", "open_store", "open_tokens"]

STORE_NAME = "streams.db"


def default_folder() -> Path:
    """The folder that the environment names; else ``$XDG_DATA_HOME/fadecount``, by default
    ``~/.local/share/fadecount``."""
    if chosen := os.environ.get("FADECOUNT_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "fadecount"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on requests. The defaults suit one machine on a network that is not trusted. All
    but live readers are shared: limits for single clients are for the proxy in front."""

    body_bytes: int = 1 << 20
    request_seconds: float = 10.0
    idle_seconds: float = 15.0
    send_seconds: float = 10.0
    connections: int = 1024
    waiting_bytes: int = 64 << 20
    """So much memory, about, may each of these take: bodies of requests without an answer, batches
    that wait to be committed, and visits of strangers that do."""


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


@contextmanager
def open_tokens(storage: Storage) -> Iterator[Tokens]:
    """The tokens of a service that may run meanwhile, or of one that has not begun yet: a store
    that does not exist is made."""
    from fadecount.service.tokens import Tokens
    from fadecount.streams.sqlite import SQLiteDatabase

    if storage.database is not None:
        from fadecount.streams.postgres import PostgresDatabase

        database: Database = PostgresDatabase(storage.database, writes=True)
    else:
        path = storage.store_path
        database = SQLiteDatabase(path, writes=True, beside=path.exists())
    try:
        yield Tokens(database, storage.audit_log().record)
    finally:
        database.close()


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


class Clock:
    """Wall-clock time. A demonstration may use one that runs faster."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, moment - self.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chooses."""

    storage: Storage
    hosts: frozenset[str] = frozenset()
    public: bool = False
    websites: Websites | None = None
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
