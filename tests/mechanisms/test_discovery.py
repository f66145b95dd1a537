"""Discovery: exact thresholds against golden numbers, an enumeration in rationals, and the noise
that runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fadecount as fc
from fadecount.mechanisms import PlanFile
from fadecount.mechanisms.discovery import distributions_of, shown
from fadecount.noise import Chain, SystemNoise
from tests.false_alarm import EACH, explained
from tests.mechanisms.test_every_mechanism import one_line

DAYS = fc.Discovery("1d", ((1, 1.0), (31, 3.0)), 1e-9)
GOLDEN = json.loads((Path(__file__).parent / "discovery_golden.json").read_text())


def discovery(
    epsilons: Sequence[float], delta: float, keys: int = 1, *, per: str = "1d"
) -> fc.Discovery:
    """Stages one step apart; budgets are shared by the keys, rounded down to millionths."""
    shares = [math.floor(round(1e6 * epsilon) / keys) / 1e6 for epsilon in epsilons]
    return fc.Discovery(per, tuple(enumerate(shares)), delta, keys)


def test_what_is_spent_on_one_count_is_its_part_of_the_loss() -> None:
    for keys in (1, 3):
        found = discovery((0.9, 2.7), 1e-9, keys)
        for since in (-1, 0, 1, 50):
            loss = found.loss(since) if since >= 0 else 0.0
            assert found.spent(since) * keys == pytest.approx(float(loss) * 1e6, abs=1e-6)


def exact_chance(ratios: Sequence[Any], thresholds: Sequence[int], count: int, far: int) -> Any:
    """The chance to be shown, by adding up the distribution of every value (numbers of any
    kind)."""

    def laplace(p: Any, z: int) -> Any:
        return (1 - p) / (1 + p) * p ** abs(z)

    hidden = {z + count: laplace(ratios[-1], z) for z in range(-far, far + 1)}
    passed = sum(mass for y, mass in hidden.items() if y >= thresholds[-1])
    hidden = {y: mass for y, mass in hidden.items() if y < thresholds[-1]}
    for (p, sharp), threshold in reversed(
        list(zip(pairwise(ratios), thresholds[:-1], strict=True))
    ):
        atom = sharp / p * ((1 - p) / (1 - sharp)) ** 2
        step = [(1 - atom) * laplace(p, z) for z in range(2 * far + thresholds[0] + 1)]
        step[0] += atom
        spread = {
            y: sum(mass * step[abs(y - x)] for x, mass in hidden.items())
            for y in range(count - far, max(threshold, count) + far)
        }
        passed += sum(mass for y, mass in spread.items() if y >= threshold)
        hidden = {y: mass for y, mass in spread.items() if y < threshold}
    return passed


def best_selection(epsilon: float, delta: float, chance: float) -> int:
    """The smallest count shown with a chance by the best selection there is (Desfontaines, Voss,
    Gipson and Mandayam 2022, theorem 1)."""
    count, pi = 0, 0.0
    while pi < chance:
        grown = math.exp(epsilon) * pi + delta
        count, pi = count + 1, min(grown, 1 - math.exp(-epsilon) * (1 - pi - delta), 1.0)
    return count


class TestThresholds:
    @pytest.mark.parametrize("case", GOLDEN["chains"], ids=lambda case: str(case["epsilons"]))
    def test_chains(self, case: dict[str, Any]) -> None:
        found = discovery(case["epsilons"], case["delta"])
        stages = range(len(case["epsilons"]))
        assert list(found.thresholds) == case["tau"]
        assert [found.passing(stage) for stage in stages] == pytest.approx(case["lone"], rel=1e-11)
        for count, chances in case["n"].items():
            seen = [found.chance(int(count), stage) for stage in stages]
            assert seen == pytest.approx(chances, rel=1e-11)
        for chance, name in ((0.5, "n50"), (0.95, "n95")):
            assert [found.min_count(probability=chance, stage=stage) for stage in stages] == case[
                name
            ]

    def test_one_look(self) -> None:
        for name, threshold in GOLDEN["tau"].items():
            epsilon, delta = map(float, name.split(","))
            found = discovery([epsilon], delta)
            assert found.thresholds == (threshold,)
            p = math.exp(-epsilon)
            assert found.passing(0) == pytest.approx(p ** (threshold - 1) / (1 + p), rel=1e-9)

    @pytest.mark.parametrize(
        ("keys", "thresholds"), [(3, (66, 24)), (10, (230, 79)), (30, (725, 243))]
    )
    def test_a_person_with_several_keys(self, keys: int, thresholds: tuple[int, ...]) -> None:
        found = discovery([1.0, 3.0], 1e-9, keys)
        assert found.thresholds == thresholds
        assert 0.9e-9 < keys * found.passing(1) <= 1e-9

    @pytest.mark.parametrize("delta", [1e-9, 1e-6])
    @pytest.mark.parametrize("epsilons", [(1.0,), (2.0,), (3.0,), (1.0, 3.0), (2.0, 4.0)])
    def test_within_one_count_of_the_best_selection(
        self, epsilons: tuple[float, ...], delta: float
    ) -> None:
        found = discovery(epsilons, delta)
        for stage, epsilon in enumerate(epsilons):
            for chance in (0.5, 0.95):
                least = best_selection(epsilon, delta, chance)
                assert 0 <= found.min_count(probability=chance, stage=stage) - least <= 1

    @settings(max_examples=40)
    @given(
        st.lists(st.integers(20, 4000), min_size=1, max_size=4, unique=True).map(sorted),
        st.floats(1e-12, 0.4),
        st.integers(1, 5),
    )
    def test_what_always_holds(self, budgets: list[int], delta: float, keys: int) -> None:
        found = fc.Discovery("1d", tuple((i, e / 1000) for i, e in enumerate(budgets)), delta, keys)
        thresholds, last = found.thresholds, len(budgets) - 1
        assert all(one >= two >= 2 for one, two in pairwise((*thresholds, 2)))
        chances = [found.passing(stage) for stage in range(last + 1)]
        assert chances == sorted(chances)
        assert Fraction(keys) * Fraction(chances[-1]) <= Fraction(delta)
        lower = (*thresholds[:-1], thresholds[-1] - 1)
        assert keys * found._passed(lower, 1) > delta * (1 - 1e-9)
        for stage in (0, last):
            count = found.min_count(probability=0.5, stage=stage)
            assert found.chance(count, stage) >= 0.5 > found.chance(max(1, count - 1), stage)


class TestExactness:
    def test_tiny_case_in_rationals(self) -> None:
        """A lone person's key, and the stages of a count beside that of one more person."""
        coarse, sharp = ratios = [Fraction(3, 5), Fraction(1, 4)]
        lone = shown(distributions_of(ratios), (9, 4), 1, 60)
        assert float(lone) == pytest.approx(0.0223091, rel=1e-12)
        assert float(lone) == pytest.approx(float(exact_chance(ratios, (9, 4), 1, 80)), rel=1e-15)
        assert float(shown(distributions_of(ratios[:1]), (9,), 1, 60)) == pytest.approx(
            0.0104976, rel=1e-12
        )
        # Both directions. Without the person nothing is shown; with the person it is with `lone`.
        factor = 1 / sharp
        assert max(0, 1 - lone - factor * 1) + lone == lone
        assert max(0, 1 - factor * (1 - lone)) <= lone
        # 3 persons beside 4: every transcript, and the largest quotient is the sharper stage's.
        two = [exact_transcripts(coarse, sharp, (9, 4), count) for count in (3, 4)]
        quotients = [two[0][each] / two[1][each] for each in two[0]]
        assert max(quotients) == factor
        assert min(quotients) == sharp
        first = [first_transcripts(coarse, 9, count) for count in (3, 4)]
        assert {first[0][each] / first[1][each] for each in first[0]} >= {coarse}
        assert all(coarse <= first[0][each] / first[1][each] <= 1 / coarse for each in first[0])

    def test_one_day_of_a_month(self) -> None:
        """With a day the person counts under one key of the month, without it under another: every
        pair of transcripts, both directions. Twice the loss is needed, and enough at the chance
        of one key."""
        ratio, threshold = Fraction(1, 4), 4
        chance = shown(distributions_of([ratio]), (threshold,), 1, 60)
        counts = (0, 1, 3)  # 0: nobody else brought the key, so without the person it is not shown
        distribution = {count: first_transcripts(ratio, threshold, count) for count in range(1, 5)}
        distribution[0] = {"hidden": Fraction(1)}

        def missing(factor: Fraction, one: int, other: int) -> Fraction:
            """How much more likely an event can be with the day than ``factor`` says."""
            with_day, without = (
                (distribution[one + 1], distribution[other]),
                (distribution[one], distribution[other + 1]),
            )
            return sum(
                (
                    max(Fraction(0), p * q - factor * without[0].get(x, 0) * without[1].get(y, 0))
                    for x, p in with_day[0].items()
                    for y, q in with_day[1].items()
                ),
                Fraction(0),
            )

        pairs = [(one, other) for one in counts for other in counts]
        twice = ratio**-2
        assert all(missing(twice, *pair) <= chance for pair in pairs)
        assert missing(twice, 0, 3) > 0.99 * float(chance)
        assert not any(missing(twice, *pair) for pair in pairs if all(pair))
        assert missing(twice * Fraction(99, 100), 3, 3) > 0

    @pytest.mark.parametrize("count", [1, 4, 6, 12])
    def test_three_stages_in_rationals(self, count: int) -> None:
        ratios = [Fraction(2, 3), Fraction(2, 5), Fraction(1, 6)]
        thresholds = (10, 6, 4)
        expected = exact_chance(ratios, thresholds, count, 60)
        found = shown(distributions_of(ratios), thresholds, count, 50)
        assert float(found) == pytest.approx(float(expected), rel=1e-9)

    @pytest.mark.parametrize(
        ("epsilons", "delta"), [((1.0, 3.0), 1e-9), ((0.3, 0.31), 0.01), ((0.5, 2.0, 4.0), 1e-6)]
    )
    def test_never_below_the_law_of_the_noise_that_runs(
        self, epsilons: tuple[float, ...], delta: float
    ) -> None:
        found = discovery(epsilons, delta)
        with mpmath.workdps(40):
            ratios = [mpmath.exp(-1 / mpmath.mpf(scale)) for scale in found.scales]
            expected = exact_chance(ratios, found.thresholds, 1, 110)
            assert 0 <= found.passing(len(epsilons) - 1) / expected - 1 < 1e-10

    def test_values_far_below_are_moved_up(self) -> None:
        distributions = distributions_of([Fraction(2, 3), Fraction(2, 5), Fraction(1, 6)])
        chances = [shown(distributions, (10, 6, 4), 1, left) for left in (2, 5, 10, 40)]
        assert chances == sorted(chances, reverse=True)
        assert chances[0] > chances[-1]


