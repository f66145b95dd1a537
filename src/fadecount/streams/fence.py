"""Rollback protection: a high-water mark of what has been published, kept apart from the store (the
fence).

Every commit of a stream has a new random id, and the stream remembers the id before it. The order
is: commit, move the fence from the old id to the new one (durably), publish. So when a store is
opened, the fence holds one of these:

* the id of the store's last commit: the store is up to date;
* the id before that: the process ended between commit and fence. Nothing of the last commit was
  published, and moving the fence now completes it;
* any other id, or none: figures were published that are not in this store. It is an old backup, or
  a copy of it ran elsewhere, or it has lost its fence. It never goes on: noise would be drawn again
  for what is published.

A copy that runs beside the original is stopped the same way: both know the fence's id, but only one
of them can move it.

A store that is lost leaves its marks. They say where it was: a new store at one of these places may
not publish under the names that the lost one has used (:func:`claim`).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fadecount.errors import DatabaseError, FenceError, StoreError, bad_parameter
from fadecount.streams.database import Checkpoints, Context, Database, placeholders
from fadecount.streams.sqlite import SQLiteConnection, owned_file, sync_folder
from fadecount.streams.status import Status, lock_streams, read_status

if TYPE_CHECKING:
    from fadecount.streams.postgres import PostgresDatabase

GIVEN_UP = "given up"
"""The commit id in the mark of a stream that published nothing, and whose name another stream has
now. It never goes on."""

FILE_NAME = "fence.db"
_TABLES = {
    "fadecount_fence": """
        uid TEXT PRIMARY KEY, name TEXT NOT NULL, mark TEXT NOT NULL, digest {bytes} NOT NULL"""
}
_INDEXES = {"fadecount_fence_by_name": "fadecount_fence (name)"}
_VERSION = 1
_NEW_NAMES = "begin new streams under new names, from now on"
"""What is left if no copy agrees with the fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the fence stores for a stream: the id of its last published commit, its steps, its
    name, and every place that its store has been at."""

    commit_id: str
    steps: int
    name: str
    places: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """The mark as it is stored."""
        fields = {"commit_id": self.commit_id, "steps": self.steps, "name": self.name}
        return json.dumps({"version": _VERSION, **fields, "places": sorted(self.places)})

    @classmethod
    def from_row(cls, uid: str, text: str, digest: bytes) -> Mark:
        """The mark of a stream, or a :class:`FenceError` if it was damaged."""
        if bytes(digest) != _digest(uid, text):
            raise FenceError(f"fence is damaged; restore it, or {_NEW_NAMES}")
        fields: dict[str, Any] = json.loads(text)
        if fields.pop("version") != _VERSION:
            raise FenceError("fence was made by another version of fadecount; use that version")
        return cls(**fields | {"places": frozenset(fields["places"])})


def _digest(uid: str, text: str) -> bytes:
    return hashlib.blake2b(f"{uid} {text}".encode(), digest_size=16, person=b"fence").digest()


class Move(NamedTuple):
    """The mark of a stream is to be replaced, if its commit id is ``expected`` (None: if there is
    none)."""

    uid: str
    expected: str | None
    mark: Mark


class Fence(ABC):
    """One mark per stream, durably, apart from the store: one table of a small database, which any
    number of stores and processes may share.

    Guarantees: of several processes that move a mark from one id, one does. What was moved is
    durable. After a failure the next use connects again and reads what was really committed.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        """Where the marks are, for messages. It contains no password."""
        self.checkpoint = Checkpoints()
        self._guard = threading.RLock()
        self._database: Database | None = None
        self._connected_to = self._identity()

    @abstractmethod
    def _connect(self) -> Database:
        """Make a new connection, and the table if there is none."""

    def _identity(self) -> tuple[int, ...] | None:
        """What distinguishes the fence that is there now from one that was there before; None if
        there is none."""
        return ()

    @contextmanager
    def _connected(self, *, create: bool) -> Iterator[Database | None]:
        """Yield a connection to the fence that is there now. Reading does not make one."""
        with self._guard:
            there = self._identity()
            if self._database is not None and (
                self._database.broken or there != self._connected_to
            ):
                self.close()
            if self._database is None and (create or there is not None):
                self._database = self._connect()
            yield self._database

    def _failed(self, reason: str) -> StoreError:
        detail = f"cannot be used: {reason}; choose another fence"
        return DatabaseError(f"fence at {self.where} {detail}")

    def read(self, uid: str) -> Mark | None:
        """Return the mark of a stream, or None."""
        return self._select("uid = ?", [uid]).get(uid)

    def marks(self, store: str, places: frozenset[str], name: str | None = None) -> dict[str, Mark]:
        """Return the marks of all streams (or those of a name) of the store with that uid, or of
        any store that has been at one of these places, by their own uids."""
        marks = self._select("1 = 1", []) if name is None else self._select("name = ?", [name])
        return {
            uid: mark
            for uid, mark in marks.items()
            if uid.startswith(f"{store}-") or mark.places & places
        }

    def _select(self, condition: str, values: Sequence[str]) -> dict[str, Mark]:
        with self._connected(create=False) as database:
            return {} if database is None else _selected(database, condition, values)

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        """Replace the mark whose commit id is ``expected`` (None: there is none), or raise a
        :class:`FenceError`."""
        for error in self.move_together([Move(uid, expected, mark)]).values():
            raise error

    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]:
        """Replace the marks of several streams in one transaction, durably when it returns; return
        the refusals, by uid. A mark keeps every place of the one before it."""
        refused: dict[str, FenceError] = {}
        with self._connected(create=True) as database:
            assert database is not None
            with database.transaction():
                uids = [each.uid for each in moves]
                known = _selected(
                    database,
                    f"uid IN ({placeholders(uids)}) ORDER BY uid{database.for_update}",
                    uids,
                )
                rows = []
                for each in moves:
                    before = known.get(each.uid)
                    if (before.commit_id if before else None) != each.expected:
                        refused[each.uid] = _moved_elsewhere()
                        continue
                    places = each.mark.places | (before.places if before else frozenset())
                    text = replace(each.mark, places=places).to_json()
                    row = (text, _digest(each.uid, text), each.uid)
                    if before is not None:
                        rows.append(row)
                    elif not database.change(_INSERT, (*row, each.mark.name)):
                        refused[each.uid] = _moved_elsewhere()  # by another process meanwhile
                database.change_many(_UPDATE, rows)
                self.checkpoint("fence written")
            self.checkpoint("fence synced")
        return refused

    @abstractmethod
    def _is_inside(self, store: Database) -> bool:
        """Whether a backup of the store would take the fence along."""

    def require_outside(self, store: Database) -> None:
        """Refuse a fence that is inside its store."""
        if self._is_inside(store):
            remedy = "a backup must not take both along"
            bound = "outside the store's own folder or database"
            raise bad_parameter("fence", self.where, bound, remedy)

    def close(self) -> None:
        """Close the connection. The next use opens another one."""
        with self._guard:
            if self._database is not None:
                self._database.close()
            self._database = None


