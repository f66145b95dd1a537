"""The rounded Gaussian sampler: every draw is that of exact arithmetic, and draws have the stated
law."""

from __future__ import annotations

import decimal
import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from fadecount.noise.gaussian import RoundedGaussian, _acceptance, _accepted, _cells, _settled_cell
from fadecount.noise.generator import words as fresh_words
from tests.false_alarm import EACH, explained
from tests.noise.rounded import DIGITS, boundary, chance_of, exact_draw, width_of

DEVIATIONS = [256.0, 300.0, 777.7, 4096.0, 1e5, 1.7e7, 2.0**28 * 1.3, 2.0**30, 1e11, 2.0**40]
DRAWS = 40_000


def word_of(position: int, asked: int) -> int:
    """Further words that are a function of the position and the number."""
    return (
        position * 0x9E3779B97F4A7C15 + (asked + 1) * 0xD1B54A32D192ED03
    ) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB & (1 << 64) - 1


def further(positions: NDArray[np.int64], asked: int) -> NDArray[np.uint64]:
    return np.array([word_of(each, asked) for each in positions.tolist()], dtype=np.uint64)


@pytest.mark.parametrize("scale", DEVIATIONS)
def test_random_words(scale: float) -> None:
    words = np.random.default_rng(8).integers(0, 1 << 64, 400, dtype=np.uint64)
    draws = RoundedGaussian(scale).from_words(words, further)
    for position, (word, draw) in enumerate(zip(words.tolist(), draws.tolist(), strict=True)):
        assert draw == exact_draw(scale, word, lambda asked, at=position: word_of(at, asked)), hex(  # type: ignore[misc]
            word
        )


@pytest.mark.parametrize("scale", DEVIATIONS)
def test_words_beside_boundaries(scale: float) -> None:
    """The first and last words, and those beside which the cell changes."""
    width = width_of(scale)
    cells = {
        round(part * scale / width)
        for part in (-8.5, -6, -4.3, -2, -1, -0.2, 0, 0.3, 1, 2.5, 4.1, 6, 8.5)
    } | {-1, 0, 1}
    chosen = [*range(6), *((1 << 64) - 1 - at for at in range(6))]
    for cell in cells:
        with mpmath.workdps(DIGITS):
            edge = int(mpmath.floor(boundary(scale, cell) * 2**64))
        chosen.extend(each for each in range(edge - 3, edge + 4) if 0 <= each < 1 << 64)
    words = np.array(chosen, dtype=np.uint64)
    draws = RoundedGaussian(scale).from_words(words, further)
    for position, (word, draw) in enumerate(zip(words.tolist(), draws.tolist(), strict=True)):
        assert draw == exact_draw(scale, word, lambda asked, at=position: word_of(at, asked)), hex(  # type: ignore[misc]
            word
        )


@pytest.mark.parametrize("scale", [256.0, 1e6])
@pytest.mark.parametrize("above", [0, 1])
def test_words_that_follow_a_boundary_for_long(scale: float, above: int) -> None:
    """The bits of U agree with those of a boundary for 4 * 64 places; only the next word
    decides."""
    with mpmath.workdps(120):
        cell = 2
        edge = int(
            mpmath.floor(
                mpmath.ncdf((mpmath.mpf(cell) * width_of(scale) - 0.5) / mpmath.mpf(scale))
                * mpmath.mpf(2) ** 256
            )
        )
    parts = [edge >> 64 * at & (1 << 64) - 1 for at in (3, 2, 1, 0)]
    asked: list[int] = []

    def more(number: int) -> int:
        asked.append(number)
        return [*parts[1:], (1 << 64) - 1 if above else 0][number]

    assert _settled_cell(scale, width_of(scale), parts[0], more) == cell - 1 + above
    assert asked == [0, 1, 2, 3]


