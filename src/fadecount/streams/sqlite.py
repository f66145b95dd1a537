"""The embedded database: one SQLite file, for one writing process and any number of readers."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fadecount.errors import LockedError, StoreError
from fadecount.streams.database import TABLES, GuardedConnection, file_or_line, store_failed

MEMORY = ":memory:"
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA busy_timeout = 10000",
)

_FAILURES = (sqlite3.Error, sqlite3.Warning, OSError, UnicodeDecodeError)
"""Damaged files raise decoding errors too."""


class SQLiteDatabase(GuardedConnection):
    """One connection to a file that only its owner may read (mode 0600, also of the files SQLite puts beside it).

    Guarantees: a finished transaction is on disk (write-ahead log, ``synchronous = FULL``); at most one process writes, held by a
    lock on ``<path>.lock`` that ends with the process; damage that SQLite can see is refused when a writer opens.
    """

    _first_words = "BEGIN IMMEDIATE"

    def __init__(self, path: str | Path, *, writes: bool) -> None:
        super().__init__(_FAILURES)
        self._lock_file: int | None = None
        self._path = str(path)
        try:
            if self._path != MEMORY:
                self._prepare(Path(self._path), writes)
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=10.0)
            self._begin(writes)
        except _FAILURES as error:
            self._release_lock()
            raise self._failure(error) from error
        except StoreError:
            self._release_lock()
            raise

    def _prepare(self, path: Path, writes: bool) -> None:
        if not writes:
            if not path.is_file():
                raise StoreError(f"store must exist to be read, got {str(path)!r}; run or serve creates it")
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_file = _private(path.with_name(path.name + ".lock"))
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"store {str(path)!r} is in use by another writer; stop that process first") from None
        os.close(_private(path))

    def _begin(self, writes: bool) -> None:
        for pragma in _PRAGMAS if writes else (*_PRAGMAS[-1:], "PRAGMA query_only = ON"):
            self._connection.execute(pragma).fetchall()
        if not writes:
            if not self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'streams'").fetchall():
                raise StoreError(f"store must hold streams to be read, got none in {self._path!r}; run or serve creates it")
            return
        found = self._connection.execute("PRAGMA integrity_check(1)").fetchall()
        if found != [("ok",)]:
            raise store_failed("the file is damaged (integrity_check)")
        with self.transaction():
            for table in TABLES:
                self.change(table.format(identity="INTEGER PRIMARY KEY AUTOINCREMENT", bytes="BLOB"))

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._run(lambda: self._connection.execute(sql, values).fetchall())
        return rows

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        count: int = self._run(lambda: self._connection.execute(sql, values).rowcount)
        return count

    def lock(self, name: str, wait_seconds: float) -> None:
        """The lock on the file is enough: it covers every stream."""

    def unlock(self, name: str) -> None: ...

    def close(self) -> None:
        with self._guard:
            self._broken = True
            with suppress(sqlite3.Error):
                self._connection.close()
            self._release_lock()

    def _release_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    @staticmethod
    def _failure(error: Exception) -> StoreError:
        if isinstance(error, UnicodeDecodeError):
            return store_failed("the file is damaged")
        reason = error.strerror if isinstance(error, OSError) else file_or_line(str(error))
        where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
        return store_failed(f"{reason}{where}")


def _private(path: Path) -> int:
    """Open or create a file that only its owner may read, whatever the umask."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor
