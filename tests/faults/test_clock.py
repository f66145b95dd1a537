"""Clocks that jump close nothing, whatever the length of a tick; small corrections and downtimes
are taken as they are."""

from __future__ import annotations

import pytest

import fadecount as fc
from fadecount.errors import ClockError
from fadecount.streams import Description, Ticks
from fadecount.streams.clock import LARGEST_LAG, LONGEST_DOWNTIME, ClockState, read_clock
from tests.streams.backends import BriefStore

NOW = 1_800_000_000
TEN_YEARS = 315_360_000


@pytest.mark.parametrize("tick_seconds", [1, 60, 86400])
def test_ticks_are_closed_by_the_clock(tick_seconds: int) -> None:
    ticks = Ticks(tick_seconds=tick_seconds)
    description = Description(name="doors", mechanism=fc.Gradual(epsilon=1.0), ticks=ticks)
    with BriefStore() as store:
        begin = ticks.at(NOW)
        stream = store.create(description, start_tick=begin - 1)
        assert [closed.last_tick for closed in stream.close_due(NOW)] == [begin - 1]
        assert stream.close_due(NOW) == []
        assert [closed.last_tick for closed in stream.close_due(NOW + 3 * tick_seconds)] == [
            begin + 2
        ]
        steps = stream.status.steps
        corrected = ticks.start_seconds(begin + 3) - 1800
        assert stream.close_due(corrected) == [], (
            "a small correction closes nothing and is no error"
        )
        assert stream.catch_up(NOW) == 0
        for jump, words in (
            (-TEN_YEARS, "behind the last release"),
            (TEN_YEARS, "past the end of the open tick"),
        ):
            with pytest.raises(ClockError, match=words) as refused:
                stream.close_due(NOW + jump)
            assert "\n" not in str(refused.value)
        assert stream.status.steps == steps
        later = NOW + 6 * 86400
        assert stream.close_due(later)[-1].last_tick == ticks.at(later) - 1, (
            "the clock is right again"
        )
        if tick_seconds > 1:
            far = NOW + TEN_YEARS
            assert stream.catch_up(far) == ticks.at(far) - ticks.at(later)
            assert stream.open_tick == ticks.at(far)


@pytest.mark.parametrize("tick_seconds", [1, 60, 86400, 30 * 86400])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_limits_are_in_seconds_for_every_tick(tick_seconds: int, zone: str) -> None:
    ticks = Ticks(tick_seconds=tick_seconds, zone=zone)
    tick = ticks.at(NOW)
    begin, end = ticks.start_seconds(tick), ticks.start_seconds(tick + 1)
    for now, state in (
        (begin - LARGEST_LAG - 1, ClockState.BEHIND),
        (begin - LARGEST_LAG, ClockState.FINE),
        (begin, ClockState.FINE),
        (end + LONGEST_DOWNTIME, ClockState.FINE),
        (end + LONGEST_DOWNTIME + 1, ClockState.AHEAD),
        (end + TEN_YEARS, ClockState.AHEAD),
    ):
        reading = read_clock(ticks, tick, now)
        assert reading.state is state
        assert bool(reading.text) == (state is not ClockState.FINE)
        assert reading.due == (
            ticks.at(now) - 1 if state is ClockState.FINE and now >= end else None
        )


def test_a_jump_of_ten_years_releases_no_tick_and_the_operator_can_say_that_it_is_right() -> None:
    """With ticks of a minute, five million of them were released at once."""
    minutes = Ticks(tick_seconds=60)
    reading = read_clock(minutes, minutes.at(NOW), NOW + TEN_YEARS)
    assert (reading.state, reading.due) == (ClockState.AHEAD, None)
    assert "streams catch-up" in reading.text
