"""Releases as stored: one row for many ticks. Its body is ticks x keys numbers of 64 bits, written
once.

Values never change. Rows of old ticks may be joined, or removed (streams/retention.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import StoreError
from fadecount.streams.database import Database

CELLS = 1 << 17
"""The largest number of values in one row: 1 MiB. A run can be stopped between two rows."""


ROWS_AT_ONCE = 64
_NEXT_ROWS = (
    "SELECT first_tick, ticks, width, body, digest FROM releases WHERE stream = ? AND first_tick >="
    " COALESCE((SELECT MAX(first_tick) FROM releases WHERE stream = ? AND first_tick <= ?), ?) AND"
    " first_tick <= ? ORDER BY first_tick LIMIT ?"
)
"""Begins with the row that holds the tick wanted next: rows before it may have been joined since
the last query."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive ticks and their released values, in the shape (ticks, keys known at that
    time)."""

    first_tick: int
    values: NDArray[np.int64]

    @property
    def last_tick(self) -> int:
        """The last tick of the chunk."""
        return self.first_tick + len(self.values) - 1


def write_chunks(database: Database, chunks: Iterable[tuple[int, Chunk]]) -> None:
    """Write releases, each with the number of its stream."""
    rows = []
    for stream, chunk in chunks:
        body = chunk.values.astype("<i8", copy=False).tobytes()
        rows.append(
            (
                stream,
                chunk.first_tick,
                *chunk.values.shape,
                body,
                _digest(stream, chunk.first_tick, body),
            )
        )
    database.change_many(
        "INSERT INTO releases (stream, first_tick, ticks, width, body, digest) VALUES (?, ?, ?, ?,"
        " ?, ?)",
        rows,
    )


def read_chunks(database: Database, stream: int, first: int, last: int) -> Iterator[Chunk]:
    """The stored values of the ticks ``first .. last``, a few rows at a time."""
    wanted = first
    while wanted <= last:
        rows = database.query(_NEXT_ROWS, (stream, stream, wanted, wanted, last, ROWS_AT_ONCE))
        for start, ticks, width, body, digest in rows:
            if _digest(stream, start, body) != bytes(digest) or len(body) != 8 * ticks * width:
                raise StoreError("a stored release is damaged; take an intact copy of the store")
            values = np.frombuffer(body, dtype="<i8").astype(np.int64).reshape(ticks, width)
            low, high = max(wanted, start), min(last, start + ticks - 1)
            if low <= high:
                yield Chunk(low, values[low - start : high - start + 1])
            wanted = max(wanted, start + ticks)
        if len(rows) < ROWS_AT_ONCE:
            return


def _digest(stream: int, first_tick: int, body: bytes) -> bytes:
    return hashlib.blake2b(
        body, digest_size=16, person=b"release", key=f"{stream}/{first_tick}".encode()
    ).digest()
