"""The counts of hours, days, weeks and months: differences of published releases, with exact
intervals. They cost no privacy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import CountedWindow, WindowPage
from fadecount.service.http import Tagged
from fadecount.service.parsing import MOST_ROWS, Query, first_from
from fadecount.service.problems import bad_request, not_found
from fadecount.service.reader_pool import Facts
from fadecount.streams.export import WINDOW_COLUMNS, csv_text, window_rows, windows_table
from fadecount.streams.reader import Reader
from fadecount.streams.windows import WindowCalendar, Windows

PARAMETERS = frozenset({"per", "key", "since", "until", "nonnegative"})
MOST_CELLS = 1_000_000
"""Windows times keys that one request may read."""

LONGEST_PER = 12
LONGEST_WINDOW = 1000 * UNITS["y"]
WHOLE_TICKS = "per must be made of whole ticks of the stream, such as 1h or 1d"


def windows_maker(facts: Facts, query: Query, *, as_table: bool) -> Callable[[Reader], Tagged]:
    """Checks a request for windows; the returned function reads them and makes the answer."""
    calendar = _calendar(facts, query.text("per"))
    key, nonnegative = query.text("key"), query.text("nonnegative") or "false"
    if key is not None and key not in facts.positions:
        raise not_found()
    if nonnegative not in ("true", "false"):
        raise bad_request("bad_query", "nonnegative must be true or false")
    first, last = _range(facts, query)
    count = (
        (last - first + 1) * facts.ticks.tick_seconds // parse_duration(calendar.per) + 2
        if first <= last
        else 0
    )
    if (
        count * len(facts.keys) > MOST_CELLS
        or count * (1 if key is not None else len(facts.keys)) > MOST_ROWS
    ):
        raise bad_request(
            "bad_query",
            f"there must be at most {MOST_ROWS:,} windows of all keys together; give key, or since",
        )
    positions = range(len(facts.keys)) if key is None else (facts.positions[key],)

    def make(reader: Reader) -> Tagged:
        found = None
        if count:
            try:
                found = reader.windows(
                    facts.name,
                    per=calendar.per,
                    since=first,
                    until=last + 1,
                    nonnegative=nonnegative == "true",
                )
            except ParameterError:
                raise bad_request("bad_query", WHOLE_TICKS) from None
        if as_table:
            lines = (
                []
                if found is None
                else window_rows(
                    facts.name, windows_table(found, facts.keys, positions), facts.ticks.zone
                )
            )
            return Tagged.of(csv_text([WINDOW_COLUMNS, *lines]).encode(), "text/csv; charset=utf-8")
        rows = [] if found is None else _rows(facts, found, positions)
        page = WindowPage(per=calendar.per, zone=facts.ticks.zone, windows=rows, next=None)
        return Tagged.of(msgspec.json.encode(page), "application/json")

    return make


def _calendar(facts: Facts, per: str | None) -> WindowCalendar:
    try:
        if per is None or len(per) > LONGEST_PER:
            raise ParameterError("per")
        calendar = WindowCalendar(per=per, zone=facts.ticks.zone)
    except ParameterError:
        raise bad_request(
            "bad_query", "per must be the length of a window, such as 1h, 1d, 1w or 1mo"
        ) from None
    if parse_duration(per) < facts.ticks.tick_seconds:
        raise bad_request("bad_query", WHOLE_TICKS)
    if parse_duration(per) > LONGEST_WINDOW:  # it would end after the last year of the calendar
        raise bad_request("bad_query", "per must be at most 1,000 years")
    return calendar


def _range(facts: Facts, query: Query) -> tuple[int, int]:
    """The requested ticks; none if the first is after the last."""
    since, until = query.moment("since"), query.moment("until")
    if not facts.has_releases or facts.first_tick is None or facts.last_tick is None:
        return 1, 0
    first, last = facts.first_tick, facts.last_tick
    if until is not None:
        last = min(last, first_from(facts.ticks, until, "until") - 1)
        facts.require_kept(last)
    if since is not None:
        first = max(first, first_from(facts.ticks, since, "since"))
    return first, last


def _rows(facts: Facts, found: Windows, positions: range | tuple[int, ...]) -> list[CountedWindow]:
    """One row for each window and key that existed then."""
    low, high = found.low, found.high
    return [
        CountedWindow(
            tick=_shown(start),
            tick_end=_shown(end),
            partial=bool(found.partial[at]),
            key=facts.keys[position],
            value=int(found.values[at, position]),
            low=int(low[at, position]),
            high=int(high[at, position]),
        )
        for at, (start, end) in enumerate(
            zip(found.starts.tolist(), found.ends.tolist(), strict=True)
        )
        for position in positions
        if position < found.values.shape[1] and found.known[at, position]
    ]


def _shown(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
