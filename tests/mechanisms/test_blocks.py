"""Block counters: golden numbers, exact losses by independent oracles, exact output distributions,
errors, and everything that is refused."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import Loss
from fadecount.mechanisms.levels import mean_frontier
from fadecount.mechanisms.noise_distribution import variance_of
from tests.mechanisms.block_oracles import (
    chain_law,
    pairs,
    program_loss,
    random_design,
    shift_loss,
)

GOLDEN = json.loads((Path(__file__).parent / "blocks_golden.json").read_text())
DESIGNS = 200
PROGRAMS = 100


def design(levels: list[Any]) -> fc.Blocks:
    return fc.Blocks(*(fc.Level.of_stages(length, stages) for length, stages in levels))


FIRST, STAGED = design(GOLDEN["first"]["levels"]), design(GOLDEN["staged"]["levels"])
READABLE = fc.Blocks(
    fc.Level(1, 0.246),
    fc.Level(12, 0.254, later=((61, 0.320),)),
    fc.Level(60, 0.618, lag=61),
    fc.Level(1440, 0.816, lag=61, later=((43201, 1.577),)),
    fc.Level(43200, 1.239, lag=43201),
)


class TestGoldenNumbers:
    def test_means_over_a_horizon(self) -> None:
        for length, lag, horizon, mean in GOLDEN["mean_frontier"]:
            assert float(mean_frontier(length, lag, horizon)) == pytest.approx(mean, rel=1e-13)

    @pytest.mark.parametrize("name", ["first", "staged"])
    def test_designs(self, name: str) -> None:
        golden, mechanism = GOLDEN[name], design(GOLDEN[name]["levels"])
        for age, loss in golden["loss"]:
            assert mechanism.loss(age) == loss / 1e6
        weights = mechanism.weights(golden["horizon"])
        for level, stage, weight in golden["weights"]:
            assert weights[level][stage] == pytest.approx(weight, rel=1e-10)
        assert mechanism.mse(golden["horizon"]) == pytest.approx(golden["mse"], rel=1e-10)
        steps = np.array([step for step, _ in golden["variance"]])
        expected = [variance for _, variance in golden["variance"]]
        assert np.asarray(mechanism.variance(steps)) == pytest.approx(expected, rel=1e-10)
        step, variance = golden["worst"]
        assert golden["horizon"] >= step
        assert mechanism.variance(step) == pytest.approx(variance)
        around = np.arange(max(1, step - 10**5), min(step + 10**5, golden["horizon"] + 1))
        assert np.max(mechanism.variance(around)) == pytest.approx(variance)

    @pytest.mark.parametrize("name", ["first", "staged"])
    def test_how_many_figures_of_each_stage_a_total_adds(self, name: str) -> None:
        mechanism = design(GOLDEN[name]["levels"])
        for step, counts in GOLDEN[name]["counts"]:
            runs = mechanism.view(0, step).views.runs
            for level, stage, count in counts:
                added = [run.blocks for run in runs if (run.level, run.stage) == (level, stage)]
                assert sum(added) == count

    def test_the_loss_of_one_event(self) -> None:
        for position, now, loss in GOLDEN["loss of one event, first"]:
            assert FIRST.loss(now - position, position=position) == loss / 1e6

    @pytest.mark.parametrize("case", GOLDEN["planned"], ids=lambda case: case[0])
    def test_the_error_of_planned_designs(self, case: list[Any]) -> None:
        _, horizon, error, levels = case
        assert math.sqrt(design(levels).mse(horizon)) == pytest.approx(error, rel=1e-9)

    def test_the_readable_year(self) -> None:
        year = 525_600
        assert [READABLE.loss(age) for age in (0, 60, 61, 43200, 43201)] == [0.5, 0.5, 2, 2, 4]
        assert math.sqrt(READABLE.mse(year)) == pytest.approx(23.03, abs=0.01)
        figures = [(2, 0, 2.25), (3, 0, 1.69), (3, 1, 0.81), (4, 0, 1.07)]
        for level, stage, deviation in figures:
            own = math.sqrt(READABLE.figure_variance(level, stage))
            assert own == pytest.approx(deviation, abs=0.005)
        start, end = 1440 * 99, 1440 * 100
        assert math.sqrt(READABLE.window_variance(start, end, as_of=end + 61)) == pytest.approx(
            1.69, abs=0.005
        )

    def test_persons(self) -> None:
        day = [60 * hour for hour in range(1, 25)]
        assert READABLE.loss_of([7, 7], 7 + 43200 * 2 + 61) == pytest.approx(8.0)
        assert FIRST.loss_of(day, 43200 + 43201 + 1) == 96.0
        assert READABLE.composed_loss(61, times=6) == Loss(12.0)
        assert READABLE.composed_loss([0, 61], times=2) == Loss(5.0)
        # the age of a person's events counts from the first one
        assert READABLE.loss_of([1, 1440], 1440) > 2 * READABLE.loss(0)
        assert READABLE.loss_of([1, 1440], 1440) == 1.684

    def test_quantiles(self) -> None:
        assert FIRST.figure_interval(0) == 13
        assert fc.Blocks(fc.Level(1, 0.5)).figure_interval(0) == 6
        assert fc.Blocks(fc.Level(1, 0.5)).error_bound(1, 0.05) == 6


class TestLoss:
    def test_the_cheapest_shift_at_every_position_and_time(self) -> None:
        chance = random.Random(20251)
        for _ in range(DESIGNS):
            check_design(random_design(chance, longest=24, most_levels=4))

    def test_linear_programs(self) -> None:
        chance = random.Random(20252)
        for _ in range(PROGRAMS):
            mechanism = random_design(chance)
            for position, now in chance.choices(list(pairs(mechanism)), k=6):
                solved = program_loss(mechanism, position, now)
                ours = 1e6 * mechanism.loss(now - position, position=position)
                assert ours == pytest.approx(solved, abs=1e-3)

    def test_the_last_step_of_all_blocks_attains_every_age(self) -> None:
        chance = random.Random(20253)
        for _ in range(50):
            mechanism = random_design(chance, longest=60)
            ages, last = np.arange(80), mechanism.levels[-1].length
            assert np.all(mechanism.loss(ages) == mechanism.loss(ages, position=last))

    def test_ages_one_less_and_one_more_than_a_lag(self) -> None:
        mechanism = fc.Blocks(fc.Level(1, 0.5), fc.Level(60, 1.5, lag=61))
        assert [mechanism.loss(age) for age in (59, 60, 61, 62)] == [0.5, 0.5, 2.0, 2.0]

    def test_a_delay_is_the_lag_of_the_first_level(self) -> None:
        mechanism = fc.Blocks(fc.Level(1, 0.5, lag=3))
        assert [mechanism.loss(age) for age in (0, 2, 3)] == [0.0, 0.0, 0.5]

    def test_decimals_add_up_as_written(self) -> None:
        mechanism = fc.Blocks(fc.Level(1, 0.1), fc.Level(2, 0.2), fc.Level(4, 0.3))
        assert mechanism.loss(0) == 0.6
        assert mechanism.loss_of([4, 4, 4], 4) == 1.8
        assert mechanism.paper_loss(0) == mechanism.loss(0)

    def test_the_noise_that_runs_loses_no_more(self) -> None:
        """A loss is the float nearest to the decimal, which may be below it; the scales make up for
        that."""
        from fadecount.mechanisms import scale_of

        chance = random.Random(7)
        for _ in range(2000):
            budgets = [chance.randint(1, 9_000_000) for _ in range(chance.randint(1, 6))]
            true = sum(1 / Fraction(scale_of(each / 1e6)) for each in budgets)
            assert true <= Fraction(sum(budgets) / 1e6)

    def test_sensitivity_rounds_budgets_down(self) -> None:
        divided = READABLE.for_sensitivity(6)
        ages = np.array([0, 61, 43201])
        part, whole = (np.rint(1e6 * np.asarray(each.loss(ages))) for each in (divided, READABLE))
        assert np.all(6 * part <= whole) and np.all(6 * part > whole - 30)
        assert READABLE.for_sensitivity(1) == READABLE
        with pytest.raises(ParameterError, match="epsilon must be between"):
            READABLE.for_sensitivity(10**7)


def check_design(mechanism: fc.Blocks) -> None:
    """The losses of all events and times, against the cheapest shift; the worst by age too."""
    places = np.array(list(pairs(mechanism)))
    exact = np.array([shift_loss(mechanism, int(j), int(now)) for j, now in places])
    ages = places[:, 1] - places[:, 0]
    ours = np.asarray(mechanism.loss(ages, position=places[:, 0]))
    assert np.array_equal(ours, exact / 1e6), mechanism
    worst = np.zeros(ages.max() + 1, dtype=np.int64)
    np.maximum.at(worst, ages, exact)
    assert np.array_equal(mechanism.loss(np.arange(len(worst))), worst / 1e6), mechanism


class TestOutputLaw:
    """The exact distribution of what is published, in tiny cases and in both directions."""

    def test_an_adversary_who_chooses_inputs_from_the_records(self) -> None:
        """Two children and their block, the second count chosen from the first child's figure."""
        small, large = Fraction(3, 5), Fraction(1, 2)
        reach = 14

        def world(first: int) -> dict[tuple[int, ...], Fraction]:
            distribution: dict[tuple[int, ...], Fraction] = {}
            for one, two, whole in product(range(-reach, reach + 1), repeat=3):
                seen = first + one
                second = seen % 3
                record = (seen, second + two, first + second + whole)
                chance = small ** (abs(one) + abs(two)) * large ** abs(whole)
                distribution[record] = distribution.get(record, Fraction(0)) + chance
            return distribution

        without, with_event = world(0), world(1)
        both = [record for record in without if record in with_event]
        ratios = {with_event[record] / without[record] for record in both}
        assert max(ratios) == 1 / (small * large)
        assert min(ratios) == small * large

    def test_all_stages_together_lose_what_the_last_one_loses(self) -> None:
        distribution = chain_law([Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)], 5)
        ratios = [distribution[noises] / distribution[shifted] for noises in distribution
                  if (shifted := tuple(z + 1 for z in noises)) in distribution]  # fmt: skip
        assert max(ratios) == 4
        assert min(ratios) == Fraction(1, 4)
        # a stage with fresh noise would lose the sum: 4 * 2 * 4 / 3
        assert max(ratios) < Fraction(4 * 2 * 4, 3)


