"""Views of block counters against a reader written from the definition alone: which figures, what
weights, the noise in it, on calendars with unequal blocks, with later keys and lost blocks."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import ANNOUNCED, Figure, ListedFigures, Views, views_of
from fadecount.mechanisms.noise_law import variance_of
from fadecount.mechanisms.views import bounds_of_sums, half_widths_around
from tests.mechanisms.block_oracles import random_design
from tests.mechanisms.edged_blocks import EdgedBlocks
from tests.mechanisms.test_blocks import READABLE

Block = tuple[int, int, int]
"""Level, start, end."""
Weights = dict[tuple[int, int, int], Fraction]
"""By level, end and stage."""


class Tree:
    """Nested blocks of any lengths, listed."""

    def __init__(self, ends: list[list[int]]) -> None:
        self.ends, self.calendar = ends, EdgedBlocks(ends)
        self.blocks: list[Block] = [
            (level, start, end)
            for level, edges in enumerate(ends)
            for start, end in pairwise([0, *edges])
        ]

    def children(self, block: Block) -> list[Block]:
        level, start, end = block
        return [b for b in self.blocks if b[0] == level - 1 and start <= b[1] and b[2] <= end]

    def roots(self) -> list[Block]:
        """The blocks that are in no other: those of the largest level, and what comes after."""
        top = len(self.ends) - 1
        return [
            (level, start, end)
            for level, start, end in self.blocks
            if level == top or start >= max([0, *self.ends[level + 1]])
        ]


def random_tree(levels: int, chance: random.Random, smallest: int = 60) -> Tree:
    """One to five children each; the last blocks of a level may not be known yet."""
    ends = [np.cumsum([chance.randint(1, 3) for _ in range(smallest)]).tolist()]
    for _ in range(levels - 1):
        below, grown, at = ends[-1], [], -1
        while at < len(below) - 6:
            at += chance.randint(1, 5)
            grown.append(below[at])
        ends.append(grown)
    return Tree(ends)


@dataclass
class Reader:
    """What one window is made of, from the definition."""

    mechanism: fc.Blocks
    tree: Tree
    start: int
    end: int
    as_of: float
    since: int = 0
    missing: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        self.cover = list(self._cover())
        self.begun = min((block[1] for block in self.cover), default=self.start)
        self.reached = max((block[2] for block in self.cover), default=self.start)
        self.sides: list[tuple[list[tuple[Block, Fraction]], list[tuple[Block, Fraction]]]] = []
        self.whole: list[Block] = []
        for group in self.mechanism.groups:
            edges = [0, *self.tree.ends[group[0]]]
            first = min((edge for edge in edges if edge >= self.begun), default=10**9)
            out = self.as_of - self.mechanism.levels[group[0]].lag
            last = max(edge for edge in edges if edge <= max(0, min(self.reached, out)))
            if first < last:
                begun, ended = (list(self._shares(group, at)) for at in (first, last))
                self.sides.append((begun, ended))
                self.whole += [block for block, _ in begun if block[2] <= last]

    def lost(self, block: Block) -> bool:
        return block[1] < self.since or (block[0], block[2]) in self.missing

    def stage(self, block: Block) -> int:
        """The latest stage that is out; -1 if none."""
        stages = self.mechanism.levels[block[0]].stages
        return sum(block[2] + lag <= self.as_of for lag, _ in stages) - 1

    def _cover(self) -> Iterator[Block]:
        waiting = self.tree.roots()
        while waiting:
            block = waiting.pop()
            inside = self.start <= block[1] and block[2] <= self.end
            if inside and not self.lost(block) and self.stage(block) >= 0:
                yield block
            else:
                waiting += self.tree.children(block)

    def _part(self, block: Block, at: int, smallest: int) -> Fraction:
        if block[0] == smallest or at <= block[1]:
            return Fraction(0)
        if at >= block[2]:
            return Fraction(1)
        children = self.tree.children(block)
        parts = [
            Fraction(1) if child[2] <= at else self._part(child, at, smallest) for child in children
        ]
        return sum(parts, Fraction(0)) / len(children)

    def _shares(self, group: range, at: int) -> Iterator[tuple[Block, Fraction]]:
        for block in self.tree.blocks:
            if block[0] in group[1:] and block[1] < at < block[2] and not self.lost(block):
                yield block, self._part(block, at, group[0])

    def difference(self, block: Block) -> Weights:
        level, _, end = block
        weights = {(level, end, ANNOUNCED): Fraction(1)}
        if (stage := self.stage(block)) > 0:
            weights |= {(level, end, stage): Fraction(1), (level, end, 0): Fraction(-1)}
        return weights

    def weights(self) -> Weights:
        """The weight of each figure in the value."""
        total: Weights = defaultdict(Fraction)
        for block in self.cover:
            total[block[0], block[2], self.stage(block)] += 1
        shares = [(block, Fraction(1)) for block in self.whole]
        for begun, ended in self.sides:
            shares += [*ended, *((block, -part) for block, part in begun)]
        for block, part in shares:
            for figure, weight in self.difference(block).items():
                total[figure] += part * weight
        return {figure: weight for figure, weight in total.items() if weight}

    @property
    def published(self) -> float:
        """After which step the last figure in the value was public."""
        starts = {(level, end): start for level, start, end in self.tree.blocks}
        steps = [
            starts[level, end] + 1
            if stage == ANNOUNCED
            else end + self.mechanism.levels[level].stages[stage].lag
            for level, end, stage in self.weights()
        ]
        return max(steps, default=self.as_of)

    def value(self, figures: dict[tuple[int, int, int], int]) -> int:
        def difference(block: Block) -> Fraction:
            terms = self.difference(block).items()
            return sum((weight * figures[name] for name, weight in terms), Fraction(0))

        total = sum(figures[block[0], block[2], self.stage(block)] for block in self.cover)
        total += int(sum(map(difference, self.whole), Fraction(0)))
        for side in self.sides:
            for sign, shares in zip((-1, 1), side, strict=True):
                exact = sum((part * difference(block) for block, part in shares), Fraction(0))
                total += sign * math.floor(exact + Fraction(1, 2))
        return total

    def noises(self) -> dict[tuple[int, int, int], Fraction]:
        """The weights of the independent parts of noises: the noise of a stage is its own part and
        those of all later stages of the block."""
        noises: Weights = defaultdict(Fraction)

        def add(level: int, end: int, stage: int, weight: Fraction) -> None:
            for part in range(stage, len(self.mechanism.levels[level].stages)):
                noises[level, end, part] += weight

        for (level, end, stage), weight in self.weights().items():
            add(level, end, max(0, stage), weight)
            if stage == ANNOUNCED:
                block = next(b for b in self.tree.blocks if b[0] == level and b[2] == end)
                for below, _, child in self.tree.children(block):
                    add(below, child, 0, -weight)
        return {name: weight for name, weight in noises.items() if weight}


def covariance(one: Reader, other: Reader) -> float:
    """Of the noises in two windows, part by part."""
    total, others = 0.0, other.noises()
    for (level, end, stage), weight in one.noises().items():
        budgets = [each.epsilon for each in one.mechanism.levels[level].stages[stage:]]
        variance = variance_of(budgets[0])
        variance -= variance_of(budgets[1]) if len(budgets) > 1 else 0.0
        total += float(weight * others.get((level, end, stage), Fraction(0))) * variance
    return total


def grouped(reader: Reader) -> Counter[tuple[Fraction, float]]:
    """How many noises of which weight and budget: the parts of a block's latest stage."""
    counted: Counter[tuple[Fraction, float]] = Counter()
    by_block: dict[tuple[int, int], dict[int, Fraction]] = defaultdict(dict)
    for (level, end, stage), weight in reader.noises().items():
        by_block[level, end][stage] = weight
    for (level, _), parts in by_block.items():
        stages, first = reader.mechanism.levels[level].stages, min(parts)
        assert parts == dict.fromkeys(range(first, len(stages)), parts[first])
        counted[parts[first], stages[first].epsilon] += 1
    return counted


