"""A counter's parts in a store: only what changed is written, and what is read back is checked as a
whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadecount.counters import Counter
from fadecount.counters.counter import counter_of, parts_of
from fadecount.counters.state import Parts, Row
from fadecount.errors import StoreError
from fadecount.noise import NoiseSource
from fadecount.streams.database import Database
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status, read_keys, read_status

TOTAL, TAIL, DELAYED = 0, 1, 2
Name = tuple[int, int]
"""Kind and number: the level of a tail, the step of a delayed input."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of the table ``state`` to write, and those to remove."""

    written: list[tuple[int, int, int, bytes]]
    gone: list[tuple[int, int, int]]


class StoredState:
    """The parts of one stream as they are stored: their bytes (to see what changes) and digests (to
    see damage)."""

    def __init__(self, database: Database, seal: Seal, uid: str, stream: int) -> None:
        self._database, self._seal, self._uid, self._stream = database, seal, uid, stream
        self._bodies: dict[Name, bytes] = {}
        self._digests: dict[Name, bytes] = {}
        self.keys: tuple[str, ...] = ()
        self._fixed: tuple[object, object, str] = (None, None, "")
        """The description, the keys, and the digest of both."""

    def load(self, status: Status, source: NoiseSource | None) -> Counter:
        """The counter as it was committed. Raises if anything is missing, altered or from another
        commit."""
        rows = self._database.query(
            "SELECT kind, number, body FROM state WHERE stream = ?", (self._stream,)
        )
        self.keys = read_keys(self._database, self._stream)
        self._bodies, self._digests = {}, {}
        for kind, number, body in rows:
            self._digests[kind, number] = _digest(body)
        if self.digest(status) != status.digest:
            raise StoreError("state is damaged or incomplete; take an intact copy of the store")
        for kind, number, body in rows:
            row = self._seal.open(body, self._about(kind, number))
            self._bodies[kind, number] = row + bytes(8 * status.width - len(row))
        try:
            return counter_of(status.description.mechanism, self._parts(status.steps), source)
        except (KeyError, ValueError) as error:
            raise StoreError(
                "state does not fit its time; take an intact copy of the store"
            ) from error

    def _parts(self, steps: int) -> Parts:
        rows = {
            name: np.frombuffer(body, dtype="<i8").astype(np.int64)
            for name, body in self._bodies.items()
        }
        numbers = {
            kind: sorted(number for of, number in rows if of == kind) for kind in (TAIL, DELAYED)
        }
        return Parts(
            time=steps,
            total=rows[TOTAL, 0],
            delayed=[rows[DELAYED, number] for number in numbers[DELAYED]],
            tails=[rows[TAIL, number] for number in numbers[TAIL]],
        )

    def changes(self, counter: Counter) -> Changes:
        """What changed since the last time. It must be written (:func:`write_state`) with the new
        :meth:`digest`.

        The sum is always written: a write only when it changes would reveal whether events
        occurred, even under a seal.
        """
        new = {
            name: row.astype("<i8", copy=False).tobytes() for name, row in _named(parts_of(counter))
        }
        gone = [name for name in self._bodies if name not in new]
        for name in gone:
            del self._digests[name]
        written = []
        for name, row in new.items():
            if name[0] == TOTAL or self._bodies.get(name) != row:
                body = self._seal.close(row, self._about(*name))
                self._digests[name] = _digest(body)
                written.append((self._stream, *name, body))
        self._bodies = new
        return Changes(written, [(self._stream, *name) for name in gone])

    def save(self, counter: Counter) -> None:
        """Write what changed; see :meth:`changes`."""
        write_state(self._database, [self.changes(counter)])

    def sign(self, name: str) -> Status:
        """Write the digest of the stream's status, of ``keys`` and of the parts, as they are now,
        and return the status."""
        status = read_status(self._database, name)
        digest = self.digest(status)
        self._database.change("UPDATE streams SET digest = ? WHERE id = ?", (digest, status.id))
        return replace(status, digest=digest)

    def reseal(self, seal: Seal) -> None:
        """Write every part again under another seal."""
        self._seal = seal
        for name, row in self._bodies.items():
            body = seal.close(row, self._about(*name))
            self._digests[name] = _digest(body)
            self._database.change(
                "UPDATE state SET body = ? WHERE stream = ? AND kind = ? AND number = ?",
                (body, self._stream, *name),
            )

    def digest(self, status: Status) -> bytes:
        """One digest of what the stream is, its status, its keys and every stored part."""
        description, keys = status.description, self.keys
        if self._fixed[0] is not description or self._fixed[1] is not keys:
            text = json.dumps((description.to_json(), keys)).encode()
            self._fixed = description, keys, _digest(text).hex()
        ticks = (status.first_tick, status.last_tick, status.steps, status.width)
        whole = hashlib.blake2b(
            json.dumps((status.uid, self._fixed[2], *ticks)).encode(), digest_size=32
        )
        for kind, number in sorted(self._digests):
            whole.update(f"/{kind}/{number}/".encode() + self._digests[kind, number])
        return whole.digest()

    def _about(self, kind: int, number: int) -> str:
        return f"{self._uid}/state/{kind}/{number}"


def write_state(database: Database, changes: Sequence[Changes]) -> None:
    """Write the changed parts of some streams, inside a transaction."""
    gone = [each for some in changes for each in some.gone]
    database.change_many("DELETE FROM state WHERE stream = ? AND kind = ? AND number = ?", gone)
    database.change_many(
        "INSERT INTO state (stream, kind, number, body) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (stream, kind, number) DO UPDATE SET body = excluded.body",
        [each for some in changes for each in some.written],
    )


def _named(parts: Parts) -> Iterator[tuple[Name, Row]]:
    yield (TOTAL, 0), parts.total
    for level, tail in enumerate(parts.tails):
        yield (TAIL, level), tail
    for age, row in enumerate(reversed(parts.delayed)):
        yield (DELAYED, parts.time - age), row


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()
