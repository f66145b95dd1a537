"""The writing side of the service: one thread accepts events, closes ticks on time, and does what
administrators ask for.

:class:`Leader` holds the store and the streams that this process leads. :class:`Writer` is its
thread, in one loop: take what waits, close what is due, accept the events in one transaction,
answer. While one group of requests is being committed, the next one collects, so a slower disk
gives larger groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from fadecount.errors import (
    ClockError,
    DatabaseError,
    FadecountError,
    FenceError,
    FullError,
    InputError,
    LockedError,
    ParameterError,
    StoreError,
)
from fadecount.service.http import NOT_IN_ORDER, Problem, bad_request, not_found, unavailable
from fadecount.service.parsing import SentEvents
from fadecount.service.settings import Clock, Limits
from fadecount.service.tokens import Tokens
from fadecount.streams import Description, Store, Stream
from fadecount.streams.audit_log import AuditLogError
from fadecount.streams.clock import ClockReading, ClockState, read_clock
from fadecount.streams.figures import CELLS, Closed
from fadecount.streams.inputs import Acceptance, Events, Intake, accept_together
from fadecount.streams.stream import close_together

log = logging.getLogger("fadecount.service")

MOST_TICKS_AT_ONCE = 5000
"""Ticks of a stream that are closed in one transaction, when it catches up after downtime."""

MOST_TOGETHER = 64
"""Streams whose ticks are closed in one transaction, or that are taken over in one turn."""

UPKEEP_SECONDS = 60.0
"""Seconds between two looks for old figures to remove or to join."""

KEYS_PER_TRANSACTION = 10_000
"""A group of batches that has so many keys takes no more: large ones would hold up all others."""

STUCK_SECONDS = 5.0
"""Seconds after which a store that does not answer counts as not ready."""

LONGEST_DELAY = 3.0
"""Seconds that events wait for a stream that is catching up with the clock; then their client is
asked to send them again."""

LONGEST_WAIT = 0.5
"""Seconds after which streams of other processes are looked for again."""

WAITING_BYTES = 16 << 10
"""What a request that waits takes in memory beside its events, about."""

Sent = tuple[SentEvents, str | None]
"""Events as they were sent, and the id of their batch."""


class Leader:
    """Holds an open store and those of its streams that this process leads. Used by one thread.

    With PostgreSQL another process may lead a stream. This process then still accepts events for
    it, which needs no lead, and tries to become its leader from time to time. The database allows
    one leader at a time, so no tick is closed twice.

    Guarantees: ticks are closed by the clock alone, in :meth:`close_due`, independent of events. An
    event counts in the tick that is open at the time passed to :meth:`accept`, never in one that is
    over by then.
    """

    def __init__(self, store: Store, clock: Clock, *, is_shared: bool = False) -> None:
        """Other processes may lead streams of a store that is shared."""
        self._store, self._clock, self._is_shared = store, clock, is_shared
        self.changed: set[str] = set()
        """Streams that have published a tick, or about which something else that is public has
        changed, since somebody looked here."""
        self._reader = store.reader()
        self.tokens = Tokens(self._reader.database, store.record)
        self._states: dict[str, str] = {}
        """The streams that this process leads, or would lead if they were in order: running,
        refused, ended or clock ahead."""
        self._intakes: dict[str, Intake] = {}
        """What accepts the events of a stream: the stream itself, if this process leads it."""
        self._behind = False
        self._ahead: dict[str, Stream] = {}
        """Those that wait, since the clock is ahead of them."""
        self._queue: list[tuple[float, int, Stream]] = []
        """A heap: when the open tick of each running stream ends. A stream that is not in
        ``_intakes`` any more is passed over."""
        self._untaken: list[str] = []
        self._taking_over, self._look_at = False, 0.0
        self._untidy: dict[str, None] = {}
        self._tidied = -math.inf
        try:
            self.take_over()
            while self._untaken:
                self.take_over()
        except BaseException:
            self.close()
            raise

    # What any thread may ask.

    @property
    def not_ready_reason(self) -> str | None:
        """Why this process cannot do its work for every stream; None if it can."""
        states = set(self._states.values())
        if "clock ahead" in states and not states & {"running"}:
            return "the clock is far ahead of the streams: nothing is released until it is right"
        if self._behind:
            return "the clock is behind the last figures: nothing is released until it is right"
        if "refused" in states and not states & {"running"}:
            return "no stream can be written; the operator's log says why"
        return None

    def state(self, name: str) -> str:
        """What this process does with a stream, in one or two words."""
        state = self._states.get(name, "led elsewhere")
        return "clock behind" if self._behind and state == "running" else state

    def states(self) -> Counter[str]:
        """How many streams are in which state, without those that others lead."""
        return Counter(map(self.state, list(self._states)))

    @property
    def next_due(self) -> float | None:
        """When the next tick is over, or the first of those that are being closed; None without
        streams."""
        return next((end for end, _, _ in self._queue), None)

    def lag_seconds(self) -> float:
        """How late the most overdue tick is."""
        due = self.next_due
        return 0.0 if due is None else max(0.0, self._clock.now() - due)

    # Leading streams.

    def take_over(self) -> bool:
        """Become the leader of a few streams without one; whether there may be more of them now.

        All of them are tried in turn, so that those of a process that ended are found.
        """
        if not self._untaken:
            self._untaken = [name for name in self._store.names() if name not in self._states]
        before = len(self._states)
        tried, self._untaken = self._untaken[:MOST_TOGETHER], self._untaken[MOST_TOGETHER:]
        for name in tried:
            self._lead(name)
        return bool(self._untaken) and len(self._states) > before

    def _lead(self, name: str) -> None:
        if not self.has(name):  # another process has deleted it meanwhile
            return
        try:
            if self._reader.status(name).description.publication is not None:
                return  # runs close its ticks: by the clock, nights that are not counted yet end
            self._add(self._store.open(name))
        except LockedError:
            return
        except DatabaseError:
            raise
        except Exception as error:  # whatever is wrong with this stream, the others go on
            self._states[name] = "refused"
            log.error("stream %s is refused: %s", name, _told(error))

    def _add(self, stream: Stream) -> None:
        name = stream.description.name
        self._states[name], self._intakes[name] = "running", stream
        self._schedule(stream)

    def _schedule(self, stream: Stream) -> None:
        """Note when the open tick of a stream ends."""
        heapq.heappush(self._queue, (_end(stream), id(stream), stream))

    def _require_led(self, name: str) -> None:
        """Become the leader of a stream, for what only its leader may do; raises a Problem if
        another process leads it."""
        if not self.has(name):
            raise not_found()
        if name not in self._states:
            self._lead(name)
        if name not in self._states:
            raise _led_elsewhere()

    def _require_running(self, name: str) -> None:
        """Refuse what a stream that is refused or has ended does not take."""
        state = self._states.get(name)
        if state == "ended":
            detail = "the stream has had all the ticks that its mechanism was made for"
            raise Problem(409, "ended", detail)
        if state == "refused":
            raise unavailable(NOT_IN_ORDER)

    def has(self, name: str) -> bool:
        """Whether there is such a stream."""
        return self._reader.has(name)

    def description(self, name: str) -> Description | None:
        """What a stream is; None if there is none, or if it is refused."""
        if not self.has(name) or self._states.get(name) == "refused":
            return None
        return self._reader.status(name).description

    # What administrators do.

    def create(self, description: Description, keys: Sequence[str]) -> bool:
        """Create a stream that begins with the current tick; False if it exists already with this
        description and these keys."""
        name = description.name
        try:
            description = self._store.in_group(description)
        except ParameterError:
            detail = "the group would lose more than it promises, or differs from this"
            raise Problem(409, "wrong_group", detail) from None
        if self.has(name):
            return self._require_same(description, keys)
        start = description.ticks.at(self._clock.now())
        try:
            stream = self._store.create(description, keys=keys, start_tick=start)
        except LockedError:  # it was created, and another process became its leader first
            return True
        except (FenceError, ParameterError) as error:
            if isinstance(error, FenceError):
                log.error("stream %s is refused: %s", name, error)
            elif self.has(name):  # another process has created it meanwhile
                return self._require_same(description, keys)
            detail = "the name was used before, or a key is not usable; choose others"
            raise Problem(409, "refused", detail) from None
        self._add(stream)
        log.info("stream %s is created", name)
        self.changed.add(name)
        return True

    def _require_same(self, description: Description, keys: Sequence[str]) -> bool:
        """False if the existing stream equals the one to create. Keys declared later follow the
        first ones."""
        name = description.name
        same = self._reader.status(name).description.to_json() == description.to_json()
        if not same or self._reader.keys(name)[: len(keys)] != tuple(keys):
            detail = "there is another stream of that name; choose another name"
            raise Problem(409, "exists", detail)
        return False

    def declare(self, name: str, keys: Sequence[str]) -> None:
        """Declare the keys that are new; those that exist already stay as they are. No key may be
        there twice."""
        if self.has(name) and set(self._reader.keys(name)).issuperset(keys):
            return
        self._require_led(name)
        self._require_running(name)
        stream = self._intakes[name]
        assert isinstance(stream, Stream)
        stream.declare([key for key in keys if key not in stream.positions])
        self.changed.add(name)

    def delete(self, name: str) -> None:
        """Remove a stream with all its figures. If it had any, its name stays taken."""
        self._require_led(name)
        try:
            self._store.delete(name)
        except LockedError:  # a stream that is refused here may be led elsewhere
            raise _led_elsewhere() from None
        known: dict[str, Any]
        for known in (self._states, self._intakes, self._ahead, self._untidy):
            known.pop(name, None)
        log.warning("stream %s is deleted", name)
        self.changed.add(name)

    # Events.

    def accept(
        self, batches: Mapping[str, Sequence[Sent]], now: float
    ) -> dict[str, list[bool | Problem]]:
        """Make batches for several streams durable, in one transaction; what cannot be accepted is
        refused before it begins.

        Returns the outcomes of the batches of each stream: True if it counted, False if its id had
        counted before, or its refusal. Ticks that are over at ``now`` must be closed first; while
        they are not yet closed, here or by another leader, clients must send the events again.
        """
        outcomes: dict[str, list[bool | Problem]] = {}
        checked: dict[str, list[Events | Problem]] = {}
        acceptances: list[Acceptance] = []
        for name, sent in batches.items():
            try:
                intake = self._accepting(name)
            except Problem as problem:
                outcomes[name] = [problem] * len(sent)
                continue
            checked[name] = [_checked(intake, *each) for each in sent]
            events = [each for each in checked[name] if isinstance(each, Events)]
            ahead, ticks = self._states.get(name) == "clock ahead", intake.description.ticks
            acceptances.append(Acceptance(intake, events, None if ahead else ticks.at(now)))
        accepted = accept_together(acceptances)
        for (name, each), outcome in zip(checked.items(), accepted, strict=True):
            if isinstance(outcome, FadecountError):
                outcomes[name] = [self._not_accepted(name, outcome)] * len(each)
            else:
                fresh = iter(outcome.fresh)
                outcomes[name] = [at if isinstance(at, Problem) else next(fresh) for at in each]
        return outcomes

    def _accepting(self, name: str) -> Intake:
        """What accepts the events of a stream that takes some."""
        self._require_running(name)
        if name not in self._intakes:
            if not self.has(name):
                raise not_found()
            self._intakes[name] = self._store.intake(name)
        return self._intakes[name]

    def _not_accepted(self, name: str, error: FadecountError) -> Problem:
        if isinstance(error, ClockError):
            return unavailable("the stream is catching up with the clock; send it again")
        if isinstance(error, FullError):
            self._halt(name, "refused", error)
            return unavailable(NOT_IN_ORDER)
        self._intakes.pop(name, None)  # another process has deleted it
        return not_found()

    def is_catching_up(self, name: str, now: float) -> bool:
        """Whether a stream of this process has a tick that is over at ``now`` and will be closed
        shortly."""
        due, stream = self.next_due, self._intakes.get(name)
        if due is None or due > now or self._states.get(name) != "running":
            return False
        return isinstance(stream, Stream) and _end(stream) <= now

    # Ticks.

    def close_due(self, now: float) -> int:
        """Close ticks that are over at ``now``, in one transaction: those of the streams that have
        waited longest; returns how many streams these are.

        Which streams these are depends on the clock and on public sizes, never on events.
        """
        self._read_clock(now)
        group = self._next_group(now)
        published = 0
        for (stream, _), outcome in zip(group, _closed(group), strict=True):
            name = stream.description.name
            if isinstance(outcome, FadecountError):
                self._halt(name, "refused", outcome)
                continue
            self._schedule(stream)
            published += 1
            self.changed.add(name)
            if stream.leaves_old_rows(outcome):
                self._untidy[name] = None
        return published

    def _halt(self, name: str, state: str, error: FadecountError | None = None) -> None:
        """Close no more ticks of a stream. The log says why, with the text of an error only where
        it can hold no values."""
        if error is not None:
            log.error("stream %s cannot go on (%s): it is left alone", name, _told(error))
        self._states[name] = state
        for known in (self._intakes, self._ahead):
            known.pop(name, None)

    def _read_clock(self, now: float) -> None:
        """Go on with streams for which the clock is right again; log once when the clock is behind
        even the stream that is due next."""
        for name, stream in list(self._ahead.items()):
            if _reading(stream, now).state is not ClockState.AHEAD:
                del self._ahead[name]
                self._states[name] = "running"
                log.warning("stream %s goes on: the clock is right again", name)
                self._schedule(stream)
        behind = False
        if self._queue:
            stream = self._queue[0][-1]
            reading = _reading(stream, now)
            behind = reading.state is ClockState.BEHIND
            if behind and not self._behind:
                log.error("stream %s waits: %s", stream.description.name, reading.text)
        self._behind = behind

    def _next_group(self, now: float) -> list[tuple[Stream, int]]:
        """The streams that have waited longest, each with the last tick to close now; few enough
        for one transaction."""
        group: list[tuple[Stream, int]] = []
        cells = 0
        while self._queue and self._queue[0][0] <= now and len(group) < MOST_TOGETHER:
            stream = self._queue[0][-1]
            if self._intakes.get(stream.description.name) is stream:
                ticks = self._ticks_due(stream, now)
                cells += len(ticks) * stream.status.width
                if group and cells > CELLS:
                    break
                if ticks:
                    group.append((stream, ticks[-1]))
            heapq.heappop(self._queue)
        return group

    def _ticks_due(self, stream: Stream, now: float) -> range:
        """The ticks of a stream to close now: those that are over, or the first of them if there
        are very many."""
        name, tick, reading = stream.description.name, stream.open_tick, _reading(stream, now)
        if reading.state is ClockState.AHEAD:
            log.error("stream %s stops: %s", name, reading.text)
            self._states[name], self._ahead[name] = "clock ahead", stream
        if reading.due is None:
            return range(0)
        wide = max(1, CELLS // max(1, stream.status.width))
        most = min(MOST_TICKS_AT_ONCE, wide, _steps_left(stream))
        due = range(tick, min(reading.due + 1, tick + most))
        if not due:
            self._halt(name, "ended")
            log.info("stream %s has ended: its mechanism was made for as many ticks", name)
        return due

    def maintain(self) -> bool:
        """Look for streams without a leader, remove some old rows of a stream, in a short
        transaction, and scrub the store; whether there may be more to do."""
        now = time.monotonic()
        if self._is_shared and (self._taking_over or now >= self._look_at):
            self._look_at = now + LONGEST_WAIT
            self._taking_over = self.take_over()
        if not self._untidy and now - self._tidied >= UPKEEP_SECONDS:
            self._tidied = now
            self._untidy.update(dict.fromkeys(self._store.needing_upkeep()))
        if self._untidy:
            name = next(iter(self._untidy))
            if not self._tidy(name):
                del self._untidy[name]
        self._store.scrub()
        return self._taking_over or bool(self._untidy)

    def _tidy(self, name: str) -> bool:
        stream = self._intakes.get(name)
        if isinstance(stream, Stream) and stream.drop_old_rows():
            return True
        if not (isinstance(stream, Stream) or self._states.get(name) == "ended"):
            return False
        try:
            more = self._store.upkeep(name)
        except AuditLogError as error:  # it is tried again with the next look
            log.error("stream %s keeps its old figures: %s", name, error)
            return False
        if more:
            self.changed.add(name)
        return more

    def close(self) -> None:
        """Close the store."""
        with contextlib.suppress(StoreError):
            self._store.close()


def _end(stream: Stream) -> float:
    return stream.description.ticks.start_seconds(stream.open_tick + 1)


def _reading(stream: Stream, now: float) -> ClockReading:
    return read_clock(stream.description.ticks, stream.open_tick, now)


def _told(error: Exception) -> str:
    """What the log says of an error: its text where that can hold no values."""
    return str(error) if isinstance(error, FullError | StoreError) else type(error).__name__


def _led_elsewhere() -> Problem:
    return unavailable("another process leads this stream; send it there, or again later")


def _closed(group: Sequence[tuple[Stream, int]]) -> Sequence[Closed | FadecountError]:
    """Close the ticks of these streams in one transaction; what each released, or why it cannot go
    on."""
    try:
        return close_together(group) if group else []
    except DatabaseError:
        raise
    except FadecountError as error:
        if len(group) == 1:
            return [error]
    return [outcome for each in group for outcome in _closed([each])]  # none was closed so far


def _steps_left(stream: Stream) -> int:
    """How many more ticks the mechanism has; very many unless it was made for a given number."""
    horizon = stream.description.mechanism.last_step
    return MOST_TICKS_AT_ONCE if horizon is None else horizon - stream.status.steps


def _checked(intake: Intake, sent: SentEvents, batch_id: str | None) -> Events | Problem:
    """The sent events as they are accepted, with amounts up to the unit's; or the refusal, whose
    message describes the stream, never values."""
    unit, person = intake.description.unit, sent.person
    if (person is not None) != (unit.of == "person"):
        wanted = "needs the person of" if unit.of == "person" else "takes no persons, only"
        detail = f"this stream protects {unit.text}; it {wanted} the events"
        return bad_request("wrong_person", detail)
    events = [(each.key, times * each.count, each.amount) for each, times in sent.times.items()]
    try:
        return intake.events(events, batch_id, person)
    except InputError:
        detail = (
            "every key must be declared, and counts within bounds; nothing of this request was"
            " counted; declare the key, or send its events under a declared one such as other"
        )
        return bad_request("unknown_key", detail)


@dataclass(slots=True)
class Job:
    """A batch for a stream, or (without a stream) a function to call with the leader; and the
    future that waits for it."""

    stream: str | None
    work: Any
    future: asyncio.Future[Any]
    keys: int = 0
    bytes: int = 0
    of_stranger: bool = False
    since: float = field(default_factory=time.monotonic)


class Writer:
    """Runs a :class:`Leader` on its own thread.

    Guarantees: a batch is acknowledged only after its commit; what waits is bounded in number and
    in bytes; after an error of the store, that store is not used any more. With an embedded store
    the service then ends (``failed`` is set: a restart reads what was really committed). With a
    database server the writer connects again.
    """

    def __init__(
        self,
        open_leader: Callable[[], Leader],
        clock: Clock,
        limits: Limits,
        *,
        on_change: Callable[[set[str]], None],
        reconnects: bool,
    ) -> None:
        """``on_change`` gets the streams about which something has changed, in the event loop."""
        self._open_leader, self._clock = open_leader, clock
        self._limits, self._on_change, self._reconnects = limits, on_change, reconnects
        self.leader: Leader | None = None
        """None while the store is lost. Other threads may ask it what any may ask."""
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        """What the event loop hands over; None wakes the thread."""
        self._late: list[Job] = []
        """Jobs of the last turn that come first in the next."""
        self._bytes = Counter[bool]()
        """What the batches without an answer take in memory, about, those of strangers apart. Only
        the event loop counts."""
        self._stopping = self.failed = False
        self._more = False
        """Whether the leader has more to do at once."""
        self._busy_since: float | None = None
        self.ticks_closed = self.failures = 0
        self.on_failure: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="fadecount writer", daemon=True)

    def start(self) -> None:
        """Open the store (or raise the error that prevents it) and begin."""
        self.leader = self._open_leader()
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Finish the jobs already queued, then close the store."""
        self._stopping = True
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()
        if self.leader:
            self.leader.close()

    # What the event loop asks.

    def not_ready_reason(self) -> str | None:
        """Why the service is not ready; None if it is. Never waits for the database."""
        leader, since = self.leader, self._busy_since
        if self._stopping:
            return "the service is ending"
        stuck = since is not None and time.monotonic() - since > STUCK_SECONDS
        if leader is None or self.failed or stuck:
            return "the store does not answer; the operator's log says why"
        return leader.not_ready_reason

    def stream_state(self, name: str) -> str:
        """What this process does with a stream, in one or two words."""
        leader = self.leader
        return leader.state(name) if leader else "unknown"

    def accept(
        self, stream: str, events: SentEvents, batch_id: str | None, *, of_stranger: bool = False
    ) -> asyncio.Future[bool]:
        """Queue events; once they are durable, the future says whether they counted (False: this id
        has counted before). Those of strangers have room of their own, so that they take none of
        the room of writers with tokens."""
        keys = len(events.times)
        size = WAITING_BYTES + 200 * keys + sum(len(each.key) for each in events.times)
        if self._bytes[of_stranger] + size > self._limits.waiting_bytes:
            raise unavailable()
        job = Job(stream, (events, batch_id), self._loop.create_future(), keys, size, of_stranger)
        return self._submit(job)

    def call(self, work: Callable[[Leader], Any]) -> asyncio.Future[Any]:
        """Run something on the writing thread."""
        return self._submit(Job(None, work, self._loop.create_future()))

    def _submit(self, job: Job) -> asyncio.Future[Any]:
        if self._stopping or self.leader is None:
            raise unavailable()
        self._bytes[job.of_stranger] += job.bytes
        self._jobs.put(job)
        return job.future

    def _resolve(self, changed: set[str], done: Sequence[tuple[Job, Any]]) -> None:
        """Tell readers what has changed, then clients what was done."""
        if changed:
            self._on_change(changed)
        for job, outcome in done:
            self._bytes[job.of_stranger] -= job.bytes
            if job.future.done():  # nobody waits for it
                continue
            if isinstance(outcome, Exception):
                job.future.set_exception(outcome)
            else:
                job.future.set_result(outcome)

    # What the thread does.

    def _run(self) -> None:
        """Work until told to stop. No error ends this thread alone: the service ends with it."""
        try:
            while not self.failed:
                jobs = self._take()
                if not jobs and self._stopping:
                    return
                try:
                    self._busy_since = time.monotonic()
                    self._work(jobs)
                    self._busy_since = None
                except Exception as error:
                    self._fail(jobs, error)
        except Exception as error:
            log.error("the writing thread ended: %s", type(error).__name__)
            self.give_up()

    def give_up(self) -> None:
        """Let the service end: what happens next is for a restart. Any thread may call this."""
        self.failed = True
        self._loop.call_soon_threadsafe(self.on_failure)

    def _take(self) -> list[Job]:
        """Wait for something to do. The jobs that have waited longest, as many as make one
        group."""
        group, self._late = self._late, []
        seconds = 0.0
        if not group and not self._more and not self._stopping:
            due = self.leader.next_due if self.leader else None
            seconds = LONGEST_WAIT if due is None else self._clock.until(due)
        keys = sum(job.keys for job in group)
        with contextlib.suppress(Empty):
            while keys < KEYS_PER_TRANSACTION:
                job = self._jobs.get(seconds > 0, min(LONGEST_WAIT, seconds))
                seconds = 0.0
                if job is not None:
                    group.append(job)
                    keys += job.keys
        return group

    def _work(self, jobs: list[Job]) -> None:
        """One turn: close what is due, do what was asked for, accept events, answer, maintain the
        store. The jobs that have an answer, or wait for the next turn, are taken from the list."""
        leader = self.leader = self.leader or self._open_leader()
        # One time for all: ticks that are over by then are closed before events are counted.
        now = self._clock.now()
        self.ticks_closed += leader.close_due(now)
        done: list[tuple[Job, Any]] = []
        batches: dict[str, list[Job]] = {}
        late: list[Job] = []
        patience = time.monotonic() - LONGEST_DELAY
        for job in jobs:
            if job.stream is None:
                done.append((job, _outcome(job.work, leader)))
            elif job.since > patience and leader.is_catching_up(job.stream, now):
                late.append(job)
            else:
                batches.setdefault(job.stream, []).append(job)
        wanted = {name: [job.work for job in group] for name, group in batches.items()}
        for name, outcomes in leader.accept(wanted, now).items() if wanted else ():
            done += zip(batches[name], outcomes, strict=True)
        self._late = late
        jobs.clear()
        self._answer(leader, done)
        self._more = leader.maintain()
        self._answer(leader)

    def _answer(self, leader: Leader, done: Sequence[tuple[Job, Any]] = ()) -> None:
        changed, leader.changed = leader.changed, set()
        if changed or done:
            self._loop.call_soon_threadsafe(self._resolve, changed, done)

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """The outcome of the current transaction is unknown, so close the store and ask every
        waiting client to repeat."""
        self._busy_since = None
        leader, self.leader = self.leader, None
        if leader or not isinstance(error, StoreError):  # else it is still away
            log.error("the service cannot write: %s", _told(error))
            self.failures += 1
        if leader:
            leader.close()
        waiting, self._late, self._more = [*jobs, *self._late], [], False
        while not self._jobs.empty():
            waiting += filter(None, [self._jobs.get()])
        done = [(job, unavailable()) for job in waiting]
        self._loop.call_soon_threadsafe(self._resolve, set(), done)
        if not self._reconnects or not isinstance(error, StoreError):
            self.give_up()


def _outcome(work: Callable[[Leader], Any], leader: Leader) -> Any:
    try:
        return work(leader)
    except DatabaseError:
        raise
    except FadecountError as error:
        return error
