"""A head start: the worst item by the recursion is the worst of all items, one by one; and what the clock does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from campaigns.head_start import brute_force, random_case

import fadecount as fc
from fadecount.mechanisms import head_start
from fadecount.mechanisms.head_start import EXCESS, worst_from
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


def test_many_ages_are_the_ages_one_by_one() -> None:
    generator = np.random.default_rng(72)
    for _ in range(20):
        case = random_case(generator)
        ages = generator.integers(0, 3000, 60)
        assert np.asarray(case.mechanism.loss(ages)).tolist() == [case.mechanism.loss(int(age)) for age in ages]


def test_where_triples_are_many_the_loss_is_rounded_up_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    budgets = tuple(0.1 * (1.0 + level) ** 2.3 for level in range(62))
    exact = {age: worst_from(budgets, 6, age) for age in (100, 1000, 4321)}
    monkeypatch.setattr(head_start, "_MANY", 4)
    monkeypatch.setattr(head_start, "_FEW", 4)
    head_start._one.cache_clear()
    rounded = {age: worst_from(budgets, 6, age) for age in exact}
    several = worst_from(budgets, 6, np.arange(4000, 4400))
    head_start._one.cache_clear()
    assert all(exact[age] <= rounded[age] <= exact[age] * (1 + EXCESS) for age in exact)
    assert any(exact[age] < rounded[age] for age in exact)
    assert np.asarray(several)[321] == rounded[4321]


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
