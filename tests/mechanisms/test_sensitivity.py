"""The same promise for a larger change: every budget divided and rounded down, checked in rational
arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms import RunningTotal
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.examples import ALL


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
@pytest.mark.parametrize("sensitivity", [2, 3, 7, 10, 1000])
def test_no_budget_is_too_large_and_none_smaller_than_needed(
    mechanism: RunningTotal, sensitivity: int
) -> None:
    smaller = mechanism.for_sensitivity(sensitivity)
    assert type(smaller) is type(mechanism)
    assert _fits(smaller, mechanism, sensitivity)
    for age in (0, 1, 2, 5, 100, 12_345, 10**12):
        whole, part = mechanism.loss(age), smaller.loss(age)
        assert whole * (1 - 1e-14) <= part * sensitivity <= whole * (1 + 1e-15)


def _fits(part: RunningTotal, whole: RunningTotal, sensitivity: int) -> bool:
    pairs = zip(
        (*part.noise.budgets, part.noise.carry_budget),
        (*whole.noise.budgets, whole.noise.carry_budget),
        strict=True,
    )
    return all(
        math.isinf(large) or Fraction(small) * sensitivity <= Fraction(large)
        for small, large in pairs
    )


def test_one_changes_nothing() -> None:
    mechanism = fc.Gradual(epsilon=0.3, exponent=1.7)
    assert mechanism.for_sensitivity(1) is mechanism


def test_random_budgets_fit_exactly() -> None:
    generator = np.random.default_rng(5)
    for _ in range(200):
        sensitivity = int(generator.integers(2, 500))
        whole = fc.Gradual(
            epsilon=generator.uniform(0.01, 1.0), exponent=generator.uniform(0.0, 3.0)
        )
        assert _fits(whole.for_sensitivity(sensitivity), whole, sensitivity)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None, 1 << 60])
def test_what_is_no_sensitivity_is_refused(bad: object) -> None:
    with pytest.raises(fc.errors.ParameterError, match="sensitivity must be an integer from 1"):
        fc.Gradual(epsilon=0.5).for_sensitivity(bad)  # type: ignore[arg-type]


def test_a_budget_that_would_be_too_small_is_refused() -> None:
    with pytest.raises(fc.errors.ParameterError, match="epsilon must be between"):
        fc.Gradual(epsilon=0.5).for_sensitivity(1 << 40)


def test_the_loss_of_several_changes_is_rounded_up_once() -> None:
    mechanism = fc.Gradual(epsilon=0.1, exponent=2.0)
    assert mechanism.composed_loss(7).epsilon == mechanism.loss(7)
    for times in (3, 35):
        exact = Fraction(mechanism.loss(7)) * times
        found = Fraction(mechanism.composed_loss(7, times=times).epsilon)
        assert exact <= found <= exact * (1 + Fraction(1, 1 << 52))
    assert fc.Gradual(epsilon=0.125).composed_loss(0, times=2).epsilon == 0.25, (
        "what is exact is not rounded"
    )
    assert math.isinf(AnyLevels(budgets=(math.inf, 1.0)).composed_loss(0, times=2).epsilon)


def test_budgets_at_their_bound_are_divided_too() -> None:
    """The largest budgets are cut to 2**14: a factor alone would leave them there."""
    whole = fc.Gradual(epsilon=2.0**-8, exponent=6.0)
    assert max(whole.noise.budgets) == 2.0**14
    assert _fits(whole.for_sensitivity(2), whole, 2)
