"""Rollback protection: a high-water mark of what has been published, kept apart from the store (the
fence).

Every commit of a stream has a new random id, and the stream remembers the id before it. The order
is: commit, move the fence from the old id to the new one (durably), publish. So when a store is
opened, the fence holds one of these:

* the id of the store's last commit: the store is up to date;
* the id before that: the process ended between commit and fence. Nothing of the last commit was
  published, and moving the fence now completes it;
* any other id: releases were published that are not in this store. It is an old backup, or a copy
  of it ran elsewhere.

A copy that runs beside the original is stopped the same way: both know the fence's id, but only one
of them can move it.

A store that is lost leaves its marks. They say where it was: a new store at one of these places may
not publish under the names that the lost one has used (:func:`claim`).
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fadecount.errors import FenceError, StoreError
from fadecount.noise import unpredictable
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.forks import Fork
from fadecount.streams.mark_file import MarkFile, damaged
from fadecount.streams.status import Status, lock_streams, read_status

if TYPE_CHECKING:
    from fadecount.streams.postgres import PostgresDatabase

GIVEN_UP = "given up"
"""The commit id in the mark of a stream that published nothing, and whose name another stream has
now. It never goes on."""

_TABLES = ("CREATE TABLE IF NOT EXISTS fadecount_fence (uid TEXT PRIMARY KEY, mark TEXT NOT NULL)",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the fence stores for a stream: the id of its last published commit, its steps, its
    forks, its name, and every place that its store has been at.

    A mark of an older version has no name and no places until the stream is opened again.
    """

    commit_id: str
    steps: int
    forks: tuple[Fork, ...] = ()
    name: str | None = None
    places: frozenset[str] = frozenset()

    @property
    def fields(self) -> dict[str, Any]:
        """The mark as JSON has it."""
        forks = [fork.last_step for fork in self.forks]
        places = sorted(self.places)
        return {
            "commit_id": self.commit_id,
            "steps": self.steps,
            "forks": forks,
            "name": self.name,
            "places": places,
        }

    def to_json(self) -> str:
        return json.dumps(self.fields)

    @classmethod
    def from_json(cls, text: str) -> Mark:
        try:
            return cls.from_fields(json.loads(text))
        except ValueError as error:
            raise damaged() from error

    @classmethod
    def from_fields(cls, found: Any) -> Mark:
        try:
            forks = tuple(
                Fork(last_step=None if each is None else int(each)) for each in found["forks"]
            )
            name = found.get("name")
            named = None if name is None else str(name)
            places = frozenset(map(str, found.get("places", ())))
            return cls(
                commit_id=str(found["commit_id"]),
                steps=int(found["steps"]),
                forks=forks,
                name=named,
                places=places,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise damaged() from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The mark of a stream is to be replaced, if its commit id is ``expected`` (None: if there is
    none)."""

    uid: str
    expected: str | None
    mark: Mark


class Fence(Protocol):
    """Keeps one mark per stream, durably, apart from the store."""

    @property
    def where(self) -> str:
        """Where the marks are, for messages. It contains no password."""

    def read(self, uid: str) -> Mark | None:
        """The mark of a stream, or None."""

    def marks(self, store: str, places: frozenset[str], name: str | None = None) -> dict[str, Mark]:
        """The marks of all streams (or those of a name) of the store with that uid, or of any store
        that has been at one of these places, by their own uids."""

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        """Replace the mark whose commit id is ``expected`` (None: there is none), or raise a
        :class:`FenceError`."""

    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]:
        """Replace the marks of several streams, durably when it returns; the refusals, by uid."""


class _Moving(ABC):
    """Moving one mark is moving several."""

    def move(self, uid: str, expected: str | None, mark: Mark) -> None:
        """Replace the mark of a stream, durably."""
        for error in self.move_together([Move(uid=uid, expected=expected, mark=mark)]).values():
            raise error

    @abstractmethod
    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]: ...


def default_folder() -> Path:
    """``$XDG_STATE_HOME/fadecount``, by default ``~/.local/state/fadecount``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "fadecount"


class FileFence(_Moving):
    """A folder with one small file for each store, which holds the marks of its streams
    (:class:`MarkFile`).

    Earlier versions had a file for each stream. Such a mark counts until its stream moves it, and
    its file is then removed.
    """

    def __init__(
        self, folder: str | Path | None = None, *, checkpoints: Checkpoints | None = None
    ) -> None:
        self._folder = Path(folder) if folder is not None else default_folder()
        self._checkpoint = checkpoints or Checkpoints()
        self._files: dict[str, MarkFile] = {}
        self._guard = threading.Lock()

    @property
    def folder(self) -> Path:
        """Where the marks are."""
        return self._folder

    @property
    def where(self) -> str:
        """The folder, for messages."""
        return str(self._folder)

    def _file(self, store: str) -> MarkFile:
        return self._files.setdefault(
            store, MarkFile(self._folder / f"{store}.marks", self._checkpoint)
        )

    def read(self, uid: str) -> Mark | None:
        """The mark of a stream, or None."""
        with self._guard, self._usable():
            found = self._file(_store_of(uid)).read().get(uid)
            return self._single(uid) if found is None else Mark.from_fields(found)

    def _single(self, uid: str) -> Mark | None:
        """The mark of a stream in a file of its own."""
        try:
            return Mark.from_json(self._single_file(uid).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def _single_file(self, uid: str) -> Path:
        return self._folder / f"{uid}.mark"

    def marks(self, store: str, places: frozenset[str], name: str | None = None) -> dict[str, Mark]:
        """The marks of a store, or of any store at one of these places; see :class:`Fence`."""
        with self._guard, self._usable():
            single = {
                path.stem: self._single(path.stem)
                for path in sorted(self._folder.glob(f"{store}-*.mark"))
            }
            found = {
                uid: mark
                for uid, mark in single.items()
                if mark is not None and name in (None, mark.name)
            }
            for path in sorted(
                self._folder.glob("*.marks")
            ):  # files of others are not kept open: there may be many
                file = self._file(store) if path.stem == store else MarkFile(path, self._checkpoint)
                for uid, fields in file.read().items():
                    here = path.stem == store or not places.isdisjoint(fields.get("places", ()))
                    if here and name in (None, fields.get("name")):
                        found[uid] = Mark.from_fields(fields)
            return found

    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]:
        """Replace the marks of several streams, durably when it returns; the refusals, by uid."""
        refused: dict[str, FenceError] = {}
        with self._guard, self._usable():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for store in sorted({_store_of(each.uid) for each in moves}):
                refused |= self._move(
                    self._file(store), [each for each in moves if _store_of(each.uid) == store]
                )
        return refused

    def _move(self, file: MarkFile, moves: Sequence[Move]) -> dict[str, FenceError]:
        refused: dict[str, FenceError] = {}
        with file.changing() as marks:
            single = [each.uid for each in moves if each.uid not in marks]
            accepted: dict[str, Any] = {}
            for each in moves:
                known = marks.get(each.uid)
                try:
                    found = self._single(each.uid) if known is None else Mark.from_fields(known)
                    accepted[each.uid] = _moved(found, each).fields
                except FenceError as error:
                    refused[each.uid] = error
            if accepted:
                file.append(accepted)
            for uid in single:
                if uid in accepted:
                    self._single_file(uid).unlink(missing_ok=True)
                    self._single_file(uid).with_suffix(".lock").unlink(missing_ok=True)
        return refused

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not readable"
            raise StoreError(
                f"fence folder {str(self._folder)!r} cannot be used: {reason}; choose another with"
                " --fence"
            ) from error


def _store_of(uid: str) -> str:
    """The uid of the store that a stream belongs to."""
    return uid.rpartition("-")[0] or uid


class ServerFence(_Moving):
    """One row per stream in a PostgreSQL database that is not restored together with the store's
    own."""

    def __init__(self, url: str) -> None:
        from fadecount.streams.postgres import PostgresDatabase

        self.database = PostgresDatabase(url, writes=True, tables=_TABLES)

    @property
    def where(self) -> str:
        """The database, for messages."""
        return f"PostgreSQL database {self.database.name!r}"

    def read(self, uid: str) -> Mark | None:
        """The mark of a stream, or None."""
        rows = self.database.query("SELECT mark FROM fadecount_fence WHERE uid = ?", (uid,))
        return Mark.from_json(rows[0][0]) if rows else None

    def marks(self, store: str, places: frozenset[str], name: str | None = None) -> dict[str, Mark]:
        """The marks of a store, or of any store at one of these places; see :class:`Fence`."""
        words = (
            "SELECT uid, mark FROM fadecount_fence WHERE ?::text IS NULL OR mark::json->>'name' = ?"
            " ORDER BY uid"
        )
        found = {
            uid: Mark.from_json(text) for uid, text in self.database.query(words, (name, name))
        }
        return {
            uid: mark
            for uid, mark in found.items()
            if _store_of(uid) == store or mark.places & places
        }

    def move_together(self, moves: Sequence[Move]) -> dict[str, FenceError]:
        """Replace the marks of several streams in one transaction; the refusals, by uid."""
        refused: dict[str, FenceError] = {}
        # in one order: no deadlock
        words = "SELECT uid, mark FROM fadecount_fence WHERE uid = ANY(?) ORDER BY uid FOR UPDATE"
        with self.database.transaction():
            known = dict(self.database.query(words, ([each.uid for each in moves],)))
            moved: list[tuple[str, str]] = []
            for each in moves:
                try:
                    moved.append((self._checked(each, known.get(each.uid)).to_json(), each.uid))
                except FenceError as error:
                    refused[each.uid] = error
            self.database.change_many("UPDATE fadecount_fence SET mark = ? WHERE uid = ?", moved)
        return refused

    def _checked(self, move: Move, known: str | None) -> Mark:
        """The mark to write, or raise if the one that is there is not the expected one; makes the
        first one of a stream."""
        mark = _moved(None if known is None else Mark.from_json(known), move)
        words = "INSERT INTO fadecount_fence (uid, mark) VALUES (?, ?) ON CONFLICT (uid) DO NOTHING"
        if known is None and not self.database.change(words, (move.uid, mark.to_json())):
            mark = _moved(self.read(move.uid), move)  # another process made it meanwhile
        return mark

    def close(self) -> None:
        """Close the connection."""
        self.database.close()


def fence_from(where: str | Path | None) -> Fence:
    """The fence at an address: ``postgresql://...``, a folder, or (None) the user's state
    folder."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        return ServerFence(where)
    return FileFence(where)


def _moved(found: Mark | None, move: Move) -> Mark:
    """The mark to write, which keeps every place of the one before. A fence that another history
    has moved is not moved."""
    if (found.commit_id if found else None) != move.expected:
        raise FenceError(
            "another copy of this store has published releases; only the one that did may go on"
        )
    return (
        move.mark if found is None else replace(move.mark, places=found.places | move.mark.places)
    )


def claim(database: Database, fence: Fence, store: str, name: str) -> None:
    """Let a new stream of a store have a name, unless the fence knows a stream that was published
    under it, by this store or by another one at its place, and that this store does not have: it is
    lost, and its ticks would get noise a second time.

    A stream that has published nothing gives the name up. If it still exists somewhere, it cannot
    go on there.
    """
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
    database: Database,
    fence: Fence | None,
    committed: Sequence[tuple[Status, str | None]],
    checkpoint: Checkpoints,
) -> list[Status | FenceError]:
    """Move the fence from the expected commit id of each stream to the committed one, then make
    what was committed visible.

    A stream whose mark was refused stays as it is; the others are published.
    """
    if fence is None:
        return [status for status, _ in committed]
    places = database.places
    moves = [
        Move(uid=status.uid, expected=expected, mark=mark_of(status, places))
        for status, expected in committed
    ]
    refused = fence.move_together(moves)
    checkpoint("fenced")
    checkpoint("before publish")
    moved = [status.id for status, _ in committed if status.uid not in refused]
    if moved:
        marks = ", ".join("?" * len(moved))
        with database.transaction(
            durable=False
        ):  # after a power cut, what the fence shows is published again
            lock_streams(database, moved)  # in the order in which accepting locks them: no deadlock
            database.change(
                f"UPDATE streams SET published_tick = last_tick WHERE id IN ({marks})",  # noqa: S608 - marks
                moved,
            )
    checkpoint("published")
    return [
        refused.get(status.uid) or replace(status, published_tick=status.last_tick)
        for status, _ in committed
    ]


def recover(
    database: Database,
    fence: Fence | None,
    name: str,
    checkpoint: Checkpoints,
    audit_log: AuditLog,
    *,
    other_histories: int | None = None,
) -> Status:
    """The stream's status, once it agrees with the fence. A store that is behind the fence is
    refused, or marked with its forks.

    ``other_histories`` is the total number of other published histories of the stream, as the
    operator states it, once. If more are stated than store and fence can know of (both may have
    been restored together), they are recorded too.
    """
    status = read_status(database, name)
    if fence is None:
        return status
    mark = fence.read(status.uid)
    found = None if mark is None else mark.commit_id
    if found == GIVEN_UP:
        raise FenceError(
            f"stream {name!r} has published nothing, and a stream of another store has its name now"
            f" (fence at {fence.where}); delete this one, and choose another name"
        )
    if mark is not None and not _agree(status, mark):
        raise FenceError(
            f"forks of stream {name!r} differ between store and fence; take an intact copy of the"
            " store"
        )
    if not in_order(status, mark):
        status = _forked(
            database, status, mark, _forks(status, mark, fence, other_histories), audit_log
        )
    elif other_histories is not None and other_histories > len(status.forks):
        more = (Fork(last_step=None),) * (other_histories - len(status.forks))
        status = _forked(database, status, mark, (*status.forks, *more), audit_log)
    at_home = mark is not None and database.places <= mark.places
    if (
        not at_home
    ):  # the store has moved here: a lost one at this place may have published under the name
        for uid, other in fence.marks("", database.places, name).items():
            if uid != status.uid and other.steps:
                raise _lost(name, other, fence)
    if at_home and found == status.commit_id and status.published_tick == status.last_tick:
        return status
    (outcome,) = publish(database, fence, [(status, found)], checkpoint)
    if isinstance(outcome, FenceError):
        raise outcome
    return outcome


def in_order(status: Status, mark: Mark | None) -> bool:
    """Whether a stream may go on: the fence shows its last commit, or the one before (nothing of
    the last was published)."""
    return mark is not None and mark.commit_id in (status.commit_id, status.previous_commit_id)


def _agree(status: Status, mark: Mark) -> bool:
    """Whether store and fence record the same forks. If one of them is ahead, it may record later
    forks too."""
    shared = min(len(status.forks), len(mark.forks))
    same = status.forks[:shared] == mark.forks[:shared]
    return same and (mark.commit_id != status.commit_id or status.forks == mark.forks)


def _forks(status: Status, mark: Mark | None, fence: Fence, stated: int | None) -> tuple[Fork, ...]:
    """The other histories: those recorded in store and fence, the one just found, and any more that
    the operator states."""
    found = (
        (*mark.forks[len(status.forks) :], Fork(last_step=mark.steps))
        if mark
        else (Fork(last_step=None),)
    )
    if (
        status.first_tick is None
    ):  # the other history may have begun with another tick: its steps are not this one's
        found = (Fork(last_step=None),) * len(found)
    known = (*status.forks, *found)
    if stated is None:
        raise _refusal(status, mark, fence, len(known))
    if stated < len(known):
        raise FenceError(
            f"other histories of stream {status.description.name!r} must be at least {len(known)},"
            f" got {stated}; count one for each time that an older store, or a store without its"
            " fence, was allowed to go on, this time included"
        )
    return (*known, *[Fork(last_step=None)] * (stated - len(known)))


def _forked(
    database: Database,
    status: Status,
    mark: Mark | None,
    forks: tuple[Fork, ...],
    audit_log: AuditLog,
) -> Status:
    """Store the forks before anything else: from here on every reported loss includes them. Refused
    where none can be stated."""
    forked = replace(status, forks=forks)
    forked.loss.at_age(0)  # or it raises
    commit_id, previous = unpredictable(16).hex(), mark.commit_id if mark else None
    with database.transaction():
        database.change(
            "UPDATE streams SET forks = ?, commit_id = ?, previous_commit_id = ? WHERE id = ?",
            (json.dumps([fork.last_step for fork in forks]), commit_id, previous, status.id),
        )
        audit_log.record(
            Act.HISTORIES_ACCEPTED, status.description.name, other_histories=len(forks)
        )
    return replace(forked, commit_id=commit_id, previous_commit_id=previous)


def mark_of(status: Status, places: frozenset[str]) -> Mark:
    """The mark of a stream whose store is at these places."""
    return Mark(
        commit_id=status.commit_id,
        steps=status.steps,
        forks=status.forks,
        name=status.description.name,
        places=places,
    )


def _refusal(status: Status, mark: Mark | None, fence: Fence, known: int) -> FenceError:
    name = status.description.name
    command = f"fadecount streams accept-history {name} --other-histories {known}"
    if mark is None:
        return FenceError(
            f"stream {name!r} has no mark in the fence at {fence.where}; likely another user or"
            " HOME, another --fence, or a store that was moved without its fence: use the fence it"
            " had. If it is lost, state how many other histories of the stream may have been"
            f" published, all in all, and every loss grows: {command} (or more)"
        )
    return FenceError(
        f"stream {name!r} is at step {status.steps}, but another history of it was published up to"
        f" step {mark.steps} (fence at {fence.where}); use the latest store, else every loss grows:"
        f" {command}"
    )


def shared_fate(store: str | Path | PostgresDatabase, fence: Fence) -> str | None:
    """One line if one backup is likely to hold both the store and its fence, so that restoring it
    goes unnoticed; else None."""
    if not isinstance(store, str | Path):
        if isinstance(fence, ServerFence) and fence.database.server == store.server:
            return (
                "store and fence are on one PostgreSQL server: if a backup of the whole server is"
                " restored, that goes unnoticed"
            )
        return None
    if isinstance(fence, FileFence) and _device(Path(store)) == _device(fence.folder):
        return (
            "store and fence are on one file system: if a backup of all of it is restored, that"
            " goes unnoticed; put the fence on another disk (--fence)"
        )
    return None


def _device(path: Path) -> int:
    """The file system of a path, or of the first folder above it that exists."""
    path = path.resolve()
    while not path.exists():
        path = path.parent
    return path.stat().st_dev
