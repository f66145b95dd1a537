"""Clocks that jump by ten years close nothing; small corrections and downtimes are taken as they are."""

from __future__ import annotations

import pytest

import fadecount as fc
from fadecount.errors import ClockError
from fadecount.streams import Description, SQLiteStore, Ticks, close_due

NOW = 1_800_000_000
TEN_YEARS = 315_360_000


@pytest.mark.parametrize("tick_seconds", [1, 60, 86400])
def test_ticks_are_closed_by_the_clock(tick_seconds: int) -> None:
    ticks = Ticks(tick_seconds=tick_seconds)
    description = Description(name="doors", mechanism=fc.Gradual(epsilon=1.0), ticks=ticks)
    with SQLiteStore.in_memory() as store:
        stream = store.create(description)
        begin = ticks.at(NOW)
        assert [chunk.last_tick for chunk in close_due(stream, NOW)] == [begin - 1]
        assert close_due(stream, NOW) == []
        assert [chunk.last_tick for chunk in close_due(stream, NOW + 3 * tick_seconds)] == [begin + 2]
        steps = stream.status.steps
        assert close_due(stream, NOW + 2 * tick_seconds) == [], "a small correction closes nothing and is no error"
        for jump in (-TEN_YEARS, TEN_YEARS):
            with pytest.raises(ClockError, match="clock must") as refused:
                close_due(stream, NOW + jump)
            assert "\n" not in str(refused.value)
        assert stream.status.steps == steps
        later = NOW + 20 * 86400
        assert close_due(stream, later)[-1].last_tick == ticks.at(later) - 1
        if tick_seconds > 1:
            far = NOW + TEN_YEARS
            assert close_due(stream, far, largest_gap_seconds=2 * TEN_YEARS)[-1].last_tick == ticks.at(far) - 1