_INSERT = (
    "INSERT INTO fadecount_fence (mark, digest, uid, name) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (uid) DO NOTHING"
)
_UPDATE = "UPDATE fadecount_fence SET mark = ?, digest = ? WHERE uid = ?"


def _selected(database: Database, condition: str, values: Sequence[str]) -> dict[str, Mark]:
    sql = f"SELECT uid, mark, digest FROM fadecount_fence WHERE {condition}"  # noqa: S608 - constants
    return {
        uid: Mark.from_row(uid, text, digest) for uid, text, digest in database.query(sql, values)
    }


def _moved_elsewhere() -> FenceError:
    return FenceError(
        "another copy of this store has published releases; only the one that did may go on"
    )


class FileFence(Fence):
    """A fence in the SQLite file ``fence.db`` of a folder, by default the user's state folder."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()
        """Where the marks are."""
        self._path = self.folder / FILE_NAME
        super().__init__(repr(str(self.folder)))

    def _connect(self) -> Database:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(owned_file(self._path))
            self._connected_to = self._identity()
            sync_folder(self.folder)
        except OSError as error:
            raise self._failed(error.strerror or type(error).__name__) from error
        database = SQLiteConnection(self._path, failed=self._failed)
        database.create(_TABLES, _INDEXES)
        return database

    def _identity(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _is_inside(self, store: Database) -> bool:
        folders = [Path(place).parent for place in store.places]
        is_file = isinstance(store, SQLiteConnection)
        return is_file and any(map(self.folder.resolve().is_relative_to, folders))


class ServerFence(Fence):
    """A fence in a PostgreSQL database that is not restored together with the store's own."""

    def __init__(self, url: str) -> None:
        super().__init__("a PostgreSQL server")
        self._url = url
        self.where = f"PostgreSQL database {self.database.name!r}"

    @property
    def database(self) -> PostgresDatabase:
        """The connection."""
        with self._connected(create=True) as database:
            return cast("PostgresDatabase", database)

    def _connect(self) -> Database:
        from fadecount.streams.postgres import PostgresDatabase

        return PostgresDatabase(
            self._url, writes=True, tables=_TABLES, indexes=_INDEXES, failed=self._failed
        )

    def _is_inside(self, store: Database) -> bool:
        return (
            isinstance(store, type(self.database)) and store.identifier == self.database.identifier
        )


