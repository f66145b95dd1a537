"""Typed fields out of parsed JSON: exactly the ones that are known, each of the right kind, and no value in a refusal."""

from __future__ import annotations

from typing import Any

from fadecount.service.problems import bad_request

MOST_COUNT = 1_000_000
"""The largest count of one entry: it would take 10**12 of them to come near the end of 64 bits."""

LONGEST_NAME = 128
ONLY_KEY = "all"
"""The key of a stream that was created without keys."""


def an_object(value: Any, what: str, known: frozenset[str], needed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """``value`` as an object with known fields only, and every needed one."""
    if not isinstance(value, dict):
        raise bad_request("wrong_type", f"{what} must be an object")
    if not value.keys() <= known:
        raise bad_request("unknown_field", f"{what} may have the fields {', '.join(sorted(known))}, and no others")
    if not needed <= value.keys():
        raise bad_request("missing_field", f"{what} must have the fields {', '.join(sorted(needed))}")
    return value


def a_list(value: Any, what: str, *, most: int) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise bad_request("wrong_type", f"{what} must be a list of 1 to {most} entries")
    return value


def a_text(value: Any, what: str, *, longest: int = LONGEST_NAME) -> str:
    """A text of 1 to ``longest`` printable characters: names end up in pages, files and terminals."""
    if not isinstance(value, str) or not 1 <= len(value) <= longest or not value.isprintable():
        raise bad_request("wrong_text", f"{what} must be a text of 1 to {longest} printable characters")
    return value


def events_of(value: Any, *, most: int) -> list[tuple[str, int]]:
    """The (key, count) pairs of ``{"events": [{"key": "JFK", "count": 3}]}``; a count left out is 1, a key left out is 'all'."""
    fields = an_object(value, "the body", _BODY, _BODY)
    return [an_event(each) for each in a_list(fields["events"], "events", most=most)]


def an_event(value: Any) -> tuple[str, int]:
    """One event, checked at the speed at which batches arrive."""
    if type(value) is not dict:
        raise bad_request("wrong_type", "an event must be an object")
    extra = len(value)
    key = value.get("key", ONLY_KEY)
    count = value.get("count", 1)
    if extra > ("key" in value) + ("count" in value):
        raise bad_request("unknown_field", "an event may have the fields count, key, and no others")
    if type(key) is not str or len(key) > LONGEST_NAME:
        raise bad_request("wrong_text", f"key must be a text of at most {LONGEST_NAME} characters")
    if type(count) is not int or not 0 <= count <= MOST_COUNT:
        raise bad_request("wrong_number", f"count must be an integer from 0 to {MOST_COUNT}")
    return key, count


_BODY = frozenset({"events"})
