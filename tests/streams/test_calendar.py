"""The calendar of blocks: days as they really are, months, streams that begin inside a block, and
midnights that stay where they were announced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.streams import Description, Ticks, calendar
from fadecount.streams.calendar import BlockCalendar, Midnights, block_lengths
from fadecount.streams.ticks import zone_offset
from tests.streams.backends import Backend

MINUTES = fc.Blocks(
    fc.Level(1, 0.1),
    fc.Level(20, 0.1),
    fc.Level(60, 0.1),
    fc.Level(360, 0.1),
    fc.Level(1440, 0.1),
    fc.Level(43_200, 0.1),
    fc.Level(12 * 43_200, 0.2),
)
ZONES = (
    *("UTC", "Europe/Vienna", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata"),
    *("Africa/Cairo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu"),
)


def moment(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def new(blocks: fc.Blocks, zone: str, begin: str, days: int, seconds: int = 60) -> BlockCalendar:
    ticks = Ticks(tick_seconds=seconds, zone=zone)
    steps = days * max(1, 86_400 // seconds)
    return BlockCalendar.new(blocks, ticks, ticks.at(moment(begin, zone))).reaching(steps)


def local(dates: BlockCalendar, position: int) -> datetime:
    seconds = dates.ticks.start_seconds(dates.first_tick + position)
    return datetime.fromtimestamp(seconds, ZoneInfo(dates.ticks.zone))


def real_midnights(zone: str, begin: datetime, days: int) -> Iterator[int]:
    """When days begin, by Python's own calendar alone."""
    for number in range(1, days + 1):
        day = begin.date() + timedelta(days=number)
        at = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
        yield int(at.timestamp())


