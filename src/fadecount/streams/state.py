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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.counter import counter_of, parts_of
from fadecount.counters.figures import FigureMaker, OpenBlock
from fadecount.counters.state import Parts
from fadecount.errors import StoreError
from fadecount.mechanisms import Blocks
from fadecount.noise import NoiseSource, Ratchet
from fadecount.streams.database import Database
from fadecount.streams.embargo import Machine, largest_count, next_public_tick
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status, read_keys, read_status

TOTAL, TAIL, DELAYED, OPEN = 0, 1, 2, 3
"""Kinds in ``state``: the sum, the noise of a level, the input of a step that is still delayed; the
open block of a level."""
NOISE, CHILDREN = 4, 5
"""Kinds in ``ratchets``: the noise of the open block of a level; that of its children to come."""
Name = tuple[int, int]
"""Kind and number."""
_HEAD = 24
"""The bytes of an open block before its counts: start, end, and whether it is void."""
_TABLES = dict.fromkeys((TOTAL, TAIL, DELAYED, OPEN), "state") | dict.fromkeys(
    (NOISE, CHILDREN), "ratchets"
)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows to write (stream, kind, number, body), and those to remove (stream, kind, number)."""

    written: list[tuple[int, int, int, bytes]]
    gone: list[tuple[int, int, int]]


class StoredState:
    """The parts of one stream as they are stored: their bytes (to see what changes) and digests (to
    see damage)."""

    def __init__(self, database: Database, seal: Seal, status: Status) -> None:
        self._database, self._seal = database, seal
        self._uid, self._stream, self._ticks = status.uid, status.id, status.description.ticks
        self._bodies: dict[Name, bytes] = {}
        self._digests: dict[Name, bytes] = {}
        self.keys: tuple[str, ...] = ()
        self._fixed: tuple[object, object, str] = (None, None, "")
        """The description, the keys, and the digest of both."""
        self._heads: dict[int, tuple[int, int, int]] = {}
        self._noises: dict[int, list[NDArray[np.int64]] | None] = {}
        """Of each level: start, end and void, and the noise, of the block that is stored."""
        self.next_public: int | None = None
        """The end of the tick with which the next figure under embargo becomes public."""

    def load(self, status: Status, source: NoiseSource | None) -> Machine:
        """What was committed. Raises if anything is missing, altered or from another commit.

        A stream of blocks without its ratchets has lost its noise ahead: the open blocks that are
        tied have none then, see :func:`lacks_noise`.
        """
        sealed, self.next_public = self.read(), next_public_tick(self._database, self._stream)
        lost = bool(status.ahead) and not self.ahead
        if self.digest(status) != status.digest or (self.ahead != status.ahead and not lost):
            raise StoreError("state is damaged or incomplete; take an intact copy of the store")
        self._bodies = {
            name: self._seal.open(body, self._about(*name)) for name, body in sealed.items()
        }
        try:
            if isinstance(status.description.mechanism, Blocks):
                return self._maker(status.description.mechanism, status, source, lost=lost)
            return counter_of(status.description.mechanism, self._parts(status), source)
        except (KeyError, ValueError) as error:
            raise StoreError(
                "state does not fit its time; take an intact copy of the store"
            ) from error

    def read(self) -> dict[Name, bytes]:
        """Read the keys, and all parts as they are stored: sealed, and not checked yet."""
        sealed = {
            (kind, number): body
            for table in ("state", "ratchets")
            for kind, number, body in self._database.query(
                f"SELECT kind, number, body FROM {table} WHERE stream = ?",  # noqa: S608 - constants
                (self._stream,),
            )
        }
        self.keys = read_keys(self._database, self._stream)
        self._digests = {name: _digest(body) for name, body in sealed.items()}
        return sealed

    def _parts(self, status: Status) -> Parts:
        for name, body in self._bodies.items():  # keys that were declared since
            self._bodies[name] = body + bytes(8 * status.width - len(body))
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

    def _maker(
        self, mechanism: Blocks, status: Status, source: NoiseSource | None, *, lost: bool
    ) -> FigureMaker:
        blocks = {}
        for kind, level in sorted(self._bodies):
            if kind == OPEN:
                body = self._bodies[kind, level]
                start, end, void = _numbers(body[:_HEAD]).tolist()
                count = _unpacked(body[_HEAD:], self._high(start, end))
                blocks[level] = OpenBlock(start=start, end=end, void=bool(void), count=count)
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
                    block.noise = list(_noise(self._bodies[NOISE, level], shape))
                if mechanism.levels[level].tied:
                    block.children = maker.saved_children(
                        level, self._bodies.get((CHILDREN, level))
                    )
        return maker

    @property
    def ahead(self) -> bytes:
        """One digest of every part in ``ratchets``; empty if there is none."""
        parts = [name for name in sorted(self._digests) if _TABLES[name[0]] == "ratchets"]
        return self._whole("", parts) if parts else b""

    def changes(self, machine: Machine) -> Changes:
        """What changed since the last time. It must be written (:func:`write_state`) with the new
        :meth:`digest`.

        What counts may have changed is always written: a write only when it changes would reveal
        whether events occurred, even under a seal.
        """
        there, written = set(), []
        for name, row in self._parts_of(machine):
            there.add(name)
            if row is not None:
                body = self._seal.close(row, self._about(*name))
                self._digests[name] = _digest(body)
                written.append((self._stream, *name, body))
        gone = [name for name in self._digests if name not in there]
        for name in gone:
            del self._digests[name]
            self._bodies.pop(name, None)
        return Changes(written, [(self._stream, *name) for name in gone])

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
            body = row.astype("<i8", copy=False).tobytes()
            yield name, body if name == (TOTAL, 0) or self._bodies.get(name) != body else None
            self._bodies[name] = body

    def _blocks_of(self, maker: FigureMaker) -> Iterator[tuple[Name, bytes | None]]:
        """Arrays of 10^5 keys are not compared: what was touched is known, and the noise of a block
        stays the same list while the block is open."""
        for level, block in maker.open.items():
            head, noise = (block.start, block.end, int(block.void)), block.noise
            same = level not in maker.touched and self._heads.get(level) == head
            yield (OPEN, level), None if same else self._open_body(*head, block.count)
            if noise is not None:
                same = self._noises.get(level) is noise
                yield (NOISE, level), None if same else _noise_body(np.concatenate(noise))
            if isinstance(block.children, Ratchet):
                state = block.children.state
                yield (
                    (CHILDREN, level),
                    None if self._bodies.get((CHILDREN, level)) == state else state,
                )
                self._bodies[CHILDREN, level] = state
            self._heads[level], self._noises[level] = head, noise

    def _open_body(self, start: int, end: int, void: int, count: NDArray[np.int64]) -> bytes:
        """Start, end, void and the counts of an open block: the lower 4 bytes of all counts, then
        the upper parts of all. Its size depends on their number alone."""
        head, upper = np.array([start, end, void], dtype="<i8"), (count >> 32)
        parts = head, count.astype("<u4"), upper.astype(self._high(start, end))
        return b"".join(part.tobytes() for part in parts)

    def _high(self, start: int, end: int) -> str:
        """The type of the upper parts of counts of a block: one byte where that is always
        enough."""
        return "<u1" if (end - start) * largest_count(self._ticks) < 1 << 40 else "<u4"

    def save(self, machine: Machine) -> None:
        """Write what changed; see :meth:`changes`."""
        write_state(self._database, [self.changes(machine)])

    def sign(self, name: str) -> Status:
        """Write the digest of the stream's status, of ``keys`` and of the parts, as they are now,
        and return the status."""
        status = replace(read_status(self._database, name), ahead=self.ahead)
        digest = self.digest(status)
        self._database.change(
            "UPDATE streams SET digest = ?, ahead = ? WHERE id = ?",
            (digest, status.ahead, status.id),
        )
        return replace(status, digest=digest)

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

    def _about(self, kind: int, number: int) -> str:
        return f"{self._uid}/state/{kind}/{number}"


def lacks_noise(maker: FigureMaker) -> bool:
    """Whether a tied block is open that has neither its noise nor is void."""
    return any(
        maker.mechanism.levels[level].tied and not block.void and block.children is None
        for level, block in maker.open.items()
    )


def write_state(database: Database, changes: Sequence[Changes]) -> None:
    """Write the changed parts of some streams, inside a transaction."""
    for table in ("state", "ratchets"):
        gone = [row for each in changes for row in each.gone if _TABLES[row[1]] == table]
        written = [row for each in changes for row in each.written if _TABLES[row[1]] == table]
        database.change_many(
            f"DELETE FROM {table} WHERE stream = ? AND kind = ? AND number = ?",  # noqa: S608
            gone,
        )
        database.change_many(
            f"INSERT INTO {table} (stream, kind, number, body) VALUES (?, ?, ?, ?) ON CONFLICT"  # noqa: S608
            " (stream, kind, number) DO UPDATE SET body = excluded.body",
            written,
        )


def _unpacked(body: bytes, high: str) -> NDArray[np.int64]:
    """The counts of an open block."""
    width = len(body) // (4 + int(high[-1]))
    lower = np.frombuffer(body, dtype="<u4", count=width).astype(np.int64)
    return lower + (np.frombuffer(body, dtype=high, offset=4 * width).astype(np.int64) << 32)


def _noise_body(noise: NDArray[np.int64]) -> bytes:
    """Noise in 4 bytes each, if none is much larger than noise is."""
    fits = max(int(noise.max(initial=0)), -int(noise.min(initial=0))) < 1 << 31
    return noise.astype("<i4" if fits else "<i8").tobytes()


def _noise(body: bytes, shape: tuple[int, int]) -> NDArray[np.int64]:
    size = len(body) // (shape[0] * shape[1]) if shape[1] else 8
    return np.frombuffer(body, dtype=f"<i{size}").astype(np.int64).reshape(shape)


def _numbers(body: bytes) -> NDArray[np.int64]:
    return np.frombuffer(body, dtype="<i8").astype(np.int64)


def _digest(body: bytes) -> bytes:
    """A digest of a sealed body. Its ends hold the checksum or tag of all of it, which is checked
    when it is opened."""
    ends = body[:64] + body[-64:]
    return hashlib.blake2b(ends, digest_size=16).digest()
