"""What the tests of block streams share: a small design on a real calendar, and what is stored."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.calendar import Calendar, level_calendar
from fadecount.streams import Description, Store, Stream, Ticks
from fadecount.streams.database import Database
from fadecount.streams.figures import Closed, FigureRows, read_figures
from tests.counters.block_reference import NamedNoise
from tests.counters.test_figures import Figures, Name, defined

ZONE = "Europe/Vienna"
HOURS = Ticks(tick_seconds=3600, zone=ZONE)
DESIGN = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(6, 0.5),
    fc.Level(24, 0.5, lag=3, later=((30, 1.0),)),
    fc.Level(720, 0.5, lag=30, later=((50, 1.0),)),
)
"""Hours, parts of a day, days and months with a later stage."""


def tick_at(text: str, ticks: Ticks = HOURS) -> int:
    return ticks.at(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ticks.zone)).timestamp())


FIRST = tick_at("2026-03-27T22:00")
"""Two hours before a day begins, and the second day after it has 23 hours."""


def describe(
    name: str = "doors", mechanism: fc.Mechanism = DESIGN, ticks: Ticks = HOURS
) -> Description:
    return Description(name=name, mechanism=mechanism, ticks=ticks)


def create(
    store: Store,
    keys: Iterable[str] = ("a", "b"),
    *,
    name: str = "doors",
    mechanism: fc.Mechanism = DESIGN,
    first: int = FIRST,
) -> Stream:
    return store.create(describe(name, mechanism), keys=keys, start_tick=first)


def calendar_for(steps: int, first: int = FIRST, mechanism: fc.Blocks = DESIGN) -> Calendar:
    return level_calendar(mechanism.lengths, HOURS, first).reaching(steps + 3000)


def expected(
    counts: NDArray[np.int64],
    noise: NamedNoise,
    *,
    declared: tuple[int, ...] = (),
    mechanism: fc.Blocks = DESIGN,
) -> Figures:
    """All figures by the definition, whether they are public or not."""
    calendar = calendar_for(len(counts), mechanism=mechanism)
    return defined(mechanism, calendar, counts, noise, declared=declared, beyond=1500)


def by_name(rows: Iterable[FigureRows], calendar: Calendar) -> dict[Name, list[int]]:
    """Figures by level, end and stage."""
    figures: dict[Name, list[int]] = {}
    first = calendar.first_tick
    for row in rows:
        ends = calendar.edges(row.level, row.first_tick - first, row.end_tick - first)
        for end, values in zip(ends.tolist(), row.values.tolist(), strict=True):
            assert (row.level, end, row.stage) not in figures
            figures[row.level, end, row.stage] = values
    return figures


def stored(
    database: Database, stream: int = 1, mechanism: fc.Blocks = DESIGN
) -> dict[Name, list[int]]:
    """Everything in ``figures`` of a stream that began at ``FIRST``."""
    places = database.query(
        "SELECT DISTINCT level, stage FROM figures WHERE stream = ? ORDER BY level, stage",
        (stream,),
    )
    rows = [
        row
        for level, stage in places
        for row in read_figures(database, stream, 0, level, stage, FIRST, FIRST + 100_000)
    ]
    return by_name(rows, calendar_for(3000, mechanism=mechanism))


def waiting(database: Database, stream: int = 1) -> set[Name]:
    """The names of the figures under embargo."""
    sql = "SELECT level, end_tick, stage FROM embargo WHERE stream = ?"
    return {(level, end - FIRST, stage) for level, end, stage in database.query(sql, (stream,))}


def public(figures: Figures, steps: int) -> dict[Name, list[int]]:
    """Those that are public after so many steps."""
    return {name: values for name, (_, due, values) in figures.items() if due <= steps}


def published(closed: Iterable[Closed]) -> dict[Name, list[int]]:
    calendar = calendar_for(3000)
    return by_name((row for each in closed for row in each.figures), calendar)


def public_names(steps: int) -> set[Name]:
    """The names of all figures that are public after so many steps."""
    return set(public(expected(np.zeros((steps, 1), dtype=np.int64), NamedNoise()), steps))
