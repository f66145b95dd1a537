"""What the service answers, as structs: one definition that encodes and describes."""

from __future__ import annotations

from msgspec import Struct

from fadecount.service.parsing import JsonObject


class Accepted(Struct):
    """The events are durable. `repeated`: this token had sent this Idempotency-Key before, so they
    count once."""

    accepted: bool
    repeated: bool


class Created(Struct):
    """There is such a stream now. `repeated`: there was one before."""

    name: str
    repeated: bool


class Declared(Struct):
    """The keys are declared."""

    name: str


class Deleted(Struct):
    """There is no such stream any more. Observers keep what they have seen, so its name stays taken
    if anything was released."""

    name: str


class Retained(Struct):
    """Releases are kept for `retain_seconds` (null: for ever). Older ones are removed soon; no loss
    changes."""

    name: str
    retain_seconds: int | None


class StreamSummary(Struct):
    """A stream in a list."""

    name: str
    tick_seconds: int
    key_count: int


class StreamList(Struct):
    """Streams in alphabetical order; `next` is the cursor of the next page, null on the last."""

    streams: list[StreamSummary]
    next: str | None


class StreamStatus(Struct):
    """Where a stream stands. `state` is running, ended, refused, clock ahead, clock behind, led
    elsewhere, or unknown while the store is away. `released_until` is when the last released tick
    ended; `lag_seconds` is how late the next release is. Releases are kept for `retain_seconds`
    (null: for ever)."""

    name: str
    state: str
    tick_seconds: int
    key_count: int
    retain_seconds: int | None
    released_until: str | None
    lag_seconds: int
    histories: int


class StatusPage(Struct):
    """The status of streams in alphabetical order; `next` is the cursor of the next page, null on
    the last."""

    streams: list[StreamStatus]
    next: str | None


class TokenAnswer(Struct):
    """What a token allows, without its secret. `last_used` is a day (UTC), null before the first
    use."""

    id: str
    role: str
    stream: str | None
    label: str
    created: str
    expires: str | None
    expired: bool
    last_used: str | None
    rate: float | None
    connections: int | None
    live_readers: int | None


class TokenList(Struct):
    """Every token that was not revoked, oldest first."""

    tokens: list[TokenAnswer]


class NewTokenAnswer(Struct):
    """A new token. `token` is shown here and never again."""

    token: str
    about: TokenAnswer


class RevokedToken(Struct):
    """The token is refused from now on."""

    id: str


class UnitAnswer(Struct):
    """What the stated losses are about."""

    of: str
    amount: int
    events: int
    keys: int
    sensitivity: int
    text: str


class StreamDescription(Struct):
    """Everything that is public about a stream. Times are the starts of ticks; `clock` is null
    while it is right.

    Releases are kept for `retain_seconds` (null: for ever); `first_tick` is the first one that is
    there.
    """

    name: str
    tick_seconds: int
    zone: str
    keys: list[str]
    mechanism: JsonObject
    unit: UnitAnswer
    histories: int
    retain_seconds: int | None
    first_tick: str | None
    last_tick: str | None
    last_id: int | None
    now: str
    clock: str | None


class ReleasedValue(Struct):
    """A released count: the true one lies from `low` to `high` 95 % of the time."""

    key: str
    value: int
    low: int
    high: int


class ReleasedRow(Struct):
    """A released count with the start of its tick."""

    tick: str
    key: str
    value: int
    low: int
    high: int


class ReleasePage(Struct):
    """Released counts, oldest first; `next` is the cursor of the next page, null on the last."""

    releases: list[ReleasedRow]
    next: str | None


class CountedWindow(Struct):
    """The count of a window from `tick` to `tick_end`: it may be negative. `partial`: not covered
    from beginning to end."""

    tick: str
    tick_end: str
    partial: bool
    key: str
    value: int
    low: int
    high: int


class WindowPage(Struct):
    """Counts of windows, oldest first. Days, weeks and months begin at midnight in `zone`. `next`
    is null: there is one page."""

    per: str
    zone: str
    windows: list[CountedWindow]
    next: str | None


class ReleasedTick(Struct):
    """One tick with all its keys; `id` is what a live reader sends back as Last-Event-ID."""

    id: int
    tick: str
    releases: list[ReleasedValue]


class Statement(Struct):
    """The privacy loss (ε) at an age: exact or an upper bound, `shown` rounded up."""

    age_seconds: int
    age: str
    loss: float
    shown: str
    sure: str
    meaning: str
    sentence: str


class AgeStatement(Statement):
    """The loss of the stream's unit at the age asked for."""

    stream: str
    unit: str


class ComparedPoint(Struct):
    """The loss under the comparison at an age of the curve."""

    loss: float
    shown: str
    sure: str


class Comparison(Struct):
    """The paper's budget refresh, at the same typical error: its losses at the ages of the
    curve."""

    every_seconds: int
    window_ticks: int
    epsilon_current: float
    epsilon_past: float
    typical_error: float
    points: list[ComparedPoint]
    sentence: str


class ComparisonAnswer(Struct):
    """The comparison asked for; null if no refresh of that window has the same error."""

    stream: str
    unit: str
    refresh: Comparison | None


class PersonStatement(Struct):
    """The loss of all visits of one person together, at most: `visits` is how many there were."""

    visits: int
    loss: float
    shown: str
    sure: str
    meaning: str
    sentence: str


class PersonAnswer(PersonStatement):
    """The loss of someone who came so often for so long."""

    stream: str
    unit: str


class PrivacyCurve(Struct):
    """How the losses of a stream grow with age."""

    stream: str
    unit: str
    tick_seconds: int
    typical_error: float
    statements: list[Statement]
    curve: list[Statement]
    refresh: Comparison | None


class TimedLoss(Struct):
    """The loss of an event at a time."""

    when: str
    loss: float
    shown: str
    sure: str


class PrivacyOfEvent(Struct):
    """What has been lost about an event of a given time: now and later, or at a given time."""

    stream: str
    unit: str
    time: str
    losses: list[TimedLoss]
    sentence: str


class ProblemAnswer(Struct):
    """A refusal (RFC 9457). It repeats nothing that was sent."""

    status: int
    code: str
    detail: str
