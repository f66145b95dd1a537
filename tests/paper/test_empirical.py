"""The paper's empirical loss against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fadecount.paper import TABLE, empirical_losses
from fadecount.paper.table import LONG, SHORT, TableRow, rows
from tests.dyadic_cover import cover

FADING = rows(SHORT, fading=True)


def by_definition(budgets: list[float], horizon: int) -> NDArray[np.float64]:
    """For each age the maximum over all positions of the cost of the cover: from left to right,
    always the largest interval."""
    costs = np.zeros((2 * horizon + 2, horizon + 1))
    lengths = np.arange(1, horizon + 1)
    floors = np.array([int(length).bit_length() - 1 for length in lengths])
    worst = np.zeros(horizon)
    for first in range(horizon, 0, -1):
        levels = np.minimum(floors, (first & -first).bit_length() - 1)
        sizes = 1 << levels
        costs[first, 1:] = np.take(budgets, levels) + costs[first + sizes, lengths - sizes]
        fits = horizon - first + 1
        np.maximum(worst[:fits], costs[first, 1 : fits + 1], out=worst[:fits])
    return worst


def at_one_age(budgets: NDArray[np.float64], horizon: int, age: int) -> float:
    """The same for one age, all positions at once."""
    first = np.arange(1, horizon - age + 1)
    last, total = first + age, np.zeros(len(first))
    while np.any(left := last - first + 1):
        level = np.minimum(np.log2(first & -first), np.floor(np.log2(np.maximum(left, 1)))).astype(
            np.int64
        )
        total += np.where(left > 0, budgets[level], 0.0)
        first = np.where(left > 0, first + (1 << level), first)
    return float(total.max())


def test_the_definition_here_is_the_cover_of_the_library() -> None:
    budgets = [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]
    horizon = 40
    brute = [
        max(
            sum(budgets[level] for level, _ in cover(first, first + age))
            for first in range(1, horizon - age + 1)
        )
        for age in range(horizon)
    ]
    assert by_definition(budgets, horizon).tolist() == brute
    assert [at_one_age(np.array(budgets), horizon, age) for age in range(horizon)] == brute


@pytest.mark.parametrize("row", FADING, ids=lambda row: row.name)
def test_every_age_of_a_thousand_steps(row: TableRow) -> None:
    budgets = list(row.computed.noise.budgets)
    np.testing.assert_allclose(
        empirical_losses(budgets, SHORT), by_definition(budgets, SHORT), rtol=1e-13
    )


@given(st.integers(1, 150), st.lists(st.floats(0.01, 100.0), min_size=8, max_size=8))
@settings(max_examples=60)
def test_any_horizon_and_any_budgets(horizon: int, budgets: list[float]) -> None:
    np.testing.assert_allclose(
        empirical_losses(budgets, horizon), by_definition(budgets, horizon), rtol=1e-12
    )


def test_ages_of_a_million_steps() -> None:
    budgets = np.array(rows(LONG, fading=True)[1].computed.noise.budgets)
    losses = empirical_losses(budgets.tolist(), LONG)
    assert len(losses) == LONG
    for age in (123_456, 700_001, 987_654, LONG - 3, LONG - 1):
        assert losses[age] == pytest.approx(at_one_age(budgets, LONG, age), rel=1e-13)


def test_positions_past_the_horizon_do_not_count() -> None:
    rising = [float((1 + level) ** 2) for level in range(12)]
    longer, shorter = empirical_losses(rising, 2000)[:1000], empirical_losses(rising, 1000)
    assert np.all(shorter <= longer)
    assert np.any(shorter < longer)


def test_it_lies_between_the_exact_loss_and_the_theorem() -> None:
    ages = np.arange(SHORT)
    for row in FADING:
        found = empirical_losses(row.computed.noise.budgets, SHORT) * (1.0 + 1e-12)
        assert np.all(row.computed.loss(ages) <= found)
        assert np.all(found <= np.asarray(row.computed.paper_loss(ages)) * (1.0 + 1e-11))
    assert len(TABLE) == 16
