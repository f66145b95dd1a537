"""The promise of a publication: split over measures, planned for what people read, and kept by
everything that is published about a unit, at every age, on real calendars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.calendar import Ticks, level_calendar
from fadecount.errors import ParameterError
from fadecount.mechanisms.levels import MILLION
from fadecount.planning.budgets import variance
from fadecount.planning.measures import Caps, plan_lengths
from fadecount.planning.promise import (
    free_ages,
    plan_publication,
    require_promise,
    shifts_of,
)
from fadecount.planning.publication import Measure, Publication, Series, spent

PERSON = fc.Unit(of="person", events=2, per="1d")
STATIONS: Any = {"key": ("station",), "keys": ("north", "south")}


def publication(*measures: Measure, **fields: object) -> Publication:
    given = {
        "name": "rides",
        "zone": "Europe/Vienna",
        "start": "2026-03-01",
        "unit": PERSON,
        "promise": {"7d": 2, "ever": 4},
        **fields,
    }
    return Publication(measures=measures, **given)  # type: ignore[arg-type] # fields of it


def blocks_of(series: Series) -> fc.Blocks:
    assert isinstance(series.mechanism, fc.Blocks)
    return series.mechanism


def errors(blocks: Any) -> dict[int, list[float]]:
    return {
        level.length: [float(variance(np.array(each.epsilon))) ** 0.5 for each in level.stages]
        for level in blocks.levels
    }


def test_the_plan_of_the_example() -> None:
    """One event, .5 before an hour, 2 before 30 days, 4 ever; every five minutes, hours, days and
    months: what an independent search found, to 10 %."""
    events = publication(
        Measure(name="visits", per=("5m", "1h", "1d", "1mo")),
        unit=fc.Unit(),
        tick="5m",
        promise={"1h": 0.5, "30d": 2, "ever": 4},
    )
    (series,) = plan_publication(events)
    found = errors(blocks_of(series))
    assert found[12][-1] == pytest.approx(2.2, rel=0.1)
    assert found[288] == pytest.approx([1.2, 0.8], rel=0.1)
    assert found[8640] == pytest.approx([0.8], rel=0.1)
    lags = [[stage.lag for stage in level.stages] for level in blocks_of(series).levels]
    assert lags == [[0], [0, 13], [13, 8641], [8641]]
    assert [series.millionths(age) for age in (12, 13, 8640, 8641, 10**9)] == [
        500_000,
        2_000_000,
        2_000_000,
        4_000_000,
        4_000_000,
    ]


def test_shares_are_parts_of_every_limit() -> None:
    rides = publication(
        Measure(name="rides", overall=True, **STATIONS),
        Measure(name="riders", count="persons"),
        Measure(name="minutes", sum="minutes", max=120, share=2),
        reserve=1,
    )
    series = plan_publication(rides)
    last = [each.millionths(10**6) for each in series]
    # 4 over 5 shares: .8 for rides (half for all of them together), .8, 1.6; and .8 in reserve
    assert last == pytest.approx([400_000, 400_000, 800_000, 1_600_000], abs=120)
    assert np.all(np.array(last) <= [400_000, 400_000, 800_000, 1_600_000])
    assert [each.weight for each in series] == [2, 2, 1, 120]


def test_the_age_of_a_day_counts_from_its_start() -> None:
    """A day's figure is out when the day is over: a limit before the age of a day costs it nothing
    where days have 24 hours."""
    for zone, shift, lag in (("UTC", 23, 0), ("Europe/Vienna", 22, 1)):
        rides = publication(Measure(name="rides"), zone=zone, promise={"1d": 0.5, "ever": 4})
        assert shifts_of(rides, [1, 24, 720]) == (0, shift, shift)
        (series,) = plan_publication(rides)
        assert [stage.lag for stage in blocks_of(series).levels[0].stages] == [lag]
        assert series.millionths(22) == 0 and series.millionths(23) == 4_000_000


def test_where_blocks_and_slots_do_not_nest_nothing_is_taken_off() -> None:
    """Of the slot from 6 to 12 o'clock a block of four hours ends at 8."""
    for per, lengths, expected in (
        ("6h", [4, 12, 24], (0, 5, 5)),
        ("1mo", [1, 24, 720], (0, 23, 671)),
    ):
        unit = fc.Unit(of="person", events=1, per=per)
        rides = publication(Measure(name="rides"), unit=unit, zone="UTC")
        assert shifts_of(rides, lengths) == expected


