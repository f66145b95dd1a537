"""Dyadic intervals on the positive integers, in pure integer arithmetic.

Level ``l`` holds the intervals ``[k * 2**l, (k + 1) * 2**l - 1]`` for every ``k >= 1``. None starts
at 0: this is what lets a stream run without a known end. At a clock reading ``u`` the intervals in
use are those that contain ``u``: one per level ``0 .. top_level(u)``. Moving from ``u - 1`` to
``u`` replaces exactly the levels ``0 .. trailing_zeros(u)``.

The binary mechanism uses only every other interval, those with an odd ``k`` ("alternating"): level
``l`` is in use while bit ``l`` of the clock is set.
"""

from __future__ import annotations


def trailing_zeros(number: int) -> int:
    """How many zero bits end ``number`` (> 0): the highest level whose interval starts there.

    >>> [trailing_zeros(u) for u in (1, 2, 3, 4, 12)]
    [0, 1, 0, 2, 2]
    """
    return (number & -number).bit_length() - 1


def top_level(number: int) -> int:
    """The highest level with an interval that holds ``number`` (> 0): its base-2 logarithm, rounded
    down.

    >>> [top_level(u) for u in (1, 2, 3, 4, 1000)]
    [0, 1, 1, 2, 9]
    """
    return number.bit_length() - 1


def highest_change(before: int, after: int) -> int:
    """The highest level that is replaced at some reading in ``before + 1 .. after``, with ``after >
    before``.

    >>> highest_change(3, 4), highest_change(4, 5), highest_change(4, 7)
    (2, 0, 1)
    """
    return (before ^ after).bit_length() - 1


def steps_in_use(level: int, last: int, *, alternating: bool = False) -> int:
    """At how many readings among ``1 .. last`` an interval of this level is in use.

    >>> steps_in_use(2, 9), steps_in_use(1, 9, alternating=True)
    (6, 4)
    """
    length = 1 << level
    if not alternating:
        return max(0, last - length + 1)
    whole, rest = divmod(last + 1, 2 * length)
    return whole * length + max(0, rest - length)
