"""Figures for people are rounded up."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fadecount as fc
from fadecount.calendar import Ticks
from fadecount.mechanisms import Loss, Unit
from fadecount.service.fading_curve import FadingCurve, curve_ages
from fadecount.streams.loss import StreamLoss


def curve(mechanism: fc.Mechanism, sensitivity: int = 1, tick_seconds: int = 60) -> FadingCurve:
    return FadingCurve(
        stream=StreamLoss(mechanism=mechanism, sensitivity=sensitivity), tick_seconds=tick_seconds
    )


def mechanism_of(fading: FadingCurve) -> fc.mechanisms.Mechanism:
    assert isinstance(fading.stream, StreamLoss)
    return fading.stream.mechanism


def test_visits_of_a_person_add_up() -> None:
    fading = curve(fc.Gradual(epsilon=0.1), 2, 3600)
    found = fading.person(2, 86400, 10 * 86400)
    ages = [24 * each for each in range(1, 11) for _ in range(2)]
    assert found.loss >= 2 * math.fsum(mechanism_of(fading).loss(age) for age in ages)
    assert found.loss == pytest.approx(
        2 * math.fsum(mechanism_of(fading).loss(age) for age in ages), rel=1e-12
    )
    exact = 2 * mechanism_of(fading).loss_of([300 - age for age in ages], now=300)
    assert found.loss >= exact
    assert found.subject == "Someone who came 2 times in 1 day for 1 week 3 days"
    assert fading.person(1, 604800, 86400).loss == fading.loss(86400).epsilon
    rare = fading.person(10, 365 * 86400, 30 * 86400)
    assert rare.loss == pytest.approx(20 * mechanism_of(fading).loss(720)), (
        "all ten may have come at once"
    )
    small = curve(fc.Gradual(epsilon=0.001), tick_seconds=3600).person(1, 86400, 604800)
    assert small.meaning.endswith(f"be at most {small.sure} sure.")


def test_visits_that_come_early_are_covered() -> None:
    """Twenty-four visits in the first hour of a day lose 12.0 by its end; spread over the day they
    would lose 9.8."""
    mechanism = fc.Gradual(epsilon=0.1)
    shown = curve(mechanism, tick_seconds=3600).person(24, 86400, 86400)
    assert shown.loss == mechanism.loss_of([1] * 24, now=24) == pytest.approx(12.0)


@pytest.mark.parametrize(
    "mechanism",
    [fc.Gradual(0.3, 2.0), fc.Refresh(5, 1.0, 0.25)],
)
def test_no_times_of_visits_lose_more_than_stated(mechanism: fc.mechanisms.Mechanism) -> None:
    random = np.random.default_rng(3)
    for _ in range(70):
        tick, every, during = (int(each) for each in random.integers(1, [90, 400, 4000]))
        visits, now = int(random.integers(1, 6)), 20_000 + float(random.uniform(0, 4000))
        times: list[float] = []
        for moment in np.sort(
            now
            - random.choice([during, during * random.uniform()], 60)
            * random.uniform(0.0, 1.0, 60) ** 0.2
        ):
            if sum(moment - each < every for each in times) < visits:
                times.append(float(moment))
        steps = [int(each // tick) + 1 for each in times]
        last = int(now // tick)
        for ahead in (0, 1, 7):  # figures ahead of the clock hold the present tick too
            stream = StreamLoss(mechanism=mechanism)
            fading = FadingCurve(stream=stream, tick_seconds=tick, ahead=ahead)
            shown = fading.person(visits, every, during)
            assert mechanism.loss_of(steps, now=last + ahead) <= shown.loss * (1 + 1e-12)
            by_tick = replace(fading, unit=Unit(of="person", events=5)).person(
                visits, every, during
            )
            assert mechanism.loss_of(sorted(set(steps)), now=last + ahead) <= by_tick.loss * (
                1 + 1e-12
            )
            assert by_tick.loss <= shown.loss


def test_visits_in_days_of_other_lengths() -> None:
    """A fortnight with a day of 23 hours, and one in which a whole day was left out, reach into one
    tick more."""
    mechanism, day = fc.Gradual(epsilon=0.5, exponent=2.0), 86400
    for zone, moment in (("Europe/Vienna", "2026-04-10"), ("Pacific/Apia", "2012-01-05")):
        ticks = Ticks(tick_seconds=day, zone=zone)
        now = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone)).timestamp()
        for length in range(1, 40):
            for steps in (length + 2, length + 7, 100):
                first = ticks.at(now) - steps
                places = [
                    ticks.at(now - length * day + back) - first + 1 for back in (0.0, 0.5, 3600.5)
                ]
                fading = FadingCurve(stream=StreamLoss(mechanism=mechanism), tick_seconds=day)
                shown = fading.person(1, length * day, length * day).loss
                assert max(mechanism.loss_of([place], now=steps) for place in places) <= shown
                assert shown == fading.loss(length * day).epsilon


def test_someone_in_every_day_of_a_fortnight_with_a_short_one() -> None:
    """Half past midnight: fifteen times 24 hours reach into seventeen days, and today is released
    ahead of the clock."""
    mechanism, day, zone = fc.Gradual(epsilon=0.5, exponent=2.0), 86400, "Europe/Vienna"
    ticks, now = (
        Ticks(tick_seconds=day, zone=zone),
        datetime(2026, 4, 10, 0, 30, tzinfo=ZoneInfo(zone)).timestamp(),
    )
    days = ticks.at(now) - ticks.at(now - 15 * day) + 1
    assert days == 17
    fading = FadingCurve(stream=StreamLoss(mechanism=mechanism), tick_seconds=day, ahead=1)
    shown = replace(fading, unit=Unit(of="person", events=3)).person(99, day, 15 * day).loss
    assert shown >= math.fsum(mechanism.loss(age) for age in range(days)) * (1 - 1e-12)


def test_events_of_a_person_in_one_tick_are_one_unit() -> None:
    fading = curve(fc.Gradual(epsilon=0.1), 5, 86400)
    often = replace(fading, unit=Unit(of="person", events=5)).person(24, 86400, 10 * 86400).loss
    daily = fading.person(1, 86400, 10 * 86400).loss
    assert often == pytest.approx(daily + 5 * mechanism_of(fading).loss(0)), (
        "ten days reach into eleven ticks"
    )
    assert fading.person(24, 86400, 10 * 86400).loss == pytest.approx(24 * daily)


def test_the_curve_never_falls_and_holds_what_is_stated() -> None:
    fading = curve(fc.Gradual(epsilon=0.1, exponent=2.0))
    points = fading.curve()
    losses = [point.loss for point in points]
    assert losses == sorted(losses)
    ages = {point.age_seconds: point.loss for point in points}
    assert all(ages[each.age_seconds] == each.loss for each in fading.statements())
    assert set(curve_ages(60)) == set(ages)


def test_a_factor_multiplies_every_loss() -> None:
    plain = curve(fc.Gradual(epsilon=0.1, exponent=2.0))
    twice = curve(mechanism_of(plain), sensitivity=2)
    for one, two in zip(plain.curve(), twice.curve(), strict=True):
        assert 2 * one.loss <= two.loss <= 2 * one.loss * (1 + 1e-12)


def test_releases_ahead_of_the_clock_count() -> None:
    """Step 100 is published while the clock says that step 10 is the last one over: an event of age
    0 is 90 ticks older."""
    mechanism = fc.Gradual(epsilon=0.125)
    fading = FadingCurve(stream=StreamLoss(mechanism=mechanism), tick_seconds=60, ahead=90)
    assert fading.loss(0).epsilon == mechanism.loss(90)
    assert fading.loss(300).epsilon == mechanism.loss(95)


def test_sentences() -> None:
    pure = fc.Gradual(epsilon=0.1)
    assert (
        curve(pure).stated("An event", Loss(0.0)).meaning
        == "Nothing has been published about it yet."
    )
    assert "at most 63 % sure" in curve(pure).stated("An event", Loss(0.5)).meaning
    assert "all but certain" in curve(pure).stated("An event", Loss(30.0)).meaning
