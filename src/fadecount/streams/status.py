"""Where a stream stands in time: its row in the store, and its declared keys. Nothing here depends
on true counts."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fadecount.calendar import Calendar, Midnights
from fadecount.errors import DatabaseError, StoreError
from fadecount.streams.database import Database, placeholders
from fadecount.streams.description import Description
from fadecount.streams.figures import earliest_step
from fadecount.streams.loss import Forks, GroupLoss, Member, StreamLoss


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A stream's row: where it is in time. Nothing here depends on true counts."""

    id: int
    uid: str
    description: Description
    first_tick: int
    last_tick: int
    """The last tick that is closed; the one before ``first_tick`` if none is."""
    published_tick: int
    width: int
    commit_id: str
    previous_commit_id: str | None
    forks: Forks
    digest: bytes
    midnights: Midnights | None = None
    retain_seconds: int | None = None
    kept: tuple[int, ...] = ()
    """For each level, the first tick whose figures were not removed; empty if none were."""
    group: GroupLoss | None = field(default=None, compare=False)
    """What all streams of the stream's group together lose; None if it is in no group."""

    @property
    def steps(self) -> int:
        """How many ticks are closed."""
        return self.last_tick - self.first_tick + 1

    @property
    def shown_from(self) -> int:
        """The first tick as of which nothing was removed that was public then."""
        first = self.first_tick
        return first + earliest_step(self.description.mechanism, first, self.kept)

    @property
    def calendar(self) -> Calendar | None:
        """The blocks of the stream's levels; None for running totals."""
        return self.description.calendar(self.first_tick, self.midnights)

    @property
    def published_steps(self) -> int:
        """How many steps readers can see."""
        return self.published_tick - self.first_tick + 1

    @property
    def loss(self) -> StreamLoss:
        """What has been lost by all that is published, in all histories."""
        return self.description.loss(self.forks, self.published_steps)

    def step_of(self, tick: int) -> int:
        """The step (from 1) that a tick is; below 1 for ticks before the stream."""
        return tick - self.first_tick + 1


def read_group(database: Database, description: Description) -> GroupLoss | None:
    """The streams of a description's group, deleted ones first, and what they lose together: with
    the promise of the first of them, or of the description if there is none."""
    wanted = description.group
    if wanted is None:
        return None
    members: list[Member] = []
    group, unit = wanted, description.protects
    columns = "name, description, forks, last_tick - first_tick + 1 FROM"
    # one statement: a stream that is deleted meanwhile is in one of both
    rows = database.query(
        f"SELECT 0 AS place, {columns} deleted WHERE group_name = ? UNION ALL"
        f" SELECT 1, {columns} streams WHERE group_name = ? ORDER BY place, name",
        (wanted.name, wanted.name),
    )
    for _, name, text, forks, steps in rows:
        other = Description.from_json(name, text)
        if not members and other.group is not None:
            group, unit = other.group, other.protects
        loss = other.loss(tuple(map(_integer, json.loads(forks))), steps)
        members.append(Member(name=name, loss=loss, tick_seconds=other.ticks.tick_seconds))
    return GroupLoss(group=group, unit=unit, members=tuple(members))


_NAMES_SHOWN = 20
_COLUMNS = (
    "id, name, uid, description, first_tick, last_tick, published_tick, width, "
    "commit_id, previous_commit_id, forks, digest, midnights, retain_seconds, kept"
)


def read_status(database: Database, name: str) -> Status:
    """The row of one stream, or a :class:`StoreError` that names the existing streams."""
    found = database.query(f"SELECT {_COLUMNS} FROM streams WHERE name = ?", (name,))  # noqa: S608
    if not found:
        rows = database.query("SELECT name FROM streams ORDER BY name LIMIT ?", (_NAMES_SHOWN + 1,))
        names = ", ".join(known for (known,) in rows[:_NAMES_SHOWN]) or "none"
        more = ", ..." if len(rows) > _NAMES_SHOWN else ""
        raise StoreError(f"stream must exist, got {name!r}; streams of this store: {names}{more}")
    return _read(database, found[0], {})


