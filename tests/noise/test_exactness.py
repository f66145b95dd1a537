"""Each draw is the one that exact arithmetic gives for the same bits: by mpmath, for ordinary and
for adversarial words."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from fadecount.noise import DiscreteLaplace
from tests.noise.discrete import DIGITS, argument, boundary, exact_draw

SCALES = [2.0**-14, 0.01, 0.07, 0.3, 0.5, 0.9, 1.0, 1.7, 2.0, 5.0, 12.5, 1 / 0.03, 100.0, 999.0]
LARGE = [1e4, 65536.0, 3e5, 1e6, 1e8, 2.0**30, 1e11, 2.0**39 * 1.1, 2.0**40]
WORDS = 4400
FURTHER = [0x9E3779B97F4A7C15 * at & (1 << 64) - 1 for at in range(1, 9)]


def further(_position: int, asked: int) -> int:
    return FURTHER[asked]


@pytest.mark.no_cover
@pytest.mark.parametrize("scale", [*SCALES, *LARGE])
def test_random_words(scale: float) -> None:
    words = np.random.default_rng(8).integers(0, 1 << 64, WORDS, dtype=np.uint64)
    draws = DiscreteLaplace(scale).from_words(words, further)
    for word, draw in zip(words.tolist(), draws.tolist(), strict=True):
        assert draw == exact_draw(scale, word, FURTHER), hex(word)


@pytest.mark.no_cover
@pytest.mark.parametrize("scale", [*SCALES, *LARGE])
def test_adversarial_words(scale: float) -> None:
    """The smallest and largest words, and those beside which the draw changes."""
    bits = [*range(40), *((1 << 63) - 1 - at for at in range(5)), *(1 << at for at in range(6, 63))]
    for magnitude in [1, 2, 3, 7, 100, int(scale), int(5 * scale), int(20 * scale)]:
        with mpmath.workdps(DIGITS):
            edge = int(mpmath.floor(boundary(scale, max(1, magnitude)) * 2**63))
        bits.extend(each for each in range(edge - 3, edge + 4) if 0 <= each < 1 << 63)
    words = np.array([each << 1 | at & 1 for at, each in enumerate(bits)], dtype=np.uint64)
    draws = DiscreteLaplace(scale).from_words(words, further)
    for word, draw in zip(words.tolist(), draws.tolist(), strict=True):
        assert draw == exact_draw(scale, word, FURTHER), hex(word)


@pytest.mark.parametrize("scale", [0.3, 1.0, 12.5, 1e6])
@pytest.mark.parametrize("magnitude", [1, 3])
@pytest.mark.parametrize("above", [0, 1])
def test_words_that_follow_a_boundary_for_long(scale: float, magnitude: int, above: int) -> None:
    """The bits of U agree with those of a boundary for 63 + 3 * 64 places; only the next word
    decides."""
    places = 63 + 3 * 64
    with mpmath.workdps(DIGITS):
        edge = int(mpmath.floor(boundary(scale, magnitude) * 2**places))
    digits = [edge >> 64 * at & (1 << 64) - 1 for at in (2, 1, 0)]
    last = (1 << 64) - 1 if above else 0
    asked: list[int] = []

    def more(_position: int, number: int) -> int:
        asked.append(number)
        return [*digits, last][number]

    words = np.array([edge >> 3 * 64 << 1], dtype=np.uint64)
    draw = DiscreteLaplace(scale).from_words(words, more)
    assert asked == [0, 1, 2, 3]
    assert draw.tolist() == [magnitude - above]  # a larger U is a smaller draw


def test_zero_bits_are_followed_as_far_as_needed() -> None:
    zeros = 20
    count: list[int] = []

    def more(asked: int) -> int:
        count.append(asked)
        return 0 if asked < zeros else 1 << 63

    draw = DiscreteLaplace(1.0).settle(0, more)
    assert count == list(range(zeros + 1))
    assert draw == int(mpmath.floor(argument(1.0, 1, 63 + 64 * zeros + 1)))


def test_the_decimal_settings_of_the_caller_do_not_matter() -> None:
    traps = [decimal.Inexact, decimal.Overflow, decimal.FloatOperation]
    hostile = decimal.Context(prec=1, rounding=decimal.ROUND_UP, Emin=0, Emax=0, traps=traps)
    words = np.array([2, 4, 6, 1 << 20], dtype=np.uint64)
    calm = DiscreteLaplace(123.456).from_words(words, further)
    with decimal.localcontext(hostile):
        distribution = DiscreteLaplace(123.456)
        assert distribution.from_words(words, further).tolist() == calm.tolist()


def test_most_draws_need_no_further_bits() -> None:
    words = np.random.default_rng(9).integers(0, 1 << 64, 100_000, dtype=np.uint64)
    asked: set[int] = set()

    def more(position: int, number: int) -> int:
        asked.add(position)
        return FURTHER[number]

    for scale in (0.3, 10.0, 1e4):
        DiscreteLaplace(scale).from_words(words, more)
    assert len(asked) < 20


def test_the_logarithm_is_as_good_as_the_proof_assumes() -> None:
    """NumPy's logarithm stays within 4 units in the last place wherever the sampler uses it."""
    generator = np.random.default_rng(10)
    bits = np.concatenate(
        [
            np.arange(1, 2000),
            generator.integers(1, 1 << 63, 10_000),
            1 << generator.integers(0, 63, 2000),
        ]
    )
    spread = (generator.integers(1, 1 << 63, 6000) >> generator.integers(0, 62, 6000)) + 1
    values = np.concatenate([bits, spread]).astype(np.float64)
    assert worst_error(values, np.log) <= 4.0
    assert (
        worst_error(values[:50], lambda each: np.log(each.astype(np.float32)).astype(np.float64))
        > 4.0
    )


def worst_error(values: Any, logarithm: Callable[[Any], Any]) -> float:
    with mpmath.workdps(40):
        return max(
            float(abs(mpmath.mpf(found) - mpmath.log(value)) / np.spacing(found))
            if value != 1
            else abs(found) * 2.0**60
            for value, found in zip(values.tolist(), logarithm(values).tolist(), strict=True)
        )
