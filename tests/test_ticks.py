"""Ticks: numbers and starts, in UTC and in zones whose days are not all alike."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from fadecount.calendar import iso_times
from fadecount.errors import ParameterError
from fadecount.streams import Ticks


@pytest.mark.parametrize("seconds", [1, 7, 60, 900, 3600, 86400, 7 * 86400])
@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Zurich", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia"]
)
def test_each_moment_lies_in_its_tick_and_ticks_follow_one_another(seconds: int, zone: str) -> None:
    ticks = Ticks(tick_seconds=seconds, zone=zone)
    moments = np.random.default_rng(1).integers(-(10**9), 2 * 10**9, 300)
    numbers = ticks.of(moments) if seconds >= 86400 or zone == "UTC" else moments // seconds
    for moment, number in zip(moments.tolist(), numbers.tolist(), strict=True):
        assert ticks.at(moment) == number
        assert ticks.start_seconds(number) <= moment < ticks.start_seconds(number + 1)


def test_a_day_begins_at_local_midnight_also_when_clocks_change() -> None:
    days = Ticks(tick_seconds=86400, zone="Europe/Zurich")
    spring = days.at(datetime(2026, 3, 29, 12, tzinfo=UTC).timestamp())
    assert days.local(spring) == "2026-03-29T00:00:00+01:00"
    assert days.local(spring + 1) == "2026-03-30T00:00:00+02:00"
    starts = iso_times(days.starts_of(np.arange(spring, spring + 2)), "UTC")
    assert starts == ["2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"]


def test_starts_are_the_same_one_by_one_and_at_once() -> None:
    hours = Ticks(tick_seconds=3600)
    starts = hours.starts_of(np.arange(-30, 30))
    assert iso_times(starts, "UTC") == [hours.local(tick) for tick in range(-30, 30)]
    zurich = Ticks(tick_seconds=3600, zone="Europe/Zurich")
    assert iso_times(starts, "Europe/Zurich") == [zurich.local(tick) for tick in range(-30, 30)]
    assert hours.of(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("seconds", [0, -1, 1.5, True, 10**9])
def test_impossible_lengths_are_refused(seconds: int) -> None:
    with pytest.raises(ParameterError, match="tick_seconds must be"):
        Ticks(tick_seconds=seconds)


def test_unknown_zones_and_moments_are_refused() -> None:
    machines = ("localtime", "posixrules", "Factory", "posix/Europe/Vienna", "right/Europe/Vienna")
    for zone in ("Mars/Base", "../etc/passwd", "", *machines):
        with pytest.raises(ParameterError, match="zone must be"):
            Ticks(tick_seconds=60, zone=zone)
    with pytest.raises(ParameterError, match="time must be"):
        Ticks(tick_seconds=60).at(1e300)
    with pytest.raises(ParameterError, match="tick must be"):
        Ticks(tick_seconds=60).local(10**15)