def test_six_hours_may_be_one_hour_where_a_day_has_25() -> None:
    rides = publication(Measure(name="rides"), unit=fc.Unit(of="person", events=1, per="6h"))
    assert shifts_of(rides, [6, 24]) == (0, 0)
    rides = publication(
        Measure(name="rides"), zone="UTC", unit=fc.Unit(of="person", events=1, per="6h")
    )
    assert shifts_of(rides, [6, 24]) == (5, 5)


@pytest.mark.parametrize(
    ("zone", "tick", "each", "lengths", "expected"),
    [
        ("Australia/Lord_Howe", "30m", "1d", [1, 48], (0, 46)),  # clocks move by half an hour
        ("Europe/Vienna", "1h", "1d", [6, 24], (5, 22)),  # the first six hours are whole
        ("Europe/Vienna", "1d", "1d", [1, 30], (0, 0)),  # ticks are local days
        ("Europe/Vienna", "1d", "1mo", [1, 30], (0, 27)),
        ("UTC", "1d", "4mo", [30, 120], (27, 119)),  # January to April
        ("UTC", "1d", "6mo", [30, 180, 360], (27, 180, 180)),  # January to June
        ("UTC", "1d", "1y", [30, 360], (27, 364)),
        ("UTC", "1d", "2y", [360, 720], (364, 729)),
        ("UTC", "1h", "1mo", [1, 24, 720], (0, 23, 671)),
    ],
)
def test_slots_are_the_shortest_of_the_calendar(
    zone: str, tick: str, each: str, lengths: list[int], expected: tuple[int, ...]
) -> None:
    unit = fc.Unit(of="person", per=each)
    rides = publication(Measure(name="rides"), zone=zone, tick=tick, unit=unit)
    assert shifts_of(rides, lengths) == expected


def test_limits_bind_what_is_published_before_their_time() -> None:
    events = publication(Measure(name="a"), unit=fc.Unit(), promise={"90m": 1, "ever": 2})
    assert free_ages(events) == [3, None]
    persons = publication(Measure(name="a"), promise={"90m": 1, "1d": 2, "ever": 2})
    assert free_ages(persons) == [1, 23, None]


def test_a_first_limit_of_0_is_a_delay() -> None:
    events = publication(
        Measure(name="a", per=("1h", "1d")), unit=fc.Unit(), promise={"6h": 0, "ever": 2}
    )
    (series,) = plan_publication(events)
    assert min(level.lag for level in blocks_of(series).levels) == 7
    assert series.millionths(6) == 0


def test_what_a_share_cannot_pay_for_is_refused() -> None:
    """The error says which share would do, or which loss if no share does."""

    def rides(share: float, most: int, loss: float = 4) -> Publication:
        euros = Measure(name="euros", sum="cents", max=most, share=share)
        return publication(Measure(name="rides", share=2), euros, promise={"ever": loss}, reserve=1)

    with pytest.raises(ParameterError, match=r"^measures.euros.share must be at least ") as error:
        plan_publication(rides(1, 400_000))
    needed = float(str(error.value).split("at least ")[1].split(",")[0])
    plan_publication(rides(needed, 400_000))
    with pytest.raises(ParameterError, match=r"^measures.euros.share must be at least"):
        plan_publication(rides(0.98 * needed, 400_000))
    with pytest.raises(ParameterError, match=r"^loss must be at least .* for measures.euros, got"):
        plan_publication(rides(1, 10**7))


def test_a_share_pays_for_keys_that_appear() -> None:
    pages = Measure(
        name="pages", count="persons", key=("page",), discover=True, max_keys=900, share=0.5
    )
    rides = publication(Measure(name="rides"), pages, delta=1e-9, promise={"ever": 2})
    with pytest.raises(
        ParameterError, match=r"^measures.pages.share must be at least 0.819, which"
    ):
        plan_publication(rides)


def test_measures_at_different_times_share_nothing() -> None:
    rides = publication(
        Measure(name="rides", until="2026-04-01"),
        Measure(name="rides", start="2026-04-01", share=3),
        Measure(name="riders", count="persons"),
    )
    last = [each.millionths(10**6) for each in plan_publication(rides)]
    # rides and riders have a half each until April; then three quarters and one
    assert last == pytest.approx([2_000_000, 3_000_000, 1_000_000], abs=10)


