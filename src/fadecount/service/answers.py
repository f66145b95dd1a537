"""What the service answers, and what the client returns: one definition that encodes and
describes."""

from __future__ import annotations

from dataclasses import dataclass

from fadecount.streams.info import StreamInfo


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """The count of the events from `start` to `end` under a `key` (null: all keys together). The
    true one lies from `low` to `high` 95 % of the time; noise may make it negative.

    `status` is provisional, revised or final. `partial`: not covered from beginning to end.
    `published`: when the last part of it became public.
    """

    start: str
    end: str
    key: str | None
    value: int
    low: int
    high: int
    status: str
    partial: bool
    published: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigurePage:
    """Figures of slots of the length `per` (total: since the stream began), oldest first. Days,
    weeks and months begin at midnight in `zone`, and what they cost is stated for `unit_text`.

    They are what was public when `published_through` began; null if that is nothing. `next` is the
    cursor of the next page, null on the last.
    """

    stream: str
    per: str
    zone: str
    unit_text: str
    published_through: str | None
    figures: list[PublishedFigure]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Streams in alphabetical order; `next` is the cursor of the next page, null on the last."""

    streams: list[StreamInfo]
    next: str | None


@dataclass(frozen=True, slots=True)
class Done:
    """It is done, for good. `repeated`: it was done before, and counts once."""

    repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """What a badge says, as shields.io reads it."""

    label: str
    message: str
    color: str = "1a6fb0"
    schemaVersion: int = 1  # noqa: N815 - the word of shields.io


@dataclass(frozen=True, slots=True)
class TopKey:
    """A key with its figure, from `low` to `high` 95 % of the time. Unless it is `apart`, the
    interval overlaps that of the next key: nobody can tell which of the two is larger. `days` is on
    how many days of the slot the key appeared, and was counted (null: a declared key, always)."""

    key: str
    value: int
    low: int
    high: int
    apart: bool
    days: int | None


@dataclass(frozen=True, slots=True)
class TopList:
    """The `keys` with the largest figures of the slot from `start` to `end` (null: none yet)."""

    stream: str
    per: str
    zone: str
    unit_text: str
    start: str | None
    end: str | None
    keys: list[TopKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The privacy loss (ε) of a `subject`: exact or an upper bound. `shown` is rounded up; a
    fifty-fifty guess can become as sure as `sure`; `meaning` says so in a sentence. `age` is null
    where the subject has none."""

    loss: float
    shown: str
    sure: str
    subject: str
    age_seconds: int | None
    age: str | None
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The `losses` of a stream's unit that were asked for, or at common ages; then with the whole
    `curve`."""

    stream: str
    unit: str
    losses: list[Statement]
    curve: list[Statement]
