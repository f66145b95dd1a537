"""Planned block counters: never above a target, and as good as the best of their class."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.calendar import level_lengths
from fadecount.planning.blocks import (
    DAYS,
    BlockRequest,
    Regions,
    block_request_for,
    blocks_for,
    calendar_lengths,
    in_steps,
    plain_lengths,
)
from fadecount.planning.budgets import best_budgets
from fadecount.planning.chains import Graph, Search, Step
from fadecount.planning.request import read_request
from fadecount.streams import Ticks
from tests.planning.block_oracles import least_error, scipy_error, small_case, weighted_error
from tests.planning.oracles import LENGTHS, limit_at, random_targets

HERE = Path(__file__).parent
PLANNED: list[dict[str, Any]] = json.loads((HERE / "planned_blocks.json").read_text())
EARLIER: list[dict[str, Any]] = json.loads((HERE / "earlier_designs.json").read_text())
YEAR = {60: 0.5, 43_200: 2.0, 525_600: 4.0}


def planned(
    targets: Mapping[int, float],
    horizon: int,
    block_request: BlockRequest,
    unit: fc.Unit | None = None,
) -> fc.Blocks:
    request = read_request(loss=targets, horizon=horizon, unit=unit or fc.Unit())
    blocks = blocks_for(request, block_request)
    assert blocks is not None
    return blocks


def default_request(
    horizon: int, tick: float | None = None, figures: Mapping[int, float] | None = None
) -> BlockRequest:
    return block_request_for(read_request(loss={horizon: 1.0}, tick=tick, figures=figures))


def error(blocks: fc.Blocks, horizon: int) -> float:
    return math.sqrt(blocks.mse(horizon))


# Budgets
# ------------------------------------------------------------------------------------------------
def test_known_best_budgets() -> None:
    regions, later = np.array([[0, 0, 1, 1, 2]]), np.zeros((1, 5), dtype=bool)
    weights, caps = np.array([[4.5, 8.58, 11.5, 45.0, 12.0]]), np.array([0.5, 2.0, 4.0])
    solved = best_budgets(weights, regions, later, np.tri(3), caps)
    best = [0.22321394081543464, 0.2767860591845655, 0.5826132530275938, 0.9173867469724339, 2.0]
    assert solved.increments[0] == pytest.approx(best, rel=1e-7)
    prices = [1618.4678833585162, 232.49505984972424, 5.704311058356117]
    assert solved.prices[0] @ np.tri(3) == pytest.approx(prices, rel=1e-6)
    caps_of_the_year = Regions.of(read_request(loss=YEAR))
    assert np.array_equal(caps_of_the_year.counts, np.tri(3))
    whole = caps_of_the_year.whole(best, [0, 0, 1, 1, 2])
    assert whole == [223_213, 276_787, 582_613, 917_387, 2_000_000]


def test_regions_whose_cap_is_no_limit_share_a_price() -> None:
    regions, later = np.array([[0, 1, 2, 0]]), np.zeros((1, 4), dtype=bool)
    weights, caps = np.array([[1.0, 5.0, 30.0, 0.0]]), np.array([0.5, 0.6, 2.0])
    solved = best_budgets(weights, regions, later, np.tri(3), caps)
    best = [0.2214076561063674, 0.37859234389363255, 1.4, 0.0]
    assert solved.increments[0] == pytest.approx(best, rel=1e-6)
    prices = [368.53416597342664, 368.53416597342664, 43.13034604414265]
    assert solved.prices[0] @ np.tri(3) == pytest.approx(prices, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_budgets_are_as_good_as_those_of_scipy(seed: int) -> None:
    chance = np.random.default_rng(seed)
    steps, targets = int(chance.integers(1, 7)), int(chance.integers(1, 4))
    regions = np.sort(chance.integers(0, targets, steps))
    later = np.append(False, (chance.random(steps - 1) < 0.5) & (np.diff(regions) > 0))
    weights = np.exp(chance.normal(1.0, 1.5, steps))
    caps = np.cumsum(np.exp(chance.normal(-1.0, 1.0, targets)))
    counts = np.tri(targets) * (1.0 if seed % 2 else 3.0)
    solved = best_budgets(weights[None], regions[None], later[None], counts, caps)
    assert np.all(counts[:, regions] @ solved.increments[0] <= caps)
    other = scipy_error(weights, regions.tolist(), later.tolist(), counts, caps)
    assert solved.errors[0] == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("seed", range(50))
def test_whole_budgets_keep_every_cap(seed: int) -> None:
    chance = random.Random(seed)
    at = sorted(chance.randrange(3) for _ in range(6))
    caps = tuple(chance.randint(1, 10**7) for _ in range(3))
    regions = Regions(lags=(0, 11, 101), ages=(10, 100, 1000), caps=caps)
    whole = regions.whole([chance.uniform(0.0, 2.0) for _ in range(6)], at)
    for row, cap in zip(regions.counts, caps, strict=True):
        assert sum(int(row[region]) * each for region, each in zip(at, whole, strict=True)) <= cap


# Chains
# ------------------------------------------------------------------------------------------------
def test_weights_are_those_of_the_mechanism() -> None:
    graph = Graph([1, 20, 60, 1440, 43_200], [0, 61, 43_201], 525_600)
    chain = (
        Step(1, 0),
        Step(20, 0),
        Step(20, 1, later=True),
        Step(60, 1),
        Step(1440, 1),
        Step(43_200, 1),
        Step(43_200, 2, later=True),
    )
    path = graph.path(chain)
    assert path is not None
    assert graph.chain(path) == chain
    blocks = fc.Blocks(
        fc.Level(1, 0.2),
        fc.Level(20, 0.3, later=((61, 0.4),)),
        fc.Level(60, 0.5, lag=61),
        fc.Level(1440, 0.6, lag=61),
        fc.Level(43_200, 0.3, lag=61, later=((43_201, 2.0),)),
    )
    weights = [each for level in blocks.weights(525_600) for each in level]
    assert graph.weight[list(path)] == pytest.approx(weights, rel=1e-12)


def test_what_is_no_chain_has_no_path() -> None:
    graph = Graph([1, 2, 3, 6], [0, 11], 100)
    assert graph.path((Step(2, 0),)) is None
    assert graph.path((Step(1, 0), Step(5, 0))) is None
    assert graph.path((Step(1, 0), Step(2, 0), Step(3, 0))) is None
    assert graph.path((Step(1, 0), Step(2, 1), Step(6, 0))) is None
    assert graph.path(()) is None


def test_prices_of_any_kind_bound_the_error_from_below() -> None:
    regions, block_request = Regions.of(read_request(loss=YEAR)), default_request(525_600, 60, {})
    graph = Graph(block_request.lengths, regions.lags, 525_600)
    search = Search(graph, regions.counts, np.array(regions.caps) / 1e6)
    best = search.run()
    assert 0.999 * best.error < search.bound <= best.error * (1 + 1e-9)
    assert best.error == min(each.error for each in search.known.values())


@pytest.mark.parametrize("seed", range(100))
def test_no_design_of_a_small_class_is_better(seed: int) -> None:
    request, block_request = small_case(random.Random(seed))
    least, _ = least_error(request, block_request)
    blocks = blocks_for(request, block_request)
    assert blocks is not None
    assert weighted_error(blocks, request.horizon, block_request) <= 1.001 * least


# Known designs
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case["name"])
def test_designs_are_as_good_as_known_ones(case: dict[str, Any]) -> None:
    targets, horizon = dict(case["targets"]), case["horizon"]
    tick = case["tick_seconds"]
    seconds = {unit * count for unit, counts in LENGTHS for count in counts}
    lengths = tuple(
        each // tick for each in sorted(seconds) if each % tick == 0 and each <= horizon * tick
    )
    blocks = planned(targets, horizon, BlockRequest(lengths=lengths))
    assert error(blocks, horizon) <= 1.001 * case["blocks"]


def test_a_year_of_minutes() -> None:
    lengths = tuple(calendar_lengths(60, 525_600))
    assert error(planned(YEAR, 525_600, BlockRequest(lengths=lengths)), 525_600) <= 22.9


def figure_deviation(blocks: fc.Blocks, length: int) -> float:
    level = [each.length for each in blocks.levels].index(length)
    return math.sqrt(blocks.figure_variance(level, len(blocks.levels[level].stages) - 1))


def test_a_year_that_people_can_read() -> None:
    blocks = planned(YEAR, 525_600, default_request(525_600, 60))
    assert error(blocks, 525_600) <= 23.1
    assert figure_deviation(blocks, 60) <= 2.3
    assert figure_deviation(blocks, 1440) <= 0.85
    assert figure_deviation(blocks, 43_200) <= 1.11


def test_a_year_for_days() -> None:
    blocks = planned(YEAR, 525_600, default_request(525_600, 60, in_steps(DAYS, 60, 525_600)))
    assert figure_deviation(blocks, 1440) <= 0.69
    assert error(blocks, 525_600) <= 23.2


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case["name"])
def test_hours_and_days_are_levels_and_cost_at_most_a_tenth(case: dict[str, Any]) -> None:
    horizon, tick, targets = case["horizon"], case["tick_seconds"], dict(case["targets"])
    block_request = default_request(horizon, tick)
    blocks = planned(targets, horizon, block_request)
    lengths = {level.length for level in blocks.levels}
    assert {each // tick for each in (3600, 86_400) if tick < each <= horizon * tick / 2} <= lengths
    assert error(blocks, horizon) <= 1.1 * case["blocks"]


@pytest.mark.parametrize("case", EARLIER[::10], ids=lambda case: str(case["horizon"]))
def test_less_error_than_earlier_designs(case: dict[str, Any]) -> None:
    """The campaign takes all 200 of them."""
    horizon = case["horizon"]
    blocks = planned(dict(case["targets"]), horizon, default_request(horizon))
    assert error(blocks, horizon) <= case["root_mean_squared_error"]


# The promise
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(40))
def test_no_target_is_exceeded(seed: int) -> None:
    """The campaign takes 500 of them."""
    chance = random.Random(seed)
    targets, horizon = random_targets(chance)
    blocks = planned(targets, horizon, default_request(horizon, chance.choice([None, 1, 60, 3600])))
    near = {max(0, min(horizon, age + by)) for age in targets for by in (-1, 0, 1)}
    for age in {0, horizon, *near}:
        assert blocks.loss(age) <= limit_at(targets, age)


def test_the_check_sees_one_millionth_too_much() -> None:
    request = read_request(loss={60: 0.5, 1000: 2.0})
    early = fc.Level(1, 0.5)
    assert request.kept_by(fc.Blocks(early, fc.Level(60, 1.5, lag=61)))
    assert not request.kept_by(fc.Blocks(early, fc.Level(60, 1.500001, lag=61)))
    assert not request.kept_by(fc.Blocks(early, fc.Level(60, 0.000001, lag=60)))
    assert not request.kept_by(fc.Blocks(fc.Level(1, 0.5, later=((61, 2.000001),))))


def test_losses_are_the_decimals_that_people_write() -> None:
    blocks = planned({0: 0.1, 10: 0.3, 100: 0.7}, 100, default_request(100))
    assert [blocks.loss(age) for age in (0, 10, 100)] == [0.1, 0.3, 0.7]


@pytest.mark.parametrize("seed", range(15))
def test_no_person_loses_more_than_the_targets(seed: int) -> None:
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=3.0)
    events, keys = chance.randint(1, 5), chance.choice([1, 2, 7])
    person = fc.Unit(of="person", events=events, keys=keys, per="1d")
    blocks = planned(targets, horizon, default_request(horizon), person)
    for age, limit in targets.items():
        for first in {1, chance.randint(1, horizon), horizon}:
            crowded = [first] * (events * keys)
            assert blocks.loss_of(crowded, now=first + age) <= limit


def test_a_delay_is_the_lag_of_the_first_level() -> None:
    blocks = blocks_for(read_request(loss={10: 0.5, 500: 2.0}, delay=7), default_request(500))
    assert blocks is not None
    assert blocks.levels[0].lag == 7
    assert blocks.loss(6) == 0.0
    assert blocks.loss(10) <= 0.5
    assert blocks.loss(500) <= 2.0


def test_losses_without_any_noise() -> None:
    blocks = planned({0: 500.0, 1000: 20_000.0}, 1000, default_request(1000))
    assert blocks.mse(1000) < 1e-100


def test_tiny_losses_have_few_levels_or_none() -> None:
    blocks = planned({5: 2e-6}, 1000, default_request(1000))
    assert 1e-6 <= blocks.loss(1000) <= 2e-6
    assert blocks_for(read_request(loss={5: 9e-7}, horizon=1000), default_request(1000)) is None
    assert isinstance(fc.design({5: 9e-7}, horizon=1000), fc.Gradual)


def test_the_longest_horizon() -> None:
    longest = (1 << 60) - 1
    blocks = planned({60: 0.5, longest: 4.0}, longest, default_request(longest))
    assert blocks.loss(60) <= 0.5
    assert blocks.loss(longest) <= 4.0


# Lengths
# ------------------------------------------------------------------------------------------------
def test_lengths_that_people_read() -> None:
    minutes = calendar_lengths(60, 525_600)
    assert minutes[:13] == [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120]
    assert {1440, 43_200, 518_400} <= set(minutes)
    assert calendar_lengths(86_400, 400) == [1, 30, 60, 90, 120, 180, 360]
    assert calendar_lengths(90, 1000) == [1, 2, 4, 8, 10, 20, 40, 80, 120, 160, 240, 320, 480, 960]


def test_a_stream_has_every_length_of_a_plan_with_a_tick() -> None:
    """A length that the calendar does not have is no level, whatever is asked for."""
    assert (
        default_request(525_600, 60, {10_080: 3.0, 480: 1.0}).lengths
        == default_request(525_600, 60).lengths
    )
    assert 16 in default_request(525_600, 60, {16: 1.0}).lengths
    for tick in (7, 16 * 3600, 604_800):
        each = calendar_lengths(tick, 10**6)
        assert (each == [1]) is bool(86_400 % tick)
    for tick in (1, 60, 90, 3600, 43_200, 86_400, 432_000):
        ticks = Ticks(tick_seconds=tick)
        for length in calendar_lengths(tick, 10**9):
            longer = () if length == 1 else (fc.Level(length, 0.1),)
            blocks = fc.Blocks(fc.Level(1, 0.1), *longer)
            assert len(level_lengths(blocks.lengths, ticks)) == len(blocks.levels)


def test_lengths_around_figures_without_a_calendar() -> None:
    block_request = default_request(525_600, figures={60: 3.0, 1440: 5.0})
    assert {1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60, 120, 1440} <= set(block_request.lengths)


def test_lengths_without_a_calendar() -> None:
    assert plain_lengths(12) == [1, 2, 3, 4, 6, 8, 12]
    assert default_request(12).lengths == (1, 2, 3, 4, 6, 8, 12)
    assert len(plain_lengths(1 << 59)) <= 60
