"""Counters of totals from tied blocks: the definition read literally, the golden run, any way of
stepping and saving, and the distribution of what comes out."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.counters import bridges as module
from fadecount.counters.state import SavedState
from fadecount.errors import ParameterError, SavedStateError
from fadecount.mechanisms.noise_distribution import variance_of
from fadecount.streams import Description, Ticks
from tests.counters.block_reference import NamedNoise
from tests.counters.test_block_counters import GivenNoise
from tests.mechanisms.test_totals import GOLDEN, levels_of
from tests.mechanisms.totals_oracles import random_totals, weights
from tests.streams.backends import BriefStore

SMALL = fc.Totals(
    fc.Level(1, 0.3),
    fc.Level(5, 0.4),
    fc.Level(10, 0.5),
    fc.Level(30, 0.25, lag=7),
    fc.Level(60, 0.5, lag=7, later=((20, 1.5),)),
)
KEYS = 40_000


def outputs_of(totals: fc.Totals, items: list[int], source: NamedNoise) -> list[int]:
    """The counts so far plus the weighted noises, rounded once: Python's ``round`` is half to
    even."""
    noise = source.of(totals)  # type: ignore[arg-type]
    result = []
    for step in range(1, len(items) + 1):
        shown = max(0, step - totals.delay)
        each = (
            weight * noise(level, block, stage)
            for (level, stage, block), weight in weights(totals.levels, step).items()
        )
        result.append(sum(items[:shown]) + round(sum(each, Fraction(0))))
    return result


def test_golden_run() -> None:
    golden = GOLDEN["run"]
    names = [(2, 1), (1, 1), (1, 2), *((0, block) for block in range(1, 7))]
    noise = GivenNoise(dict(zip(names, golden["noises"], strict=False)))
    counter = fc.Counter._with_noise(fc.Totals(*levels_of(golden["levels"])), noise)
    assert [counter.step(count) for count in golden["counts"]] == golden["totals"]


def test_halves_go_to_the_even_number() -> None:
    """A bridge of half a noise: 1/2 is 0, 3/2 is 2, and the same below 0."""
    totals = fc.Totals(fc.Level(1, 1), fc.Level(2, 1))
    for whole, output in ((1, 0), (3, 2), (5, 2), (-1, 0), (-3, -2), (-5, -2), (4, 2)):
        counter = fc.Counter._with_noise(totals, GivenNoise({(1, 1): whole}))
        assert [counter.step(0), counter.step(0)] == [output, whole]


class TestDefinition:
    def test_every_way_of_stepping(self) -> None:
        chance = random.Random(51)
        for trial in range(60):
            totals = random_totals(chance, longest=60)
            source, steps = NamedNoise(trial), chance.randint(1, 150)
            items = [chance.randint(-2, 5) for _ in range(steps)]
            expected = outputs_of(totals, items, source)
            one = fc.Counter._with_noise(totals, source)
            assert [one.step(item) for item in items] == expected
            assert fc.Counter._with_noise(totals, source).extend(items).tolist() == expected
            assert mixture(totals, source, np.array(items), None, chance).tolist() == expected

    def test_keys_are_counters_of_their_own(self) -> None:
        chance = random.Random(52)
        for trial in range(10):
            totals, source = random_totals(chance, longest=60), NamedNoise(trial)
            items = np.array([[chance.randint(0, 5) for _ in range(3)] for _ in range(70)])
            outputs = mixture(totals, source, items, 3, chance)
            for key in range(3):
                noise = KeyOf(source, key)
                assert outputs[:, key].tolist() == outputs_of(totals, items[:, key].tolist(), noise)

    def test_parts_of_any_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        items = np.arange(260).reshape(130, 2)
        bulk = fc.Counter._with_noise(SMALL, NamedNoise(3), width=2).extend(items)
        monkeypatch.setattr(module, "_BLOCK", 14)
        again = fc.Counter._with_noise(SMALL, NamedNoise(3), width=2).extend(items)
        assert np.array_equal(again, bulk)

    @pytest.mark.parametrize("width", [None, 2])
    def test_products_that_int64_does_not_hold(self, width: int | None) -> None:
        source = GivenNoise({(0, 1): 10**15, (1, 1): -(10**15) + 1, (0, 3): 7})
        totals = fc.Totals(fc.Level(1, 1e-6), fc.Level(1 << 13, 1e-6), fc.Level(1 << 16, 1e-6))
        expected = outputs_of(totals, [1, 2, 3], source)
        rows = np.array([1, 2, 3]) if width is None else np.array([[1, 1], [2, 2], [3, 3]])
        outputs = fc.Counter._with_noise(totals, source, width=width).extend(rows)
        assert (outputs if width is None else outputs[:, 0]).tolist() == expected

    def test_a_saved_state_in_the_middle_of_every_block(self) -> None:
        source, items = NamedNoise(9), [step % 3 for step in range(200)]
        counter, outputs = fc.Counter._with_noise(SMALL, source), []
        for item in items:
            outputs.append(int(counter.extend([item])[0]))
            blob = counter.save()
            counter = fc.Counter._resume_with_noise(blob, source)
            assert counter.save() == blob
        assert outputs == outputs_of(SMALL, items, source)


class KeyOf(NamedNoise):
    """The noise of one key."""

    def __init__(self, source: NamedNoise, key: int) -> None:
        super().__init__()
        self._source, self._key = source, key

    def value(self, level: int, stage: int, block: int, key: int = 0) -> int:
        return self._source.value(level, stage, block, self._key)


def mixture(
    totals: fc.Totals,
    source: Any,
    items: NDArray[np.int64],
    width: int | None,
    chance: random.Random,
) -> NDArray[np.int64]:
    """Steps, many at once, and saved states in any order; with a source, or system noise."""
    counter = (
        fc.Counter._with_noise(totals, source, width=width)
        if source is not None
        else fc.Counter(totals, shape=() if width is None else (width,))
    )
    outputs: list[Any] = []
    at = 0
    while at < len(items):
        part = items[at : at + chance.randint(1, max(1, len(items) // 4))]
        at += len(part)
        if chance.random() < 0.5:
            outputs += [counter.step(item if width else int(item)) for item in part]
        else:
            outputs += list(counter.extend(part))
        if chance.random() < 0.7:
            blob = counter.save()
            counter = (
                fc.Counter.resume(blob)
                if source is None
                else fc.Counter._resume_with_noise(blob, source)
            )
    return np.array(outputs)


class TestSystemNoise:
    @pytest.mark.parametrize("broken", [False, True])
    def test_variances_at_forty_steps(self, broken: bool) -> None:
        """In one go, and across saved states: the true variance is accepted, 2/3 and 3/2 of all
        budgets are rejected. A mean of 40,000 squares: its deviation is below 1.3 %."""
        steps, chance = 75, random.Random(2)
        nothing = np.zeros((steps, KEYS), dtype=np.int64)
        if broken:
            outputs = mixture(SMALL, None, nothing, KEYS, chance)
        else:
            outputs = fc.Counter(SMALL, shape=(KEYS,)).extend(nothing)
        for step in sorted(chance.sample(range(1, steps + 1), 40)):
            seen = float(np.mean(outputs[step - 1].astype(float) ** 2))
            true = float(SMALL.variance(step))
            assert true * 0.92 < seen < true * 1.08 + 0.25, step
            for wrong in (2 / 3, 3 / 2):
                other = float(SMALL.scaled(wrong).variance(step))
                assert not other * 0.92 < seen < other * 1.08 + 0.25, step
            error = 6.5 * math.sqrt(true / KEYS)
            assert abs(outputs[step - 1].mean()) < error
            outside = np.mean(np.abs(outputs[step - 1]) > SMALL.error_bound(step, 0.05))
            assert 0.025 < outside < 0.056, step

    def test_rounding_has_no_bias(self) -> None:
        """At a budget of 3, halves are as common as can be; half up would give + 0.11."""
        totals = fc.Totals(fc.Level(1, 3), fc.Level(2, 3))
        outputs = fc.Counter(totals, shape=(400_000,)).extend(np.zeros((1, 400_000), dtype=int))
        assert abs(outputs.mean()) < 6.5 * math.sqrt((totals.variance(1) + 0.25) / 400_000) < 0.01

    def test_differences_are_narrower_than_both(self) -> None:
        outputs = fc.Counter(SMALL, shape=(KEYS,)).extend(np.zeros((75, KEYS), dtype=np.int64))
        for first, last in ((3, 4), (14, 18), (33, 70)):
            seen = float(np.var(outputs[last - 1] - outputs[first - 1]))
            true = SMALL.window_variance(first, last)
            assert true * 0.92 < seen < true * 1.08 + 0.5
            both = float(SMALL.variance(first)) + float(SMALL.variance(last))
            assert true < both + 1e-9


class TestStates:
    def test_damage_is_refused(self) -> None:
        counter = fc.Counter(SMALL)
        counter.extend([1] * 13)
        blob = counter.save()
        state = SavedState.from_bytes(blob)
        tails = state.parts.tails
        wrong: list[dict[str, Any]] = [
            {"tails": tails[:-1]},
            {"tails": [*tails, tails[0]]},
            {"tails": [tails[0], tails[1] - 31, *tails[2:]]},
            {"tails": [tails[0], tails[1] + (1 << 40), *tails[2:]]},
            {"tails": []},
            {"time": 15},
            {"delayed": tails[:1]},
        ]
        for changes in wrong:
            parts = replace(state.parts, **changes)
            with pytest.raises(SavedStateError):
                fc.Counter.resume(replace(state, parts=parts).to_bytes())
        assert fc.Counter.resume(blob).save() == blob

    def test_the_state_is_small_and_holds_the_noise_of_open_blocks(self) -> None:
        counter = fc.Counter(SMALL)
        for _ in range(60):
            counter.extend([1] * 7)
            assert len(counter.save()) < 2500
        assert SMALL.stage(0).epsilon == 0.3
        assert variance_of(0.3) > 0

    def test_a_store_keeps_none(self) -> None:
        description = Description(name="s", mechanism=SMALL, ticks=Ticks(tick_seconds=60))
        with BriefStore() as store, pytest.raises(ParameterError) as refused:
            store.create(description, keys=["a"], start_tick=0)
        assert str(refused.value) == (
            "mechanism must be one that a store keeps, got 'Totals'; fc.plan gives block counters,"
            " which a store publishes"
        )

    def test_it_has_no_figures(self) -> None:
        with pytest.raises(ParameterError, match="mechanism must be Blocks to have figures, got T"):
            fc.Counter(SMALL).figures()