class TestError:
    def test_the_mean_over_a_horizon_is_the_mean_of_all_steps(self) -> None:
        chance = random.Random(11)
        for _ in range(200):
            mechanism, horizon = random_design(chance, longest=60), chance.randint(1, 300)
            variances = np.asarray(mechanism.variance(np.arange(1, horizon + 1)))
            assert mechanism.mse(horizon) == pytest.approx(variances.mean(), rel=1e-9)

    def test_variance_of_a_total_is_that_of_its_view(self) -> None:
        chance = random.Random(12)
        for _ in range(100):
            mechanism = random_design(chance, longest=60)
            for step in chance.sample(range(1, 200), 10):
                view = mechanism.view(0, step).variance()
                assert view == pytest.approx(mechanism.variance(step), rel=1e-9)

    def test_bounds(self) -> None:
        coarse = READABLE.error_bound(1000, 0.05)
        assert 1.96 * math.sqrt(READABLE.variance(1000)) < coarse + 1
        assert coarse <= 2.2 * math.sqrt(READABLE.variance(1000)) + 1
        late = fc.Blocks(fc.Level(5, 0.5, lag=3))
        assert late.error_bound(7, 0.05) == 0
        assert late.error_bound(8, 0.05) == 6

    def test_continuous_noise(self) -> None:
        mechanism = fc.Blocks(fc.Level(1, 0.5))
        assert mechanism.mse(3, continuous=True) == pytest.approx(16)
        assert mechanism.figure_variance(0) == variance_of(0.5)


