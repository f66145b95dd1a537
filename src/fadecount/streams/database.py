"""The interface that stores need from a database, and their tables.

The SQL is the same for SQLite and PostgreSQL: question marks for values, ``ON CONFLICT``, whole
numbers of 64 bits, bytes. After a database error the outcome of the current transaction is unknown,
so the connection refuses all further work. A new connection reads what was really committed.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from fadecount.errors import StoreError

FORMAT = 3
"""The number of the format of a store; streams/migration.py says what changed."""

_KEY_BLOCKS = """CREATE TABLE IF NOT EXISTS key_blocks (
        stream BIGINT NOT NULL, position BIGINT NOT NULL, names TEXT NOT NULL, PRIMARY KEY (stream, position))"""

TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS streams (
        id {identity}, name TEXT NOT NULL UNIQUE, uid TEXT NOT NULL, description TEXT NOT NULL,
        first_tick BIGINT, last_tick BIGINT, published_tick BIGINT, steps BIGINT NOT NULL, width BIGINT NOT NULL,
        commit_id TEXT NOT NULL, previous_commit_id TEXT, forks TEXT NOT NULL,
        secret {bytes} NOT NULL, digest {bytes} NOT NULL,
        retain_seconds BIGINT, kept_tick BIGINT, compacted_tick BIGINT)""",
    _KEY_BLOCKS,
    """CREATE TABLE IF NOT EXISTS state (
        stream BIGINT NOT NULL, kind BIGINT NOT NULL, number BIGINT NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (stream, kind, number))""",
    (
        "CREATE TABLE IF NOT EXISTS inputs (id {identity}, stream BIGINT NOT NULL, body {bytes} NOT"
        " NULL)"
    ),
    "CREATE INDEX IF NOT EXISTS inputs_by_stream ON inputs (stream, id)",
    """CREATE TABLE IF NOT EXISTS seen (
        stream BIGINT NOT NULL, batch {bytes} NOT NULL, tick BIGINT NOT NULL, PRIMARY KEY (stream, batch))""",
    "CREATE INDEX IF NOT EXISTS seen_by_tick ON seen (stream, tick)",
    """CREATE TABLE IF NOT EXISTS persons (
        stream BIGINT NOT NULL, person {bytes} NOT NULL, events BIGINT NOT NULL, PRIMARY KEY (stream, person))""",
    """CREATE TABLE IF NOT EXISTS positions (
        stream BIGINT NOT NULL, source TEXT NOT NULL, body {bytes} NOT NULL, PRIMARY KEY (stream, source))""",
    """CREATE TABLE IF NOT EXISTS releases (
        stream BIGINT NOT NULL, first_tick BIGINT NOT NULL, ticks BIGINT NOT NULL, width BIGINT NOT NULL,
        body {bytes} NOT NULL, digest {bytes} NOT NULL, PRIMARY KEY (stream, first_tick))""",
    """CREATE TABLE IF NOT EXISTS deleted (
        name TEXT PRIMARY KEY, last_tick BIGINT, uid TEXT, description TEXT, steps BIGINT, deleted_at BIGINT)""",
    """CREATE TABLE IF NOT EXISTS tokens (
        id TEXT PRIMARY KEY, role TEXT NOT NULL, stream TEXT, label TEXT NOT NULL, created BIGINT NOT NULL,
        expires BIGINT, digest TEXT NOT NULL)""",
)
"""``streams`` holds each stream's status; ``state`` and ``inputs`` hold true counts; only
``releases`` is for readers."""

TABLE_NAMES = tuple(
    found[1]
    for found in (re.match(r"CREATE TABLE IF NOT EXISTS (\w+)", each) for each in TABLES)
    if found
)

OF_STREAMS = frozenset(
    name
    for name in TABLE_NAMES
    for each in TABLES
    if f" {name} (" in each and "stream BIGINT" in each
)
"""The tables whose rows belong to a stream. Those of a deleted stream may still be there; a backup
leaves them out."""

