"""Quantiles of the noise: never too small, and the smallest possible while the noise is narrow."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from fadecount.mechanisms.noise_law import scale_of, tail_bound
from fadecount.mechanisms.schedule import Schedule
from fadecount.mechanisms.weighted_law import quantile

BETA = 0.05


def quantile_of(budgets: list[float], beta: float) -> int:
    return int(quantile(tuple((Fraction(1), budget, 1) for budget in budgets), beta))


def tail(budgets: list[float], bound: int) -> float:
    """Pr[|sum| > bound] by convolution of the probabilities, in a window that holds all but 1e-14
    of each."""
    law = np.ones(1)
    for budget in budgets:
        scale = scale_of(budget, 0)
        reach = math.ceil(33 * scale) + 2
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
        law = np.convolve(law, one / one.sum())
    middle = len(law) // 2
    return 1.0 - float(law[max(0, middle - bound) : middle + bound + 1].sum())


@pytest.mark.parametrize(
    "budgets", [[0.5], [0.1, 0.2], [0.5, 0.25, 0.25], [3.0, 2.0], [0.05] * 5, [9.0]], ids=str
)
@pytest.mark.parametrize("beta", [0.05, 0.5, 0.001])
def test_it_is_the_smallest_integer_that_keeps_the_promise(
    budgets: list[float], beta: float
) -> None:
    found = quantile_of(budgets, beta)
    assert tail(budgets, found) <= beta + 1e-12
    assert found == 0 or tail(budgets, found - 1) > beta - 1e-9


@pytest.mark.parametrize("budgets", [[1e-4], [1e-4, 3e-5], [2.0**-30] * 5], ids=str)
def test_wide_noise_is_rounded_outward_and_by_little(budgets: list[float]) -> None:
    """The continuous law with the same scales, simulated; the bounds fail with probability below
    1e-9."""
    found = quantile_of(budgets, BETA)
    generator = np.random.default_rng(5)
    noise = sum(generator.laplace(scale=1.0 / budget, size=1_000_000) for budget in budgets)
    outside = float(np.mean(np.abs(np.asarray(noise)) > found))
    assert outside < BETA + 0.0014
    assert outside > BETA * 0.95 - 0.0014
    assert found < tail_bound(budgets, BETA, 0)


def test_levels_without_noise_add_nothing() -> None:
    first = np.ones(1, dtype=np.int64)
    for budgets, width in (((), 0), ((math.inf,), 0), ((0.5,), 6)):
        schedule = Schedule(budgets=budgets, alternating=True)
        assert schedule.half_widths(first, BETA).tolist() == [width]
    noisy = Schedule(budgets=(math.inf, 0.5))
    assert noisy.half_widths(3 * first, BETA).tolist() == [6]


def test_a_tiny_chance_gets_the_bound_of_chernoff() -> None:
    bound = quantile_of([0.5, 0.25], 1e-9)
    assert bound == math.floor(tail_bound([0.25, 0.5], 1e-9, 0)) > quantile_of([0.5, 0.25], 1e-6)


def test_more_noise_is_wider() -> None:
    widths = [quantile_of([0.1] * count, BETA) for count in range(1, 20)]
    assert all(narrow < wide for narrow, wide in pairwise(widths))
