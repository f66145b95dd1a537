"""No loss is shown below what it is, and none far above it."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fadecount.mechanisms import scale_of
from fadecount.mechanisms.loss import Loss
from fadecount.rounding import (
    DUST,
    rounded_up,
    short_loss,
    shown_chance,
    shown_loss,
)

LOSSES = st.floats(0.0, 1e6)
NEARLY = 1.0 - 2.0 * DUST


def number(text: str) -> float:
    return float(text.replace(",", ""))


@given(LOSSES, st.integers(0, 12))
@example(0.1 + 0.2, 4)
@example(0.5000000000000001, 2)
@example(math.nextafter(0.1, 1.0), 12)
@example(5e-324, 2)
def test_a_rounded_number_reads_as_no_less(value: float, decimals: int) -> None:
    shown = rounded_up(value, decimals)
    assert number(shown) >= value * NEARLY
    assert value == 0.0 or number(shown) > 0.0
    assert Fraction(shown.replace(",", "")) - Fraction(value) < Fraction(1, 10**decimals)
    assert len(shown.partition(".")[2]) == decimals


@given(LOSSES, st.integers(1, 7))
def test_a_number_that_is_written_with_few_digits_stays_as_it_is(
    value: float, decimals: int
) -> None:
    written = round(value, decimals)
    assert number(rounded_up(written, decimals)) == written


@given(st.integers(1, 10**6), st.integers(1, 64), st.integers(1, 6))
@example(1, 6, 1)
@example(7, 3, 1)
def test_a_sum_of_decimals_has_no_dust(digits: int, times: int, decimals: int) -> None:
    """Six times 0.1 is shown as 0.6, not as 0.6001, however it was added up."""
    each = digits / 10**decimals
    exact = f"{Decimal(digits) * times / 10**decimals:,.{decimals}f}"
    assert rounded_up(math.nextafter(math.fsum([each] * times), math.inf), decimals) == exact


@given(st.floats(2.0**-30, 2.0**14))
@example(0.1)
@example(0.55)
def test_the_noise_that_runs_loses_less_than_the_dust_that_is_not_shown(budget: float) -> None:
    """A shift by one costs 1 / scale: below the budget by more than what a loss may be rounded down
    by."""
    assert 1 / Fraction(scale_of(budget)) < Fraction(budget) * (1 - Fraction(DUST))


@given(LOSSES)
@example(0.1)
@example(math.nextafter(0.1, 0.0))
@example(math.nextafter(9999.0, 0.0))
@example(1e-3)
def test_a_loss_is_never_shown_below_itself(loss: float) -> None:
    assert loss * NEARLY <= number(shown_loss(loss)) <= loss * 1.12 + 1e-300
    assert loss * NEARLY <= number(short_loss(loss)) <= loss * 1.011 + 1e-300
    assert len(short_loss(loss)) <= 8 or loss < 1e-99


@given(st.floats(0.0, 40.0))
@example(0.0)
@example(3.8e-19)
def test_what_follows_from_a_loss_is_never_shown_too_small(loss: float) -> None:
    with localcontext(prec=50):
        factor = Decimal(loss).exp()
        percent = 100 * factor / (1 + factor)
    sure = shown_chance(Loss(loss).certainty)
    if not sure.startswith("over"):
        assert percent <= Decimal(sure.removesuffix(" %")) <= percent + 1


@pytest.mark.parametrize(
    ("show", "text"),
    [
        (shown_loss, "unlimited"),
        (short_loss, "inf"),
    ],
)
def test_a_loss_without_bound(show: object, text: str) -> None:
    assert callable(show)
    assert show(math.inf) == text
    assert rounded_up(math.inf, 2) == "inf"
