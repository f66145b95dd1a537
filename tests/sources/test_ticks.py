"""The ticks of sources are the ticks of streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadecount.calendar import Ticks
from fadecount.sources import SourceOptions
from fadecount.sources.times import EARLIEST, LATEST


@settings(max_examples=25)
@given(st.integers(EARLIEST, LATEST))
@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Vienna", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("tick_seconds", [1, 3600, 86_400, 7 * 86_400])
def test_the_same_moment_has_the_same_number(tick_seconds: int, zone: str, seconds: int) -> None:
    options = SourceOptions(tick=tick_seconds, time="t", zone=zone)
    assert options.ticks.of(np.array([seconds])).tolist() == [
        Ticks(tick_seconds=tick_seconds, zone=zone).at(seconds)
    ]


@pytest.mark.parametrize("seconds", [EARLIEST, LATEST])
def test_every_accepted_time_has_a_tick_that_can_be_shown(seconds: int) -> None:
    for zone in ("UTC", "Pacific/Kiritimati", "Etc/GMT+12"):
        ticks = Ticks(tick_seconds=86_400, zone=zone)
        tick = SourceOptions(tick=86_400, time="t", zone=zone).ticks.at(seconds)
        assert ticks.local(tick)
