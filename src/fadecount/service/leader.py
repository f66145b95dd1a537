"""The writing side of the store: accepts batches, creates streams, closes ticks that are due. Used by one thread only."""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
from collections.abc import Callable, Sequence
from itertools import islice

from fadecount.errors import ClockError, FadecountError, FenceError, InputError, LockedError, StoreError
from fadecount.service.clock import Clock
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import Problem, bad_request, not_found, unavailable
from fadecount.streams import Batch, Description, Intake, Store, Stream
from fadecount.streams.audit_log import Act, AuditLogError, acting_as
from fadecount.streams.clock import ClockGuard, ClockState

log = logging.getLogger("fadecount.service")
MOST_TICKS_AT_ONCE = 5000
"""Ticks that are closed before waiting events are processed again, when the service catches up after downtime."""

LONGEST_TURN = 0.2
"""Seconds that closing ticks may keep events waiting, when very many streams are due at once."""


class Leader:
    """Holds an open store and those of its streams that this process leads.

    With PostgreSQL another process may lead a stream. This process then still accepts events for it, which needs no lead, and
    tries to become its leader from time to time. The database allows one leader at a time, so no tick is closed twice.

    Guarantees: ticks are closed by the clock alone, in :meth:`close_due`, independent of events. An event counts in the tick
    that is open at the time passed to :meth:`accept`, never in one that is over by then.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        on_tick: Callable[[str, int], None],
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._clock, self._on_tick, self._on_change = store, clock, on_tick, on_change
        self._guard = ClockGuard()
        self._behind = False
        self._reader = store.reader()
        self._streams: dict[str, Stream] = {}
        self._intakes: dict[str, Intake] = {}
        self._ends: list[tuple[float, str]] = []
        """When the open tick of each stream that is led ends, as a heap: one entry for each, apart from those in ``_stopped``."""
        self._stopped: set[str] = set()
        self._refused: set[str] = set()
        self._ended: set[str] = set()
        self._others: list[str] = []
        try:
            self.find_streams(seconds=None)
        except BaseException:
            self.close()
            raise

    @property
    def trouble(self) -> str | None:
        """Why this process cannot do its work for every stream; None if it can. Any thread may call this."""
        if self._stopped:
            return "the clock is far ahead of a stream: nothing of it is released until the clock is right"
        if self._behind:
            return "the clock is behind the last releases: nothing is released until it is right"
        return "no stream can be written; the operator's log says why" if self._refused and not self._streams else None

    def clock_trouble(self, name: str) -> str | None:
        """What is wrong with the clock for this stream. Any thread may call this."""
        return "ahead" if name in self._stopped else "behind" if self._behind else None

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    def find_streams(self, *, seconds: float | None = LONGEST_TURN) -> None:
        """Become the leader of new streams and of those without one. Stops after ``seconds`` and continues at the next call."""
        if not self._others:
            known = self._streams.keys() | self._refused | self._ended
            self._others = [name for name in reversed(self._store.names()) if name not in known]
        begun = time.monotonic()
        while self._others and (seconds is None or time.monotonic() - begun < seconds):
            self._lead(self._others.pop())

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
        heapq.heappush(self._ends, (self._end(stream), stream.description.name))

    def create(self, description: Description, keys: Sequence[str]) -> bool:
        """Create a stream that begins with the current tick; False if it exists already with this description and these keys."""
        name = description.name
        if self._has(name):
            return self._require_same(description, keys)
        start = description.ticks.at(self._clock.now())
        try:
            self._add(self._store.create(description, keys=keys, start_tick=start))
        except LockedError:  # it was created, and another process became its leader first
            return True
        except (StoreError, AuditLogError):
            raise
        except FadecountError:
            if self._has(name):  # another process has created it meanwhile
                return self._require_same(description, keys)
            raise Problem(409, "refused", "the name was used before, or a key is not usable; choose others") from None
        log.info("stream %s is created", name)
        self._on_change(name)
        return True

    def _has(self, name: str) -> bool:
        return name in self._streams or self._reader.has(name)

    def _require_same(self, description: Description, keys: Sequence[str]) -> bool:
        """False if the existing stream equals the one to create. Keys declared later follow the first ones."""
        name = description.name
        same = self._reader.status(name).description.to_json() == description.to_json()
        if not same or self._reader.keys(name)[: len(keys)] != tuple(keys):
            raise Problem(409, "exists", "there is another stream of that name; choose another name")
        return False

    def declare(self, name: str, keys: Sequence[str]) -> None:
        """Declare the keys that are new; those that exist already stay as they are."""
        if not self._has(name):
            raise not_found()
        if name not in self._streams and name not in self._refused:
            self._lead(name)
        stream = self._streams.get(name)
        if stream is None:
            known = set(self._reader.keys(name))
            if known.issuperset(keys):
                return
            raise unavailable("another process leads this stream; send it there, or again later")
        known = set(stream.keys)
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if new:
            stream.declare(new)
            self._intakes.pop(name, None)
            self._on_change(name)

    def accept(self, name: str, sent: Sequence[tuple[SentEvents, str | None]], now: float) -> list[bool | Problem]:
        """Make batches durable, in one transaction; an invalid one is refused alone, before the others are written.

        True for a batch that counted, False for one whose id had counted before. Ticks that are over at ``now`` must be closed
        first; while they are not yet closed, here or by another leader, clients must send the events again.
        """
        if name in self._ended:
            raise Problem(409, "ended", "the stream has had all the ticks that its mechanism was made for")
        if name in self._refused:
            raise unavailable("the stream is not in order; the operator's log says why")
        intake = self._intake(name)
        checked = [_checked(intake, events, batch_id) for events, batch_id in sent]
        batches = [each for each in checked if isinstance(each, Batch)]
        tick = None if name in self._stopped else intake.ticks.at(now)
        try:
            counted = iter(intake.accept(batches, not_before=tick) if batches else ())
        except ClockError:
            raise unavailable("the stream is catching up with the clock; send it again") from None
        return [next(counted) if isinstance(each, Batch) else each for each in checked]

    def _intake(self, name: str) -> Intake:
        intake = self._intakes.get(name)
        if intake is None:
            if not self._has(name):
                raise not_found()
            intake = self._intakes[name] = self._store.intake(name)
        return intake

    def close_due(self, now: float) -> None:
        """Close the ticks that are over at ``now``, beginning with those that have waited longest."""
        begun = time.monotonic()
        for name in list(self._stopped):
            end = self._bring_up(self._streams[name], now)
            if end is not None:
                heapq.heappush(self._ends, (end, name))
        self._notice_lag(now)
        while self._ends and self._ends[0][0] <= now and time.monotonic() - begun < LONGEST_TURN:
            name = self._ends[0][1]
            end = self._bring_up(self._streams[name], now)
            heapq.heappop(self._ends) if end is None else heapq.heapreplace(self._ends, (end, name))

    def _notice_lag(self, now: float) -> None:
        """Log once when the clock is behind even the stream that is due next."""
        behind = False
        if self._ends:
            stream = self._streams[self._ends[0][1]]
            reading = self._guard.read(stream.description.ticks, stream.open_tick, now)
            behind = reading.state is ClockState.BEHIND
            if behind and not self._behind:
                log.error("stream %s waits: %s", stream.description.name, reading.text)
        self._behind = behind

    def _bring_up(self, stream: Stream, now: float) -> float | None:
        """Close the ticks of a stream that are over, or the first of them if there are very many; when the next one ends."""
        name, ticks = stream.description.name, stream.description.ticks
        reading, tick = self._guard.read(ticks, stream.open_tick, now), stream.open_tick
        if reading.state is ClockState.AHEAD:
            if name not in self._stopped:
                log.error("stream %s stops: %s", name, reading.text)
            self._stopped.add(name)
            return None
        if name in self._stopped:
            self._stopped.discard(name)
            log.warning("stream %s goes on: the clock is right again", name)
        due = reading.due
        if due is None:
            return self._end(stream)
        begin = due if tick is None else tick
        last = min(due, begin + MOST_TICKS_AT_ONCE - 1, begin + _steps_left(stream) - 1)
        if last >= begin:
            return self._close(stream, last)
        self._ended.add(name)
        del self._streams[name]
        log.info("stream %s has ended: its mechanism was made for as many ticks", name)
        return None

    def _close(self, stream: Stream, last: int) -> float | None:
        name = stream.description.name
        try:
            stream.close_through(last)
        except StoreError:
            raise
        except FadecountError as error:
            log.error("stream %s cannot go on (%s): it is left alone", name, type(error).__name__)
            self._refused.add(name)
            del self._streams[name]
            return None
        self._on_tick(name, last)
        if stream.description.mechanism.schedule.horizon == stream.status.steps:
            self._record_end(name)
        return self._end(stream)

    def _record_end(self, name: str) -> None:
        try:
            with acting_as("the clock"):
                self._store.audit_log.record(Act.STREAM_ENDED, name)
        except AuditLogError as error:
            log.error("the end of stream %s is not recorded: %s", name, error)

    def _end(self, stream: Stream) -> float:
        """When the open tick of a stream ends."""
        tick, ticks = stream.open_tick, stream.description.ticks
        return ticks.start_seconds((ticks.at(self._clock.now()) if tick is None else tick) + 1)

    @property
    def next_due(self) -> float | None:
        """When the next tick is over; None without streams. Any thread may call this: it never waits for the database."""
        first = next(islice(self._ends, 1), None)
        return None if first is None else first[0]

    def lag_seconds(self) -> float:
        due = self.next_due
        return 0.0 if due is None else max(0.0, self._clock.now() - due)

    def close(self) -> None:
        with contextlib.suppress(StoreError):
            self._store.close()


def _steps_left(stream: Stream) -> int:
    """How many more ticks the mechanism has; very many unless it was made for a given number."""
    horizon = stream.description.mechanism.schedule.horizon
    return MOST_TICKS_AT_ONCE if horizon is None else horizon - stream.status.steps


def _checked(intake: Intake, events: SentEvents, batch_id: str | None) -> Batch | Problem:
    """The sent events as a batch, or the refusal; its message describes the stream, never values."""
    unit = intake.description.unit
    if (events.person is not None) != (unit.of == "person"):
        wanted = "needs the person of" if unit.of == "person" else "takes no persons, only"
        return bad_request("wrong_person", f"this stream protects {unit.text}; it {wanted} the events")
    if events.largest_amount > unit.amount:
        return bad_request("wrong_amount", f"this stream protects {unit.text}; amounts must be at most {unit.amount}")
    if events.person is not None and unit.amount > 1 and not events.single:
        return bad_request("wrong_amount", "send one event per key and request: each amount is that of one event of the person")
    batch = Batch(counts=events.counts, id=batch_id, person=events.person)
    try:
        intake.check(batch)
    except InputError:
        return bad_request(
            "unknown_key",
            "every key must be declared, and counts within bounds; nothing of this request was counted;"
            " declare the key, or send its events under a declared one such as other",
        )
    return batch
