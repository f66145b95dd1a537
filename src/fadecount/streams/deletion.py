"""Deleting a stream: it is gone at once and as a whole; its many rows are removed afterwards, in
short transactions.

A stream may have gigabytes of releases. Nobody can reach rows whose stream is gone, and numbers of
streams are never used again.
"""

from __future__ import annotations

import time

from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import Database
from fadecount.streams.status import Status, lock_streams

_ROWS = {
    "releases": ("first_tick", 16),
    "seen": ("batch", 1000),
    "persons": ("person", 1000),
    "key_blocks": ("position", 16),
}
"""The tables with many rows for a stream: the column that tells them apart, and how many are
removed at once."""

_STREAMS_OF = """WITH RECURSIVE found (stream) AS (
    SELECT MIN(stream) FROM {table}
    UNION ALL SELECT (SELECT MIN(stream) FROM {table} WHERE stream > found.stream) FROM found WHERE found.stream IS NOT NULL)
    SELECT stream FROM found WHERE stream IS NOT NULL AND stream NOT IN (SELECT id FROM streams)"""
"""One look into the index for each stream, not one for each row."""


def delete_stream(database: Database, status: Status, audit_log: AuditLog) -> None:
    """Delete a stream with its state and inputs. If it had releases, its name stays reserved:
    observers keep what they saw."""
    name = status.description.name
    with database.transaction():
        lock_streams(
            database, [status.id]
        )  # first: what another process is accepting now is then deleted too
        for table in ("state", "inputs", "positions"):
            database.change(f"DELETE FROM {table} WHERE stream = ?", (status.id,))  # noqa: S608 - constants
        database.change("DELETE FROM streams WHERE id = ?", (status.id,))
        if status.steps:
            database.change(
                "INSERT INTO deleted (name, last_tick, uid, description, steps, deleted_at) VALUES"
                " (?, ?, ?, ?, ?, ?)",
                (
                    name,
                    status.last_tick,
                    status.uid,
                    status.description.to_json(),
                    status.steps,
                    int(time.time()),
                ),
            )
        audit_log.record(Act.STREAM_DELETED, name)


def deleted_streams(database: Database) -> list[int]:
    """The numbers of deleted streams of which rows are left."""
    found = {
        number for table in _ROWS for (number,) in database.query(_STREAMS_OF.format(table=table))
    }
    return sorted(found)


def remove_some_rows(database: Database, stream: int) -> bool:
    """Remove some rows of a deleted stream, in one short transaction; whether there may be more."""
    for table, (column, most) in _ROWS.items():
        words = f"SELECT {column} FROM {table} WHERE stream = ? LIMIT ?"  # noqa: S608 - constants
        if database.change(
            f"DELETE FROM {table} WHERE stream = ? AND {column} IN ({words})",  # noqa: S608 - constants
            (stream, stream, most),
        ):
            return True
    return False
