"""Totals from tied blocks beside the paper's curves: the error is the same, the curve is kept, and
the factors are those of an independent search."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from fadecount.cli.main import main
from fadecount.paper.figures import BESIDE, LATER, totals_like
from fadecount.paper.table import LONG, MSE, SHORT, rows
from tests.paper.test_figures import assert_room

# What another program found for T, λ and the first age, with finer lags.
FACTORS = {
    (SHORT, 1, 0): 0.7019,
    (SHORT, 2, 0): 1.0880,
    (SHORT, 3, 0): 1.2294,
    (SHORT, 1, LATER): 0.4371,
    (SHORT, 2, LATER): 0.3920,
    (SHORT, 3, LATER): 0.3385,
    (LONG, 1, 0): 0.5866,
    (LONG, 2, 0): 1.0826,
    (LONG, 3, 0): 1.2308,
    (LONG, 1, LATER): 0.4400,
    (LONG, 2, LATER): 0.4164,
    (LONG, 3, LATER): 0.3408,
}


@pytest.mark.parametrize(("horizon", "exponent", "first"), FACTORS)
def test_totals_keep_the_curve_at_the_same_error(horizon: int, exponent: int, first: int) -> None:
    row = rows(horizon, fading=True)[exponent - 1]
    totals, factor = totals_like(row, first)
    ages = np.arange(first, horizon)
    allowed = np.asarray(row.computed.loss(ages))
    assert np.all(np.asarray(totals.loss(ages)) <= factor * allowed * (1.0 + 1e-3))
    assert totals.mse(horizon, continuous=True) == pytest.approx(MSE, rel=1e-3)
    golden = FACTORS[horizon, exponent, first]
    assert 0.975 * golden < factor < 1.02 * golden
    assert (factor > 1.0) == (exponent > 1 and first == 0)


@pytest.mark.parametrize("name", BESIDE)
def test_figures_say_where_the_paper_is_better(name: str) -> None:
    figure = BESIDE[name]()
    by_label = {curve.label: curve.losses for curve in figure.curves}
    assert len(by_label) == len(figure.curves) == 12
    assert np.all(by_label["λ = 1, totals"] < by_label["λ = 1, exact"])
    ages = figure.curves[0].ages
    later = ages >= LATER
    for exponent in (1, 2, 3):
        exact = by_label[f"λ = {exponent}, exact"]
        late = by_label[f"λ = {exponent}, totals, age {LATER}+"]
        assert np.all(late[later] < 0.5 * exact[later])
        assert late[0] > exact[0]
        assert np.all(exact <= by_label[f"λ = {exponent}, theorem"])
        if exponent > 1:
            assert by_label[f"λ = {exponent}, totals"][0] > exact[0]
    assert "above 1, the paper's algorithm is the" in figure.text[0]
    header, *lines = figure.table
    assert (header[1], header[-1]) == ("age 0", f"age {ages[-1]:,}")
    assert [line[0] for line in lines] == list(by_label)
    assert_room(figure)


def test_the_command_writes_picture_points_and_table(tmp_path: Path) -> None:
    assert main(["paper", "--out", str(tmp_path), "--only", "totals_thousand"]) == 0
    with (tmp_path / "totals_thousand.csv").open(encoding="utf-8", newline="") as file:
        header, *_ = csv.reader(file)
    assert header[:3] == ["age", "λ = 1, exact", "λ = 1, theorem"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<table>") == 1
    assert "age 999" in page
