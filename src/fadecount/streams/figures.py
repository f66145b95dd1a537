"""Figures as stored: one row for adjacent blocks of a level, at one stage. Its body is blocks x
keys numbers, written once.

The running totals of the other mechanisms are figures too: of level 0 and stage 0, one for each
tick, about everything since the stream began. Values never change. Rows may be joined, or removed
(streams/retention.py). Figures that are not public yet are elsewhere (streams/embargo.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import StoreError
from fadecount.streams.database import Database
from fadecount.streams.discovery import DISCOVERED, KeyFigures, unpacked

CELLS = 1 << 17
"""The largest number of values in one row: 1 MiB. A run can be stopped between two rows."""

_ROWS = (
    "SELECT first_tick, end_tick, blocks, width, body, digest FROM figures WHERE stream = ? AND"
    " level = ? AND stage = ? AND first_tick >= COALESCE((SELECT MAX(first_tick) FROM figures"
    " WHERE stream = ? AND level = ? AND stage = ? AND first_tick <= ?), ?) AND first_tick < ?"
    " ORDER BY first_tick"
)
"""Begins with the row that holds the first tick, or the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRows:
    """The figures of the adjacent blocks of a level, at a stage, that lie in the ticks from
    ``first_tick`` to before ``end_tick``: values in the shape (blocks, keys of that time)."""

    level: int
    stage: int
    first_tick: int
    end_tick: int
    values: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Ticks of a stream that were closed, and what was published with them: figures of declared
    keys, and of keys that appeared by themselves."""

    first_tick: int
    last_tick: int
    figures: tuple[FigureRows, ...]
    appeared: tuple[KeyFigures, ...] = ()

    @property
    def everything(self) -> tuple[FigureRows | KeyFigures, ...]:
        """All of it."""
        return (*self.figures, *self.appeared)

    @property
    def values(self) -> NDArray[np.int64]:
        """The running totals after each tick, in the shape (ticks, keys)."""
        (totals,) = self.figures
        return totals.values


def write_figures(
    database: Database, figures: Iterable[tuple[int, FigureRows | KeyFigures]]
) -> None:
    """Write figures, each with the number of its stream, inside a transaction."""
    rows = []
    for stream, each in figures:
        if isinstance(each, KeyFigures):
            body, shape = each.body, (1, len(each.keys))
        else:
            body, shape = each.values.astype(_narrowest(each.values)).tobytes(), each.values.shape
        place = (stream, each.level, each.stage, each.first_tick, each.end_tick, *shape)
        rows.append((*place, body, _digest(body, *place)))
    database.change_many(
        "INSERT INTO figures (stream, level, stage, first_tick, end_tick, blocks, width, body,"
        " digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def read_figures(
    database: Database, stream: int, level: int, stage: int, first: int, end: int
) -> Iterator[FigureRows]:
    """The stored rows that hold ticks from ``first`` to before ``end``, whole, in order."""
    for begin, until, blocks, width, body in _read(database, stream, level, stage, first, end):
        kind = f"<i{len(body) // (blocks * width) if width else 8}"
        values = np.frombuffer(body, dtype=kind).astype(np.int64).reshape(blocks, width)
        yield FigureRows(level=level, stage=stage, first_tick=begin, end_tick=until, values=values)


def read_key_figures(
    database: Database, stream: int, stage: int, first: int, end: int
) -> Iterator[KeyFigures]:
    """The stored figures of hidden keys of the days that begin in the ticks from ``first`` to
    before ``end``, in order."""
    for begin, until, _, _, body in _read(database, stream, DISCOVERED, stage, first, end):
        if begin >= first:
            keys, values = unpacked(body)
            yield KeyFigures(
                stage=stage, first_tick=begin, end_tick=until, keys=keys, values=values
            )


def _read(
    database: Database, stream: int, level: int, stage: int, first: int, end: int
) -> Iterator[tuple[int, int, int, int, bytes]]:
    """The checked rows that hold ticks from ``first`` to before ``end``: ticks, shape, body."""
    place = (stream, level, stage)
    for row in database.query(_ROWS, (*place, *place, first, first, end)):
        begin, until, blocks, width, body, digest = row
        if not isinstance(body, bytes) or digest != _digest(
            body, *place, begin, until, blocks, width
        ):
            raise StoreError("a stored figure is damaged; take an intact copy of the store")
        if until > first:
            yield begin, until, blocks, width, body


def _narrowest(values: NDArray[np.int64]) -> str:
    """The narrowest type that holds all values. They are public, so their size may be too."""
    farthest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return next(f"<i{size}" for size in (1, 2, 4, 8) if farthest < 1 << (8 * size - 1))


def _digest(body: bytes, *place: object) -> bytes:
    """The digest of a stored body and of the other columns of its row."""
    text = "/".join(map(str, place)).encode()
    return hashlib.blake2b(text + body, digest_size=16, person=b"figure").digest()
