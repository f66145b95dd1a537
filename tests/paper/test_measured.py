"""Measurements with real noise: that they measure what they say, and can fail."""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import fadecount as fc
from fadecount.paper.measured import (
    BETA,
    Measured,
    Trial,
    delayed,
    measure,
    measured_section,
    run,
    trials,
)
from fadecount.paper.report import page
from fadecount.paper.table import LONG, SHORT, TABLE, rows

FALSE_ALARM = 1e-9
LIMIT = NormalDist().inv_cdf(1.0 - FALSE_ALARM / 2)
ROW = rows(SHORT, fading=True)[1]


def distance(mechanism: fc.Mechanism, forecast: float) -> float:
    """How many standard errors the measured mean squared error of 4,000 runs lies from a
    forecast."""
    squared, _ = run(mechanism, 100, 4000)
    standard_error = float(squared.std(ddof=1)) / float(np.sqrt(len(squared)))
    return abs(float(squared.mean()) - forecast) / standard_error


@pytest.mark.parametrize(
    "mechanism", [ROW.computed, rows(SHORT)[0].computed], ids=["fading", "refresh"]
)
def test_the_measured_error_is_the_forecast_and_no_other(mechanism: fc.Mechanism) -> None:
    forecast = mechanism.mse(100)
    assert distance(mechanism, forecast) < LIMIT, f"false alarm {FALSE_ALARM}"
    for wrong in (2 / 3, 3 / 2):
        assert distance(mechanism, wrong * forecast) > LIMIT


def test_a_delay_misses_the_last_inputs() -> None:
    mechanism = delayed(ROW)
    assert mechanism.delay == 180
    squared, largest = run(mechanism, mechanism.delay, 3)
    assert largest.tolist() == [180.0] * 3
    assert squared.tolist() == [float(np.mean(np.arange(1, 181) ** 2))] * 3
    _, later = run(mechanism, 1000, 3)
    assert np.all(later >= 180.0)


def test_parts_of_a_run_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fadecount.paper.measured._ITEMS_AT_ONCE", 400 * SHORT)
    trial, done = Trial(ROW, delayed(ROW), 1001), list[float]()
    result = measure(trial, done.append)
    assert result.trial == trial
    assert len(result.squared) == len(result.largest) == 1001
    assert done == [400 * SHORT, 400 * SHORT, 201 * SHORT]


def test_every_row_of_the_table_is_tried_and_the_corollary() -> None:
    found = trials(200)
    delays = [(each.row.horizon, each.mechanism.delay) for each in found]
    assert [each.row for each in found[: len(TABLE)]] == list(TABLE)
    assert not any(delay for _, delay in delays[: len(TABLE)])
    assert delays[len(TABLE) :] == [
        (SHORT, 75),
        (SHORT, 180),
        (SHORT, 215),
        (LONG, 103),
        (LONG, 354),
        (LONG, 429),
    ]
    assert all(each.runs == (2000 if each.row.horizon == SHORT else 200) for each in found)


def test_the_report_shows_what_was_measured() -> None:
    found = [trial for trial in trials(20) if trial.row.horizon == SHORT]
    results = [measure(trial, lambda _: None) for trial in found]
    section = measured_section(results)
    assert len(section.table) == 1 + 9 + 3
    assert {len(line) for line in section.table} == {12}
    text = page([section], Path())
    assert all(f"{each.mse:,.1f}" in text for each in results if not each.trial.mechanism.delay)
    for each in results:
        assert 0 <= each.lower_bound <= each.kept_by_two_thirds
        assert each.upper_bound <= each.corollary or each.trial.row.exponent is None
        if each.trial.mechanism.delay:  # one run in eight exceeds it, one in three might
            assert each.kept_by_two_thirds <= each.upper_bound


def test_the_interval_and_the_quantile() -> None:
    squares = np.array([900.0, 1000.0, 1100.0])
    each = Measured(Trial(ROW, ROW.computed, 3), squared=squares, largest=np.array([3.0, 1.0, 2.0]))
    low, high = each.interval
    assert each.mse == 1000.0
    assert (high - low) / 2 == pytest.approx(2.5758 * 100.0 / 3**0.5, rel=1e-3)
    assert each.kept_by_two_thirds == 3.0
    assert pytest.approx(1 / 3) == BETA
