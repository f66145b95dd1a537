"""What a stream counts with, in a store: only what changed is written, and what is read back is
checked as a whole.

A stream of blocks is a :class:`~fadecount.counters.figures.FigureMaker`: the counts of its open
blocks are rows of ``state``, and noise that is drawn ahead for ties is in ``ratchets``. Any other
stream is a :class:`~fadecount.counters.Counter`, whose parts are rows of ``state``.

Backups leave the ratchets out. A stream that comes back without them has lost its noise ahead: its
open tied blocks are void.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
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
NOISE, CHILDREN = 4, 5
"""Kinds in ``ratchets``: the noise of the open block of a level; that of its children to come."""
Name = tuple[int, int]
"""Kind and number."""
_TABLES = dict.fromkeys((TOTAL, TAIL, DELAYED, OPEN), "state") | dict.fromkeys(
    (NOISE, CHILDREN), "ratchets"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """By table, rows to write (stream, kind, number, body) and to remove (without a body)."""

    written: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    gone: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))


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
        self._written: dict[int, tuple[list[int], object]] = {}
        """Of each level: start, end and void, and the noise, of the block that is stored."""
        self.keys: tuple[str, ...] = ()
        self._fixed: tuple[object, object, str] = (None, None, "")
        """The description, the keys, and the digest of both."""
        self.next_public: int | None = None
        """The end of the tick with which the next figure under embargo becomes public."""

    def load(self, status: Status) -> StoredState:
        """Read what was committed. Raises if anything is missing, altered or from another commit.

        A stream of blocks without its ratchets has lost its noise ahead: the open blocks that are
        tied have none then, see :func:`lacks_noise`.
        """
        sealed = self.read()
        self.next_public = next_public_tick(self._context.database, self._stream)
        lost = bool(status.ahead) and not self.ahead
        if self.digest(status) != status.digest or (self.ahead != status.ahead and not lost):
            raise StoreError("state is damaged or incomplete; take an intact copy of the store")
        self._bodies = {
            name: self._rows.opened(_TABLES[name[0]], *name, body) for name, body in sealed.items()
        }
        mechanism = status.description.mechanism
        try:
            if isinstance(mechanism, Blocks):
                self.machine = self._maker(mechanism, status, lost=lost)
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
            for table in ("state", "ratchets")
            for kind, number, body in self._context.database.query(
                f"SELECT kind, number, body FROM {table} WHERE stream = ?",  # noqa: S608 - constants
                (self._stream,),
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

    def _maker(self, mechanism: Blocks, status: Status, *, lost: bool) -> FigureMaker:
        blocks, source = {}, self._context.noise
        for kind, level in sorted(self._bodies):
            if kind == OPEN:
                start, end, void, *_ = body = _numbers(self._bodies[kind, level])
                blocks[level] = OpenBlock(
                    start=int(start), end=int(end), void=bool(void), count=body[3:].copy()
                )
        calendar = status.calendar or mechanism.calendar
        maker = FigureMaker(
            mechanism, calendar, status.width, source, time=status.steps, open_blocks=blocks
        )
        if lost:
            return maker
        for group in mechanism.groups:
            for level in group if len(group) > 1 else ():
                block = blocks.get(level)
                if block is None or block.void:
                    continue
                if (NOISE, level) in self._bodies:  # none for a child of a void block
                    shape = len(mechanism.levels[level].stages), block.width
                    block.noise = list(_numbers(self._bodies[NOISE, level]).reshape(shape))
                if mechanism.levels[level].tied:
                    block.children = maker.saved_children(
                        level, self._bodies.get((CHILDREN, level), b"")
                    )
        return maker

    @property
    def ahead(self) -> bytes:
        """One digest of every part in ``ratchets``; empty if there is none."""
        parts = [name for name in sorted(self._digests) if _TABLES[name[0]] == "ratchets"]
        return self._whole("", parts) if parts else b""

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
                table = _TABLES[name[0]]
                changes.written[table].append(self._rows.sealed(table, *name, row))
                self._digests[name] = _digest(changes.written[table][-1][-1])
        for name in [name for name in self._digests if name not in there]:
            changes.gone[_TABLES[name[0]]].append((self._stream, *name))
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
        """Arrays of 10^5 keys are not compared: what was touched is known, and the noise of a block
        stays the same list while the block is open."""
        for level, block in maker.open.items():
            head = [block.start, block.end, int(block.void)]
            before, noise = self._written.get(level, ([], None))
            same = level not in maker.touched and before == head
            yield (OPEN, level), None if same else _bytes(np.concatenate([head, block.count]))
            if block.noise is not None:
                same = block.noise is noise
                yield (NOISE, level), None if same else _bytes(np.concatenate(block.noise))
            if block.children is not None:
                name, state = (CHILDREN, level), block.children.state
                yield name, None if self._bodies.get(name) == state else state
                self._bodies[name] = state
            self._written[level] = head, block.noise

    def save(self) -> Status:
        """Write what changed (:meth:`changes`), and return the signed status of the stream."""
        write_state(self._context.database, [self.changes()])
        return self.sign()

    def sign(self) -> Status:
        """Write the digest of the stream's status, of ``keys`` and of the parts, as they are now,
        and return the status."""
        status = self.signed(read_status(self._context.database, self._name))
        self._context.database.change(
            "UPDATE streams SET digest = ?, ahead = ? WHERE id = ?",
            (status.digest, status.ahead, status.id),
        )
        return status

    def signed(self, status: Status) -> Status:
        """The status with the digests of what is stored now."""
        status = replace(status, ahead=self.ahead)
        return replace(status, digest=self.digest(status))

    def digest(self, status: Status) -> bytes:
        """One digest of what the stream is, its status, its keys and every part in ``state``; of
        the noise ahead, what the status says."""
        description, keys = status.description, self.keys
        if self._fixed[0] is not description or self._fixed[1] is not keys:
            text = json.dumps((description.to_json(), keys)).encode()
            self._fixed = description, keys, hashlib.blake2b(text, digest_size=32).hexdigest()
        ticks = (status.first_tick, status.last_tick, status.steps, status.width)
        blocks = (status.midnights and status.midnights.to_json(), sorted(status.voids.items()))
        whole = json.dumps((status.uid, self._fixed[2], *ticks, *blocks, status.ahead.hex()))
        return self._whole(
            whole, [name for name in sorted(self._digests) if _TABLES[name[0]] == "state"]
        )

    def _whole(self, text: str, parts: Sequence[Name]) -> bytes:
        whole = hashlib.blake2b(text.encode(), digest_size=32)
        for kind, number in parts:
            whole.update(f"/{kind}/{number}/".encode() + self._digests[kind, number])
        return whole.digest()


def lacks_noise(maker: FigureMaker) -> bool:
    """Whether a tied block is open that has neither its noise nor is void."""
    return any(
        maker.mechanism.levels[level].tied and not block.void and block.children is None
        for level, block in maker.open.items()
    )


def write_state(database: Database, changes: Sequence[Changes]) -> None:
    """Write the changed parts of some streams, inside a transaction."""
    for table in ("state", "ratchets"):
        sql = f"DELETE FROM {table} WHERE stream = ? AND kind = ? AND number = ?"  # noqa: S608
        database.change_many(sql, [row for each in changes for row in each.gone[table]])
        insert_sealed(database, table, [row for each in changes for row in each.written[table]])


def _bytes(numbers: NDArray[np.int64]) -> bytes:
    return numbers.astype("<i8", copy=False).tobytes()


def _numbers(body: bytes) -> NDArray[np.int64]:
    return np.frombuffer(body, dtype="<i8").astype(np.int64)


def _digest(body: bytes) -> bytes:
    """A digest of a sealed body. Its ends hold the checksum or tag of all of it, which is checked
    when it is opened."""
    ends = body[:64] + body[-64:]
    return hashlib.blake2b(ends, digest_size=16).digest()