def read_statuses(database: Database, *, after: str, limit: int) -> list[Status]:
    """The rows of the streams after a name, in alphabetical order, without those that are
    damaged."""
    sql = f"SELECT {_COLUMNS} FROM streams WHERE name > ? ORDER BY name LIMIT ?"  # noqa: S608
    statuses: list[Status] = []
    groups: dict[str, GroupLoss | None] = {}
    while rows := database.query(sql, (after, limit - len(statuses))):
        after = rows[-1][1]
        for row in rows:
            try:
                statuses.append(_read(database, row, groups))
            except DatabaseError:
                raise
            except StoreError:
                continue
    return statuses


def _read(database: Database, row: tuple[Any, ...], groups: dict[str, GroupLoss | None]) -> Status:
    try:
        return _in_group(database, _status(*row), groups)
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"status of stream {row[1]!r} is damaged; take an intact copy of the store"
        ) from error


def _in_group(database: Database, status: Status, known: dict[str, GroupLoss | None]) -> Status:
    group = status.description.group
    if group is None:
        return status
    if group.name not in known:
        known[group.name] = read_group(database, status.description)
    return replace(status, group=known[group.name])


def _status(number: int, name: str, uid: str, text: str, *rest: Any) -> Status:
    first, last, published, width, commit_id, previous, forks, digest, *more = rest
    midnights, retain, kept = more
    return Status(
        id=number,
        uid=uid,
        description=Description.from_json(name, text),
        first_tick=operator.index(first),
        last_tick=operator.index(last),
        published_tick=operator.index(published),
        width=operator.index(width),
        commit_id=commit_id,
        previous_commit_id=previous,
        forks=tuple(map(_integer, json.loads(forks))),
        digest=bytes(digest),
        midnights=None if midnights is None else Midnights.from_json(midnights),
        retain_seconds=_integer(retain),
        kept=tuple(map(operator.index, json.loads(kept))),
    )


def lock_streams(database: Database, streams: Sequence[int]) -> None:
    """Keep other transactions from changing the rows of these streams, or from accepting events for
    them, until this one ends."""
    if database.for_update:
        sql = f"SELECT 1 FROM streams WHERE id IN ({placeholders(streams)}) ORDER BY id"  # noqa: S608
        database.query(sql + database.for_update, streams)


def write_statuses(database: Database, changes: Iterable[tuple[Status, Status]]) -> int:
    """Write where streams stand in time, from before to after; returns how many of them were still
    as before.

    The lock of a stream excludes other processes; this check excludes a second object in this one.
    """
    rows = [
        (
            after.last_tick,
            after.published_tick,
            after.commit_id,
            after.previous_commit_id,
            after.midnights and after.midnights.to_json(),
            after.digest,
            before.id,
            before.commit_id,
            before.digest,
        )
        for before, after in changes
    ]
    return database.change_many(
        "UPDATE streams SET last_tick = ?, published_tick = ?, commit_id = ?, previous_commit_id"
        " = ?, midnights = ?, digest = ? WHERE id = ? AND commit_id = ? AND digest = ?",
        rows,
    )


def _integer(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def stream_names(database: Database) -> list[str]:
    """The names of all streams, in alphabetical order."""
    return [name for (name,) in database.query("SELECT name FROM streams ORDER BY name")]


Keys = tuple[str, ...]
KeySteps = list[tuple[int, int]]
"""(position, step) of the first of the keys that were declared together, and after how many steps
that was."""


def read_keys(database: Database, stream: int) -> tuple[Keys, KeySteps]:
    """The declared keys, in the order of their declaration, which is the order of every array; and
    when they were declared."""
    sql = "SELECT position, step, names FROM key_blocks WHERE stream = ? ORDER BY position"
    rows = database.query(sql, (stream,))
    try:
        keys = tuple(name for *_, names in rows for name in json.loads(names))
    except ValueError as error:
        raise StoreError(
            "keys of a stream are damaged; take an intact copy of the store"
        ) from error
    return keys, [(int(position), int(step)) for position, step, _ in rows]


def write_keys(
    database: Database, stream: int, first: int, names: Sequence[str], step: int = 0
) -> None:
    """Write names from a position on, as one block, declared after so many steps.

    A block is one row: with a row and an index entry for each name, 10^5 names in no order would
    take seconds.
    """
    database.change(
        "INSERT INTO key_blocks (stream, position, names, step) VALUES (?, ?, ?, ?)",
        (stream, first, json.dumps(names), step),
    )
