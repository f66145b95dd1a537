"""Events accepted for the open tick: durable before they are acknowledged, each batch counted once.

Accepting needs no counter state and no lock of the stream, so that with PostgreSQL any process may accept while one closes ticks:
the closing transaction takes the rows that it sees and leaves the others to the next tick.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import ClockError, InputError, ParameterError
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.seal import Seal
from fadecount.streams.status import read_keys, read_status
from fadecount.streams.ticks import Ticks

LARGEST_COUNT = 1 << 40
_IDS_PER_STATEMENT = 256
REMEMBERED_SECONDS = 86400
"""How long a batch id is remembered: at least this long in ticks of the stream, and never less than two ticks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Counts by key that are accepted together; ``id`` makes a repeated one count once."""

    counts: Mapping[str, int] = field(repr=False)
    id: str | None = None


class Intake:
    """Accepts batches for the open tick of one stream."""

    def __init__(self, database: Database, seal: Seal, name: str, *, checkpoints: Checkpoints | None = None) -> None:
        self._database, self._seal, self._name = database, seal, name
        self._checkpoint = checkpoints or Checkpoints()
        self._status = read_status(database, name)
        self._positions = self._read_positions()

    def _read_positions(self) -> dict[str, int]:
        return {key: at for at, key in enumerate(read_keys(self._database, self._status.id))}

    @property
    def ticks(self) -> Ticks:
        return self._status.description.ticks

    def accept(self, batches: Sequence[Batch], *, not_before: int | None = None) -> list[bool]:
        """Count these batches in the open tick, all in one transaction; False for one that was counted before.

        When it returns, they are durable. When it raises an ``InputError``, none was counted; after a ``StoreError``, repeating
        them under the same ids counts each once. With ``not_before``, an open tick before that one is refused with a
        ``ClockError``: an event that counted in a tick before its own would be older than it seems, and have lost more.
        """
        numbers = [self._numbers(batch) for batch in batches]
        self._checkpoint("before accept")
        with self._database.transaction():
            tick = self._open_tick()
            if not_before is not None and tick < not_before:
                raise ClockError("the open tick is over; close it before events are added")
            fresh = self._remember([batch.id for batch in batches], tick)
            taken = [each for each, new in zip(numbers, fresh, strict=True) if new]
            if taken:
                body = np.array([list(chain(*each)) for each in zip(*taken, strict=True)], dtype="<i8").tobytes()
                sealed = self._seal.close(body, f"{self._status.uid}/input")
                self._database.change("INSERT INTO inputs (stream, body) VALUES (?, ?)", (self._status.id, sealed))
            self._checkpoint("accept written")
        self._checkpoint("accept committed")
        return fresh

    def _open_tick(self) -> int:
        last = read_status(self._database, self._name).last_tick
        if last is None:
            raise ParameterError("stream must have begun to accept events; create it with start_tick")
        return last + 1

    def _numbers(self, batch: Batch) -> tuple[list[int], list[int]]:
        """The positions of the keys of a batch, and their counts."""
        counts = [_count(count) for count in batch.counts.values()]
        for _ in range(2):
            try:
                return [self._positions[key] for key in batch.counts], counts
            except KeyError:  # it may have been declared since
                self._positions = self._read_positions()
        raise InputError("key must be declared, got an unknown one; declare it first")

    def _remember(self, ids: Sequence[str | None], tick: int) -> list[bool]:
        """Write the ids down; True for those that are new (and for batches without one).

        In one order everywhere: two processes that write the same ids in opposite orders would wait for each other.
        """
        names = [None if each is None else hashlib.blake2b(each.encode(), digest_size=16).digest() for each in ids]
        wanted = sorted({name for name in names if name is not None})
        added: set[bytes | None] = set()
        for start in range(0, len(wanted), _IDS_PER_STATEMENT):
            part = wanted[start : start + _IDS_PER_STATEMENT]
            rows = self._database.query(
                f"INSERT INTO seen (stream, batch, tick) VALUES {', '.join(['(?, ?, ?)'] * len(part))} "  # noqa: S608 - marks
                "ON CONFLICT (stream, batch) DO NOTHING RETURNING batch",
                [value for name in part for value in (self._status.id, name, tick)],
            )
            added.update(name for (name,) in rows)
        fresh = []
        for name in names:
            fresh.append(name is None or name in added)
            added.discard(name)
        return fresh


def take_inputs(database: Database, seal: Seal, uid: str, stream: int, width: int) -> NDArray[np.int64]:
    """Add up the inputs accepted so far and remove them, inside the transaction that closes the tick."""
    sums = np.zeros(width, dtype=np.int64)
    for (body,) in database.query("DELETE FROM inputs WHERE stream = ? RETURNING body", (stream,)):
        positions, counts = np.frombuffer(seal.open(body, f"{uid}/input"), dtype="<i8").reshape(2, -1)
        np.add.at(sums, positions, counts)
    return sums


def reseal_inputs(database: Database, old: Seal, new: Seal, uid: str, stream: int) -> None:
    """Put the accepted inputs under another seal."""
    about = f"{uid}/input"
    for id_, body in database.query("SELECT id, body FROM inputs WHERE stream = ?", (stream,)):
        database.change("UPDATE inputs SET body = ? WHERE id = ?", (new.close(old.open(body, about), about), id_))


def forget_batches(database: Database, stream: int, tick: int, tick_seconds: int) -> None:
    """Drop the batch ids that have been remembered long enough."""
    window = max(2, -(-REMEMBERED_SECONDS // tick_seconds))
    database.change("DELETE FROM seen WHERE stream = ? AND tick < ?", (stream, tick - window))


def _count(value: int) -> int:
    try:
        number = -1 if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= LARGEST_COUNT:
        raise InputError("count must be an integer from 0 to 2**40; split larger ones over several batches")
    return number