def random_case(chance: random.Random, *, lossy: bool) -> tuple[list[Reader], Views]:
    """Some windows of a random design and calendar, by both readers."""
    mechanism = random_design(chance, longest=60, most_levels=4)
    tree = random_tree(len(mechanism.levels), chance)
    missing: frozenset[tuple[int, int]] = frozenset()
    if lossy:
        larger = [(level, end) for level, _, end in tree.blocks if level]
        missing = frozenset(chance.sample(larger, min(len(larger), chance.randint(0, 8))))
    readers = []
    last = tree.ends[0][-1]
    for _ in range(5):
        start = chance.choice([0, 0, *tree.ends[0]])
        end = chance.randint(min(start, last - 1) + 1, last)
        since = chance.choice([0, chance.randint(0, end)]) if lossy else 0
        as_of = chance.randint(max(1, end - 10), end + chance.choice([5, 80]))
        readers.append(Reader(mechanism, tree, start, end, as_of, since, missing))
    asked = np.array([(each.start, each.end, each.as_of, each.since) for each in readers]).T
    starts, ends, as_of_all, sinces = asked.astype(np.int64)
    views = views_of(
        mechanism,
        starts,
        ends,
        as_of_all,
        calendar=tree.calendar,
        since=sinces,
        missing=missing,
    )
    return readers, views


