"""A head start: the worst item by the recursion is the worst of all items, one by one; and what the
clock does."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from campaigns.head_start import Case, brute_force, random_case

import fadecount as fc
from fadecount.mechanisms.head_start import worst_item
from fadecount.mechanisms.level_budgets import at_position, worst_case
from tests.mechanisms import golden

CASES = 150


@pytest.mark.parametrize(("exponent", "started"), golden.HEAD_START_G)
def test_golden_values(exponent: float, started: int) -> None:
    mechanism = fc.Gradual(epsilon=1.0, exponent=exponent, head_start=started)
    wanted = golden.HEAD_START_G[exponent, started]
    assert [mechanism.loss(age) for age in golden.HEAD_START_AGES] == pytest.approx(
        wanted, abs=1e-8
    )


@pytest.mark.parametrize("started", golden.HEAD_START_DESIGNED)
def test_golden_values_of_a_design(started: int) -> None:
    mechanism = fc.Designed(budgets=golden.HEAD_START_BUDGETS, head_start=started)
    assert [mechanism.loss(age) for age in golden.HEAD_START_AGES[:5]] == list(
        golden.HEAD_START_DESIGNED[started]
    )


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
        assert at_position(budgets, item, item + case.age) == pytest.approx(
            worst_case(budgets, case.age, started), rel=1e-13
        )


def test_many_ages_are_the_ages_one_by_one() -> None:
    generator = np.random.default_rng(72)
    for _ in range(20):
        case = random_case(generator)
        ages = generator.integers(0, 3000, 60)
        assert np.asarray(case.mechanism.loss(ages)).tolist() == [
            case.mechanism.loss(int(age)) for age in ages
        ]


def sparse_case(generator: np.random.Generator, levels: int) -> tuple[float, ...]:
    """Budgets that more than double on long runs of levels: most of them infinite, the others of
    any size."""
    budgets = np.exp(generator.uniform(-2.0, 2.0, levels))
    budgets[1:][generator.random(levels - 1) < generator.choice([0.5, 0.8, 0.95])] = math.inf
    return tuple(budgets.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_budgets_that_more_than_double_on_many_levels_in_a_row(seed: int) -> None:
    """Every item one by one, as for other budgets."""
    generator = np.random.default_rng(seed)
    mechanism = fc.Designed(
        budgets=sparse_case(generator, 15), head_start=int(generator.integers(1, 12))
    )
    case = Case(mechanism, int(generator.integers(1 << 10, 1 << 13)))
    exact = brute_force(case)
    assert exact <= mechanism.loss(case.age) <= exact * (1 + 1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_no_item_loses_more_over_long_ages_and_one_loses_as_much(seed: int) -> None:
    """The same where there are too many items: one loses as much, and none of those looked at loses
    more."""
    generator = np.random.default_rng(seed)
    mechanism = fc.Designed(
        budgets=sparse_case(generator, 40), head_start=int(generator.integers(1, 40))
    )
    budgets, skipped = mechanism.schedule.budgets, mechanism.schedule.skipped
    for age in (2.0 ** generator.uniform(14, 58, 4)).astype(np.int64).tolist():
        loss, item = mechanism.loss(age), worst_item(budgets, mechanism.head_start, age)
        assert item > skipped
        attained = float(at_position(budgets, item, item + age))
        assert attained <= loss <= attained * (1 + 1e-6)
        others = (2.0 ** generator.uniform(0, 58, 300)).astype(np.int64)
        near = np.clip(item - skipped + generator.integers(-300, 300, 300), 1, 1 << 59)
        assert np.all(mechanism.loss(age, position=np.concatenate([others, near])) <= loss)


def test_numbers_of_more_than_a_machine_word() -> None:
    """A loss of 2**50 first budgets and more is rounded up by one part in a million at most, and
    never falls with the age."""
    mechanism = fc.Designed(budgets=(0.1, 0.17, *[math.inf] * 50, 0.3), head_start=20)
    ages = np.array([(1 << bits) + more for bits in range(35, 58, 2) for more in (-2, -1, 0)])
    losses = np.asarray(mechanism.loss(ages))
    assert losses.tolist() == [mechanism.loss(int(age)) for age in ages]
    assert np.all(np.diff(losses) >= 0)
    for age in ages[::4].tolist():
        item = worst_item(mechanism.schedule.budgets, 20, age)
        attained = float(at_position(mechanism.schedule.budgets, item, item + age))
        assert attained <= mechanism.loss(age) <= attained * (1 + 1e-6)
    block = np.arange((1 << 57) - 20, 1 << 57)
    assert np.asarray(mechanism.loss(block)).tolist() == [mechanism.loss(int(age)) for age in block]


def test_the_clock_starts_late() -> None:
    """At the first step the noise of step 2**m, at later ones that of as many more, and the same
    error over a horizon."""
    late, early = (
        fc.Gradual(epsilon=0.3, exponent=2.0, delay=2, head_start=started) for started in (5, 0)
    )
    assert late.variance(2) == 0.0
    assert all(late.variance(step) == early.variance(step + 31) for step in range(3, 200))
    assert late.mse(500) == pytest.approx(
        float(np.mean(late.variance(np.arange(1, 501)))), rel=1e-12
    )
    assert late.error_bound(3, 0.1, largest_input=0) == early.error_bound(34, 0.1, largest_input=0)
    assert late.loss(7, position=4) == early.loss(7, position=35)


def test_the_loss_falls_with_the_head_start_and_no_further_than_that_of_one_step() -> None:
    curves = [
        [fc.Gradual(epsilon=0.5, head_start=started).loss(age) for age in (0, 5, 1000)]
        for started in (0, 1, 3, 9, 30)
    ]
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
