"""Quantiles of sums of noise: never too small, and the smallest possible while the noise is
narrow."""

from __future__ import annotations

import math
import random
import tracemalloc
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import signal, stats

from fadecount.mechanisms import noise_distribution
from fadecount.mechanisms.noise_distribution import (
    Weighted,
    chernoff,
    quantile,
    quantiles,
    scale_of,
)
from fadecount.mechanisms.running_total import Schedule

BETA = 0.05


def tail_bound(*budgets: float, beta: float) -> float:
    ones = np.ones(len(budgets))
    return float(chernoff(ones, np.array([*map(scale_of, budgets)]), ones, beta))


def quantile_of(budgets: list[float], beta: float) -> int:
    return int(quantile(tuple((Fraction(1), budget, 1) for budget in budgets), beta))


def tail(budgets: list[float], bound: int) -> float:
    """Pr[|sum| > bound] by convolution of the probabilities, in a window that holds all but 1e-14
    of each."""
    distribution = np.ones(1)
    for budget in budgets:
        scale = scale_of(budget)
        reach = math.ceil(33 * scale) + 2
        one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
        distribution = np.convolve(distribution, one / one.sum())
    middle = len(distribution) // 2
    return 1.0 - float(distribution[max(0, middle - bound) : middle + bound + 1].sum())


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
    """The continuous distribution with the same scales, simulated; the bounds fail with probability
    below 1e-9."""
    found = quantile_of(budgets, BETA)
    generator = np.random.default_rng(5)
    noise = sum(generator.laplace(scale=1.0 / budget, size=1_000_000) for budget in budgets)
    outside = float(np.mean(np.abs(np.asarray(noise)) > found))
    assert outside < BETA + 0.0014
    assert outside > BETA * 0.95 - 0.0014
    assert found < tail_bound(*budgets, beta=BETA)


def test_levels_without_noise_add_nothing() -> None:
    first = np.ones(1, dtype=np.int64)
    for budgets, width in (((), 0), ((math.inf,), 0), ((0.5,), 6)):
        schedule = Schedule(budgets=budgets, alternating=True)
        assert schedule.half_widths(0 * first, first, BETA).tolist() == [width]
    noisy = Schedule(budgets=(math.inf, 0.5))
    assert noisy.half_widths(0 * first, 3 * first, BETA).tolist() == [6]


def test_a_tiny_chance_gets_the_bound_of_chernoff() -> None:
    bound = quantile_of([0.5, 0.25], 1e-9)
    assert bound == math.floor(tail_bound(0.25, 0.5, beta=1e-9)) > quantile_of([0.5, 0.25], 1e-6)


def test_more_noise_is_wider() -> None:
    widths = [quantile_of([0.1] * count, BETA) for count in range(1, 20)]
    assert all(narrow < wide for narrow, wide in pairwise(widths))


def test_whole_weights() -> None:
    budgets = (0.223, 0.277, 0.591, 0.909, 2.0)
    for counts, expected in (((4, 8, 11, 45, 5), 45), ((9, 11, 23, 58, 11), 59)):
        terms = tuple((Fraction(1), b, n) for b, n in zip(budgets, counts, strict=True))
        assert quantile(terms, 0.05) == expected


def test_fractions_against_simulation() -> None:
    terms = ((Fraction(2, 3), 0.3, 4), (Fraction(-1, 3), 0.3, 8), (Fraction(1, 7), 0.1, 2))
    generator = np.random.default_rng(5)
    total = np.zeros(400_000)
    for weight, budget, count in terms:
        p = 1 - math.exp(-budget)
        draws = generator.geometric(p, (2, count, total.size))
        total += float(weight) * (draws[0] - draws[1]).sum(axis=0)
    for beta in (0.5, 0.05, 0.01):
        share = np.mean(np.abs(total) > quantile(terms, beta))
        assert beta * 0.93 - 0.001 < share < beta * 1.02 + 0.001