class TestText:
    def test_json_holds_integers_and_comes_back(self) -> None:
        for mechanism in (
            FIRST,
            STAGED,
            READABLE,
            fc.Blocks(fc.Level(1, 1), planned_tick_seconds=60),
        ):
            text = mechanism.to_json()
            again = fc.Mechanism.from_json(text)
            assert again == mechanism
            assert hash(again) == hash(mechanism)
            assert again.planned_tick_seconds == mechanism.planned_tick_seconds
        text = '"levels": [{"length": 1, "epsilon": 0.246, "lag": 0, "later": []}'
        assert text in READABLE.to_json()
        assert "Level(length=12, epsilon=0.254, lag=0" in repr(READABLE)

    @pytest.mark.parametrize(
        "levels",
        [
            None,
            {},
            [1],
            "levels",
            7,
            [{"length": 1}],
            [{"length": 1, "epsilon": "0.5"}],
            [{"length": 1, "epsilon": True}],
            [{"length": 1, "epsilon": 0.1234567}],
            [{"length": 1, "epsilon": math.nan}],
            [{"length": 1, "epsilon": "inf"}],
            [{"length": 1, "epsilon": 0.5, "tied": True}],
            [{"length": 1, "epsilon": 0.5, "later": 7}],
            [{"length": 1, "epsilon": 0.5, "later": [[1]]}],
            [{"length": 1, "epsilon": 0.5, "later": [[1, 0.5]]}],
            [{"length": 1, "epsilon": 0.5, "later": [[1.0, 0.7]]}],
            [{"length": "x", "epsilon": 0.5}],
            [{"length": 1, "epsilon": 0.5, "stages": []}],
            [{"length": 1, "epsilon": 10**30}],
            [{"length": 1, "epsilon": 10**400}],
            [{"length": 1, "epsilon": 0.5}] * 70,
        ],
    )
    def test_other_json_is_refused(self, levels: Any) -> None:
        whole = {"fadecount": "mechanism", "version": 1, "kind": "blocks", "levels": levels}
        with pytest.raises(ParameterError):
            fc.Mechanism.from_json(json.dumps(whole))

    def test_every_budget_comes_back_to_the_last_millionth(self) -> None:
        chance = random.Random(14)
        for bits in range(1, 34):
            for _ in range(30):
                first = chance.randrange(1 << bits - 1, 1 << bits)
                stages = [(0, first), (1, first + 1)]
                mechanism = fc.Blocks(fc.Level.of_stages(1, stages))
                again = fc.Mechanism.from_json(mechanism.to_json())
                assert isinstance(again, fc.Blocks)
                assert list(again.levels[0].stages) == stages

    def test_fields_of_another_kind_are_refused(self) -> None:
        several: list[dict[str, Any]] = [
            {},
            {"levels": []},
            {"levels": [{"length": 1, "epsilon": 1}], "epsilon": 1},
        ]
        for more in several:
            whole = {"fadecount": "mechanism", "version": 1, "kind": "blocks", **more}
            with pytest.raises(ParameterError):
                fc.Mechanism.from_json(json.dumps(whole))


