"""A counter's state: as bytes and back, and in parts that a store can write one by one.

Layout of the bytes: the marker ``FADECNT`` and one byte for the version; the length of the header
(4 bytes, big endian); the header, JSON (mechanism, width, time, numbers of arrays); then
int64 arrays, little endian, of one count per key each: the sum, the inputs still delayed, the noise
tails (for blocks all else that a counter holds), and what was made ahead for the next steps; at the
end a SHA-256 digest of all before it. Nothing in it is executed when read. The digest detects
damage, not attacks: anyone who can write the state can also release whatever they choose.

Parts let a store write only what a step changed. A keyed counter is its time, one sum per key, the
inputs still delayed, and the noise tails (see :mod:`fadecount.counters.paths`), one array over the
keys per level. A step replaces two of the tails on average. The parts hold the true sums, so they
stay inside fadecount.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.checks import LONGEST, require_integer
from fadecount.counters.inputs import LARGEST_SUM
from fadecount.errors import SavedStateError
from fadecount.mechanisms import Blocks, Intervals, Mechanism

MOST_AHEAD = 1 << 12
"""How many numbers, over all keys, are drawn ahead at most, or those of one step."""
_MARKER = b"FADECNT"
_VERSION = 1
_DIGEST = 32
_LARGEST_NOISE = 1 << 60
"""Far above what 62 levels of the largest scale reach; together with a sum still an int64."""

Row = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Parts:
    """All of a counter's state. Arrays are copies, in the order of the keys."""

    time: int
    total: Row
    delayed: Sequence[Row]
    tails: Sequence[Row]
    ahead: Sequence[Row] = ()
    """What was made ahead, for each of the next steps; empty after ``extend``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """Everything that a counter needs to continue without drawing any noise again."""

    mechanism: Mechanism
    width: int | None
    parts: Parts

    def to_bytes(self) -> bytes:
        parts = self.parts
        header: dict[str, Any] = {
            "mechanism": self.mechanism.to_json(),
            "width": self.width,
            "time": parts.time,
            "rows": [len(parts.delayed), len(parts.tails), len(parts.ahead)],
        }
        text = json.dumps(header).encode()
        rows = (parts.total, *parts.delayed, *parts.tails, *parts.ahead)
        body = b"".join(row.astype("<i8").tobytes() for row in rows)
        blob = _MARKER + bytes([_VERSION]) + len(text).to_bytes(4, "big") + text + body
        return blob + hashlib.sha256(blob).digest()

    @classmethod
    def from_bytes(cls, blob: bytes) -> SavedState:
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise _refused("be bytes", type(blob).__name__, "give what Counter.save returned")
        blob = bytes(blob)
        if blob[: len(_MARKER)] != _MARKER:
            raise _refused("begin with FADECNT", "other bytes", "give what Counter.save returned")
        version = blob[len(_MARKER)] if len(blob) > len(_MARKER) else 0
        if version > _VERSION:
            raise _refused(f"have version <= {_VERSION}", version, "upgrade fadecount to read it")
        if len(blob) < 12 + _DIGEST or hashlib.sha256(blob[:-_DIGEST]).digest() != blob[-_DIGEST:]:
            raise _refused("be whole", "truncated or altered bytes", "take an intact copy")
        try:
            return cls._parsed(blob[12:-_DIGEST], int.from_bytes(blob[8:12], "big"))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise damaged() from error

    @classmethod
    def _parsed(cls, content: bytes, length: int) -> SavedState:
        header: dict[str, Any] = json.loads(content[:length])
        mechanism = Mechanism.from_json(header["mechanism"])
        width = None if header["width"] is None else _integer(header["width"], minimum=1)
        time = _integer(header["time"], minimum=0)
        delayed, tails, ahead = (_integer(number, minimum=0) for number in header["rows"])
        numbers = np.frombuffer(content[length:], dtype="<i8").astype(np.int64)
        rows = numbers.reshape((1 + delayed + tails + ahead, width or 1))
        counts, noise, to_come = np.split(rows, [1 + delayed, 1 + delayed + tails])
        bound = LARGEST_SUM if isinstance(mechanism, Blocks) else _LARGEST_NOISE
        if isinstance(mechanism, Intervals):  # up to 64 of them are added up
            bound >>= 6
        bounds = (counts, LARGEST_SUM), (noise, bound), (to_come, _LARGEST_NOISE)
        if any(_passes(some, most) for some, most in bounds) or ahead > MOST_AHEAD:
            raise ValueError("state holds numbers that no counter reaches")
        parts = Parts(
            time=time,
            total=rows[0],
            delayed=list(counts[1:]),
            tails=list(noise),
            ahead=list(to_come),
        )
        return cls(mechanism=mechanism, width=width, parts=parts)


def _refused(wanted: str, got: object, remedy: str) -> SavedStateError:
    return SavedStateError(f"saved state must {wanted}, got {got}; {remedy}")


def damaged() -> SavedStateError:
    """The refusal of a state that no counter was in."""
    return _refused("hold a consistent counter", "a damaged one", "take an intact copy")


def _integer(value: object, *, minimum: int) -> int:
    return require_integer(
        "saved number", value, minimum=minimum, maximum=LONGEST, remedy="take an intact copy"
    )


def _passes(numbers: Row, bound: int) -> bool:
    return bool(np.any((numbers < -bound) | (numbers > bound)))
