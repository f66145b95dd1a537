"""Retention: old figures are removed after a time.

Only rows of figures go, in short transactions while a stream runs. What losses and intervals
depend on stays: the state, the description, when the stream began, how many steps it has, the
fence. What was published stays published: observers keep it, and every loss counts it. When
something is removed depends on the clock of the stream alone, never on events.

Figures of blocks stay at least until the last stage of the larger block is out that holds them;
those of the largest blocks stay for ever. So totals, and figures of the larger blocks, stay exact.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from fadecount.mechanisms import ANNOUNCED, Blocks
from fadecount.streams.audit_log import Act
from fadecount.streams.discovery import DISCOVERED
from fadecount.streams.figures import FigureRows, read_figures, write_figures
from fadecount.streams.status import Status

if TYPE_CHECKING:
    from fadecount.streams.stream import Context

ROWS_AT_ONCE = 1024
"""Rows of a level and stage that one transaction removes."""

_STEPS = 64
"""Figures are removed at most so many times per retention period, not at every tick."""

NEEDS_UPKEEP = (
    "SELECT name FROM streams WHERE retain_seconds IS NOT NULL AND published_tick >= upkeep_tick"
    " ORDER BY name"
)

NEVER = -(1 << 62)
"""The ``upkeep_tick`` of a stream that had no upkeep yet."""


def keep_up(context: Context, status: Status) -> bool:
    """Remove some old figures of a stream; whether there may be more to do."""
    cuts = first_ticks_to_keep(status)
    if cuts != kept_ticks(status):
        remove_some(context, status, cuts)
        return True
    if status.retain_seconds is not None:
        pause = max(1, status.retain_seconds // status.description.ticks.tick_seconds // _STEPS)
        context.database.change(
            "UPDATE streams SET upkeep_tick = published_tick + ? WHERE id = ?", (pause, status.id)
        )
    return False


def first_ticks_to_keep(status: Status) -> tuple[int, ...]:
    """For each level the first tick whose figures the retention of a stream keeps; the same as now
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
            if hidden is not None and _days_of_keys(status, level):
                lag = max(lag, hidden.discovery.stages[-1][0])
            out = last + 1 - first - lag
            wanted = calendar.frontier(level + 1, min(cut - first, max(0, out)))
            for void, end in status.voids:
                if void == level + 1 and end <= wanted and _stands_for(status, void, end):
                    wanted = calendar.frontier(level + 1, end - 1)
            wanted += first
        cuts.append(max(wanted, kept))
    return tuple(cuts)


def _stands_for(status: Status, void: int, end: int) -> bool:
    """Whether totals still use the children of a void block: until a larger block is out that holds
    it."""
    mechanism, calendar = status.description.mechanism, status.calendar
    assert isinstance(mechanism, Blocks)
    assert calendar is not None
    if void + 1 == len(mechanism.levels):
        return True
    above = int(calendar.end(void + 1, end))
    if above + mechanism.levels[void + 1].stages[-1].lag > status.published_steps:
        return True
    return (void + 1, above) in status.voids and _stands_for(status, void + 1, above)


def kept_ticks(status: Status) -> tuple[int, ...]:
    """For each level the first tick whose figures were not removed."""
    mechanism = status.description.mechanism
    levels = len(mechanism.levels) if isinstance(mechanism, Blocks) else 1
    return status.kept or (status.first_tick,) * levels


def remove_some(context: Context, status: Status, cuts: tuple[int, ...]) -> None:
    """Remove figures before the ticks ``cuts`` of their levels, at most ``ROWS_AT_ONCE`` rows."""
    database, kept = context.database, list(kept_ticks(status))
    level = next(number for number, cut in enumerate(cuts) if cut > kept[number])
    cut, mechanism = cuts[level], status.description.mechanism
    with database.transaction():
        for number, stage in _stored_with(mechanism, level):
            rows = database.query(
                "SELECT first_tick, end_tick FROM figures WHERE stream = ? AND level = ? AND"
                " stage = ? AND first_tick < ? ORDER BY first_tick LIMIT ?",
                (status.id, number, stage, cut, ROWS_AT_ONCE),
            )
            if len(rows) == ROWS_AT_ONCE:
                cut = min(cut, int(rows[-1][1]))
        for number, stage in _stored_with(mechanism, level):
            crossing = [
                each
                for each in read_figures(database, status.id, number, stage, cut - 1, cut)
                if each.first_tick < cut < each.end_tick
            ]
            database.change(
                "DELETE FROM figures WHERE stream = ? AND level = ? AND stage = ? AND first_tick"
                " < ?",
                (status.id, number, stage, cut),
            )
            # the part of the last row that stays
            write_figures(database, [(status.id, _from(each, cut, status)) for each in crossing])
        if _days_of_keys(status, level):
            sql = "DELETE FROM figures WHERE stream = ? AND level = ? AND first_tick < ?"
            database.change(sql, (status.id, DISCOVERED, cut))
        kept[level] = cut
        database.change("UPDATE streams SET kept = ? WHERE id = ?", (json.dumps(kept), status.id))
        if cut == cuts[level]:
            before = status.description.ticks.shown(cut)
            context.audit_log.record(
                Act.RELEASES_REMOVED, status.description.name, level=level, before=before
            )


def _days_of_keys(status: Status, level: int) -> bool:
    """Whether figures of keys that appeared by themselves are kept as long as those of a level:
    that of their own length."""
    hidden, levels = status.description.hidden, status.description.levels
    return hidden is not None and bool(levels) and levels[level] == hidden.discovery.per


def _stored_with(mechanism: object, level: int) -> list[tuple[int, int]]:
    """The (level, stage) of the figures that go together with those of a level."""
    if not isinstance(mechanism, Blocks):
        return [(0, 0)]
    stages = [(level, stage) for stage in range(len(mechanism.levels[level].stages))]
    if level + 1 < len(mechanism.levels) and mechanism.levels[level + 1].tied:
        stages.append((level + 1, ANNOUNCED))
    return stages


def _from(rows: FigureRows, tick: int, status: Status) -> FigureRows:
    """The part of some rows from a tick on, at which a block begins."""
    calendar, first = status.calendar, status.first_tick
    skip = tick - rows.first_tick
    if calendar is not None:
        skip = calendar.count(rows.level, rows.first_tick - first, tick - first)
    return replace(rows, first_tick=tick, values=rows.values[skip:])
