"""The calendar: ticks, blocks of any length, days as they really are, months, beginnings inside a
block, and midnights that stay where they were announced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fadecount as fc
from fadecount.calendar import Calendar, Length, Midnights, Ticks, level_calendar, level_lengths
from fadecount.errors import ParameterError
from fadecount.streams import Description

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


def new(blocks: fc.Blocks, zone: str, begin: str, days: int, seconds: int = 60) -> Calendar:
    ticks = Ticks(tick_seconds=seconds, zone=zone)
    steps = days * max(1, 86_400 // seconds)
    return level_calendar(blocks.lengths, ticks, ticks.at(moment(begin, zone))).reaching(steps)


def local(dates: Calendar, position: int) -> datetime:
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


PER = ("15m", "1h", "90m", "6h", "1d", "3d", "1w", "1mo", "3mo", "1y")


def slot(per: str, seconds: int, zone: str) -> tuple[int, int]:
    """The slot of a time, by Python's own calendar alone: a day or month, and a part of a day."""
    length, day = Length.of(per), datetime.fromtimestamp(seconds, ZoneInfo(zone)).date()
    if length.months:
        return (12 * (day.year - 1970) + day.month - 1) // length.months, 0
    days = (day - date(1969, 12, 29) if per == "1w" else day - date(1970, 1, 1)).days
    if length.seconds >= 86_400:
        return days // (length.seconds // 86_400), 0
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).timestamp()
    return days, int(seconds - midnight) // length.seconds


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("tick_seconds", [900, 1500, 3600, 86_400])
def test_slots_of_every_length_by_their_definition(zone: str, tick_seconds: int) -> None:
    """A slot holds the ticks that begin in it, also ticks that are no part of it."""
    ticks = Ticks(tick_seconds=tick_seconds, zone=zone)
    lengths = [per for per in PER if Length.of(per).nominal_seconds >= tick_seconds]
    some = np.sort(np.random.default_rng(7).integers(0, 2_000_000_000 // tick_seconds, 300))
    begins = [ticks.start_seconds(tick) for tick in some.tolist()]
    for per in lengths:
        numbers, slots = ticks.blocks_of(per, some), [slot(per, each, zone) for each in begins]
        both = [*zip(numbers.tolist(), slots, strict=True)]
        assert len(set(numbers.tolist())) == len(set(slots)) == len(set(both))
        assert np.all(np.diff(numbers) >= 0), "later slots have larger numbers"
        for tick, number, own in zip(some.tolist(), numbers.tolist(), slots, strict=True):
            inside = ticks.ticks_of(per, number)
            assert tick in inside and ticks.block_of(per, tick) == number
            for place in (inside.start, inside.stop - 1):
                assert slot(per, ticks.start_seconds(place), zone) == own
            for place in (inside.start - 1, inside.stop):
                assert slot(per, ticks.start_seconds(place), zone) != own


@pytest.mark.parametrize("zone", ZONES)
def test_windows_hold_the_same_ticks_as_slots(zone: str) -> None:
    """The windows of a year, from inside one on, with stored midnights and without."""
    ticks = Ticks(tick_seconds=900, zone=zone)
    first = ticks.at(moment("2014-10-17T10:37", zone))
    stored = level_calendar((1, 96), ticks, first).reaching(40_000).midnights
    for per in PER:
        windows = Calendar((Length.of(per),), ticks, first, stored)
        around = windows.around(0, 100, 30_000)
        slots = ticks.blocks_of(per, first + np.arange(int(around[0]), int(around[-1])))
        np.testing.assert_array_equal(
            around, np.append(0, np.flatnonzero(np.diff(slots, append=-1)) + 1) + around[0]
        )
        assert around[0] <= 100 < around[1] and around[-2] < 30_000 <= around[-1]
        fresh = Calendar((Length.of(per),), ticks, first).around(0, 100, 30_000)
        np.testing.assert_array_equal(around, fresh)


def test_whole_ticks() -> None:
    hours = Ticks(tick_seconds=3600, zone="Asia/Kolkata")
    days = Calendar((Length.of("1d"),), hours)
    assert not days.is_whole(0, days.around(0, 0, 100))
    assert not Length.of("90m").can_hold(hours) and Length.of("2h").can_hold(hours)
    with pytest.raises(ParameterError, match="zone must be one whose days begin with a tick"):
        level_lengths((1, 24), hours)
    weeks = Ticks(tick_seconds=7 * 86_400, zone="Europe/Vienna")
    for per, whole in (("1w", False), ("7d", True), ("14d", True)):
        windows = Calendar((Length.of(per),), weeks)
        assert windows.is_whole(0, windows.around(0, 0, 9)) == whole
    assert not Length.of("1mo").can_hold(Ticks(tick_seconds=40 * 86_400))


@pytest.mark.parametrize("per", ["", "1", "0h", "7h", "25h", "1x", "h", "1h1", "1100y"])
def test_slots_that_no_calendar_has(per: str) -> None:
    with pytest.raises(ParameterError, match=r"^per must be "):
        Length.of(per)
    assert Length.named(per) is None


def test_slots_outside_the_years_of_the_calendar() -> None:
    with pytest.raises(ParameterError, match="time must be a moment between the years 1 and 9999"):
        Ticks(tick_seconds=3600, zone="Asia/Tokyo").ticks_of("1000y", -2)
    calendar = level_calendar((1, 24, 720), Ticks(tick_seconds=3600, zone="Asia/Tokyo"), 492_322)
    for level in range(3):
        assert calendar.frontier(level, 1 << 62) == 1 << 62, "every block has ended"
        early, late = calendar.frontier(level, np.array([800, 1 << 62])).tolist()
        assert early == calendar.frontier(level, 800) and late > 69_000_000, "nothing wraps"


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
        level_lengths((1, length), Ticks(tick_seconds=seconds))
    assert "\n" not in str(refused.value)


def test_ticks_that_are_no_part_of_a_day_have_one_level() -> None:
    ticks = Ticks(tick_seconds=7000)
    with pytest.raises(ParameterError, match="tick must be a part of a day"):
        Description(name="s", mechanism=fc.Blocks(fc.Level(1, 1), fc.Level(31_104, 2)), ticks=ticks)
    one = Description(name="s", mechanism=fc.Blocks(fc.Level(1, 1)), ticks=ticks)
    assert one.levels == ("7000s",)


# Stored midnights
# ------------------------------------------------------------------------------------------------
def test_midnights_are_known_up_to_the_end_of_every_open_block() -> None:
    for begin in ("2026-01-01T00:00", "2026-01-31T23:59", "2026-12-31T12:00"):
        ticks = Ticks(tick_seconds=60, zone="Europe/Vienna")
        dates = level_calendar(MINUTES.lengths, ticks, ticks.at(moment(begin, ticks.zone)))
        for steps in (0, 1, 500, 50_000, 600_000):
            reached = dates.reaching(steps)
            for level in range(len(MINUTES.levels)):
                end = reached.end(level, steps + 1)
                last = ticks.start_seconds(reached.first_tick + end)
                assert last <= reached.midnights.through * 86_400
            assert reached.reaching(steps) is reached
    assert Midnights.from_json(dates.midnights.to_json()) == dates.midnights


@pytest.mark.parametrize(
    ("slot", "shifts", "waits"),
    [("1d", (0, 5, 23, 23), 1), ("1mo", (0, 5, 23, 719), 0), ("6h", (0, 5, 5, 5), 2)],
)
def test_what_ends_too_early_in_a_slot_is_due_later(
    slot: str, shifts: tuple[int, ...], waits: int
) -> None:
    """Promised were days of 24 hours, and one has 23."""
    ticks = Ticks(tick_seconds=3600, zone="Europe/Vienna")
    first, length = ticks.at(moment("2026-03-26T11:00", ticks.zone)), Length.of(slot)
    calendar = level_calendar((1, 6, 24, 720), ticks, first, None, length, shifts).reaching(2400)
    waited = 0
    for level, shift in enumerate(shifts):
        ends = calendar.edges(level, 0, 2300)
        slots = [ticks.block_of(slot, first + end - 1) for end in ends.tolist()]
        begins = np.array([ticks.ticks_of(slot, each).start - first for each in slots])
        due = calendar.due(level, ends)
        np.testing.assert_array_equal(due, np.maximum(ends, begins + shift + 1))
        assert due[0] == calendar.due(level, int(ends[0]))
        waited += int(np.sum(due > ends))
        positions = np.arange(-2, 2300)
        known = [max([0, *ends[due <= at].tolist()]) for at in positions.tolist()]
        np.testing.assert_array_equal(calendar.out(level, positions), known)
        assert calendar.out(level, 80) == known[82]
    assert waited == waits
