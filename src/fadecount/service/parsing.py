"""Reading what a client sent: bodies as structs that parse, check and describe themselves, and
query parameters.

No refusal repeats a value. In addition to what the structs define, these are refused: an object
that names a field twice, nesting deeper than the parser allows, numbers out of range, text that is
not Unicode, and anything after the value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.problems import Problem, bad_request
from fadecount.streams.ticks import Ticks

MOST_COUNT = 1_000_000
"""The largest count of one entry: it would take 10**12 of them to come near the end of 64 bits."""

MOST_AMOUNT = 1 << 20
MOST_EVENTS = 50_000
MOST_KEYS = 100_000
LONGEST_NAME = 128
LONGEST_ID = 200
MOST_ROWS = 10_000
MOST_STREAMS = 1000
ONLY_KEY = "all"
"""The key of a stream that was created without keys."""

Body = TypeVar("Body", bound=Struct)
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Keys = Annotated[
    list[Text],
    Meta(
        min_length=1, max_length=MOST_KEYS, description="different from each other; keys are public"
    ),
]
JsonObject = dict[str, Any]


class Event(Struct, forbid_unknown_fields=True):
    """Something that happened: under a key (by default `all`), so many times (1), each time with an
    amount (1)."""

    key: Annotated[str, Meta(max_length=LONGEST_NAME)] | UnsetType = UNSET
    count: Annotated[int, Meta(ge=0, le=MOST_COUNT)] | UnsetType = UNSET
    amount: (
        Annotated[
            int, Meta(ge=0, le=MOST_AMOUNT, description="at most what the unit of the stream says")
        ]
        | UnsetType
    ) = UNSET


class Events(Struct, forbid_unknown_fields=True):
    """Events that are counted together, or not at all. A stream that protects persons needs the
    `person` who caused them."""

    events: Annotated[list[Event], Meta(min_length=1, max_length=MOST_EVENTS)]
    person: Text | UnsetType = UNSET


class SentEvents(Struct):
    """Events added up: what each key gets, the largest amount, whether every key has one event, and
    whose they are."""

    counts: dict[str, int]
    largest_amount: int = 1
    single: bool = False
    person: str | None = None


class NewUnit(Struct, forbid_unknown_fields=True):
    """What the stated losses are about: one `event` with an amount up to `amount`, or one `person`
    within a tick, of whom at most `events` events count; with `keys` above 1, so many in each of at
    most `keys` keys."""

    of: Annotated[str, Meta(pattern="^(event|person)$")] | UnsetType = UNSET
    amount: Annotated[int, Meta(ge=1, le=MOST_AMOUNT)] | UnsetType = UNSET
    events: Annotated[int, Meta(ge=1, le=MOST_COUNT)] | UnsetType = UNSET
    keys: Annotated[int, Meta(ge=1, le=MOST_KEYS)] | UnsetType = UNSET


class NewStream(Struct, forbid_unknown_fields=True):
    """A stream to be created: with a mechanism, or with a plan that `fadecount plan --json`
    wrote."""

    name: Text
    tick: Annotated[Text, Meta(description="the length of a tick, such as 90s, 1m, 1h or 1d")]
    keys: Keys | UnsetType = UNSET
    mechanism: (
        Annotated[JsonObject, Meta(description="as `GET /v1/streams/{name}` shows it")] | UnsetType
    ) = UNSET
    plan: (
        Annotated[JsonObject, Meta(description="a plan's mechanism; its tick must be the stream's")]
        | UnsetType
    ) = UNSET
    zone: Text | UnsetType = UNSET
    unit: NewUnit | UnsetType = UNSET
    retain: (
        Annotated[
            Text, Meta(description="how long releases are kept, such as 90d; for ever without it")
        ]
        | UnsetType
    ) = UNSET


class NewToken(Struct, forbid_unknown_fields=True):
    """A token to be made: for one `stream` or all of them, until it `expires`, within limits of its
    own."""

    role: Annotated[str, Meta(pattern="^(writer|reader|admin)$")]
    stream: Text | UnsetType = UNSET
    label: (
        Annotated[str, Meta(max_length=100, description="what it is for; the audit log shows it")]
        | UnsetType
    ) = UNSET
    expires: (
        Annotated[Text, Meta(description="refused after this time, such as 90d")] | UnsetType
    ) = UNSET
    rate: Annotated[float, Meta(ge=0.001, le=1e9, description="requests a second")] | UnsetType = (
        UNSET
    )
    connections: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="connections in use at once")]
        | UnsetType
    ) = UNSET
    live_readers: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="live readers at once")] | UnsetType
    ) = UNSET


class NewKeys(Struct, forbid_unknown_fields=True):
    """Keys to be declared; known ones stay as they are."""

    keys: Keys


class NewRetention(Struct, forbid_unknown_fields=True):
    """How long releases are kept from now on, such as `90d`; null for ever. What was removed does
    not come back."""

    retain: Text | None


_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_SAFE = re.compile(
    r"(Expected |Object missing required field `\w+`|Number out of range|Integer value out of"
    r" range)[^'\"]*"
)
_DECODERS: dict[type[Struct], msgspec.json.Decoder[Struct]] = {
    each: msgspec.json.Decoder(each)
    for each in (Event, Events, NewStream, NewKeys, NewRetention, NewToken)
}


def parse(body: bytes, kind: type[Body]) -> Body:
    """The body as a struct, or a Problem with status 400 that repeats none of it."""
    value = _decoded(body, kind)
    _check_members(body, _members(value))
    return value


def parse_events(body: bytes, *, lines: bool, most: int) -> SentEvents:
    """The events of a body, added up. Too many are refused before they are parsed."""
    if body.count(b"{") > most + 1 and _STRINGS.sub(b"", body).count(b"{") > most + (
        0 if lines else 1
    ):
        raise too_many_events(most)
    rows = [line for line in body.split(b"\n") if line.strip()] if lines else []
    whole = Events([_decoded(row, Event) for row in rows]) if lines else _decoded(body, Events)
    events, person = whole.events, whole.person
    if not 1 <= len(events) <= most:
        raise too_many_events(most)
    sums: dict[str, int] = {}
    largest, most_times, members = 1, 0, (0 if lines else 1) + (person is not UNSET)
    for event in events:
        key, count, amount = event.key, event.count, event.amount
        members += (key is not UNSET) + (count is not UNSET) + (amount is not UNSET)
        name = ONLY_KEY if key is UNSET else key
        each = 1 if amount is UNSET else amount
        times = 1 if count is UNSET else count
        sums[name] = sums.get(name, 0) + times * each
        largest, most_times = max(largest, each), max(most_times, times)
    _check_members(body, members)
    single = len(sums) == len(events) and most_times <= 1
    return SentEvents(sums, largest, single, None if person is UNSET else person)


def too_many_events(most: int) -> Problem:
    return bad_request(
        "wrong_body", f"a request must hold 1 to {most} events; send several smaller ones"
    )


def checked_text(value: str, what: str) -> str:
    """The text, checked: names are shown in pages, files and terminals."""
    if not value.isprintable():
        raise bad_request("wrong_text", f"{what} must be printable text")
    return value


def _decoded(body: bytes, kind: type[Body]) -> Body:
    try:
        return _DECODERS[kind].decode(body)  # type: ignore[return-value]
    except msgspec.ValidationError as error:
        found = _SAFE.fullmatch(
            str(error)
        )  # such a message comes from our types; other messages may quote the body
        raise bad_request(
            "wrong_body", _sentence(found[0]) if found else "the body has an unknown field or value"
        ) from None
    except (
        ValueError,
        RecursionError,
    ):  # msgspec.DecodeError is one, and so is text that is not Unicode
        raise bad_request("not_json", "the body must be one JSON value in UTF-8") from None


def _sentence(found: str) -> str:
    reason, _, place = found.partition(" - at `$")
    where = re.sub(r"\[[^\]]*\]", "[]", place.rstrip("`")).lstrip(".") or "the body"
    return f"{where} does not fit: {reason.replace('`', '')}; see /v1/openapi.json"


def _check_members(body: bytes, found: int) -> None:
    """The parser keeps the last of two fields of one name; a field that it did not keep is noticed
    here.

    Every field has a colon, so a body with no more colons than fields needs no closer look, which
    would take ten times as long.
    """
    if body.count(b":") != found and _STRINGS.sub(b"", body).count(b":") != found:
        raise bad_request("duplicate_field", "an object must name each field once")


def _members(value: object) -> int:
    """How many fields the objects of a decoded value have, all together."""
    if isinstance(value, Struct):
        found = [getattr(value, name) for name in value.__struct_fields__]
        given = [each for each in found if each is not UNSET]
        return sum(1 + _members(each) for each in given)
    if isinstance(value, dict):
        return sum(1 + _members(each) for each in value.values())
    return (
        sum(_members(each) for each in value if not isinstance(each, str))
        if isinstance(value, list)
        else 0
    )


LONGEST_QUERY = 2048
_CURSOR = re.compile(r"(-?\d{1,18})\.(\d{1,9})")


class Query:
    """The parameters of one request."""

    def __init__(self, raw: bytes, known: frozenset[str]) -> None:
        if len(raw) > LONGEST_QUERY:
            raise bad_request("bad_query", f"the query must be at most {LONGEST_QUERY} bytes")
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16
            )
        except (ValueError, UnicodeError):
            raise bad_request("bad_query", "the query must be URL-encoded UTF-8") from None
        self._values = dict(pairs)
        if len(self._values) != len(pairs) or not self._values.keys() <= known:
            names = ", ".join(sorted(known)) or "none"
            raise bad_request(
                "bad_query", f"the query may have these parameters, each once: {names}"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str | None:
        return self._values.get(name)

    def integer(self, name: str, default: int, *, minimum: int, maximum: int) -> int:
        text = self._values.get(name)
        if text is None:
            return default
        if not (
            text.isascii() and text.isdigit() and len(text) <= 9 and minimum <= int(text) <= maximum
        ):
            raise bad_request("bad_query", f"{name} must be an integer from {minimum} to {maximum}")
        return int(text)

    def moment(self, name: str) -> float | None:
        """ISO 8601 with a zone, as Unix seconds."""
        text = self._values.get(name)
        if text is None:
            return None
        try:
            found = datetime.fromisoformat(
                text.replace(" ", "+")
            )  # an unescaped + arrives as a space
            if found.tzinfo is None:
                raise ValueError
            return found.astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            raise bad_request(
                "bad_time", f"{name} must be a time with its zone, such as 2026-03-01T10:00:00Z"
            ) from None

    def age(self, name: str) -> int | None:
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return parse_duration(text) if len(text) <= 40 else parse_duration("")
        except ParameterError:
            raise bad_request(
                "bad_age", f"{name} must be a duration, such as 90s, 1h or 30d"
            ) from None

    def cursor(self) -> tuple[int, int] | None:
        """Where a page begins: a tick, and the position among its keys."""
        text = self._values.get("cursor")
        if text is None:
            return None
        found = _CURSOR.fullmatch(text)
        if not found:
            raise bad_request("bad_cursor", "cursor must be one that this service returned")
        return int(found[1]), int(found[2])


def tick_at(ticks: Ticks, seconds: float, name: str) -> int:
    """The tick of a time. A time without a calendar date is refused, and the message does not
    repeat it."""
    try:
        return ticks.at(seconds)
    except (ParameterError, OverflowError, ValueError, OSError):
        raise bad_request("bad_time", f"{name} must lie between the years 6 and 9987") from None


def first_from(ticks: Ticks, seconds: float, name: str) -> int:
    """The first tick that begins at or after a time."""
    tick_at(ticks, seconds, name)
    return ticks.first_from(seconds)
