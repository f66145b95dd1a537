"""Block counters in scenes, and what readers see of them in a store."""

from __future__ import annotations

import fadecount as fc
from fadecount.streams import Reader
from fadecount.streams.figures import Closed
from tests.neighbours.harness import Published

_DAY = 86_400
BLOCKS = fc.Blocks(
    fc.Level(1, 1.0),
    fc.Level(2, 1.0, later=((1, 2.0),)),
    fc.Level(4, 1.0, lag=1),
    fc.Level(8, 1.0, lag=1, later=((3, 2.0),)),
)
"""Lags and later stages. Scenes are so short that blocks of eight ticks stay open."""
DAYS = fc.Blocks(fc.Level(1, 1.0), fc.Level(30, 1.0, later=((2, 2.0),)))


def blocks_for(tick_seconds: int) -> fc.Blocks:
    """Block counters whose lengths the calendar has."""
    return DAYS if tick_seconds == _DAY else BLOCKS


def shape_of(closed: Closed) -> tuple[object, ...]:
    """What closed ticks published, without the values."""
    rows = [(e.level, e.stage, e.first_tick, e.end_tick, e.values.shape) for e in closed.figures]
    return closed.first_tick, closed.last_tick, rows


def seen(
    reader: Reader, name: str, *, moments: tuple[object, ...], messages: tuple[object, ...]
) -> Published:
    """The totals after each tick with their bands, and every published figure."""
    keys, stream = reader.keys(name), reader.stream(name)
    values: dict[int, tuple[int, ...]] = {}
    widths: dict[int, tuple[tuple[int, int], ...]] = {}
    figures: dict[tuple[int, int, int, int], tuple[int, ...]] = {}
    if stream is not None:
        ticks = stream.description.ticks
        for piece in stream.running():
            rows = zip(
                *(each.tolist() for each in (piece.ends, piece.values, piece.half_widths)),
                *(each.tolist() for each in (piece.known, piece.published)),
                strict=True,
            )
            for end, row, around, known, _ in rows:
                tick = ticks.at(end) - 1
                values[tick] = tuple(v for v, k in zip(row, known, strict=True) if k)
                widths[tick] = tuple((w, w) for w, k in zip(around, known, strict=True) if k)
        mechanism, first = stream.description.mechanism, stream.first_tick
        if isinstance(mechanism, fc.Blocks):
            assert stream.calendar is not None
            for level, stages in enumerate(each.stages for each in mechanism.levels):
                for stage in range(len(stages)):
                    for block in stream.source(level, stage, first, first + 10**6):
                        begin = block.first_tick - first
                        edges = stream.calendar.edges(level, begin, block.end_tick - first)
                        for end, row in zip(list(edges), block.values.tolist(), strict=True):
                            figures[level, stage, begin, int(end)] = tuple(row)
                            begin = int(end)
    return Published(
        keys=keys,
        values=values,
        widths=widths,
        figures=figures,
        moments=moments,
        messages=messages,
    )
