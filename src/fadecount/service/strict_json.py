"""JSON without its traps: what Python's reader lets pass, and a service must not.

Refused, each with a constant message: bytes that are not UTF-8 or begin with a byte-order mark, ``NaN`` and the infinities,
numbers that overflow (``1e999``) or have too many digits, an object that names a field twice, nesting deeper than
``MOST_DEPTH``, a text with half a surrogate pair, and anything after the value.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from fadecount.service.problems import bad_request

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
