"""Hostile JSON is refused, and none of it comes back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadecount.service.parsing import MOST_COUNT, MOST_DEPTH, MOST_DIGITS, an_event, events_of, parse, parse_lines
from fadecount.service.problems import Problem
from tests.service.hostile import CANARY, HOSTILE_BODIES

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("body", HOSTILE_BODIES, ids=lambda body: body[:24].decode("latin-1"))
def test_hostile_bodies_are_refused_without_echo(body: bytes) -> None:
    with pytest.raises(Problem) as caught:
        events_of(parse(body), most=1000)
    assert caught.value.status == 400
    assert CANARY.encode() not in caught.value.body()


@settings(max_examples=50, deadline=None)
@given(PLAIN)
def test_what_python_writes_is_read_back(value: object) -> None:
    text = json.dumps(value, allow_nan=False)
    deep = max((text[:at].count("[") + text[:at].count("{") for at in range(len(text))), default=0) > MOST_DEPTH
    if not deep and "\\ud" not in text:
        assert parse(text.encode()) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        parse(body)
    except Problem as problem:
        assert problem.status == 400


def test_brackets_inside_texts_are_not_depth() -> None:
    value = {"a": "[" * 100 + '"' + "{" * 100}
    assert parse(json.dumps(value).encode()) == value
    with pytest.raises(Problem):
        parse(b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1))
    assert parse(b"[" * MOST_DEPTH + b"]" * MOST_DEPTH)


def test_lines() -> None:
    assert parse_lines(b'{"key":"a"}\n\n{"key":"b"}\r\n') == [{"key": "a"}, {"key": "b"}]
    with pytest.raises(Problem):
        parse_lines(b'{"key":"a"} {"key":"b"}\n')


def test_events() -> None:
    assert events_of({"events": [{"key": "a", "count": 3}, {"key": "b"}, {}]}, most=3) == [("a", 3), ("b", 1), ("all", 1)]
    with pytest.raises(Problem):
        events_of({"events": [{}, {}]}, most=1)


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, -1, MOST_COUNT + 1, [1]])
def test_only_integers_within_bounds_are_counts(value: object) -> None:
    with pytest.raises(Problem):
        an_event({"key": "a", "count": value})


def test_long_numbers_are_refused_before_they_are_computed() -> None:
    for text in (b"9" * (MOST_DIGITS + 1), b"0." + b"1" * MOST_DIGITS):
        with pytest.raises(Problem, match="at most"):
            parse(text)
