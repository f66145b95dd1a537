"""A counter's state: as bytes and back, and in parts that a store can write one by one.

Layout of the bytes: the marker ``FADECNT`` and one byte for the version; the length of the header
(4 bytes, big endian); the header, JSON (mechanism, width, time, number of arrays); then
int64 arrays, little endian, of one count per key each: the sum, the inputs still delayed, the noise
tails; at the end a SHA-256 digest of all before it. Nothing in it is executed when read. The digest
detects damage, not attacks: anyone who can write the state can also release whatever they choose.

Parts let a store write only what a step changed. A keyed counter is its time, one sum per key, the
inputs still delayed, and the noise tails (see :mod:`fadecount.counters.path`), one array over the
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
from fadecount.counters.path import drawing, law_of
from fadecount.errors import SavedStateError
from fadecount.mechanisms import CARRY, Blocks, Intervals, IntervalSchedule, Mechanism
from fadecount.noise import NoiseSource, SystemNoise

_MARKER = b"FADECNT"
_VERSION = 1
_DIGEST = 32
_LARGEST_NOISE = 1 << 60
"""Far above what 62 levels of the largest scale reach; together with a sum still an int64."""

Row = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Parts:
    """All of a counter's state. Arrays are copies, in the order of the keys; those of a single
    count have no dimension."""

    time: int
    total: Row
    delayed: Sequence[Row]
    tails: Sequence[Row]
    ratchets: tuple[bytes, ...] = ()
    """The states of noise that is drawn ahead (:mod:`fadecount.noise.ratchet`)."""


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
            "delayed": len(parts.delayed),
            "tails": len(parts.tails),
        }
        if parts.ratchets:
            header["ratchets"] = [ratchet.hex() for ratchet in parts.ratchets]
        text = json.dumps(header).encode()
        rows = (parts.total, *parts.delayed, *parts.tails)
        body = b"".join(np.asarray(row).astype("<i8").tobytes() for row in rows)
        blob = _MARKER + bytes([_VERSION]) + len(text).to_bytes(4, "big") + text + body
        return blob + hashlib.sha256(blob).digest()

    @classmethod
    def from_bytes(cls, blob: bytes) -> SavedState:
        if not isinstance(blob, bytes | bytearray | memoryview):
            raise SavedStateError(
                f"saved state must be bytes, got {type(blob).__name__}; give what Counter.save"
                " returned"
            )
        blob = bytes(blob)
        if blob[: len(_MARKER)] != _MARKER:
            raise SavedStateError(
                "saved state must begin with FADECNT, got other bytes; give what Counter.save"
                " returned"
            )
        version = blob[len(_MARKER)] if len(blob) > len(_MARKER) else 0
        if version > _VERSION:
            raise SavedStateError(
                f"saved state must have version <= {_VERSION}, got {version}; upgrade fadecount to"
                " read it"
            )
        if len(blob) < 12 + _DIGEST or hashlib.sha256(blob[:-_DIGEST]).digest() != blob[-_DIGEST:]:
            raise SavedStateError(
                "saved state must be whole, got truncated or altered bytes; take an intact copy"
            )
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
        delayed, tails = sizes_at(mechanism, time)
        if (header["delayed"], header["tails"]) != (delayed, tails):
            raise ValueError("state does not fit its time")
        numbers = np.frombuffer(content[length:], dtype="<i8").astype(np.int64)
        rows = numbers.reshape((1 + delayed + tails, *(() if width is None else (width,))))
        plain = not isinstance(mechanism, Blocks) and mechanism.schedule.memories is None
        noise = _LARGEST_NOISE if plain else LARGEST_SUM
        if isinstance(mechanism, Intervals):  # up to 64 of them are added up
            noise = _LARGEST_NOISE >> 6
        if not (_within(rows[: 1 + delayed], LARGEST_SUM) and _within(rows[1 + delayed :], noise)):
            raise ValueError("state holds numbers that no counter reaches")
        total, *later = rows
        parts = Parts(
            time=time,
            total=total,
            delayed=later[:delayed],
            tails=later[delayed:],
            ratchets=tuple(bytes.fromhex(each) for each in header.get("ratchets", ())),
        )
        return cls(mechanism=mechanism, width=width, parts=parts)


def damaged() -> SavedStateError:
    return SavedStateError(
        "saved state must hold a consistent counter, got a damaged one; take an intact copy"
    )


def _integer(value: object, *, minimum: int) -> int:
    return require_integer(
        "saved number", value, minimum=minimum, maximum=LONGEST, remedy="take an intact copy"
    )


def _within(numbers: Row, bound: int) -> bool:
    return bool(np.all((numbers >= -bound) & (numbers <= bound)))


def sizes_at(mechanism: Mechanism, time: int) -> tuple[int, int]:
    """The number of delayed inputs and of noise tails, which follow from the time."""
    if isinstance(mechanism, Blocks):
        return 0, mechanism.state_rows(time)
    delay = mechanism.schedule.delay
    return min(time, delay), mechanism.schedule.rows(max(0, time - delay))


def check_parts(mechanism: Mechanism, parts: Parts) -> None:
    """Refuse the parts of a keyed counter that do not fit their time, or each other."""
    whole = (len(parts.delayed), len(parts.tails)) == sizes_at(mechanism, parts.time)
    if not whole or any(len(row) != len(parts.total) for row in (*parts.delayed, *parts.tails)):
        raise SavedStateError("state must fit its time, got a damaged one; take an intact copy")


def widened(
    mechanism: Mechanism, parts: Parts, extra: int, source: NoiseSource | None = None
) -> Parts:
    """The parts with ``extra`` more keys that have counted nothing so far.

    The new keys get a fresh variable for each noise slot in use. So they have the same law as if
    they had existed from the beginning: variables of intervals that are over are not needed.
    Memories of Gaussian noise begin empty: the promise is the same, because it holds for a stream
    that begins at any step, and their first outputs have less noise.
    """
    tails = _new_tails(mechanism, parts.time, extra, source or SystemNoise())
    zeros = np.zeros(extra, dtype=np.int64)
    return Parts(
        time=parts.time,
        total=np.concatenate([parts.total, zeros]),
        delayed=[np.concatenate([row, zeros]) for row in parts.delayed],
        tails=[np.concatenate([old, new]) for old, new in zip(parts.tails, tails, strict=True)],
    )


def _new_tails(mechanism: Mechanism, time: int, width: int, source: NoiseSource) -> list[Row]:
    schedule = mechanism.schedule
    shown = max(0, time - schedule.delay)
    if schedule.memories is not None:
        return [np.zeros(width, dtype=np.int64) for _ in range(schedule.rows(shown))]
    round_number, clock = schedule.place(shown) if shown else (0, 0)

    def draw(budget: float, level: int, node: int) -> Any:
        law = law_of(budget)
        if law is None:
            return np.zeros(width, dtype=np.int64)
        return drawing(source, width)(law, level, round_number, node)

    if isinstance(schedule, IntervalSchedule):
        return [draw(schedule.budgets[each], each, 0) for each in schedule.in_use(shown)]
    above = (
        draw(schedule.carry_budget, CARRY, 0) if round_number else np.zeros(width, dtype=np.int64)
    )
    tails = [above]
    for level in range(clock.bit_length() - 1, -1, -1):
        if not schedule.alternating or clock >> level & 1:
            above = above + draw(schedule.budgets[level], level, clock >> level)
        tails.append(above)
    return tails[::-1]