def exact_transcripts(
    coarse: Fraction, sharp: Fraction, thresholds: tuple[int, int], count: int
) -> dict[Any, Fraction]:
    """What two stages show of a count, and how likely: near values only, where ratios are largest,
    and everything hidden together."""
    atom = sharp / coarse * ((1 - coarse) / (1 - sharp)) ** 2
    centre = (1 - sharp) / (1 + sharp)

    def step(z: int) -> Fraction:
        return (1 - atom) * (1 - coarse) / (1 + coarse) * coarse ** abs(z) + atom * (z == 0)

    result: dict[Any, Fraction] = {}
    for second in range(-40, 20):
        mass = centre * sharp ** abs(second - count)
        below = 1 - (1 - atom) / (1 + coarse) * coarse ** max(0, thresholds[0] - second)
        if second >= thresholds[0]:
            below = sum((step(first - second) for first in range(-60, thresholds[0])), Fraction(0))
        visible = ("hidden", second) if second >= thresholds[1] else ("hidden", "hidden")
        result[visible] = result.get(visible, Fraction(0)) + mass * below
        for first in range(thresholds[0], 20):
            result[first, second] = mass * step(first - second)
    return result


def first_transcripts(coarse: Fraction, threshold: int, count: int) -> dict[Any, Fraction]:
    """What the first stage shows of a count below the threshold."""
    tail = coarse ** (threshold - count) / (1 + coarse)
    centre = (1 - coarse) / (1 + coarse)
    shown_values = {y: centre * coarse ** abs(y - count) for y in range(threshold, 30)}
    return {"hidden": 1 - tail, **shown_values}


