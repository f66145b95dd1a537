"""A loss is an exact rational number, rounded up once to the next float: never shown too small,
never too large by more."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import fadecount as fc
from tests.mechanisms.any_levels import AnyLevels

GENERATOR = np.random.default_rng(5)
AGES = [
    *range(70),
    10**6 - 1,
    10**9,
    10**18,
    (1 << 60) - 1,
    *(int(age) for age in GENERATOR.integers(0, 10**18, 40)),
]
BUDGETS = [
    tuple(GENERATOR.uniform(0.01, 2.0, 20).tolist()),
    tuple((2.0 ** GENERATOR.uniform(-30, 14, 30)).clip(2.0**-30, 2.0**14).tolist()),
    (2.0**14, 2.0**-30 * (1 + 2.0**-52)),
    (0.1, 0.2, 0.3),
]


@pytest.mark.parametrize("budgets", BUDGETS)
@pytest.mark.parametrize("delay", [0, 7])
def test_worst_loss_is_the_rational_closed_form_rounded_up(
    budgets: tuple[float, ...], delay: int
) -> None:
    mechanism = AnyLevels(budgets=budgets, delay=delay)
    wanted = [_up(_worst_case(budgets, age)) for age in AGES]
    shifted = [min(age + delay, (1 << 60) - 1) for age in AGES]
    for age, late, value in zip(AGES, shifted, wanted, strict=True):
        if late == age + delay:
            assert mechanism.loss(late) == value, age


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2.0**-20 * 1.1])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5, 2.0, 3.0])
def test_gradual_is_exact_for_the_budgets_of_its_schedule(epsilon: float, exponent: float) -> None:
    mechanism = fc.Gradual(epsilon=epsilon, exponent=exponent)
    assert [mechanism.loss(age) for age in AGES] == [
        _up(_worst_case(mechanism.noise.budgets, age)) for age in AGES
    ]
    published = [
        _up(2 * sum(map(Fraction, mechanism.noise.budgets[: (age + 1).bit_length()]), Fraction(0)))
        for age in AGES
    ]
    assert [mechanism.paper_loss(age) for age in AGES] == published


def test_linear_and_refresh_are_exact() -> None:
    linear = fc.Linear(epsilon=0.1)
    refresh = fc.Refresh(window=7, epsilon_current=0.1, epsilon_past=0.07)
    share = Fraction(refresh.noise.budgets[0])
    for rounds in (1 + age // 7 for age in AGES if age < 1 << 59):
        assert linear.loss(rounds) == _up(Fraction(0.1) * rounds)
        assert refresh.paper_loss(7 * rounds) == _up(3 * share + rounds * Fraction(0.07))
        assert refresh.loss(7 * rounds, position=1) == _up(
            3 * share + (rounds - 1) * Fraction(0.07) + share
        )


def test_shares_never_add_up_to_more_than_their_budget() -> None:
    for epsilon in GENERATOR.uniform(0.01, 1.0, 200).tolist():
        binary = fc.Binary(epsilon=epsilon, horizon=2**11)
        assert 12 * Fraction(binary.noise.budgets[0]) <= Fraction(epsilon)
        assert binary.loss(10**18) <= binary.paper_loss(10**18) == epsilon


def test_levels_without_noise_cost_twice_the_level_below() -> None:
    budgets = (2.0**-30 * (1 + 2.0**-52), 0.1, math.inf, 2.0**14)
    mechanism = AnyLevels(budgets=(*budgets, math.inf))
    for age in AGES:
        assert mechanism.loss(age) == _up(_worst_case(mechanism.noise.budgets, age))


def test_a_loss_of_no_noise_is_infinite() -> None:
    mechanism = AnyLevels(budgets=(math.inf, 0.5))
    assert mechanism.loss(0) == mechanism.loss_of([1, 2], now=2) == math.inf
    assert mechanism.loss(1, position=2) == 0.5


def _worst_case(budgets: tuple[float, ...], age: int) -> Fraction:
    """The closed form for the first item, in rational arithmetic."""
    cost = [
        Fraction(each) if math.isfinite(each) else None for each in (*budgets, *budgets[-1:] * 62)
    ]
    whole: list[Fraction] = []
    for each in cost:
        choices = [
            choice for choice in (each, 2 * whole[-1] if whole else None) if choice is not None
        ]
        whole.append(min(choices))
    top = (age + 1).bit_length() - 1
    places = age + 2 - (1 << top)
    part = whole[0]
    for level in range(1, top + 1):
        choices = [
            choice
            for choice in (cost[level], part + whole[level - 1] * ((places - 1) >> (level - 1) & 1))
            if choice is not None
        ]
        part = min(choices)
    return sum(whole[:top], Fraction(0)) + part


def _up(exact: Fraction) -> float:
    nearest = exact.numerator / exact.denominator
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
