"""The discrete Laplace distribution, written down once more for the tests: probabilities, and
boundaries to many digits."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import stats

DIGITS = 120
"""Decimal digits of the arithmetic that the sampler is compared with."""

SMALLEST_EXPECTED = 50.0
"""Expected draws in each bin of a chi-square test, so that its tail is what tables say."""


def cumulative(values: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Pr[z <= value] for the distribution Pr[z] ~ exp(-|z| / scale)."""
    at = values.astype(np.float64)
    q = math.exp(-1.0 / scale)
    below = np.exp(np.minimum(at, 0.0) / scale) / (1.0 + q)
    above = 1.0 - np.exp(-np.maximum(at + 1.0, 0.0) / scale) / (1.0 + q)
    return np.where(at < 0, below, above)


def chance_of(draws: NDArray[np.int64], scale: float) -> float:
    """The p-value of a chi-square test that the draws have this scale, over bins of enough expected
    draws."""
    shares = np.linspace(0.0, 1.0, 42)[1:-1]
    cuts = (
        np.where(
            shares < 0.5,
            np.log(2.0 * np.minimum(shares, 0.5)),
            -np.log(2.0 * np.minimum(1.0 - shares, 0.5)),
        )
        * scale
    )
    edges = np.unique(np.concatenate([np.rint(cuts).astype(np.int64), np.arange(-3, 3)]))
    expected = np.diff(cumulative(edges, scale), prepend=0.0, append=1.0) * len(draws)
    seen = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(expected)).astype(
        np.float64
    )
    large = expected >= SMALLEST_EXPECTED
    rest_expected, rest_seen = expected[~large].sum(), seen[~large].sum()
    statistic = float((((seen - expected) ** 2) / np.maximum(expected, 1e-300))[large].sum())
    freedom = int(large.sum()) - 1
    if rest_expected >= SMALLEST_EXPECTED:
        statistic, freedom = (
            statistic + (rest_seen - rest_expected) ** 2 / rest_expected,
            freedom + 1,
        )
        rare = 1.0
    else:  # too rare for chi-square: an exact test of their number, and the worse of the two
        rare = float(stats.poisson.sf(rest_seen - 1, rest_expected)) if rest_seen else 1.0
    common = float(stats.chi2.sf(statistic, freedom)) if freedom > 0 else 1.0
    return min(1.0, 2.0 * min(common, rare))


@lru_cache(maxsize=64)
def _constants(scale: float) -> tuple[Any, Any, Any]:
    with mpmath.workdps(DIGITS):
        exact = mpmath.mpf(scale)
        return exact, mpmath.log(2), mpmath.log(2 / (1 + mpmath.exp(-1 / exact)))


def argument(scale: float, numerator: int, length: int, digits: int = DIGITS) -> Any:
    """s * (-ln U) + s * ln(2 / (1 + q)) for U = numerator / 2**length."""
    exact, log_of_two, centre = _constants(scale)
    with mpmath.workdps(digits):
        return exact * (length * log_of_two - mpmath.log(numerator) + centre)


def boundary(scale: float, magnitude: int) -> Any:
    """U_m = 2 q**m / (1 + q): the draw has at least this magnitude if U is at most U_m."""
    with mpmath.workdps(DIGITS):
        exact = mpmath.mpf(scale)
        return 2 * mpmath.exp(-magnitude / exact) / (1 + mpmath.exp(-1 / exact))


def exact_draw(scale: float, word: int, more: list[int]) -> int:
    """The draw that a word and further words determine, in arithmetic of many digits. Fails if they
    do not determine it."""
    bits, length = word >> 1, 63
    if bits:  # mostly, forty digits and a bound on what further bits can do are enough
        rough = argument(scale, bits, length, digits=40)
        whole = int(rough)
        if 1.01 * scale / bits + 1e-20 < rough - whole < 1.0 - 1e-20:
            return -whole if word & 1 else whole
    for further in [*more, None]:
        highest = mpmath.floor(argument(scale, bits, length)) if bits else None
        if highest is not None and highest == mpmath.floor(argument(scale, bits + 1, length)):
            return int(-highest if word & 1 else highest)
        assert further is not None, "the words given do not determine the draw"
        bits, length = bits << 64 | further, length + 64
    raise AssertionError
