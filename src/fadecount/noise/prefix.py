"""What the first 16 bits of a draw determine, as a table: most draws of a moderate scale need no arithmetic at all.

A draw is a sign and a uniform number U; its magnitude is ``m`` where ``U_(m+1) < U <= U_m``, with the boundaries
``U_m = 2 q**m / (1 + q)`` for ``m >= 1`` and ``q = exp(-1 / s)`` (see :mod:`fadecount.noise.laplace`). A *prefix* is
16 bits: 15 bits ``c``, which say that U lies in ``[c, c + 1) / 2**15``, and, lowest, the sign. If no boundary lies in
that cell, the prefix determines the draw; else the draw is made from a whole word that begins with the prefix. Either
way it has exactly the law of a draw from a whole word: the table only decides how soon it is known.

The arithmetic. ``2**15 U_m`` is computed in float64 as ``2**16 / (1 + q) * exp(-m / s)``. Let u = 2**-53 be the unit
roundoff and assume that the exponential is good to 4 ulp. Where ``m / s <= 13`` (further boundaries lie in cell 0, and
so do their computed values), the division moves the exponent by at most 13 u, the two exponentials are off by 8 u each,
and the sum, the quotient and the product by u each: altogether a relative error below 2**-47. Every cell that comes
within a relative 2**-40 of a computed boundary is left undetermined, and so is cell 0, which holds infinitely many.
In the others, the magnitude is the number of boundaries above, which is then exact.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LARGEST_TABLED_SCALE = 1024.0
"""Beyond, too many cells hold a boundary (at this scale one draw in seven), and magnitudes would outgrow 16 bits."""

UNDETERMINED = -(1 << 15)
_CELLS = 1 << 15
_DOUBT = 2.0**-40


@lru_cache(maxsize=64)
def prefix_table(scale: float) -> NDArray[np.int16]:
    """The signed draw that each prefix determines, or ``UNDETERMINED``. Costs 128 KiB and about a millisecond per scale."""
    assert 0.0 < scale <= LARGEST_TABLED_SCALE
    numbers = np.arange(1, math.ceil(12.0 * scale) + 2)
    boundaries = 2.0 * _CELLS / (1.0 + math.exp(-1.0 / scale)) * np.exp(-numbers / scale)
    cells = boundaries.astype(np.int64)
    above = np.cumsum(np.bincount(cells, minlength=_CELLS)[::-1])[::-1]
    magnitudes = np.append(above[1:], 0).astype(np.int16)
    table = np.stack([magnitudes, -magnitudes], axis=1)
    table[0] = UNDETERMINED
    for edge in (boundaries * (1.0 - _DOUBT), boundaries * (1.0 + _DOUBT)):
        table[np.minimum(edge.astype(np.int64), _CELLS - 1)] = UNDETERMINED
    table.flags.writeable = False
    return table.reshape(-1)


def completed(prefixes: NDArray[np.uint16], further: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Whole words that begin with the prefixes and go on with 48 bits of each further word; the sign stays the lowest bit."""
    wide = prefixes.astype(np.uint64)
    words: NDArray[np.uint64] = (wide >> 1 << 49 | further >> 16 << 1 | wide & 1).view(np.uint64)
    return words
