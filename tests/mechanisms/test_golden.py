"""The numbers of the paper, and exact values worked out beforehand."""

from __future__ import annotations

import math

import pytest

import fadecount as fc
from tests.mechanisms import golden


@pytest.mark.parametrize(("horizon", "exponent"), golden.GRADUAL_EPSILON)
def test_epsilon_for_an_error_of_1000(horizon: int, exponent: int) -> None:
    shape = fc.Gradual(1.0, exponent)
    mechanism = shape.for_mse(1000, horizon=horizon, continuous=True)
    assert _digits(mechanism.epsilon) == golden.GRADUAL_EPSILON[horizon, exponent]


@pytest.mark.parametrize(("horizon", "window"), golden.REFRESH_FIXED_RATIO)
def test_refresh_with_a_fixed_ratio(horizon: int, window: int) -> None:
    shape = fc.Refresh(window, 1.0, 0.1)
    mechanism = shape.for_mse(1000, horizon=horizon, continuous=True)
    found = _digits(mechanism.epsilon_current), _digits(mechanism.epsilon_past)
    assert found == golden.REFRESH_FIXED_RATIO[horizon, window]


@pytest.mark.parametrize(("horizon", "window"), golden.REFRESH_TRUE_OPTIMUM)
def test_refresh_with_the_best_ratio(horizon: int, window: int) -> None:
    shape = fc.Refresh(window, 1.0, fc.Refresh.best_ratio(window=window, horizon=horizon))
    mechanism = shape.for_mse(1000, horizon=horizon, continuous=True)
    found = _digits(mechanism.epsilon_current), _digits(mechanism.epsilon_past)
    assert found == golden.REFRESH_TRUE_OPTIMUM[horizon, window]
    printed_current, printed_past = golden.REFRESH_PRINTED_AS_OPTIMAL[horizon, window]
    later_rounds = math.ceil(horizon / window) - 1
    objective = mechanism.epsilon_current + later_rounds * mechanism.epsilon_past
    assert objective < printed_current + later_rounds * printed_past


@pytest.mark.parametrize(("horizon", "window"), golden.REFRESH_PRINTED_AS_OPTIMAL)
def test_the_pairs_that_the_paper_prints_meet_the_error(horizon: int, window: int) -> None:
    current, past = golden.REFRESH_PRINTED_AS_OPTIMAL[horizon, window]
    mechanism = fc.Refresh(window=window, epsilon_current=current, epsilon_past=past)
    assert mechanism.mse(horizon, continuous=True) == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize("exponent", golden.EXACT_G)
def test_exact_values_of_g(exponent: int) -> None:
    mechanism = fc.Gradual(epsilon=1.0, exponent=exponent)
    assert tuple(mechanism.loss(age) for age in golden.AGES) == golden.EXACT_G[exponent]
    assert (
        fc.Gradual(epsilon=1.0, exponent=exponent, delay=5).loss(5 + golden.AGES[-1])
        == golden.EXACT_G[exponent][-1]
    )


@pytest.mark.parametrize("exponent", golden.LOSS_AT_A_MILLION)
def test_the_exact_loss_is_about_half_of_the_published_one(exponent: int) -> None:
    shape = fc.Gradual(1.0, exponent)
    mechanism = shape.for_mse(1000, horizon=10**6, continuous=True)
    exact, published = golden.LOSS_AT_A_MILLION[exponent]
    assert mechanism.loss(10**6 - 1) == pytest.approx(exact, rel=2e-4)
    assert mechanism.paper_loss(10**6 - 1) == pytest.approx(published, rel=2e-4)


def _digits(number: float) -> float:
    """As the paper prints it: four significant digits."""
    return float(f"{number:.4g}")
