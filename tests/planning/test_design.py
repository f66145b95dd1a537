"""Designs keep their targets exactly, and no simpler way has less error."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.planning.cutting_planes import cheapest_way
from tests.planning.oracles import convex_mse, gradual_mse, limit_at, random_targets

WORSE = 1.001
ROUNDING = 1.0 + 1e-9
SETS = 52


@pytest.mark.parametrize("seed", range(SETS))
def test_never_worse_than_an_independent_convex_solver(seed: int) -> None:
    targets, horizon = random_targets(random.Random(seed))
    assert fc.design(targets=targets, horizon=horizon, head_start=0).mse(
        horizon
    ) <= WORSE * convex_mse(targets, horizon)


@pytest.mark.parametrize("seed", range(SETS))
def test_never_worse_than_the_best_gradual_curve(seed: int) -> None:
    targets, horizon = random_targets(random.Random(1000 + seed))
    assert fc.design(targets=targets, horizon=horizon, head_start=0).mse(
        horizon
    ) <= ROUNDING * gradual_mse(targets, horizon)


def test_often_much_better_than_the_convex_solution() -> None:
    """The exact condition is worth something: without it this would be 1."""
    ratios = []
    for seed in range(8):
        targets, horizon = random_targets(random.Random(seed))
        ratios.append(
            fc.design(targets=targets, horizon=horizon, head_start=0).mse(horizon)
            / convex_mse(targets, horizon)
        )
    assert np.mean(ratios) < 0.97
    assert min(ratios) < 0.8


@pytest.mark.parametrize("seed", range(60))
def test_keeps_every_target_at_every_age(seed: int) -> None:
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=3.5)
    delay = chance.choice([0, 0, min(targets)]) if min(targets) < horizon else 0
    objective = chance.choice(["mse", "worst"])
    started = None if seed < 10 else 0
    design = fc.design(
        targets=targets, horizon=horizon, delay=delay, objective=objective, head_start=started
    )
    limits = np.array([limit_at(targets, age) for age in range(horizon + 1)])
    assert np.all(design.loss(np.arange(horizon + 1)) <= limits)
    assert (
        np.max(np.asarray(design.loss(np.arange(horizon + 1))) / limits) > 1.0 - 1e-9
    )  # nothing is given away


@pytest.mark.parametrize("seed", range(30))
def test_keeps_targets_over_long_horizons(seed: int) -> None:
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=18.0)
    design = fc.design(targets=targets, horizon=horizon, head_start=None if seed < 5 else 0)
    ages = sorted({*targets, horizon, *(int(horizon ** chance.random()) for _ in range(50))})
    assert all(design.loss(age) <= limit_at(targets, age) for age in ages)


def test_the_longest_horizon() -> None:
    design = fc.design(targets={0: 0.1, 1 << 59: 3.0, 1 << 60: 4.0}, horizon=1 << 60)
    assert design.loss(1 << 59) <= 3.0
    assert design.loss((1 << 60) - 1) <= 4.0


def test_levels_without_noise_are_candidates() -> None:
    targets = {0: 0.05, 10_000: 4.0}
    design = fc.design(targets=targets, horizon=10_000, head_start=0)
    assert design.budgets[1:3] == (math.inf, math.inf)
    assert math.isfinite(design.budgets[-1])  # past the horizon the loss goes on growing slowly
    assert design.mse(10_000) < 0.95 * convex_mse(targets, 10_000)


def test_the_worst_step_has_less_variance_when_asked_for() -> None:
    targets, horizon = {0: 0.2, 100: 1.0}, 600
    mean, worst = (
        fc.design(targets=targets, horizon=horizon, objective=name, head_start=0)
        for name in ("mse", "worst")
    )
    assert worst.variance(horizon) < mean.variance(horizon)
    assert mean.mse(horizon) < worst.mse(horizon)


def test_large_losses_leave_hardly_any_noise() -> None:
    assert fc.design(targets={0: 500.0, 1000: 20000.0}, horizon=1000).mse(1000) < 1e-100


def test_a_design_comes_back_from_json() -> None:
    design = fc.design(targets={0: 0.05, 10_000: 4.0}, horizon=10_000)
    assert fc.Mechanism.from_json(design.to_json()) == design


# A head start
# ------------------------------------------------------------------------------------------------
YEAR = {60: 0.5, 43_200: 2.0, 525_600: 4.0}


def test_a_year_of_minutes_has_a_quarter_less_error() -> None:
    """The best exponent under the paper's theorem has an error of 114, the best design without a
    head start one of 49."""
    design = fc.design(targets=YEAR, horizon=525_600)
    assert design.head_start > 0
    assert math.sqrt(design.mse(525_600)) < 37.0
    assert all(design.loss(age) <= most for age, most in YEAR.items())


@pytest.mark.parametrize("seed", range(6))
def test_a_head_start_is_taken_only_where_it_helps(seed: int) -> None:
    targets, horizon = random_targets(random.Random(seed))
    plain = fc.design(targets=targets, horizon=horizon, head_start=0)
    assert plain.head_start == 0
    assert fc.design(targets=targets, horizon=horizon).mse(horizon) <= plain.mse(horizon)


def test_a_head_start_of_ones_own() -> None:
    design = fc.design(targets={10: 0.5, 500: 2.0}, horizon=500, head_start=3)
    assert design.head_start == 3
    assert design.loss(10) <= 0.5
    assert design.loss(500) <= 2.0
    with pytest.raises(ParameterError, match="head_start must be"):
        fc.design(targets={10: 0.5}, horizon=500, head_start=-1)


@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_way_costs_the_loss(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(4, 12)
    budgets = tuple(
        math.inf if at and chance.random() < 0.25 else math.exp(chance.uniform(-2, 2))
        for at in range(count)
    )
    first = chance.randrange(1, 1 << (count - 2))
    last = first + chance.randrange(1 << (count - 2))
    paid = cheapest_way(budgets, first, last)
    cost = sum(
        times * budget for times, budget in zip(paid.tolist(), budgets, strict=True) if times
    )
    assert cost == pytest.approx(
        fc.Designed(budgets=(*budgets, math.inf)).loss(last - first, position=first), rel=1e-9
    )


# A person
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(25))
def test_no_person_loses_more_than_the_targets(seed: int) -> None:
    """Any placement of the contributions that keeps the cap: the oldest at most ``age`` old."""
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=3.0)
    events, steps = chance.randint(1, 5), chance.choice([None, 1, 2, 7, 50])
    person, started = fc.Person(events=events, steps=steps), None if seed < 5 else 0
    design = fc.design(targets=targets, horizon=horizon, person=person, head_start=started)
    for age, limit in targets.items():
        for first in {1, chance.randint(1, horizon)}:
            ages = [age] if steps is None else range(age, -1, -steps)
            crowded = [first + age - each for each in ages for _ in range(events)]
            assert design.loss_of(crowded, now=first + age) <= limit * (1 + 1e-12)
        bound = sum(
            events * Fraction(design.loss(each))
            for each in ([age] if steps is None else range(age, -1, -steps))
        )
        assert bound <= Fraction(limit)


def test_keys_of_a_person_count_like_events_for_pure_losses() -> None:
    targets = {0: 0.1, 60: 0.5, 1000: 4.0}
    several = fc.design(
        targets=targets,
        horizon=1000,
        person=fc.Person(events=2, keys=3, per_step=True),
        head_start=0,
    )
    assert several == fc.design(
        targets=targets, horizon=1000, person=fc.Person(events=6), head_start=0
    )
    for age, limit in targets.items():
        assert several.composed_loss(age, sensitivity=2, keys=3).epsilon <= limit
    with pytest.raises(ParameterError, match="steps must be left out with per_step"):
        fc.Person(steps=5, per_step=True)


def test_a_person_with_one_event_is_an_event() -> None:
    targets = {0: 0.1, 60: 0.5, 10**6: 4.0}
    assert fc.design(targets=targets, horizon=10**6, person=fc.Person()) == fc.design(
        targets=targets, horizon=10**6
    )


def test_more_contributions_cost_more_error() -> None:
    targets = {60: 0.5, 525_600: 4.0}
    errors = [
        fc.design(targets=targets, horizon=525_600, person=person, head_start=0).mse(525_600)
        for person in (
            None,
            fc.Person(events=24),
            fc.Person(events=24, steps=525_600),
            fc.Person(events=24, steps=1440),
        )
    ]
    assert errors == sorted(errors)
    assert errors[1] == pytest.approx(24**2 * errors[0], rel=5e-3)


def test_a_person_over_a_very_long_horizon() -> None:
    design = fc.design(
        targets={1 << 59: 3.0},
        horizon=1 << 59,
        person=fc.Person(events=3, steps=1 << 40),
        head_start=0,
    )
    bound = sum(
        3 * Fraction(design.loss((1 << 59) - at * (1 << 40)))
        for at in range((1 << 19) + 1)[:: 1 << 14]
    )
    assert bound <= 3  # one period in many is well within


# Senseless wishes
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"targets": {}}, "targets must be a mapping"),
        ({"targets": [1.0]}, "targets must be a mapping"),
        ({"targets": {0: 0.0}}, "target loss at age 0 must be"),
        ({"targets": {0: -1.0}}, "target loss at age 0 must be"),
        ({"targets": {0: math.nan}}, "target loss at age 0 must be"),
        ({"targets": {0: math.inf}}, "target loss at age 0 must be"),
        ({"targets": {0: "much"}}, "target loss at age 0 must be"),
        ({"targets": {0: 1.0, 5: 0.5}}, "targets must not decrease with age"),
        ({"targets": {1001: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {-1: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {0.5: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {5: 1.0}, "delay": 6}, "targets must lie at or past the delay"),
        ({"targets": {5: 1.0}, "delay": 1000}, "delay must be less than the horizon"),
        ({"targets": {5: 1.0}, "delay": -1}, "delay must be an integer"),
        ({"targets": {5: 1e-9}}, "targets must be within reach"),
        ({"targets": {5: 1.0}, "objective": "best"}, "objective must be one of mse, worst"),
        ({"targets": {5: 1.0}, "horizon": 0}, "horizon must be an integer"),
        ({"targets": {5: 1.0}, "horizon": (1 << 60) + 1}, "horizon must be an integer"),
        ({"targets": {5: 1.0}, "person": 24}, "person must be a Person"),
    ],
)
def test_senseless_wishes_get_one_clear_line(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=f"^{words}") as refused:
        fc.design(**{"horizon": 1000, **wishes})
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value)  # the remedy


@pytest.mark.parametrize(
    "wishes", [{"events": 0}, {"events": 1.5}, {"steps": 0}, {"steps": "day"}, {"keys": 0}]
)
def test_senseless_persons_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="must be an integer"):
        fc.Person(**wishes)
