"""What a stream counts with, in a store: only what changed is written, and what is read back is
checked as a whole.

A stream of blocks is a :class:`~fadecount.counters.figures.FigureMaker`: the counts of its open
blocks are rows of ``state``. Any other stream is a :class:`~fadecount.counters.Counter`, whose
parts are rows of ``state``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.counter import counter_of, parts_of, widen
from fadecount.counters.figures import FigureMaker, OpenBlock
from fadecount.counters.state import Parts
from fadecount.errors import StoreError
from fadecount.mechanisms import Blocks
from fadecount.streams.database import Context, Database
from fadecount.streams.embargo import Machine, next_public_tick
from fadecount.streams.seal import SecretRows, insert_sealed
from fadecount.streams.status import Status, read_keys, read_status

TOTAL, TAIL, DELAYED, OPEN = 0, 1, 2, 3
"""Kinds in ``state``: the sum, the noise of a level, the input of a step that is still delayed; the
open block of a level."""
Name = tuple[int, int]
"""Kind and number."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to write (stream, kind, number, body) and to remove (without a body)."""

    written: list[tuple[Any, ...]] = field(default_factory=list)
    gone: list[tuple[Any, ...]] = field(default_factory=list)


class StoredState:
    """What one stream counts with, and its parts as they are stored: what was written last (to see
    what changes) and digests (to see damage)."""

    machine: Machine

    def __init__(self, context: Context, status: Status) -> None:
        self._context, self._stream = context, status.id
        self._name, self._mechanism = status.description.name, status.description.mechanism
        self._rows = SecretRows(context, status.uid, status.id)
        self._bodies: dict[Name, bytes] = {}
        self._digests: dict[Name, bytes] = {}
        self._written: dict[int, list[int]] = {}
        """Of each level: start and end of the block that is stored."""
        self.keys: tuple[str, ...] = ()
        self._fixed: tuple[object, object, str] = (None, None, "")
        """The description, the keys, and the digest of both."""
        self.next_public: int | None = None
        """The end of the tick with which the next figure under embargo becomes public."""

    def load(self, status: Status) -> StoredState:
        """Read what was committed. Raises if anything is missing, altered or from another
        commit."""
        sealed = self.read()
        self.next_public = next_public_tick(self._context.database, self._stream)
        if self.digest(status) != status.digest:
            raise StoreError("state is damaged or incomplete; take an intact copy of the store")
        self._bodies = {
            name: self._rows.opened("state", *name, body) for name, body in sealed.items()
        }
        mechanism = status.description.mechanism
        try:
            if isinstance(mechanism, Blocks):
                self.machine = self._maker(mechanism, status)
            else:
                self.machine = counter_of(mechanism, self._parts(status), self._context.noise)
        except (KeyError, ValueError) as error:
            raise StoreError(
                "state does not fit its time; take an intact copy of the store"
            ) from error
        return self

    def read(self) -> dict[Name, bytes]:
        """Read the keys, and all parts as they are stored: sealed, and not checked yet."""
        sealed = {
            (kind, number): body
            for kind, number, body in self._context.database.query(
                "SELECT kind, number, body FROM state WHERE stream = ?", (self._stream,)
            )
        }
        self.keys, _ = read_keys(self._context.database, self._stream)
        self._digests = {name: _digest(body) for name, body in sealed.items()}
        return sealed

    def widen(self, names: Sequence[str]) -> None:
        """Declare more keys, which begin at zero."""
        self.keys = (*self.keys, *names)
        if isinstance(self.machine, FigureMaker):
            self.machine.width += len(names)
        else:
            widen(self.machine, len(names))

    def _parts(self, status: Status) -> Parts:
        rows = {name: _numbers(body) for name, body in self._bodies.items()}
        numbers = {
            kind: sorted(number for of, number in rows if of == kind) for kind in (TAIL, DELAYED)
        }
        return Parts(
            time=status.steps,
            total=rows[TOTAL, 0],
            delayed=[rows[DELAYED, number] for number in numbers[DELAYED]],
            tails=[rows[TAIL, number] for number in numbers[TAIL]],
        )

    def _maker(self, mechanism: Blocks, status: Status) -> FigureMaker:
        blocks = {}
        for kind, level in sorted(self._bodies):
            if kind == OPEN:
                start, end, *_ = body = _numbers(self._bodies[kind, level])
                blocks[level] = OpenBlock(start=int(start), end=int(end), count=body[2:].copy())
        calendar, source = status.calendar or mechanism.calendar, self._context.noise
        return FigureMaker(
            mechanism, calendar, status.width, source, time=status.steps, open_blocks=blocks
        )

    def changes(self) -> Changes:
        """What changed since the last time. It must be written (:func:`write_state`) with the new
        :meth:`digest`.

        What counts may have changed is always written: a write only when it changes would reveal
        whether events occurred, even under a seal.
        """
        there, changes = set(), Changes()
        for name, row in self._parts_of(self.machine):
            there.add(name)
            if row is not None:
                changes.written.append(self._rows.sealed("state", *name, row))
                self._digests[name] = _digest(changes.written[-1][-1])
        for name in [name for name in self._digests if name not in there]:
            changes.gone.append((self._stream, *name))
            del self._digests[name]
            self._bodies.pop(name, None)
        return changes

    def _parts_of(self, machine: Machine) -> Iterator[tuple[Name, bytes | None]]:
        """The name of every part, with its bytes if it must be written."""
        if isinstance(machine, FigureMaker):
            yield from self._blocks_of(machine)
            return
        parts = parts_of(machine)
        rows = {(TOTAL, 0): parts.total}
        rows |= {(TAIL, level): tail for level, tail in enumerate(parts.tails)}
        rows |= {(DELAYED, parts.time - age): row for age, row in enumerate(parts.delayed[::-1])}
        for name, row in rows.items():
            body = _bytes(row)
            yield name, body if name == (TOTAL, 0) or self._bodies.get(name) != body else None
            self._bodies[name] = body

    def _blocks_of(self, maker: FigureMaker) -> Iterator[tuple[Name, bytes | None]]:
        """Arrays of 10^5 keys are not compared: what was touched is known."""
        for level, block in maker.open.items():
            head = [block.start, block.end]
            same = level not in maker.touched and self._written.get(level) == head
            yield (OPEN, level), None if same else _bytes(np.concatenate([head, block.count]))
            self._written[level] = head

    def save(self) -> Status:
        """Write what changed (:meth:`changes`), and return the signed status of the stream."""
        write_state(self._context.database, [self.changes()])
        return self.sign()

    def sign(self) -> Status:
        """Write the digest of the stream's status, of ``keys`` and of the parts, as they are now,
        and return the status."""
        status = self.signed(read_status(self._context.database, self._name))
        self._context.database.change(
            "UPDATE streams SET digest = ? WHERE id = ?", (status.digest, status.id)
        )
        return status

    def signed(self, status: Status) -> Status:
        """The status with the digest of what is stored now."""
        return replace(status, digest=self.digest(status))

    def digest(self, status: Status) -> bytes:
        """One digest of what the stream is, its status, its keys and every part in ``state``."""
        description, keys = status.description, self.keys
        if self._fixed[0] is not description or self._fixed[1] is not keys:
            fixed = json.dumps((description.to_json(), keys)).encode()
            self._fixed = description, keys, hashlib.blake2b(fixed, digest_size=32).hexdigest()
        ticks = (status.first_tick, status.last_tick, status.steps, status.width)
        midnights = status.midnights and status.midnights.to_json()
        text = json.dumps((status.uid, self._fixed[2], *ticks, midnights))
        whole = hashlib.blake2b(text.encode(), digest_size=32)
        for kind, number in sorted(self._digests):
            whole.update(f"/{kind}/{number}/".encode() + self._digests[kind, number])
        return whole.digest()


def write_state(database: Database, changes: Sequence[Changes]) -> None:
    """Write the changed parts of some streams, inside a transaction."""
    sql = "DELETE FROM state WHERE stream = ? AND kind = ? AND number = ?"
    database.change_many(sql, [row for each in changes for row in each.gone])
    insert_sealed(database, "state", [row for each in changes for row in each.written])


def _bytes(numbers: NDArray[np.int64]) -> bytes:
    return numbers.astype("<i8", copy=False).tobytes()


def _numbers(body: bytes) -> NDArray[np.int64]:
    return np.frombuffer(body, dtype="<i8").astype(np.int64)


def _digest(body: bytes) -> bytes:
    """A digest of a sealed body. Its ends hold the checksum or tag of all of it, which is checked
    when it is opened."""
    ends = body[:64] + body[-64:]
    return hashlib.blake2b(ends, digest_size=16).digest()