LEVEL: Any = fc.Level
BLOCKS: Any = fc.Blocks
"""For arguments of wrong types."""


class TestBadInput:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: LEVEL(0, 1), "length must be an integer from 1"),
            (lambda: LEVEL(1, 0), "epsilon must be between 0.000001 and 16384, got 0; a small"),
            (lambda: LEVEL(1, -0.5), "epsilon must be between"),
            (lambda: LEVEL(1, math.nan), "epsilon must be between"),
            (lambda: LEVEL(1, math.inf), "epsilon must be between"),
            (lambda: LEVEL(1, Decimal("Infinity")), "epsilon must be between"),
            (lambda: LEVEL(1, True), "epsilon must be between"),
            (lambda: LEVEL(1, "1"), "epsilon must be between"),
            (
                lambda: LEVEL(1, 0.1 + 0.2),
                "epsilon must be a multiple of 0.000001, got 0.30000000000000004; "
                "round it down to keep a promise, to 0.3",
            ),
            (lambda: LEVEL(1, 1, lag=-1), "lag must be an integer from 0"),
            (lambda: LEVEL(1, 1, later=3), "later must be pairs of a lag and a budget"),
            (lambda: LEVEL(1, 1, later=((1,),)), "later must be pairs"),
            (lambda: LEVEL(1, 1, lag=5, later=((5, 2),)), r"later\[0\] lag must be above 5"),
            (
                lambda: LEVEL(1, 1, later=((5, 1),)),
                r"later\[0\] epsilon must be above 1.0, the whole budget of the stage before, "
                "got 1; a later stage must be sharper",
            ),
            (lambda: BLOCKS(), "levels must be 1 to 64 levels, got 0"),
            (lambda: BLOCKS(3), r"levels\[0\] must be a fadecount.Level, got 3"),
            (
                lambda: BLOCKS(LEVEL(7, 1), LEVEL(30, 1)),
                r"levels\[1\] length must be a larger multiple of 7, the length of the level below,"
                " got 30; blocks must nest",
            ),
            (lambda: BLOCKS(LEVEL(7, 1), LEVEL(7, 2)), r"levels\[1\] length must be a la"),
            (
                lambda: BLOCKS(LEVEL(1, 1, lag=5), LEVEL(2, 1, lag=4)).mse(10),
                r"levels\[1\] lag must be at least 5, the last lag of the level below, for a live"
                " total, got 4; lags must not fall with the length; or publish figures only",
            ),
            (
                lambda: fc.Counter(BLOCKS(LEVEL(1, 1, later=((9, 2),)), LEVEL(2, 1, lag=8))),
                r"levels\[1\] lag must be at least 9",
            ),
            (lambda: FIRST.stage(5), "level must be an integer from 0 to 4"),
            (lambda: FIRST.stage(0, 1), "stage must be an integer from 0 to 0"),
            (lambda: FIRST.loss(-1), "age must be"),
            (lambda: FIRST.loss_of([0], 5), "positions must be"),
            (lambda: FIRST.loss_of([1], 0), "now must be"),
            (lambda: FIRST.view(3, 3), "end must be"),
            (lambda: FIRST.view(0, 3, as_of=0), "as_of must be"),
            (
                lambda: BLOCKS(LEVEL(5, 1)).view(7, 20),
                "start must be the end of a block of the smallest level, got 7; such as 5",
            ),
        ],
    )  # fmt: skip
    def test_one_clear_line(self, make: Any, message: str) -> None:
        with pytest.raises(ParameterError, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)

    def test_forms_of_a_budget(self) -> None:
        same = [0.5, Decimal("0.5"), Fraction(1, 2), np.float64(0.5)]
        assert {LEVEL(1, each) for each in same} == {LEVEL(1, 0.5)}
        assert LEVEL(1, 2).stages[0].millionths == 2_000_000

    def test_no_positions_lose_nothing(self) -> None:
        assert FIRST.loss_of([], 5) == 0.0
        assert FIRST.loss_of([6], 5) == 0.0


