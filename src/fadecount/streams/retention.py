"""Retention: old figures are removed after a time.

Only rows of figures go, whole, in short transactions while a stream runs. What losses and intervals
depend on stays: the state, the description, when the stream began, how many steps it has, the
fence. What was published stays published: observers keep it, and every loss counts it. When
something is removed depends on the clock of the stream alone, never on events.

Figures of blocks stay at least until the last stage of the larger block is out that holds them;
those of the largest blocks stay for ever. So totals, and figures of the larger blocks, stay exact.
"""

from __future__ import annotations

import json

from fadecount.mechanisms import Blocks
from fadecount.streams.audit_log import Act
from fadecount.streams.database import Context
from fadecount.streams.discovery import DISCOVERED
from fadecount.streams.status import Status

ROWS_AT_ONCE = 1024
"""Rows of a level and stage that one transaction removes."""

_STEPS = 64
"""Figures are removed at most so many times per retention period, not at every tick."""

_REMOVE = """DELETE FROM figures WHERE stream = ? AND series = ? AND level = ? AND stage = ? AND
    first_tick IN (SELECT first_tick FROM figures WHERE stream = ? AND series = ? AND level = ? AND
    stage = ? AND first_tick < ? AND end_tick <= ? ORDER BY first_tick LIMIT ?)"""

NEEDS_UPKEEP = (
    "SELECT name FROM streams WHERE retain_seconds IS NOT NULL AND published_tick >= upkeep_tick"
    " ORDER BY name"
)

NO_UPKEEP_YET = -(1 << 62)
"""The ``upkeep_tick`` of a stream that had no upkeep yet."""


def keep_up(context: Context, status: Status) -> bool:
    """Remove some old figures of a stream; whether there may be more to do.

    Readers get none of them from the first time on. A row goes when all of its figures may.
    """
    database, description = context.database, status.description
    before = tuple(map(kept_ticks, status.parts))
    cuts = tuple(map(first_ticks_to_keep, status.parts))
    removed = 0
    with database.transaction():
        for number, part in enumerate(status.parts):
            for level, cut in enumerate(cuts[number]):
                if cut > before[number][level]:
                    shown, name = description.ticks.local(cut), part.description.label
                    context.record(Act.FIGURES_REMOVED, name, level=level, before=shown)
                for stored in _stored_with(part, level):
                    place = (status.id, number, *stored)
                    removed += database.change(_REMOVE, (*place, *place, cut, cut, ROWS_AT_ONCE))
        if cuts != before:
            sql = "UPDATE streams SET kept = ? WHERE id = ?"
            database.change(sql, (json.dumps(cuts), status.id))
        elif not removed and status.retain_seconds is not None:
            pause = max(1, status.retain_seconds // status.description.ticks.tick_seconds // _STEPS)
            sql = "UPDATE streams SET upkeep_tick = published_tick + ? WHERE id = ?"
            database.change(sql, (pause, status.id))
    return cuts != before or removed > 0


def first_ticks_to_keep(status: Status) -> tuple[int, ...]:
    """For each level the first tick whose figures the retention of a series keeps; the same as now
    if it keeps all that is there. The last figure always stays."""
    now, last = kept_ticks(status), status.published_tick
    first, ticks = status.first_tick, status.description.ticks
    if status.retain_seconds is None or last < first:
        return now
    limit = ticks.start_seconds(last + 1) - status.retain_seconds
    cut = min(last, max(first, ticks.first_from(limit)))
    mechanism, calendar = status.description.mechanism, status.calendar
    if not isinstance(mechanism, Blocks) or calendar is None:
        return (max(cut, now[0]),)
    cuts = []
    hidden = status.description.hidden
    for level, kept in enumerate(now):
        wanted = kept
        if level + 1 < len(mechanism.levels):
            lag = mechanism.levels[level + 1].stages[-1].lag
            if hidden is not None and level == status.description.level(hidden.discovery.per):
                lag = max(lag, hidden.discovery.stages[-1][0])
            out = last + 1 - first - lag
            is_out = calendar.out(level + 1, max(0, out))
            wanted = min(calendar.frontier(level + 1, cut - first), is_out)
            wanted += first
        cuts.append(max(wanted, kept))
    return tuple(cuts)


def kept_ticks(status: Status) -> tuple[int, ...]:
    """For each level the first tick whose figures were not removed."""
    mechanism = status.description.mechanism
    levels = len(mechanism.levels) if isinstance(mechanism, Blocks) else 1
    return status.kept or (status.first_tick,) * levels


def _stored_with(status: Status, level: int) -> list[tuple[int, int]]:
    """The (level, stage) of the figures that go together with those of a level. Keys that appeared
    by themselves go with the level of the same length."""
    mechanism, hidden = status.description.mechanism, status.description.hidden
    if not isinstance(mechanism, Blocks):
        return [(0, 0)]
    stages = [(level, stage) for stage in range(len(mechanism.levels[level].stages))]
    if hidden is not None and level == status.description.level(hidden.discovery.per):
        stages += [(DISCOVERED, stage) for stage in range(len(hidden.discovery.stages))]
    return stages