def random_figures(reader: Reader, chance: random.Random) -> dict[tuple[int, int, int], int]:
    """Any numbers: the two readers must agree on all of them."""
    return {
        (level, end, stage): chance.randint(-(10**12), 10**12)
        for level, _, end in reader.tree.blocks
        for stage in range(ANNOUNCED, len(reader.mechanism.levels[level].stages))
    }


def listed(figures: dict[tuple[int, int, int], int]) -> list[Figure]:
    return [Figure(level, 0, end, stage, value) for (level, end, stage), value in figures.items()]


@pytest.mark.parametrize("lossy", [False, True])
def test_against_the_definition(lossy: bool) -> None:
    chance = random.Random(31 + lossy)
    finals = shared = 0
    for _ in range(100):
        readers, views = random_case(chance, lossy=lossy)
        figures = random_figures(readers[0], chance)
        values = views.values(ListedFigures(listed(figures)))[:, 0]
        variances, needs = views.variances(), views.needs()
        for window, reader in enumerate(readers):
            assert views.reached[window] == reader.reached
            assert views.begun[window] == reader.begun
            assert values[window] == reader.value(figures)
            noise: Counter[tuple[Fraction, float]] = Counter()
            for weight, budget, count in views.noise_of(window):
                noise[weight, budget] += count
            assert noise == grouped(reader)
            assert variances[window] == pytest.approx(covariance(reader, reader), rel=1e-12)
            sides = [shares for side in reader.sides for shares in side]
            assert views.roundings[window] == sum(map(bool, sides))
            shared += any(sides)
            eternal = replace(reader, as_of=math.inf)
            final = (reader.reached, reader.weights()) == (eternal.reached, eternal.weights())
            assert views.final[window] == final
            finals += final
            assert views.published[window] == reader.published
            for level, end, stage in reader.weights():
                assert any(low < end <= high for low, high in needs[level, stage])
        for ranges in needs.values():
            assert (np.diff(ranges.ravel()) > 0).all()
        only = {
            (level, end, stage): value
            for (level, end, stage), value in figures.items()
            if any(low < end <= high for low, high in needs.get((level, stage), ()))
        }
        assert np.array_equal(views.values(ListedFigures(listed(only)))[:, 0], values)
    assert min(finals, shared) > 50


@pytest.mark.parametrize("lossy", [False, True])
def test_every_step_counts_exactly_once(lossy: bool) -> None:
    """Counts without noise: each view is the number of events in the steps that it counts."""
    chance = random.Random(41 + lossy)
    for _ in range(60):
        readers, views = random_case(chance, lossy=lossy)
        counts = np.array([chance.randint(0, 9) for _ in range(200)])
        figures = dict.fromkeys(random_figures(readers[0], chance), 0)
        for level, start, end in readers[0].tree.blocks:
            for stage in range(len(readers[0].mechanism.levels[level].stages)):
                figures[level, end, stage] = int(counts[start:end].sum())
        values = views.values(ListedFigures(listed(figures)))[:, 0].tolist()
        spans = zip(views.begun.tolist(), views.reached.tolist(), strict=True)
        assert values == [counts[low:high].sum() for low, high in spans]
        covered: list[list[int]] = [[] for _ in readers]
        for run in views.runs:
            for window, low, high in zip(run.windows, run.starts, run.ends, strict=True):
                covered[window] += range(low, high)
        for window, steps in enumerate(covered):
            assert sorted(steps) == list(range(views.begun[window], views.reached[window]))


