"""Designs keep their targets exactly, and no simpler way has less error."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms.noise_distribution import variance_of
from fadecount.planning.blocks import BlockRequest, totals_for
from fadecount.planning.chains import Graph, Step
from fadecount.planning.plan import gradual
from fadecount.planning.request import Request, read_request
from tests.mechanisms.test_totals import GOLDEN
from tests.planning.block_oracles import least_error, small_case
from tests.planning.oracles import LENGTHS, gradual_mse, limit_at, random_targets

ROUNDING = 1.0 + 1e-9
YEAR = {60: 0.5, 43_200: 2.0, 525_600: 4.0}
PLANNED = [case for case in GOLDEN["planned"] if "stages" in case[0]]


@pytest.mark.parametrize("seed", range(30))
def test_never_worse_than_the_best_gradual_curve(seed: int) -> None:
    targets, horizon = random_targets(random.Random(1000 + seed))
    assert fc.design(targets=targets, horizon=horizon).mse(horizon) <= ROUNDING * gradual_mse(
        targets, horizon
    )


def test_a_curve_is_checked_and_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that refuses the first tries: budgets go down until it passes."""
    checked: list[fc.Mechanism] = []
    real = Request.kept_by

    def stricter(request: Request, curve: fc.Mechanism) -> bool:
        checked.append(curve)
        return curve.loss(1000) <= 1 - 2.0**-40 and real(request, curve)

    monkeypatch.setattr(Request, "kept_by", stricter)
    assert gradual(read_request(loss={10: 0.5, 1000: 1.0}), 1.0) is checked[-1]
    assert len(checked) > 1


def test_the_papers_algorithm_where_the_first_steps_are_the_tight_ones() -> None:
    paper = fc.Gradual(epsilon=0.05, exponent=2.0)
    ages = [0, *(1 << power for power in range(10)), 1000]
    design = fc.design({age: paper.loss(age) for age in ages}, horizon=1000)
    assert isinstance(design, fc.Gradual)
    later = fc.design({age: paper.loss(age) for age in ages[4:]}, horizon=1000)
    assert isinstance(later, fc.Totals)
    assert later.mse(1000) < 0.5 * paper.mse(1000)


@pytest.mark.parametrize("seed", range(60))
def test_keeps_every_target_at_every_age(seed: int) -> None:
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=3.5)
    delay = chance.choice([0, 0, min(targets)]) if min(targets) < horizon else 0
    design = fc.design(targets=targets, horizon=horizon, delay=delay)
    limits = np.array([limit_at(targets, age) for age in range(horizon + 1)])
    losses = np.asarray(design.loss(np.arange(horizon + 1)))
    assert np.all(losses <= limits)
    assert np.max((losses + 1e-6) / limits) >= 1.0  # nothing is given away but millionths
    assert delay == 0 or losses[delay - 1] == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_keeps_targets_over_long_horizons(seed: int) -> None:
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=18.0)
    design = fc.design(targets=targets, horizon=horizon)
    ages = sorted({*targets, horizon, *(int(horizon ** chance.random()) for _ in range(50))})
    assert all(design.loss(age) <= limit_at(targets, age) for age in ages)


@pytest.mark.parametrize("seed", range(40))
def test_gradual_curves_keep_every_target_exactly(seed: int) -> None:
    targets, horizon = random_targets(random.Random(seed), longest=5.0)
    read = read_request(loss=targets, horizon=horizon)
    for exponent in (0.5, 1.0, 1.3, 2.0, 3.0):
        curve = gradual(read, exponent)
        assert curve is not None
        assert all(curve.loss(age) <= limit_at(targets, age) for age in (*targets, horizon))


def test_a_design_comes_back_from_json() -> None:
    design = fc.design(targets={0: 0.05, 10_000: 4.0}, horizon=10_000)
    assert fc.Mechanism.from_json(design.to_json()) == design


def test_a_year_of_minutes() -> None:
    """The best exponent under the paper's theorem has an error of 114."""
    total = fc.design(YEAR, horizon=525_600)
    assert isinstance(total, fc.Totals)
    assert math.sqrt(total.mse(525_600)) <= 17.5


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: case[0])
def test_totals_are_as_good_as_known_ones(case: list[Any]) -> None:
    """Among lengths of the calendar as good as the best, among any lengths nearly."""
    _, tick, horizon, targets, least, _ = case
    request = read_request(loss=dict(targets), horizon=horizon)
    seconds = {unit * count for unit, counts in LENGTHS for count in counts}
    lengths = tuple(
        each // tick for each in sorted(seconds) if each % tick == 0 and each <= horizon * tick
    )
    totals = totals_for(request, BlockRequest(lengths=lengths))
    assert totals is not None
    assert math.sqrt(totals.mse(horizon)) <= 1.001 * least
    design = fc.design(dict(targets), horizon=horizon)
    assert math.sqrt(design.mse(horizon)) <= 1.02 * least


@pytest.mark.parametrize("seed", range(60))
def test_no_design_of_a_small_class_is_better(seed: int) -> None:
    request, block_request = small_case(random.Random(seed))
    block_request = dataclasses.replace(block_request, figures={})
    least, _ = least_error(request, block_request, fc.Totals)
    totals = totals_for(request, block_request)
    assert totals is not None
    assert totals.mse(request.horizon) <= 1.001 * least


