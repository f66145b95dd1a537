"""Figures that are in no store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from fadecount.streams.figures import FigureRows


class FiguresInMemory:
    """Figures that are kept nowhere else, in the order in which they were made."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], list[FigureRows]] = {}

    def add(self, rows: FigureRows) -> None:
        """Keep rows; those of a level and stage come in order."""
        self._rows.setdefault((rows.level, rows.stage), []).append(rows)

    def rows(self, level: int, stage: int, first_tick: int, end_tick: int) -> Iterator[FigureRows]:
        """A :data:`FigureSource`."""
        rows = self._rows.get((level, stage), [])
        begin = bisect_right(rows, first_tick, key=lambda row: row.end_tick)
        for row in rows[begin:]:
            if row.first_tick >= end_tick:
                return
            yield row
