"""Counters of blocks: the definition read literally, golden runs, any way of stepping and saving,
and the distributions of what comes out."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from campaigns.blocks.__main__ import BANDS, coverage
from numpy.typing import NDArray

import fadecount as fc
from fadecount.counters import blocks as module
from fadecount.counters.blocks import BlockCounter
from fadecount.counters.state import Parts, SavedState
from fadecount.errors import (
    ForkedError,
    InputError,
    ParameterError,
    SavedStateError,
    SumOverflowError,
)
from fadecount.mechanisms import Figure
from fadecount.mechanisms.noise_distribution import variance_of
from fadecount.noise import DiscreteLaplace, Lineage
from tests.counters.block_reference import NamedNoise, live_totals, published
from tests.mechanisms.block_oracles import random_design

SMALL = fc.Blocks(
    fc.Level(1, 0.3),
    fc.Level(5, 0.4),
    fc.Level(10, 0.5, lag=3, later=((6, 0.9),)),
    fc.Level(30, 0.25, lag=7),
    fc.Level(60, 0.5, lag=7, later=((20, 1.5),)),
)
KEYS = 40_000
SIGMAS = 6.2
"""As rare as one decision in ``tests.false_alarm``."""


class GivenNoise(NamedNoise):
    """Noises by (level, block), from a list."""

    def __init__(self, noises: dict[tuple[int, int], int]) -> None:
        super().__init__()
        self._noises = noises

    def value(self, level: int, stage: int, block: int, key: int = 0) -> int:
        return self._noises.get((level, block), 0)


class TestDefinition:
    def test_every_way_of_stepping(self) -> None:
        chance = random.Random(51)
        for trial in range(80):
            mechanism = random_design(chance, longest=40, most_levels=4)
            source, steps = NamedNoise(trial), chance.randint(1, 120)
            items = [chance.randint(-2, 5) for _ in range(steps)]
            totals = live_totals(mechanism, items, source.of(mechanism))
            records = published(mechanism, items, source.of(mechanism))
            figures = [record for step in sorted(records) for record in records[step]]
            one = fc.Counter._with_noise(mechanism, source)
            assert [one.step(item) for item in items] == totals
            assert one.figures() == figures
            assert one.figures() == []
            many = fc.Counter._with_noise(mechanism, source)
            assert many.extend(items).tolist() == totals
            assert many.figures() == figures
            outputs, seen, counter = mixture(mechanism, source, np.array(items), None, chance)
            assert outputs.tolist() == totals
            assert seen == figures
            assert counter.time == steps
            assert mechanism.view(0, steps).value(map(Figure._make, figures)) == totals[-1]

    def test_keys_are_counters_of_their_own(self) -> None:
        chance = random.Random(52)
        for trial in range(40):
            mechanism = random_design(chance, longest=40, most_levels=4)
            source, steps = NamedNoise(trial), chance.randint(1, 90)
            items = np.array([[chance.randint(0, 5) for _ in range(3)] for _ in range(steps)])
            outputs, seen, _ = mixture(mechanism, source, items, 3, chance)
            for key in range(3):
                noise = source.of(mechanism, key)
                assert outputs[:, key].tolist() == live_totals(
                    mechanism, items[:, key].tolist(), noise
                )
                own = published(mechanism, items[:, key].tolist(), noise)
                flat = [record for step in sorted(own) for record in own[step]]
                assert [(*each[:4], int(each.value[key])) for each in seen] == flat

    def test_parts_of_any_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        items = np.arange(260).reshape(130, 2)
        bulk = fc.Counter._with_noise(SMALL, NamedNoise(3), width=2).extend(items)
        monkeypatch.setattr(module, "_AT_ONCE", 14)
        assert np.array_equal(
            fc.Counter._with_noise(SMALL, NamedNoise(3), width=2).extend(items), bulk
        )

    def test_a_long_block_keeps_its_steps_in_order(self) -> None:
        mechanism = fc.Blocks(fc.Level(1, 0.5), fc.Level(10_000, 0.5))
        counter = fc.Counter._with_noise(mechanism, GivenNoise({}))
        assert [counter.step(1) for _ in range(9000)] == list(range(1, 9001))
        assert [figure.end for figure in counter.figures()] == list(range(1, 9001))

    def test_without_noise_every_step_counts_once(self) -> None:
        chance = random.Random(53)
        for _ in range(40):
            mechanism = random_design(chance, longest=60, most_levels=4)
            items = np.random.default_rng(1).integers(0, 9, 200)
            totals = fc.Counter._with_noise(mechanism, GivenNoise({})).extend(items)
            first = mechanism.levels[0]
            shown = np.maximum(np.arange(1, 201) - first.lag, 0) // first.length * first.length
            assert np.array_equal(totals, np.append(0, np.cumsum(items))[shown])


def mixture(
    mechanism: fc.Blocks,
    source: Any,
    items: NDArray[np.int64],
    width: int | None,
    chance: random.Random,
) -> tuple[NDArray[np.int64], list[Figure], fc.Counter]:
    """Steps, many at once, and saved states in any order; with a source, or system noise."""
    if source is None:
        counter = fc.Counter(mechanism, shape=() if width is None else (width,))
    else:
        counter = fc.Counter._with_noise(mechanism, source, width=width)
    outputs: list[Any] = []
    figures: list[Figure] = []
    at = 0
    while at < len(items):
        part = items[at : at + chance.randint(1, max(1, len(items) // 4))]
        at += len(part)
        if chance.random() < 0.5:
            outputs += [counter.step(item if width else int(item)) for item in part]
        else:
            outputs += list(counter.extend(part))
        if chance.random() < 0.5:
            figures += counter.figures()
            blob = counter.save()
            counter = (
                fc.Counter.resume(blob)
                if source is None
                else fc.Counter._resume_with_noise(blob, source)
            )
            assert isinstance(counter, BlockCounter)
    figures += counter.figures()
    return np.array(outputs), figures, counter


class TestSystemNoise:
    @pytest.mark.parametrize("width", [None, 3, 5000])
    def test_a_total_is_the_sum_of_its_figures(self, width: int | None) -> None:
        """Also across saved states in the middle of open blocks: nothing is drawn again."""
        chance = random.Random(54)
        for _ in range(8 if width != 5000 else 1):
            steps = 190 if width != 5000 else 70
            items = np.ones((steps,) if width is None else (steps, width), dtype=np.int64)
            outputs, figures, _ = mixture(SMALL, None, items, width, chance)
            keys = range(1) if width is None else range(min(width, 3))
            for key in keys:
                own = [
                    each if width is None else each._replace(value=int(each.value[key]))
                    for each in figures
                ]
                for step in chance.sample(range(1, steps + 1), 25):
                    public = [
                        each
                        for each in own
                        if published_at(SMALL, each.level, each.end, each.stage) <= step
                    ]
                    total = SMALL.view(0, step).value(public)
                    assert total == (outputs[step - 1] if width is None else outputs[step - 1, key])

    def test_a_saved_state_in_the_middle_of_every_block(self) -> None:
        counter, figures = fc.Counter(SMALL), list[Figure]()
        for step in range(1, 130):
            total = counter.step(step % 3)
            figures += counter.figures()
            assert SMALL.view(0, step).value(figures) == total
            blob = counter.save()
            assert len(blob) < 3000
            counter = fc.Counter.resume(blob)
            assert counter.save() == blob

    def test_variances_and_covariances(self) -> None:
        """Totals at several steps over 40,000 keys, stepped and in bulk, against the weights of all
        noises in them."""
        steps, seen = 75, [1, 4, 5, 13, 33, 61, 74]
        weights, variances = noise_weights(SMALL, steps, seen)
        expected = weights.T @ (weights * variances[:, None])
        for step, each in zip(seen, np.diag(expected), strict=True):
            assert SMALL.variance(step) == pytest.approx(each, rel=1e-6)
        wide = fc.Counter(SMALL, shape=(KEYS,)).extend(np.zeros((steps, KEYS), dtype=np.int64))
        narrow = [
            fc.Counter(SMALL, shape=(5000,)).extend(np.zeros((steps, 5000), dtype=np.int64))
            for _ in range(8)
        ]
        for outputs in (wide, np.concatenate(narrow, axis=1)):
            rows = outputs[[step - 1 for step in seen]].astype(np.float64)
            covariances = rows @ rows.T / KEYS
            spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
            # a mean of 40,000 products: its deviation is below 1.3 % of the spread; 6.5 of them
            assert np.all(np.abs(covariances - expected) < 0.085 * spread)
            error = 6.5 * np.sqrt(np.diag(expected) / KEYS)
            assert np.all(np.abs(rows.mean(axis=1)) < error)
            for row, step in zip(rows, seen, strict=True):
                outside = np.mean(np.abs(row) > SMALL.error_bound(step, 0.05))
                assert 0.03 < outside < 0.056, step

    def test_figures_have_their_budgets(self) -> None:
        counter = fc.Counter(SMALL, shape=(KEYS,))
        counter.extend(np.zeros((30, KEYS), dtype=np.int64))
        for figure in counter.figures():
            if figure.end <= 10:
                budget = SMALL.stage(figure.level, figure.stage).epsilon
                true = variance_of(budget)
                assert np.var(figure.value) == pytest.approx(true, rel=0.08)
                for wrong in (2 / 3, 3 / 2):
                    assert abs(np.var(figure.value) / variance_of(budget * wrong) - 1) > 0.2

    @pytest.mark.parametrize("name", BANDS)
    def test_bands_hold_the_truth_as_often_as_they_say(self, name: str) -> None:
        """A short version of ``python -m campaigns.blocks``; two totals of a key have noise in
        common, so that half of them would tell as much."""
        mechanism, last, most = BANDS[name]
        share, _ = coverage(mechanism, min(last, 5000), keys=400, seed=5, totals=50)
        slack = SIGMAS * math.sqrt(0.95 * 0.05 / 10_000)
        assert 0.95 - slack <= share <= most - 0.005 + slack


def published_at(mechanism: fc.Blocks, level: int, end: int, stage: int) -> int:
    return end + mechanism.levels[level].stages[stage].lag


def noise_weights(
    mechanism: fc.Blocks, steps: int, seen: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weight of each noise in the totals after some steps, and its variance; differences of a
    chain are noises of their own."""
    large = math.lcm(*(level.length for level in mechanism.levels)) * 10**6
    weights, variances = [], []
    for number, level in enumerate(mechanism.levels):
        budgets = [stage.epsilon for stage in level.stages]
        for block in range(1, -(-steps // level.length) + 1):
            for stage, budget in enumerate(budgets):

                def noise(at: int, which: int, since: int) -> int:
                    return large * ((at, which) == (number, block) and since <= stage)  # noqa: B023

                totals = live_totals(mechanism, [0] * steps, noise)
                weights.append([totals[step - 1] / large for step in seen])
                sharper = variance_of(budgets[stage + 1]) if stage + 1 < len(budgets) else 0.0
                variances.append(variance_of(budget) - sharper)
    return np.array(weights), np.array(variances)


class TestStates:
    @pytest.fixture
    def blob(self) -> bytes:
        counter = fc.Counter(SMALL)
        counter.extend([1] * 13)
        return counter.save()

    def altered(self, blob: bytes, **changes: Any) -> bytes:
        state = SavedState.from_bytes(blob)
        own = {name: value for name, value in changes.items() if name in Parts.__dataclass_fields__}
        parts = replace(state.parts, **own)
        others = {name: value for name, value in changes.items() if name not in own}
        return replace(state, parts=parts, **others).to_bytes()

    def test_it_comes_back(self, blob: bytes) -> None:
        counter = fc.Counter.resume(blob)
        assert (counter.time, counter.shape, counter.mechanism) == (13, (), SMALL)
        assert repr(counter).startswith("Counter(Blocks(Level(length=1")
        assert counter.save() == blob
        assert self.altered(blob) == blob

    def test_damage_is_refused(self, blob: bytes) -> None:
        tails = SavedState.from_bytes(blob).parts.tails
        for changes in (
            {"tails": tails[:-1]},
            {"tails": [row | 1 << 62 for row in tails]},
            {"time": 12},
            {"width": 2},
            {"delayed": tails[:1]},
            {"ahead": tails[:1]},
        ):
            with pytest.raises(SavedStateError):
                fc.Counter.resume(self.altered(blob, **changes))
        with pytest.raises(SavedStateError):
            fc.Counter.resume(blob[:-1])

    def test_the_state_grows_with_levels_only(self) -> None:
        sizes = set()
        counter = fc.Counter(fc.Blocks(fc.Level(1, 0.5), fc.Level(1000, 0.5)))
        for _ in range(60):
            counter.extend([1] * 50)
            sizes.add(len(counter.save()))
        assert max(sizes) < 2000

    def test_no_count_outlives_its_block(self) -> None:
        """Without noise, and with a bit for each step: what a state holds besides the live total
        tells of blocks that are open, and of figures that are out or will be."""
        mechanism = fc.Blocks(fc.Level(1, 1), fc.Level(5, 1), fc.Level(10, 1))
        for seed in range(8):
            chance, counter = random.Random(seed), fc.Counter._with_noise(mechanism, GivenNoise({}))
            while counter.time < 50:
                items = [1 << at for at in range(counter.time, counter.time + chance.randint(1, 4))]
                if chance.random() < 0.7:
                    for item in items:
                        counter.step(item)
                else:
                    counter.extend(items)
                parts = SavedState.from_bytes(counter.save()).parts
                ended = (1 << counter.time // 10 * 10) - 1
                assert parts.total == (1 << counter.time) - 1
                rows = [int(row[0]) for row in (*parts.tails, *parts.ahead)]
                assert all(0 <= row < 1 << counter.time for row in rows)
                assert not any(row & ended for row in rows)

    def test_a_state_holds_no_noise_of_open_blocks(self) -> None:
        """Without counts, all numbers of a state between two publications are 0: nothing is drawn
        before its block ends."""
        mechanism = fc.Blocks(fc.Level(5, 1), fc.Level(10, 1), fc.Level(100, 1))
        counter = fc.Counter(mechanism)
        for _ in range(4):
            counter.step(0)
            parts = SavedState.from_bytes(counter.save()).parts
            assert not np.any([*parts.tails, parts.total])


class TestBadInput:
    def test_inputs(self) -> None:
        counter: Any = fc.Counter(SMALL)
        for item in (1.5, "x", True, None, [1]):
            with pytest.raises(InputError):
                counter.step(item)
        with pytest.raises(InputError):
            counter.extend([[1]])
        assert counter.extend([]).shape == (0,)
        assert counter.time == 0
        with pytest.raises(InputError):
            fc.Counter(SMALL, shape=(2,)).step([1, 2, 3])

    def test_sums_stay_exact(self) -> None:
        counter = fc.Counter(SMALL)
        counter.step(1 << 61)
        with pytest.raises(SumOverflowError, match=r"sum would pass \+-2\*\*62"):
            counter.step(1 << 62)
        with pytest.raises(SumOverflowError):
            counter.extend([-(1 << 61)] * 3)
        assert counter.time == 1
        counter.extend([1] * 12)
        keyed = fc.Counter(SMALL, shape=(2,))
        keyed.step([1 << 61, 0])
        with pytest.raises(SumOverflowError):
            keyed.step([1 << 62, 0])
        for _ in range(2000):  # the bound on what was added is loose; the true counts decide
            keyed.step([1 << 59, 0])
            keyed.step([-(1 << 59), 0])

    def test_only_blocks_have_figures(self) -> None:
        with pytest.raises(ParameterError, match="mechanism must be Blocks to have figures, got G"):
            fc.Counter(fc.Gradual(0.5)).figures()

    def test_figures_that_nobody_asks_for_are_dropped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_MOST_KEPT", 40)
        for taken in ("extend", "step"):
            counter = fc.Counter(SMALL)
            for _ in range(60):
                counter.step(1) if taken == "step" else counter.extend([1])
            with pytest.raises(ParameterError, match="at least every 40 steps; those up") as late:
                counter.figures()
            dropped = int(str(late.value).split("up to step ")[1].split()[0])
            assert 0 < dropped < 20, "at least the last 40 steps are kept"
            level, left = SMALL.levels[0], counter.figures()
            ends = [each.end for each in left if each.level == each.stage == 0]
            assert [end for end in range(level.length, 61, level.length) if end not in ends] == [
                end for end in range(level.length, 61, level.length) if end + level.lag <= dropped
            ]
            assert counter.figures() == []
            counter.step(1)
            assert counter.figures()

    def test_a_forked_child_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counter = fc.Counter(SMALL)
        monkeypatch.setattr(Lineage, "current", object())
        for call in (lambda: counter.step(1), lambda: counter.extend([1]), counter.save):
            with pytest.raises(ForkedError):
                call()

    def test_it_cannot_be_copied(self) -> None:
        import copy

        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(fc.Counter(SMALL))


def test_scripted_noise_is_never_asked_for_with_another_law() -> None:
    """Bulk and single draws ask for the same variables under the same scales."""

    class Recorded(NamedNoise):
        def __init__(self) -> None:
            super().__init__(1)
            self.scales: dict[tuple[int, int], set[float]] = {}

        def many(
            self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
        ) -> NDArray[np.int64]:
            for each in rounds:
                self.scales.setdefault((level, each), set()).add(distribution.scale)
            return super().many(distribution, level, rounds, nodes, width)

    sources = Recorded(), Recorded()
    one = fc.Counter._with_noise(SMALL, sources[0])
    for _ in range(130):
        one.step(1)
    fc.Counter._with_noise(SMALL, sources[1]).extend([1] * 130)
    assert sources[0].scales == sources[1].scales
    assert all(len(scales) == 1 for scales in sources[0].scales.values())
