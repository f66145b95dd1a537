"""What a stream counts with, in a store: only what changed is written, and what is read back is
checked as a whole.

Each series has a machine. One of blocks is a :class:`~fadecount.counters.figures.FigureMaker`: the
counts of its open blocks are rows of ``state``. Any other one is a
:class:`~fadecount.counters.Counter`, whose parts are rows of ``state``.

One more row holds a digest of all parts, of the keys and of what the stream is, at its last commit.
It finds what neither SQLite's ``integrity_check`` nor the digest of a single body does: a part that
is missing or older than the others (a write that the disk has lost), whose noise would be used
again; and a bit that flipped in the description, such as in a budget, or in a key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.counters.counter import counter_of, parts_of, widen
from fadecount.counters.figures import FigureMaker, OpenBlock
from fadecount.counters.state import Parts
from fadecount.errors import StoreError
from fadecount.mechanisms import Blocks
from fadecount.streams.database import Context, Database
from fadecount.streams.embargo import Machine, next_public_tick
from fadecount.streams.seal import TAG, SecretRows, insert_sealed
from fadecount.streams.status import Status, read_keys

TOTAL, TAIL, DELAYED, OPEN, WHOLE = 0, 1, 2, 3, 4
"""Kinds in ``state``: the sum, the noise of a level, the input of a step that is still delayed; the
open block of a level; the digest of all of them."""
Name = tuple[int, int, int]
"""Number of the series, kind and number of a part."""
_WHOLE = (0, WHOLE, 0)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to write (stream, series, kind, number, body) and to remove (without a body)."""

    written: list[tuple[Any, ...]] = field(default_factory=list)
    gone: list[tuple[Any, ...]] = field(default_factory=list)


