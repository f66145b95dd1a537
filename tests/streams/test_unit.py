"""The protected unit is part of a stream: stored with it, and the same in every run."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

import fadecount as fc
from fadecount.errors import ParameterError, StoreError
from fadecount.mechanisms import Unit
from fadecount.streams import Description, Ticks
from tests.streams.backends import Backend, BriefStore

HOURS = Ticks(tick_seconds=3600)
PERSON = Unit(of="person", amount=2, events=3)


def test_a_description_keeps_its_unit() -> None:
    described = Description(
        name="doors", mechanism=fc.Gradual(epsilon=0.1), ticks=HOURS, unit=PERSON
    )
    assert Description.from_json("doors", described.to_json()) == described


def test_a_damaged_unit_is_refused() -> None:
    described = json.loads(
        Description(name="doors", mechanism=fc.Gradual(epsilon=0.1), ticks=HOURS).to_json()
    )
    units: list[object] = [{"of": "nobody"}, {"amount": "5"}, [], None]
    for unit in units:
        with pytest.raises(StoreError, match="damaged"):
            Description.from_json("doors", json.dumps({**described, "unit": unit}))
    with pytest.raises(ParameterError, match="unit must be a fadecount"):
        Description(name="doors", mechanism=fc.Gradual(epsilon=0.1), ticks=HOURS, unit=3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"^ticks must be a"):
        Description(name="doors", mechanism=fc.Gradual(epsilon=0.1), ticks=3600)  # type: ignore[arg-type]


def test_a_stream_is_created_once_and_then_opened_as_it_is(backend: Backend) -> None:
    mechanism = PERSON.scaled(fc.Gradual(epsilon=0.6, exponent=2.0))
    with backend.open() as store:
        with pytest.raises(ParameterError, match="mechanism must be given"):
            store.open_or_create("doors", tick=HOURS)
        made = store.open_or_create(
            "doors", tick=HOURS, mechanism=mechanism, keys=["a"], unit=PERSON, start_tick=5
        )
        assert made.description.mechanism == mechanism
        assert made.open_tick == 5
    with backend.open() as store:
        again = store.open_or_create(
            "doors", tick=HOURS, mechanism=mechanism, keys=["a", "b"], unit=PERSON
        )
        assert again.keys == ("a", "b")
    with backend.open() as store:
        assert (
            store.open_or_create("doors", tick=HOURS, keys=["a", "b"], unit=PERSON).description.unit
            == PERSON
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": Unit()}, r"protected unit of stream 'doors' is fixed \(one person within a tick"),
        ({"unit": Unit(of="person", amount=2, events=2)}, "protected unit of stream"),
        ({"unit": Unit(of="person", amount=3, events=2)}, "protected unit of stream"),
        ({"unit": Unit(of="person", amount=2, events=3, keys=2)}, "protected unit of stream"),
        ({"tick": Ticks(tick_seconds=60)}, r"is fixed \(3600 s in UTC\)"),
        ({"tick": Ticks(tick_seconds=3600, zone="Europe/Zurich")}, r"is fixed \(3600 s in UTC\)"),
        ({"mechanism": fc.Gradual(epsilon=0.5)}, "mechanism of stream 'doors' is fixed"),
        ({"keys": ["b", "a"]}, "must begin with those declared"),
        ({"keys": []}, "must begin with those declared"),
    ],
)
def test_a_run_that_differs_is_refused(changes: dict[str, object], message: str) -> None:
    with BriefStore() as store:
        asked: dict[str, object] = {
            "tick": HOURS,
            "mechanism": fc.Gradual(epsilon=0.6),
            "keys": ["a"],
            "unit": PERSON,
            "start_tick": 0,
        }
        store.open_or_create("doors", **asked)  # type: ignore[arg-type]
        with pytest.raises(ParameterError, match=message):
            store.open_or_create("doors", **{**asked, **changes})  # type: ignore[arg-type]


def test_a_promise_holds_for_a_person_with_several_keys() -> None:
    mechanism = fc.Gradual(epsilon=0.6)
    unit = Unit(of="person", events=3, keys=4)
    with BriefStore() as store:
        stream = store.open_or_create(
            "doors",
            tick=HOURS,
            mechanism=unit.scaled(mechanism),
            unit=unit,
            keys=["a", "b"],
            start_tick=0,
        )
        loss = stream.description.loss
        ran = stream.description.mechanism
    for age in (0, 1, 100, 10**6):
        assert 0.99 * mechanism.loss(age) < loss.at_age(age).epsilon <= mechanism.loss(age)
    spread = math.sqrt(ran.mse(1000, continuous=True) / mechanism.mse(1000, continuous=True))
    assert spread == pytest.approx(3 * 4, rel=1e-2)


@pytest.mark.parametrize(
    ("blocks", "ticks", "said"),
    [
        (
            fc.Blocks(fc.Level(1, 0.5), fc.Level(7, 0.5)),
            Ticks(tick_seconds=86_400),
            "level must be",
        ),
        (fc.Blocks(fc.Level(1, 0.5), fc.Level(7, 0.5)), Ticks(tick_seconds=3600), "level must be"),
        (fc.Blocks(fc.Level(1, 0.5), fc.Level(2, 0.5)), Ticks(tick_seconds=7000), "tick must be"),
        (
            fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5)),
            Ticks(tick_seconds=3600, zone="Asia/Kolkata"),
            "zone must be one whose days begin with a tick of 3600 s, got 'Asia/Kolkata'",
        ),
    ],
)
def test_a_stream_refuses_levels_that_its_calendar_does_not_have(
    blocks: fc.Blocks, ticks: Ticks, said: str
) -> None:
    with pytest.raises(ParameterError, match=said) as one:
        Description(name="visits", mechanism=blocks, ticks=ticks)
    assert "; " in str(one.value) and "\n" not in str(one.value)


def test_a_persons_day_is_a_unit_of_its_own() -> None:
    day = Unit(of="person", events=4, per="1d")
    assert (day.text, day.sensitivity) == ("one person's day, at most 4 events", 4)
    assert Unit.from_json(day.to_json()) == day
    assert "per" not in Unit(of="person", events=4).to_json()
    assert day.covers.endswith(
        "each person counts at most 4 times per day; sums over longer times count a person once"
        " for each day"
    )
    assert "once per day and key, under at most 2 keys" in replace(day, events=1, keys=2).covers
    assert Unit().covers == "noise only; events that were left out are not in it"
    assert Unit(of="person").covers.endswith("; each person counts once per tick")
    for wrong in ({"per": "1w"}, {"per": 1}, {"per": "24h"}, {"of": "event", "per": "1d"}):
        with pytest.raises(ParameterError, match="per of the unit must be"):
            Unit(**{"of": "person", **wrong})  # type: ignore[arg-type]
    ticks = Ticks(tick_seconds=7 * 86400)
    with pytest.raises(ParameterError, match="per of the unit must be at least a tick"):
        Description(name="x", mechanism=fc.Gradual(epsilon=1.0), ticks=ticks, unit=day)


@pytest.mark.parametrize("per", ["1h", "6h", "1d", "1mo"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Vienna", "Asia/Kathmandu"])
def test_every_tick_is_in_the_slot_in_which_it_begins(zone: str, per: str) -> None:
    unit = Unit(of="person", per=per)
    ticks = Ticks(tick_seconds=900, zone=zone)
    described = Description(name="x", mechanism=fc.Gradual(epsilon=1.0), ticks=ticks, unit=unit)
    lengths = set()
    first = ticks.at(1_774_500_000)
    for tick in range(first, first + 400):  # clocks change
        block = described.block_of(tick)
        slot = described.ticks_of(block)
        assert tick in slot
        assert {described.block_of(each) for each in (slot[0], slot[-1])} == {block}
        assert described.block_of(slot.stop) > block > described.block_of(slot.start - 1)
        lengths.add(len(slot) / 4)
    assert max(lengths) <= described.span_seconds / 3600
    assert zone != "UTC" or max(lengths) == described.span_seconds / 3600 or per == "1mo"
    short = zone == "Europe/Vienna"
    assert (
        lengths
        == {
            "1h": {1},
            "6h": {5, 6} if short else {6},
            "1d": {23, 24} if short else {24},
            "1mo": {743} if short else {744},
        }[per]
    )
