"""Counters of schedules of one's own: outputs as defined, whatever mixture of calls led there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.counters import Counter
from fadecount.counters.counter import parts_of, widen
from tests.counters.scripted import ScriptedNoise, naive_outputs
from tests.mechanisms.test_own_schedules import HORIZON, random_schedule


@pytest.mark.parametrize("width", [None, 3])
def test_outputs_equal_the_definition(width: int | None) -> None:
    mechanism, source = random_schedule(3), ScriptedNoise()
    inputs = np.random.default_rng(1).integers(0, 2, (HORIZON, *((width,) if width else ())))
    counter = Counter._with_noise(mechanism, source, width=width)
    outputs = [counter.step(each if width else int(each)) for each in inputs[:5]]
    outputs += list(counter.extend(inputs[5:9]))
    counter = Counter._resume_with_noise(counter.save(), source)
    outputs += list(counter.extend(inputs[9:20]))
    counter = Counter._resume_with_noise(counter.save(), source)
    outputs += [counter.step(each if width else int(each)) for each in inputs[20:]]
    assert np.array_equal(np.array(outputs), naive_outputs(mechanism, inputs, width))


def test_new_keys_get_the_variables_in_use() -> None:
    mechanism = random_schedule(4)
    source = ScriptedNoise()
    counter = Counter._with_noise(mechanism, source, width=1)
    counter.extend([[1]] * 7)
    source.asked.clear()
    widen(counter, 1)
    tails = parts_of(counter).tails
    assert len(tails) == len(mechanism.noise.in_use(7)) > 1
    assert all(old == new for old, new in tails)  # the script gives both the same
    assert counter.extend([[1, 1]] * (HORIZON - 7)).shape == (HORIZON - 7, 2)


def test_a_state_with_too_much_noise_is_refused() -> None:
    counter = fc.Counter(random_schedule(5))
    counter.extend([0] * 4)
    path: Any = counter._path
    path.tails = [row * 0 + (1 << 58) for row in path.tails]
    with pytest.raises(fc.errors.SavedStateError, match="consistent"):
        fc.Counter.resume(counter.save())
