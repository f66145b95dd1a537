"""Losses as people read them: rounded up, always.

Users give decimals such as 0.1, and float64 has none of them: six times the nearest one is
0.6000000000000000333. So that this reads as 0.6, a decimal may be written for a loss up to a
relative ``DUST`` above it, and for nothing beyond. What is shown is still never below the loss of
the noise that runs: all noise is made for budgets that are smaller by more than that
(:func:`fadecount.mechanisms.noise_distribution.scale_of`).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DUST = 2.0**-47
"""More than 32 roundings of float64; far less than any digit that is shown."""
_ALL_DIGITS = Context(prec=1100)
"""Enough for every float64, written out."""


def rounded_up(value: float, decimals: int) -> str:
    """The least number with so many decimals that is not below the value, but for a relative
    ``DUST``.

    >>> [rounded_up(each, 4) for each in (0.3, 0.1 + 0.2, 0.300000001)]
    ['0.3000', '0.3000', '0.3001']
    >>> rounded_up(1234.5, 1), rounded_up(math.inf, 2)
    ('1,234.5', 'inf')
    """
    if math.isinf(value):
        return "inf"
    unit, exact = Decimal(1).scaleb(-decimals), Decimal(value)
    shown = exact.quantize(unit, ROUND_FLOOR, _ALL_DIGITS)
    if float(shown) < value * (1.0 - DUST):
        shown = exact.quantize(unit, ROUND_CEILING, _ALL_DIGITS)
    return f"{shown:,f}"


def shown_loss(loss: float) -> str:
    """A loss in a sentence, with two or three digits that matter.

    >>> [shown_loss(each) for each in (0.0, 0.001234, 0.3012, 4.001, 17.31, 26280.5)]
    ['0', '0.0013', '0.31', '4.01', '17.4', '26,281']
    """
    if loss == 0 or math.isinf(loss):
        return "0" if loss == 0 else "unlimited"
    if loss < 0.1:
        return rounded_up(loss, 1 - _exponent(loss))
    return rounded_up(loss, 2 if loss < 10 else 1 if loss < 100 else 0)


def short_loss(loss: float) -> str:
    """A loss in a narrow column: four digits, or three and a power of ten, at most eight
    characters.

    >>> [short_loss(each) for each in (0.0, 0.00012341, 0.1, 3.99991, 9998.2, 12345.6)]
    ['0', '1.24e-4', '0.1000', '4.000', '9999', '1.24e+4']
    """
    if loss == 0 or math.isinf(loss):
        return "0" if loss == 0 else "inf"
    if 0.001 <= loss < 9999:
        return rounded_up(loss, 3 - _exponent(loss)).replace(",", "")
    return f"{Decimal(rounded_up(loss, 2 - _exponent(loss)).replace(',', '')):.2e}"


def shown_chance(certainty: float) -> str:
    """A chance of at least one half as a percentage, rounded up, and never shown as certain.

    >>> [shown_chance(each) for each in (0.5, 0.6315, 0.99112, 0.99999)]
    ['50 %', '64 %', '99.2 %', 'over 99.9 %']
    """
    percent = 100.0 * certainty * (_SAFE if certainty > 0.5 else 1.0)
    if percent > 99.9:
        return "over 99.9 %"
    return f"{rounded_up(percent, 0 if percent <= 99 else 1)} %"


_SAFE = 1.0 + 1e-14
"""Far more than the rounding of the few operations before it."""


def _exponent(value: float) -> int:
    """The power of ten of the first digit, after the float's shortest text: 0.1 has -1."""
    return Decimal(repr(value)).adjusted()
