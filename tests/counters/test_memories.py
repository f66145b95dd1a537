"""Gaussian counters: step and extend are bit-identical, outputs follow the definition, nothing
wraps, states go on exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fadecount as fc
from fadecount.counters.counter import Counter, counter_of, parts_of, widen
from fadecount.errors import SavedStateError, SumOverflowError
from fadecount.mechanisms import Memories
from fadecount.noise import Law, RoundedGaussian
from tests.counters.memory_reference import Remembered
from tests.false_alarm import EACH, explained

YEAR = fc.Gaussian(
    sigma=15.97605,
    half_lives=(13113, 22, 1),
    weights=[each / 2**44 for each in (792985600, 47477687443, 4517344298970, 13026571072403)],
)
FRACTIONS = fc.Gaussian(
    sigma=3.0, half_lives=(100.5, 7, 2.5, 0.75), weights=(0, 0.01, 0.1, 0.3, 0.59)
)
KEPT = fc.Gaussian(sigma=3.0, half_lives=(2,), weights=(0.5, 0.5))
MECHANISMS = [
    YEAR,
    FRACTIONS,
    KEPT,
    fc.Gaussian.gradual(13.5),
    fc.Gaussian.gradual(2.0, growth=-0.6),
]


class Waves:
    """Noise that is a function of its name: uniform within three deviations, times a factor."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def many(
        self, law: Law, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        mixed = np.arange(nodes.start, nodes.stop, dtype=np.uint64)[:, np.newaxis] * np.uint64(
            0x9E3779B97F4A7C15
        )
        mixed = mixed + np.arange(width, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        shares = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
        return np.rint(shares * (6.0 * law.scale * self.factor)).astype(np.int64)[np.newaxis]


def memories_of(mechanism: fc.Mechanism) -> Memories:
    memories = mechanism.noise
    assert isinstance(memories, Memories)
    return memories


def drawn(mechanism: fc.Mechanism, count: int) -> NDArray[np.int64]:
    """The fresh noise of so many steps of one count."""
    law = RoundedGaussian(memories_of(mechanism).deviation)
    return Waves().many(law, 0, range(1), range(1, count + 1), 1)[0, :, 0]


def counter_with(mechanism: fc.Mechanism, factor: float, width: int | None) -> Counter:
    return Counter._with_noise(mechanism, Waves(factor), width=width)


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda one: f"{len(one.half_lives)} half-lives"
)
@pytest.mark.parametrize("factor", [1.0, 0.001, 4.0])
@pytest.mark.parametrize(("width", "count"), [(None, 700), (3, 200), (70, 40), (1100, 12)])
def test_blocks_are_steps(
    mechanism: fc.Gaussian, factor: float, width: int | None, count: int
) -> None:
    """Bit by bit, with saves anywhere."""
    one, many = counter_with(mechanism, factor, width), counter_with(mechanism, factor, width)
    inputs = np.random.default_rng(1).integers(0, 9, (count,) if width is None else (count, width))
    singles = [one.step(int(each) if width is None else each) for each in inputs]
    sizes, at, blocks = np.random.default_rng(2), 0, []
    while at < count:
        size = int(sizes.integers(1, max(3, count // 3)))
        blocks.append(many.extend(inputs[at : at + size]))
        at += size
        many = Counter._resume_with_noise(many.save(), Waves(factor))
    assert np.array_equal(np.concatenate(blocks), np.array(singles))
    assert np.array_equal(many.extend(inputs), one.extend(inputs))


@pytest.mark.parametrize("mechanism", [YEAR, FRACTIONS], ids=["year", "fractions"])
def test_long_blocks_are_steps(mechanism: fc.Gaussian) -> None:
    count = 40_000
    many, reference = counter_with(mechanism, 1.0, None), Remembered(memories_of(mechanism))
    singles = [reference.step(each) for each in drawn(mechanism, count).tolist()]
    assert many.extend([0] * count).tolist() == singles
    assert [int(row[0]) for row in many._path.tails] == reference.state


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda one: f"{len(one.half_lives)} half-lives"
)
def test_outputs_follow_the_definition(mechanism: fc.Gaussian) -> None:
    """The noise is b_0 z_t + b_1 z_(t-1) + ..., up to the rounding to whole counts and a little for
    the integers."""
    count = 3000
    counter = counter_with(mechanism, 1.0, None)
    outputs = counter.extend(np.zeros(count, dtype=np.int64))
    memories = memories_of(mechanism)
    unit = 2.0**-memories.unit_bits
    response = memories.response
    b = np.exp(-np.outer(np.arange(count), response.rates)) @ response.weights
    ideal = np.convolve(b, drawn(mechanism, count) * unit)[:count]
    assert np.abs(outputs - ideal).max() <= 0.5 + 200 * unit + 1e-3 * mechanism.sigma


def test_a_delay_and_new_keys() -> None:
    late = fc.Gaussian(sigma=3.0, half_lives=(7, 1), weights=(0.01, 0.29, 0.7), delay=4)
    soon = fc.Gaussian(sigma=3.0, half_lives=(7, 1), weights=(0.01, 0.29, 0.7))
    inputs = np.arange(60).reshape(20, 3)
    counter = counter_with(late, 1.0, 3)
    outputs = counter.extend(inputs)
    assert not outputs[:4].any()
    assert np.array_equal(outputs[4:], counter_with(soon, 1.0, 3).extend(inputs[:16]))
    widen(counter, 2)
    assert parts_of(counter).tails[1][3:].tolist() == [0, 0]
    assert (counter.time, counter.shape) == (20, (5,))
    assert counter.step(np.zeros(5, dtype=np.int64)).shape == (5,)


def test_noise_beyond_64_bits() -> None:
    """Never wrapped: what does not fit is refused, and changes nothing."""
    for width in (None, 2, 1100):
        counter = counter_with(YEAR, 1e5, width)
        before, inputs = counter.save(), np.ones((30, *([width] if width else [])), dtype=np.int64)
        for call in (counter.extend, _stepping(counter)):
            with pytest.raises(SumOverflowError, match="start a new counter"):
                call(inputs)
            assert counter.save() == before


def _stepping(counter: Counter) -> Callable[[NDArray[np.int64]], object]:
    return lambda inputs: [counter.step(row if counter.shape else 1) for row in inputs]


@pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda one: f"{len(one.half_lives)} half-lives"
)
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_many_counts_are_single_ones(mechanism: fc.Gaussian, factor: float) -> None:
    """Over so many steps that the bounds carried from block to block must be measured again."""
    wide, narrow = counter_with(mechanism, factor, 1024), counter_with(mechanism, factor, 4)
    for steps in (400, 1, 399):
        outputs = wide.extend(np.ones((steps, 1024), dtype=np.int64))
        assert np.array_equal(outputs[:, :4], narrow.extend(np.ones((steps, 4), dtype=np.int64)))


@pytest.mark.parametrize("factor", [30.0, 1e4])
def test_memories_beyond_their_limits(factor: float) -> None:
    """Noise of 90 standard deviations: the products fit, and the sums pass 32 deviations."""
    for mechanism in MECHANISMS:
        counter = counter_with(mechanism, factor, 3)
        with pytest.raises(SumOverflowError, match="start a new counter"):
            counter.extend(np.ones((200, 3), dtype=np.int64))
        assert counter.time == 0


def test_a_product_beyond_64_bits() -> None:
    for factor in (1e5, 1e9):
        counter = counter_with(FRACTIONS, factor, 1100)
        with pytest.raises(SumOverflowError, match="start a new counter"):
            counter.extend(np.ones((3, 1100), dtype=np.int64))
        assert counter.time == 0


class Failing(Waves):
    left = 2

    def many(
        self, law: Law, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        self.left -= 1
        if self.left == 0:
            raise OSError("no entropy")
        return super().many(law, level, rounds, nodes, width)


@pytest.mark.parametrize("width", [None, 2])
def test_a_failure_of_the_noise_changes_nothing(width: int | None) -> None:
    counter = Counter._with_noise(YEAR, Failing(), width=width)
    inputs = np.ones((70_000,) if width is None else (70_000, width), dtype=np.int64)
    before = counter.save()
    with pytest.raises(OSError, match="no entropy"):
        counter.extend(inputs)
    assert counter.save() == before
    assert np.array_equal(
        counter.extend(inputs[:50]), counter_with(YEAR, 1.0, width).extend(inputs[:50])
    )


def test_states_that_do_not_fit_are_refused() -> None:
    counter = fc.Counter(YEAR, shape=(2,))
    counter.extend(np.ones((5, 2), dtype=np.int64))
    parts = parts_of(counter)
    for tails in (parts.tails[:-1], [*parts.tails, parts.tails[0]]):
        with pytest.raises(SavedStateError):
            counter_of(YEAR, type(parts)(time=5, total=parts.total, delayed=[], tails=tails))
    blob = fc.Counter(fc.Gaussian.gradual(2.0**14, horizon=1)).save()
    assert fc.Counter.resume(blob).time == 0


@pytest.mark.parametrize("shape", [(), (400,)])
def test_outputs_have_the_stated_covariance(shape: Any) -> None:
    """1,600 counters of 40 steps: variances and the covariance of two steps, each within 4.5
    standard errors of theory."""
    mechanism = fc.Gaussian(sigma=4.0, half_lives=(20, 2), weights=(0.05, 0.35, 0.6))
    runs, steps = 1600, 40
    inputs = np.zeros((steps, *shape), dtype=np.int64)
    rows = [
        fc.Counter(mechanism, shape=shape).extend(inputs).reshape(steps, -1)
        for _ in range(runs // max(1, *shape, 1))
    ]
    outputs = np.concatenate(rows, axis=1)
    response = mechanism.noise.response
    b = np.exp(-np.outer(np.arange(steps), response.rates)) @ response.weights
    for early, late in ((0, 0), (9, 9), (39, 39), (30, 39), (38, 39)):
        wanted = 16.0 * float(b[: early + 1] @ b[late - early : late + 1]) + (
            1 / 12 if early == late else 0.0
        )
        products = outputs[early] * outputs[late]
        both = float(np.asarray(mechanism.variance(early + 1))) * float(
            np.asarray(mechanism.variance(late + 1))
        )
        error = math.sqrt((wanted**2 + both) / runs)
        assert abs(float(products.mean()) - wanted) <= 4.5 * error
    chance = float(
        stats.kstest(
            outputs[39] + np.random.default_rng(3).uniform(-0.5, 0.5, outputs.shape[1]),
            _law(mechanism),
        ).pvalue
    )
    assert chance > EACH, explained("outputs after 40 steps", chance)


def _law(mechanism: fc.Gaussian) -> Any:
    return stats.norm(scale=math.sqrt(float(np.asarray(mechanism.variance(40))))).cdf