NEW_IN_FORMAT_2 = (
    "ALTER TABLE streams ADD COLUMN retain_seconds BIGINT",
    "ALTER TABLE streams ADD COLUMN kept_tick BIGINT",
    "ALTER TABLE streams ADD COLUMN compacted_tick BIGINT",
    "ALTER TABLE deleted ADD COLUMN uid TEXT",
    "ALTER TABLE deleted ADD COLUMN description TEXT",
    "ALTER TABLE deleted ADD COLUMN steps BIGINT",
    "ALTER TABLE deleted ADD COLUMN deleted_at BIGINT",
)
"""What a store of format 1 lacks."""

NEW_IN_FORMAT_3 = (_KEY_BLOCKS,)
"""What a store of format 2 lacks. Its keys were in a table ``keys``, one row for each."""


def noted_as(tick: int) -> bytes:
    """What ``person`` begins with in a row of ``persons`` that was noted in a tick; in the order of
    the ticks."""
    return (tick + (1 << 63)).to_bytes(8, "big")


class Database(Protocol):
    """One connection. Calls from several threads are serialized; a transaction keeps the others
    waiting.

    ``for_share`` and ``for_update`` are the ends of queries that lock a row until the transaction
    ends, for reading or for changing it. They are empty where only one transaction can run at a
    time.
    """

    for_share: ClassVar[str]
    for_update: ClassVar[str]

    @property
    def places(self) -> frozenset[str]:
        """Where the store is: as its operator names it, and as it is really found. A store made
        there later is at the same place. Without passwords."""

    def transaction(self, *, durable: bool = True) -> AbstractContextManager[None]:
        """All or nothing. When it ends without an error, what was done is durable.

        With ``durable=False`` a power cut may undo it, until a later transaction is durable; a
        killed process does not.
        """

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it affected. Outside a transaction it need not
        be durable at once."""

    def change_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run one statement for each of these rows of values, and return how many rows they
        affected together."""

    def lock(self, name: str, wait_seconds: float) -> None:
        """Become the only writer of a stream until the connection closes, or raise a
        ``LockedError``."""

    def unlock(self, name: str) -> None: ...

    def close(self) -> None: ...

    def in_dialect(self, table: str) -> str:
        """A statement that makes a table, in the dialect of the database."""

    def copy_into(self, path: Path) -> None:
        """Everything in the store, as it is at one moment, into an empty file: an SQLite store in
        one file."""


def store_failed(reason: str) -> StoreError:
    """The error for a database that failed, in one line and without values."""
    return StoreError(
        f"store failed: {reason}; nothing unconfirmed was released; remove the cause and start"
        " again"
    )


class Checkpoints:
    """Called at each named step of a transaction. Does nothing; a test may pass one that stops the
    process there."""

    def __call__(self, step: str) -> None:
        """The step comes next (``before ...``) or has just finished."""


def file_or_line(text: str) -> str:
    """The first line of a database's message."""
    return text.strip().splitlines()[0] if text.strip() else "unknown reason"


class GuardedConnection(ABC):
    """Guarantees: a transaction is committed whole or not at all; after a failure of the database
    every call raises.

    The outcome of the current transaction is then unknown: a new connection reads what was really
    committed.
    """

    for_share: ClassVar[str] = ""
    for_update: ClassVar[str] = ""

    def __init__(self, failures: Any) -> None:
        self._failures = failures
        self._guard = threading.RLock()
        self._broken = False

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int: ...

    @abstractmethod
    def _failure(self, error: Any) -> StoreError:
        """The error for a failure of the database, in one line and without values."""

    @abstractmethod
    def _begin(self, *, durable: bool) -> None:
        """Begin a transaction."""

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        with self._guard:
            self._begin(durable=durable)
            try:
                yield
            except BaseException:
                if not self._broken:
                    self.change("ROLLBACK")
                raise
            self.change("COMMIT")

    def _run(self, action: Callable[[], Any]) -> Any:
        with self._guard:
            if self._broken:
                raise store_failed("an earlier error left it in doubt")
            try:
                return action()
            except self._failures as error:
                self._broken = True
                raise self._failure(error) from error
