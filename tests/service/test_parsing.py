"""Hostile bodies are refused, and none of them comes back."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadecount.service.http import Problem
from fadecount.service.parsing import (
    MOST_COUNT,
    Event,
    Events,
    NewKeys,
    NewStream,
    parse,
    parse_events,
)
from tests.service.hostile import CANARY, HOSTILE_BODIES

TEXT = st.text(max_size=20) | st.text(string.punctuation, max_size=20)


def counts(body: bytes) -> dict[str, int]:
    sums: dict[str, int] = {}
    for event, times in parse_events(body).times.items():
        sums[event.key] = sums.get(event.key, 0) + times * event.count * event.amount
    return sums


@pytest.mark.parametrize("body", HOSTILE_BODIES, ids=lambda body: body[:24].decode("latin-1"))
def test_hostile_bodies_are_refused_without_echo(body: bytes) -> None:
    for read in (
        lambda: counts(body),
        lambda: parse(body, NewStream),
        lambda: parse(body, NewKeys),
    ):
        with pytest.raises(Problem) as caught:
            read()
        assert caught.value.status == 400
        assert CANARY.encode() not in caught.value.answer().body


@given(st.lists(st.tuples(TEXT, st.integers(0, MOST_COUNT)), min_size=1, max_size=5))
def test_what_python_writes_is_read_back(events: list[tuple[str, int]]) -> None:
    """Colons, braces and quotes inside keys are neither fields nor events."""
    sums: dict[str, int] = {}
    for key, count in events:
        sums[key] = sums.get(key, 0) + count
    rows = [{"key": key, "count": count} for key, count in events]
    assert counts(json.dumps({"events": rows}).encode()) == sums
    assert counts(json.dumps({"events": rows}, ensure_ascii=False).encode()) == sums


@given(st.binary(max_size=60), st.sampled_from([Events, NewStream, NewKeys]))
def test_any_bytes_are_read_or_refused(body: bytes, kind: type[Events]) -> None:
    try:
        parse(body, kind)
    except Problem as problem:
        assert problem.status == 400


def test_fields_may_have_names_that_are_keys() -> None:
    assert counts(b'{"events":[{"key":"events"},{"key":"person"}],"person":"events"}') == {
        "events": 1,
        "person": 1,
    }


def test_the_last_of_two_equal_fields_counts() -> None:
    assert counts(b'{"events":[{"key":"a","key":"b"}]}') == {"b": 1}
    assert counts(b'{"events":[{"key":"a"}],"events":[{"key":"b"}]}') == {"b": 1}


def test_counts_and_amounts() -> None:
    body = json.dumps(
        {
            "events": [
                {"key": "a", "count": 3},
                {"key": "b"},
                {},
                {"key": "a", "count": 2, "amount": 5},
            ]
        }
    ).encode()
    found = parse_events(body)
    assert found.times == {
        Event("a", 3): 1,
        Event("b"): 1,
        Event("all"): 1,
        Event("a", 2, 5): 1,
    }
    assert found.person is None
    one = parse_events(b'{"person":"p","events":[{"key":"a","amount":3},{"key":"b"}]}')
    assert (one.times, one.person) == ({Event("a", amount=3): 1, Event("b"): 1}, "p")
    for many in (0, 50_001):
        with pytest.raises(Problem, match=r"events does not fit: Expected `?array`? of length"):
            counts(b'{"events":[%b]}' % b",".join([b"{}"] * many))
    equal = parse_events(b'{"events":[{"key":"a"},{"key":"a"}]}')
    assert equal.times == {Event("a"): 2}


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, -1, MOST_COUNT + 1, [1]])
def test_only_integers_within_bounds_are_counts(value: object) -> None:
    with pytest.raises(Problem, match=r"count does not fit"):
        counts(json.dumps({"events": [{"key": "a", "count": value}]}).encode())
