"""How the contract tests open a store, whatever its database."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from fadecount.streams import FileFence, PostgresStore, Reader, SQLiteStore, Store
from fadecount.streams.audit_log import AuditLog
from fadecount.streams.seal import Seal
from tests.streams.scripted import NamedNoise

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it have random names


def entries_of(log: AuditLog | None) -> list[SimpleNamespace]:
    """The entries of an audit log, oldest first. Lines that a crash cut short are left out."""
    entries = []
    for line in log.path.read_text().splitlines() if log and log.path.exists() else ():
        with suppress(ValueError):
            entries.append(SimpleNamespace(**json.loads(line)))
    return entries


def totals_of(
    reader: Reader, name: str = "doors", since: int | None = None, until: int | None = None
) -> dict[int, list[int]]:
    """By tick the total that was published with it, of the keys that were declared then."""
    published = reader.stream(name)
    rows = [row for piece in published.running(since=since, until=until) for row in piece.values]
    end = published.first_tick + published.steps
    first = (end if until is None else min(until, end)) - len(rows)
    totals = {}
    for tick, row in enumerate(rows, start=first):
        later = (at for at, step in published.key_steps if published.first_tick + step > tick)
        totals[tick] = row[: min(later, default=len(row))].tolist()
    return totals


class Backend(Protocol):
    folder: Path
    fence: FileFence

    def open(self, *, noise: NamedNoise | None = None, seal: Seal | None = None) -> Store: ...

    def reader(self) -> Reader: ...

    def query(self, sql: str) -> list[tuple[Any, ...]]: ...


class SQLiteBackend:
    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "state" / "streams.db"
        self.fence = FileFence(folder / "fence")

    def open(self, *, noise: NamedNoise | None = None, seal: Seal | None = None) -> Store:
        store = SQLiteStore(self.path, fence=self.fence, seal=seal)
        store._context.noise = noise
        return store

    def reader(self) -> Reader:
        return Reader.of_file(self.path)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Of any table, which readers may not."""
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()


class BriefStore(SQLiteStore):
    """A store in a new folder that is removed when the store is closed; in memory, where the system
    has a file system for that."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
        folder = Path(self._folder.name)
        super().__init__(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class PostgresBackend:
    def __init__(self, folder: Path, url: str, schema: str) -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        self.folder, self.url = folder, f"{url}&options=-csearch_path%3D{schema}"
        self.fence = FileFence(folder / "fence")

    def open(self, *, noise: NamedNoise | None = None, seal: Seal | None = None) -> Store:
        log = AuditLog(self.folder)
        store = PostgresStore(
            self.url, fence=self.fence, seal=seal, lock_wait_seconds=2.0, audit_log=log
        )
        store._context.noise = noise
        return store

    def reader(self) -> Reader:
        return Reader.of_server(self.url)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.reader() as reader:
            return reader.database.query(sql)
