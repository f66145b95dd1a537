"""Nothing waits for the disk: what a killed process wrote stays, and no test cuts the power.

What a process of its own writes does wait, and tests/faults lets its waiting fail.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch


class Unsynced(sqlite3.Connection):
    """A connection that never syncs, whatever it is told."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        with suppress(sqlite3.Error):  # a damaged file says so when it is read
            super().execute("PRAGMA synchronous = OFF")

    def execute(self, sql: str, /, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA synchronous ="):
            sql = "PRAGMA synchronous = OFF"
        return super().execute(sql, *values)


def let_server_not_sync(url: str) -> None:
    """The same of a PostgreSQL server."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")


@contextmanager
def unsynced() -> Iterator[None]:
    """Connections that are made meanwhile, in any thread of this process, and files do not sync."""
    with (
        patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=Unsynced)),
        patch.object(os, "fsync", lambda _: None),
    ):
        yield
