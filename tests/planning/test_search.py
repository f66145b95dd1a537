"""The search against the best of *all* patterns, where there are few enough to solve each of them.

Budgets keep the limits exactly if they keep them under some pattern, so the best over all patterns
is the true optimum.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from fadecount.planning.convex import least_noise, variance
from fadecount.planning.patterns import Choices, Limit, Patterns
from fadecount.planning.search import Search

NEAR = 1.01
LEVELS = 5


def best_of_all(shares: np.ndarray, limits: list[Limit]) -> float:
    patterns = Patterns(limits, len(shares))
    best = math.inf
    for own in itertools.product((True, False), repeat=len(shares) - 1):
        for stops in itertools.product(*(range(top + 1) for top in patterns.tops)):
            budgets, _ = least_noise(
                shares, patterns.matrix(Choices((True, *own), stops)), np.cbrt(shares), 1e-5
            )
            best = min(best, float(shares @ variance(budgets)))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_finds_nearly_the_best_of_all_patterns(seed: int) -> None:
    chance = random.Random(seed)
    horizon = chance.randint(1 << LEVELS - 1, (1 << LEVELS) - 1)
    shares = np.array([(horizon - (1 << level) + 1) / horizon for level in range(LEVELS)])
    low, high = sorted(chance.uniform(0.05, 3.0) for _ in range(2))
    limits = [
        Limit(most=low, parts=((chance.randint(1, 15), 1),)),
        Limit(most=high, parts=((horizon, 1),)),
    ]
    assert Search(shares, limits).run().noise <= NEAR * best_of_all(shares, limits)


def test_the_sufficient_condition_alone_is_not_enough() -> None:
    """A case in which the best pattern has a fifth less noise than paying once for every level."""
    shares = np.array([1.0, 0.95, 0.85, 0.6])
    limits = [Limit(most=0.2, parts=((4, 1),)), Limit(most=1.0, parts=((12, 1),))]
    patterns = Patterns(limits, 4)
    sufficient, _ = least_noise(shares, patterns.matrix(patterns.cumulative()), np.ones(4), 1e-5)
    found = Search(shares, limits).run()
    assert found.noise < 0.8 * float(shares @ variance(sufficient))
