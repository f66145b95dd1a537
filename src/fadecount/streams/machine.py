"""What a stream counts with, and what it publishes with each tick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.counters.figures import FigureMaker, Made
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.noise import NoiseSource
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.figures import FigureRows
from fadecount.streams.ticks import DAY, Ticks

Machine = Counter | FigureMaker


def new_machine(mechanism: Mechanism, width: int, source: NoiseSource | None = None) -> Machine:
    """What a new stream of so many keys counts with."""
    if isinstance(mechanism, Blocks):
        return FigureMaker(mechanism, mechanism.calendar, width, source)
    return Counter(mechanism, shape=(width,))


def count_ticks(
    machine: Machine,
    rows: NDArray[np.int64],
    first_tick: int,
    ticks: Ticks,
    calendar: BlockCalendar | None,
) -> tuple[list[FigureRows], list[tuple[int, FigureRows]]]:
    """Count a row for each tick from ``first_tick`` on. Returns the figures that become public with
    these ticks, and those that do later, one block each, with the tick before which they do."""
    end = first_tick + len(rows)
    if isinstance(machine, Counter):
        values = np.asarray(machine.extend(rows), dtype=np.int64)
        totals = FigureRows(level=0, stage=0, first_tick=first_tick, end_tick=end, values=values)
        return [totals], []
    assert calendar is not None
    machine.calendar = calendar
    begin, public, waiting = calendar.first_tick, [], []
    for made in machine.close(np.minimum(rows, largest_count(ticks))):
        due = int(np.searchsorted(made.public, end - begin, side="right"))
        if due:
            public.append(_rows_of(made, slice(0, due), begin))
        waiting += [
            (begin + int(made.public[at]), _rows_of(made, slice(at, at + 1), begin))
            for at in range(due, len(made.ends))
        ]
    return public, waiting


def _rows_of(made: Made, part: slice, first_tick: int) -> FigureRows:
    starts, ends = made.starts[part], made.ends[part]
    return FigureRows(
        level=made.level,
        stage=made.stage,
        first_tick=first_tick + int(starts[0]),
        end_tick=first_tick + int(ends[-1]),
        values=made.values[part],
    )


def largest_count(ticks: Ticks) -> int:
    """The most that a tick of a stream of blocks counts under one key: no sum over 200 years can
    pass 2**61."""
    return (1 << 61) // (200 * 366 * DAY // ticks.tick_seconds + 1)