@pytest.mark.parametrize("above", [0, 1])
def test_an_acceptance_that_is_decided_late(above: int) -> None:
    scale, place = 1e6, 1_234_567
    width = width_of(scale)
    cell = place // width
    with mpmath.workdps(120):
        exact, half = mpmath.mpf(scale), mpmath.mpf("0.5")
        mass = mpmath.ncdf((place + half) / exact) - mpmath.ncdf((place - half) / exact)
        chance = (
            exact
            * mpmath.sqrt(2 * mpmath.pi)
            * mpmath.exp((cell * width - half) ** 2 / (2 * exact**2))
            * mass
        )
        edge = int(mpmath.floor(chance * mpmath.mpf(2) ** 192))
    parts = [edge >> 64 * at & (1 << 64) - 1 for at in (2, 1, 0)]
    more = {1: parts[1], 2: parts[2], 3: (1 << 64) - 1 if above else 0}
    assert _accepted(scale, place, 2 * cell * width - 1, parts[0], more.__getitem__) is not bool(
        above
    )
    numbered = {_acceptance(0, asked): word for asked, word in more.items()}
    bulk = RoundedGaussian(scale)._accept(
        *(
            np.array([place]),
            np.array([cell]),
            np.array([parts[0]], dtype=np.uint64),
            np.array([0]),
        ),
        attempt=0,
        more=lambda positions, asked: np.full(len(positions), numbered[asked], dtype=np.uint64),
    )
    assert bulk.tolist() == [not above]


def test_no_word_is_no_draw() -> None:
    assert RoundedGaussian(1000.0).from_words(np.empty(0, dtype=np.uint64), further).size == 0


def test_zero_bits_are_followed_as_far_as_needed() -> None:
    draw = _settled_cell(1.0, 1, 0, lambda asked: 0 if asked < 3 else 1 << 63)
    with mpmath.workdps(120):
        wanted = mpmath.mpf(2) ** (-64 * 4 - 1)
        assert mpmath.ncdf(mpmath.mpf(draw) - 0.5) <= wanted < mpmath.ncdf(mpmath.mpf(draw) + 0.5)
    assert draw < -17


def test_a_far_cell_is_accepted_by_exact_arithmetic() -> None:
    """A word of zeros begins a draw beyond the table: cell and place are then settled with
    decimals."""
    scale = 1000.0
    words = np.zeros(4, dtype=np.uint64)
    more = np.array([0, 1 << 20, 1 << 40, 1 << 62], dtype=np.uint64)
    draws = RoundedGaussian(scale).from_words(
        words,
        lambda positions, asked: more[positions] * np.uint64(asked % 3 == 0) + np.uint64(asked),
    )
    for position, draw in enumerate(draws.tolist()):
        assert draw == exact_draw(
            scale,
            0,
            lambda asked, at=position: int(more[at]) * (asked % 3 == 0) + asked,  # type: ignore[misc]
        )
    assert draws.max() < -4.0 * scale
    assert draws.min() < -9.0 * scale


@pytest.mark.parametrize("scale", DEVIATIONS)
def test_the_true_deviation_is_accepted_and_others_are_rejected(scale: float) -> None:
    draws = RoundedGaussian(scale).fill(np.empty(DRAWS, dtype=np.int64), fresh_words)
    chance = chance_of(draws, scale)
    assert chance > EACH, explained(f"deviation {scale}", chance)
    for wrong in (2 / 3, 3 / 2):
        assert chance_of(draws, wrong * scale) < EACH, (
            f"the test cannot tell {wrong:.3g} of {scale}"
        )


