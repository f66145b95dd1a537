"""Stored midnights: new rules of a zone move nothing that is open, also after a restart."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fadecount as fc
from fadecount import calendar
from fadecount.calendar import Ticks, zone_offset
from fadecount.streams import Description
from tests.streams.backends import Backend


def moment(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def test_new_rules_of_a_zone_move_nothing_that_is_open(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zone drops its summer time while a month is open: that month keeps the days it was
    announced with, also after a restart; the next one follows the new rules."""
    zone, old = "Europe/Vienna", zone_offset
    ticks = Ticks(tick_seconds=3600, zone=zone)
    first = ticks.at(moment("2026-03-27T22:00", zone))
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5), fc.Level(720, 0.5))
    counts = np.random.default_rng(3).integers(0, 9, (24 * 110, 1)).astype(np.int64)

    def run(changed: bool) -> tuple[list[int], list[int], list[int]]:
        name = "changed" if changed else "same"
        with backend.open() as store:
            description = Description(name=name, mechanism=blocks, ticks=ticks)
            stream = store.create(description, keys=["a"], start_tick=first)
            list(stream.release(first, counts[:10]))
        if changed:
            monkeypatch.setattr(
                calendar,
                "zone_offset",
                lambda zone, at: 3600 if at > 96 * 20_541 else old(zone, at),
            )
        with backend.open() as store:
            stream = store.open(name)
            list(stream.release(first + 10, counts[10:]))
            dates = stream.status.calendar
            assert dates is not None
            days = dates.edges(1, 0, len(counts))
            months = dates.edges(2, 0, len(counts))
            weeks = store.reader().stream(name).figures("1w")
            begins = weeks.starts[1:] // 3600 - first
        monkeypatch.setattr(calendar, "zone_offset", old)
        calendar.level_calendar.cache_clear()
        return days.tolist(), months.tolist(), begins.tolist()

    days, months, weeks = run(changed=False)
    other_days, other_months, other_weeks = run(changed=True)
    announced = months[1]  # April was announced when it opened, on 1 April, by the new rules
    assert months[0] == other_months[0], "March ends where it was announced"
    until = days.index(months[0]) + 1
    assert days[:until] == other_days[:until]
    assert weeks == days[2::7][: len(weeks)] and other_weeks == other_days[2::7][: len(weeks)]
    assert other_months[1] == announced + 1, "without summer time, later days end an hour later"


def test_a_restart_reads_the_midnights_that_are_stored(backend: Backend) -> None:
    ticks = Ticks(tick_seconds=3600, zone="Europe/Vienna")
    first = ticks.at(moment("2026-03-27T22:00", ticks.zone))
    blocks = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5))
    with backend.open() as store:
        stream = store.create(
            Description(name="doors", mechanism=blocks, ticks=ticks), keys=["a"], start_tick=first
        )
        assert stream.status.midnights is None, "it has no block yet"
        stream.close_through(first)
        before = stream.status.midnights
        assert before is not None
        stream.close_through(first + 1000)
        after = stream.status.midnights
    with backend.open() as store:
        status = store.open("doors").status
    assert status.midnights == after and after is not None
    assert after.offsets[: len(before.offsets)] == before.offsets
    assert after.through > before.through
    with backend.reader() as reader:
        assert reader.status("doors").midnights == after
