"""Totals from tied blocks: golden numbers, losses by linear programs, weights and errors by the
definition, and everything that is refused."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms.noise_distribution import quantile, variance_of
from fadecount.mechanisms.totals import MOST_CHILDREN, Bridges, mean_square_part
from tests.mechanisms.totals_oracles import program_loss, random_totals, weights

GOLDEN = json.loads((Path(__file__).parent / "totals_golden.json").read_text())
YEAR = fc.Totals(
    fc.Level(1, 0.2445),
    fc.Level(20, 0.2555, later=((61, 0.337004),)),
    fc.Level(60, 0.423606, lag=61),
    fc.Level(720, 0.494878, lag=61),
    fc.Level(14400, 0.500012, lag=61, later=((43201, 2.499927),)),
)


def levels_of(levels: list[Any]) -> tuple[fc.Level, ...]:
    return tuple(fc.Level.of_stages(length, stages) for length, stages in levels)


class TestGoldenNumbers:
    @pytest.mark.parametrize("case", GOLDEN["planned"], ids=lambda case: case[0])
    def test_the_error_of_planned_designs(self, case: list[Any]) -> None:
        _, _, horizon, targets, error, levels = case
        rule = Bridges(levels_of(levels))
        assert math.sqrt(rule.mean_variance(horizon)) == pytest.approx(error, rel=1e-9)
        lengths = [length for length, _ in levels]
        if len(set(lengths)) == len(lengths):
            totals = fc.Totals(*levels_of(levels))
            assert math.sqrt(totals.mse(horizon)) == pytest.approx(error, rel=1e-9)
            assert all(totals.loss(age) <= loss for age, loss in targets)

    def test_a_design_with_every_column(self) -> None:
        golden = GOLDEN["readable"]
        rule, horizon = Bridges(levels_of(golden["levels"])), golden["horizon"]
        assert rule.mean_variance(horizon) == pytest.approx(golden["mse"], rel=1e-12)
        for step, variance in golden["variance"]:
            assert rule.window_variance(0, np.array([step])) == pytest.approx(variance, rel=1e-12)
        first, last, variance = golden["window"]
        assert rule.window_variance(first, last) == pytest.approx(variance, rel=1e-12)
        step, worst = golden["worst"]
        around = np.arange(step - 20_000, step + 20_000)
        assert np.max(rule.window_variance(0, around)) == pytest.approx(worst, rel=1e-12)

    def test_means_of_squares(self) -> None:
        for length, finest, lag, horizon, mean in GOLDEN["mean_square_part"]:
            part = float(mean_square_part(length, finest, lag, horizon))
            assert part == pytest.approx(mean, rel=1e-13)

    def test_the_loss_of_one_event(self) -> None:
        totals = fc.Totals(*levels_of(GOLDEN["position"]["levels"]))
        for position, now, loss in GOLDEN["position"]["loss"]:
            assert totals.loss(now - position, position=position) == loss / 1e6

    def test_weights(self) -> None:
        golden = {(level, 0, block): weight for level, block, _, weight in GOLDEN["weights"]}
        totals = fc.Totals(fc.Level(1, 0.5), fc.Level(3, 0.5), fc.Level(6, 0.5))
        assert {n: float(w) for n, w in weights(totals.levels, 5).items()} == pytest.approx(golden)

    def test_the_least_loss_for_an_error(self) -> None:
        """One loss at all ages, with continuous noise of a mean square of 1000."""
        for horizon, loss, lengths in GOLDEN["least"]:
            equal = fc.Totals(*(fc.Level(length, 0.1) for length in lengths))
            scaled = equal.for_mse(1000, horizon=horizon, continuous=True)
            assert scaled.loss(horizon) == pytest.approx(loss, rel=0.02)  # budgets are not equal


class TestLoss:
    def test_no_position_is_above_the_curve_and_linear_programs_agree(self) -> None:
        chance = random.Random(20254)
        for _ in range(60):
            totals = random_totals(chance, longest=12)
            top = totals.levels[-1]
            for _ in range(6):
                position = chance.randint(1, top.length)
                age = chance.randint(0, top.length + top.stages[-1].lag + 1)
                solved = program_loss(totals.levels, position, position + age)
                ours = 1e6 * totals.loss(age, position=position)
                assert ours == pytest.approx(solved, abs=1e-3), totals
                assert ours <= 1e6 * totals.loss(age) + 1e-3

    def test_the_last_step_of_all_blocks_attains_every_age(self) -> None:
        chance = random.Random(20255)
        for _ in range(30):
            totals = random_totals(chance)
            ages, last = np.arange(60), totals.levels[-1].length
            assert np.all(totals.loss(ages) == totals.loss(ages, position=last))

    def test_the_year(self) -> None:
        assert [YEAR.loss(age) for age in (0, 60, 61, 43_200)] == [0.5, 0.5, 2.0, 2.0]
        assert YEAR.loss(43_201) == pytest.approx(4.0, abs=1e-4)
        assert YEAR.delay == 0
        assert YEAR.for_sensitivity(2).loss(60) <= 0.25

    def test_a_tie_across_lags_is_none(self) -> None:
        """The bridge of an hour that is out later than its minutes would tell the hour early."""
        totals = fc.Totals(fc.Level(1, 0.3), fc.Level(2, 0.9, lag=1))
        assert totals.noise.groups == (range(1), range(1, 2))
        assert totals.variance(3) == variance_of(0.3) + variance_of(0.9)


class TestError:
    def test_noise_by_the_definition(self) -> None:
        chance = random.Random(20256)
        for _ in range(60):
            totals = random_totals(chance, longest=60)
            for last in chance.sample(range(1 + totals.delay, 160), 6):
                first = chance.choice([0, chance.randint(totals.delay, last - 1)])
                expected = distribution(
                    totals, weights(totals.levels, first), weights(totals.levels, last)
                )
                between = totals.noise.between(max(0, first - totals.delay), last - totals.delay)
                found: Counter[tuple[Fraction, float]] = Counter()
                for weight, budget, count in between:
                    found[abs(weight), budget] += count
                assert {name: n for name, n in found.items() if n} == expected
                variance = sum(
                    float(weight) ** 2 * variance_of(budget) * count
                    for (weight, budget), count in expected.items()
                )
                assert totals.window_variance(first, last) == pytest.approx(variance, rel=1e-9)
                if not first:
                    assert totals.variance(last) == pytest.approx(variance, rel=1e-9)

    def test_the_mean_over_a_horizon_is_the_mean_of_all_steps(self) -> None:
        chance = random.Random(20257)
        for _ in range(100):
            totals, horizon = random_totals(chance, longest=60), chance.randint(1, 300)
            variances = np.asarray(totals.variance(np.arange(1, horizon + 1)))
            assert totals.mse(horizon) == pytest.approx(variances.mean(), rel=1e-9)

    def test_a_tied_block_ends_with_its_own_noise(self) -> None:
        blocks = fc.Blocks(*YEAR.levels)
        for step in (20, 61 + 720, 43_200 + 14_400 + 61):
            assert YEAR.variance(step) <= blocks.variance(step) * (1 + 1e-12)
        assert YEAR.variance(20) == blocks.variance(20)

    def test_intervals(self) -> None:
        """The exact quantile of the sum, and the half that rounding may add."""
        for step in (1, 7, 20, 1000, 100_000):
            bound = quantile(YEAR.noise.between(0, step), 0.05)
            assert YEAR.error_bound(step, 0.05) == math.floor(bound + 0.5)
            assert 1.9 * math.sqrt(YEAR.variance(step)) < YEAR.error_bound(step, 0.05)
        wide = YEAR.window_interval(1000, 1060)
        assert wide <= math.sqrt(2) * 2.1 * math.sqrt(YEAR.variance(1060)) + 1
        both = YEAR.half_widths(np.array([[0, 0]]), np.array([[7, 7]]), copies=np.array([[1, 3]]))
        assert both[0] == math.floor(quantile(_times(YEAR.noise.between(0, 7), 4), 0.05) + 2)


def _times(noise: Any, copies: int) -> Any:
    return tuple((weight, budget, count * copies) for weight, budget, count in noise)


def distribution(
    totals: fc.Totals, before: dict[Any, Fraction], after: dict[Any, Fraction]
) -> dict[tuple[Fraction, float], int]:
    """The difference of two weighted sums as independent terms: of a block whose stages differ, the
    noise of the coarser one is that of the sharper one and a difference."""
    blocks: dict[tuple[int, int], dict[int, Fraction]] = {}
    for sign, side in ((-1, before), (1, after)):
        for (level, stage, block), weight in side.items():
            stages = blocks.setdefault((level, block), {})
            stages[stage] = stages.get(stage, Fraction(0)) + sign * weight
    terms: Counter[tuple[Fraction, float]] = Counter()
    for (level, _), stages in blocks.items():
        budgets, total = [each.epsilon for each in totals.levels[level].stages], Fraction(0)
        for stage in range(min(stages), max(stages) + 1):
            total += stages.get(stage, Fraction(0))
            if total:
                terms[abs(total), budgets[stage]] += 1
                if stage < max(stages):
                    terms[abs(total), budgets[stage + 1]] -= 1
    return {name: n for name, n in terms.items() if n}


class TestText:
    def test_json_comes_back(self) -> None:
        again = fc.Mechanism.from_json(YEAR.to_json())
        assert again == YEAR and hash(again) == hash(YEAR)
        assert '"kind": "totals"' in YEAR.to_json()
        assert repr(YEAR).startswith("Totals(Level(length=1, epsilon=0.2445")

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: fc.Totals(), "levels must be 1 to 64 levels, got 0"),
            (lambda: fc.Totals(fc.Level(5, 1)), r"levels\[0\] length must be 1, got 5; a total"),
            (
                lambda: fc.Totals(fc.Level(1, 1), fc.Level(MOST_CHILDREN + 1, 1)),
                r"levels\[1\] length must be at most 65,536 times 1, the level below, got 65537;",
            ),
            (lambda: fc.Totals(fc.Level(1, 1), fc.Level(1, 2)), r"levels\[1\] length must be a l"),
            (lambda: YEAR.window_variance(5, 5), "end must be"),
            (lambda: YEAR.variance(0), "step must be"),
        ],
    )
    def test_one_clear_line(self, make: Any, message: str) -> None:
        with pytest.raises(ParameterError, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)

    def test_a_long_level_with_a_later_lag_is_not_tied(self) -> None:
        totals = fc.Totals(fc.Level(1, 1), fc.Level(MOST_CHILDREN + 1, 1, lag=1))
        assert totals.variance(10) == pytest.approx(10 * variance_of(1.0))
