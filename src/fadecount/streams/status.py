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
from fadecount.streams.loss import GroupLoss, Member


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
    widths: tuple[int, ...]
    """How many keys each series has."""
    commit_id: str
    previous_commit_id: str | None
    midnights: Midnights | None = None
    retain_seconds: int | None = None
    removed: tuple[tuple[int, ...], ...] = ()
    """For each series and level, the first tick whose figures were not removed; empty if none
    were."""
    group: GroupLoss | None = field(default=None, compare=False)
    """What all streams of the stream's group together lose; None if it is in no group."""

    @property
    def parts(self) -> tuple[Status, ...]:
        """The status of each series: with a description that is about it alone."""
        if self.description.publication is None or self.description.number is not None:
            return (self,)
        return tuple(
            replace(self, description=each, first_tick=each.begins or self.first_tick)
            for each in self.description.parts
        )

    @property
    def width(self) -> int:
        """How many keys there are, in the series that it is about, or in all."""
        number = self.description.number
        return sum(self.widths) if number is None else self.widths[number]

    @property
    def kept(self) -> tuple[int, ...]:
        """For each level of the series, the first tick whose figures were not removed; empty if
        none were."""
        return self.removed[self.description.number or 0] if self.removed else ()

    @property
    def steps(self) -> int:
        """How many ticks are closed; of a series, in which it counted."""
        if self.description.number is None:
            return self.last_tick - self.first_tick + 1
        end, until = self.last_tick + 1, self.description.ends
        return max(0, (end if until is None else min(end, until)) - self.first_tick)

    @property
    def shown_from(self) -> int:
        """The first tick as of which nothing was removed that was public then."""
        first = self.first_tick
        return first + earliest_step(self.description.mechanism, first, self.kept)

    @property
    def calendar(self) -> Calendar | None:
        """The blocks of the levels of its series; None for running totals."""
        return self.description.calendar(self.first_tick, self.midnights)

    def reaching(self) -> Status:
        """The same, with the midnights of all blocks that are open after its last tick."""
        end = self.last_tick + 1
        begun = (part for part in self.parts if part.first_tick <= end)
        calendars = ((part.calendar, end - part.first_tick) for part in begun)
        midnights = [each.reaching(at).midnights for each, at in calendars if each is not None]
        return replace(self, midnights=max(midnights, key=lambda each: each.through, default=None))

    @property
    def published_steps(self) -> int:
        """How many steps readers can see."""
        return max(0, self.published_tick - self.first_tick + 1)

    def ahead(self, moment: float) -> int:
        """How many ticks the figures are ahead of the clock at a moment (Unix seconds): so much
        older are the units that they hold."""
        return max(0, self.published_tick + 1 - self.description.ticks.at(moment))

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
    columns = "name, description FROM"
    # one statement: a stream that is deleted meanwhile is in one of both
    rows = database.query(
        f"SELECT 0 AS place, {columns} deleted WHERE group_name = ? UNION ALL"
        f" SELECT 1, {columns} streams WHERE group_name = ? ORDER BY place, name",
        (wanted.name, wanted.name),
    )
    for _, name, text in rows:
        other = Description.from_json(name, text)
        if not members and other.group is not None:
            group, unit = other.group, other.protects
        members.append(Member(name=name, loss=other.loss, tick_seconds=other.ticks.tick_seconds))
    return GroupLoss(group=group, unit=unit, members=tuple(members))


_NAMES_SHOWN = 20
_COLUMNS = (
    "id, name, uid, description, first_tick, last_tick, published_tick, widths, "
    "commit_id, previous_commit_id, midnights, retain_seconds, kept"
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
    first, last, published, widths, commit_id, previous, midnights, retain, kept = rest
    return Status(
        id=number,
        uid=uid,
        description=Description.from_json(name, text),
        first_tick=operator.index(first),
        last_tick=operator.index(last),
        published_tick=operator.index(published),
        widths=tuple(map(operator.index, json.loads(widths))),
        commit_id=commit_id,
        previous_commit_id=previous,
        midnights=None if midnights is None else Midnights.from_json(midnights),
        retain_seconds=_integer(retain),
        removed=tuple(tuple(map(operator.index, each)) for each in json.loads(kept)),
    )


def lock_streams(database: Database, streams: Sequence[int]) -> None:
    """Keep other transactions from changing the rows of these streams, or from accepting events for
    them, until this one ends."""
    if database.for_update:
        sql = f"SELECT 1 FROM streams WHERE id IN ({placeholders(streams)}) ORDER BY id"  # noqa: S608
        database.query(sql + database.for_update, streams)


def write_statuses(database: Database, changes: Iterable[tuple[Status, Status]]) -> int:
    """Write where streams stand in time, from before to after; returns how many of them were still
    at the commit before.

    The lock of a stream excludes other processes; this check excludes a second object in this one.
    """
    rows = [
        (
            after.last_tick,
            after.published_tick,
            json.dumps(after.widths),
            after.commit_id,
            after.previous_commit_id,
            after.midnights and after.midnights.to_json(),
            before.id,
            before.commit_id,
        )
        for before, after in changes
    ]
    return database.change_many(
        "UPDATE streams SET last_tick = ?, published_tick = ?, widths = ?, commit_id = ?,"
        " previous_commit_id = ?, midnights = ? WHERE id = ? AND commit_id = ?",
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


def read_keys(database: Database, stream: int, series: int = 0) -> tuple[Keys, KeySteps]:
    """The declared keys of a series, in the order of their declaration, which is the order of every
    array; and when they were declared."""
    sql = (
        "SELECT position, step, names FROM key_blocks WHERE stream = ? AND series = ?"
        " ORDER BY position"
    )
    rows = database.query(sql, (stream, series))
    try:
        keys = tuple(name for *_, names in rows for name in json.loads(names))
    except ValueError as error:
        raise StoreError(
            "keys of a stream are damaged; take an intact copy of the store"
        ) from error
    return keys, [(int(position), int(step)) for position, step, _ in rows]


def write_keys(
    database: Database, stream: int, series: int, first: int, names: Sequence[str], step: int = 0
) -> None:
    """Write names of a series from a position on, as one block, declared after so many steps.

    A block is one row: with a row and an index entry for each name, 10^5 names in no order would
    take seconds.
    """
    database.change(
        "INSERT INTO key_blocks (stream, series, position, names, step) VALUES (?, ?, ?, ?, ?)",
        (stream, series, first, json.dumps(names), step),
    )
