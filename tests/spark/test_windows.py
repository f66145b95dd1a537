"""Counts of windows of time on a real Spark: differences of releases, with the intervals of the
mechanism."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from tests.spark.session import build_session as _needs_spark  # noqa: F401

from fadecount.spark import windows  # isort: skip

BERLIN_MIDNIGHT = 1_774_652_400  # 2026-03-28 in Berlin; the next day has 23 hours
HOUR = 3600
MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0, delay=2)
WORDS: dict[str, Any] = {"tick": "1h", "start": BERLIN_MIDNIGHT + HOUR}


def _releases(session: Any, totals: dict[str, list[int]]) -> Any:
    rows = [
        (datetime.fromtimestamp(WORDS["start"] + HOUR * step, UTC), key, value)
        for key, values in totals.items()
        for step, value in enumerate(values)
    ]
    return session.createDataFrame(rows, "tick timestamp, key string, value bigint")


@pytest.mark.parametrize(
    "mechanism",
    [MECHANISM, fc.Gaussian(sigma=4.0, half_lives=(30, 2.5), weights=(0.01, 0.14, 0.85), delay=2)],
)
def test_days_are_differences_of_releases_with_their_intervals(
    spark: Any, mechanism: fc.Mechanism
) -> None:
    source = np.random.default_rng(3)
    totals = {key: np.cumsum(source.integers(-2, 9, 60)).tolist() for key in ("a", "b")}
    found = windows(
        _releases(spark, totals), mechanism, per="1d", zone="Europe/Berlin", beta=0.1, **WORDS
    )
    columns = (
        "unix_seconds(tick) as begin",
        "unix_seconds(tick_end) as end",
        "key",
        "value",
        "low",
        "high",
        "partial",
    )
    rows = sorted(
        (row.key, row.begin, row.end, row.value, row.low, row.high, row.partial)
        for row in found.selectExpr(*columns).collect()
    )
    edges = [
        BERLIN_MIDNIGHT,
        BERLIN_MIDNIGHT + 24 * HOUR,
        BERLIN_MIDNIGHT + 47 * HOUR,
        BERLIN_MIDNIGHT + 71 * HOUR,
    ]
    steps = [
        0,
        23 + 2,
        46 + 2,
        58 + 2,
    ]  # the steps whose releases show everything before an edge: two later
    wanted = []
    for key, values in totals.items():
        for number in range(3):
            value = values[steps[number + 1] - 1] - (values[steps[number] - 1] if number else 0)
            around = mechanism.window_interval(steps[number], steps[number + 1], 0.1)
            wanted.append(
                (
                    key,
                    edges[number],
                    edges[number + 1],
                    value,
                    value - around,
                    value + around,
                    number != 1,
                )
            )
    assert rows == wanted
    assert all(
        sum(row[3] for row in rows if row[0] == key) == values[-1] for key, values in totals.items()
    )


def test_what_has_no_windows_is_empty_and_what_does_not_fit_is_refused(spark: Any) -> None:
    releases = _releases(spark, {"a": [1, 2, 3, 4]})
    assert windows(releases.limit(0), MECHANISM, per="1d", **WORDS).collect() == []
    assert windows(_releases(spark, {"a": [1, 2]}), MECHANISM, per="1d", **WORDS).collect() == []
    with pytest.raises(
        ParameterError,
        match=r"^per must be made of whole ticks of 3600 s, got '90m'; give a multiple",
    ):
        windows(releases, fc.Gradual(epsilon=0.5), per="90m", **WORDS)
    with pytest.raises(ParameterError, match=r"^per must be a number and a unit"):
        windows(releases, MECHANISM, per="daily", **WORDS)
    with pytest.raises(ParameterError, match=r"^releases must begin at start, got others"):
        windows(releases, MECHANISM, per="1d", tick="1h", start=BERLIN_MIDNIGHT)
    stream = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("timestamp as tick", "'a' as key", "value")
    )
    with pytest.raises(
        ParameterError, match=r"^releases must be those that were written, got a stream"
    ):
        windows(stream, MECHANISM, per="1d", **WORDS)