def test_weights_are_those_of_the_mechanism() -> None:
    graph = Graph([1, 20, 60, 1440, 43_200], [0, 61, 43_201], 525_600, tied=True)
    chain = (
        *(Step(1, 0), Step(20, 0), Step(20, 1, later=True), Step(60, 1), Step(1440, 1)),
        *(Step(43_200, 1), Step(43_200, 2, later=True)),
    )
    path = graph.path(chain)
    assert path is not None
    assert graph.chain(path) == chain
    spent = [(1, 0, 0.2), (20, 0, 0.3), (60, 61, 0.5), (1440, 61, 0.6), (43_200, 61, 0.3)]
    later = {20: ((61, 0.4),), 43_200: ((43_201, 2.0),)}
    totals = fc.Totals(
        *(fc.Level(length, budget, lag, later.get(length, ())) for length, lag, budget in spent)
    )
    error = sum(
        graph.weight[edge] * variance_of(budget)
        for edge, budget in zip(path, (0.2, 0.3, 0.4, 0.5, 0.6, 0.3, 2.0), strict=True)
    )
    assert error == pytest.approx(totals.mse(525_600), rel=1e-9)


def test_the_same_call_gives_the_same_design() -> None:
    first, again = (fc.design(YEAR, horizon=525_600) for _ in range(2))
    assert first == again


# A person
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(25))
def test_no_person_loses_more_than_the_targets(seed: int) -> None:
    """All events at once are the worst case: none is older."""
    chance = random.Random(seed)
    targets, horizon = random_targets(chance, longest=3.0)
    events = chance.randint(1, 5)
    person = fc.Unit(of="person", events=events, per="1d")
    design = fc.design(targets=targets, horizon=horizon, unit=person)
    for age, limit in targets.items():
        for first in {1, chance.randint(1, horizon)}:
            assert design.loss_of([first] * events, now=first + age) <= limit
        assert person.loss(design, age).epsilon <= limit


def test_keys_of_a_person_count_like_events_for_pure_losses() -> None:
    targets = {0: 0.1, 60: 0.5, 1000: 4.0}
    several = fc.design(
        targets=targets, horizon=1000, unit=fc.Unit(of="person", events=2, keys=3, per="1d")
    )
    six = fc.Unit(of="person", events=6, per="1d")
    assert several == fc.design(targets=targets, horizon=1000, unit=six)
    for age, limit in targets.items():
        assert several.composed_loss(age, times=6).epsilon <= limit
    with pytest.raises(ParameterError, match="per of the unit must be tick, or a length"):
        fc.Unit(of="person", events=5, per="time")


def test_a_person_with_one_event_is_an_event() -> None:
    targets = {0: 0.1, 60: 0.5, 10**6: 4.0}
    assert fc.design(targets=targets, horizon=10**6, unit=fc.Unit()) == fc.design(
        targets=targets, horizon=10**6
    )


def test_more_contributions_cost_more_error() -> None:
    targets = {60: 0.5, 525_600: 4.0}
    one, many = (
        fc.design(targets=targets, horizon=525_600, unit=person).mse(525_600)
        for person in (fc.Unit(), fc.Unit(of="person", events=24, per="1d"))
    )
    assert many == pytest.approx(24**2 * one, rel=2e-2)


# Senseless wishes
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"targets": {}}, "targets must be a mapping"),
        ({"targets": [1.0]}, "targets must be a mapping"),
        ({"targets": {0: 0.0}}, "target loss at age 0 must be"),
        ({"targets": {0: -1.0}}, "target loss at age 0 must be"),
        ({"targets": {0: math.nan}}, "target loss at age 0 must be"),
        ({"targets": {0: math.inf}}, "target loss at age 0 must be"),
        ({"targets": {0: "much"}}, "target loss at age 0 must be"),
        ({"targets": {0: 1.0, 5: 0.5}}, "targets must not decrease with age"),
        ({"targets": {1001: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {-1: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {0.5: 1.0}}, "target age must be an integer from 0 to 1000"),
        ({"targets": {5: 1.0}, "delay": 1000}, "delay must be less than the horizon"),
        ({"targets": {5: 1.0}, "delay": -1}, "delay must be an integer"),
        ({"targets": {5: 1e-9}}, "targets must be within reach"),
        ({"targets": {5: 1.0}, "horizon": 0}, "horizon must be an integer"),
        ({"targets": {5: 1.0}, "horizon": 1 << 60}, "horizon must be an integer"),
        ({"targets": {5: 1.0}, "unit": 24}, "unit must be a Unit"),
    ],
)
def test_senseless_wishes_get_one_clear_line(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=f"^{words}") as refused:
        fc.design(**{"horizon": 1000, **wishes})
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value)  # the remedy


@pytest.mark.parametrize("wishes", [{"events": 0}, {"events": 1.5}, {"amount": 0}, {"keys": 0}])
def test_senseless_persons_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="must be an integer"):
        fc.Unit(of="person", **wishes)
