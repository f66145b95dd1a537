"""Views of block counters against a reader written from the definition alone: which figures, what
weights, the noise in it, on calendars with unequal blocks and with later keys."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import Figure, ListedFigures, Views, views_of
from fadecount.mechanisms.noise_distribution import variance_of
from tests.mechanisms.block_oracles import random_design
from tests.mechanisms.edged_blocks import EdgedBlocks
from tests.mechanisms.test_blocks import READABLE

Block = tuple[int, int, int]
"""Level, start, end."""
Names = list[tuple[int, int, int]]
"""Figures by level, end and stage."""


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

    def __post_init__(self) -> None:
        self.cover = list(self._cover())
        self.begun = min((block[1] for block in self.cover), default=self.start)
        self.reached = max((block[2] for block in self.cover), default=self.start)

    def stage(self, block: Block) -> int:
        """The latest stage that is out; -1 if none."""
        stages = self.mechanism.levels[block[0]].stages
        return sum(block[2] + lag <= self.as_of for lag, _ in stages) - 1

    def _cover(self) -> Iterator[Block]:
        waiting = self.tree.roots()
        while waiting:
            block = waiting.pop()
            inside = self.start <= block[1] and block[2] <= self.end
            if inside and block[1] >= self.since and self.stage(block) >= 0:
                yield block
            else:
                waiting += self.tree.children(block)

    @property
    def names(self) -> Names:
        """The figures in the value."""
        return [(block[0], block[2], self.stage(block)) for block in self.cover]

    @property
    def published(self) -> float:
        """After which step the last figure in the value was public."""
        levels = self.mechanism.levels
        steps = [end + levels[level].stages[stage].lag for level, end, stage in self.names]
        return max(steps, default=self.as_of)

    def value(self, figures: dict[tuple[int, int, int], int]) -> int:
        return sum(map(figures.__getitem__, self.names))

    def noise(self) -> Counter[float]:
        """How many noises of which budget."""
        levels = self.mechanism.levels
        return Counter(levels[level].stages[stage].epsilon for level, _, stage in self.names)


def random_case(chance: random.Random, *, later: bool) -> tuple[list[Reader], Views]:
    """Some windows of a random design and calendar, by both readers."""
    mechanism = random_design(chance, longest=60, most_levels=4)
    tree = random_tree(len(mechanism.levels), chance)
    readers = []
    last = tree.ends[0][-1]
    for _ in range(5):
        start = chance.choice([0, 0, *tree.ends[0]])
        end = chance.randint(min(start, last - 1) + 1, last)
        since = chance.choice([0, chance.randint(0, end)]) if later else 0
        as_of = chance.randint(max(1, end - 10), end + chance.choice([5, 80]))
        readers.append(Reader(mechanism, tree, start, end, as_of, since))
    asked = np.array([(each.start, each.end, each.as_of, each.since) for each in readers]).T
    starts, ends, as_of_all, sinces = asked.astype(np.int64)
    views = views_of(mechanism, starts, ends, as_of_all, calendar=tree.calendar, since=sinces)
    return readers, views


def random_figures(reader: Reader, chance: random.Random) -> dict[tuple[int, int, int], int]:
    """Any numbers: the two readers must agree on all of them."""
    return {
        (level, end, stage): chance.randint(-(10**12), 10**12)
        for level, _, end in reader.tree.blocks
        for stage in range(len(reader.mechanism.levels[level].stages))
    }


def listed(figures: dict[tuple[int, int, int], int]) -> list[Figure]:
    return [Figure(level, 0, end, stage, value) for (level, end, stage), value in figures.items()]


@pytest.mark.parametrize("later", [False, True])
def test_against_the_definition(later: bool) -> None:
    chance = random.Random(31 + later)
    finals = 0
    for _ in range(100):
        readers, views = random_case(chance, later=later)
        figures = random_figures(readers[0], chance)
        values = views.values(ListedFigures(listed(figures)))[:, 0]
        variances, needs = views.variances(), views.needs()
        for window, reader in enumerate(readers):
            assert views.reached[window] == reader.reached
            assert views.begun[window] == reader.begun
            assert values[window] == reader.value(figures)
            noise: Counter[float] = Counter()
            for weight, budget, count in views.noise_of(window):
                assert weight == 1
                noise[budget] += count
            assert noise == reader.noise()
            variance = sum(count * variance_of(budget) for budget, count in noise.items())
            assert variances[window] == pytest.approx(variance, rel=1e-12)
            eternal = replace(reader, as_of=math.inf)
            final = (reader.reached, reader.names) == (eternal.reached, eternal.names)
            assert views.final[window] == final
            finals += final
            assert views.published[window] == reader.published
            for level, end, stage in reader.names:
                assert any(low < end <= high for low, high in needs[level, stage])
        for ranges in needs.values():
            assert (np.diff(ranges.ravel()) > 0).all()
        only = {
            (level, end, stage): value
            for (level, end, stage), value in figures.items()
            if any(low < end <= high for low, high in needs.get((level, stage), ()))
        }
        assert np.array_equal(views.values(ListedFigures(listed(only)))[:, 0], values)
    assert finals > 50


@pytest.mark.parametrize("later", [False, True])
def test_every_step_counts_exactly_once(later: bool) -> None:
    """Counts without noise: each view is the number of events in the steps that it counts."""
    chance = random.Random(41 + later)
    for _ in range(60):
        readers, views = random_case(chance, later=later)
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
    generator, figures = np.random.default_rng(seed), list[Figure]()
    for level, start, end in tree.blocks:
        stages = mechanism.levels[level].stages
        noises = chain([stage.epsilon for stage in stages], generator, keys)
        figures += [Figure(level, start, end, at, each) for at, each in enumerate(noises)]
    return figures


def test_adjacent_windows_add_up_where_the_same_blocks_cover_them() -> None:
    """Two weeks are two weeks, and so are seven days and seven more."""
    chance = random.Random(45)
    blocks = fc.Blocks(fc.Level(1, 0.4), fc.Level(24, 0.3), fc.Level(720, 0.5, lag=5))
    figures = ListedFigures(
        [
            Figure(level, end - length, end, 0, chance.randint(-99, 99))
            for level, length in enumerate((1, 24, 720))
            for end in range(length, 2161, length)
        ]
    )
    weeks = np.arange(0, 720, 168)
    parts = views_of(blocks, weeks[:-1], weeks[1:], 3000, calendar=blocks.calendar)
    days = views_of(blocks, range(0, 672, 24), range(24, 673, 24), 3000, calendar=blocks.calendar)
    whole = views_of(blocks, 0, 672, 3000, calendar=blocks.calendar)
    assert parts.values(figures).sum() == whole.values(figures) == days.values(figures).sum()


def test_bands_hold_on_a_fixed_sample() -> None:
    """20,000 keys, a calendar with unequal blocks, and windows of all kinds: the bands hold in
    95 %, or a little more since counts are whole numbers."""
    mechanism = fc.Blocks(
        fc.Level(1, 0.3),
        fc.Level(4, 0.2),
        fc.Level(12, 0.4, lag=5),
        fc.Level(24, 0.3, lag=5, later=((9, 0.8),)),
    )
    tree = random_tree(4, random.Random(8), 150)
    last = tree.ends[3][-1]
    figures = ListedFigures(noisy_figures(mechanism, tree, 20_000, 9))
    chance, windows = random.Random(10), []
    for _ in range(40):
        start, end = sorted(chance.sample([0, *(e for e in tree.ends[0] if e <= last)], 2))
        windows.append((start, end, end + chance.randint(0, 20), chance.choice([0, 0, 30])))
    starts, ends, as_of, since = np.array(windows).T
    views = views_of(mechanism, starts, ends, as_of, calendar=tree.calendar, since=since)
    values, widths = views.values(figures), views.half_widths(0.05)
    out = views.begun < views.reached
    outside = (np.abs(values) > widths[:, np.newaxis]).mean(axis=1)[out]
    assert out.sum() > 30
    assert (outside < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 20_000)).all()
    assert outside.mean() > 0.03
    # a mean of 20,000 squares: its deviation is below 2 % of it
    squares = (values - values.mean(axis=1, keepdims=True)).astype(np.float64) ** 2
    assert squares.mean(axis=1)[out] == pytest.approx(views.variances()[out], rel=0.09)
    single = [views_of(mechanism, *w[:3], calendar=tree.calendar, since=w[3]) for w in windows]
    assert [int(view.half_widths(0.05)[0]) for view in single] == widths.tolist()


def test_a_day_is_its_own_figure_not_a_difference_of_totals() -> None:
    start, end, now = 1440 * 220, 1440 * 221, 1440 * 221 + 61
    own = math.sqrt(READABLE.window_variance(start, end, as_of=now))
    totals = math.sqrt(READABLE.variance(start) + READABLE.variance(end))
    assert own < 2.2 < 15 < totals
    assert READABLE.window_interval(start, end, as_of=now) == 4
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


def test_lags_in_any_order_cover_as_far_as_anything_is_out() -> None:
    """Figures that adjoin from where a window begins to where it is covered, all of them public, at
    their latest stages; never less than the smallest blocks cover, or the largest from the start
    of one of them."""
    chance = random.Random(11)
    for _ in range(400):
        lengths = chance.choice([(1, 2, 4), (1, 6), (2, 4, 12), (1, 3, 6, 24)])
        levels = [
            fc.Level(length, 0.5, lag=(lag := chance.randint(0, 30)), later=((lag + 7, 0.9),))
            for length in lengths
        ]
        blocks = fc.Blocks(*levels)
        starts = np.array([chance.randint(0, 60) for _ in range(20)])
        ends = starts + [chance.randint(1, 60) for _ in range(20)]
        as_of = np.array([chance.randint(1, 150) for _ in range(20)])
        views = views_of(blocks, starts, ends, as_of, calendar=blocks.calendar)
        used: dict[int, list[tuple[int, int]]] = {at: [] for at in range(20)}
        for run in views.runs:
            lag = levels[run.level].stages[run.stage].lag
            for at, low, high in zip(run.windows, run.starts, run.ends, strict=True):
                used[int(at)].append((int(low), int(high)))
                assert high + lag <= as_of[at], "public"
                later = levels[run.level].stages[run.stage + 1 :]
                assert all(low + lengths[run.level] + each.lag > as_of[at] for each in later)
        for at, pieces in used.items():
            begun, reached = int(views.begun[at]), int(views.reached[at])
            place = begun
            for low, high in sorted(pieces):
                assert low == place
                place = high
            assert place == reached <= max(ends[at], begun)
            smallest = min(ends[at], as_of[at] - levels[0].lag) // lengths[0] * lengths[0]
            assert reached >= smallest or not pieces
            top = levels[-1]
            if begun % top.length == 0:  # then nothing before it is missing
                out = min(ends[at], as_of[at] - top.lag) // top.length * top.length
                assert reached >= out
