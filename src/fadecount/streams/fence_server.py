"""The fence in a second database, for stores that several machines write to."""

from __future__ import annotations

from pathlib import Path

from fadecount.streams.fence import Fence, FileFence, Mark, check
from fadecount.streams.postgres import PostgresDatabase

_TABLES = ("CREATE TABLE IF NOT EXISTS fadecount_fence (uid TEXT PRIMARY KEY, mark TEXT NOT NULL)",)


class ServerFence:
    """One row per stream in a PostgreSQL database that is not restored together with the store's own."""

    def __init__(self, url: str) -> None:
        self._database = PostgresDatabase(url, writes=True, tables=_TABLES)

    def read(self, uid: str) -> Mark | None:
        rows = self._database.query("SELECT mark FROM fadecount_fence WHERE uid = ?", (uid,))
        return Mark.from_json(rows[0][0]) if rows else None

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        with self._database.transaction():
            rows = self._database.query("SELECT mark FROM fadecount_fence WHERE uid = ? FOR UPDATE", (uid,))
            check(Mark.from_json(rows[0][0]) if rows else None, expected)
            if rows:
                self._database.change("UPDATE fadecount_fence SET mark = ? WHERE uid = ?", (mark.to_json(), uid))
                return
            made = self._database.change(
                "INSERT INTO fadecount_fence (uid, mark) VALUES (?, ?) ON CONFLICT (uid) DO NOTHING", (uid, mark.to_json())
            )
            if not made:  # another process made the first mark in the meantime
                check(self.read(uid), expected)

    def close(self) -> None:
        self._database.close()


def fence_from(place: str | Path | None) -> Fence:
    """The fence at an address: ``postgresql://...``, a folder, or (None) the user's state folder."""
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        return ServerFence(place)
    return FileFence(place)
