"""Table 1: what is printed, what is computed, and what is optimal."""

from __future__ import annotations

import pytest

import fadecount as fc
from fadecount.paper.report import digits
from fadecount.paper.table import MSE, TABLE, TableRow, budgets_of, table_section

FIXED = [row for row in TABLE if not row.is_optimal]
OPTIMAL = [row for row in TABLE if row.is_optimal]
MINIMIZERS = [
    (0.6700, 0.05212),
    (0.7005, 0.05813),
    (0.7480, 0.06724),
    (4.991, 0.04503),
    (3.662, 0.04647),
]


@pytest.mark.parametrize("row", FIXED, ids=lambda row: f"{row.horizon} {row.name}")
def test_fixed_ratios_agree_to_the_digits_printed(row: TableRow) -> None:
    assert [digits(value) for value in budgets_of(row.computed)] == [
        digits(value) for value in row.printed
    ]
    assert row.computed.mse(row.horizon, continuous=True) == pytest.approx(MSE, rel=1e-9)


@pytest.mark.parametrize(
    ("row", "minimizer"),
    list(zip(OPTIMAL, MINIMIZERS, strict=True)),
    ids=lambda value: str(value)[:40],
)
def test_printed_pairs_meet_the_error_but_are_not_the_minimum(
    row: TableRow, minimizer: tuple[float, float]
) -> None:
    printed, best = row.printed_mechanism, row.computed
    assert printed.mse(row.horizon, continuous=True) == pytest.approx(MSE, abs=0.5)
    assert [digits(value) for value in budgets_of(best)] == [digits(value) for value in minimizer]
    assert row.objective(best) <= row.objective(printed)
    assert isinstance(best, fc.Refresh)
    ratio = best.epsilon_past / best.epsilon_current
    for factor in (0.97, 1.03):
        shape = fc.Refresh(row.window, 1.0, factor * ratio)
        other = shape.for_mse(MSE, horizon=row.horizon, continuous=True)
        assert row.objective(other) > row.objective(best)


def test_the_table_shown_holds_every_row() -> None:
    header, *lines = table_section().table
    assert len(lines) == len(TABLE)
    assert {len(line) for line in lines} == {len(header)} == {8}
    for row, line in zip(TABLE, lines, strict=True):
        printed, computed = [value for value in line[2:4] if value], line[4:6]
        assert tuple(printed) == row.printed
        assert [value for value in computed if value] == list(budgets_of(row.computed))
        objectives = [float(str(value)) for value in line[6:] if value]
        assert len(objectives) == 2 * row.is_optimal
        if row.is_optimal:
            assert objectives[0] >= objectives[1] >= row.objective(row.computed)
        else:
            assert [digits(value) for value in budgets_of(row.computed)] == [
                digits(value) for value in row.printed
            ]