class TestTheNoiseThatRuns:
    KEYS = 200_000

    def noisy(self, found: fc.Discovery, count: int) -> list[Any]:
        chain = Chain(0, found.scales)
        return [count + each[0] for each in chain.many(SystemNoise(), range(1), self.KEYS)]

    @pytest.mark.parametrize("epsilons", [(0.1,), (0.1, 0.3)])
    def test_a_lone_key_appears_as_often_as_delta_says(self, epsilons: tuple[float, ...]) -> None:
        found, last = discovery(epsilons, 0.01), len(epsilons) - 1
        assert 0.0093 < found.passing(last) <= 0.01
        seen = int(np.sum(found.first_shown(self.noisy(found, 1)) <= last))
        chance = stats.binomtest(seen, self.KEYS, found.passing(last)).pvalue
        assert chance > EACH, explained("lone keys", chance)
        for wrong in (2 / 3, 3 / 2):
            assert stats.binomtest(seen, self.KEYS, wrong * 0.01).pvalue < EACH

    @pytest.mark.parametrize("count", [1, 4])
    def test_joint_law_of_values_and_appearance(self, count: int) -> None:
        """(y_1, shown at 1, y_2, shown at 2) has the distribution of one chain and two
        thresholds."""
        found = discovery([0.6, 1.5], 0.03)
        high, low = found.thresholds
        assert high > low
        coarse, sharp = (math.exp(-1 / scale) for scale in found.scales)
        atom = sharp / coarse * ((1 - coarse) / (1 - sharp)) ** 2
        z = np.arange(-60, 61)
        second = (1 - sharp) / (1 + sharp) * sharp ** np.abs(z)
        step = (1 - atom) * (1 - coarse) / (1 + coarse) * coarse ** np.abs(z) + atom * (z == 0)
        distribution: dict[tuple[int, bool, int, bool], float] = {}
        for y2, mass in zip((count + z).tolist(), second, strict=True):
            for y1, more in zip((y2 + z).tolist(), step, strict=True):
                cell = (y1, y1 >= high, y2, y1 >= high or y2 >= low)
                distribution[cell] = float(mass * more)
        values = self.noisy(found, count)
        first = found.first_shown(values)
        rows = zip(values[0].tolist(), first == 0, values[1].tolist(), first <= 1, strict=True)
        seen = dict.fromkeys(distribution, 0)
        for y1, shown_1, y2, shown_2 in rows:
            seen[y1, bool(shown_1), y2, bool(shown_2)] += 1
        common = [cell for cell, mass in distribution.items() if mass * self.KEYS >= 50]
        observed = [seen[cell] for cell in common]
        expected = [self.KEYS * distribution[cell] for cell in common]
        observed.append(self.KEYS - sum(observed))
        expected.append(self.KEYS - sum(expected))
        chance = stats.chisquare(observed, expected).pvalue
        assert chance > EACH, explained("values and appearance", chance)
        assert sum(cell[1] for cell in common) >= 3
        assert sum(cell[3] and not cell[1] for cell in common) >= 3

    def test_first_shown(self) -> None:
        values = [[22, 21, 21, 21, 30], [0, 8, 9, 30, 30]]
        assert DAYS.first_shown(values).tolist() == [0, 2, 1, 1, 0]
        assert DAYS.first_shown([[], []]).tolist() == []


