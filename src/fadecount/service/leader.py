"""The writing side of the store: accepts batches, creates streams, closes ticks that are due. Used
by one thread only."""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from fadecount.errors import (
    ClockError,
    FadecountError,
    FenceError,
    InputError,
    LockedError,
    StoreError,
)
from fadecount.service.clock import Clock
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import Problem, bad_request, not_found, unavailable
from fadecount.streams import Batch, Description, Intake, Store, Stream
from fadecount.streams.audit_log import Act, AuditLogError, acting_as
from fadecount.streams.chunks import CELLS, Chunk
from fadecount.streams.clock import ClockGuard, ClockState
from fadecount.streams.inputs import Acceptance, accept_together
from fadecount.streams.requests import Request
from fadecount.streams.stream import close_together

log = logging.getLogger("fadecount.service")
MOST_TICKS_AT_ONCE = 5000
"""Ticks that are closed before waiting events are processed again, when the service catches up
after downtime."""

MOST_TOGETHER = 64
"""Streams whose ticks are closed in one transaction."""

Sent = tuple[SentEvents, str | None]
"""Events as they were sent, and the id of their batch."""

UPKEEP_SECONDS = 60.0
"""Seconds between two looks for old releases to remove or to join."""

LONGEST_TURN = 0.02
"""Seconds after which waiting events get their turn, when very many streams are due at once. A
transaction is not cut short."""


