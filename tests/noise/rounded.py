"""The rounded Gaussian law, written down once more for the tests: probabilities, and draws in
arithmetic of many digits."""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from itertools import chain, cycle, islice
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fadecount.noise import RoundedGaussian

DIGITS = 80
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


def _cell(scale: float, bits: int, length: int) -> int | None:
    """The cell of all numbers that begin with these bits; None if there is no such cell."""
    if not 0 < bits < (1 << length) - 1:
        return None
    with mpmath.workdps(DIGITS):
        low, high = (mpmath.mpf(each) / mpmath.mpf(2) ** length for each in (bits, bits + 1))
        rough = special.ndtri(float(low)) if low < 0.5 else -special.ndtri(float(1 - low))
        guess = math.floor((rough * scale + 0.5) / width_of(scale))
        while boundary(scale, guess) > low:
            guess -= 1
        while boundary(scale, guess + 1) <= low:
            guess += 1
        return guess if boundary(scale, guess + 1) >= high else None


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


def _below(bits: int, length: int, chance: Any) -> bool | None:
    """Whether all numbers that begin with these bits are below a chance, or none is; else None."""
    with mpmath.workdps(DIGITS):
        low, high = (mpmath.mpf(each) / mpmath.mpf(2) ** length for each in (bits, bits + 1))
        return True if high <= chance else False if low >= chance else None


def _drawn(scale: float, surely: int) -> Generator[str, int, int]:
    """One draw, in arithmetic of many digits. It asks for words by their use: the first one, the
    further bits of the cell and of the acceptance, and a new place."""
    width = width_of(scale)
    word = yield "first"
    cell = _cell(scale, word >> 48, 16)
    at_once = cell is not None and (word >> 32) % (1 << 16) < surely
    if cell is None:
        bits, length = word >> 48 << 48 | (yield "cell") >> 16, 64
        while (cell := _cell(scale, bits, length)) is None:
            bits, length = bits << 64 | (yield "more"), length + 64
    while True:
        place = cell * width + word % width
        with mpmath.workdps(DIGITS):
            chance = _chance(scale, place, cell)
        if at_once:
            assert surely <= chance * (1 << 16)
            return place
        bits, length = (word >> 32) % (1 << 16) << 48 | (yield "acceptance") >> 16, 64
        while (accepted := _below(bits, length, chance)) is None:
            bits, length = bits << 64 | (yield "more"), length + 64
        if accepted:
            return place
        word = yield "again"


def exact_draws(law: RoundedGaussian, count: int, words: Iterator[int]) -> list[int]:
    """What ``law.fill`` makes of these words. Each use of words comes for all draws at once; the
    very few further ones of a draw come at its turn."""
    draws = [_drawn(law.scale, law._surely) for _ in range(count)]
    uses, made = [next(each) for each in draws], [0] * count
    for use in chain(["first", "cell"], cycle(["acceptance", "again"])):
        waiting = [at for at, wanted in enumerate(uses) if wanted == use]
        for at, word in list(zip(waiting, islice(words, len(waiting)), strict=True)):
            try:
                uses[at] = draws[at].send(word)
                while uses[at] == "more":
                    uses[at] = draws[at].send(next(words))
            except StopIteration as stop:
                uses[at], made[at] = "none", stop.value
        if {*uses} <= {"none"}:
            break
    return made


class Script:
    """Words that begin with given ones; then they are a function of a seed."""

    def __init__(self, given: Iterable[int] = (), seed: int = 0) -> None:
        further = random.Random(seed)
        self.asked = 0
        self.each = chain(given, iter(lambda: further.getrandbits(64), None))

    def __call__(self, count: int) -> NDArray[np.uint64]:
        self.asked += count
        return np.array(list(islice(self.each, count)), dtype=np.uint64)


def differing(law: RoundedGaussian, count: int, words: Iterable[int] = (), seed: int = 0) -> int:
    """How many of the draws from a script are not those of exact arithmetic."""
    draws = law.fill(np.empty(count, dtype=np.int64), Script(words, seed)).tolist()
    exact = exact_draws(law, count, Script(words, seed).each)
    return sum(draw != wanted for draw, wanted in zip(draws, exact, strict=True))
