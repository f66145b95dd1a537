"""How the contract tests open a store, whatever its database."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from fadecount.streams import FileFence, PostgresStore, Reader, Seal, SQLiteStore, Store
from tests.streams.scripted import NamedNoise


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
        with self.reader() as reader:
            return reader._database.query(sql)


class PostgresBackend:
    def __init__(self, folder: Path, url: str, schema: str) -> None:
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        self.folder, self.url = folder, f"{url}&options=-csearch_path%3D{schema}"
        self.fence = FileFence(folder / "fence")

    def open(self, *, noise: NamedNoise | None = None, seal: Seal | None = None) -> Store:
        store = PostgresStore(self.url, fence=self.fence, seal=seal, lock_wait_seconds=2.0)
        store._context.noise = noise
        return store

    def reader(self) -> Reader:
        return Reader.of_server(self.url)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.reader() as reader:
            return reader._database.query(sql)
