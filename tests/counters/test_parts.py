"""A counter in parts: the same counter again, and keys that join later."""

from __future__ import annotations

import numpy as np
import pytest

import fadecount as fc
from fadecount.counters.parts import Parts, counter_of, parts_of, widened
from fadecount.errors import SavedStateError
from tests.streams.scripted import NamedNoise, expected, names_in_use, value_of

MECHANISMS = (
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Gradual(epsilon=0.5, delay=3),
    fc.Refresh(window=5, epsilon_current=0.5, epsilon_past=0.25),
    fc.Binary(epsilon=1.0, horizon=64),
    fc.Designed(budgets=(0.5, float("inf"), 0.25), delay=1),
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
def test_a_new_key_has_one_variable_for_each_slot_in_use(mechanism: fc.Mechanism, time: int) -> None:
    counter = fc.Counter._with_noise(mechanism, NamedNoise(), width=2)
    counter.extend(np.ones((time, 2), dtype=np.int64))
    noise = NamedNoise()
    parts = widened(mechanism, parts_of(counter), 3, noise)
    assert sorted(noise.drawn) == sorted(names_in_use(mechanism, time) if time else [])
    assert parts.total.tolist()[2:] == [0, 0, 0]
    counter = counter_of(mechanism, parts, NamedNoise())
    old = names_in_use(mechanism, time) if time else []
    for step in range(time + 1, time + 20):
        output = counter.step([0, 0, 0, 0, 1])
        names = names_in_use(mechanism, step)
        counted = max(0, step - mechanism.schedule.delay - time)
        assert output[4] == counted + sum(value_of(*name, 2 if name in old else 4) for name in names)


def test_the_law_of_a_new_key_is_the_scale_of_its_slots() -> None:
    """Without scripted noise: the new keys' noise is spread as the mechanism says (within 8 standard errors, p < 1e-14)."""
    mechanism, keys = fc.Gradual(epsilon=0.5), 40_000
    counter = fc.Counter(mechanism, shape=(1,))
    counter.extend(np.zeros((21, 1), dtype=np.int64))
    noise = widened(mechanism, parts_of(counter), keys).tails[0][1:].astype(float)
    wanted = float(mechanism.variance(21))
    assert abs(noise.var() - wanted) < 8 * wanted * (5 / keys) ** 0.5
    assert not abs(1.5 * noise.var() - wanted) < 8 * wanted * (5 / keys) ** 0.5


@pytest.mark.parametrize("field", ["time", "delayed", "tails", "width"])
def test_parts_that_do_not_fit_are_refused(field: str) -> None:
    mechanism = fc.Gradual(epsilon=0.5, delay=2)
    counter = fc.Counter(mechanism, shape=(2,))
    counter.extend(np.zeros((9, 2), dtype=np.int64))
    good = parts_of(counter)
    tails = [good.tails[0][:1], *good.tails[1:]] if field == "width" else good.tails[1:] if field == "tails" else good.tails
    time = 20 if field == "time" else good.time
    bad = Parts(time=time, total=good.total, delayed=good.delayed[field == "delayed" :], tails=tails)
    with pytest.raises(SavedStateError, match="fit its time"):
        counter_of(mechanism, bad)
