"""Counter state: damage is refused, nothing in it is executed; in parts it is the same counter, and
keys may join later."""

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
from fadecount.counters.counter import counter_of, parts_of, widen
from fadecount.counters.state import Parts
from fadecount.errors import SavedStateError
from tests.counters.scripted import ScriptedNoise
from tests.mechanisms.any_levels import AnyLevels
from tests.streams.scripted import NamedNoise, expected, names_in_use, value_of


def saved(
    mechanism: fc.Mechanism | None = None, *, width: int | None = None, steps: int = 9
) -> bytes:
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
    for foreign in (
        b"",
        b"FADECNT",
        b"PK\3\4" * 40,
        pickle.dumps([1, 2]),
        bytes(500),
        BLOB[1:],
        b"x" + BLOB,
    ):
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


def rewritten(
    blob: bytes = BLOB, *, body: bytes | None = None, text: bytes | None = None, **changes: Any
) -> bytes:
    """A state with a changed header and a digest that fits: what damage before saving, or a liar,
    would leave."""
    length = int.from_bytes(blob[8:12], "big")
    header = json.loads(blob[12 : 12 + length])
    new = text if text is not None else json.dumps({**header, **changes}).encode()
    content = (
        blob[:8]
        + len(new).to_bytes(4, "big")
        + new
        + (blob[12 + length : -32] if body is None else body)
    )
    return content + hashlib.sha256(content).digest()


def test_rewriting_alone_changes_nothing() -> None:
    assert rewritten() == BLOB
    assert fc.Counter.resume(rewritten()).save() == BLOB


NUMBERS: tuple[Any, ...] = (-1, 0, 10**30, 2**60, 9.0, 1.5, "9", None, True, [9], {})


@pytest.mark.parametrize(
    ("name", "right"),
    [("time", (8,)), ("rows", ()), ("width", (None,)), ("mechanism", ())],
)
def test_a_header_that_lies_is_refused(name: str, right: tuple[Any, ...]) -> None:
    """A time that needs as many numbers as the true one cannot be told from it; every other one
    can."""
    for value in (*NUMBERS, 3, 8, 10, [1, 5, 1], [2, 5], [2, -1, 6], ["00"]):
        if value not in right:
            refuse(rewritten(**{name: value}), "damaged")


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
    refuse(rewritten(mechanism=fc.Gradual(epsilon=0.5, delay=3).to_json()), "damaged")
    refuse(rewritten(mechanism=fc.Gradual(epsilon=0.5).to_json().replace("0.5", "-0.5")), "damaged")
    past = saved(fc.Binary(epsilon=0.5, horizon=9))
    refuse(rewritten(past, mechanism=fc.Binary(epsilon=0.5, horizon=8).to_json()), "damaged")
    refuse(rewritten(saved(width=2), width=0), "damaged")
    refuse(rewritten(saved(width=2), width=1), "damaged")
    refuse(rewritten(saved(width=2), width=-2), "damaged")


def test_a_state_before_the_first_step() -> None:
    for width in (None, 3):
        for mechanism in (
            fc.Gradual(epsilon=0.5, delay=2),
            fc.Refresh(window=4, epsilon_current=0.5, epsilon_past=0.5),
        ):
            blob = saved(mechanism, width=width, steps=0)
            assert fc.Counter.resume(blob).save() == blob


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_counter_is_not_copied(copied: Callable[[fc.Counter], object]) -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        copied(fc.Counter(fc.Gradual(epsilon=1.0)))


MECHANISMS = (
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Gradual(epsilon=0.5, delay=3),
    fc.Refresh(window=5, epsilon_current=0.5, epsilon_past=0.25),
    fc.Binary(epsilon=1.0, horizon=64),
    AnyLevels(budgets=(0.5, float("inf"), 0.25), delay=1),
)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.kind)
def test_a_counter_goes_on_from_its_parts(mechanism: fc.Mechanism) -> None:
    inputs = np.arange(60, dtype=np.int64).reshape(30, 2)
    counter = fc.Counter._with_noise(mechanism, NamedNoise(), width=2)
    outputs = []
    for at in range(0, 30, 3):
        outputs.append(counter.extend(inputs[at : at + 3]))
        counter = counter_of(mechanism, parts_of(counter), NamedNoise())
    np.testing.assert_array_equal(np.concatenate(outputs), expected(mechanism, inputs))


def test_parts_are_copies_that_steps_do_not_change() -> None:
    counter = fc.Counter(MECHANISMS[0], shape=(2,))
    counter.extend(np.ones((5, 2), dtype=np.int64))
    parts = parts_of(counter)
    before = [row.tobytes() for row in (parts.total, *parts.tails)]
    counter.extend(np.ones((50, 2), dtype=np.int64))
    counter.step([1, 1])
    assert [row.tobytes() for row in (parts.total, *parts.tails)] == before


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.kind)
@pytest.mark.parametrize("time", [0, 1, 7, 12])
def test_a_new_key_has_one_variable_for_each_slot_in_use(
    mechanism: fc.Mechanism, time: int
) -> None:
    noise = NamedNoise()
    counter = fc.Counter._with_noise(mechanism, noise, width=2)
    counter.extend(np.ones((time, 2), dtype=np.int64))
    noise.drawn.clear()
    widen(counter, 3)
    assert sorted(noise.drawn) == sorted(names_in_use(mechanism, time) if time else [])
    assert parts_of(counter).total.tolist()[2:] == [0, 0, 0]
    old = names_in_use(mechanism, time) if time else []
    for step in range(time + 1, time + 20):
        output = counter.step([0, 0, 0, 0, 1])
        names = names_in_use(mechanism, step)
        counted = max(0, step - mechanism.delay - time)
        assert output[4] == counted + sum(
            value_of(*name, 2 if name in old else 4) for name in names
        )


def test_the_law_of_a_new_key_is_the_scale_of_its_slots() -> None:
    """Without scripted noise: the new keys' noise is spread as the mechanism says (within 8
    standard errors, p < 1e-14)."""
    mechanism, keys = fc.Gradual(epsilon=0.5), 40_000
    counter = fc.Counter(mechanism, shape=(1,))
    counter.extend(np.zeros((21, 1), dtype=np.int64))
    widen(counter, keys)
    noise = parts_of(counter).tails[0][1:].astype(float)
    wanted = float(mechanism.variance(21))
    assert abs(noise.var() - wanted) < 8 * wanted * (5 / keys) ** 0.5
    assert not abs(1.5 * noise.var() - wanted) < 8 * wanted * (5 / keys) ** 0.5


@pytest.mark.parametrize("field", ["time", "delayed", "tails", "width"])
def test_parts_that_do_not_fit_are_refused(field: str) -> None:
    mechanism = fc.Gradual(epsilon=0.5, delay=2)
    counter = fc.Counter(mechanism, shape=(2,))
    counter.extend(np.zeros((9, 2), dtype=np.int64))
    good = parts_of(counter)
    tails = (
        [good.tails[0][:1], *good.tails[1:]]
        if field == "width"
        else good.tails[1:]
        if field == "tails"
        else good.tails
    )
    time = 20 if field == "time" else good.time
    bad = Parts(
        time=time, total=good.total, delayed=good.delayed[field == "delayed" :], tails=tails
    )
    with pytest.raises(SavedStateError, match="consistent"):
        counter_of(mechanism, bad)
