"""Level budgets of Gradual: powers rounded to the nearest float64, whatever the machine's own pow
does."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms.level_budgets import rounded_power


def nearest(base: int, exponent: float) -> float:
    """By mpmath, with so many digits that only a midpoint itself could be rounded wrongly."""
    with mpmath.workprec(400):
        return float(mpmath.mpf(base) ** mpmath.mpf(exponent))


def test_powers_are_the_nearest_floats() -> None:
    generator = np.random.default_rng(14)
    exponents = [
        *generator.uniform(-1.0, 4.0, 30).tolist(),
        *generator.uniform(4.0, 63.0, 10).tolist(),
        0.25,
        1.5,
        -0.5,
        0.1,
    ]
    for exponent in exponents:
        for base in (1, 2, 3, 4, 5, 7, 9, 16, 25, 36, 49, 61, 62):
            assert rounded_power(base, exponent) == nearest(base, exponent)


@pytest.mark.parametrize(
    ("base", "exponent", "exact"),
    [
        (3, 34.0, Fraction(3) ** 34),  # halfway between two floats
        (9, 17.0, Fraction(3) ** 34),
        (9, 16.5, Fraction(3) ** 33),
        (62, 9.0, Fraction(62) ** 9),
        (16, -0.75, Fraction(1, 8)),
        (49, -1.0, Fraction(1, 49)),
        (1, 0.3, Fraction(1)),
    ],
)
def test_rational_powers_are_rounded_exactly(base: int, exponent: float, exact: Fraction) -> None:
    assert rounded_power(base, exponent) == float(exact)


def test_the_smallest_exponent_changes_nothing() -> None:
    assert rounded_power(3, math.ulp(0.0)) == 1.0


def test_budgets_are_the_rounded_products() -> None:
    mechanism = fc.Gradual(epsilon=0.3, exponent=1.37)
    assert mechanism.noise.budgets == tuple(
        0.3 * nearest(level + 1, 1.37 - 1.0) for level in range(62)
    )
