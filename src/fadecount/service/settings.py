"""How a service runs: what the operator chooses, and where the streams and the tokens are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fadecount.errors import StoreError
from fadecount.service.clock import Clock
from fadecount.service.configuration import default_folder as default_folder
from fadecount.service.limits import Limits
from fadecount.service.tokens import FILE_NAME, TokenFile
from fadecount.streams import PostgresStore, SQLiteStore, Store, fence_from, seal_from
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.reader import Reader

STORE_NAME = "streams.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A folder (mode 0700) with the tokens and, unless a database is named, the embedded store."""

    folder: Path
    database: str | None = None
    fence: str | Path | None = None
    key_file: Path | None = None

    @property
    def store_path(self) -> Path:
        """The file of the embedded store."""
        return self.folder / STORE_NAME

    def prepare(self) -> None:
        """Create the folder if it does not exist."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"--state {self.folder} cannot be made: {error.strerror}; choose another folder"
            ) from error

    def tokens(self) -> TokenFile:
        """The tokens of the service."""
        return TokenFile(self.folder / FILE_NAME)


def open_store(storage: Storage) -> Store:
    """The store for writing; raises when another process writes to it."""
    seal, fence = seal_from(storage.key_file), fence_from(storage.fence)
    if storage.database is not None:
        return PostgresStore(
            storage.database,
            fence=fence,
            seal=seal,
            lock_wait_seconds=0.0,
            audit_log=AuditLog(storage.folder),
        )
    storage.prepare()
    return SQLiteStore(storage.store_path, fence=fence, seal=seal)


def open_reader(storage: Storage) -> Reader:
    """A connection that can only read."""
    return (
        Reader.of_server(storage.database)
        if storage.database is not None
        else Reader.of_file(storage.store_path)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator chooses."""

    storage: Storage
    hosts: frozenset[str] = frozenset()
    public: bool = False
    metrics_values: int = 0
    """How many released counts ``/metrics`` shows at most."""
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=Clock)
