"""Schedules of one's own: their loss is exact, and is that of a mechanism with the same noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.shift_program import losses_by_program

HORIZON = 24


def random_schedule(seed: int) -> fc.Intervals:
    """Intervals with overlaps and doubles; one of each step at least."""
    source = np.random.default_rng(seed)
    ends = source.integers(1, HORIZON, (20, 2), endpoint=True)
    given = [(int(a), int(b), float(source.uniform(0.05, 2.0))) for a, b in np.sort(ends)]
    return fc.Intervals((*given, *((step, step, 0.75) for step in range(1, HORIZON + 1))))


def dyadic(horizon: int, budgets: tuple[float, ...]) -> fc.Intervals:
    """The intervals of the paper up to a step."""
    return fc.Intervals(
        tuple(
            (node << level, min(horizon, ((node + 1) << level) - 1), budgets[level])
            for level in range(horizon.bit_length())
            for node in range(1, (horizon >> level) + 1)
        )
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_loss_is_that_of_the_linear_program(seed: int) -> None:
    mechanism = random_schedule(seed)
    pairs = [(first, now) for now in range(1, HORIZON + 1) for first in range(1, now + 1)]
    positions, ages = np.array([(first, now - first) for first, now in pairs]).T
    found = np.asarray(mechanism.loss(ages, position=positions))
    assert found == pytest.approx(losses_by_program(mechanism, pairs), rel=1e-9)
    for age in range(HORIZON):
        everybody = mechanism.loss(age, position=np.arange(1, HORIZON + 1))
        assert mechanism.loss(age) == np.max(everybody)


def test_it_is_the_mechanism_with_the_same_noise() -> None:
    budgets = (0.1, 0.3, 0.2, 0.7, 0.1, 0.6, 0.1)
    own, known, ages = dyadic(100, budgets), AnyLevels(budgets=budgets), np.arange(100)
    assert np.array_equal(np.asarray(own.loss(ages)), known.loss(ages))  # to the last bit
    assert own.mse(100) == pytest.approx(known.mse(100))
    assert own.error_bound(77, 0.01) == known.error_bound(77, 0.01)
    starts, ends = np.meshgrid(np.arange(0, 99, 7), np.arange(100, 101))
    assert np.array_equal(own.half_widths(starts, ends), known.half_widths(starts, ends))


def test_a_loss_is_rounded_up() -> None:
    """Ten times the float64 number 0.1 is a little more than 1."""
    mechanism = fc.Intervals(tuple((step, step, 0.1) for step in range(1, 11)))
    assert mechanism.loss(9) == np.nextafter(1.0, 2.0)


def test_what_is_after_the_schedule() -> None:
    mechanism = random_schedule(1)
    assert mechanism.last_step == HORIZON
    assert mechanism.loss(10**18) == mechanism.loss(HORIZON - 1)
    with pytest.raises(fc.errors.ParameterError, match=f"horizon must be at most {HORIZON}"):
        mechanism.mse(HORIZON + 1)
    with pytest.raises(fc.errors.ParameterError, match=f"position must be at most {HORIZON}"):
        mechanism.loss(0, position=HORIZON + 1)
    counter = fc.Counter(mechanism)
    counter.extend([1] * HORIZON)
    with pytest.raises(fc.errors.HorizonError):
        counter.step(1)


def test_a_step_without_noise_is_named() -> None:
    with pytest.raises(fc.errors.ParameterError, match="got none for step 3; without new noise"):
        fc.Intervals(((1, 2, 0.5), (2, 5, 0.5), (4, 5, 0.5), (5, 5, 1.0)))
    with pytest.raises(fc.errors.ParameterError, match="got 65 for step 2"):
        fc.Intervals(((1, 1, 0.5), *((2, 2, 0.5),) * 65))


def test_bad_intervals_are_refused() -> None:
    bad: list[Any] = ["1", 5, None, (), (5,), ((1, 2),), ("1,2",), ((1, 1025, 0.5),)]
    bad += [((1, 1, 0.5),) * 8193]
    bad += [((first, 3, 0.5),) for first in (0, -1, 4, 1.5, True, "1", None)]
    bad += [((1, 1, epsilon),) for epsilon in (0, -1.0, math.inf, math.nan, "1", None, 1e9)]
    for intervals in bad:
        with pytest.raises(fc.errors.ParameterError, match="intervals"):
            fc.Intervals(intervals)


def test_json_scale_and_sensitivity() -> None:
    mechanism = random_schedule(2)
    again = fc.Mechanism.from_json(mechanism.to_json())
    assert again == mechanism and hash(again) == hash(mechanism)
    assert repr(again) == f"Intervals(44 intervals over {HORIZON} steps)"
    less = mechanism.for_sensitivity(3)
    assert less.loss(9) == pytest.approx(mechanism.loss(9) / 3, rel=1e-14)
    budgets = zip(less.noise.budgets, mechanism.noise.budgets, strict=True)
    assert all(3 * Fraction(small) <= Fraction(large) for small, large in budgets)
    wanted = mechanism.mse(HORIZON) / 2
    assert wanted * 0.999 < mechanism.for_mse(wanted, horizon=HORIZON).mse(HORIZON) <= wanted


def test_levels_are_the_dyadic_intervals() -> None:
    """As for the paper's levels: the same loss by another algorithm, and the same errors."""
    for budgets in ((0.5,), (0.5, 0.25, 0.125), (1.0, 0.05, 2.0, 0.3), (0.3, math.inf, 0.2)):
        own, known = fc.Intervals.levels(budgets), AnyLevels(budgets)
        assert own.horizon == 2 ** len(budgets) - 1
        ages = np.arange(own.horizon)
        assert np.array_equal(own.loss(ages), known.loss(ages))
        steps = ages + 1
        assert np.asarray(own.variance(steps)) == pytest.approx(known.variance(steps))
    for wrong, words in (
        ([], "number of budgets must be from 1 to 10"),
        ([0.5] * 11, "number of budgets must be from 1 to 10"),
        ([math.inf, 0.5], "intervals must begin at every step up to 3, got none for step 1"),
        (7, "budgets must be a sequence of numbers"),
    ):
        with pytest.raises(ParameterError, match=words):
            fc.Intervals.levels(wrong)  # type: ignore[arg-type]