class StoredState:
    """What one stream counts with, and its parts as they are stored: what was written last (to see
    what changes) and their tags (to see damage)."""

    machines: list[Machine]
    """One for each series."""

    def __init__(self, context: Context, status: Status) -> None:
        self._context, self._stream = context, status.id
        self._rows = SecretRows(context, status.uid, status.id)
        self._bodies: dict[Name, bytes] = {}
        self._tags: dict[Name, bytes] = {}
        """The end of each stored part, which no other body has."""
        self._written: dict[tuple[int, int], list[int]] = {}
        """Of each series and level: start and end of the block that is stored."""
        self.keys: tuple[tuple[str, ...], ...] = ()
        """Those of each series."""
        self._fixed: tuple[object, object, str] = (None, None, "")
        """The description, the keys, and the digest of both."""
        self.next_public: int | None = None
        """The end of the tick with which the next figure under embargo becomes public."""

    def load(self, status: Status) -> StoredState:
        """Read what was committed. Raises if anything is missing, altered or from another
        commit."""
        sealed = self.read(len(status.widths))
        self.next_public = next_public_tick(self._context.database, self._stream)
        self._bodies = {
            name: self._rows.opened("state", *name, body) for name, body in sealed.items()
        }
        if self._bodies.pop(_WHOLE, None) != self._digest(status):
            raise StoreError("state is damaged or incomplete; take an intact copy of the store")
        try:
            self.machines = [self._machine(*each) for each in enumerate(status.parts)]
        except (KeyError, ValueError) as error:
            raise StoreError(
                "state does not fit its time; take an intact copy of the store"
            ) from error
        return self

    def read(self, series: int) -> dict[Name, bytes]:
        """Read the keys of so many series, and all parts as they are stored: sealed, and not
        checked yet."""
        sealed = {
            (of, kind, number): body
            for of, kind, number, body in self._context.database.query(
                "SELECT series, kind, number, body FROM state WHERE stream = ?", (self._stream,)
            )
        }
        read = (read_keys(self._context.database, self._stream, each) for each in range(series))
        self.keys = tuple(keys for keys, _ in read)
        self._tags = {name: body[-TAG:] for name, body in sealed.items() if name != _WHOLE}
        return sealed

    def widen(self, series: int, names: Sequence[str]) -> None:
        """Declare more keys of a series, which begin at zero."""
        machine, keys = self.machines[series], list(self.keys)
        keys[series] = (*keys[series], *names)
        self.keys = tuple(keys)
        if isinstance(machine, FigureMaker):
            machine.width += len(names)
        else:
            widen(machine, len(names))

    def _machine(self, series: int, status: Status) -> Machine:
        """What a series counts with, from its stored parts."""
        mechanism, source = status.description.mechanism, self._context.noise
        rows = {
            (kind, number): _numbers(body)
            for (of, kind, number), body in self._bodies.items()
            if of == series
        }
        if isinstance(mechanism, Blocks):
            return self._maker(mechanism, status, rows)
        return counter_of(mechanism, self._parts(status, rows), source)

    def _parts(self, status: Status, rows: Mapping[tuple[int, int], NDArray[np.int64]]) -> Parts:
        numbers = {
            kind: sorted(number for of, number in rows if of == kind) for kind in (TAIL, DELAYED)
        }
        return Parts(
            time=status.steps,
            total=rows[TOTAL, 0],
            delayed=[rows[DELAYED, number] for number in numbers[DELAYED]],
            tails=[rows[TAIL, number] for number in numbers[TAIL]],
        )

    def _maker(
        self,
        mechanism: Blocks,
        status: Status,
        rows: Mapping[tuple[int, int], NDArray[np.int64]],
    ) -> FigureMaker:
        blocks = {}
        for (_, level), row in sorted(rows.items(), key=lambda each: each[0]):
            start, end = row[:2].tolist()
            blocks[level] = OpenBlock(start=start, end=end, count=row[2:].copy())
        calendar, source = status.calendar or mechanism.calendar, self._context.noise
        return FigureMaker(
            mechanism, calendar, status.width, source, time=status.steps, open_blocks=blocks
        )

    def changes(self, status: Status) -> Changes:
        """What changed since the last time, with the digest of all for this status of the stream.

        What counts may have changed is always written: a write only when it changes would reveal
        whether events occurred, even under a seal.
        """
        there, changes = set(), Changes()
        for name, row in self._parts_of():
            there.add(name)
            if row is not None:
                changes.written.append(self._rows.sealed("state", *name, row))
                self._tags[name] = changes.written[-1][-1][-TAG:]
        for name in [name for name in self._tags if name not in there]:
            changes.gone.append((self._stream, *name))
            del self._tags[name]
            self._bodies.pop(name, None)
        changes.written.append(self.whole(status))
        return changes

    def whole(self, status: Status) -> tuple[Any, ...]:
        """The row with the digest of all parts as they are stored now."""
        return self._rows.sealed("state", *_WHOLE, self._digest(status))

    def _parts_of(self) -> Iterator[tuple[Name, bytes | None]]:
        """The name of every part, with its bytes if it must be written."""
        for series, machine in enumerate(self.machines):
            if isinstance(machine, FigureMaker):
                yield from self._blocks_of(series, machine)
            else:
                yield from self._parts_of_counter(series, machine)

    def _parts_of_counter(
        self, series: int, counter: Counter
    ) -> Iterator[tuple[Name, bytes | None]]:
        parts = parts_of(counter)
        rows = {(series, TOTAL, 0): parts.total}
        rows |= {(series, TAIL, level): tail for level, tail in enumerate(parts.tails)}
        delayed = enumerate(parts.delayed[::-1])
        rows |= {(series, DELAYED, parts.time - age): row for age, row in delayed}
        for name, row in rows.items():
            body = _bytes(row)
            yield name, body if name[1] == TOTAL or self._bodies.get(name) != body else None
            self._bodies[name] = body

    def _blocks_of(self, series: int, maker: FigureMaker) -> Iterator[tuple[Name, bytes | None]]:
        """Arrays of 10^5 keys are not compared: what was touched is known."""
        for level, block in maker.open.items():
            head, place = [block.start, block.end], (series, level)
            same = level not in maker.touched and self._written.get(place) == head
            body = None if same else _bytes(np.concatenate([head, block.count]))
            yield (series, OPEN, level), body
            self._written[place] = head

    def _digest(self, status: Status) -> bytes:
        """One digest of what the stream is, its status, its keys and every part in ``state``."""
        description, keys = status.description, self.keys
        if self._fixed[0] is not description or self._fixed[1] is not keys:
            fixed = json.dumps((description.to_json(), keys)).encode()
            self._fixed = description, keys, hashlib.blake2b(fixed, digest_size=32).hexdigest()
        midnights = status.midnights and status.midnights.to_json()
        ticks = (status.first_tick, status.last_tick, status.widths, midnights)
        text = json.dumps((status.uid, status.commit_id, self._fixed[2], *ticks))
        whole = hashlib.blake2b(text.encode(), digest_size=32)
        for name in sorted(self._tags):
            whole.update(f"/{'/'.join(map(str, name))}/".encode() + self._tags[name])
        return whole.digest()


def write_state(database: Database, changes: Sequence[Changes]) -> None:
    """Write the changed parts of some streams, inside a transaction."""
    sql = "DELETE FROM state WHERE stream = ? AND series = ? AND kind = ? AND number = ?"
    database.change_many(sql, [row for each in changes for row in each.gone])
    insert_sealed(database, "state", [row for each in changes for row in each.written])


def _bytes(numbers: NDArray[np.int64]) -> bytes:
    return numbers.astype("<i8", copy=False).tobytes()


def _numbers(body: bytes) -> NDArray[np.int64]:
    return np.frombuffer(body, dtype="<i8").astype(np.int64)
