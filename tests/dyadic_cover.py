"""The decomposition of an interval of steps into dyadic intervals, as the paper has it: an oracle
for tests."""

from __future__ import annotations

from collections.abc import Iterator


def cover(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The smallest set of intervals ``(level, k)`` whose disjoint union is ``[first, last]``, from
    left to right.

    This is the decomposition ``D[j, t]`` of the paper: at most two intervals per level.

    >>> list(cover(3, 9))
    [(0, 3), (2, 1), (1, 4)]
    """
    while first <= last:
        largest = (last - first + 1).bit_length() - 1
        level = min((first & -first).bit_length() - 1, largest)
        yield level, first >> level
        first += 1 << level