def test_more_than_the_promise_is_refused() -> None:
    rides = publication(Measure(name="rides"))
    (series,) = plan_publication(rides)
    too_much = Series(
        measure="rides", part="keys", mechanism=series.mechanism, weight=3, shifts=series.shifts
    )
    with pytest.raises(ParameterError, match="which the measures lose together"):
        require_promise(rides, [too_much])


def cases() -> list[Publication]:
    measures = {
        "hours": Measure(name="rides", per=("1h", "1d", "1mo"), overall=True, **STATIONS),
        "days": Measure(name="riders", count="persons", per=("1d",), max_keys=3, **STATIONS),
        "parts": Measure(name="minutes", sum="minutes", max=7, per=("6h", "1d"), share=0.3),
    }
    losses = ({"ever": 1}, {"1d": 0.5, "30d": 2, "ever": 4}, {"1h": 0.2, "12h": 0.7, "7d": 3})
    return [
        publication(*measures.values(), zone=zone, start=start, promise=loss, unit=unit)
        for loss in losses
        for zone, start in (("Europe/Vienna", "2026-03-24"), ("Australia/Lord_Howe", "2026-04-01"))
        for unit in (PERSON, fc.Unit(of="person", events=3, per="1mo"))
        if zone == "Europe/Vienna" and unit is PERSON
    ] + [
        publication(measures["hours"], measures["parts"], unit=fc.Unit(), promise=loss, zone="UTC")
        for loss in losses
    ]


@pytest.mark.parametrize("number", range(6))
def test_the_loss_is_that_of_all_that_is_out_on_a_real_calendar(number: int) -> None:
    """Every tick of ten days around a change of clocks, every later time: what is published about a
    unit that was in that tick, counted by the calendar, is at most what is stated for its age, and
    that is within the promise."""
    rides = cases()[number]
    ticks = Ticks(tick_seconds=3600, zone=rides.zone)
    first = ticks.at(1_774_310_400 if rides.zone != "UTC" else 1_772_323_200)
    person = rides.unit.of == "person"
    every = plan_publication(rides)
    promise = [
        (age, limit * MILLION)
        for age, (_, limit) in zip(free_ages(rides), rides.limits, strict=True)
    ]
    reached: dict[int, int] = {}
    calendars = [
        level_calendar(blocks_of(each).lengths, ticks, first).reaching(24 * 75) for each in every
    ]
    length = 24 * 75
    for tick in range(first, first + 24 * 10):
        slot = ticks.ticks_of("1d", ticks.block_of("1d", tick)).start if person else tick
        times = np.arange(tick, first + length)
        lost = np.zeros(len(times), dtype=np.int64)
        for series, calendar in zip(every, calendars, strict=True):
            for number_of_level, level in enumerate(blocks_of(series).levels):
                end = first + calendar.end(number_of_level, tick - first + 1)
                out = [
                    np.where(times >= end - 1 + each.lag, each.millionths, 0)
                    for each in level.stages
                ]
                lost += series.weight * np.max(out, axis=0)
        for age, each in zip((times - slot).tolist(), lost.tolist(), strict=True):
            reached[age] = max(reached.get(age, 0), each)
    for age, most in reached.items():
        stated = sum(each.millionths(age) for each in every)
        assert most <= stated, age
        limit = next(limit for free, limit in promise if free is None or age < free)
        assert stated <= limit


def test_caps_are_kept_in_integers() -> None:
    random = np.random.default_rng(5)
    for _ in range(60):
        count = int(random.integers(1, 9))
        ages = np.sort(random.choice(5000, count, replace=False)).tolist()
        most = np.sort(random.integers(3000, 4_000_000, count + 1)).tolist()
        caps = Caps(ages=(*ages, None), millionths=tuple(most))
        lengths = [[1, 24, 720], [24], [6, 24], [1, 2, 4, 24]][int(random.integers(4))]
        shifts = [min(each, 23) - 1 for each in lengths]
        blocks = plan_lengths(lengths, shifts, caps, 24)
        assert [level.length for level in blocks.levels] == lengths
        for age, cap in zip(caps.ages, caps.millionths, strict=True):
            assert spent(blocks, shifts, 1 << 60 if age is None else age - 1) <= cap
        assert spent(blocks, shifts, 1 << 59) >= 0.97 * caps.millionths[-1]
