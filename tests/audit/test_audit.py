"""The audit accepts what is true, refutes what is not, and sees most of the loss where it can.

Every audit of a true claim fails by chance with probability FALSE_ALARM; there are less than 20 of
them here.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import fadecount as fc
from fadecount.audit import BINS, Finding, audit, best_event, learn, loss_shown
from tests.false_alarm import EACH
from tests.mechanisms.any_levels import AnyLevels

FALSE_ALARM = EACH
SAMPLES = 40_000
TRUE = [
    fc.Gradual(epsilon=1.0),
    fc.Gradual(epsilon=1.0, exponent=2.0, delay=2),
    AnyLevels(budgets=(1.0, np.inf, 0.5)),
    fc.Linear(epsilon=0.8),
    fc.Refresh(window=3, epsilon_current=1.5, epsilon_past=0.5),
    fc.Binary(epsilon=2.0, horizon=15),
]


@pytest.mark.parametrize("mechanism", TRUE, ids=repr)
def test_true_claims_hold_and_most_of_the_loss_is_seen(mechanism: fc.Mechanism) -> None:
    delay = mechanism.delay
    ages = [0, delay, delay + 1, delay + 3]
    found = audit(mechanism, ages, samples=SAMPLES, false_alarm=FALSE_ALARM)
    assert [one.age for one in found] == ages
    assert [one.claimed for one in found] == [mechanism.loss(age) for age in ages]
    assert not any(one.refuted for one in found), f"false alarm {FALSE_ALARM}: {found}"
    assert found[1].shown > 0.5 * found[1].claimed  # about 0.75, with a spread of 0.03
    assert found[3].shown > 0.2 * found[3].claimed  # from 0.4 on
    if delay:
        assert (found[0].claimed, found[0].shown) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("claimed", "running", "age"),
    [
        (fc.Gradual(epsilon=1.0), fc.Gradual(epsilon=1.5), 0),
        (AnyLevels(budgets=(1.0, 0.05)), fc.Gradual(epsilon=1.0), 1),
        (fc.Gradual(epsilon=1.0, delay=1), fc.Gradual(epsilon=1.0), 0),
        (
            fc.Refresh(window=3, epsilon_current=1.5, epsilon_past=0.01),
            fc.Refresh(window=3, epsilon_current=1.5, epsilon_past=4.0),
            8,
        ),
    ],
    ids=[
        "half the scale",
        "upper levels too quiet",
        "no delay",
        "past too quiet",
    ],
)
def test_false_claims_are_refuted(claimed: fc.Mechanism, running: fc.Mechanism, age: int) -> None:
    (found,) = audit(claimed, [age], samples=SAMPLES, false_alarm=FALSE_ALARM, running=running)
    assert found.refuted
    assert found.shown <= running.loss(age)


def test_progress_counts_every_run() -> None:
    runs: list[float] = []
    audit(fc.Linear(epsilon=1.0), [1, 2], samples=2000, false_alarm=0.5, progress=runs.append)
    assert sum(runs) == 2 * 2 * 2000


def test_an_event_downwards_counts_as_well() -> None:
    """Without the item the smallest value is common; with it, it is rare: only a low score shows
    that."""
    generator = np.random.default_rng(1)
    without = generator.choice([0.0, 1.0, 2.0], p=[0.1, 0.45, 0.45], size=(1, 20_000))
    having = generator.choice([0.0, 1.0, 2.0], p=[0.001, 0.4995, 0.4995], size=(1, 20_000))
    event = best_event(learn(without, having), without, having, 1e-3)
    assert not event.upwards
    assert event.count(without) > 50 * event.count(having)
    mirrored = best_event(learn(having, without), having, without, 1e-3)
    assert mirrored.upwards


def test_scores_of_many_values_need_no_more_bins() -> None:
    values = np.random.default_rng(2).normal(size=(3, 5000))
    score = learn(values, values + 1.0)
    assert np.mean(score(values + 1.0)) > 0.5 > -0.5 > np.mean(score(values))
    first = learn(values[:1], values[:1] + 1.0)
    assert len(np.unique(first(values[:1]))) <= BINS


def test_an_event_never_seen_shows_nothing() -> None:
    assert loss_shown(0, 0, 1000, 1e-6) == 0.0
    assert loss_shown(500, 500, 1000, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("ages", "options"),
    [
        ([], {}),
        ([-1], {}),
        ([256], {}),
        ([0.5], {}),
        ([0], {"samples": 10}),
        ([0], {"false_alarm": 0.0}),
        ([15], {}),
    ],
)
def test_bad_parameters_are_refused(ages: list[int], options: dict[str, float]) -> None:
    with pytest.raises(fc.errors.ParameterError, match="must"):
        audit(fc.Binary(epsilon=1.0, horizon=15), ages, **options)  # type: ignore[arg-type]


def test_a_finding_tells_when_it_refutes() -> None:
    counts = {"likely": 1, "rare": 1, "samples": 2}
    assert Finding(age=0, position=1, claimed=1.0, shown=1.1, **counts).refuted
    assert not Finding(age=0, position=1, claimed=1.0, shown=1.0, **counts).refuted


def fresh_noise(streams: NDArray[np.int64]) -> ArrayLike:
    """Running totals with exact noise of scale 1, new at each step: what somebody may have
    written."""
    schedule = fc.Intervals(tuple((step, step, 1.0) for step in range(1, 9)))
    return fc.Counter(schedule, shape=streams.shape[1:]).extend(streams)


def per_step(each: float, age: int) -> float:
    return each * (age + 1)


class TestAnyFunction:
    def test_a_true_claim_holds_and_a_false_one_does_not(self) -> None:
        """Running totals with fresh noise at each step lose a budget at each step."""
        for each, refuted in ((1.0, False), (0.5, True)):
            claim = partial(per_step, each)
            found = audit(claim, [0, 1], samples=40_000, running=fresh_noise, position=2)
            assert [finding.refuted for finding in found] == [refuted] * 2
            assert [finding.claimed for finding in found] == [each, 2 * each]
            assert {finding.position for finding in found} == {2}

    def test_a_mechanism_may_be_held_against_a_function(self) -> None:
        (found,) = audit(fc.Linear(1.0), [1], samples=20_000, running=lambda each: each)
        assert found.refuted  # no noise at all

    def test_bad_input(self) -> None:
        for running, name in ((None, "running"), (lambda each: each[:, 1:], "running")):
            with pytest.raises(fc.errors.ParameterError, match=name):
                audit(lambda _age: 1.0, [0], samples=1000, running=running)
        with pytest.raises(fc.errors.ParameterError, match="finite"):
            audit(lambda _age: 1.0, [0], samples=1000, running=lambda each: each + np.inf)
        with pytest.raises(fc.errors.ParameterError, match="position"):
            audit(lambda _age: 1.0, [0], samples=1000, running=lambda each: each, position=0)
