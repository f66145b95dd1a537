"""The loss at an age is the maximum over all positions, it never falls with the age, and the
paper's bounds are above it."""

from __future__ import annotations

import numpy as np
import pytest

import fadecount as fc
from tests.mechanisms.examples import ROUNDS, SEQUENCES
from tests.mechanisms.test_every_mechanism import refuse

EDGES = np.add.outer([100, 128, 200, 254, 256, 500], [-1, 0, 1]).ravel()
AGES = np.unique(np.concatenate([np.arange(64), np.arange(64, 512, 13), EDGES]))
"""Every small age, and the ends of rounds and of tree nodes among the larger ones."""
POSITIONS = np.arange(1, 2048)
EVERY_POSITION = ("random", "without noise on some levels", "window 12, past 0.15", "window 1000")
FIRST_POSITIONS = POSITIONS[:200]
POWERS = np.unique(np.concatenate([(1 << np.arange(60)) + shift for shift in (-1, 0, 1)]))
"""The ages where something changes, up to the largest one supported."""

LONG: dict[str, fc.Mechanism] = {
    "linear": fc.Linear(epsilon=0.4),
    "window 100": fc.Refresh(window=100, epsilon_current=0.8, epsilon_past=0.07),
    "window 127": fc.Refresh(window=127, epsilon_current=0.8, epsilon_past=0.3),
    "window 1000": fc.Refresh(window=1000, epsilon_current=0.9, epsilon_past=0.2),
}
MECHANISMS = {**SEQUENCES, **ROUNDS, **LONG}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", MECHANISMS)
def test_worst_case_is_the_maximum_over_positions(name: str) -> None:
    mechanism = MECHANISMS[name]
    several = name in EVERY_POSITION
    ages, positions = (AGES[::3], POSITIONS) if several else (AGES, FIRST_POSITIONS)
    each = np.asarray(mechanism.loss(ages[:, np.newaxis], position=positions))
    assert np.array_equal(each.max(axis=1), mechanism.loss(ages))


@pytest.mark.no_cover
@pytest.mark.parametrize("horizon", [1, 2, 3, 500, 512, 1000, 2047])
def test_worst_case_of_binary_is_the_maximum_over_its_steps(horizon: int) -> None:
    mechanism = fc.Binary(epsilon=0.8, horizon=horizon)
    ages = AGES[:: 1 + horizon // 1000]
    each = np.asarray(mechanism.loss(ages[:, np.newaxis], position=np.arange(1, horizon + 1)))
    assert np.array_equal(each.max(axis=1), mechanism.loss(ages))
    assert mechanism.loss(10**18) <= 0.8
    refuse("position", lambda: mechanism.loss(0, position=horizon + 1))
    refuse("position", lambda: mechanism.loss(np.arange(3), position=horizon + 1))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", MECHANISMS)
def test_curve_never_falls_and_stays_below_the_paper(name: str) -> None:
    mechanism = MECHANISMS[name]
    ages = np.union1d(np.arange(1500), POWERS[POWERS < 1 << 60])
    exact, published = np.asarray(mechanism.loss(ages)), np.asarray(mechanism.paper_loss(ages))
    assert np.all(np.diff(exact[np.isfinite(exact)]) >= 0)
    assert np.all(exact <= published)
    if isinstance(mechanism, fc.Gradual):
        closed = np.asarray(mechanism.paper_closed_form(ages))
        assert mechanism.paper_closed_form(999) == closed[999]
        assert np.all((published if mechanism.exponent <= 1 else exact) <= closed)


@pytest.mark.parametrize(
    "exponent", [0.0, 0.5, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 64.0]
)
def test_the_closed_form_of_the_paper_is_an_upper_bound(exponent: float) -> None:
    mechanism = fc.Gradual(epsilon=2.0**-8, exponent=exponent)
    ages = np.union1d(np.arange(1000), POWERS[POWERS < 1 << 60])
    assert np.all(np.asarray(mechanism.loss(ages)) <= mechanism.paper_closed_form(ages))


def test_the_closed_form_keeps_a_long_delay_exactly() -> None:
    mechanism = fc.Gradual(epsilon=0.1, exponent=1.0, delay=1 << 59)
    ages = (1 << 59) + np.arange(-3, 100)
    assert np.all(np.asarray(mechanism.paper_loss(ages)) <= mechanism.paper_closed_form(ages))
    assert np.array_equal(np.asarray(mechanism.paper_closed_form(ages)) > 0, ages >= 1 << 59)


@pytest.mark.parametrize("window", [1, 2, 3, 5, 7, 12, 31, 100])
@pytest.mark.parametrize("past", [0.02, 0.3, 2.0])
def test_the_paper_loss_of_refresh_is_the_worst_position_of_its_account(
    window: int, past: float
) -> None:
    """Every level's node that holds the item and has ended within its round, and one past budget
    per later round."""
    mechanism = fc.Refresh(window=window, epsilon_current=0.8, epsilon_past=past)
    levels = window.bit_length()
    ages, offsets = np.arange(3 * window + 2)[:, np.newaxis], np.arange(1, window + 1)
    ends = [(((offsets - 1) >> level) + 1) << level for level in range(levels)]
    nodes = sum((end <= np.minimum(offsets + ages, window)).astype(int) for end in ends)
    account = 0.8 / levels * nodes + past * ((offsets - 1 + ages) // window)
    assert np.allclose(mechanism.paper_loss(ages[:, 0]), account.max(axis=1), rtol=1e-13, atol=0)