def chain(budgets: list[float], generator: np.random.Generator, keys: int) -> list[np.ndarray]:
    """The noises of the stages of a block, the coarsest first."""
    noises = [(generator.geometric(-math.expm1(-budgets[-1]), (2, keys)) * [[1], [-1]]).sum(axis=0)]
    for coarse, sharp in reversed(list(pairwise(budgets))):
        geometric = generator.geometric(-math.expm1(-coarse), (2, keys)) - 1
        none = generator.random((2, keys)) < math.expm1(coarse) / math.expm1(sharp)
        noises.insert(0, noises[0] + (np.where(none, 0, geometric) * [[1], [-1]]).sum(axis=0))
    return noises


def noisy_figures(mechanism: fc.Blocks, tree: Tree, keys: int, seed: int) -> list[Figure]:
    """All figures of counts of 0, from independent noises."""
    generator, first, figures = np.random.default_rng(seed), {}, []
    for block in tree.blocks:
        level, start, end = block
        stages = mechanism.levels[level].stages
        noises = chain([stage.epsilon for stage in stages], generator, keys)
        first[block] = noises[0]
        figures += [Figure(level, start, end, at, each) for at, each in enumerate(noises)]
        if mechanism.levels[level].tied:
            below = sum(first[child] for child in tree.children(block))
            figures.append(Figure(level, start, end, ANNOUNCED, noises[0] - below))
    return figures


@pytest.mark.parametrize("lossy", [False, True])
def test_adjacent_windows_in_a_tied_block_add_up(lossy: bool) -> None:
    """In integers, at every cut, also where blocks are lost, with all that they are in, or begin
    before the key."""
    chance = random.Random(45 + lossy)
    mechanism = fc.Blocks(
        fc.Level(1, 0.4),
        fc.Level(4, 0.3, tied=True),
        fc.Level(24, 0.5, tied=True),
        fc.Level(48, 0.2, tied=True, later=((2, 0.5),)),
    )
    for trial in range(15):
        tree = random_tree(4, chance, 150)
        figures = ListedFigures(noisy_figures(mechanism, tree, 3, trial))
        top = chance.choice(tree.ends[3])
        steps = chance.sample(range(1, top + 1), 2 * lossy)
        lost = frozenset(
            (level, end)
            for level, start, end in tree.blocks
            if level > 0 and any(start < step <= end for step in steps)
        )
        cuts = [0, *(end for end in tree.ends[0] if end <= top)]
        as_of, since = top + chance.randint(0, 5), chance.choice(cuts) if lossy else 0
        given = {"calendar": tree.calendar, "missing": lost, "since": since}
        parts = views_of(mechanism, cuts[:-1], cuts[1:], as_of, **given)  # type: ignore[arg-type]
        sums = np.cumsum(parts.values(figures), axis=0)
        whole = views_of(mechanism, 0, cuts[1:], as_of, **given)  # type: ignore[arg-type]
        assert np.array_equal(whole.values(figures), sums)
        rest = views_of(mechanism, cuts[:-1], top, as_of, **given)  # type: ignore[arg-type]
        assert np.array_equal(rest.values(figures)[1:], sums[-1] - sums[:-1])


def test_adjusted_children_add_up_to_the_parent() -> None:
    """Differences of 11 shared by 24 hours: each alone would be rounded to 0."""
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5, tied=True), fc.Level(72, 1, tied=True))
    chance = random.Random(43)
    figures = {(0, hour, 0): chance.randint(-20, 90) for hour in range(1, 73)}
    for level, length in ((1, 24), (2, 72)):
        for end in range(length, 73, length):
            step = 1 if level == 1 else 24
            children = range(end - length + step, end + 1, step)
            figures[level, end, ANNOUNCED] = chance.choice([11, -11, 5])
            total = sum(figures[level - 1, child, 0] for child in children)
            figures[level, end, 0] = total + figures[level, end, ANNOUNCED]

    def count(start: int, end: int) -> int:
        return int(blocks.view(start, end, as_of=100).value(listed(figures)))

    assert sum(count(hour - 1, hour) for hour in range(1, 73)) == figures[2, 72, 0]
    assert count(0, 24) + count(24, 48) + count(48, 72) == figures[2, 72, 0]
    for cut in range(1, 24):
        assert count(0, cut) + count(cut, 24) == count(0, 24)


