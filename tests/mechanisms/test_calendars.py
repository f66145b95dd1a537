"""Calendars of blocks: equal ones, and those of any lengths."""

from __future__ import annotations

import random

import numpy as np

from fadecount.calendar import Calendar
from fadecount.mechanisms.figures import UNKNOWN
from tests.mechanisms.edged_blocks import EdgedBlocks


def test_equal_blocks() -> None:
    dates = Calendar((1, 5))
    assert [dates.frontier(1, step) for step in (-3, 0, 4, 5, 9)] == [0, 0, 0, 5, 5]
    assert [dates.end(1, step) for step in (0, 1, 5, 6)] == [0, 5, 5, 10]
    assert dates.count(1, 5, 20) == 3
    assert dates.edges(1, 4, 15).tolist() == [5, 10, 15]
    assert dates.edges(1, 5, 9).tolist() == []


def test_blocks_of_any_lengths_by_their_definition() -> None:
    chance = random.Random(3)
    for _ in range(30):
        ends = sorted(chance.sample(range(1, 60), chance.randint(1, 12)))
        dates, steps = EdgedBlocks(([*range(1, 61)], ends)), np.arange(-3, 70)
        frontier = [max([0, *(end for end in ends if end <= step)]) for step in steps]
        assert dates.frontier(1, steps).tolist() == frontier
        after = [min([e for e in [0, *ends] if e >= step], default=UNKNOWN) for step in range(70)]
        assert dates.end(1, np.arange(70)).tolist() == after
        start, end = sorted(chance.choices([0, *ends], k=2))
        between = [each for each in ends if start < each <= end]
        assert dates.count(1, start, end) == len(between)
        assert dates.edges(1, start, end).tolist() == between
        assert dates.edges(1, 0, 1000).tolist() == ends


def test_equal_blocks_are_a_case_of_any() -> None:
    steps = np.arange(120)
    equal = Calendar((2, 6, 24))
    listed = EdgedBlocks([range(length, 145, length) for length in (2, 6, 24)])
    for level in range(3):
        for name in ("frontier", "end"):
            alike = getattr(equal, name)(level, steps) == getattr(listed, name)(level, steps)
            assert alike.all()
        assert np.array_equal(equal.edges(level, 7, 100), listed.edges(level, 7, 100))
        assert equal.count(level, 24, 96) == listed.count(level, 24, 96)