@pytest.mark.parametrize("scale", [256.0, 511.0, 1e4])
def test_places_within_cells(scale: float) -> None:
    """In the cells between 2 and 3 deviations the density falls; low places are likelier by exactly
    what it says."""
    draws = np.abs(RoundedGaussian(scale).fill(np.empty(4 * DRAWS, dtype=np.int64), fresh_words))
    width = width_of(scale)
    start = round(2 * scale / width) * width
    span = round(scale / width) * width
    chosen = draws[(draws >= start) & (draws < start + span)]
    places = np.arange(start, start + span)
    law = special.ndtr(-(places - 0.5) / scale) - special.ndtr(-(places + 0.5) / scale)
    low = (places - start) % width < width // 2
    share = float(law[low].sum() / law.sum())
    seen = int(np.count_nonzero((chosen - start) % width < width // 2))
    chance = float(stats.binomtest(seen, len(chosen), share).pvalue)
    assert chance > EACH, explained(f"places at deviation {scale}", chance)


def test_bulk_draws_are_draws_from_words() -> None:
    """With known words: a draw that its word determines is the same from both."""
    law, generator, count = RoundedGaussian(1000.0), np.random.default_rng(4), 40_001
    words = generator.integers(0, 1 << 64, count, dtype=np.uint64)
    given = iter([words[: 1 << 15], words[1 << 15 :]])

    def known(count: int) -> NDArray[np.uint64]:
        return next(given, generator.integers(0, 1 << 64, count, dtype=np.uint64)).copy()

    draws, asked = law.fill(np.empty(count, dtype=np.int64), known), set[int]()

    def more(positions: NDArray[np.int64], number: int) -> NDArray[np.uint64]:
        asked.update(positions.tolist())
        return further(positions, number)

    differing = (draws != law.from_words(words, more)).nonzero()[0]
    assert {*differing.tolist()} <= asked
    assert len(asked) < 0.06 * count


def test_the_decimal_settings_of_the_caller_do_not_matter() -> None:
    traps = [decimal.Inexact, decimal.Overflow, decimal.FloatOperation]
    hostile = decimal.Context(prec=1, rounding=decimal.ROUND_UP, Emin=0, Emax=0, traps=traps)
    words = np.array([0, 1, 1 << 63, (1 << 64) - 1], dtype=np.uint64)
    calm = RoundedGaussian(1234.56).from_words(words, further)
    _cells.cache_clear()
    with decimal.localcontext(hostile):
        assert RoundedGaussian(1234.56).from_words(words, further).tolist() == calm.tolist()


def test_every_boundary_against_mpmath() -> None:
    for scale in (256.0, 300.0, 511.9):
        cells = _cells(scale)
        for at, found in enumerate(cells.bounds.tolist()):
            with mpmath.workdps(DIGITS):
                wanted = int(mpmath.floor(boundary(scale, cells.first + at) * 2**64))
            assert found == min(wanted, (1 << 64) - 1)


def test_most_draws_need_no_further_words() -> None:
    words = np.random.default_rng(9).integers(0, 1 << 64, 100_000, dtype=np.uint64)
    for scale, most in ((256.0, 0.06), (2.0**30, 0.06)):
        asked: set[int] = set()

        def more(
            positions: NDArray[np.int64], number: int, asked: set[int] = asked
        ) -> NDArray[np.uint64]:
            asked.update(positions.tolist())
            return further(positions, number)

        RoundedGaussian(scale).from_words(words, more)
        assert len(asked) < most * len(words)


def test_impossible_deviations() -> None:
    for scale in (0.0, 255.9, -1.0, math.nan, math.inf, 2.0**41):
        with pytest.raises(ValueError, match="scale must be"):
            RoundedGaussian(scale)


def mass(values: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """Pr[z] of the rounded law, from the side of the tail that does not cancel."""
    sides = -np.abs(values)
    found: NDArray[np.float64] = special.ndtr((sides + 0.5) / scale) - special.ndtr(
        (sides - 0.5) / scale
    )
    return found


@pytest.mark.parametrize(("scale", "shift"), [(0.5, 1), (1.0, 1), (2.0, 1), (3.0, 2)])
def test_the_delta_formula_holds_for_this_law_and_not_for_the_other_one(
    scale: float, shift: int
) -> None:
    """The trap: the law ``Pr[z] ~ exp(-z**2 / 2 s**2)`` has a larger delta than the Gaussian
    mechanism."""
    values = np.arange(-int(30 * scale) - 5, int(30 * scale) + 6)
    other = np.exp(-(values**2) / (2 * scale**2))
    other /= other.sum()
    moved = (
        np.exp(-((values - shift) ** 2) / (2 * scale**2))
        / np.exp(-(values**2) / (2 * scale**2)).sum()
    )
    mu, above = shift / scale, []
    for epsilon in np.linspace(0.05, 3.0 * mu + 2.0, 60):
        delta = special.ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * special.ndtr(
            -epsilon / mu - mu / 2
        )
        ours = np.maximum(
            0.0, mass(values - shift, scale) - math.exp(epsilon) * mass(values, scale)
        ).sum()
        assert ours <= delta * (1 + 1e-9) + 1e-15
        above.append(np.maximum(0.0, moved - math.exp(epsilon) * other).sum() / delta)
    assert max(above) > 1.05
