"""Saved states: every damage is refused, and nothing in them is ever executed."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.counters import Counter
from tests.counters.scripted import ScriptedNoise


def saved(mechanism: fc.Mechanism | None = None, *, width: int | None = None, steps: int = 9) -> bytes:
    mechanism = mechanism or fc.Gradual(epsilon=0.5, exponent=2.0, delay=2)
    counter = Counter._with_noise(mechanism, ScriptedNoise(), width=width)
    counter.extend(np.ones((steps,) if width is None else (steps, width), dtype=np.int64))
    return counter.save()


BLOB = saved()


def refuse(blob: Any, match: str = "saved state must") -> None:
    with pytest.raises(fc.errors.SavedStateError, match=match) as refused:
        fc.Counter.resume(blob)
    assert "\n" not in str(refused.value)


def test_every_truncation_is_refused() -> None:
    for length in range(len(BLOB)):
        refuse(BLOB[:length])
    refuse(BLOB + b"\0")


def test_every_flipped_bit_is_refused() -> None:
    for at in range(len(BLOB)):
        for bit in range(8):
            refuse(BLOB[:at] + bytes([BLOB[at] ^ 1 << bit]) + BLOB[at + 1 :])


def test_foreign_bytes_are_refused() -> None:
    for foreign in (b"", b"FADECNT", b"PK\3\4" * 40, pickle.dumps([1, 2]), bytes(500), BLOB[1:], b"x" + BLOB):
        refuse(foreign)
    for thing in (None, 7, BLOB.hex(), [BLOB]):
        refuse(thing, "must be bytes")
    assert fc.Counter.resume(bytearray(BLOB)).time == fc.Counter.resume(memoryview(BLOB)).time == 9  # type: ignore[arg-type]


def test_a_newer_version_asks_for_an_upgrade() -> None:
    newer = BLOB[:7] + bytes([2]) + BLOB[8:-32]
    refuse(newer + hashlib.sha256(newer).digest(), "version <= 1, got 2; upgrade")


def test_no_state_is_a_pickle() -> None:
    assert BLOB.startswith(b"FADECNT\x01")
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        pickle.loads(BLOB)  # noqa: S301 - that it cannot be read is the point


def rewritten(blob: bytes = BLOB, *, body: bytes | None = None, text: bytes | None = None, **changes: Any) -> bytes:
    """A state with a changed header and a digest that fits: what damage before saving, or a liar, would leave."""
    length = int.from_bytes(blob[8:12], "big")
    header = json.loads(blob[12 : 12 + length])
    new = text if text is not None else json.dumps({**header, **changes}).encode()
    content = blob[:8] + len(new).to_bytes(4, "big") + new + (blob[12 + length : -32] if body is None else body)
    return content + hashlib.sha256(content).digest()


def test_rewriting_alone_changes_nothing() -> None:
    assert rewritten() == BLOB
    assert fc.Counter.resume(rewritten()).save() == BLOB


NUMBERS: tuple[Any, ...] = (-1, 0, 10**30, 2**60, 9.0, 1.5, "9", None, True, [9], {})


@pytest.mark.parametrize(
    ("name", "right"), [("time", (8,)), ("delayed", ()), ("tails", ()), ("width", (None,)), ("mechanism", ())]
)
def test_a_header_that_lies_is_refused(name: str, right: tuple[Any, ...]) -> None:
    """A time that needs as many numbers as the true one cannot be told from it; every other one can."""
    for value in (*NUMBERS, 3, 8, 10):
        if value not in right:
            refuse(rewritten(**{name: value}), "damaged")


def test_bad_resolutions_are_refused() -> None:
    for value in (-1, 21, 1.5, True, "3", [3]):
        refuse(rewritten(resolution_bits=value), "damaged")
    assert fc.Counter.resume(rewritten(resolution_bits=3)).resolution_bits == 3


def test_headers_that_are_no_headers() -> None:
    for text in (b"", b"{}", b"[]", b"7", b"{", b"\xff", b"[" * 100_000, b'{"time": 9}'):
        refuse(rewritten(text=text), "damaged")
    for body in (b"", b"\0" * 7, b"\0" * 8, b"\0" * 800):
        refuse(rewritten(body=body), "damaged")
    length = BLOB[:8] + b"\xff" * 4 + BLOB[12:-32]
    refuse(length + hashlib.sha256(length).digest(), "damaged")


def test_numbers_that_no_counter_reaches_are_refused() -> None:
    length = int.from_bytes(BLOB[8:12], "big")
    numbers = np.frombuffer(BLOB[12 + length : -32], dtype="<i8")
    for at in range(len(numbers)):
        for value in (-(2**63), 2**63 - 1, 2**62 + 1):
            changed = numbers.copy()
            changed[at] = value
            refuse(rewritten(body=changed.tobytes()), "damaged")


def test_mechanisms_that_no_counter_runs_are_refused() -> None:
    refuse(rewritten(mechanism=fc.Designed(budgets=(np.inf, 0.5), delay=2).to_json()), "damaged")
    refuse(rewritten(mechanism=fc.Gradual(epsilon=0.5, delay=3).to_json()), "damaged")
    refuse(rewritten(mechanism=fc.Gradual(epsilon=0.5).to_json().replace("0.5", "-0.5")), "damaged")
    past = saved(fc.Binary(epsilon=0.5, horizon=9))
    refuse(rewritten(past, mechanism=fc.Binary(epsilon=0.5, horizon=8).to_json()), "damaged")
    refuse(rewritten(saved(width=2), width=0), "damaged")
    refuse(rewritten(saved(width=2), width=1), "damaged")
    refuse(rewritten(saved(width=2), width=-2), "damaged")


def test_a_state_before_the_first_step() -> None:
    for width in (None, 3):
        for mechanism in (fc.Gradual(epsilon=0.5, delay=2), fc.Refresh(window=4, epsilon_current=0.5, epsilon_past=0.5)):
            blob = saved(mechanism, width=width, steps=0)
            assert fc.Counter.resume(blob).save() == blob


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_counter_is_not_copied(copied: Callable[[fc.Counter], object]) -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        copied(fc.Counter(fc.Gradual(epsilon=1.0)))
