"""What an operator chooses for a service: where the store is, who may read, the bounds against
strangers, and the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadecount.service.tokens import Tokens
    from fadecount.service.website import Websites
    from fadecount.streams.database import Database
    from fadecount.streams.storage import Storage

__all__ = ["Clock", "Limits", "Settings", "open_tokens"]


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
