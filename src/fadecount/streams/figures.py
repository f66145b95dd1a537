"""Figures as stored: one row for adjacent blocks of a level, at one stage. Its body is blocks x
keys numbers, written once.

The running totals of the other mechanisms are figures too: of level 0 and stage 0, one for each
tick, about everything since the stream began. Values never change. Rows may be joined, or removed
(streams/retention.py).

A figure that is not public yet waits in the table ``embargo``, sealed, which no reader selects
from. The transaction that closes the tick of its public time moves it to ``figures``; it is visible
when that tick is published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import StoreError
from fadecount.streams.database import Database
from fadecount.streams.machine import FigureRows
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status

CELLS = 1 << 17
"""The largest number of values in one row: 1 MiB. A run can be stopped between two rows."""

ROWS_AT_ONCE = 64
_NEXT_ROWS = (
    "SELECT first_tick, end_tick, blocks, width, body, digest FROM figures WHERE stream = ? AND"
    " level = ? AND stage = ? AND first_tick >= COALESCE((SELECT MAX(first_tick) FROM figures"
    " WHERE stream = ? AND level = ? AND stage = ? AND first_tick <= ?), ?) AND first_tick < ?"
    " ORDER BY first_tick LIMIT ?"
)
"""Begins with the row that holds the tick wanted next: rows before it may have been joined since
the last query."""


def write_figures(database: Database, figures: Iterable[tuple[int, FigureRows]]) -> None:
    """Write figures, each with the number of its stream, inside a transaction."""
    rows = []
    for stream, each in figures:
        values = each.values
        body = values.astype(_narrowest(values)).tobytes()
        place = (stream, each.level, each.stage, each.first_tick, each.end_tick)
        rows.append((*place, *values.shape, body, _digest(*place, body)))
    database.change_many(
        "INSERT INTO figures (stream, level, stage, first_tick, end_tick, blocks, width, body,"
        " digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def read_figures(
    database: Database, stream: int, level: int, stage: int, first: int, end: int
) -> Iterator[FigureRows]:
    """The stored rows that hold ticks from ``first`` to before ``end``, whole, a few at a time."""
    wanted = first
    while wanted < end:
        place = (stream, level, stage)
        rows = database.query(_NEXT_ROWS, (*place, *place, wanted, wanted, end, ROWS_AT_ONCE))
        for begin, until, blocks, width, body, digest in rows:
            if _digest(*place, begin, until, body) != bytes(digest) or len(body) % (blocks * width):
                raise StoreError("a stored figure is damaged; take an intact copy of the store")
            kind = f"<i{len(body) // (blocks * width)}"
            values = np.frombuffer(body, dtype=kind).astype(np.int64).reshape(blocks, width)
            if until > wanted:
                yield FigureRows(
                    level=level, stage=stage, first_tick=begin, end_tick=until, values=values
                )
            wanted = max(wanted, until)
        if len(rows) < ROWS_AT_ONCE:
            return


def _narrowest(values: NDArray[np.int64]) -> str:
    """The narrowest type that holds all values. They are public, so their size may be too."""
    farthest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    return "<i2" if farthest < 1 << 15 else "<i4" if farthest < 1 << 31 else "<i8"


def _digest(
    stream: int, level: int, stage: int, first_tick: int, end_tick: int, body: bytes
) -> bytes:
    place = f"{stream}/{level}/{stage}/{first_tick}/{end_tick}"
    return hashlib.blake2b(body, digest_size=16, person=b"figure", key=place.encode()).digest()


# Embargo
# ------------------------------------------------------------------------------------------------
def hold_back(
    database: Database, seal: Seal, status: Status, waiting: Sequence[tuple[int, FigureRows]]
) -> None:
    """Store figures that are not public yet, each with the tick before which it must be closed, one
    block in a row. Sealed, and of a size that depends on the number of keys alone."""
    rows = []
    for public_tick, each in waiting:
        body = each.values.astype("<i8", copy=False).tobytes()
        about = _about(status.uid, each.level, each.stage, each.end_tick)
        place = (status.id, each.level, each.stage, each.first_tick, each.end_tick, public_tick)
        rows.append((*place, seal.close(body, about)))
    database.change_many(
        "INSERT INTO embargo (stream, level, stage, first_tick, end_tick, public_tick, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def next_public_tick(database: Database, stream: int) -> int | None:
    """The end of the tick with which the next figure under embargo becomes public."""
    ((tick,),) = database.query("SELECT MIN(public_tick) FROM embargo WHERE stream = ?", (stream,))
    return None if tick is None else int(tick)


def take_public(database: Database, seal: Seal, status: Status, end: int) -> list[FigureRows]:
    """Take the figures out of the embargo that become public with the ticks before ``end``."""
    rows = database.query(
        "DELETE FROM embargo WHERE stream = ? AND public_tick <= ? RETURNING level, stage,"
        " first_tick, end_tick, body",
        (status.id, end),
    )
    taken = []
    for level, stage, first, until, body in sorted(rows, key=lambda row: row[:3]):
        opened = seal.open(bytes(body), _about(status.uid, level, stage, until))
        values = np.frombuffer(opened, dtype="<i8").astype(np.int64).reshape(1, -1)
        taken.append(
            FigureRows(level=level, stage=stage, first_tick=first, end_tick=until, values=values)
        )
    return taken


def reseal_embargo(database: Database, old: Seal, new: Seal, status: Status) -> None:
    """Seal the figures under embargo of a stream with another key."""
    sql = "SELECT level, stage, end_tick, body FROM embargo WHERE stream = ?"
    for level, stage, end, body in database.query(sql, (status.id,)):
        about = _about(status.uid, level, stage, end)
        database.change(
            "UPDATE embargo SET body = ? WHERE stream = ? AND level = ? AND stage = ? AND"
            " end_tick = ?",
            (new.close(old.open(bytes(body), about), about), status.id, level, stage, end),
        )


def _about(uid: str, level: int, stage: int, end: int) -> str:
    return f"{uid}/embargo/{level}/{stage}/{end}"
