"""The writing side of the store: accepts batches, creates streams, closes ticks that are due. Used by one thread only."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Sequence

from fadecount.errors import ClockError, FadecountError, FenceError, LockedError, StoreError
from fadecount.service.clock import Clock
from fadecount.service.problems import Problem, bad_request, not_found, unavailable
from fadecount.streams import Batch, Description, Intake, Store, Stream
from fadecount.streams.stream import LARGEST_GAP

log = logging.getLogger("fadecount.service")
MOST_TICKS_AT_ONCE = 5000
"""Ticks that are closed before waiting events get their turn again, when the service catches up after downtime."""


LONGEST_TURN = 0.2
"""Seconds that closing ticks may keep events waiting, when very many streams are due at once."""


class Leader:
    """Holds an open store and the streams of it that this process leads.

    With PostgreSQL another process may lead a stream; this one then accepts events for it, which needs no lead, and asks for
    the lead again whenever a tick is due. The database grants it to one process at a time, so no tick is closed twice.
    """

    def __init__(self, store: Store, clock: Clock, *, on_tick: Callable[[str, int], None], accept_extra_loss: bool) -> None:
        self._store, self._clock, self._on_tick = store, clock, on_tick
        self._accept_extra_loss = accept_extra_loss
        self._streams: dict[str, Stream] = {}
        self._intakes: dict[str, Intake] = {}
        self._refused: set[str] = set()
        self._ended: set[str] = set()
        self._ahead: set[str] = set()
        try:
            self.find_streams()
            self._due = self._next_due()
        except BaseException:
            self.close()
            raise

    @property
    def healthy(self) -> bool:
        """Whether no stream had to be refused."""
        return not self._refused

    def find_streams(self) -> None:
        """Lead whatever can be led: new streams, and those whose leader has gone."""
        for name in self._store.names():
            if name not in self._streams and name not in self._refused and name not in self._ended:
                self._lead(name)

    def _lead(self, name: str) -> None:
        try:
            self._streams[name] = self._store.open(name, accept_extra_loss=self._accept_extra_loss)
        except LockedError:
            return
        except FenceError:
            self._refused.add(name)
            log.error("a stream is older than what was published of it: refused; see --accept-extra-loss")

    def create(self, description: Description, keys: Sequence[str]) -> bool:
        """A new stream that begins with the present tick; False if there is one already, of this description and these keys."""
        name = description.name
        if name in self._store.names():
            if not self._is_same(description, keys):
                raise Problem(409, "exists", "there is another stream of that name; choose another name")
            return False
        start = description.ticks.at(self._clock.now())
        try:
            self._streams[name] = self._store.create(description, keys=keys, start_tick=start)
        except LockedError:  # it is made, and another process was faster to lead it
            return True
        except StoreError:
            raise
        except FadecountError:
            raise Problem(409, "refused", "the name was used before, or a key is not usable; choose others") from None
        return True

    def _is_same(self, description: Description, keys: Sequence[str]) -> bool:
        """Whether a stream is what it would be if it were created now: keys that were declared later stand behind the first."""
        reader = self._store.reader()
        status = reader.status(description.name)
        return status.description.to_json() == description.to_json() and reader.keys(description.name)[: len(keys)] == tuple(keys)

    def declare(self, name: str, keys: Sequence[str]) -> None:
        """Declare the keys that are new; those that exist already stay as they are."""
        if name not in self._store.names():
            raise not_found()
        stream = self._streams.get(name)
        if stream is None:
            raise unavailable("another process leads this stream; send it there, or again later")
        new = [key for key in dict.fromkeys(keys) if key not in stream.keys]
        if new:
            stream.declare(new)
            self._intakes.pop(name, None)

    def accept(self, name: str, batches: Sequence[Batch]) -> list[bool]:
        """Make the batches durable, in one transaction; an ``InputError`` means that none of them was counted.

        Guarantees: they count in the tick in which they arrived or a later one. Ticks that are over are closed first; while that
        takes longer, here or where another process leads, events are to be sent again.
        """
        if name in self._streams:
            self._bring_up(name, self._streams[name], self._clock.now())
        if name in self._ended:
            raise Problem(409, "ended", "the stream has had all the ticks that its mechanism was made for")
        if name in self._refused:
            raise unavailable("the stream is not in order; the operator's log says why")
        intake = self._intakes.get(name)
        if intake is None:
            if name not in self._store.names():
                raise not_found()
            intake = self._intakes[name] = self._store.intake(name)
        tick = None if name in self._ahead else intake.ticks.at(self._clock.now())
        try:
            return intake.accept(batches, not_before=tick)
        except ClockError:
            raise unavailable("the stream is catching up with the clock; send it again") from None

    def close_due(self) -> None:
        """Close the ticks that are over, and note when the next one is."""
        self._close_due()
        self._due = self._next_due()

    def _close_due(self) -> None:
        now, begun = self._clock.now(), time.monotonic()
        for name, stream in sorted(self._streams.items(), key=_overdue):
            if time.monotonic() - begun > LONGEST_TURN:
                return
            self._bring_up(name, stream, now)

    def _bring_up(self, name: str, stream: Stream, now: float) -> None:
        """Close the ticks of a stream that are over, or the first of them if there are very many."""
        due = stream.description.ticks.at(now) - 1
        begin = due if stream.open_tick is None else stream.open_tick
        if begin > due or not self._clock_is_right(name, due - begin):
            return
        last = min(due, begin + MOST_TICKS_AT_ONCE - 1, begin + _steps_left(stream) - 1)
        if last < begin:
            self._ended.add(name)
            del self._streams[name]
        else:
            self._close(name, stream, last)

    def _close(self, name: str, stream: Stream, last: int) -> None:
        try:
            stream.close_through(last)
        except StoreError:
            raise
        except FadecountError as error:
            log.error("a stream cannot go on (%s): it is left alone", type(error).__name__)
            self._refused.add(name)
            del self._streams[name]
        else:
            self._on_tick(name, last)

    def _clock_is_right(self, name: str, gap: int) -> bool:
        """Whether so many overdue ticks can be downtime; if not, they stay open until the clock is set right."""
        if gap < LARGEST_GAP:
            self._ahead.discard(name)
            return True
        if name not in self._ahead:
            log.error("the clock is far ahead of a stream: its ticks stay open until the clock is right")
            self._ahead.add(name)
        return False

    @property
    def next_due(self) -> float | None:
        """When the next tick is over; None without streams. May be asked by any thread: it never waits for the database."""
        return self._due

    def _next_due(self) -> float | None:
        ends = [
            stream.description.ticks.start_seconds(stream.open_tick + 1)
            for name, stream in list(self._streams.items())
            if stream.open_tick is not None and name not in self._ahead
        ]
        return min(ends, default=None)

    def lag_seconds(self) -> float:
        due = self._due
        return 0.0 if due is None else max(0.0, self._clock.now() - due)

    def close(self) -> None:
        with contextlib.suppress(StoreError):
            self._store.close()


def _overdue(item: tuple[str, Stream]) -> float:
    """Sorts those first that have waited longest."""
    tick = item[1].open_tick
    return -math.inf if tick is None else item[1].description.ticks.start_seconds(tick + 1)


def _steps_left(stream: Stream) -> int:
    """How many more ticks the mechanism has; very many unless it was made for a given number."""
    horizon = stream.description.mechanism.schedule.horizon
    return MOST_TICKS_AT_ONCE if horizon is None else horizon - stream.status.steps


def refused_input() -> Problem:
    """The answer to an ``InputError``: the store's words may be about values, these are not."""
    return bad_request("unknown_key", "every key must be declared, and counts within bounds; nothing of this request was counted")
