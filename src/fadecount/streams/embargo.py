"""The embargo: figures that were made when their block ended, and are not public yet.

A figure waits in the table ``embargo``, sealed, which no reader selects from. The transaction that
closes the tick of its public time moves it to ``figures``; it is visible when that tick is
published.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadecount.streams.database import Database
from fadecount.streams.discovery import (
    DISCOVERED,
    KeyFigures,
    packed,
    unpacked,
)
from fadecount.streams.figures import FigureRows
from fadecount.streams.hidden import size_class
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status


def hold_back(
    database: Database,
    seal: Seal,
    status: Status,
    waiting: Sequence[tuple[int, FigureRows | KeyFigures]],
) -> None:
    """Store figures that are not public yet, each with the tick before which it must not be seen,
    one block in a row. Sealed, and of a size that depends on the number of declared keys alone; of
    hidden keys, of a size class."""
    rows = []
    for public_tick, each in waiting:
        if isinstance(each, KeyFigures):
            body = packed(each.keys, each.values, size_class(each.body))
        else:
            body = each.values.astype("<i8", copy=False).tobytes()
        place = (each.level, each.stage, each.first_tick, each.end_tick, public_tick)
        rows.append((status.id, *place, seal.close(body, _about(status, *place))))
    database.change_many(
        "INSERT INTO embargo (stream, level, stage, first_tick, end_tick, public_tick, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def next_public_tick(database: Database, stream: int) -> int | None:
    """The end of the tick with which the next figure under embargo becomes public."""
    ((tick,),) = database.query("SELECT MIN(public_tick) FROM embargo WHERE stream = ?", (stream,))
    return None if tick is None else int(tick)


def take_public(
    database: Database, seal: Seal, status: Status, end: int
) -> list[FigureRows | KeyFigures]:
    """Take the figures out of the embargo that become public with the ticks before ``end``."""
    rows = database.query(
        "DELETE FROM embargo WHERE stream = ? AND public_tick <= ? RETURNING level, stage,"
        " first_tick, end_tick, public_tick, body",
        (status.id, end),
    )
    taken: list[FigureRows | KeyFigures] = []
    for *place, body in sorted(rows, key=lambda row: row[:3]):
        opened = seal.open(body, _about(status, *place))
        level, stage, first, until, _ = place
        if level == DISCOVERED:
            keys, values = unpacked(opened)
            taken.append(
                KeyFigures(stage=stage, first_tick=first, end_tick=until, keys=keys, values=values)
            )
            continue
        values = np.frombuffer(opened, dtype="<i8").astype(np.int64).reshape(1, -1)
        taken.append(
            FigureRows(level=level, stage=stage, first_tick=first, end_tick=until, values=values)
        )
    return taken


def _about(
    status: Status, level: int, stage: int, first_tick: int, end_tick: int, public_tick: int
) -> str:
    return f"{status.uid}/embargo/{level}/{stage}/{first_tick}/{end_tick}/{public_tick}"