def test_bands_hold_where_weights_are_rounded() -> None:
    """Against exact convolution: weights whose common denominator is above 64. Weights rounded
    away from 0 alone would not do: distributions on different lattices are not ordered."""
    chance = random.Random(7)
    for _ in range(40):
        denominator = chance.choice([65, 67, 72, 97, 120])
        terms = tuple(
            (
                Fraction(chance.randint(1, denominator), denominator),
                chance.choice([0.7, 1.0, 2.0]),
                chance.randint(1, 2),
            )
            for _ in range(chance.randint(1, 3))
        )
        distribution = {0: 1.0}
        for weight, budget, count in terms:
            unit, one = int(weight * denominator), math.tanh(budget / 2)
            for _ in range(count):
                spread: dict[int, float] = {}
                for at, mass in distribution.items():
                    for draw in range(-12, 13):
                        place = at + unit * draw
                        share = mass * one * math.exp(-budget * abs(draw))
                        spread[place] = spread.get(place, 0.0) + share
                distribution = {at: mass for at, mass in spread.items() if mass > 1e-12}
        for beta in (0.2, 0.05):
            bound = quantile(terms, beta)
            inside = sum(
                m for at, m in distribution.items() if abs(at) <= bound * denominator + 1e-9
            )
            outside = sum(distribution.values()) - inside
            assert outside <= beta
            narrow = (bound - 0.6) * denominator
            assert sum(m for at, m in distribution.items() if abs(at) >= narrow) > beta / 2


def test_small_chances_get_a_bound() -> None:
    one = ((Fraction(1), 0.5, 1),)
    assert quantile(one, 1e-9) > quantile(one, 1e-5) > quantile(one, 0.01)
    assert quantile((), 0.05) == 0


@pytest.mark.parametrize("beta", [0.5, 0.05, 0.001, 1e-5])
def test_wide_noise_is_never_too_small_and_too_wide_by_little(beta: float) -> None:
    """One variable has a known tail; many are almost normal."""
    for budget in (1e-4, 1e-9):
        exact = math.log(1 / beta) / budget
        found = quantile(((Fraction(1), budget, 1),), beta)
        assert exact <= found
        assert math.exp(-found * budget) > 0.96 * beta
    for count in (10**5, 10**7):
        variance = count * (0.25 + 4.0) * 0.5 / math.sinh(0.25) ** 2
        terms = ((Fraction(1, 2), 0.5, count), (Fraction(-2), 0.5, count))
        found = quantile(terms, beta) / math.sqrt(variance)
        assert beta > 2 * stats.norm.sf(found) > 0.96 * beta


@pytest.mark.parametrize("copies", [2, 3])
def test_sums_of_alike_noises_against_convolution(copies: int) -> None:
    """The smooth distribution of the sum of several keys, whose weights have no common grid,
    against the distribution of one key, convolved with itself on a grid of 1/720."""
    terms = ((Fraction(1), 0.6, 2), (Fraction(7, 720), 0.9, 30), (Fraction(-713, 720), 0.9, 3))
    distribution = np.ones(1)
    for weight, budget, count in terms:
        unit = abs(int(weight * 720))
        reach = math.ceil(34 / budget)
        one = np.zeros(2 * unit * reach + 1)
        one[::unit] = np.exp(-budget * np.abs(np.arange(-reach, reach + 1)))
        for _ in range(count):
            distribution = signal.fftconvolve(distribution, one / one.sum())
    whole = distribution
    for _ in range(copies - 1):
        whole = signal.fftconvolve(whole, distribution)
    middle = len(whole) // 2
    for beta in (0.2, 0.05, 0.01):
        many = tuple((weight, budget, count * copies) for weight, budget, count in terms)
        bound = quantile(many, beta) * 720
        outside, just_inside = (
            1.0 - float(whole[middle - reach : middle + reach + 1].sum())
            for reach in (math.floor(bound + 1e-6), math.floor(0.99 * bound))
        )
        assert outside <= beta < just_inside


