"""A head start: the worst item by the recursion is the worst of all items, one by one; and what the clock does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from campaigns.head_start import brute_force, random_case

import fadecount as fc
from fadecount.mechanisms import head_start
from fadecount.mechanisms.head_start import worst_item
from fadecount.mechanisms.level_budgets import at_position, worst_case
from tests.mechanisms import golden

CASES = 150


@pytest.mark.parametrize(("exponent", "started"), golden.HEAD_START_G)
def test_golden_values(exponent: float, started: int) -> None:
    mechanism = fc.Gradual(epsilon=1.0, exponent=exponent, head_start=started)
    wanted = golden.HEAD_START_G[exponent, started]
    assert [mechanism.loss(age) for age in golden.HEAD_START_AGES] == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("started", golden.HEAD_START_DESIGNED)
def test_golden_values_of_a_design(started: int) -> None:
    mechanism = fc.Designed(budgets=golden.HEAD_START_BUDGETS, head_start=started)
    assert [mechanism.loss(age) for age in golden.HEAD_START_AGES[:5]] == list(golden.HEAD_START_DESIGNED[started])


def test_the_worst_item_is_found_for_random_budgets() -> None:
    generator = np.random.default_rng(71)
    for _ in range(CASES):
        case = random_case(generator)
        exact = brute_force(case)
        assert exact <= case.mechanism.loss(case.age) <= exact * (1 + 1e-13), case


def test_the_item_named_as_the_worst_is_it() -> None:
    generator = np.random.default_rng(73)
    for _ in range(60):
        case = random_case(generator)
        budgets, started = case.mechanism.schedule.budgets, case.mechanism.head_start
        item = worst_item(budgets, started, case.age)
        assert item >= 1 << started
        assert at_position(budgets, item, item + case.age) == pytest.approx(worst_case(budgets, case.age, started), rel=1e-13)


def test_many_ages_are_the_ages_one_by_one() -> None:
    generator = np.random.default_rng(72)
    for _ in range(20):
        case = random_case(generator)
        ages = generator.integers(0, 3000, 60)
        assert np.asarray(case.mechanism.loss(ages)).tolist() == [case.mechanism.loss(int(age)) for age in ages]


def test_one_by_one_where_many_ages_at_once_keep_too_many_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = fc.Designed(budgets=tuple(0.1 * (1.0 + level) ** 1.3 for level in range(20)), head_start=6)
    ages = np.arange(4000, 4100)
    together = np.asarray(mechanism.loss(ages)).tolist()
    monkeypatch.setattr(head_start, "_MANY", 1)
    assert np.asarray(mechanism.loss(ages)).tolist() == together


def test_budgets_that_double_too_often_have_the_loss_without_a_head_start() -> None:
    """An upper bound from the ages on where it matters; shorter ages keep the exact loss, and the curve never falls."""
    doubling = fc.Designed(budgets=(*[0.1] * 5, *[math.inf] * 13, 0.5), head_start=6)
    plain = fc.Designed(budgets=doubling.budgets)
    ages = np.array([5, 20, 131_072 - 2, 131_072 - 1, 131_072, 200_000, 10**9])
    losses = np.asarray(doubling.loss(ages))
    assert losses.tolist() == [doubling.loss(int(age)) for age in ages]
    assert np.all(np.diff(losses) >= 0)
    assert losses[1] < plain.loss(20)
    assert np.array_equal(losses[3:], plain.loss(ages[3:]))
    assert worst_item(doubling.schedule.budgets, 6, 200_000) == 1 << 6


def test_the_clock_starts_late() -> None:
    """At the first step the noise of step 2**m, at later ones that of as many more, and the same error over a horizon."""
    late, early = (fc.Gradual(epsilon=0.3, exponent=2.0, delay=2, head_start=started) for started in (5, 0))
    assert late.variance(2) == 0.0
    assert all(late.variance(step) == early.variance(step + 31) for step in range(3, 200))
    assert late.mse(500) == pytest.approx(float(np.mean(late.variance(np.arange(1, 501)))), rel=1e-12)
    assert late.error_bound(3, 0.1, largest_input=0) == early.error_bound(34, 0.1, largest_input=0)
    assert late.loss(7, position=4) == early.loss(7, position=35)


def test_the_loss_falls_with_the_head_start_and_no_further_than_that_of_one_step() -> None:
    curves = [[fc.Gradual(epsilon=0.5, head_start=started).loss(age) for age in (0, 5, 1000)] for started in (0, 1, 3, 9, 30)]
    assert all(np.all(np.array(two) <= one) for one, two in itertools.pairwise(curves))
    assert all(curve[0] == 0.5 for curve in curves)


def test_an_infinite_first_budget_loses_everything() -> None:
    mechanism = fc.Designed(budgets=(math.inf, 0.5), head_start=3)
    assert mechanism.loss(0) == math.inf
    assert np.all(np.isinf(mechanism.loss(np.arange(20))))


def test_json_and_sensitivity_keep_it() -> None:
    mechanism = fc.Designed(budgets=(0.5, 0.25), head_start=7)
    assert fc.Mechanism.from_json(mechanism.to_json()) == mechanism
    assert '"head_start": 7' in mechanism.to_json()
    assert "head_start" not in fc.Gradual(epsilon=0.5).to_json()
    assert mechanism.for_sensitivity(2) == fc.Designed(budgets=(0.25, 0.125), head_start=7)


def test_a_person_loses_the_sum() -> None:
    mechanism = fc.Gradual(epsilon=0.5, exponent=2.0, head_start=4)
    each = [mechanism.loss(40 - position, position=position) for position in (3, 3, 17, 40)]
    assert mechanism.loss_of([3, 3, 17, 40], now=40) == pytest.approx(sum(each))
