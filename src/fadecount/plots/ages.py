"""Which ages to draw: a curve over 10**18 ages fits on paper if one picks the ages that make the picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_PER_OCTAVE = 32


def spread_ages(horizon: int) -> NDArray[np.int64]:
    """The ages ``0 .. horizon - 1`` that a curve on a logarithmic axis needs: all small ones, then 32 per doubling.

    On top of these, both sides of every power of two: where the loss of a mechanism with dyadic intervals jumps.

    >>> spread_ages(10).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> len(spread_ages(10**18)) < 2500
    True
    """
    octaves = max(1, horizon).bit_length()
    fractions = 1.0 + np.arange(_PER_OCTAVE) / _PER_OCTAVE
    grown = [np.rint(np.ldexp(fractions, octave)).astype(np.int64) for octave in range(octaves)]
    powers = np.int64(1) << np.arange(octaves, dtype=np.int64)
    ages = np.unique(np.concatenate([[0, horizon - 1], *grown, powers - 1, powers, powers - 2]))
    result: NDArray[np.int64] = ages[(ages >= 0) & (ages < horizon)]
    return result


def thinned(ages: NDArray[np.int64], columns: Sequence[NDArray[np.float64]], *, cells: int = 600) -> NDArray[np.int64]:
    """Places in ``ages`` (rising) whose points draw the same picture as all points, on a logarithmic axis of ``cells`` pixels.

    Of the ages that fall onto one pixel column the first and the last are kept and, for each curve, those of its least and
    greatest value: a line through these covers the same pixels as a line through all.
    """
    edges = np.unique(np.floor(np.log2(ages + 1.0) * (cells / np.log2(float(ages[-1]) + 2.0))), return_index=True)[1]
    keep = [edges, np.append(edges[1:] - 1, len(ages) - 1)]
    cell = np.repeat(np.arange(len(edges)), np.diff(np.append(edges, len(ages))))
    for values in columns:
        order = np.lexsort((values, cell))
        keep += [order[edges], order[keep[1]]]
    return np.unique(np.concatenate(keep))