def test_a_sum_over_many_keys_takes_a_small_grid() -> None:
    """An exact one would take 300 MB, and a hundred times as long."""
    terms = tuple((Fraction(n, 720), 0.1 + n / 900, 10**5 * n) for n in range(1, 20))
    noise_distribution._known.clear()
    tracemalloc.start()
    quantile(terms, 0.05)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_the_bound_holds() -> None:
    assert chernoff([0.0], np.array([2.0]), np.array([1.0]), 0.01) == 0.0
    bound = chernoff(np.array([1.0]), np.array([2.0]), np.array([1.0]), 0.01)
    p = math.exp(-0.5)
    assert 2 * p ** (math.floor(bound) + 1) / (1 + p) < 0.01


def test_many_at_once_are_what_each_is_alone() -> None:
    """Distributions of several grids and sizes; the second time they are known."""
    chance = random.Random(11)
    noises: list[Weighted] = [()]
    for _ in range(80):
        bottom = chance.choice([1, 2, 3, 20, 64, 65, 360])
        noises.append(
            tuple(
                (Fraction(chance.randint(-bottom, bottom), bottom), budget, chance.randint(1, 30))
                for budget in (0.02, 0.24, 0.24, 0.55)[: chance.randint(1, 4)]
            )
        )
    noises.append(((Fraction(1), 1e-5, 3),))
    for beta in (0.05, 1e-7):
        noise_distribution._known.clear()
        together = quantiles(noises, beta)
        assert quantiles(noises, beta) == together
        noise_distribution._known.clear()
        assert [quantile(noise, beta) for noise in noises] == together


def test_what_is_kept_is_bounded() -> None:
    noise_distribution._known.clear()
    one = Fraction(1)
    many = [((one, 2.0, count),) for count in range(1, noise_distribution._MOST_KNOWN + 2)]
    first = quantiles(many[:2], 1e-7)
    assert quantiles(many, 1e-7)[:2] == first
    assert len(noise_distribution._known) == len(many) - 2
    quantiles([((one, 3.0, 1),), ((one, 4.0, 1),)], 1e-7)
    assert len(noise_distribution._known) == 2


@pytest.mark.parametrize(
    ("weight", "others"),
    [(Fraction(1), ()), (Fraction(1), ((Fraction(1), 0.4, 2),)), (Fraction(1, 3), ())],
)
@pytest.mark.parametrize("count", [1, 40])
def test_less_by_independent_noise(weight: Fraction, others: Weighted, count: int) -> None:
    """What turns noise of one budget into that of a smaller one: 0, or noise of the smaller."""
    coarse, sharp = 0.25, 0.3
    p, q = (math.exp(-1 / scale_of(each)) for each in (coarse, sharp))
    zero = q / p * ((1 - p) / (1 - q)) ** 2
    reach = 60 * count
    distribution = (1 - zero) * (1 - p) / (1 + p) * p ** np.abs(np.arange(-reach, reach + 1))
    distribution[reach] += zero
    size = 4 * reach * count + 1
    transform = (
        np.fft.rfft(np.roll(np.pad(distribution, (0, size - len(distribution))), -reach)) ** count
    )
    for _, budget, times in others:
        r = math.exp(-1 / scale_of(budget))
        one = (1 - r) / (1 + r) * r ** np.abs(np.arange(-reach, reach + 1))
        transform *= np.fft.rfft(np.roll(np.pad(one, (0, size - len(one))), -reach)) ** times
    both = np.fft.irfft(transform, size)

    def outside(bound: int) -> float:
        return 1.0 - float(both[: bound + 1].sum() + both[size - bound :].sum() * (bound > 0))

    noise = ((weight, coarse, count), (weight, sharp, -count), *others)
    found = quantile(noise, BETA) / weight
    assert found == pytest.approx(round(found))
    assert outside(round(found)) <= BETA + 1e-9
    assert found == 0 or outside(round(found) - 1) > BETA - 1e-9
