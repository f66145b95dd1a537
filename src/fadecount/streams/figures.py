"""Figures as stored: one row for adjacent blocks of a level, at one stage; written once.

The running totals of the other mechanisms are figures too: of level 0 and stage 0, one for each
tick, about everything since the stream began. Keys that appear by themselves are rows of the level
``DISCOVERED``, which name their keys. Values never change; old rows may be removed
(streams/retention.py). Figures that are not public yet are elsewhere (streams/embargo.py).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import StoreError
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.streams.database import Database
from fadecount.streams.discovery import DISCOVERED

CELLS = 1 << 17
"""The largest number of values in one row: 1 MiB. A run can be stopped between two rows."""

Numbers = NDArray[np.int64]
_HEAD = struct.Struct("<iiB")
"""How many blocks and keys a body has, and the bytes of each value."""
_SHAPE = slice(4, _HEAD.size)
"""Where a body says how many keys it has, and how wide its values are."""
_PLACE = struct.Struct("<6q")

_ROWS = (
    "SELECT first_tick, end_tick, body, digest FROM figures WHERE stream = ? AND series = ? AND"
    " level = ? AND stage = ? AND first_tick >= COALESCE((SELECT MAX(first_tick) FROM figures WHERE"
    " stream = ? AND series = ? AND level = ? AND stage = ? AND first_tick <= ?), ?) AND"
    " first_tick < ? ORDER BY first_tick"
)
"""Begins with the row that holds the first tick, or the one before it."""


@dataclass(frozen=True, slots=True, eq=False)
class FigureRows:
    """The figures of the adjacent blocks of a level of a series, at a stage, that lie in the ticks
    from ``first_tick`` to before ``end_tick``: values in the shape (blocks, keys of that time).
    Keys that appeared by themselves are in ``keys``, sorted."""

    level: int
    stage: int
    first_tick: int
    end_tick: int
    values: Numbers
    keys: Sequence[str] = ()
    series: int = 0


FigureSource = Callable[[int, int, int, int], Iterable[FigureRows]]
"""Where figures come from: gives the rows of a level and stage that hold ticks from the third
argument to before the fourth, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Ticks of a stream that were closed, and the figures that were published with them."""

    first_tick: int
    last_tick: int
    figures: tuple[FigureRows, ...]

    @property
    def values(self) -> Numbers:
        """The running totals after each tick, in the shape (ticks, keys)."""
        return next(rows.values for rows in self.figures if rows.level != DISCOVERED)


def earliest_step(mechanism: Mechanism, first_tick: int, kept: Sequence[int]) -> int:
    """The first step as of which nothing was removed that was public then, where figures of each
    level are kept from these ticks on."""
    earliest = 0
    for level, tick in enumerate(kept):
        if tick > first_tick:
            lag = 0
            if isinstance(mechanism, Blocks):  # the level above stands for what was removed
                lag = mechanism.levels[level + 1].stages[-1].lag
            earliest = max(earliest, tick - first_tick + lag)
    return earliest


def packed(values: Numbers, keys: Iterable[str] = (), *, kind: str = "<i8") -> bytes:
    """Values (blocks, keys) and the names of keys in one body."""
    head = _HEAD.pack(*values.shape, int(kind[-1]))
    return head + values.astype(kind).tobytes() + "\n".join(keys).encode()


def unpacked(*bodies: bytes) -> tuple[Numbers, list[str]]:
    """The values and keys of :func:`packed`, also if the body was padded with zeros; of several
    bodies for the same keys all blocks."""
    heads = [_HEAD.unpack_from(body) for body in bodies]
    (_, width, size), blocks = heads[0], sum(head[0] for head in heads)
    content = b"".join(body[_HEAD.size :] for body in bodies)
    values = np.frombuffer(content, dtype=f"<i{size}", count=blocks * width)
    names = content[values.nbytes :].rstrip(b"\0").decode()
    return values.astype(np.int64).reshape(blocks, width), names.split("\n") if names else []


def write_figures(database: Database, figures: Iterable[tuple[int, FigureRows]]) -> None:
    """Write figures, each with the number of its stream, inside a transaction."""
    rows = []
    for stream, each in figures:
        body = packed(each.values, each.keys, kind=_narrowest(each.values))
        place = (stream, each.series, each.level, each.stage, each.first_tick, each.end_tick)
        rows.append((*place, body, _digest(body, *place)))
    database.change_many(
        "INSERT INTO figures (stream, series, level, stage, first_tick, end_tick, body, digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def read_figures(
    database: Database, stream: int, series: int, level: int, stage: int, first: int, end: int
) -> Iterator[FigureRows]:
    """The stored figures of the rows that hold ticks from ``first`` to before ``end``, in order.
    Adjacent rows for the same keys are given together: a row written by a tick is one block."""
    place, waiting = (stream, series, level, stage), list[tuple[int, int, bytes]]()
    for begin, until, body, digest in database.query(_ROWS, (*place, *place, first, first, end)):
        if not isinstance(body, bytes) or digest != _digest(body, *place, begin, until):
            raise StoreError("a stored figure is damaged; take an intact copy of the store")
        if until <= first:
            continue
        if waiting and not (
            level != DISCOVERED
            and waiting[-1][1] == begin
            and waiting[0][2][_SHAPE] == body[_SHAPE]
            and len(waiting) * len(body) < CELLS
        ):
            yield _joined(level, stage, waiting)
            waiting = []
        waiting.append((begin, until, body))
    if waiting:
        yield _joined(level, stage, waiting)


def _joined(level: int, stage: int, rows: Sequence[tuple[int, int, bytes]]) -> FigureRows:
    values, keys = unpacked(*(body for _, _, body in rows))
    return FigureRows(level, stage, rows[0][0], rows[-1][1], values, keys)


def _narrowest(values: Numbers) -> str:
    """The narrowest type that holds all values. They are public, so their size may be too."""
    farthest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return next(f"<i{size}" for size in (1, 2, 4, 8) if farthest < 1 << (8 * size - 1))


def _digest(body: bytes, *place: int) -> bytes:
    """The digest of a stored body and of the other columns of its row."""
    return hashlib.blake2b(_PLACE.pack(*place) + body, digest_size=16, person=b"figure").digest()
