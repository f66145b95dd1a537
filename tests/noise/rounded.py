"""The rounded Gaussian law, written down once more for the tests: probabilities, and draws in
arithmetic of many digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

DIGITS = 60
SMALLEST_EXPECTED = 50.0
"""Expected draws in each bin of a chi-square test, so that its tail is what tables say."""


def chance_of(draws: NDArray[np.int64], scale: float) -> float:
    """The p-value of a chi-square test that the draws have this standard deviation, over bins of
    enough expected draws."""
    cuts = special.ndtri(np.linspace(0.0, 1.0, 42)[1:-1]) * scale
    edges = np.unique(np.concatenate([np.rint(cuts).astype(np.int64), np.arange(-3, 3)]))
    expected = np.diff(special.ndtr((edges + 0.5) / scale), prepend=0.0, append=1.0) * len(draws)
    seen = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(expected)).astype(
        np.float64
    )
    large = expected >= SMALLEST_EXPECTED
    rest_expected, rest_seen = expected[~large].sum(), seen[~large].sum()
    statistic = float((((seen - expected) ** 2) / np.maximum(expected, 1e-300))[large].sum())
    freedom = int(large.sum()) - 1
    rare = float(stats.poisson.sf(rest_seen - 1, rest_expected)) if rest_seen else 1.0
    common = float(stats.chi2.sf(statistic, freedom)) if freedom > 0 else 1.0
    return min(1.0, 2.0 * min(common, rare))


def width_of(scale: float) -> int:
    """How many integers a cell holds."""
    return 1 << min(32, math.floor(math.log2(scale)) - 7)


@lru_cache(maxsize=1 << 17)
def boundary(scale: float, cell: int) -> Any:
    """Phi((cell * width - 1/2) / scale): where a cell begins."""
    with mpmath.workdps(DIGITS):
        return mpmath.ncdf(
            (mpmath.mpf(cell) * width_of(scale) - mpmath.mpf("0.5")) / mpmath.mpf(scale)
        )


def _cell(scale: float, uniform: Any) -> int:
    rough = (
        -float(special.ndtri(float(1 - uniform)))
        if uniform > 0.5
        else float(special.ndtri(float(uniform)))
    )
    guess = math.floor((rough * scale + 0.5) / width_of(scale))
    while boundary(scale, guess) > uniform:
        guess -= 1
    while boundary(scale, guess + 1) <= uniform:
        guess += 1
    return guess


def _chance(scale: float, place: int, cell: int) -> Any:
    """The probability of accepting a place in a cell, in arithmetic of many digits."""
    width = width_of(scale)
    nearest = (
        mpmath.mpf(0) if cell == 0 else mpmath.mpf((cell + (cell < 0)) * width) - mpmath.mpf("0.5")
    )
    exact = mpmath.mpf(scale)
    mass = mpmath.ncdf((place + mpmath.mpf("0.5")) / exact) - mpmath.ncdf(
        (place - mpmath.mpf("0.5")) / exact
    )
    return exact * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(nearest**2 / (2 * exact**2)) * mass


def exact_draw(scale: float, word: int, more: Callable[[int], int]) -> int:
    """The draw that a word and further words determine, in arithmetic of many digits.

    Further words 0, 3, 6, ... belong to the uniform number that chooses the cell, 1, 4, 7, ... are
    new places, and the others belong to the numbers that accept a place.
    """
    width = width_of(scale)
    with mpmath.workdps(DIGITS):
        begun = (word >> 48 << 48) | more(0) >> 16
        cell = _cell(
            scale, mpmath.mpf(begun << 128 | more(3) << 64 | more(6)) / mpmath.mpf(2) ** 192
        )
        attempt = 0
        while True:
            place = cell * width + word % width
            numbers = [
                3 * ((attempt + asked) * (attempt + asked + 1) // 2 + asked) + 2
                for asked in range(3)
            ]
            test = (word >> 32) % (1 << 16) << 48 | more(numbers[0]) >> 16
            uniform = (
                mpmath.mpf(test << 128 | more(numbers[1]) << 64 | more(numbers[2]))
                / mpmath.mpf(2) ** 192
            )
            if uniform < _chance(scale, place, cell):
                return place
            word, attempt = more(3 * attempt + 1), attempt + 1