class Leader:
    """Holds an open store and those of its streams that this process leads.

    With PostgreSQL another process may lead a stream. This process then still accepts events for
    it, which needs no lead, and tries to become its leader from time to time. The database allows
    one leader at a time, so no tick is closed twice.

    Guarantees: ticks are closed by the clock alone, in :meth:`close_due`, independent of events. An
    event counts in the tick that is open at the time passed to :meth:`accept`, never in one that is
    over by then.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        on_ticks: Callable[[Sequence[tuple[str, int]]], None],
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._clock, self._on_ticks, self._on_change = (
            store,
            clock,
            on_ticks,
            on_change,
        )
        self._guard = ClockGuard()
        self._behind = False
        self._reader = store.reader()
        self._streams: dict[str, Stream] = {}
        self._intakes: dict[str, Intake] = {}
        self._ends: list[tuple[float, int, str]] = []
        """When the open tick of each stream that is led ends, as a heap: one entry for each, apart
        from those in ``_stopped``. An entry counts if its number is that of the stream in
        ``_entries``; others are passed over."""
        self._entries: dict[str, int] = {}
        self._pushed = 0
        self._closing: float | None = None
        """When the first tick ended of those that are being closed now."""
        self._stopped: set[str] = set()
        self._refused: set[str] = set()
        self._ended: set[str] = set()
        self._others: list[str] = []
        self._upkeep: list[str] = []
        self._with_old_rows: dict[str, None] = {}
        self._upkept = -UPKEEP_SECONDS
        try:
            self.find_streams(seconds=None)
        except BaseException:
            self.close()
            raise

    @property
    def trouble(self) -> str | None:
        """Why this process cannot do its work for every stream; None if it can. Any thread may call
        this."""
        if self._stopped and len(self._stopped) == len(
            self._streams
        ):  # one that was away for long does not make all unready
            return "the clock is far ahead of the streams: nothing is released until it is right"
        if self._behind:
            return "the clock is behind the last releases: nothing is released until it is right"
        return (
            "no stream can be written; the operator's log says why"
            if self._refused and not self._streams
            else None
        )

    def clock_trouble(self, name: str) -> str | None:
        """What is wrong with the clock for this stream. Any thread may call this."""
        return "ahead" if name in self._stopped else "behind" if self._behind else None

    def state(self, name: str) -> str:
        """What this process does with a stream, in one or two words. Any thread may call this."""
        if name in self._refused:
            return "refused"
        if clock := self.clock_trouble(name):
            return f"clock {clock}"
        return (
            "running"
            if name in self._streams
            else "ended"
            if name in self._ended
            else "led elsewhere"
        )

    def look_after(self, *, seconds: float = LONGEST_TURN) -> None:
        """Carry out the requests of operators; remove or join old rows for a short time, the rest
        at the next call."""
        self._carry_out_requests()
        begun = time.monotonic()
        while self._with_old_rows and time.monotonic() - begun < seconds:
            stream = self._streams.get(next(iter(self._with_old_rows)))
            if stream is None or not stream.drop_old_rows():
                del self._with_old_rows[next(iter(self._with_old_rows))]
        if not self._upkeep and begun - self._upkept >= UPKEEP_SECONDS:
            self._upkeep, self._upkept = (
                [name for name in self._store.needing_upkeep() if name in self._streams],
                begun,
            )
        while self._upkeep and time.monotonic() - begun < seconds:
            name = self._upkeep[-1]
            if name not in self._streams or not self._store.upkeep(name):
                self._upkeep.pop()
            self._on_change(name)

    def description(self, name: str) -> Description:
        """What a stream is; a Problem with status 404 if there is none."""
        if not self._has(name):
            raise not_found()
        return self._reader.status(name).description

    def ask(self, request: Request) -> int:
        """Write a request about a stream. It is carried out at once if this process leads the
        stream, or else by its leader."""
        if not self._has(request.stream):
            raise not_found()
        number = self._store.ask(request)
        self._carry_out_requests()
        return number

    def answer_to(self, number: int, *, last: bool) -> str | None:
        """See :meth:`Store.answer_to`."""
        return self._store.answer_to(number, last=last)

    def _carry_out_requests(self) -> None:
        for request in self._store.requests():
            self._carry_out(request)

    def _carry_out(self, request: Request) -> None:
        """Do what an operator asks, unless another process leads the stream."""
        name = request.stream
        if (
            name not in self._streams
            and name not in self._refused
            and name not in self._ended
            and self._has(name)
        ):
            self._lead(name)
            if name not in self._streams and name not in self._refused:
                return
        try:
            with acting_as(request.actor):
                if request.action == "delete":
                    self._store.delete(name)
                    self._forget(name)
                elif request.action == "retain":
                    self._store.retain(name, request.number)
                    self._upkept = -UPKEEP_SECONDS
                else:
                    self._store.accept_histories(name, request.number or 0)
                    self._forget(name)
                    self._lead(name)
        except FadecountError as error:
            log.warning("a request about stream %s is refused: %s", name, error)
            self._store.answer(request, str(error))
            return
        log.warning("stream %s: %s, as %s requested", name, request.action, request.actor)
        self._on_change(name)
        self._store.answer(request)

    def _forget(self, name: str) -> None:
        """Drop everything in memory about a stream."""
        for known in (self._streams, self._intakes, self._entries):
            known.pop(name, None)
        for names in (self._stopped, self._refused, self._ended):
            names.discard(name)

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def find_streams(self, *, seconds: float | None = LONGEST_TURN) -> bool:
        """Become the leader of new streams and of those without one. Stops after ``seconds`` and
        continues at the next call.

        Returns whether there are more to be taken over, as after another process ended.
        """
        if not self._others:
            known = self._streams.keys() | self._refused | self._ended
            self._others = [name for name in reversed(self._store.names()) if name not in known]
        begun, before = time.monotonic(), len(self._streams)
        while self._others and (seconds is None or time.monotonic() - begun < seconds):
            self._lead(self._others.pop())
        return bool(self._others) and len(self._streams) > before

    def _lead(self, name: str) -> None:
        try:
            self._add(self._store.open(name))
        except LockedError:
            return
        except FenceError as error:
            self._refused.add(name)
            log.error("stream %s is refused: %s", name, error)

    def _add(self, stream: Stream) -> None:
        self._streams[stream.description.name] = stream
        self._push(stream)

    def _push(self, stream: Stream) -> None:
        name = stream.description.name
        self._pushed += 1
        self._entries[name] = self._pushed
        heapq.heappush(self._ends, (self._end(stream), self._pushed, name))

    def _first(self) -> Stream | None:
        """The stream whose open tick ends first; None without streams."""
        while self._ends:
            _, number, name = self._ends[0]
            if name in self._streams and self._entries[name] == number:
                return self._streams[name]
            heapq.heappop(self._ends)
        return None

    def create(
        self, description: Description, keys: Sequence[str], retain_seconds: int | None = None
    ) -> bool:
        """Create a stream that begins with the current tick; False if it exists already with this
        description and these keys."""
        name = description.name
        if self._has(name):
            return self._require_same(description, keys)
        start = description.ticks.at(self._clock.now())
        try:
            self._add(
                self._store.create(
                    description, keys=keys, start_tick=start, retain_seconds=retain_seconds
                )
            )
        except LockedError:  # it was created, and another process became its leader first
            return True
        except FenceError as error:
            log.error("stream %s is refused: %s", name, error)
            raise Problem(
                409,
                "refused",
                "the name was used before; choose another one, or see the operator's log",
            ) from None
        except (StoreError, AuditLogError):
            raise
        except FadecountError:
            if self._has(name):  # another process has created it meanwhile
                return self._require_same(description, keys)
            raise Problem(
                409, "refused", "the name was used before, or a key is not usable; choose others"
            ) from None
        log.info("stream %s is created", name)
        self._on_change(name)
        return True

    def _has(self, name: str) -> bool:
        return name in self._streams or self._reader.has(name)

    def _require_same(self, description: Description, keys: Sequence[str]) -> bool:
        """False if the existing stream equals the one to create. Keys declared later follow the
        first ones."""
        name = description.name
        same = self._reader.status(name).description.to_json() == description.to_json()
        if not same or self._reader.keys(name)[: len(keys)] != tuple(keys):
            raise Problem(
                409, "exists", "there is another stream of that name; choose another name"
            )
        return False

    def declare(self, name: str, keys: Sequence[str]) -> Iterator[None]:
        """Declare the keys that are new, in short steps; those that exist already stay as they are.
        No key may be there twice."""
        if not self._has(name):
            raise not_found()
        if name not in self._streams and name not in self._refused:
            self._lead(name)
        stream = self._streams.get(name)
        if stream is None:
            if set(self._reader.keys(name)).issuperset(keys):
                return
            raise unavailable("another process leads this stream; send it there, or again later")
        before = stream.status.width
        if new := [key for key in keys if key not in stream.positions]:
            stream.declare(new)
        yield from ()
        if stream.status.width != before:
            self._on_change(name)

    def accept(
        self, wanted: Mapping[str, Sequence[Sent]], now: float
    ) -> dict[str, list[bool | Problem] | Problem]:
        """Make batches for several streams durable, in one transaction; what cannot be accepted is
        refused before it begins.

        For each stream: the outcomes of its batches, or why it takes none. The outcome of a batch
        is True if it counted, False if its id had counted before, or its refusal. Ticks that are
        over at ``now`` must be closed first; while they are not yet closed, here or by another
        leader, clients must send the events again.
        """
        found: dict[str, list[bool | Problem] | Problem] = {}
        checked: dict[str, list[Batch | Problem]] = {}
        acceptances: list[Acceptance] = []
        for name, sent in wanted.items():
            try:
                intake = self._accepting(name)
            except Problem as problem:
                found[name] = problem
                continue
            checked[name] = [_checked(intake, events, batch_id) for events, batch_id in sent]
            batches = [each for each in checked[name] if isinstance(each, Batch)]
            acceptances.append(
                Acceptance(
                    intake,
                    batches,
                    None if name in self._stopped else intake.description.ticks.at(now),
                )
            )
        for name, outcome in zip(checked, accept_together(acceptances), strict=True):
            if isinstance(outcome, FadecountError):
                found[name] = self._not_accepted(name, outcome)
            else:
                counted = iter(outcome)
                found[name] = [
                    each if isinstance(each, Problem) else next(counted) for each in checked[name]
                ]
        return found

    def _not_accepted(self, name: str, error: FadecountError) -> Problem:
        if isinstance(error, ClockError):
            return unavailable("the stream is catching up with the clock; send it again")
        self._intakes.pop(name, None)  # another process has deleted it
        return not_found()

    def _accepting(self, name: str) -> Intake:
        """What accepts the events of a stream that takes some."""
        if name in self._ended:
            raise Problem(
                409, "ended", "the stream has had all the ticks that its mechanism was made for"
            )
        if name in self._refused:
            raise unavailable("the stream is not in order; the operator's log says why")
        return self._intake(name)

    def _intake(self, name: str) -> Intake:
        stream = self._streams.get(name)
        if stream is not None:
            return stream
        intake = self._intakes.get(name)
        if intake is None:
            if not self._has(name):
                raise not_found()
            intake = self._intakes[name] = self._store.intake(name)
        return intake

    def close_due(self, now: float) -> None:
        """Close the ticks that are over at ``now``, beginning with those that have waited longest,
        in groups of streams.

        Which streams form a group depends on the clock and on public sizes, never on events.
        """
        begun = time.monotonic()
        for name in list(self._stopped):
            stream = self._streams[name]
            if (
                self._guard.read(stream.description.ticks, stream.open_tick, now).state
                is not ClockState.AHEAD
            ):
                self._stopped.discard(name)
                log.warning("stream %s goes on: the clock is right again", name)
                self._push(stream)
        self._notice_lag(now)
        while self._first() is not None and self._ends[0][0] <= now:
            self._close(self._next_group(now))
            if time.monotonic() - begun >= LONGEST_TURN:
                return

    def is_catching_up(self, name: str, now: float) -> bool:
        """Whether a stream of this process has a tick that is over at ``now`` and will be closed
        shortly."""
        stream = self._streams.get(name)
        return stream is not None and name not in self._stopped and self._end(stream) <= now

    def _notice_lag(self, now: float) -> None:
        """Log once when the clock is behind even the stream that is due next."""
        behind, stream = False, self._first()
        if stream is not None:
            reading = self._guard.read(stream.description.ticks, stream.open_tick, now)
            behind = reading.state is ClockState.BEHIND
            if behind and not self._behind:
                log.error("stream %s waits: %s", stream.description.name, reading.text)
        self._behind = behind

    def _next_group(self, now: float) -> list[tuple[Stream, int]]:
        """The streams that have waited longest, each with the last tick to close now; few enough
        for one transaction."""
        group: list[tuple[Stream, int]] = []
        cells = 0
        while (
            len(group) < MOST_TOGETHER
            and (stream := self._first()) is not None
            and self._ends[0][0] <= now
        ):
            ticks = self._ticks_due(stream, now)
            cells += len(ticks) * stream.status.width
            if group and cells > CELLS:
                break
            end = heapq.heappop(self._ends)[0]
            if ticks:
                self._closing = end if self._closing is None else self._closing
                group.append((stream, ticks[-1]))
        return group

    def _ticks_due(self, stream: Stream, now: float) -> range:
        """The ticks of a stream to close now: those that are over, or the first of them if there
        are very many."""
        name, tick = stream.description.name, stream.open_tick
        reading = self._guard.read(stream.description.ticks, tick, now)
        if reading.state is ClockState.AHEAD:
            log.error("stream %s stops: %s", name, reading.text)
            self._stopped.add(name)
        if reading.due is None:
            return range(0)
        begin = reading.due if tick is None else tick
        most = min(MOST_TICKS_AT_ONCE, max(1, CELLS // stream.status.width), _steps_left(stream))
        found = range(begin, min(reading.due + 1, begin + most))
        if not found:
            self._ended.add(name)
            del self._streams[name]
            log.info("stream %s has ended: its mechanism was made for as many ticks", name)
        return found

    def _close(self, group: Sequence[tuple[Stream, int]]) -> None:
        """Close the ticks of these streams. One that cannot go on is refused from now on; the
        others go on."""
        published = []
        for (stream, last), outcome in zip(group, _closed(group), strict=True):
            name = stream.description.name
            if isinstance(outcome, FadecountError):
                log.error(
                    "stream %s cannot go on (%s): it is left alone", name, type(outcome).__name__
                )
                self._refused.add(name)
                del self._streams[name]
                continue
            self._push(stream)
            published.append((name, last))
            if stream.leaves_old_rows(outcome):
                self._with_old_rows[name] = None
            if stream.description.mechanism.schedule.horizon == stream.status.steps:
                self._record_end(name)
        self._closing = None
        if published:
            self._on_ticks(published)

    def _record_end(self, name: str) -> None:
        try:
            with acting_as("the clock"):
                self._store.record(Act.STREAM_ENDED, name)
        except AuditLogError as error:
            log.error("the end of stream %s is not recorded: %s", name, error)

    def _end(self, stream: Stream) -> float:
        """When the open tick of a stream ends."""
        tick, ticks = stream.open_tick, stream.description.ticks
        return ticks.start_seconds((ticks.at(self._clock.now()) if tick is None else tick) + 1)

    @property
    def next_due(self) -> float | None:
        """When the next tick is over; None without streams. Any thread may call this: it never
        waits for the database."""
        first, closing = next(islice(self._ends, 1), None), self._closing
        return closing if closing is not None else None if first is None else first[0]

    def lag_seconds(self) -> float:
        due = self.next_due
        return 0.0 if due is None else max(0.0, self._clock.now() - due)

    def close(self) -> None:
        with contextlib.suppress(StoreError):
            self._store.close()


def _closed(group: Sequence[tuple[Stream, int]]) -> Sequence[Chunk | FadecountError]:
    """Close the ticks of these streams in one transaction; what each released, or why it cannot go
    on."""
    try:
        return close_together(group) if group else []
    except FenceError as error:
        refusal: FadecountError = error
    except StoreError:
        raise
    except FadecountError as error:
        refusal = error
    if len(group) == 1:
        return [refusal]
    return [
        outcome for each in group for outcome in _closed([each])
    ]  # none was closed: each by itself now


def _steps_left(stream: Stream) -> int:
    """How many more ticks the mechanism has; very many unless it was made for a given number."""
    horizon = stream.description.mechanism.schedule.horizon
    return MOST_TICKS_AT_ONCE if horizon is None else horizon - stream.status.steps


def _checked(intake: Intake, events: SentEvents, batch_id: str | None) -> Batch | Problem:
    """The sent events as a batch, or the refusal; its message describes the stream, never
    values."""
    unit = intake.description.unit
    if (events.person is not None) != (unit.of == "person"):
        wanted = "needs the person of" if unit.of == "person" else "takes no persons, only"
        return bad_request(
            "wrong_person", f"this stream protects {unit.text}; it {wanted} the events"
        )
    if events.largest_amount > unit.amount:
        return bad_request(
            "wrong_amount",
            f"this stream protects {unit.text}; amounts must be at most {unit.amount}",
        )
    if events.person is not None and unit.amount > 1 and not events.single:
        return bad_request(
            "wrong_amount",
            "send one event per key and request: each amount is that of one event of the person",
        )
    largest = None if events.single else events.largest_amount
    batch = Batch(counts=events.counts, id=batch_id, person=events.person, largest_amount=largest)
    try:
        intake.check(batch)
    except InputError:
        return bad_request(
            "unknown_key",
            "every key must be declared, and counts within bounds; nothing of this request was"
            " counted; declare the key, or send its events under a declared one such as other",
        )
    return batch
