"""Gaussian designs: certified under every target, as good as golden numbers, and near the best of
all Gaussian mechanisms."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms.gaussian_law import epsilon_at
from fadecount.planning.gaussian_design import minimised, response_of
from tests.mechanisms.test_every_mechanism import refuse

YEAR = {60: 0.5, 43_200: 2.0, 525_600: 4.0}
DELTA = 1e-9


@pytest.mark.parametrize(("delta", "most"), [(1e-9, 26.3), (1e-6, 19.9)])
def test_a_year_of_minutes(delta: float, most: float) -> None:
    found = fc.design(targets=YEAR, horizon=525_600, delta=delta)
    assert isinstance(found, fc.Gaussian)
    assert math.sqrt(found.mse(525_600)) <= most
    for age, loss in YEAR.items():
        assert 0.97 * loss <= found.loss(age) <= loss
    assert found.delta == delta
    assert len(found.half_lives) <= 5


BEST = [  # steps, mu at ages, a certified lower bound on the error of any Gaussian mechanism
    (64, {3: 0.25, 15: 0.5, 63: 1.0}, 5.911),
    (64, {7: 0.35, 63: 1.0}, 4.825),
    (128, {9: 0.3, 127: 1.0}, 5.906),
    (128, {7: 0.3, 31: 0.55, 127: 1.0}, 5.681),
]


@pytest.mark.parametrize(("horizon", "mus", "least"), BEST)
def test_near_the_best_of_all_gaussian_mechanisms(
    horizon: int, mus: dict[int, float], least: float
) -> None:
    targets = {age: epsilon_at(mu, DELTA) for age, mu in mus.items()}
    found = fc.design(targets=targets, horizon=horizon, delta=DELTA)
    assert math.sqrt(found.mse(horizon, continuous=True)) <= 1.04 * least


@functools.cache
def least_error(horizon: int) -> float:
    """A lower bound on the root mean squared error at mu = 1 without expiration, over all
    factorizations of the sums.

    For any positive v the value ``2 tr((V A'A V)**(1/2)) - sum of squares of v`` bounds the squared
    error from below (the dual of the optimal factorization); iterating its stationarity condition
    makes it the optimum.
    """
    square = np.tril(np.ones((horizon, horizon)))
    gram = square.T @ square
    scale = np.ones(horizon)
    for _ in range(40):
        values, vectors = np.linalg.eigh(scale[:, None] * gram * scale[None, :])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        scale = np.sqrt(np.diag(root))
    values = np.linalg.eigvalsh(scale[:, None] * gram * scale[None, :])
    return math.sqrt((2.0 * np.sqrt(np.maximum(values, 0.0)).sum() - (scale**2).sum()) / horizon)


@pytest.mark.parametrize("horizon", [32, 64, 128])
def test_near_the_best_factorization_without_expiration(horizon: int) -> None:
    found = fc.design(
        targets={horizon - 1: epsilon_at(1.0, DELTA)}, horizon=horizon - 1, delta=DELTA
    )
    error = math.sqrt(found.mse(horizon, continuous=True))
    assert error <= 1.04 * least_error(horizon)
    assert error >= least_error(horizon) * (1 - 1e-9)


def test_the_oracle_gives_the_known_optimum() -> None:
    assert least_error(64) == pytest.approx(2.0999, abs=1e-3)


def test_delays_and_people() -> None:
    found = fc.design(targets={10: 1.0, 500: 3.0}, horizon=500, delay=4, delta=1e-6)
    assert found.delay == 4
    assert found.loss(3) == 0.0
    assert found.loss(10) <= 1.0
    assert found.loss(500) <= 3.0
    person = fc.Unit(of="person", events=5, per="1d")
    shared = fc.design(targets={500: 3.0}, horizon=500, unit=person, delta=1e-6)
    assert shared.loss_of([1, 1, 2, 9, 100], now=501) <= 3.0
    assert isinstance(shared, fc.Gaussian)
    assert shared.mu_of([1] * 5, now=501) <= person.loss(shared, 500).amount * (1 + 1e-12)
    assert person.loss(found, 3).amount == 0.0


def test_keys_of_a_person_count_by_their_root() -> None:
    targets = {10: 1.0, 500: 3.0}
    person = fc.Unit(of="person", events=2, keys=9, per="tick")
    several = fc.design(targets=targets, horizon=500, unit=person, delta=1e-6)
    one = fc.design(targets=targets, horizon=500, delta=1e-6)
    assert several.mse(500) == pytest.approx(36 * one.mse(500), rel=1e-2)
    for age, limit in targets.items():
        assert 0.9 * limit < several.composed_loss(age, sensitivity=2, keys=9).epsilon <= limit


def test_tight_targets_cannot_be_met() -> None:
    refuse("targets", lambda: fc.design(targets={100: 1e-12}, horizon=100, delta=1e-12))
    refuse("delta", lambda: fc.design(targets={100: 1.0}, horizon=100, delta=1.0))
    refuse("delta", lambda: fc.plan({100: 1.0}, horizon=100, delta=0.0))


def test_loose_targets_have_the_least_noise_there_is() -> None:
    found = fc.design(targets={10: 10**5}, horizon=10, delta=1e-3)
    assert isinstance(found, fc.Gaussian) and found.sigma == 0.5


def test_plans_show_pure_and_gaussian_options_side_by_side() -> None:
    made = fc.plan({60: 0.5, 10_000: 4.0}, horizon=10_000, delta=DELTA)
    assert made.best.name == "blocks"
    assert "better here than Gaussian noise" in made.best.reason
    assert {option.mechanism.kind for option in made.options} == {"gaussian", "blocks", "gradual"}
    gaussian = next(option for option in made.options if option.name == "gaussian")
    assert "1e-09" in gaussian.reason
    assert made.best.error < gaussian.error
    small = fc.plan({1 << 20: 0.01}, delta=0.001)
    assert small.best.name == "gaussian"
    assert all("gaussian" not in option.name for option in fc.plan({10: 1.0}, horizon=10).options)


def test_plans_by_error() -> None:
    made = fc.plan(mean_error=50.0, horizon=1000, delta=DELTA)
    gaussian = next(option for option in made.options if option.mechanism.kind == "gaussian")
    assert gaussian.error == pytest.approx(50.0, rel=1e-3)
    person = fc.plan(
        {1000: 2.0}, horizon=1000, unit=fc.Unit(of="person", events=3, per="1d"), delta=DELTA
    )
    gaussian = next(option for option in person.options if option.mechanism.kind == "gaussian")
    assert dict(gaussian.curve)[1000] <= 2.0
    assert gaussian.mechanism.loss(1000) < 0.7


def test_rates_give_the_sequences() -> None:
    """The closed form of the design and that of the certificate agree, from interlaced rates and
    from weights."""
    poles = math.log(2.0) / np.array([50.0, 4.0, 1.0])
    found = response_of(np.array([0.001, 0.05, 0.3]), poles)
    mechanism = fc.Gaussian(sigma=1.0, half_lives=(50, 4, 1), weights=found.weights.tolist())
    memories = mechanism.noise
    assert memories.response.decays == pytest.approx(found.decays, rel=1e-2)
    assert memories.response.parts == pytest.approx(found.parts, rel=1e-2)


def test_the_minimiser() -> None:
    def valley(x: np.ndarray) -> float:
        return float((1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2) if x[0] < 3 else math.inf

    assert minimised(valley, np.array([-1.0, 1.0])) == pytest.approx([1.0, 1.0], abs=1e-3)
