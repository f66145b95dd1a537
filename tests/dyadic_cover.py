"""The decomposition of an interval of steps into dyadic intervals, as the paper has it: an oracle
for tests."""

from __future__ import annotations

from collections.abc import Iterator

from fadecount.intervals import top_level, trailing_zeros


def cover(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The smallest set of intervals ``(level, k)`` whose disjoint union is ``[first, last]``, from
    left to right.

    This is the decomposition ``D[j, t]`` of the paper: at most two intervals per level.

    >>> list(cover(3, 9))
    [(0, 3), (2, 1), (1, 4)]
    """
    while first <= last:
        level = min(trailing_zeros(first), top_level(last - first + 1))
        yield level, first >> level
        first += 1 << level