def test_the_live_total_is_late_by_the_lag_of_the_smallest_level() -> None:
    assert fc.Blocks(fc.Level(1, 0.5, lag=3), fc.Level(60, 0.5, lag=9)).delay == 3


def test_levels_are_named_as_people_say_them() -> None:
    lengths = (1, 7, 60, 1440, 10_080, 43_200, 5 * 43_200, 24 * 43_200, 10**12)
    names = [fc.Level(each, 0.1).name(60) for each in lengths]
    assert names[:4] == ["1m", "7 steps", "1h", "1d"]
    assert names[4:] == ["10,080 steps", "1mo", "216,000 steps", "2y", "1,000,000,000,000 steps"]
    assert fc.Level(1, 0.1).name(None) == "1 step"


def test_steps_of_the_loss_have_their_causes() -> None:
    days = fc.Level(1440, 0.3, lag=61, later=((1441, 0.4), (9000, 0.6)))
    blocks = fc.Blocks(fc.Level(1, 0.1), fc.Level(60, 0.2, lag=61), days)
    steps = blocks.loss_steps(60)
    assert steps == [
        (0, "figures per 1m"),
        (61, "figures per 1h, 1d (provisional)"),
        (1441, "figures per 1d (revised)"),
        (9000, "figures per 1d (final)"),
    ]
    assert blocks.loss_steps()[1] == (61, "figures per 60 steps, 1,440 steps (provisional)")
    for age, _ in steps:
        assert blocks.loss(age) > (blocks.loss(age - 1) if age else 0)
