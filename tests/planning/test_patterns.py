"""Patterns against the exact loss: the cheapest one is the loss, and no other is below it."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import fadecount as fc
from fadecount.planning.convex import least_noise, variance
from fadecount.planning.patterns import Choices, Limit, Patterns

LEVELS = 12
PRECISION = 1e-7


def random_budgets(chance: random.Random) -> list[float]:
    return [chance.uniform(0.1, 1.0)] + [
        chance.choice([math.inf, chance.uniform(0.05, 3.0)]) for _ in range(LEVELS - 1)
    ]


@pytest.mark.parametrize("seed", range(100))
def test_the_cheapest_pattern_is_the_exact_loss_and_the_others_are_above(seed: int) -> None:
    chance = random.Random(seed)
    budgets = random_budgets(chance)
    reaches = sorted(
        {chance.randint(1, 1 << chance.randint(1, LEVELS)) for _ in range(5)} - {1 << LEVELS}
    )
    patterns = Patterns([Limit(most=1.0, parts=((reach, 1),)) for reach in reaches], LEVELS)
    exact = [fc.Designed(budgets=budgets).loss(reach - 1) for reach in reaches]
    assert paid(patterns, patterns.cheapest(np.array(budgets)), budgets) == pytest.approx(
        exact, rel=1e-12
    )
    for _ in range(10):
        own = (True, *(chance.random() < 0.5 for _ in range(LEVELS - 1)))
        other = Choices(own, tuple(chance.randint(0, top) for top in patterns.tops))
        assert all(
            cost >= loss * (1 - 1e-12)
            for cost, loss in zip(paid(patterns, other, budgets), exact, strict=True)
        )


def paid(patterns: Patterns, choices: Choices, budgets: list[float]) -> list[float]:
    rows = patterns.matrix(choices).tolist()
    return [
        sum(often * budget for often, budget in zip(row, budgets, strict=True) if often)
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(25))
def test_the_convex_core_agrees_with_scipy(seed: int) -> None:
    chance = np.random.default_rng(seed)
    levels, rows = int(chance.integers(1, 9)), int(chance.integers(1, 6))
    limits = chance.uniform(0.1, 3.0, (rows, levels)) * (chance.random((rows, levels)) < 0.7)
    limits[0] += 0.05
    shares = chance.uniform(0.05, 1.0, levels)
    found, _ = least_noise(shares, limits, np.ones(levels), PRECISION)
    assert (limits @ found).max() <= 1.0 + 1e-12
    room = {"type": "ineq", "fun": lambda logs: 1.0 - limits @ np.exp(logs)}
    start = np.log(np.full(levels, 0.5 / limits.sum(axis=1).max()))
    solve: Any = minimize
    answer = solve(
        lambda logs: math.log(shares @ variance(np.exp(logs))),
        start,
        method="SLSQP",
        constraints=[room],
        options={"maxiter": 1000},
    )
    assert shares @ variance(found) <= 1.0001 * math.exp(float(answer.fun))


def test_a_level_without_limit_gets_no_noise() -> None:
    found, prices = least_noise(np.ones(3), np.array([[1.0, 0.0, 1.0]]), np.ones(3), PRECISION)
    assert found[1] == math.inf
    assert found[0] == pytest.approx(0.5, rel=1e-4)
    assert prices[0] > 0
