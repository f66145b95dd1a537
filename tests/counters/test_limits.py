"""The ends of what a counter can do: sums, horizons, parameters, memory, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.counters import Counter
from fadecount.counters.inputs import LARGEST_SUM, add_up
from tests.counters.scripted import ScriptedNoise, naive_outputs
from tests.mechanisms.examples import ALL
from tests.mechanisms.test_every_mechanism import refuse

LARGEST = 2**62


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_is_refused_before_it_wraps(sign: int) -> None:
    counter = Counter._with_noise(fc.Gradual(epsilon=0.5), ScriptedNoise())
    counter.step(sign * (LARGEST - 5))
    before = counter.save()
    overflowing: list[Any] = [
        [sign * 6],
        [sign * 6, -sign * 10],
        [0, sign * 3, sign * 3],
        [sign * LARGEST] * 9,
    ]
    for inputs in overflowing:
        with pytest.raises(fc.errors.SumOverflowError, match=r"2\*\*62") as refused:
            counter.extend(inputs)
        assert "46116" not in str(refused.value)
        assert counter.save() == before
    with pytest.raises(fc.errors.SumOverflowError):
        counter.step(sign * 6)
    assert counter.save() == before
    inputs = [sign * (LARGEST - 5), sign * 5, -sign * LARGEST, -sign * LARGEST, sign * LARGEST]
    outputs = [counter.step(inputs[1]), *counter.extend(inputs[2:])]
    noise = naive_outputs(fc.Gradual(epsilon=0.5), [0] * 5, None)[1:]
    assert outputs == [sum(inputs[: at + 2]) + each for at, each in enumerate(noise.tolist())]


def test_a_sum_of_one_key_is_refused_for_all() -> None:
    counter = Counter._with_noise(fc.Gradual(epsilon=0.5), ScriptedNoise(), width=2)
    counter.step([LARGEST, 0])
    before = counter.save()
    calls: list[tuple[Any, Any]] = [(counter.step, [1, 1]), (counter.extend, [[0, 0], [1, 0]])]
    for call, inputs in calls:
        with pytest.raises(fc.errors.SumOverflowError):
            call(inputs)
        assert counter.save() == before
    counter.step([-1, LARGEST])


def test_a_counter_stops_at_its_horizon() -> None:
    mechanism = fc.Binary(epsilon=0.5, horizon=10)
    counter = Counter._with_noise(mechanism, ScriptedNoise())
    counter.extend([1] * 8)
    before = counter.save()
    with pytest.raises(fc.errors.HorizonError, match="10"):
        counter.extend([1] * 3)
    assert counter.save() == before
    outputs = [counter.step(1), *counter.extend([1])]
    assert outputs == naive_outputs(mechanism, [1] * 10, None)[8:].tolist()
    for act in (lambda: counter.step(1), lambda: counter.extend([1])):
        with pytest.raises(fc.errors.HorizonError):
            act()
    assert counter.time == 10
    assert counter.extend([]).size == 0


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_the_state_grows_with_the_logarithm_only(mechanism: fc.Mechanism) -> None:
    counter = fc.Counter(mechanism)
    delay = mechanism.delay
    sizes = []
    for time in (0, 10, 100, 1000):
        counter.extend([1] * (time - counter.time))
        sizes.append(len(counter.save()))
        assert sizes[-1] <= sizes[0] + 8 * (delay + time.bit_length() + 2) + 20


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_errors_of_real_noise_stay_within_their_bound(mechanism: fc.Mechanism, shape: Any) -> None:
    counter = fc.Counter(mechanism, shape=shape)
    assert counter.mechanism is mechanism
    assert counter.shape == shape
    inputs = np.ones((60, *shape), dtype=np.int64)
    released = [
        *counter.extend(inputs[:20]),
        *(counter.step(each if shape else 1) for each in inputs[20:40]),
    ]
    counter = fc.Counter.resume(counter.save())
    released.extend(counter.extend(inputs[40:]))
    error = np.abs(np.array(released) - np.cumsum(inputs, axis=0)).max()
    assert error <= max(mechanism.error_bound(step, 1e-10 / 60) for step in range(1, 61))


def test_threads_take_turns() -> None:
    threads, steps = 8, 200
    mechanism = fc.Gradual(epsilon=0.5, exponent=2.0, delay=3)
    counter = Counter._with_noise(mechanism, ScriptedNoise())
    outputs: list[list[int]] = [[] for _ in range(threads)]
    barrier = threading.Barrier(threads)

    def work(mine: list[int]) -> None:
        barrier.wait()
        for at in range(steps):
            if at % 10:
                mine.append(counter.step(1))
            else:
                mine.extend(counter.extend([1]).tolist())

    workers = [threading.Thread(target=work, args=(mine,)) for mine in outputs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert counter.time == threads * steps
    assert sorted(each for mine in outputs for each in mine) == sorted(
        naive_outputs(mechanism, [1] * (threads * steps), None).tolist()
    )


def test_repr_shows_no_count() -> None:
    mechanism = fc.Gradual(epsilon=0.5, delay=1)
    for shape in ((), (2,)):
        counter = fc.Counter(mechanism, shape=shape)
        counter.extend(np.full((3, *shape), 987654321))
        assert repr(counter) == f"Counter({mechanism!r}, shape={shape}, time=3)"
        assert str(counter) == repr(counter)
        assert not hasattr(counter, "__dict__")


def test_bad_parameters() -> None:
    good: Any = fc.Gradual(epsilon=0.5)
    bad: Any
    for bad in (None, 0.5, "gradual", fc.Gradual):
        refuse("mechanism", lambda bad=bad: fc.Counter(bad))
    for bad in (3, [3], (2, 2), "3", (0,), (-1,), (True,), (1.5,), (None,), ((),)):
        refuse("shape", lambda bad=bad: fc.Counter(good, shape=bad))


class _FailingNoise(ScriptedNoise):
    """Runs out of entropy at one call, and may be asked again for what was never published."""

    fails_at = -1

    def _give(self, distribution: Any, name: Any, key: int) -> int:
        if self.calls == self.fails_at:
            self.fails_at = -1
            raise OSError("no entropy")
        self.asked.discard((name, key))
        return super()._give(distribution, name, key)


@pytest.mark.parametrize("width", [None, 2])
@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_a_failure_of_the_noise_changes_nothing(mechanism: fc.Mechanism, width: int | None) -> None:
    source = _FailingNoise()
    counter = Counter._with_noise(mechanism, source, width=width)
    inputs = np.ones((40,) if width is None else (40, width), dtype=np.int64)
    outputs = [*counter.extend(inputs[:15])]
    for ahead in range(4):
        before = counter.save()
        source.fails_at = source.calls + ahead
        with pytest.raises(OSError, match="no entropy"):
            counter.extend(inputs[:20])
        assert counter.save() == before
    source.fails_at = source.calls
    for each in inputs[15:]:
        try:
            outputs.append(counter.step(each if width else 1))
        except OSError:
            outputs.append(counter.step(each if width else 1))
    assert np.array_equal(outputs, naive_outputs(mechanism, inputs, width))


def test_sums_of_whole_rows_do_not_wrap() -> None:
    sums = np.array([0, 5, LARGEST_SUM], dtype=np.int64)
    add_up(sums, slice(None), np.array([3, 0, LARGEST_SUM]))
    assert sums.tolist() == [3, 5, LARGEST_SUM + 1]


def test_sums_that_do_not_fit_stay_at_the_limit() -> None:
    """A sum that wrapped would differ by 2**64 with one event more or less, and no noise hides
    that."""
    largest = LARGEST_SUM + 1
    sums = np.array([0, largest - 3, 5, largest])
    add_up(sums, np.array([1, 1, 2, 3]), np.array([2, 2, 7, 1 << 40]))
    np.testing.assert_array_equal(sums, [0, largest, 12, largest])
    for count in (1023, 1024, 2048, 4096):  # at 2048 the plain sum is negative, at 4096 it is 0
        sums = np.zeros(1, dtype=np.int64)
        add_up(sums, np.zeros(count, dtype=np.int64), np.full(count, 1 << 52, dtype=np.int64))
        assert sums[0] == min(largest, count << 52)
