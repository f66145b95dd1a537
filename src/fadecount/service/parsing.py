"""Reading what a client sent: JSON without its traps, typed fields, query parameters. No refusal repeats a value.

Refused, each with a constant message: bytes that are not UTF-8 or begin with a byte-order mark, ``NaN`` and the infinities,
numbers that overflow (``1e999``) or have too many digits, an object that names a field twice, nesting deeper than
``MOST_DEPTH``, a text with half a surrogate pair, and anything after the value.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.problems import bad_request
from fadecount.streams.ticks import Ticks

MOST_DEPTH = 16
MOST_DIGITS = 40

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(body: bytes) -> Any:
    """The value that ``body`` holds, or a Problem with status 400 that repeats none of it."""
    if body.count(b"[") + body.count(b"{") > MOST_DEPTH and _depth(body) > MOST_DEPTH:
        raise bad_request("too_deep", f"the JSON must be nested at most {MOST_DEPTH} deep")
    try:
        value = _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise bad_request("not_utf8", "the body must be UTF-8 text") from None
    except (ValueError, RecursionError):
        raise bad_request("not_json", "the body must be one JSON value") from None
    if b"\\u" in body and _has_surrogate(value):
        raise bad_request("bad_text", "the body has half a surrogate pair; send text that is valid Unicode")
    return value


def parse_lines(body: bytes) -> list[Any]:
    """The values of JSON lines: one per line, blank lines ignored."""
    return [parse(line) for line in body.split(b"\n") if line.strip()]


def _depth(body: bytes) -> int:
    brackets = _NOT_BRACKETS.sub(b"", _STRINGS.sub(b"", body))
    deepest = depth = 0
    for each in brackets:
        depth += 1 if each in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse_constant(_: str) -> NoReturn:
    raise bad_request("not_finite", "numbers must be finite; NaN and Infinity are not JSON")


def _finite(text: str) -> float:
    number = float(text) if len(text) <= MOST_DIGITS else math.inf
    if math.isinf(number):
        raise bad_request("number_too_large", f"numbers must be finite and have at most {MOST_DIGITS} characters")
    return number


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise bad_request("number_too_large", f"numbers must be finite and have at most {MOST_DIGITS} characters")
    return int(text)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise bad_request("duplicate_field", "an object must name each field once")
    return fields


def _has_surrogate(value: Any) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_surrogate(each) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(_has_surrogate(each) for each in value)


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_without_duplicates
)


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


LONGEST_QUERY = 2048
_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,9})")


class Query:
    """The parameters of one request."""

    def __init__(self, raw: bytes, known: frozenset[str]) -> None:
        if len(raw) > LONGEST_QUERY:
            raise bad_request("bad_query", f"the query must be at most {LONGEST_QUERY} bytes")
        try:
            pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
        except (ValueError, UnicodeError):
            raise bad_request("bad_query", "the query must be URL-encoded UTF-8") from None
        self._values = dict(pairs)
        if len(self._values) != len(pairs) or not self._values.keys() <= known:
            names = ", ".join(sorted(known)) or "none"
            raise bad_request("bad_query", f"the query may have these parameters, each once: {names}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def integer(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        text = self._values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and minimum <= int(text) <= maximum):
            raise bad_request("bad_query", f"{name} must be an integer from {minimum} to {maximum}")
        return int(text)

    def moment(self, name: str) -> float | None:
        """ISO 8601 with a zone, as Unix seconds."""
        text = self._values.get(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped + arrives as a space
            if found.tzinfo is None:
                raise ValueError
            return found.astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            raise bad_request("bad_time", f"{name} must be a time with its zone, such as 2026-03-01T10:00:00Z") from None

    def age(self, name: str) -> int | None:
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return parse_duration(text) if len(text) <= 40 else parse_duration("")
        except ParameterError:
            raise bad_request("bad_age", f"{name} must be a duration, such as 90s, 1h or 30d") from None

    def cursor(self) -> tuple[int, int] | None:
        """Where a page begins: a tick, and the place among its keys."""
        text = self._values.get("cursor")
        if text is None:
            return None
        found = _CURSOR.fullmatch(text)
        if not found:
            raise bad_request("bad_cursor", "cursor must be one that this service returned")
        return int(found[1]), int(found[2])


def tick_at(ticks: Ticks, seconds: float, name: str) -> int:
    """The tick of a moment; a moment without a calendar date is refused without showing it."""
    try:
        return ticks.at(seconds)
    except (ParameterError, OverflowError, ValueError, OSError):
        raise bad_request("bad_time", f"{name} must lie between the years 6 and 9987") from None


def first_from(ticks: Ticks, seconds: float, name: str) -> int:
    """The first tick that begins at a moment or later."""
    tick = tick_at(ticks, seconds, name)
    return tick if ticks.start_seconds(tick) >= seconds else tick + 1
