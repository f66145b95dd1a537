"""What the service answers, as structs: one definition that encodes and describes."""

from __future__ import annotations

from msgspec import Struct

from fadecount.service.stream_info import StreamInfo


class Accepted(Struct):
    """The events are durable. `repeated`: this token had sent this Idempotency-Key before, so they
    count once."""

    accepted: bool
    repeated: bool


class Created(Struct):
    """There is such a stream now. `repeated`: there was one before."""

    name: str
    repeated: bool


class Changed(Struct):
    """It is done."""

    name: str


class StreamPage(Struct):
    """Streams in alphabetical order; `next` is the cursor of the next page, null on the last."""

    streams: list[StreamInfo]
    next: str | None


class Badge(Struct, rename="camel"):
    """What a badge says, as shields.io reads it."""

    label: str
    message: str
    color: str = "1a6fb0"
    schema_version: int = 1


class TopKey(Struct):
    """A key with its figure, from `low` to `high` 95 % of the time. Unless it is `apart`, the
    interval overlaps that of the next key: nobody can tell which of the two is larger. `days` is on
    how many days of the slot the key appeared, and was counted (null: a declared key, always)."""

    key: str
    value: int
    low: int
    high: int
    apart: bool
    days: int | None


class TopList(Struct):
    """The `keys` with the largest figures of the slot from `start` to `end` (null: none yet)."""

    stream: str
    per: str
    zone: str
    unit_text: str
    start: str | None
    end: str | None
    keys: list[TopKey]


class Statement(Struct):
    """The privacy loss (ε) of a `subject`: exact or an upper bound. `shown` is rounded up; a
    fifty-fifty guess can become as sure as `sure`; `meaning` says so in a sentence. `age` is null
    where the subject has none. `cause` is what is published at this age, where that is known."""

    loss: float
    shown: str
    sure: str
    subject: str
    age_seconds: int | None
    age: str | None
    meaning: str
    cause: str | None = None


class PrivacyLosses(Struct):
    """The losses of a stream's unit that were asked for."""

    stream: str
    unit: str
    losses: list[Statement]


class PrivacyCurve(Struct):
    """How the losses of a stream's unit grow with age."""

    stream: str
    unit: str
    tick_seconds: int
    typical_error: float
    statements: list[Statement]
    curve: list[Statement]


class ProblemAnswer(Struct):
    """A refusal (RFC 9457). It repeats nothing that was sent."""

    status: int
    code: str
    detail: str
