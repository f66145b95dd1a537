"""The protected unit: its figures, its words, and whose events count under its caps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import ONE_EVENT, Unit
from fadecount.mechanisms.unit import ADDRESS_BYTES, Key, address_digest, person_digest

PERSON = Unit(of="person", amount=2, events=3)
DAY = Unit(of="person", events=4, per="1d")


@pytest.mark.parametrize(
    ("unit", "sensitivity", "text"),
    [
        (Unit(), 1, "one event"),
        (Unit(amount=5), 5, "one event with an amount up to 5"),
        (Unit(of="person"), 1, "one person within a tick, at most 1 event"),
        (Unit(of="person", events=3), 3, "one person within a tick, at most 3 events"),
        (PERSON, 6, "one person within a tick, at most 3 events with an amount up to 2 each"),
        (
            Unit(of="person", events=3, keys=4),
            12,
            "one person within a tick, at most 3 events in each of at most 4 keys",
        ),
        (
            Unit(of="person", amount=5, keys=4),
            20,
            (
                "one person within a tick, at most 1 event in each of at most 4 keys, with an"
                " amount up to 5 each"
            ),
        ),
    ],
)
def test_units_in_figures_words_and_json(unit: Unit, sensitivity: int, text: str) -> None:
    assert unit.sensitivity == sensitivity
    assert unit.text == text
    assert Unit.from_json(json.loads(json.dumps(unit.to_json()))) == unit


@pytest.mark.parametrize(
    "fields",
    [
        {"of": "household"},
        {"amount": 0},
        {"amount": True},
        {"events": 2},
        {"of": "person", "events": 0},
        {"of": "person", "events": 1_000_001},
        {"of": "person", "amount": 1 << 50, "events": 3},
        {"keys": 2},
        {"of": "person", "keys": 0},
        {"of": "person", "keys": 1_000_001},
        {"of": "person", "events": 1_000_000, "keys": 1_000_000, "amount": 1 << 20},
        {"window": 3},
    ],
)
def test_what_is_no_unit_is_refused_in_one_line(fields: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=r"unit.* must be .*; ") as raised:
        Unit.from_json(fields)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("per", ["1x", 3, None, "90m "])
def test_a_time_for_a_cap_is_a_slot_of_the_calendar(per: object) -> None:
    with pytest.raises(ParameterError, match="per of the unit must be tick, or a length"):
        Unit(of="person", per=per)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="per of the unit must be tick where"):
        Unit(per="1d")


def test_a_unit_says_how_long_it_lasts_and_what_its_counts_are() -> None:
    assert (ONE_EVENT.subject, PERSON.subject, DAY.subject) == (
        "event",
        "person's tick",
        "person's day",
    )
    assert ONE_EVENT.span_seconds("Europe/Vienna") == PERSON.span_seconds("UTC") == 0
    assert (DAY.span_seconds("UTC"), DAY.span_seconds("Europe/Vienna")) == (86400, 90000)
    assert PERSON.ago("1 day") == "All that one person did within a tick, 1 day ago"
    assert Unit.from_json(DAY.to_json()) == DAY
    noise = "noise only; events that were left out are not in it"
    assert ONE_EVENT.covers == noise
    assert PERSON.covers == f"{noise}; each person counts at most 3 times per tick"
    assert Unit(of="person", keys=2, per="1d").covers == (
        f"{noise}; each person counts once per day and key, under at most 2 keys; sums over longer"
        " times count a person once for each day"
    )
    assert [unit.distinct_per for unit in (ONE_EVENT, DAY, Unit(of="person"))] == [None] * 3
    assert Unit(of="person", per="1d").distinct_per == "1d"


def test_a_promise_is_scaled_for_a_unit_and_a_plan_for_it_is_not() -> None:
    promise = fc.Gradual(epsilon=0.5)
    scaled = PERSON.scaled(promise)
    assert PERSON.loss(scaled, 100).epsilon <= promise.loss(100)
    assert PERSON.scaled(promise, PERSON) is promise
    assert Unit(of="person", events=2, amount=2).scaled(promise, PERSON) is promise
    for other in (Unit(of="person", events=4, amount=2), ONE_EVENT, DAY):
        with pytest.raises(ParameterError, match="unit must be at most the plan's"):
            other.scaled(promise, PERSON)
    wide = Unit(amount=1 << 40)
    for mechanism in (promise, fc.Blocks(fc.Level(1, 0.5))):
        with pytest.raises(ParameterError, match=r"^unit must be a smaller one, got 'one event w"):
            wide.scaled(mechanism)


@given(
    st.builds(
        lambda events, keys: Unit(of="person", events=events, keys=keys),
        st.integers(1, 4),
        st.integers(1, 3),
    ),
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.one_of(st.integers(0, 3), st.sampled_from(["hidden", "other"])),
            st.integers(1, 6),
        ),
        max_size=20,
    ),
)
def test_so_many_events_count_as_if_they_came_one_by_one(
    unit: Unit, rows: list[tuple[str, Key, int]]
) -> None:
    together: dict[Hashable, int] = {}
    apart: dict[Hashable, int] = {}
    counted: Counter[tuple[str, Key]] = Counter()
    for person, key, events in rows:
        taken = unit.takes(together, person, key, events)
        assert taken == sum(unit.takes(apart, person, key) for _ in range(events))
        assert together == apart
        counted[person, key] += taken
    for person in "ab":
        own = {key: count for (who, key), count in counted.items() if who == person and count}
        if unit.keys == 1:
            assert sum(own.values()) <= unit.events
        else:
            assert len(own) <= unit.keys
            assert all(count <= unit.events for count in own.values())
        assert all(
            count == 1 for key, count in own.items() if unit.keys > 1 and key in ("hidden", "other")
        )


def test_a_digest_stands_for_one_person_under_one_key() -> None:
    digests = {
        person_digest(person, key) for person in ("a", "b", "\ud800") for key in (b"k", b"l")
    }
    assert len(digests) == 6


def test_a_digest_begins_with_that_of_the_address() -> None:
    key, names = b"k" * 32, ("192.0.2.1 7", "192.0.2.1 8", "192.0.2.1", "192.0.2.10 7", " x", "")
    digests = [person_digest(each, key) for each in names]
    assert [len(set(digests)), {*map(len, digests)}] == [len(names), {2 * ADDRESS_BYTES}]
    addresses = [each[:ADDRESS_BYTES] for each in digests]
    assert addresses == [address_digest(each, key) for each in names]
    assert len({*addresses[:3]}) == 1 and len({*addresses}) == 3
    assert address_digest("ann", key) != person_digest("ann", key)[ADDRESS_BYTES:]
