"""What stores and fences need from a database, and the tables of a store.

The SQL is the same for SQLite and PostgreSQL: question marks for values, ``ON CONFLICT``, whole
numbers of 64 bits, bytes. Everything that differs is in streams/sqlite.py and streams/postgres.py.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, ClassVar

from fadecount.errors import DatabaseError, StoreError, bad_parameter

if TYPE_CHECKING:
    from fadecount.noise import NoiseSource
    from fadecount.streams.audit_log import Act, AuditLog
    from fadecount.streams.fence import Fence
    from fadecount.streams.seal import Seal

FORMAT = 1
"""The number of the format of a store."""

TABLES: Mapping[str, str] = {
    "about": "name TEXT PRIMARY KEY, value TEXT NOT NULL",
    "streams": """
        id {identity}, name TEXT NOT NULL UNIQUE, uid TEXT NOT NULL, description TEXT NOT NULL,
        group_name TEXT,
        first_tick BIGINT NOT NULL, last_tick BIGINT NOT NULL, published_tick BIGINT NOT NULL,
        widths TEXT NOT NULL, commit_id TEXT NOT NULL, previous_commit_id TEXT,
        midnights TEXT, retain_seconds BIGINT, kept TEXT NOT NULL, upkeep_tick BIGINT NOT NULL""",
    "deleted": """
        name TEXT PRIMARY KEY, uid TEXT NOT NULL, description TEXT NOT NULL, group_name TEXT,
        first_tick BIGINT NOT NULL, last_tick BIGINT NOT NULL,
        deleted_at BIGINT NOT NULL""",
    "tokens": """
        token TEXT PRIMARY KEY, role TEXT NOT NULL, stream TEXT, label TEXT NOT NULL,
        created BIGINT NOT NULL, expires BIGINT, digest TEXT NOT NULL""",
    "key_blocks": """
        stream BIGINT NOT NULL, series BIGINT NOT NULL, position BIGINT NOT NULL,
        names TEXT NOT NULL, step BIGINT NOT NULL, PRIMARY KEY (stream, series, position)""",
    "state": """
        stream BIGINT NOT NULL, series BIGINT NOT NULL, kind BIGINT NOT NULL,
        number BIGINT NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (stream, series, kind, number)""",
    "inputs": "id {identity}, stream BIGINT NOT NULL, body {bytes} NOT NULL",
    "seen": """
        stream BIGINT NOT NULL, batch {bytes} NOT NULL, tick BIGINT NOT NULL,
        PRIMARY KEY (stream, batch)""",
    "persons": """
        stream BIGINT NOT NULL, person {bytes} NOT NULL, events BIGINT NOT NULL,
        PRIMARY KEY (stream, person)""",
    "secrets": """
        stream BIGINT NOT NULL, block BIGINT NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (stream, block)""",
    "hidden": """
        id {identity}, stream BIGINT NOT NULL, series BIGINT NOT NULL, block BIGINT NOT NULL,
        body {bytes} NOT NULL""",
    "positions": """
        stream BIGINT NOT NULL, source TEXT NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (stream, source)""",
    "embargo": """
        stream BIGINT NOT NULL, series BIGINT NOT NULL, level BIGINT NOT NULL,
        stage BIGINT NOT NULL, first_tick BIGINT NOT NULL, end_tick BIGINT NOT NULL,
        public_tick BIGINT NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (stream, series, level, stage, end_tick)""",
    "figures": """
        stream BIGINT NOT NULL, series BIGINT NOT NULL, level BIGINT NOT NULL,
        stage BIGINT NOT NULL, first_tick BIGINT NOT NULL, end_tick BIGINT NOT NULL,
        body {bytes} NOT NULL, digest {bytes} NOT NULL,
        PRIMARY KEY (stream, series, level, stage, first_tick)""",
}
"""The columns of each table. ``streams`` holds each stream's status; ``state`` and ``inputs`` hold
true counts, ``hidden`` undeclared keys of the open day, ``embargo`` figures before their time; only
``figures`` is for readers. ``series`` is a number in :attr:`Description.series`. Who writes and
destroys each row: docs/data.md."""

PUBLIC_TABLES = ("about", "streams", "deleted", "key_blocks", "figures", "sqlite_master")
"""What a reader may select from."""

INDEXES: Mapping[str, str] = {
    "streams_by_group": "streams (group_name)",
    "deleted_by_group": "deleted (group_name)",
    "inputs_by_stream": "inputs (stream, id)",
    "hidden_by_block": "hidden (stream, series, block)",
    "seen_by_tick": "seen (stream, tick)",
    "embargo_by_tick": "embargo (stream, public_tick)",
}

STREAM_TABLES = (
    *("key_blocks", "state", "inputs", "seen", "persons", "secrets", "positions"),
    *("hidden", "embargo", "figures"),
)
"""The tables whose rows belong to a stream, by its number in the column ``stream``."""


class Checkpoints:
    """Called at each named step of a transaction. Does nothing; a test may pass one that stops the
    process there."""

    def __call__(self, step: str) -> None:
        """The step comes next (``before ...``) or has just finished."""


@dataclass(slots=True, kw_only=True)
class Context:
    """What a store and its streams share. Without a noise source, noise is drawn from the system's
    entropy."""

    database: Database
    seal: Seal
    fence: Fence
    audit_log: AuditLog | None
    noise: NoiseSource | None = None
    checkpoint: Checkpoints = field(default_factory=Checkpoints)

    def record(self, act: Act, what: str, **details: str | int) -> None:
        """Record an administrative act just before it takes effect: if this raises, the act must
        not happen. Only a store without an operator has no audit log."""
        if self.audit_log is not None:
            self.audit_log.record(act, what, **details)


_ALL_ROWS, _ROW_COUNT = methodcaller("fetchall"), attrgetter("rowcount")


def store_failed(reason: str) -> StoreError:
    """The error for a database that failed, in one line and without values."""
    return DatabaseError(
        f"store failed: {reason}; nothing unconfirmed was released; remove the cause and start"
        " again"
    )


class Database(ABC):
    """One connection. Calls from several threads are serialized; a transaction keeps the others
    waiting.

    Guarantees: a transaction is committed whole or not at all. After a failure of the database its
    outcome is unknown, so every later call raises: a new connection reads what was really
    committed.

    ``for_share`` and ``for_update`` are the ends of queries that lock a row until the transaction
    ends, for reading or for changing it. They are empty where only one transaction can run at a
    time.
    """

    for_share: ClassVar[str] = ""
    for_update: ClassVar[str] = ""
    identity: ClassVar[str]
    """The column type of a number that the database gives."""
    bytes_type: ClassVar[str]
    _connection: Any

    def __init__(self, failures: Any, failed: Callable[[str], StoreError] = store_failed) -> None:
        """``failures`` are the errors of the database; ``failed`` makes the error for a reason."""
        self._failures, self._failed = failures, failed
        self._guard = threading.RLock()
        self.broken = False
        """Whether the connection has failed or was closed."""

    @property
    @abstractmethod
    def places(self) -> frozenset[str]:
        """Where the store is: as its operator names it, and as it really is. A store made there
        later is at the same place. Without passwords."""

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        rows: list[tuple[Any, ...]] = self._run(self._execute, sql, values, then=_ALL_ROWS)
        return rows

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement and return how many rows it affected. Outside a transaction it need not
        be durable at once."""
        count: int = self._run(self._execute, sql, values, then=_ROW_COUNT)
        return count

    def change_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run one statement for each of these rows of values, and return how many rows they
        affected together."""
        count: int = self._run(self._execute_many, sql, rows) if rows else 0
        return count

    def lock(self, name: str, wait_seconds: float) -> None:  # noqa: B027
        """Become the only writer of a stream until the connection closes, or raise a
        ``LockedError``. Nothing is to be done where a process that writes is the only one."""

    def unlock(self, name: str) -> None:  # noqa: B027
        """Let others write to a stream."""

    @contextmanager
    def locked(self, names: Iterable[str], wait_seconds: float) -> Iterator[None]:
        """Inside this block, hold the locks of all these names: see :meth:`lock`."""
        with ExitStack() as held:
            for name in names:
                self.lock(name, wait_seconds)
                held.callback(self.unlock, name)
            yield

    def scrub(self) -> None:  # noqa: B027
        """Destroy what was deleted or replaced where the database itself keeps it for long; outside
        of a transaction, after ticks were closed. It is quick, and may do nothing for a minute. A
        server keeps dead rows until it is told ``VACUUM FULL``."""

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self.broken = True
            with suppress(self._failures):
                self._connection.close()

    def _execute(self, sql: str, values: Sequence[Any]) -> Any:
        return self._connection.execute(sql, values)

    def _execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        cursor = self._connection.cursor()
        cursor.executemany(sql, rows)
        return int(cursor.rowcount)

    @abstractmethod
    def _execute_script(self, statements: Sequence[str]) -> None:
        """Run statements without values in a transaction."""

    @abstractmethod
    def _begin(self, *, durable: bool) -> None:
        """Begin a transaction."""

    @abstractmethod
    def _reason(self, error: Any) -> str:
        """Why the database failed, in one line and without values."""

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[None]:
        """All or nothing. When it ends without an error, what was done is durable.

        With ``durable=False`` a power cut may undo it, until a later transaction is durable; a
        killed process does not.
        """
        with self._guard:
            self._begin(durable=durable)
            try:
                yield
            except BaseException:
                if not self.broken:
                    self.change("ROLLBACK")
                raise
            self.change("COMMIT")

    def create(self, tables: Mapping[str, str], indexes: Mapping[str, str]) -> None:
        """Make tables and indexes, unless they exist, in a transaction."""
        types = {"identity": self.identity, "bytes": self.bytes_type}
        made = [f"TABLE IF NOT EXISTS {name} ({tables[name].format(**types)})" for name in tables]
        made += [f"INDEX IF NOT EXISTS {name} ON {indexes[name]}" for name in indexes]
        self._run(self._execute_script, [f"CREATE {each}" for each in made])

    def _run(
        self, action: Callable[..., Any], *arguments: Any, then: Callable[[Any], Any] | None = None
    ) -> Any:
        with self._guard:
            if self.broken:
                raise self._failed("an earlier error left it in doubt")
            try:
                result = action(*arguments)
                return result if then is None else then(result)
            except self._failures as error:
                self.broken = True
                raise self._failed(self._reason(error)) from error


def placeholders(values: Sequence[object]) -> str:
    """A question mark for each value, separated by commas."""
    return ", ".join("?" * len(values))


def require_format(database: Database) -> None:
    """Refuse a store of another format than the one that this version reads and writes."""
    rows = database.query("SELECT value FROM about WHERE name = 'format'")
    if rows and rows[0][0] != str(FORMAT):
        remedy = "another version of fadecount made it; use that version"
        raise bad_parameter("store format", rows[0][0], str(FORMAT), remedy)
