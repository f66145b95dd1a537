"""Publish streams with real noise and real calendars, and count how often the bands of their views
hold the truth.

``python -m campaigns.figures --windows 100000`` prints one line per mechanism and view: the share
of values within the 95 % band, and within a band that is narrower by one. It fails if the first is
below 95 % or the second above it, by more than 0.5 % and what chance allows: the band is as wide as
the exact distribution asks for, and not wider.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tests.streams.memory import FiguresInMemory

import fadecount as fc
from fadecount.calendar import level_calendar
from fadecount.counters.figures import FigureMaker
from fadecount.streams import Description, Ticks
from fadecount.streams.figures import FigureRows
from fadecount.streams.published import Figures, Published

TICKS = Ticks(tick_seconds=1200, zone="Europe/Vienna")
FIRST = TICKS.at(1_774_000_000.0)
"""In March 2026: a day of 23 hours comes soon after."""
DAYS = 75
KEYS = 500

CASES: dict[str, fc.Mechanism] = {
    "blocks": fc.Blocks(
        fc.Level(1, 0.2), fc.Level(3, 0.3), fc.Level(72, 0.6, lag=4), fc.Level(2160, 0.5, lag=4)
    ),
    "blocks with stages": fc.Blocks(
        fc.Level(1, 0.24),
        fc.Level(3, 0.26, later=((4, 0.29),)),
        fc.Level(72, 0.6, lag=4),
        fc.Level(2160, 0.31, lag=4, later=((1000, 1.3), (2161, 2.3))),
    ),
    "gradual": fc.Gradual(epsilon=0.05),
    "gradual, delayed": fc.Gradual(epsilon=0.05, exponent=2.0, delay=3),
}


def publish(mechanism: fc.Mechanism, keys: int) -> Published:
    """A stream of nothing: all that is published is noise."""
    source, steps = FiguresInMemory(), DAYS * 72
    calendar = None
    description = Description(name="s", mechanism=mechanism, ticks=TICKS)
    nothing = np.zeros((steps, keys), dtype=np.int64)
    if isinstance(mechanism, fc.Blocks):
        calendar = level_calendar(mechanism.lengths, TICKS, FIRST).reaching(steps)
        for made in FigureMaker(mechanism, calendar, keys).close(nothing):
            first, end = FIRST + int(made.starts[0]), FIRST + int(made.ends[-1])
            rows = FigureRows(
                level=made.level,
                stage=made.stage,
                first_tick=first,
                end_tick=end,
                values=made.values,
            )
            source.add(rows)
    else:
        values: NDArray[np.int64] = np.asarray(
            fc.Counter(mechanism, shape=(keys,)).extend(nothing), dtype=np.int64
        )
        rows = FigureRows(level=0, stage=0, first_tick=FIRST, end_tick=FIRST + steps, values=values)
        source.add(rows)
    return Published(
        description=description,
        keys=tuple(map(str, range(keys))),
        first_tick=FIRST,
        steps=steps,
        source=source.rows,
        calendar=calendar,
    )


def views(stream: Published, chance: np.random.Generator) -> Iterator[tuple[str, Figures]]:
    """Some windows of each kind of view."""
    end = FIRST + stream.steps
    for per in ("20m", "1h", "1d", "1w", "1mo"):
        yield f"figures per {per}", some(stream.figures(per), chance)
    ticks = chance.integers(FIRST + 500, end, 12)
    yield "totals as known now", stream.totals(ticks)
    yield "totals as published then", stream.totals(ticks, as_published=True)
    for tick in ticks[:4].tolist():
        yield "so far today", stream.so_far("1d", as_of=tick)
        yield "last 24 hours", stream.window(tick - 72, tick, as_of=tick)


def some(figures: Figures, chance: np.random.Generator) -> Figures:
    places = chance.permutation(len(figures))[:12]
    return figures.chosen(places)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=100_000)
    chosen = parser.parse_args(words)
    wrong = 0
    for name, mechanism in CASES.items():
        held: dict[str, NDArray[np.int64]] = {}
        chance = np.random.default_rng(7)
        while min((int(total) for *_, total in held.values()), default=0) < chosen.windows:
            for view, figures in views(publish(mechanism, min(KEYS, chosen.windows)), chance):
                off, around = np.abs(figures.values), figures.half_widths
                counts = (off <= around).sum(), (off <= around - 1).sum(), off.size
                held[view] = held.get(view, 0) + np.array(counts)
        for view, (within, inside, total) in held.items():
            slack = 0.005 + 4 * math.sqrt(0.05 * 0.95 / total)
            bad = within / total < 0.95 - slack or inside / total > 0.95 + slack
            wrong += bad
            print(
                f"{name:26} {view:26} {100 * within / total:6.2f} % of {total:,} within the band,"
                f" {100 * inside / total:6.2f} % in a narrower one{'  WRONG' if bad else ''}",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