class TestDescription:
    def test_loss_is_of_all_keys_of_a_person(self) -> None:
        several = fc.Discovery("1mo", ((1, 0.1), (31, 0.3)), 1e-6, 3)
        assert [several.loss(age) for age in (0, 1, 30, 31, 10**9)] == [0.0, 0.3, 0.3, 0.9, 0.9]
        assert np.array_equal(DAYS.loss([[0, 1], [30, 31]]), [[0.0, 1.0], [1.0, 3.0]])

    def test_json(self) -> None:
        for each in (DAYS, fc.Discovery("1mo", ((0, 0.7),), 0.01, 12)):
            again = fc.Discovery.from_json(each.to_json())
            assert again == each
            assert again.thresholds == each.thresholds
        assert json.loads(DAYS.to_json())["stages"] == [[1, 1.0], [31, 3.0]]

    def test_in_a_plan_file(self, tmp_path: Path) -> None:
        path, mechanism = tmp_path / "plan.json", json.loads(fc.Gradual(0.5).to_json())
        for document, found in (
            (mechanism, None),
            ({**mechanism, "discovery": json.loads(DAYS.to_json())}, DAYS),
        ):
            path.write_text(json.dumps(document))
            assert PlanFile.read(str(path)).discovery == found
        assert fc.Mechanism.from_json(path.read_text()) == fc.Gradual(0.5)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"per": "1w"}, "per must be 1d or 1mo, got '1w'"),
            ({"per": ["1d"]}, "per must be 1d or 1mo"),
            ({"stages": ()}, "stages must be 1 to 64 pairs of a lag and a budget"),
            ({"stages": 7}, "stages must be 1 to 64 pairs"),
            ({"stages": ((1, 1.0, 2.0),)}, "stages must be 1 to 64 pairs"),
            ({"stages": ((1, 1.0),) * 65}, "stages must be 1 to 64 pairs"),
            ({"stages": ((-1, 1.0),)}, r"stages\[0\] lag must be an integer from 0"),
            ({"stages": ((1, "a"),)}, r"stages\[0\] epsilon must be between 0"),
            ({"stages": ((1, 1.0), (1, 3.0))}, r"stages\[1\] lag must be above 1"),
            ({"stages": ((1, 1.0), (31, 1.0))}, r"stages\[1\] epsilon must be above 1.0"),
            ({"stages": ((1, 0.0009),)}, r"stages\[0\] epsilon must be at least 0.001, got"),
            ({"delta": 0.0}, "delta must be strictly between"),
            ({"delta": 0.5}, "delta must be strictly between"),
            ({"delta": math.nan}, "delta must be strictly between"),
            ({"keys": 0}, "keys must be an integer from 1"),
            ({"keys": 1.5}, "keys must be an integer from 1"),
        ],
    )
    def test_what_is_refused(self, changes: dict[str, Any], words: str) -> None:
        good: dict[str, Any] = {"per": "1d", "stages": ((1, 1.0),), "delta": 1e-9, "keys": 1}
        with pytest.raises(fc.errors.ParameterError, match=words) as refused:
            fc.Discovery(**{**good, **changes})
        assert one_line(refused.value)

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: DAYS.loss(-1), "age must be"),
            (lambda: DAYS.chance(0, 0), "count must be"),
            (lambda: DAYS.chance(5, 2), "stage must be an integer from 0 to 1"),
            (lambda: DAYS.passing(-1), "stage must be"),
            (
                lambda: DAYS.min_count(probability=1.0, stage=0),
                "probability must be strictly between 0 and 1",
            ),
        ],
    )
    def test_questions_that_are_refused(self, call: Any, words: str) -> None:
        with pytest.raises(fc.errors.ParameterError, match=words):
            call()

    @pytest.mark.parametrize(
        "changes",
        [
            {"fadecount": "mechanism"},
            {"version": 0},
            {"version": True},
            {"version": 2},
            {"stages": [[1, 1_000_000]]},
            {"stages": [[1, "1.0"]]},
            {"stages": [[1, 10**400]]},
            {"stages": [[1]]},
            {"stages": 5},
            {"stages": []},
            {"delta": "1e-9"},
            {"keys": 0},
            {"surplus": 1},
        ],
        ids=str,
    )
    def test_other_json_is_refused(self, changes: dict[str, Any]) -> None:
        text = json.dumps({**json.loads(DAYS.to_json()), **changes})
        with pytest.raises(fc.errors.ParameterError) as refused:
            fc.Discovery.from_json(text)
        assert one_line(refused.value)

    @pytest.mark.parametrize("text", ["", "{}", "[]", "7", "[" * 10**5], ids=lambda text: text[:9])
    def test_no_discovery_at_all(self, text: str) -> None:
        with pytest.raises(fc.errors.ParameterError, match="discovery JSON must hold"):
            fc.Discovery.from_json(text)
