"""Draws from system entropy have the stated distribution: tests that accept the true scale and
reject 2/3 and 3/2 of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fadecount.noise import DiscreteLaplace, SystemNoise
from tests.false_alarm import EACH, explained
from tests.noise.discrete import chance_of

DRAWS = 60_000
SCALES = [
    0.13,
    0.2,
    0.35,
    0.5,
    0.75,
    1.0,
    1.5,
    2.0,
    3.3,
    7.0,
    10.0,
    27.5,
    64.0,
    100.0,
    500.0,
    1023.0,
]
LARGE = [1025.0, 5e3, 3.3e4, 1e5, 4.7e5, 1e6, 2.0**30]
TINY = [0.01, 0.02, 0.05, 0.09]


@pytest.mark.parametrize("scale", [*SCALES, *LARGE])
def test_the_true_scale_is_accepted_and_others_are_rejected(scale: float) -> None:
    draws = drawn(scale, DRAWS)
    chance = chance_of(draws, scale)
    assert chance > EACH, explained(f"scale {scale}", chance)
    for wrong in (2 / 3, 3 / 2):
        assert chance_of(draws, wrong * scale) < EACH, (
            f"the test cannot tell {wrong:.3g} of scale {scale}"
        )


@pytest.mark.parametrize("scale", [0.2, 1.0, 100.0])
def test_single_draws_have_the_same_law(scale: float) -> None:
    source, distribution = SystemNoise(), DiscreteLaplace(scale)
    many = (source.many(distribution, 0, range(1), range(1), 1) for _ in range(20_000))
    draws = np.concatenate([each.ravel() for each in many])
    chance = chance_of(draws, scale)
    assert chance > EACH, explained(f"single draws at scale {scale}", chance)
    assert chance_of(draws, 1.5 * scale) < EACH
    assert chance_of(draws, scale / 1.5) < EACH


@pytest.mark.parametrize("scale", TINY)
def test_the_tail_of_a_tiny_scale(scale: float) -> None:
    """Nearly all draws are 0, so begin with zero bits enough that a magnitude of 1 is as likely as
    not.

    Given U < 2**-zeros, Pr[|z| >= 1] = 2**zeros * 2 q / (1 + q) exactly, and all of it is settled
    by further bits.
    """
    count = 500
    generator = np.random.default_rng(2)

    def chance_of_one(a_scale: float) -> float:
        return min(
            1.0,
            math.exp(
                zeros * math.log(2.0)
                + math.log(2.0)
                - 1.0 / a_scale
                - math.log1p(math.exp(-1.0 / a_scale))
            ),
        )

    zeros = 0
    zeros = math.floor(-math.log2(chance_of_one(scale)) - 1.0)
    whole, part = divmod(max(0, zeros - 63), 64)
    heads = (
        generator.integers(0, 1 << 63, count, dtype=np.uint64)
        >> np.uint64(min(zeros, 63))
        << np.uint64(1)
    )
    further = generator.integers(0, 1 << 63, (count, 12), dtype=np.uint64)

    def more(position: int, asked: int) -> int:
        if asked < whole:
            return 0
        return int(further[position, asked]) << 1 >> (part if asked == whole else 0)

    seen = int(np.abs(DiscreteLaplace(scale).from_words(heads, more)).astype(bool).sum())
    chance = stats.binomtest(seen, count, chance_of_one(scale)).pvalue
    assert chance > EACH, explained(f"tail of scale {scale}", chance)
    for wrong in (2 / 3, 3 / 2):
        assert stats.binomtest(seen, count, chance_of_one(wrong * scale)).pvalue < EACH


@pytest.mark.parametrize("scale", [0.5, 30.0, 1e5])
def test_signs_are_fair_and_independent_of_magnitudes(scale: float) -> None:
    draws = drawn(scale, DRAWS)
    draws = draws[draws != 0]
    chance = stats.binomtest(int((draws > 0).sum()), draws.size).pvalue
    assert chance > EACH, explained(f"signs at scale {scale}", chance)
    small = np.abs(draws) <= max(1, scale)
    table = [[int((small & (draws > 0)).sum()), int((small & (draws < 0)).sum())]]
    table.append([int((~small & (draws > 0)).sum()), int((~small & (draws < 0)).sum())])
    chance = float(stats.chi2_contingency(table).pvalue)
    assert chance > EACH, explained(f"signs and magnitudes at scale {scale}", chance)


def test_a_bias_of_the_sign_would_be_found() -> None:
    draws = np.abs(drawn(30.0, 2000))
    assert chance_of(draws, 30.0) < EACH


def test_a_draw_that_comes_twice_would_be_found() -> None:
    assert chance_of(np.repeat(drawn(30.0, 50), 1000), 30.0) < EACH


def test_impossible_scales() -> None:
    for scale in (0.0, -1.0, math.nan, math.inf, 2.0**41):
        with pytest.raises(ValueError, match="scale must be"):
            DiscreteLaplace(scale)


def drawn(scale: float, count: int) -> NDArray[np.int64]:
    return np.array(
        SystemNoise().many(DiscreteLaplace(scale), 0, range(1), range(1, 2), count)[0, 0]
    )