class NullFence(Fence):
    """The fence of a store that nobody can copy or restore, since it ends with its process."""

    def __init__(self) -> None:
        super().__init__("nowhere")
        self._marks: dict[str, Mark] = {}

    def _connect(self) -> Database:
        raise AssertionError("nothing is written")

    def _is_inside(self, store: Database) -> bool:  # noqa: ARG002
        return False

    def read(self, uid: str) -> Mark | None:
        return self._marks.get(uid)

    def marks(self, *_: object) -> dict[str, Mark]:
        return {}

    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]:
        self._marks.update((each.uid, each.mark) for each in moves)
        return {}


def default_folder() -> Path:
    """``$XDG_STATE_HOME/fadecount``, by default ``~/.local/state/fadecount``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fadecount"


def fence_from(where: str | Path | None) -> Fence:
    """The fence at an address: ``postgresql://...``, a folder, or (None) the user's state
    folder."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        return ServerFence(where)
    return FileFence(where)


def claim(context: Context, store: str, name: str) -> None:
    """Let a new stream of a store have a name, unless the fence knows a stream that was published
    under it, by this store or by another one at its place, and that this store does not have: it is
    lost, and its ticks would get noise a second time.

    A stream that has published nothing gives the name up. If it still exists somewhere, it cannot
    go on there.
    """
    database, fence = context.database, context.fence
    known = {uid for (uid,) in database.query("SELECT uid FROM streams WHERE name = ?", (name,))}
    for uid, mark in fence.marks(store, database.places, name).items():
        if uid not in known and mark.steps:
            raise _lost(name, mark, fence)
        if uid not in known:
            fence.move(uid, mark.commit_id, replace(mark, commit_id=GIVEN_UP))


def _lost(name: str, mark: Mark, fence: Fence) -> FenceError:
    return FenceError(
        f"stream name {name!r} was used at this place by a stream that this store does not have and"
        f" that has published {mark.steps:,} ticks (fence at {fence.where}); restore that store, or"
        " mount its disk; if you choose another name, the same events are published once more, and"
        " both losses add up"
    )


def publish(
    context: Context, committed: Sequence[tuple[Status, str | None]]
) -> list[Status | FenceError]:
    """Move the fence from the expected commit id of each stream to the committed one, then make
    what was committed visible.

    A stream whose mark was refused stays as it is; the others are published.
    """
    database, checkpoint, places = context.database, context.checkpoint, context.database.places
    refused = context.fence.move_together(
        [Move(status.uid, expected, mark_of(status, places)) for status, expected in committed]
    )
    checkpoint("fenced")
    moved = [status.id for status, _ in committed if status.uid not in refused]
    if moved:
        # not durable: after a power cut, what the fence shows is published again
        with database.transaction(durable=False):
            lock_streams(database, moved)  # in the order in which accepting locks them: no deadlock
            sql = "UPDATE streams SET published_tick = last_tick WHERE id IN"
            database.change(f"{sql} ({placeholders(moved)})", moved)
    checkpoint("published")
    return [
        refused.get(status.uid) or replace(status, published_tick=status.last_tick)
        for status, _ in committed
    ]


def recover(context: Context, name: str) -> Status:
    """Return the stream's status, once it agrees with the fence."""
    database, fence = context.database, context.fence
    status = read_status(database, name)
    mark = read_current(fence, status)
    at_home = database.places <= mark.places
    if not at_home:  # the store has moved here: a lost one may have published under the name
        for uid, other in fence.marks("", database.places, name).items():
            if uid != status.uid and other.steps:
                raise _lost(name, other, fence)
    is_published = status.published_tick == status.last_tick
    if at_home and is_published and mark.commit_id == status.commit_id:
        return status
    (outcome,) = publish(context, [(status, mark.commit_id)])
    if isinstance(outcome, FenceError):
        raise outcome
    return outcome


def read_current(fence: Fence, status: Status) -> Mark:
    """Return the mark of a stream that may go on: it shows the stream's last commit or, if nothing
    of that was published, the one before. Any other stream is refused with a
    :class:`FenceError`."""
    name, mark = status.description.name, fence.read(status.uid)
    if mark is None:
        raise FenceError(
            f"stream {name!r} has no mark in the fence at {fence.where}; likely another user or"
            " HOME, another fence, or a store that was moved without its fence: use the fence it"
            f" had; if that is lost, {_NEW_NAMES}"
        )
    if mark.commit_id == GIVEN_UP:
        raise FenceError(
            f"stream {name!r} has published nothing, and a stream of another store has its name now"
            f" (fence at {fence.where}); delete this one, and choose another name"
        )
    if mark.commit_id not in (status.commit_id, status.previous_commit_id):
        raise FenceError(
            f"stream {name!r} is at step {status.steps}, but was published up to step {mark.steps}"
            f" from another copy (fence at {fence.where}); use the latest store; if that is lost,"
            f" {_NEW_NAMES}"
        )
    return mark


def mark_of(status: Status, places: frozenset[str]) -> Mark:
    """The mark of a stream whose store is at these places."""
    return Mark(
        commit_id=status.commit_id,
        steps=status.steps,
        name=status.description.name,
        places=places,
    )
