"""Means of amounts, from two streams."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.runs import run
from fadecount.sources import SourceOptions
from fadecount.streams import means
from fadecount.streams.published import Published

BEGIN, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 11, tzinfo=UTC)


def both(epsilon: float, fares: list[tuple[datetime, int]]) -> tuple[Published, Published]:
    """The sums of fares up to 20, and the number of rides, of the same ten days."""
    frame = pl.DataFrame(fares, schema=["at", "fare"], orient="row")
    days = fc.Blocks(fc.Level(1, epsilon))
    counted = []
    for amounts in ({"amount": "fare", "max_amount": 20}, {}):
        options = SourceOptions(tick="1d", time="at", **amounts)  # type: ignore[arg-type]
        under_way = run(frame, options, mechanism=days, start=BEGIN, until=END)
        list(under_way)
        counted.append(under_way.published)
    return counted[0], counted[1]


def rides(chance: np.random.Generator, a_day: int) -> list[tuple[datetime, int]]:
    return [
        (BEGIN.replace(day=1 + day, hour=int(chance.integers(24))), int(chance.integers(1, 30)))
        for day in range(10)
        for _ in range(a_day)
    ]


def test_without_noise_it_is_the_mean_of_the_amounts_that_count() -> None:
    found = rides(np.random.default_rng(0), 7)
    mean = means(*both(9000.0, found), "1d")
    exact = [
        np.mean([min(fare, 20) for at, fare in found if at.day == day]) for day in range(1, 11)
    ]
    for values in (mean.values, mean.low, mean.high):
        assert values.ravel().tolist() == pytest.approx(exact)
    assert mean.figures.shown_status == ["final"] * 10


def test_the_interval_is_the_rectangle_of_two_and_covers() -> None:
    found = rides(np.random.default_rng(1), 60)
    exact = np.array(
        [np.mean([min(fare, 20) for at, fare in found if at.day == day]) for day in range(1, 11)]
    )
    held = 0
    for _ in range(30):
        sums, counts = both(1.0, found)
        mean = means(sums, counts, "1d")
        held += int(((mean.low[:, 0] <= exact) & (exact <= mean.high[:, 0])).sum())
        assert (mean.low <= mean.values).all() and (mean.values <= mean.high).all()
    # 97.5 % each: a smaller share than 90 % of 300 has a chance below 1e-4 even at 95 %
    assert held >= 270
    total, number = (replace(each, beta=0.025).figures("1d") for each in (sums, counts))
    assert (total.half_widths > sums.figures("1d").half_widths).all()
    np.testing.assert_allclose(mean.low, np.maximum(total.low, 0) / number.high)
    np.testing.assert_allclose(mean.high, np.minimum(total.high / number.low, 20))


def test_few_events_and_other_streams() -> None:
    sums, counts = both(0.01, [])
    mean = means(sums, counts, "1d")
    assert (mean.low >= 0).all() and (mean.high <= 20).all()
    # a day's intervals both hold 0 with 95 % or more: 6 days of 10 that do not are below 1e-5
    assert (mean.high - mean.low > 1).sum() >= 5, "nothing is known of a mean of nothing"
    with pytest.raises(ParameterError, match="counts must be a stream with the same keys"):
        means(sums, replace(counts, keys=("a",)), "1d")
    with pytest.raises(ParameterError, match="counts must be a stream with the same slots"):
        means(sums, replace(counts, steps=9), "1d")


def test_of_a_sum_that_cannot_be_nothing_is_known() -> None:
    met = 0
    for _ in range(40):
        sums, counts = both(0.05, [])
        mean = means(sums, counts, "1d")
        total, number = (replace(each, beta=0.025).figures("1d") for each in (sums, counts))
        impossible = (total.high < 0) | (number.high < 1)
        met += int(impossible.sum())
        assert (mean.low[impossible] == 0).all() and (mean.high[impossible] == 20).all()
    assert met  # 400 days, about 10 of them: none with a chance below 1e-4
