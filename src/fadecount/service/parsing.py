"""Reading what a client sent: bodies and queries as structs that parse, check and describe
themselves.

No refusal repeats a value. In addition to what the structs define, these are refused: nesting
deeper than the parser allows, numbers out of range, text that is not Unicode, and anything after
the value. Of two equal fields of an object the last counts.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta, Struct

from fadecount.durations import parse_duration
from fadecount.service.http import bad_request, refusing
from fadecount.streams.description import LONGEST_KEY, ONLY_KEY

MOST_COUNT = 1_000_000
"""The largest count of one entry."""

MOST_AMOUNT = 1 << 20
MOST_EVENTS = 50_000
MOST_KEYS = 100_000
LONGEST_ID = 200

Body = TypeVar("Body", bound=Struct)
Question = TypeVar("Question", bound="Query")
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
_KEYS = Meta(min_length=1, max_length=MOST_KEYS, description="all different; keys are public")
Keys = Annotated[list[Text], _KEYS]
Count = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
JsonObject = dict[str, Any]


class Event(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Something that happened: under a key, so many times, each time with an `amount`: more than
    the unit's counts as that."""

    key: Annotated[str, Meta(max_length=LONGEST_KEY)] = ONLY_KEY
    count: Count = 1
    amount: Annotated[int, Meta(ge=0, le=MOST_AMOUNT)] = 1


class Events(Struct, forbid_unknown_fields=True):
    """Events that are counted together, or not at all. A stream that protects persons needs the
    `person` who caused them."""

    events: Annotated[list[Event], Meta(min_length=1, max_length=MOST_EVENTS)]
    person: Text | None = None


class SentEvents(Struct):
    """Events as they wait: each different one and how often it was sent, and whose they are."""

    times: dict[Event, int]
    person: str | None = None


class Visit(Struct):
    """A visit to the page at `url` (or `u`) of the website `domain` (`d`); its `name` (`n`) is
    pageview. Other fields, and events of other names, are not looked at."""

    name: str = ""
    n: str = ""
    url: str = ""
    u: str = ""
    domain: str = ""
    d: str = ""


class NewUnit(Struct, forbid_unknown_fields=True, frozen=True):
    """What the stated losses are about: one `event` with an amount up to `amount`, or one `person`
    within a tick, of whom at most `events` events count; with `keys` above 1, so many in each of at
    most `keys` keys. With `per` 1d (1h, 1mo): one person's day, at most `events` events in
    all."""

    of: Literal["event", "person"] = "event"
    amount: Annotated[int, Meta(ge=1, le=MOST_AMOUNT)] = 1
    events: Annotated[int, Meta(ge=1, le=MOST_COUNT)] = 1
    keys: Annotated[int, Meta(ge=1, le=MOST_KEYS)] = 1
    per: Annotated[str, Meta(pattern="^(tick|[1-9][0-9]{0,4}(mo|[smhdy]))$")] = "tick"


class NewStream(Struct, forbid_unknown_fields=True):
    """A stream to be created. Its `tick` is a duration such as 90s or 1d; its `mechanism` as
    `GET /v1/streams/{name}` shows it, or as `fadecount plan --save` wrote it for this tick.
    `discovery` says how undeclared keys appear by themselves, as a plan file holds it; `other` is
    the declared key under which these count too. Streams that count the same people are in one
    `group`, whose promise the first of them states: `group_loss`, the largest loss up to each age,
    or ever."""

    name: Text
    tick: Text
    mechanism: JsonObject
    keys: Keys | None = None
    zone: Text = "UTC"
    unit: NewUnit = NewUnit()
    discovery: JsonObject | None = None
    other: Text | None = None
    group: Text | None = None
    group_loss: dict[str, float] | None = None


class NewKeys(Struct, forbid_unknown_fields=True):
    """Keys to be declared; known ones stay as they are."""

    keys: Keys


