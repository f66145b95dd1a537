"""Query parameters, read strictly: known ones, each at most once, within bounds; and no value in a refusal."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.problems import bad_request
from fadecount.streams.ticks import Ticks

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
