"""Variances, error bounds and calibration, against the definition and the true distribution of the
noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from tests.counters.scripted import names_in_use
from tests.mechanisms.examples import ALL
from tests.mechanisms.test_every_mechanism import refuse

BETA = 0.01
TARGET = 400.0
HORIZON = 300


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
class TestErrorOfEveryMechanism:
    @pytest.mark.parametrize("continuous", [False, True])
    def test_variance_and_mse_follow_from_the_definition(
        self, mechanism: fc.Mechanism, continuous: bool
    ) -> None:
        steps = np.arange(1, HORIZON + 1)
        naive = np.array([_naive_variance(mechanism, step, continuous) for step in steps.tolist()])
        if not continuous:
            assert np.allclose(mechanism.variance(steps), naive, rtol=1e-9)
            assert mechanism.variance(77) == pytest.approx(naive[76], rel=1e-9)
        for horizon in (1, 2, 7, 8, 12, 13, 50, HORIZON):
            assert mechanism.mse(horizon, continuous=continuous) == pytest.approx(
                naive[:horizon].mean(), rel=1e-9
            )

    def test_the_bound_holds_for_the_true_distribution(self, mechanism: fc.Mechanism) -> None:
        for step in (1, 5, 100):
            values, chances = _distribution(list(names_in_use(mechanism, step).values()))
            bound = mechanism.error_bound(step, BETA)
            assert chances[np.abs(values) > bound].sum() <= BETA
            if bound > 0:  # and it is no wild guess
                assert chances[np.abs(values) > 0.4 * bound].sum() > BETA

    def test_the_bound_is_at_most_the_closed_form(self, mechanism: fc.Mechanism) -> None:
        for step in (1, 2, 10, 500):
            for beta in (1e-6, 0.05, 0.5):
                scales = [1 / budget for budget in names_in_use(mechanism, step).values()]
                needed = math.log(2 / beta)
                spread = max(math.hypot(*scales), max(scales, default=0.0) * math.sqrt(needed))
                closed = spread * math.sqrt(8 * needed)
                assert mechanism.error_bound(step, beta) <= closed * (1 + 1e-9)


BLOCKS = fc.Blocks(
    fc.Level(1, 0.25),
    fc.Level(6, 0.3, lag=2),
    fc.Level(24, 0.2, lag=2, later=((50, 0.5),)),
)


@pytest.mark.parametrize("mechanism", [*ALL, BLOCKS], ids=repr)
@pytest.mark.parametrize("continuous", [False, True])
def test_calibration_meets_the_error_and_is_tight(
    mechanism: fc.Mechanism, continuous: bool
) -> None:
    one = mechanism.for_mse(TARGET, horizon=HORIZON, continuous=continuous)
    assert one.mse(HORIZON, continuous=continuous) <= TARGET
    less = 1e-4 if mechanism is BLOCKS else 1e-9  # budgets of blocks are whole millionths
    assert one.scaled(1 - less).mse(HORIZON, continuous=continuous) > TARGET
    ratio = one.loss(100) / mechanism.loss(100)
    assert one.loss(0) == pytest.approx(ratio * mechanism.loss(0), rel=1e-4)


@pytest.mark.parametrize("mechanism", [*ALL, BLOCKS], ids=repr)
def test_calibration_refuses_what_cannot_be(mechanism: fc.Mechanism) -> None:
    for bad in (0, -1.0, math.nan, math.inf, True, "9", None):
        refuse("mse", lambda bad=bad: mechanism.for_mse(bad, horizon=HORIZON))
    for bad in (0, -5, 1.5, True, None, "9"):
        refuse("horizon", lambda bad=bad: mechanism.for_mse(TARGET, horizon=bad))
    refuse("mse", lambda: mechanism.for_mse(1e-29, horizon=HORIZON, continuous=True))


def test_calibration_where_noise_can_vanish() -> None:
    """A discrete variable of a large budget is 0 nearly always, far below what continuous noise
    would need."""
    shape = fc.Gradual(1.0)
    tiny = shape.for_mse(1e-7, horizon=100)
    assert tiny.mse(100) <= 1e-7
    continuous = shape.for_mse(1e-7, horizon=100, continuous=True)
    assert tiny.epsilon < 0.01 * continuous.epsilon
    refuse("mse", lambda: fc.Linear(1.0).for_mse(1e29, horizon=100))


def test_calibration_within_the_delay() -> None:
    refuse("horizon", lambda: fc.Gradual(1.0, delay=5).for_mse(10, horizon=5))
    refuse("horizon", lambda: fc.Blocks(fc.Level(6, 0.3, lag=2)).for_mse(TARGET, horizon=7))


def test_a_budget_so_large_that_noise_vanishes() -> None:
    assert fc.Linear(epsilon=2.0**14).variance(5) == 0.0


def _naive_variance(mechanism: fc.Mechanism, step: int, continuous: bool) -> float:
    return sum(_variance(budget, continuous) for budget in names_in_use(mechanism, step).values())


def _variance(budget: float, continuous: bool) -> float:
    """Of one variable, by summing its probabilities."""
    if continuous:
        return 2 / budget**2
    values = np.arange(1, math.ceil(60 / budget) + 2)
    tail = np.exp(-values * budget)
    return float(2 * (values**2 * tail).sum() / (1 + 2 * tail.sum()))


def _distribution(budgets: list[float]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of the sum of independent variables, up to a mass of 1e-12 that is cut off."""
    total = np.ones(1)
    for budget in budgets:
        reach = math.ceil(30 / budget)
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) * budget)
        total = np.convolve(total, one / one.sum())
    reach = len(total) // 2
    return np.arange(-reach, reach + 1), total
