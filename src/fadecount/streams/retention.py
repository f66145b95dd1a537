"""Retention and compaction: old releases are removed after a time, and those that stay are kept in
fewer rows.

Only rows of releases change, in short transactions while a stream runs. What losses and intervals
depend on stays: the state, the description, when the stream began, how many steps it has, the
fence. What was published stays published: observers keep it, and every loss counts it. When
something is removed depends on the clock of the releases alone, never on events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadecount.streams.audit_log import Act
from fadecount.streams.chunks import CELLS, Chunk, read_chunks, write_chunks
from fadecount.streams.database import Database
from fadecount.streams.status import Status

if TYPE_CHECKING:
    from fadecount.streams.stream import Context

ROWS_AT_ONCE = 256
"""Rows that one transaction removes or joins."""

MOST_TICKS = 4096
"""The most ticks of a joined row: it is read and checked as a whole."""

FRESH_TICKS = 512
"""The last ticks of a stream, which are not joined yet."""

_STEPS = 64
"""Releases are removed at most so many times per retention period, not at every tick."""

NEEDS_UPKEEP = (
    "SELECT name FROM streams WHERE retain_seconds IS NOT NULL "
    "OR published_tick - COALESCE(compacted_tick, kept_tick, first_tick) >= ? ORDER BY name"
)


def first_tick_to_keep(status: Status) -> int | None:
    """The first tick that the retention of a stream keeps; None if it keeps everything there is.
    The last tick always stays."""
    last, kept = status.published_tick, status.kept_from
    if status.retain_seconds is None or last is None or kept is None or last < kept:
        return None
    ticks = status.description.ticks
    limit = ticks.start_seconds(last + 1) - status.retain_seconds
    cut = ticks.at(limit)
    cut = min(last, cut + 1 if ticks.start_seconds(cut) < limit else cut)
    pace = max(1, status.retain_seconds // ticks.tick_seconds // _STEPS)
    return cut if cut - kept >= pace else None


def remove_some(context: Context, status: Status, cut: int) -> None:
    """Remove releases before the tick ``cut``, at most ``ROWS_AT_ONCE`` rows of them."""
    database = context.database
    rows = database.query(
        "SELECT first_tick, ticks FROM releases WHERE stream = ? AND first_tick < ? ORDER BY"
        " first_tick LIMIT ?",
        (status.id, cut, ROWS_AT_ONCE),
    )
    end = int(rows[-1][0] + rows[-1][1]) if rows else cut
    until = min(cut, end)
    with database.transaction():
        rest = list(read_chunks(database, status.id, until, end - 1))
        database.change(
            "DELETE FROM releases WHERE stream = ? AND first_tick < ?", (status.id, until)
        )
        # the part of the last row that stays
        write_chunks(database, [(status.id, chunk) for chunk in rest])
        database.change("UPDATE streams SET kept_tick = ? WHERE id = ?", (until, status.id))
        if until == cut:
            before = status.description.ticks.shown(cut)
            context.audit_log.record(Act.RELEASES_REMOVED, status.description.name, before=before)


def join_some(database: Database, status: Status, compacted: int | None) -> bool:
    """Join the next rows of consecutive ticks with the same keys into one; whether there may be
    more to join."""
    kept, last = status.kept_from, status.published_tick
    if kept is None or last is None:
        return False
    begin = kept if compacted is None else max(compacted, kept)
    end = last - FRESH_TICKS
    if end - begin < FRESH_TICKS:
        return False
    rows = database.query(
        "SELECT first_tick, ticks, width FROM releases WHERE stream = ? AND first_tick >= ? AND"
        " first_tick <= ? ORDER BY first_tick LIMIT ?",
        (status.id, begin, end, ROWS_AT_ONCE),
    )
    if not rows:
        return False
    first, ticks, width = rows[0]
    count, joined = ticks, 1
    for start, more, keys in rows[1:]:
        if (
            start != first + count
            or keys != width
            or count + more > MOST_TICKS
            or (count + more) * width > CELLS
        ):
            break
        count, joined = count + more, joined + 1
    with database.transaction():
        if joined > 1:
            values = [
                chunk.values for chunk in read_chunks(database, status.id, first, first + count - 1)
            ]
            database.change(
                "DELETE FROM releases WHERE stream = ? AND first_tick >= ? AND first_tick < ?",
                (status.id, first, first + count),
            )
            write_chunks(database, [(status.id, Chunk(first, np.concatenate(values)))])
        database.change(
            "UPDATE streams SET compacted_tick = ? WHERE id = ?", (first + count, status.id)
        )
    return True