def test_bands_hold_on_a_fixed_sample() -> None:
    """20,000 keys, a calendar with unequal blocks, two of them lost, and windows of all kinds: the
    bands hold in 95 %, or a little more since counts and shares are whole numbers."""
    mechanism = fc.Blocks(
        fc.Level(1, 0.3),
        fc.Level(4, 0.2, tied=True),
        fc.Level(12, 0.4, lag=5),
        fc.Level(24, 0.3, lag=5, tied=True, later=((9, 0.8),)),
    )
    tree = random_tree(4, random.Random(8), 150)
    last = tree.ends[3][-1]
    figures = ListedFigures(noisy_figures(mechanism, tree, 20_000, 9))
    lost = frozenset({(3, tree.ends[3][1]), (1, tree.ends[1][2])})
    chance, windows = random.Random(10), []
    for _ in range(40):
        start, end = sorted(chance.sample([0, *(e for e in tree.ends[0] if e <= last)], 2))
        windows.append((start, end, end + chance.randint(0, 20), chance.choice([0, 0, 30])))
    starts, ends, as_of, since = np.array(windows).T
    views = views_of(
        mechanism, starts, ends, as_of, calendar=tree.calendar, since=since, missing=lost
    )
    values, widths = views.values(figures), views.half_widths(0.05)
    out = views.begun < views.reached
    outside = (np.abs(values) > widths[:, np.newaxis]).mean(axis=1)[out]
    assert out.sum() > 30
    assert (outside < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 20_000)).all()
    assert outside.mean() > 0.03
    same, added = views.rounded(figures)
    assert np.array_equal(same, values)
    assert (np.abs(added) <= 0.5 * views.roundings[:, np.newaxis]).all()
    around = half_widths_around(bounds_of_sums([(views, 1)], 0.05)[:, np.newaxis], added)
    assert (around <= widths[:, np.newaxis]).all()
    outside = (np.abs(values) > around).mean(axis=1)[out]
    assert (outside < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 20_000)).all()
    assert outside.mean() > 0.043
    # a mean of 20,000 squares: its deviation is below 2 % of it
    squares = (values - values.mean(axis=1, keepdims=True)).astype(np.float64) ** 2
    expected = views.variances()[out] + views.roundings[out] / 12
    assert squares.mean(axis=1)[out] == pytest.approx(expected, rel=0.09)
    single = [
        views_of(mechanism, *w[:3], calendar=tree.calendar, since=w[3], missing=lost)
        for w in windows
    ]
    assert [int(view.half_widths(0.05)[0]) for view in single] == widths.tolist()


def test_a_day_is_its_own_figure_not_a_difference_of_totals() -> None:
    start, end, now = 1440 * 220, 1440 * 221, 1440 * 221 + 61
    own = math.sqrt(READABLE.window_variance(start, end, as_of=now))
    totals = math.sqrt(READABLE.variance(start) + READABLE.variance(end))
    assert own < 2.2 < 15 < totals
    assert READABLE.window_interval(start, end, as_of=now) == 5
    assert READABLE.window_interval(start, end) > 20  # the day has ended, but is not out


def test_a_part_that_is_not_public_is_said_or_refused() -> None:
    """The second block of 60,000 steps is open: nothing of it is counted."""
    blocks = fc.Blocks(fc.Level(60_000, 0.5))
    view = blocks.view(0, 119_000)
    assert view.partial and view.reached == 60_000 and view.half_width(0.05) == 6
    assert blocks.error_bound(119_000, 0.05) == 6, "the live total counts what is public"
    for ask in (blocks.window_interval, blocks.window_variance):
        with pytest.raises(ParameterError, match="end must be at most 60000, up to which figures"):
            ask(0, 119_000)
        assert ask(0, 120_000) > 0 == ask(0, 60_000, as_of=60_000) - ask(60_000, 120_000)
    whole = blocks.view(0, 120_000)
    assert not whole.partial and whole.reached == 120_000


def test_a_window_that_is_not_out_is_empty() -> None:
    view = fc.Blocks(fc.Level(1, 0.5, lag=5)).view(10, 20, as_of=12)
    assert view.partial and view.reached == 10
    assert (view.views.runs, view.views.noise_of(0), view.value([])) == ((), (), 0)
    assert view.half_width(0.05) == view.variance() == 0
    assert view.views.needs() == {}
    assert not view.views.final.any()


def test_no_windows() -> None:
    views = views_of(READABLE, [], [], 5, calendar=READABLE.calendar)
    assert views.values(ListedFigures([])).shape == (0, 1)
    assert len(views.half_widths(0.05)) == len(views.variances()) == len(views.final) == 0


def test_a_window_beyond_the_known_blocks_is_not_final() -> None:
    blocks, dates = fc.Blocks(fc.Level(1, 0.5)), EdgedBlocks([range(1, 11)])
    views = views_of(blocks, 0, [10, 11], 50, calendar=dates)
    assert views.reached.tolist() == [10, 10]
    assert views.final.tolist() == [True, False]


