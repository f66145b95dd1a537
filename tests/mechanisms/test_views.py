"""Views of block counters: weights of noises, sums of children, calendars with unequal blocks,
quantiles."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms.views import (
    ANNOUNCED,
    EqualBlocks,
    View,
    chernoff,
    quantile,
    rounded,
)
from tests.mechanisms.block_oracles import random_design

Figures = dict[tuple[int, int, int], int]


class Listed:
    """Blocks of any lengths, by their ends."""

    def __init__(self, ends: list[list[int]]) -> None:
        self.ends = ends

    def frontier(self, level: int, step: int) -> int:
        return max([0, *(end for end in self.ends[level] if end <= step)])

    def end(self, level: int, step: int) -> int:
        return min([end for end in [0, *self.ends[level]] if end >= step], default=10**9)

    def count(self, level: int, start: int, end: int) -> int:
        return sum(start < each <= end for each in self.ends[level])

    def blocks(self, level: int) -> list[tuple[int, int]]:
        return list(zip([0, *self.ends[level]], self.ends[level], strict=False))


def calendar_of(mechanism: fc.Blocks, chance: random.Random, *, equal: bool) -> Listed:
    """Nested blocks: children as many as the design says, or one to five."""
    ends = [[]] if equal else [[0]]
    if equal:
        ends = [list(range(level.length, 130, level.length)) for level in mechanism.levels]
        return Listed(ends)
    ends[0] = np.cumsum([chance.randint(1, 4) for _ in range(60)]).tolist()
    for _ in mechanism.levels[1:]:
        below, grown, at = ends[-1], [], -1
        while at < len(below) - 6:
            at += chance.randint(1, 5)
            grown.append(below[at])
        ends.append(grown)
    return Listed(ends)


def figures_of(
    mechanism: fc.Blocks, dates: Listed, noise: dict[tuple[int, int, int], int], as_of: int
) -> Figures:
    """All that is public after a step, for counts of 0. A noise is that of a level, end and stage;
    the noise of a stage holds those of the later ones."""

    def total(level: int, end: int, stage: int) -> int:
        stages = range(stage, len(mechanism.levels[level].stages))
        return sum(noise.get((level, end, each), 0) for each in stages)

    figures = {}
    for number, level in enumerate(mechanism.levels):
        for start, end in dates.blocks(number):
            for stage, (lag, _) in enumerate(level.stages):
                if end + lag <= as_of:
                    figures[number, end, stage] = total(number, end, stage)
            if level.tied and start < as_of:
                children = [e for s, e in dates.blocks(number - 1) if start <= s and e <= end]
                below = sum(total(number - 1, child, 0) for child in children)
                figures[number, end, ANNOUNCED] = total(number, end, 0) - below
    return figures


def weights_by_impulse(
    mechanism: fc.Blocks, dates: Listed, view: View, as_of: int
) -> Counter[tuple[Fraction, float]]:
    """The weight of every noise in a view, by setting one of them at a time to a large number."""
    weights: Counter[tuple[Fraction, float]] = Counter()
    large = math.lcm(*range(1, 6)) ** 4 * 10**6
    for number, level in enumerate(mechanism.levels):
        for _, end in dates.blocks(number):
            out = sum(end + lag <= as_of for lag, _ in level.stages)
            latest = max(0, out - 1)
            figures = figures_of(mechanism, dates, {(number, end, latest): large}, as_of)
            weight = Fraction(view.value(figures, dates), large)
            if weight:
                weights[weight, level.stages[latest].epsilon] += 1
            for stage in range(latest):  # what a coarser stage adds does not matter any more
                figures = figures_of(mechanism, dates, {(number, end, stage): large}, as_of)
                assert view.value(figures, dates) == 0
    return weights


@pytest.mark.parametrize("equal", [True, False])
def test_the_noise_in_any_window_as_of_any_time(equal: bool) -> None:
    chance = random.Random(31 + equal)
    seen = 0
    while seen < 60:
        mechanism = random_design(chance, longest=30, most_levels=4)
        dates = calendar_of(mechanism, chance, equal=equal)
        last = dates.ends[-1][-2] if len(dates.ends[-1]) > 1 else 0
        starts = [0, *(end for end in dates.ends[0] if end < last)]
        if len(starts) < 3:
            continue
        start = chance.choice(starts)
        end = chance.randint(start + 1, last)
        as_of = chance.randint(max(1, start - 2), last)
        view = mechanism.view(start, end, as_of=as_of, calendar=dates)
        expected = weights_by_impulse(mechanism, dates, view, as_of)
        noise: Counter[tuple[Fraction, float]] = Counter()
        for weight, budget, count in view.noise:
            noise[weight, budget] += count
        assert noise == expected, (mechanism, start, end, as_of)
        seen += 1


def test_every_step_counts_exactly_once() -> None:
    chance = random.Random(41)
    for _ in range(60):
        mechanism = random_design(chance, longest=30, most_levels=4)
        dates = Listed([list(range(level.length, 150, level.length)) for level in mechanism.levels])
        as_of = chance.randint(1, 100)
        view = mechanism.view(0, 100, as_of=as_of)
        counts = np.random.default_rng(as_of).integers(0, 9, 200)
        figures = {
            (number, end, stage): int(counts[start:end].sum())
            for number, level in enumerate(mechanism.levels)
            for start, end in dates.blocks(number)
            for stage in range(len(level.stages))
        } | {
            (number, end, ANNOUNCED): 0
            for number in range(len(mechanism.levels))
            for _, end in dates.blocks(number)
        }
        assert view.value(figures, mechanism.calendar) == counts[: view.end].sum()
        covered = [step for run in view.runs for step in range(run.start, run.end)]
        assert sorted(covered) == list(range(view.end))


def test_adjusted_children_add_up_to_the_parent() -> None:
    """Differences of 11 shared by 24 hours: each alone would be rounded to 0."""
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5, tied=True), fc.Level(72, 1, tied=True))
    chance = random.Random(43)
    figures: Figures = {(0, hour, 0): chance.randint(-20, 90) for hour in range(1, 73)}
    for level, length in ((1, 24), (2, 72)):
        for end in range(length, 73, length):
            below = length if level == 1 else 24
            step = 1 if level == 1 else below
            children = range(end - length + step, end + 1, step)
            figures[level, end, ANNOUNCED] = chance.choice([11, -11, 5])
            total = sum(figures[level - 1, child, 0] for child in children)
            figures[level, end, 0] = total + figures[level, end, ANNOUNCED]

    def count(start: int, end: int) -> int:
        return blocks.view(start, end, as_of=100).value(figures, blocks.calendar)

    assert sum(count(hour - 1, hour) for hour in range(1, 73)) == figures[2, 72, 0]
    assert count(0, 24) + count(24, 48) + count(48, 72) == figures[2, 72, 0]
    for cut in range(1, 24):
        assert count(0, cut) + count(cut, 24) == count(0, 24)


def test_a_day_is_its_own_figure_not_a_difference_of_totals() -> None:
    from tests.mechanisms.test_blocks import READABLE

    start, end, now = 1440 * 220, 1440 * 221, 1440 * 221 + 61
    own = math.sqrt(READABLE.window_variance(start, end, as_of=now))
    totals = math.sqrt(READABLE.variance(start) + READABLE.variance(end))
    assert own < 2.2 < 15 < totals
    assert READABLE.window_interval(start, end, as_of=now) == 5
    assert READABLE.window_interval(start, end) > 20  # the day has ended, but is not out


def test_a_window_that_is_not_out_is_empty() -> None:
    view = fc.Blocks(fc.Level(1, 0.5, lag=5)).view(10, 20, as_of=12)
    assert (view.start, view.end, view.runs, view.noise) == (10, 10, (), ())
    assert view.half_width(0.05) == view.variance() == 0


def test_rounding_goes_to_the_larger_of_two() -> None:
    halves: list[Fraction | int] = [
        Fraction(7, 2),
        Fraction(-7, 2),
        Fraction(7, 3),
        Fraction(-7, 3),
        4,
    ]
    assert [rounded(each) for each in halves] == [4, -3, 2, -2, 4]


class TestQuantiles:
    def test_whole_weights(self) -> None:
        budgets = (0.223, 0.277, 0.591, 0.909, 2.0)
        for counts, expected in (((4, 8, 11, 45, 5), 45), ((9, 11, 23, 58, 11), 59)):
            terms = tuple((Fraction(1), b, n) for b, n in zip(budgets, counts, strict=True))
            assert quantile(terms, 0.05) == expected

    def test_fractions_against_simulation(self) -> None:
        terms = ((Fraction(2, 3), 0.3, 4), (Fraction(-1, 3), 0.3, 8), (Fraction(1, 7), 0.1, 2))
        generator = np.random.default_rng(5)
        total = np.zeros(400_000)
        for weight, budget, count in terms:
            p = 1 - math.exp(-budget)
            draws = generator.geometric(p, (2, count, total.size))
            total += float(weight) * (draws[0] - draws[1]).sum(axis=0)
        for beta in (0.5, 0.05, 0.01):
            share = np.mean(np.abs(total) > quantile(terms, beta))
            assert beta * 0.93 - 0.001 < share < beta * 1.02 + 0.001

    def test_bands_hold_where_weights_are_rounded(self) -> None:
        """Against exact convolution: weights whose common denominator is above 64. Weights rounded
        away from 0 alone would not do: laws on different lattices are not ordered."""
        chance = random.Random(7)
        for _ in range(40):
            denominator = chance.choice([65, 67, 72, 97, 120])
            terms = tuple(
                (
                    Fraction(chance.randint(1, denominator), denominator),
                    chance.choice([0.7, 1.0, 2.0]),
                    chance.randint(1, 2),
                )
                for _ in range(chance.randint(1, 3))
            )
            law = {0: 1.0}
            for weight, budget, count in terms:
                unit, one = int(weight * denominator), math.tanh(budget / 2)
                for _ in range(count):
                    spread: dict[int, float] = {}
                    for at, mass in law.items():
                        for draw in range(-12, 13):
                            place = at + unit * draw
                            share = mass * one * math.exp(-budget * abs(draw))
                            spread[place] = spread.get(place, 0.0) + share
                    law = {at: mass for at, mass in spread.items() if mass > 1e-12}
            for beta in (0.2, 0.05):
                bound = quantile(terms, beta)
                inside = sum(m for at, m in law.items() if abs(at) <= bound * denominator + 1e-9)
                outside = sum(law.values()) - inside
                assert outside <= beta
                narrow = (bound - 0.6) * denominator
                assert sum(m for at, m in law.items() if abs(at) >= narrow) > beta / 2

    def test_small_chances_and_wide_noise_get_a_bound(self) -> None:
        one = ((Fraction(1), 0.5, 1),)
        assert quantile(one, 1e-9) > quantile(one, 1e-5) > quantile(one, 0.01)
        wide = ((Fraction(1), 0.0001, 1),)
        exact = math.log(1 / 0.05) / 0.0001
        assert exact < quantile(wide, 0.05) < 2 * exact
        assert quantile((), 0.05) == 0

    def test_the_bound_holds(self) -> None:
        assert chernoff([0.0], np.array([2.0]), np.array([1.0]), 0.01) == 0.0
        bound = chernoff(np.array([1.0]), np.array([2.0]), np.array([1.0]), 0.01)
        p = math.exp(-0.5)
        assert 2 * p ** (math.floor(bound) + 1) / (1 + p) < 0.01


def test_equal_blocks() -> None:
    dates = EqualBlocks((1, 5))
    assert [dates.frontier(1, step) for step in (-3, 0, 4, 5, 9)] == [0, 0, 0, 5, 5]
    assert [dates.end(1, step) for step in (0, 1, 5, 6)] == [0, 5, 5, 10]
    assert dates.count(1, 5, 20) == 3
