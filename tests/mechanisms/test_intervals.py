"""Dyadic intervals against a plain list of them."""

from __future__ import annotations

import pytest

from fadecount.mechanisms.running_total import steps_in_use
from tests.dyadic_cover import cover

LAST = 130


def in_use(clock: int) -> dict[int, int]:
    """The interval of each level that holds a clock reading, by its definition."""
    return {level: k for level in range(9) for k in [clock // 2**level] if k >= 1}


@pytest.mark.parametrize("alternating", [False, True])
def test_at_how_many_readings_a_level_is_in_use(alternating: bool) -> None:
    for level in range(9):
        for last in range(LAST):
            readings = [
                clock
                for clock in range(1, last + 1)
                if (clock >> level & 1 if alternating else level in in_use(clock))
            ]
            assert steps_in_use(level, last, alternating=alternating) == len(readings)


def test_the_cover_is_disjoint_and_smallest_in_order() -> None:
    for first in range(1, 70):
        for last in range(first, 70):
            pieces = list(cover(first, last))
            points = [point for level, k in pieces for point in range(k << level, (k + 1) << level)]
            assert points == list(range(first, last + 1))
            assert all(k >= 1 for _, k in pieces)
            assert max(pieces.count(piece) for piece in pieces) == 1
            assert all(sum(level == each for level, _ in pieces) <= 2 for each in range(7))
    assert list(cover(5, 4)) == []