def test_a_share_that_grows_when_a_lost_block_is_due_is_not_final() -> None:
    """Steps 3 and 4 are out, their block never will be; a half of the larger one is over only when
    its figure would be."""
    blocks = fc.Blocks(
        fc.Level(1, 0.5), fc.Level(2, 0.5, lag=5), fc.Level(8, 0.5, lag=5, tied=True)
    )
    lost = frozenset({(1, 4)})
    views = views_of(blocks, 0, 4, [6, 7, 8, 9], calendar=blocks.calendar, missing=lost)
    assert views.final.tolist() == [False, False, False, True]
    (((_, end),),) = views.shares
    assert end.shared.tolist() == [False, True, True, True]
    assert end.numerators.tolist() == [0, 1, 1, 2]


def test_the_values_of_keys() -> None:
    counter = fc.Counter(READABLE, shape=(3,))
    totals = counter.extend(np.ones((200, 3), dtype=np.int64))
    figures = counter.figures()
    assert np.array_equal(READABLE.view(0, 200).value(figures), totals[-1])


def test_a_figure_that_is_not_given() -> None:
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(4, 0.5))
    counter = fc.Counter(blocks)
    counter.extend([1] * 8)
    figures, view = counter.figures(), blocks.view(3, 8)
    values = {each[:3]: each.value for each in figures}
    assert view.value(figures) == values[0, 3, 4] + values[1, 4, 8]
    for lost in ((0, 3, 4), (1, 4, 8)):
        with pytest.raises(ParameterError, match=f"level {lost[0]} and stage 0 up to {lost[2]}"):
            view.value([each for each in figures if each[:3] != lost])
    with pytest.raises(TypeError, match="same_kind"):
        ListedFigures([Figure(0, 0, 1, 0, 0.5)])


def test_few_ranges_of_figures_are_needed() -> None:
    """Totals as of 200 midnights need an hour of minutes before each: most gaps are closed."""
    days = np.arange(1, 201) * 1440
    views = views_of(READABLE, 0, days, days, calendar=READABLE.calendar)
    needs = views.needs()
    assert max(map(len, needs.values())) == 32
    assert all((np.diff(ranges.ravel()) > 0).all() for ranges in needs.values())
    for run in views.runs:
        for low, high in zip(run.starts, run.ends, strict=True):
            assert any(a <= low and high <= b for a, b in needs[run.level, run.stage])


@dataclass
class Scripted:
    """Counts of 0 and these differences."""

    differences: Weights
    keys = 1

    def at(self, level: int, stage: int, ends: np.ndarray) -> np.ndarray:
        return np.array([[int(self.differences[level, at, stage])] for at in ends.tolist()])

    def sums(self, level: int, stage: int, ends: np.ndarray) -> np.ndarray:
        return np.zeros((len(ends), 1), dtype=np.int64)


def test_shares_of_huge_differences_do_not_wrap() -> None:
    """Differences near 2**61 in blocks of a million children: products would need 80 bits."""
    million = 1_000_000
    blocks = fc.Blocks(
        fc.Level(1, 0.5), fc.Level(1000, 0.5, tied=True), fc.Level(million, 0.5, tied=True)
    )
    chance = random.Random(2)
    for _ in range(50):
        start, end = sorted(chance.sample(range(1, million), 2))
        huge = [chance.randint(-(1 << 61), 1 << 61) for _ in range(3)]
        views = views_of(blocks, start, end, end, calendar=blocks.calendar)
        ends = [-(-at // 1000) * 1000 for at in (start, end)]
        figures = {(1, at, ANNOUNCED): Fraction(huge[side]) for side, at in enumerate(ends)}
        figures[2, million, ANNOUNCED] = Fraction(huge[2])

        def share(at: int, figures: Weights = figures) -> int:
            small = Fraction(at % 1000, 1000) * figures[1, -(-at // 1000) * 1000, ANNOUNCED]
            large = Fraction(at, million) * figures[2, million, ANNOUNCED]
            return math.floor(large + small + Fraction(1, 2))

        whole = figures[1, ends[0], ANNOUNCED] if ends[0] != ends[1] and start % 1000 else 0
        value = views.values(Scripted(figures))[0, 0]
        assert value == share(end) - share(start) + int(whole)
