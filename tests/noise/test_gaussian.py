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

from fadecount.noise import gaussian
from fadecount.noise.gaussian import RoundedGaussian, _accepted, _settled_cell
from fadecount.noise.generator import words as fresh_words
from tests.false_alarm import EACH, explained
from tests.noise.rounded import DIGITS, Script, boundary, chance_of, differing, width_of

DEVIATIONS = [256.0, 300.0, 777.7, 4096.0, 1e5, 1.7e7, 2.0**28 * 1.3, 2.0**30, 1e11, 2.0**40]
DRAWS = 40_000


@pytest.mark.no_cover
@pytest.mark.parametrize("scale", DEVIATIONS)
def test_random_words(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "_CHUNK", 150)
    assert differing(RoundedGaussian(scale), 400, seed=8) == 0


@pytest.mark.no_cover
@pytest.mark.parametrize("scale", DEVIATIONS)
def test_words_beside_boundaries(scale: float) -> None:
    """The first and last words, and those beside which the cell changes: once they are whole, and
    in their first bits."""
    width = width_of(scale)
    cells = {
        round(part * scale / width)
        for part in (-8.5, -6, -4.3, -2, -1, -0.2, 0, 0.3, 1, 2.5, 4.1, 6, 8.5)
    } | {-1, 0, 1}
    chosen = [*range(6), *((1 << 64) - 1 - at for at in range(6))]
    for cell in cells:
        with mpmath.workdps(DIGITS):
            edge = int(mpmath.floor(boundary(scale, cell) * 2**64))
        near = [*range(edge - 3, edge + 4), edge - (1 << 20), edge + (1 << 20)]
        chosen.extend(each for each in near if 0 <= each < 1 << 64)
    law = RoundedGaussian(scale)
    assert differing(law, len(chosen), chosen) == 0
    for bits in chosen:  # a first word leaves the cell open, a second one continues it
        assert differing(law, 1, [bits, bits << 16 & (1 << 64) - 1]) == 0


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
    further = iter([*parts[1:], (1 << 64) - 1 if above else 0])
    settled = _settled_cell(scale, width_of(scale), parts[0], lambda: next(further))
    assert settled == cell - 1 + above
    assert not [*further]


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
    more = [parts[1], parts[2], (1 << 64) - 1 if above else 0]
    further = iter(more)
    accepted = _accepted(scale, place, 2 * cell * width - 1, parts[0], lambda: next(further))
    assert accepted is not bool(above)
    drawn = np.array([parts[0]], dtype=np.uint64)
    bulk = RoundedGaussian(scale)._accept(np.array([place]), np.array([cell]), drawn, Script(more))
    assert bulk.tolist() == [not above]


def test_zero_bits_are_followed_as_far_as_needed() -> None:
    further = iter([0, 0, 0, 1 << 63])
    draw = _settled_cell(1.0, 1, 0, lambda: next(further))
    with mpmath.workdps(120):
        wanted = mpmath.mpf(2) ** (-64 * 4 - 1)
        assert mpmath.ncdf(mpmath.mpf(draw) - 0.5) <= wanted < mpmath.ncdf(mpmath.mpf(draw) + 0.5)
    assert draw < -17


def test_a_far_cell_is_accepted_by_exact_arithmetic() -> None:
    """A word of zeros begins a draw beyond the table: cell and place are then settled with
    decimals."""
    law, draws = RoundedGaussian(1000.0), []
    for second in (0, 1 << 20, 1 << 40, 1 << 62):
        words = 0, second
        assert differing(law, 1, words) == 0
        draws.append(int(law.fill(np.empty(1, dtype=np.int64), Script(words))[0]))
    assert max(draws) < -4000
    assert min(draws) < -9000


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


def test_the_decimal_settings_of_the_caller_do_not_matter() -> None:
    traps = [decimal.Inexact, decimal.Overflow, decimal.FloatOperation]
    hostile = decimal.Context(prec=1, rounding=decimal.ROUND_UP, Emin=0, Emax=0, traps=traps)
    words = [0, 1, 1 << 63, (1 << 64) - 1]
    law, room = RoundedGaussian(1234.56), np.empty(len(words), dtype=np.int64)
    calm = law.fill(room, Script(words)).tolist()
    with decimal.localcontext(hostile):
        assert law.fill(room, Script(words)).tolist() == calm


@pytest.mark.no_cover
def test_every_boundary_against_mpmath() -> None:
    """A 64th of the distance from which on a word is taken to be beside none."""
    for scale in (256.0, 300.0, 511.9, 2.0**39 * 1.1):
        law = RoundedGaussian(scale)
        for cell, found in enumerate(law._bounds.tolist(), start=law._first):
            with mpmath.workdps(DIGITS):
                assert abs(found - boundary(scale, cell) * 2**64) < 2**14


def test_most_draws_need_no_further_words() -> None:
    for scale in (256.0, 2.0**30):
        script = Script(seed=9)
        RoundedGaussian(scale).fill(np.empty(100_000, dtype=np.int64), script)
        assert script.asked < 108_000


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