@pytest.mark.parametrize("zone", ZONES)
def test_every_question_agrees_with_the_list_of_edges(zone: str) -> None:
    """Over 400 days from 2014 on, with all changes of these zones, at random positions."""
    dates = new(MINUTES, zone, "2014-10-17T10:37", 400)
    end = 400 * 1440
    edges = [np.append(0, dates.edges(level, 0, end)) for level in range(len(MINUTES.levels))]
    at = np.random.default_rng(1).integers(0, end, 4000)
    for level, own in enumerate(edges):
        if level:
            assert set(own.tolist()) <= set(edges[level - 1].tolist()), "blocks nest"
        places = np.searchsorted(own, at, side="right") - 1
        np.testing.assert_array_equal(dates.frontier(level, at), own[places])
        known = at < own[-1]
        nearest = np.searchsorted(own, at[known])
        np.testing.assert_array_equal(dates.end(level, at[known]), own[nearest])
        some = at[:50]
        for one in some[known[:50]].tolist():
            assert dates.frontier(level, one) == own[np.searchsorted(own, one, side="right") - 1]
            assert dates.end(level, one) == own[np.searchsorted(own, one)]
        low, high = own[len(own) // 3], own[-1]
        assert dates.count(level, int(low), int(high)) == len(own) - 1 - len(own) // 3
        np.testing.assert_array_equal(dates.edges(level, int(low), int(high)), own[own > low])
        assert dates.end(level, 0) == dates.frontier(level, 0) == 0
    begins = [dates.ticks.start_seconds(dates.first_tick + int(each)) for each in edges[4][1:]]
    real = list(real_midnights(zone, datetime(2014, 10, 17), len(begins)))
    assert begins == real, "days begin when they really do"
    assert all(local(dates, int(each)).day == 1 for each in edges[5][1:])
    assert [
        (local(dates, int(each)).month, local(dates, int(each)).day) for each in edges[6][1:]
    ] == [(1, 1)]


def test_days_of_23_and_25_hours() -> None:
    hours = fc.Blocks(fc.Level(1, 0.1), fc.Level(6, 0.1), fc.Level(24, 0.1))
    for begin, lengths, parts in (
        ("2026-03-28", [24, 23, 24], [6, 6, 6, 6, 6, 6, 6, 5, 6, 6, 6, 6]),
        ("2026-10-24", [24, 25, 24], [6, 6, 6, 6, 6, 6, 6, 6, 1, 6, 6, 6, 6]),
    ):
        dates = new(hours, "Europe/Vienna", begin, 5, 3600)
        assert np.diff(dates.edges(2, 0, 74), prepend=0).tolist()[:3] == lengths
        whole = sum(lengths)
        assert np.diff(dates.edges(1, 0, whole), prepend=0).tolist() == parts
        assert len(dates.edges(0, 0, whole)) == whole


def test_a_midnight_that_does_not_exist() -> None:
    """In São Paulo a summer time began at midnight: the day began at one o'clock."""
    hours = fc.Blocks(fc.Level(1, 0.1), fc.Level(6, 0.1), fc.Level(24, 0.1))
    dates = new(hours, "America/Sao_Paulo", "2017-10-14", 5, 3600)
    ends = dates.edges(2, 0, 71)
    assert np.diff(ends, prepend=0).tolist() == [24, 23, 24]
    assert [local(dates, each).hour for each in ends.tolist()] == [1, 0, 0]
    dates = new(hours, "America/Sao_Paulo", "2018-02-16", 5, 3600)  # it ends at midnight: 25 hours
    assert np.diff(dates.edges(2, 0, 73), prepend=0).tolist() == [24, 25, 24]


def test_a_day_that_does_not_exist() -> None:
    """Samoa left out 30 December 2011: no block can be empty, so streams across it are refused."""
    hours = fc.Blocks(fc.Level(1, 0.1), fc.Level(24, 0.1), fc.Level(720, 0.1))
    with pytest.raises(ParameterError, match="zone must be one that leaves out no day") as refused:
        new(hours, "Pacific/Apia", "2011-12-28", 10, 3600)
    assert "got 'Pacific/Apia'; choose UTC" in str(refused.value)
    assert len(new(hours, "Pacific/Apia", "2012-01-02", 10, 3600).edges(1, 0, 48)) == 2


def test_a_stream_that_begins_inside_a_block_cuts_it_short() -> None:
    dates = new(MINUTES, "Europe/Vienna", "2026-01-31T10:37", 60)
    firsts = [int(dates.edges(level, 0, 70_000)[0]) for level in range(6)]
    assert firsts == [1, 3, 23, 83, 803, 803], "up to 10:40, 11:00, 12:00, and midnight twice"
    assert [int(dates.end(level, 1)) for level in range(6)] == firsts
    assert [int(dates.count(0, 0, first)) for first in firsts] == firsts
    assert dates.count(1, 0, 23) == 2 and dates.count(2, 0, 803) == 14


def test_months_and_years_have_their_real_lengths() -> None:
    days = fc.Blocks(fc.Level(1, 0.1), fc.Level(30, 0.1), fc.Level(90, 0.1), fc.Level(360, 0.1))
    for zone in ("UTC", "Europe/Vienna", "America/Sao_Paulo"):
        dates = new(days, zone, "2024-01-01", 800, 86_400)
        months = np.diff(dates.edges(1, 0, 731), prepend=0).tolist()
        leap = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        assert months == [*leap, 31, 28, *leap[2:]]
        assert np.diff(dates.edges(2, 0, 731), prepend=0).tolist()[:4] == [91, 91, 92, 92]
        assert np.diff(dates.edges(3, 0, 731), prepend=0).tolist() == [366, 365]
        assert dates.edges(0, 0, 731).tolist() == list(range(1, 732))


@pytest.mark.parametrize(
    ("length", "seconds", "said"),
    [
        (7, 86_400, "weeks and other lengths are views of days"),
        (31, 86_400, "weeks and other"),
        (5 * 30, 86_400, "weeks and other"),
        (7, 3600, "a part of a day"),
        (48, 3600, "a part of a day"),
    ],
)
def test_lengths_that_no_calendar_has(length: int, seconds: int, said: str) -> None:
    with pytest.raises(ParameterError, match=said) as refused:
        block_lengths(
            fc.Blocks(fc.Level(1, 0.1), fc.Level(length, 0.1)), Ticks(tick_seconds=seconds)
        )
    assert "\n" not in str(refused.value)


def test_ticks_that_are_no_part_of_a_day_have_one_level() -> None:
    ticks = Ticks(tick_seconds=7000)
    with pytest.raises(ParameterError, match="tick must be a part of a day"):
        Description(name="s", mechanism=fc.Blocks(fc.Level(1, 1), fc.Level(31_104, 2)), ticks=ticks)
    one = Description(name="s", mechanism=fc.Blocks(fc.Level(1, 1)), ticks=ticks)
    assert one.levels == ("7000s",)


# Frozen midnights
# ------------------------------------------------------------------------------------------------
def test_midnights_are_known_up_to_the_end_of_every_open_block() -> None:
    for begin in ("2026-01-01T00:00", "2026-01-31T23:59", "2026-12-31T12:00"):
        ticks = Ticks(tick_seconds=60, zone="Europe/Vienna")
        dates = BlockCalendar.new(MINUTES, ticks, ticks.at(moment(begin, ticks.zone)))
        for steps in (0, 1, 500, 50_000, 600_000):
            reached = dates.reaching(steps)
            for level in range(len(MINUTES.levels)):
                end = reached.end(level, steps + 1)
                last = ticks.start_seconds(reached.first_tick + end)
                assert last <= reached.midnights.through * 86_400
            assert reached.reaching(steps) is reached
    assert Midnights.from_json(dates.midnights.to_json()) == dates.midnights


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

    def run(changed: bool) -> tuple[list[int], list[int]]:
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
        monkeypatch.setattr(calendar, "zone_offset", old)
        calendar.calendar_of.cache_clear()
        return days.tolist(), months.tolist()

    days, months = run(changed=False)
    other_days, other_months = run(changed=True)
    announced = months[1]  # April was announced when it opened, on 1 April, by the new rules
    assert months[0] == other_months[0], "March ends where it was announced"
    until = days.index(months[0]) + 1
    assert days[:until] == other_days[:until]
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