class Query(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters of a request. The description of each ends the sentence "it must be"."""


def _described(text: str, **bounds: Any) -> Meta:
    return Meta(description=text, **bounds)


def _limit(most: int) -> Meta:
    return Meta(ge=1, le=most, description=f"an integer from 1 to {most}")


Time = Annotated[datetime, Meta(tz=True)]
_TIME = "a time with its zone, such as 2026-03-01T10:00:00Z"
Length = Annotated[str, _described("a duration, such as 90s, 1h or 30d", max_length=40)]
Key = Annotated[str, _described("a key of the stream")]
_PER = "the length of a slot, such as 1h, 1d, 1w or 1mo"
Per = Annotated[str, _described(_PER, pattern="^(total|[1-9][0-9]{0,5}(mo|[smhdwy]))$")]
_NEXT = "the `next` of a page"


class StreamsQuery(Query, frozen=True):
    """Which page of the list of streams."""

    cursor: Annotated[str, _described(_NEXT, max_length=LONGEST_KEY, pattern="^[^\0]*$")] = ""


class FigureQuery(Query, frozen=True):
    """Of which keys, as it was known when."""

    key: Key | None = None
    together: Annotated[bool, _described("true for the sum over all keys, or false")] = False
    as_of: Annotated[Time, _described(f"{_TIME}; what was public then")] | None = None


class TotalQuery(FigureQuery, frozen=True):
    """The total up to when."""

    at: Annotated[str, _described(f"{_TIME}, or several with commas between")] | None = None


class SoFarQuery(FigureQuery, frozen=True):
    """The slot of which length."""

    per: Per | None = None


class FiguresQuery(SoFarQuery, frozen=True):
    """Which page of the slots that begin in [since, until)."""

    since: Annotated[Time, _described(f"{_TIME}; slots that begin then or later")] | None = None
    until: Annotated[Time, _described(f"{_TIME}; slots that begin before")] | None = None
    cursor: Annotated[int, _described(_NEXT, ge=-(1 << 50), le=1 << 50)] | None = None


class ShownQuery(Query, frozen=True):
    """Of which key (by default all together), of slots of which length."""

    key: Key | None = None
    per: Per | None = None


class TopQuery(Query, frozen=True):
    """How many keys, of slots of which length."""

    per: Per | None = None
    limit: Annotated[int, _limit(1000)] = 10


class PrivacyQuery(Query, frozen=True):
    """Which losses: at an age, or of someone who came again and again; else the whole curve."""

    age: Length | None = None
    visits: Annotated[int, _limit(1000)] | None = None
    every: Length | None = None
    during: Length | None = None


_SAFE = re.compile(
    r"(Expected |Object missing required field `\w+`|Number out of range|Integer value out of"
    r" range)[^'\"]*"
)
_DECODERS: dict[type[Struct], msgspec.json.Decoder[Any]] = {
    each: msgspec.json.Decoder(each) for each in (Events, NewStream, NewKeys)
}


def parse(body: bytes, kind: type[Body]) -> Body:
    """The body as a struct, or a Problem with status 400 that repeats none of it."""
    try:
        value: Body = _DECODERS[kind].decode(body)
    except msgspec.ValidationError as error:
        # such a message comes from our types; other messages may quote the body
        safe = _SAFE.fullmatch(str(error))
        detail = _sentence(safe[0]) if safe else "the body has an unknown field or value"
        raise bad_request("wrong_body", detail) from None
    except (ValueError, RecursionError):  # msgspec.DecodeError is a ValueError
        raise bad_request("not_json", "the body must be JSON in UTF-8") from None
    return value


def parse_events(body: bytes) -> SentEvents:
    """The events of a body. Equal ones are counted, so that most of the work is done once for each
    different event."""
    whole = parse(body, Events)
    return SentEvents(Counter(whole.events), whole.person)


def checked_text(value: str, what: str) -> str:
    """The text, checked: names are shown in pages, files and terminals."""
    if not value.isprintable():
        raise bad_request("wrong_text", f"{what} must be printable text")
    return value


def _sentence(reason: str) -> str:
    reason, _, place = reason.partition(" - at `$")
    where = re.sub(r"\[[^\]]*\]", "[]", place.rstrip("`")).lstrip(".") or "the body"
    return f"{where} does not fit: {reason.replace('`', '')}; see /v1/openapi.json"


LONGEST_QUERY = 4096
"""Bytes: the longest key takes 2,400, encoded."""


@lru_cache(maxsize=512)
def parse_query(raw: bytes, kind: type[Question]) -> Question:
    """A query as a struct, or a Problem with status 400 that repeats none of it."""
    if len(raw) > LONGEST_QUERY:
        raise bad_request("bad_query", f"the query must be at most {LONGEST_QUERY} bytes")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16
        )
        values = dict(pairs)
        if len(values) == len(pairs):
            return msgspec.convert(values, kind, strict=False)
        wrong = None
    except msgspec.ValidationError as error:
        named = re.search(r"`(?:\$\.)?(\w+)`$", str(error))
        wrong = named[1] if named and named[1] in kind.__struct_fields__ else None
    except (ValueError, UnicodeError):
        raise bad_request("bad_query", "the query must be URL-encoded UTF-8") from None
    if wrong is None:
        known = ", ".join(kind.__struct_fields__) or "none"
        raise bad_request("bad_query", f"the query may have these parameters, each once: {known}")
    raise bad_request(
        "bad_query", f"{wrong} must be {parameter_schemas(kind)[wrong]['description']}"
    )


def parameter_schemas(kind: type[Query]) -> dict[str, dict[str, Any]]:
    """What each parameter of a query may be, as JSON schemas."""
    _, components = msgspec.json.schema_components([kind])
    properties: dict[str, dict[str, Any]] = components[kind.__name__]["properties"]
    return {name: each.get("anyOf", [each])[0] for name, each in properties.items()}


def length_of(text: str, name: str) -> int:
    """A duration in seconds, or a Problem with status 400."""
    with refusing("bad_query", f"{name} must be a duration, such as 90s, 1h or 30d"):
        return parse_duration(text)
