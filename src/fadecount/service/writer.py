"""The writing thread: commits requests in groups, and closes ticks on time.

Requests wait on a future that is resolved only when their events are durable; one call into the
event loop resolves all futures of a group. While one group is being committed, the next one
collects, so a slower disk gives larger groups. Clients that have just got their answers send again
within moments: the next group waits for them a little, or each sync would serve only a few.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fadecount.errors import FadecountError, StoreError
from fadecount.service.clock import Clock
from fadecount.service.leader import Leader
from fadecount.service.metrics import Metrics
from fadecount.service.parsing import SentEvents
from fadecount.service.problems import unavailable


@dataclass(slots=True)
class Job:
    """A batch for a stream, or (without one) a function to call with the leader; and the future
    that waits for it."""

    stream: str | None
    work: Any
    future: asyncio.Future[Any]
    since: float = field(default_factory=time.monotonic)
    keys: int = 0
    """How many keys a batch has: the work on it grows with them."""


@dataclass(slots=True)
class LongJob(Job):
    """Work on a stream in steps; ``work`` is a function that begins them. Other work is done
    between two steps."""

    steps: Iterator[None] | None = None


def accepted(
    leader: Leader, groups: Mapping[str, Sequence[Job]], now: float
) -> Iterator[tuple[Job, Any]]:
    """One transaction for the batches of all streams."""
    outcomes = leader.accept(
        {name: [job.work for job in group] for name, group in groups.items()}, now
    )
    for name, group in groups.items():
        found = outcomes[name]
        yield from zip(
            group, found if isinstance(found, list) else [found] * len(group), strict=True
        )


def outcome_of(work: Callable[[Leader], Any], leader: Leader) -> Any:
    try:
        return work(leader)
    except StoreError:
        raise
    except FadecountError as error:
        return error


def resolve(done: list[tuple[Job, Any]]) -> None:
    for job, outcome in done:
        if job.future.done():
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)


log = logging.getLogger("fadecount.service")
LARGEST_GROUP = 1024
MOST_KEYS_BESIDE = 10_000
"""Keys that the batches of a group have together at most, beside its first one: many large ones
would hold up all others."""

STUCK_SECONDS = 5.0
"""Seconds after which a store that does not answer counts as not ready."""

LONGEST_GATHERING = 0.01
"""Seconds that a group waits at most for as many requests as the groups before it had; and at most
half as long as a commit."""

STEP_PAUSE = 0.001
"""Seconds between two steps of a long job, unless requests wait: so that requests which are being
read need not wait for one."""

LONGEST_DELAY = 3.0
"""Seconds that events wait for a stream that is catching up with the clock; then their client is
asked to send them again."""

LONGEST_WAIT = 0.5
"""Seconds after which streams of other processes, and requests of operators, are looked for
again."""


class Writer:
    """Runs a :class:`Leader` on its own thread.

    Guarantees: a batch is acknowledged only after its commit; after an error of the store, that
    store is not used any more. With an embedded store the service then ends (``failed`` is set: a
    restart reads what was really committed). With a database server the writer connects again.
    """

    def __init__(
        self,
        open_leader: Callable[[], Leader],
        clock: Clock,
        metrics: Metrics,
        *,
        most_waiting: int,
        reconnects: bool,
    ) -> None:
        self._open_leader, self._clock, self._metrics = open_leader, clock, metrics
        self._most_waiting, self._reconnects = most_waiting, reconnects
        self._leader: Leader | None = None
        self._jobs: deque[Job] = deque()
        self._long: dict[str, deque[LongJob]] = {}
        """Work in steps by stream, the next stream first. Work on one stream is done in the order
        of its arrival."""
        self._wake = threading.Condition()
        self._stopping = False
        self._enough = 1
        """How many jobs must wait before the writing thread is woken."""
        self._sizes = (0, 0)
        """How many batches the last two commits had."""
        self._commit_seconds = 0.0
        self._looked = 0.0
        self._taking_over = False
        """Whether there are more streams to take over, without waiting in between."""
        self._busy_since: float | None = None
        self.failed = threading.Event()
        self.on_failure: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="fadecount writer", daemon=True)

    def start(self) -> None:
        """Open the store (or raise the error that prevents it) and begin."""
        self._leader = self._open_leader()
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Finish the jobs already queued, then close the store."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        if self._leader:
            self._leader.close()

    def trouble(self) -> str | None:
        """Why the service is not ready; None if it is. Never waits for the database."""
        leader, since = self._leader, self._busy_since
        if self._stopping:
            return "the service is ending"
        if (
            leader is None
            or self.failed.is_set()
            or (since is not None and time.monotonic() - since > STUCK_SECONDS)
        ):
            return "the store does not answer; the operator's log says why"
        return leader.trouble

    def clock_trouble(self, name: str) -> str | None:
        leader = self._leader
        return leader.clock_trouble(name) if leader else None

    def stream_state(self, name: str) -> str:
        leader = self._leader
        return leader.state(name) if leader else "unknown"

    def stream_count(self) -> int:
        leader = self._leader
        return leader.stream_count if leader else 0

    def lag_seconds(self) -> float:
        leader = self._leader
        return leader.lag_seconds() if leader else 0.0

    def accept(self, stream: str, events: SentEvents, batch_id: str | None) -> asyncio.Future[bool]:
        """Queue events; once they are durable, the future says whether they counted (False: this id
        has counted before)."""
        return self._submit(
            Job(stream, (events, batch_id), self._loop.create_future(), keys=len(events.counts))
        )

    def call(self, work: Callable[[Leader], Any]) -> asyncio.Future[Any]:
        """Run something on the writing thread."""
        return self._submit(Job(None, work, self._loop.create_future()))

    def call_in_steps(
        self, stream: str, work: Callable[[Leader], Iterator[None]]
    ) -> asyncio.Future[None]:
        """Run something long on the writing thread, a step at a time, with other work in
        between."""
        return self._submit(LongJob(stream, work, self._loop.create_future()))

    def _submit(self, job: Job) -> asyncio.Future[Any]:
        with self._wake:
            if self._stopping or self._leader is None or len(self._jobs) >= self._most_waiting:
                raise unavailable()
            self._jobs.append(job)
            if len(self._jobs) >= self._enough:
                self._wake.notify()
        return job.future

    def _run(self) -> None:
        """Work until told to stop. No error ends this thread alone: the service ends with it."""
        try:
            while not self.failed.is_set():
                jobs = self._gather()
                if not jobs and not self._long and self._stopping:
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
        self.failed.set()
        self._loop.call_soon_threadsafe(self.on_failure)

    def _gather(self) -> list[Job]:
        with self._wake:
            if not self._jobs and not self._taking_over and not self._stopping:
                self._wake.wait(STEP_PAUSE if self._long else self._patience())
            if 0 < len(self._jobs) < max(self._sizes) and not self._long and not self._stopping:
                self._enough = max(self._sizes)
                self._wake.wait(min(LONGEST_GATHERING, self._commit_seconds / 2, self._patience()))
                self._enough = 1
            return self._next_group()

    def _next_group(self) -> list[Job]:
        """The job that waits longest and, in their order, those that are small enough to go with
        it; the others go on waiting."""
        group = [self._jobs.popleft()] if self._jobs else []
        room, waiting = MOST_KEYS_BESIDE, deque[Job]()
        while self._jobs and len(group) < LARGEST_GROUP:
            job = self._jobs.popleft()
            fits = job.keys <= room
            (group if fits else waiting).append(job)
            room -= job.keys if fits else 0
        self._jobs.extendleft(reversed(waiting))
        return group

    def _patience(self) -> float:
        due = self._leader.next_due if self._leader else None
        return LONGEST_WAIT if due is None else min(LONGEST_WAIT, self._clock.until(due))

    def _work(self, jobs: list[Job]) -> None:
        leader = self._leader
        if leader is None:
            leader = self._leader = self._open_leader()
        now = (
            self._clock.now()
        )  # one time for all: ticks that are over by then are closed before events are counted
        leader.close_due(now)
        done: list[tuple[Job, Any]] = []
        groups: dict[str, list[Job]] = {}
        late: list[Job] = []
        try:
            for job in jobs:
                if job.stream is None:
                    done.append((job, outcome_of(job.work, leader)))
                elif isinstance(job, LongJob):
                    self._long.setdefault(job.stream, deque()).append(job)
                elif (
                    leader.is_catching_up(job.stream, now)
                    and time.monotonic() - job.since < LONGEST_DELAY
                ):
                    late.append(job)
                else:
                    groups.setdefault(job.stream, []).append(job)
            begun, outcomes = time.monotonic(), list(accepted(leader, groups, now))
            done += outcomes
            if size := sum(
                isinstance(outcome, bool) for _, outcome in outcomes
            ):  # refused ones need no commit
                self._sizes, self._commit_seconds = (self._sizes[1], size), time.monotonic() - begun
            done += self._one_step(leader)
        finally:
            with self._wake:
                self._jobs.extendleft(reversed(late))
            if done:
                self._loop.call_soon_threadsafe(resolve, done)
        if self._taking_over or time.monotonic() - self._looked > LONGEST_WAIT:
            self._looked = time.monotonic()
            self._taking_over = self._reconnects and leader.find_streams()
            leader.look_after()

    def _one_step(self, leader: Leader) -> list[tuple[Job, Any]]:
        """One step of the next long job; the job with its outcome, if that was the last step."""
        if not self._long:
            return []
        stream, waiting = next(iter(self._long.items()))
        job = waiting[0]
        if job.steps is None:
            job.steps = job.work(leader)
        done: list[tuple[Job, Any]] = []
        try:
            next(job.steps)
        except StopIteration:
            done = [(job, None)]
        except StoreError:
            raise
        except FadecountError as error:
            done = [(job, error)]
        del self._long[stream]  # not before an error: whoever waits for the job is told
        if done:
            waiting.popleft()
        if waiting:
            self._long[stream] = waiting
        return done

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        """The outcome of the current transaction is unknown, so close the store and ask every
        waiting client to repeat."""
        self._busy_since = None
        log.error("the store failed: %s", type(error).__name__)
        self._metrics.failures.inc()
        leader, self._leader = self._leader, None
        if leader:
            leader.close()
        with self._wake:
            jobs = [
                *jobs,
                *self._jobs,
                *(job for waiting in self._long.values() for job in waiting),
            ]
            self._jobs.clear()
            self._long.clear()
        self._loop.call_soon_threadsafe(resolve, [(job, unavailable()) for job in jobs])
        if not self._reconnects or not isinstance(error, StoreError):
            self.give_up()
            return
        while not self._stopping and self._leader is None:
            time.sleep(LONGEST_WAIT)
            try:
                self._leader = self._open_leader()
            except StoreError:
                continue
