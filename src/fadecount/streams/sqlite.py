"""The embedded database: one SQLite file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from fadecount.errors import LockedError, StoreError
from fadecount.streams.database import INDEXES, PUBLIC_TABLES, TABLES, Database, store_failed

_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA busy_timeout = 10000",
)

_PAGE_BYTES = 16384
"""Large pages: a vector of 10^5 counts takes a third of the time."""

_OPENING_SECONDS = 10.0

SCRUB_SECONDS = 60.0
"""The least time between two emptyings of the write-ahead log, but for opening and closing."""

_FAILURES = (sqlite3.Error, sqlite3.Warning, OSError, UnicodeDecodeError)
"""Damaged files raise decoding errors too."""


class SQLiteConnection(Database):
    """One connection to an SQLite file, for any number of processes.

    Guarantees: a finished transaction is on disk (write-ahead log, ``synchronous = FULL``).
    """

    identity = "INTEGER PRIMARY KEY AUTOINCREMENT"
    bytes_type = "BLOB"

    def __init__(
        self,
        path: str | Path,
        *,
        pragmas: Sequence[str] | None = None,
        failed: Callable[[str], StoreError] = store_failed,
    ) -> None:
        super().__init__(_FAILURES, failed)
        self._path, self._durable = str(path), True
        self._places = frozenset({str(Path(path).absolute()), str(Path(path).resolve())})
        self._connection: sqlite3.Connection = self._run(_connect, self._path)
        try:
            for pragma in _PRAGMAS if pragmas is None else pragmas:
                self._run(self._patiently, pragma)
        except BaseException:
            self._connection.close()
            raise

    def _patiently(self, sql: str) -> None:
        """Run a statement that SQLite refuses at once, without waiting for its timeout, while
        another connection makes the same file a write-ahead log."""
        until = time.monotonic() + _OPENING_SECONDS
        while True:
            try:
                self._connection.execute(sql).fetchall()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    @property
    def places(self) -> frozenset[str]:
        return self._places

    def _execute_script(self, statements: Sequence[str]) -> None:
        self._connection.executescript(";".join(("BEGIN IMMEDIATE", *statements, "COMMIT")))

    def _begin(self, *, durable: bool) -> None:
        if durable is not self._durable:  # a durable commit syncs all of the log
            self.change(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self.change("BEGIN IMMEDIATE")

    def _reason(self, error: Exception) -> str:
        if isinstance(error, UnicodeDecodeError):
            return "the file is damaged"
        if isinstance(error, OSError):
            return f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return "no space left on the disk"
        return (str(error).strip() or "unknown reason").splitlines()[0]


class SQLiteDatabase(SQLiteConnection):
    """A store in a file that only its owner may read (mode 0600, also of the files SQLite puts
    beside it), for one writing process and any number of readers.

    Guarantees: at most one process writes, held by a lock on ``<path>.lock`` that ends with the
    process; damage that SQLite can see is refused when a writer opens. A copy that was taken of the
    file alone while a process wrote is older than the store: the fence refuses it.
    """

    def __init__(self, path: str | Path, *, writes: bool, beside: bool = False) -> None:
        """With ``beside``, for short changes beside the process that holds the lock: of tokens."""
        self._writes = writes and not beside
        self._scrubbed = time.monotonic()
        self._lock_file: int | None = None
        with ExitStack() as undone:
            undone.callback(self._release_lock)
            if self._writes:
                try:
                    self._prepare(Path(path))
                except OSError as error:
                    raise store_failed(self._reason(error)) from error
            elif not Path(path).is_file():
                raise StoreError(
                    f"store must exist to be read, got {str(path)!r}; run or serve creates it"
                )
            super().__init__(
                path, pragmas=None if writes else (*_PRAGMAS[-1:], "PRAGMA query_only = ON")
            )
            undone.callback(self._connection.close)
            self._set_up()
            undone.pop_all()

    def _prepare(self, path: Path) -> None:
        """Become the only writer of a file, which is made if there is none."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_file = private_file(path.with_name(path.name + ".lock"))
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(
                f"store {str(path)!r} is in use by another writer; stop it first, or ask a service"
                " over HTTP"
            ) from None
        if path.exists():
            os.close(private_file(path))
        else:
            _create_store(path)

    def _set_up(self) -> None:
        if not self.query("SELECT 1 FROM sqlite_master WHERE name = 'streams'"):
            raise StoreError(
                f"store must hold streams, got none in {self._path!r}; take the files of a stopped"
                " store, or a fadecount backup (run and serve create a store where there is no"
                " file)"
            )
        if self._writes:
            if self.query("PRAGMA integrity_check(1)") != [("ok",)]:
                raise store_failed("the file is damaged (integrity_check)")
            self.query("PRAGMA wal_checkpoint(TRUNCATE)")

    def scrub(self) -> None:
        """Empty the write-ahead log, which holds pages as they were before: counts of blocks that
        have ended, and noise of published figures. While somebody reads it stays until later."""
        if time.monotonic() - self._scrubbed >= SCRUB_SECONDS:
            with self._guard:
                self.query("PRAGMA busy_timeout = 0")  # nobody waits for a reader
                ((busy, *_),) = self.query("PRAGMA wal_checkpoint(TRUNCATE)")
                self.query(_PRAGMAS[-1])
            if not busy:
                self._scrubbed = time.monotonic()

    def restrict(self) -> None:
        """Let this connection read what is for readers only: SQLite refuses to prepare any other
        statement. Nothing under embargo, no count and no secret can be selected by mistake."""

        def decide(action: int, table: str | None, *_: object) -> int:
            private = table not in PUBLIC_TABLES
            return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_READ and private else 0

        self._connection.set_authorizer(decide)

    def close(self) -> None:
        with self._guard:
            if self._lock_file is not None:
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            super().close()
            self._release_lock()

    def _release_lock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None


class MemoryDatabase(SQLiteConnection):
    """A store that is in no file and ends with its process."""

    def __init__(self) -> None:
        super().__init__(":memory:", pragmas=(f"PRAGMA page_size = {_PAGE_BYTES}",))
        self.create(TABLES, INDEXES)

    def _begin(self, *, durable: bool) -> None:  # noqa: ARG002 - nothing is durable
        self.change("BEGIN")

    def __del__(self) -> None:
        self.close()


def _connect(path: str | Path) -> sqlite3.Connection:
    """A connection that writes nothing outside of its file and of those beside it: what SQLite
    needs for a while (sorted rows, rows as they were before a statement) stays in memory."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _create_store(path: Path) -> None:
    """A new file appears whole, with its tables: a file without them has lost them."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(private_file(new))
    new_tables(new).close()
    new.replace(path)
    sync_folder(path.parent)


def new_tables(path: Path) -> SQLiteConnection:
    """A connection to an empty file, in which it has made the tables of a store. Until it closes,
    nothing is written beside the file, and nothing can be undone."""
    pragmas = f"PRAGMA page_size = {_PAGE_BYTES}", "PRAGMA journal_mode = OFF"
    connection = SQLiteConnection(path, pragmas=pragmas)
    try:
        connection.create(TABLES, INDEXES)
    except BaseException:
        connection.close()
        raise
    return connection


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_file(path: Path) -> int:
    """Open or create a file that only its owner may read, whatever the umask."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def owned_file(path: Path, flags: int = 0) -> int:
    """Open or create a file that belongs to the owner of its folder, also if root begins it: the
    service must be able to go on with it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor
