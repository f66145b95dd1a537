"""Variances, error bounds and calibration, against the definition and the true distribution of the
noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from tests.counters.scripted import delay_of, names_in_use
from tests.mechanisms.examples import CALIBRATIONS, SLOTTED
from tests.mechanisms.test_every_mechanism import kinds, refuse, scaled

BETA = 0.01
TARGET = 400.0
HORIZON = 300


@pytest.mark.parametrize("mechanism", SLOTTED, ids=repr)
class TestErrorOfEveryMechanism:
    @pytest.mark.parametrize("bits", [0, 3, math.inf])
    def test_variance_and_mse_follow_from_the_definition(
        self, mechanism: fc.Mechanism, bits: float
    ) -> None:
        naive = np.array([_naive_variance(mechanism, step, bits) for step in range(1, HORIZON + 1)])
        steps = np.arange(1, HORIZON + 1)
        assert np.allclose(mechanism.variance(steps, resolution_bits=bits), naive, rtol=1e-9)
        assert mechanism.variance(77, resolution_bits=bits) == pytest.approx(naive[76], rel=1e-9)
        for horizon in (1, 2, 7, 8, 12, 13, 50, HORIZON):
            assert mechanism.mse(horizon, resolution_bits=bits) == pytest.approx(
                naive[:horizon].mean(), rel=1e-9
            )

    def test_the_bound_holds_for_the_true_distribution(self, mechanism: fc.Mechanism) -> None:
        for step in (1, 5, 100):
            values, chances = _distribution(list(names_in_use(mechanism, step).values()))
            bound = mechanism.error_bound(step, BETA, largest_input=3) - 3 * min(
                step, delay_of(mechanism)
            )
            assert chances[np.abs(values) > bound].sum() <= BETA
            if bound > 0:  # and it is no wild guess
                assert chances[np.abs(values) > 0.4 * bound].sum() > BETA

    @pytest.mark.parametrize("bits", [0, 3, math.inf])
    def test_the_bound_is_at_most_the_closed_form(
        self, mechanism: fc.Mechanism, bits: float
    ) -> None:
        for step in (1, 2, 10, 500):
            for beta in (1e-6, 0.05, 0.5):
                scales = [1 / budget for budget in names_in_use(mechanism, step).values()]
                needed = math.log(2 / beta)
                spread = max(math.hypot(*scales), max(scales, default=0.0) * math.sqrt(needed))
                closed = spread * math.sqrt(8 * needed) + min(step, delay_of(mechanism))
                assert mechanism.error_bound(step, beta, resolution_bits=bits) <= closed * (
                    1 + 1e-9
                )

    def test_the_bound_for_all_steps_is_above_that_for_each(self, mechanism: fc.Mechanism) -> None:
        for horizon in (1, 2, 9, 100):
            most = mechanism.max_error_bound(horizon, BETA)
            assert all(mechanism.error_bound(step, BETA) <= most for step in range(1, horizon + 1))
            assert all(
                mechanism.error_bound(step, BETA / horizon) <= most * (1 + 1e-9)
                for step in range(1, horizon + 1)
            )


CALLS = [(kind, options) for kind, calls in CALIBRATIONS.items() for options in calls]


@pytest.mark.parametrize(("kind", "options"), CALLS)
@pytest.mark.parametrize("bits", [0, 10, math.inf])
def test_calibration_meets_the_error_and_is_tight(
    kind: str, options: dict[str, Any], bits: float
) -> None:
    one = kinds()[kind].for_mse(TARGET, horizon=HORIZON, resolution_bits=bits, **options)  # type: ignore[attr-defined]
    assert one.mse(HORIZON, resolution_bits=bits) <= TARGET
    assert scaled(one, 1 - 1e-9).mse(HORIZON, resolution_bits=bits) > TARGET


@pytest.mark.parametrize(("kind", "options"), CALLS)
def test_calibration_refuses_what_cannot_be(kind: str, options: dict[str, Any]) -> None:
    call: Any = kinds()[kind].for_mse  # type: ignore[attr-defined]
    for bad in (0, -1.0, math.nan, math.inf, True, "9", None):
        refuse("mse", lambda bad=bad: call(bad, horizon=HORIZON, **options))
    for bad in (0, -5, 1.5, True, None, "9"):
        refuse("horizon", lambda bad=bad: call(TARGET, horizon=bad, **options))
    refuse("mse", lambda: call(1e-29, horizon=HORIZON, resolution_bits=math.inf, **options))


@pytest.mark.parametrize("bits", [0, 10, math.inf])
def test_block_counters_are_calibrated_to_the_last_millionth(bits: float) -> None:
    hours, days = fc.Level(6, 0.3, lag=2), fc.Level(24, 0.2, lag=2, tied=True, later=((50, 0.5),))
    one = fc.Blocks.for_mse(
        TARGET, fc.Level(1, 0.25), hours, days, horizon=HORIZON, resolution_bits=bits
    )
    assert one.mse(HORIZON, resolution_bits=bits) <= TARGET
    assert one.scaled(1 - 1e-5).mse(HORIZON, resolution_bits=bits) > TARGET
    for level, shape in zip(one.levels[1:], (hours, days), strict=True):
        for stage, before in zip(level.stages, shape.stages, strict=True):
            ratio = stage.millionths / before.millionths
            assert ratio == pytest.approx(one.levels[0].epsilon / 0.25, rel=1e-4)
    refuse("mse", lambda: fc.Blocks.for_mse(1e29, hours, horizon=HORIZON))
    refuse("horizon", lambda: fc.Blocks.for_mse(TARGET, hours, horizon=7))


def test_calibration_where_noise_can_vanish() -> None:
    """A discrete variable of a large budget is 0 nearly always, far below what continuous noise
    would need."""
    tiny = fc.Gradual.for_mse(1e-7, horizon=100, exponent=1.0)
    assert tiny.mse(100) <= 1e-7
    assert (
        tiny.epsilon
        < 0.01
        * fc.Gradual.for_mse(1e-7, horizon=100, exponent=1.0, resolution_bits=math.inf).epsilon
    )
    refuse("mse", lambda: fc.Linear.for_mse(1e29, horizon=100))


def test_calibration_within_the_delay() -> None:
    refuse("horizon", lambda: fc.Gradual.for_mse(10, horizon=5, delay=5))
    refuse("ratio", lambda: fc.Refresh.for_mse(10, horizon=50, window=5, ratio=0))


def test_a_budget_so_large_that_noise_vanishes() -> None:
    assert fc.Linear(epsilon=2.0**14).variance(5) == 0.0


def _naive_variance(mechanism: fc.Mechanism, step: int, bits: float) -> float:
    return sum(_variance(budget, bits) for budget in names_in_use(mechanism, step).values())


def _variance(budget: float, bits: float) -> float:
    """Of one variable, by summing its probabilities."""
    if math.isinf(bits):
        return 2 / budget**2
    scale = 2**bits / budget
    values = np.arange(1, math.ceil(60 * scale) + 2)
    tail = np.exp(-values / scale)
    return float(2 * (values**2 * tail).sum() / (1 + 2 * tail.sum()) / 4**bits)


def _distribution(budgets: list[float]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of the sum of independent variables, up to a mass of 1e-12 that is cut off."""
    total = np.ones(1)
    for budget in budgets:
        reach = math.ceil(30 / budget)
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) * budget)
        total = np.convolve(total, one / one.sum())
    reach = len(total) // 2
    return np.arange(-reach, reach + 1), total
