"""Where two loss curves cross for good, and the least error under a curve, against the inequality
tried for every error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms.noise_distribution import variance_of
from tests.mechanisms.test_every_mechanism import refuse

PAIRS = [
    (fc.Linear(epsilon=0.1), fc.Gradual(epsilon=0.1)),
    (
        fc.Refresh(window=7, epsilon_current=0.5, epsilon_past=0.05),
        fc.Gradual(epsilon=0.1, exponent=2.0),
    ),
    (fc.Refresh(window=31, epsilon_current=0.57, epsilon_past=0.057), fc.Gradual(epsilon=0.13)),
    (
        fc.Refresh(window=100, epsilon_current=0.5, epsilon_past=0.3),
        fc.Gradual(epsilon=0.1, exponent=1.5, delay=9),
    ),
]


@pytest.mark.no_cover
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_from_the_crossing_on_the_first_never_loses_less(
    first: fc.Mechanism, second: fc.Mechanism
) -> None:
    ages = np.arange(20_000)
    below = np.flatnonzero(np.asarray(first.loss(ages)) < np.asarray(second.loss(ages)))
    assert len(below)
    assert below[-1] < 10_000
    assert fc.crossing_age(first, second) == below[-1] + 1


def test_no_crossing_and_no_start() -> None:
    classical = fc.Binary(epsilon=1.0, horizon=10)
    assert fc.crossing_age(fc.Gradual(epsilon=0.1), fc.Linear(epsilon=0.1)) is None
    assert fc.crossing_age(classical, classical) == 0
    assert fc.crossing_age(classical, fc.Binary(epsilon=2.0, horizon=10)) is None


def test_curves_that_are_equal_or_nearly() -> None:
    """Each ran for ever. The greatest age decides where the first one is lower all the way."""
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(60, 0.5, lag=61, later=((43_201, 2.0),)))
    for curve in (fc.Linear(epsilon=0.1), fc.Gradual(epsilon=0.1, exponent=2.0), blocks):
        assert fc.crossing_age(curve, curve) == 0
    own = fc.Blocks(fc.Level(2, 0.5), fc.Level(60, 0.5, lag=61, later=((43_201, 2.0),)))
    assert own != blocks and fc.crossing_age(own, blocks) == 0
    near = fc.Linear(epsilon=0.1 * (1 - 1e-12))
    assert fc.crossing_age(near, fc.Linear(epsilon=0.1)) is None
    with pytest.raises(ParameterError, match="second must differ more from first"):
        fc.crossing_age(fc.Linear(epsilon=0.1), near)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 0.01, 1.0])
def test_it_is_the_smallest_error_that_satisfies_the_theorem(epsilon: float) -> None:
    mechanism = fc.Linear(epsilon=epsilon)
    losses = np.asarray(mechanism.loss(np.arange(16_000)))
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    for horizon in (1, 6, 7, 12, 13, 1000, 10**6):
        least = next(
            error for error in range(1, 8_000) if sums[2 * error] >= math.log(horizon / (6 * error))
        )
        assert fc.minimum_error(mechanism, horizon) == (least if least > 1 else 0)


@pytest.mark.parametrize("horizon", [6 * 4096, 6 * 4096 + 1, 6 * 4097, 6 * 4097 + 1, 10**5])
def test_a_counter_that_reveals_nothing_errs_by_a_sixth_of_its_steps(horizon: int) -> None:
    def nothing(ages: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.zeros(ages.shape)

    assert fc.minimum_error(nothing, horizon) == math.ceil(horizon / 6)


@pytest.mark.parametrize("horizon", [10**9, (1 << 60) - 1])
@pytest.mark.parametrize("epsilon", [0.0, 1e-18, 1e-7])
def test_flat_curves_and_long_horizons(epsilon: float, horizon: int) -> None:
    """A counter that loses the same at all ages: the least error, within 1 in 65,536."""

    def flat(ages: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(ages.shape, epsilon)

    def is_enough(error: int) -> bool:
        return 2 * error * epsilon >= math.log(horizon / (6 * error))

    found = fc.minimum_error(flat, horizon)
    assert is_enough(math.ceil(found * (1 + 2**-16)) + 1) and not is_enough(found - 1)


def test_no_mechanism_promises_less_than_the_bound() -> None:
    mechanism = fc.Gradual(epsilon=0.01, exponent=1.0)
    widest = mechanism.error_bound(10**6, 1 / 3 / 10**6)  # no step has more noise than the last
    assert fc.minimum_error(mechanism, 10**6) <= widest


def test_bad_horizons() -> None:
    bad: Any
    for bad in (0, -1, 1.5, True, None, 1 << 60):
        refuse("horizon", fc.minimum_error, fc.Linear(epsilon=1.0), bad)


def loss_of_added_days(mse: float) -> float:
    """The least loss for ever of days that are published once and added up, with a binary tree of 5
    levels inside the day."""
    steps = np.arange(1, 8761)
    days = float(np.mean(steps // 24))
    nodes = float(np.mean(np.bitwise_count((steps % 24).astype(np.uint64))))

    def error(loss: float) -> float:
        return min(
            days * variance_of(share * loss) + nodes * variance_of((1 - share) * loss / 5)
            for share in np.linspace(0.3, 0.9, 61).tolist()
        )

    return next(loss for loss in (each / 100 for each in range(50, 200)) if error(loss) <= mse)


def test_other_constructions_lose_less_as_docs_planning_states() -> None:
    fading = fc.Gradual(epsilon=0.1)
    mse = fading.mse(8760)
    best = fc.Refresh(24, 1.0, fc.Refresh.best_ratio(window=24, horizon=8760))
    baseline = best.for_mse(mse, horizon=8760)
    assert fc.crossing_age(baseline, fading) == 0
    share = 10 * baseline.epsilon_past / baseline.epsilon_current
    other = fc.Refresh(24, 1.0, share).for_mse(mse, horizon=8760)
    assert other.loss(24) == pytest.approx(0.275, abs=0.001) and 0.5 <= fading.loss(
        24
    ) < baseline.loss(24)
    assert loss_of_added_days(mse) == pytest.approx(0.83) and fading.loss(8760) == pytest.approx(
        1.4
    )
