"""A stream open for writing: it takes events, closes ticks, commits figures and only then
publishes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.figures import FigureMaker
from fadecount.counters.inputs import add_up
from fadecount.errors import (
    AlreadyReleasedError,
    ClockError,
    FenceError,
    InputError,
    ParameterError,
    StoreError,
)
from fadecount.mechanisms.unit import CapKey
from fadecount.noise import unpredictable
from fadecount.streams.audit_log import Act
from fadecount.streams.clock import ClockState, read_clock
from fadecount.streams.database import Context, Database
from fadecount.streams.description import checked_keys
from fadecount.streams.discovery import Counts
from fadecount.streams.embargo import (
    Dated,
    add_counts,
    count_ticks,
    draw_stages,
    embargo,
    next_public_tick,
    release_due,
    take_hidden,
)
from fadecount.streams.fence import publish, recover
from fadecount.streams.figures import CELLS, Closed, FigureRows, write_figures
from fadecount.streams.inputs import Intake, noted_as, take_inputs
from fadecount.streams.state import StoredState, write_state
from fadecount.streams.status import Status, lock_streams, write_keys, write_statuses

MOST_TICKS = 50_000_000
"""The most ticks of a history, and the most empty ticks that are closed in one call; more are taken
for wrong times, or for a wrong clock."""

REMEMBERED_SECONDS = 86400
"""How long a batch id is remembered: at least this long in ticks of the stream, and never less than
two ticks."""

ROWS_AT_ONCE = 1000
"""Batch ids, or persons of closed ticks, that are dropped in one transaction."""


class Stream(Intake):
    """One stream, open for writing by this process alone: an intake that also closes ticks.

    Guarantees: a tick is closed once, its inputs are final, and its figures are published only
    after inputs, new state and figures were committed together and the fence moved. After an error
    the state in memory is dropped and read again from the store. Calls from several threads are
    serialized.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._context, self._name = context, name
        self._status: Status
        self._guard = threading.RLock()
        self._loaded: StoredState | None = None
        self._load()
        super().__init__(context, self._status)

    @property
    def status(self) -> Status:
        """Where the stream is in time; after an error, as the store says."""
        with self._guard:
            if self._loaded is None:
                self._load()
            return self._status

    @property
    def keys(self) -> tuple[str, ...]:
        """The declared keys of a stream with one series, in order."""
        with self._guard:
            (keys,) = (self._loaded or self._load()).keys
            return keys

    @property
    def open_tick(self) -> int:
        """The tick that events count in now."""
        return self.status.last_tick + 1

    def declare(self, names: Iterable[str]) -> None:
        """Declare more keys of a stream with one series, all or none of them. They begin at zero,
        with noise of the same distribution as the others; in a stream of blocks with the next block
        of each level. What was hidden of them in the open day is destroyed: no event counts both
        ways."""
        context, database = self._context, self._database
        if self.description.publication is not None:
            raise ParameterError(
                f"keys of a publication are those of its measures; {self.description.name!r} takes"
                " no others"
            )
        with self._changing() as state:
            before, described, (known,) = self._status, self.description, state.keys
            new = checked_keys(names, frozenset(known))
            with database.transaction():
                state.widen(0, new)
                nothing = range(before.last_tick + 1, before.last_tick + 1)
                after = self._after(nothing, widths=(len(known) + len(new),))
                if write_statuses(database, [(before, after)]) != 1:
                    raise _changed(before)
                write_keys(database, before.id, 0, len(known), new, before.steps)
                if described.hidden is not None:
                    self._join_hidden(described.block_of(before.last_tick + 1), new)
                write_state(database, [state.changes(after)])
                context.checkpoint("declare written")
                context.record(
                    Act.KEYS_DECLARED, described.name, new_keys=len(new), keys=after.width
                )
            (outcome,) = publish(context, [(after, before.commit_id)])
            if isinstance(outcome, FenceError):
                raise outcome
            self._status = outcome
            self._read_positions(json.dumps(outcome.widths))

    def close_through(self, tick: int) -> list[Closed]:
        """Close the open tick and every later one up to ``tick``, and return their figures."""
        empty = np.empty((0, self.status.width), dtype=np.int64)
        return list(self.release(tick + 1, empty))

    def close_due(self, now: float) -> list[Closed]:
        """Close the ticks that are over at ``now`` (Unix seconds), also those missed in a downtime,
        and return their figures. A clock that is far off closes nothing and raises a
        ``ClockError``: see :func:`~fadecount.streams.clock.read_clock`."""
        reading = read_clock(self.description.ticks, self.open_tick, now)
        if reading.state is not ClockState.FINE:
            raise ClockError(reading.text)
        return [] if reading.due is None else self.close_through(reading.due)

    def catch_up(self, now: float) -> int:
        """Close every tick that is over at ``now`` (Unix seconds), however many: the operator
        confirms that the clock is right.

        Returns how many were closed. They cannot be opened again: what was published stays
        published.
        """
        begin, last = self.open_tick, self.description.ticks.at(now) - 1
        if last < begin:
            return 0
        self._context.record(Act.STREAM_CAUGHT_UP, self.description.name, ticks=last - begin + 1)
        while self.open_tick <= last:
            self.close_through(min(last, self.open_tick + MOST_TICKS - 1))
        return last - begin + 1

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        *,
        noted: int | None = None,
        persons: Mapping[CapKey, int] | None = None,
        hidden: Counts | None = None,
    ) -> Iterator[Closed]:
        """Close all ticks before ``first_tick``, which are empty, and one more for each row of
        counts in ``inputs`` (a column for each key, series after series). Events that were added
        count in the first tick closed here.

        ``inputs`` are sums, so the caller is responsible for the unit: no event may add more than
        its amount, and a person no more than :meth:`persons_counted` leaves.

        What is yielded is committed and published. Stopping between two of them loses
        nothing. Where persons are protected, ``noted`` is :attr:`persons_noted` from before the
        inputs were capped. If events of persons were accepted since, the cap would not hold, and an
        ``InputError`` is raised. Where the unit is a day, ``persons`` says how many events of each
        person (by digest) the inputs hold in the day that stays open, and ``hidden`` how many
        persons brought which hidden keys that day. The inputs then hold ticks of that day only, and
        are closed in one transaction.
        """
        begin, end, width = self.open_tick, first_tick + len(inputs), self._status.width
        _check_inputs(inputs, width)
        if len(inputs) and self.description.publication is not None:
            raise InputError("a publication takes rows; release what they add")
        if len(inputs) and first_tick < begin:
            shown = self.description.ticks.local
            raise AlreadyReleasedError(
                f"stream {self.description.name!r} is released up to {shown(begin)}, got events"
                f" from {shown(first_tick)}; give newer events only"
            )
        if (gap := first_tick - begin) > MOST_TICKS:
            raise ClockError(
                f"gap must be at most {MOST_TICKS} empty ticks, got {gap}; check the clock and the"
                " times"
            )
        block_of, size = self.description.slot_of, max(1, CELLS // max(1, width))
        if (persons or hidden) and not (len(inputs) and block_of(first_tick) == block_of(end - 1)):
            raise InputError(
                "inputs with persons or hidden keys must hold ticks of one"
                f" {self.description.unit.slot}; release others by themselves"
            )
        whole = persons is not None or hidden is not None
        given = _Dense(first_tick, inputs, self.status.widths)
        while begin < end:
            ticks = range(begin, end)[:size]
            if whole:  # the empty ticks before the inputs may be in an earlier day
                ticks = range(begin, first_tick)[:size] or range(begin, end)
            closing = _Closing(self, ticks, given, noted=noted)
            if whole and begin >= first_tick:
                sampled = self._sampled(block_of(begin), hidden or {})
                closing = replace(closing, persons=persons or {}, hidden={0: sampled})
            yield self._close(closing)
            if block_of(ticks.stop) != block_of(begin):
                noted = noted and 0
            begin = ticks.stop

    def release_rows(
        self, end_tick: int, history: History, *, noted: int | None = None
    ) -> Iterator[Closed]:
        """Close all ticks of a publication before ``end_tick``, with what the rows of a history add
        to them. Everything else is as for :meth:`release`: what was accepted counts in the first
        tick closed here, ``noted`` is :attr:`persons_noted` from before the rows were capped, and
        what is yielded is committed and published.

        Where something is noted of units, the ticks of a slot are closed in one transaction, with
        the notes about a slot that stays open.
        """
        begin, described = self.open_tick, self.description
        if end_tick < begin:
            raise _moved_on(self.status)
        given = _Sparse(history.series, self.status.widths)
        given.require(range(begin, end_tick), described.ticks.local)
        size = max(1, CELLS // max(1, self.status.width))
        while begin < end_tick:
            ticks = range(begin, end_tick)[:size]
            slot = described.slot_of(begin)
            if described.notes:
                ticks = range(begin, min(described.slot_ticks(slot).stop, end_tick))
            closing = _Closing(self, ticks, given, noted=noted)
            if described.notes:
                closing = replace(closing, notes=history.notes(begin), hidden=history.hidden(begin))
            yield self._close(closing)
            if described.slot_of(ticks.stop) != slot:
                noted = noted and 0
            begin = ticks.stop

    def _close(self, closing: _Closing) -> Closed:
        (outcome,) = _close_together([closing])
        if isinstance(outcome, FenceError):
            raise outcome
        while self.leaves_old_rows(outcome) and self.drop_old_rows():
            pass
        self.scrub()
        return outcome

    def scrub(self) -> None:
        """:meth:`Store.scrub`, for a stream that stays open for long."""
        self._context.database.scrub()

    def leaves_old_rows(self, closed: Closed) -> bool:
        """Whether there may be something for :meth:`drop_old_rows` after these ticks were closed.
        Batch ids are dropped from time to time."""
        pace = max(1, self._remembered_ticks // 16)
        passes = closed.last_tick // pace != (closed.first_tick - 1) // pace
        return self.description.notes or passes

    def drop_old_rows(self) -> bool:
        """Drop some of what is not needed since ticks are closed: what persons had in them, and ids
        of batches that were remembered for long enough; whether there may be more.

        Nothing depends on these rows: the tick or day is part of the name under which a person is
        noted. Apart from the transactions that close ticks: how long those take must not depend on
        how many persons there were, or batches.
        """
        stream, last = self._status.id, self._status.last_tick
        for table, name, column, before in (
            ("persons", "person", "person", noted_as(self.description.slot_of(last + 1))),
            ("seen", "batch", "tick", last - self._remembered_ticks),
        ):
            sql = (
                f"DELETE FROM {table} WHERE stream = ? AND {name} IN (SELECT {name} FROM {table}"  # noqa: S608
                f" WHERE stream = ? AND {column} < ? ORDER BY {column} LIMIT ?)"
            )
            values = (stream, stream, before, ROWS_AT_ONCE)
            if self._context.database.change(sql, values) == ROWS_AT_ONCE:
                return True
        return False

    @property
    def _remembered_ticks(self) -> int:
        return max(2, -(-REMEMBERED_SECONDS // self.description.ticks.tick_seconds))

    def _after(self, ticks: range, *, widths: tuple[int, ...] = ()) -> Status:
        """The status of the next commit: once these ticks are closed."""
        status = self._status
        if ticks.start != status.last_tick + 1:
            raise _moved_on(status)
        after = replace(
            status,
            last_tick=ticks.stop - 1,
            widths=widths or status.widths,
            commit_id=unpredictable(16).hex(),
            previous_commit_id=status.commit_id,
        )
        return after.reaching()

    @contextmanager
    def _changing(self) -> Iterator[StoredState]:
        """Yields the state for a change that is stored; if that fails, the state in memory is
        dropped."""
        with self._guard:
            state = self._loaded or self._load()
            self._loaded = None
            yield state
            self._loaded = state

    def _load(self) -> StoredState:
        context = self._context
        self._status = recover(context, self._name)
        state = self._loaded = StoredState(context, self._status).load(self._status)
        return state


def _moved_on(status: Status) -> AlreadyReleasedError:
    return AlreadyReleasedError(
        f"stream {status.description.name!r} has moved on; close its open tick only"
    )


def _changed(status: Status) -> StoreError:
    return StoreError(
        f"stream {status.description.name!r} was changed through another object; try again"
    )


def close_together(streams: Sequence[tuple[Stream, int]]) -> list[Closed | FenceError]:
    """Close the open tick of several streams of one store and every later one up to a given tick
    each, in one transaction.

    Returns the figures of each stream, which are published; or the error for a stream whose fence
    another copy has moved, which must not be used any more. If it raises, nothing was closed. All
    values are in memory at once, so let it be few.
    """
    closings = []
    for stream, tick in streams:
        begin = stream.open_tick
        if tick < begin:
            raise _moved_on(stream.status)
        closings.append(_Closing(stream, range(begin, tick + 1), _Sparse((), stream.status.widths)))
    return _close_together(closings)


@dataclass(frozen=True, slots=True)
class _Closing:
    """Ticks of a stream to close, with their counts; accepted events are added to the first. The
    others are those of :meth:`Stream.release` and of :class:`History`."""

    stream: Stream
    ticks: range
    given: _Dense | _Sparse
    persons: Mapping[CapKey, int] = field(default_factory=dict)
    notes: Mapping[bytes, int] = field(default_factory=dict)
    hidden: Mapping[int, Counts] = field(default_factory=dict)
    noted: int | None = None

    @property
    def blocks(self) -> tuple[int, int]:
        """The tick or day of a person's caps in which the first tick is, and the one that is open
        afterwards."""
        slot_of = self.stream.description.slot_of
        return slot_of(self.ticks.start), slot_of(self.ticks.stop)

    def check_persons(self) -> None:
        """Refuse counts of persons of whom more was accepted since; note the persons of a day that
        stays open."""
        stream, (first, end) = self.stream, self.blocks
        if self.noted is not None and self.noted != stream.persons_noted:
            raise InputError(
                "source must be alone while it feeds this tick, but other events of persons"
                " arrived; run it again"
            )
        if self.persons and first == end:
            stream.note_persons(end, self.persons)
        if self.notes and first == end:
            stream._note(end, self.notes)

    def figures(
        self, context: Context, state: StoredState, after: Status, accepted: NDArray[np.int64]
    ) -> tuple[FigureRows, ...]:
        """Count the ticks. Returns the figures that become public with them: of blocks that end
        now, of hidden keys, and from the embargo. Those that are not public yet are stored under
        embargo."""
        rows, end, made, column = self.stream._rows, after.last_tick + 1, list[Dated](), 0
        ticks = after.description.ticks
        for series, each in enumerate(after.parts):
            of_first = accepted[column : (column := column + each.width)]
            made += self._key_figures(context, each)
            begin, until = each.first_tick, each.description.ends or end + 1
            open_ticks = range(max(self.ticks.start, begin), min(self.ticks.stop, until))
            size, machine = max(1, CELLS // max(1, each.width)), state.machines[series]
            for at in range(0, len(open_ticks), size):
                part = open_ticks[at : at + size]
                counts = self.given.rows(series, part)
                if part.start == self.ticks.start:
                    add_up(counts, slice(1), of_first[np.newaxis])
                made += count_ticks(machine, counts, part.start, ticks, each.calendar, series)
            if until <= self.ticks.stop and isinstance(machine, FigureMaker):
                machine.open.clear()  # blocks that the end of a measure cuts short are void
        due = state.next_public is not None and state.next_public <= end
        taken = release_due(rows, end) if due else []
        later = [each for each in made if each[0] > end]
        embargo(rows, later)
        if due or later:
            state.next_public = next_public_tick(context.database, after.id)
        return (*taken, *(rows for tick, rows in made if tick <= end))

    def _key_figures(self, context: Context, after: Status) -> list[Dated]:
        """The figures of hidden keys of a series in the days that end with these ticks, each with
        the end of the tick with which it becomes public. The keys of a day that stays open are
        stored."""
        description = after.description
        if description.hidden is None:
            return []
        first, end = self.blocks
        series = description.number or 0
        own = self.hidden.get(series, {})
        if first == end:
            if own:
                self.stream.store_hidden(end, own, series=series)
            return []
        taken = take_hidden(self.stream._rows, series, end)
        add_counts(taken.setdefault(first, {}), own.items())
        figures, until = [], description.ends
        for day in range(first, end):
            persons, ticks = taken.get(day, {}), description.ticks_of(day)
            if ticks.stop <= after.first_tick or (until is not None and until <= ticks.start):
                continue  # the measure has not begun, or has ended
            figures += draw_stages(description, after.first_tick, day, persons, context.noise)
        context.checkpoint("keys drawn")
        return figures


def _close_together(closings: Sequence[_Closing]) -> list[Closed | FenceError]:
    """The transaction of a tick, for some streams of one store: draw, store, commit; then move the
    fence; then publish."""
    context = closings[0].stream._context
    with ExitStack() as changes:
        states = [changes.enter_context(each.stream._changing()) for each in closings]
        before = [each.stream._status for each in closings]
        context.checkpoint("before close")
        with context.database.transaction():
            after, closed = _draw_and_store(context, closings, before, states)
            context.checkpoint("before commit")
        context.checkpoint("committed")
        committed = [(new, old.commit_id) for new, old in zip(after, before, strict=True)]
        outcomes = publish(context, committed)
        for each, outcome in zip(closings, outcomes, strict=True):
            if not isinstance(outcome, FenceError):
                each.stream._status = outcome
    for each, outcome in zip(closings, outcomes, strict=True):
        if isinstance(outcome, FenceError):
            each.stream._loaded = None
    return [
        outcome if isinstance(outcome, FenceError) else released
        for released, outcome in zip(closed, outcomes, strict=True)
    ]


def _draw_and_store(
    context: Context,
    closings: Sequence[_Closing],
    before: Sequence[Status],
    states: Sequence[StoredState],
) -> tuple[list[Status], list[Closed]]:
    """Inside a transaction: take the inputs, draw noise, write state, figures and status.

    A few statements for all streams together. They are in the order of the streams' numbers, in
    which accepting locks rows too.
    """
    database, checkpoint = context.database, context.checkpoint
    after = [each.stream._after(each.ticks) for each in closings]
    lock_streams(database, [status.id for status in before])
    for each in closings:
        each.check_persons()
    _replace_person_keys(database, closings)
    accepted = take_inputs(context, before)
    checkpoint("inputs taken")
    closed = []
    for each, status, state in zip(closings, after, states, strict=True):
        public = each.figures(context, state, status, accepted[status.id])
        closed.append(
            Closed(first_tick=each.ticks.start, last_tick=status.last_tick, figures=public)
        )
        checkpoint("noise drawn")
    changes = zip(states, after, strict=True)
    write_state(database, [state.changes(status) for state, status in changes])
    checkpoint("state written")
    if write_statuses(database, zip(before, after, strict=True)) != len(closings):
        raise _changed(before[0])
    figures = zip(after, closed, strict=True)
    write_figures(database, [(of.id, rows) for of, each in figures for rows in each.figures])
    return after, closed


def _replace_person_keys(database: Database, closings: Sequence[_Closing]) -> None:
    """Destroy the keys of the ticks and days of persons that end, and draw those of the ones that
    begin. What is noted under a destroyed key is about nobody."""
    keys = []
    for each in closings:
        stream, (first, end) = each.stream, each.blocks
        if stream.description.notes and first != end:
            _, *new = stream._rows.sealed("secrets", end, unpredictable(32))
            keys.append((*new, stream._id, end))
    sql = "UPDATE secrets SET block = ?, body = ? WHERE stream = ? AND block < ?"
    database.change_many(sql, keys)


def _check_inputs(inputs: NDArray[np.int64], width: int) -> None:
    if inputs.ndim != 2 or inputs.shape[1] != width or inputs.dtype != np.int64:
        raise InputError(
            f"inputs must be int64 of the shape (ticks, {width}); one column per declared key"
        )
    if inputs.size and int(inputs.min()) < 0:
        raise InputError("counts must not be negative")


class Sums(Protocol):
    """What is added to a series: ``counts[i]`` in the tick ``ticks[i]`` to the key at the position
    ``keys[i]``; sorted by ticks."""

    @property
    def ticks(self) -> NDArray[np.int64]: ...

    @property
    def keys(self) -> NDArray[np.int64]: ...

    @property
    def counts(self) -> NDArray[np.int64]: ...


class History(Protocol):
    """What the rows of an input add to a publication: to each series, and of the slot of a tick
    hidden keys by series, and the notes about its persons."""

    @property
    def series(self) -> Sequence[Sums]: ...

    def hidden(self, tick: int, /) -> Mapping[int, Counts]: ...

    def notes(self, tick: int, /) -> Mapping[bytes, int]: ...


@dataclass(frozen=True, slots=True)
class _Dense:
    """A row of counts for each tick from ``first`` on, a column for each key, series after series.
    All other ticks are empty."""

    first: int
    inputs: NDArray[np.int64]
    widths: tuple[int, ...]

    def rows(self, series: int, ticks: range) -> NDArray[np.int64]:
        """A row of counts of a series for each of these ticks; not to be kept."""
        column, width = sum(self.widths[:series]), self.widths[series]
        rows = np.zeros((len(ticks), width), dtype=np.int64)
        low = max(ticks.start, self.first)
        some = self.inputs[low - self.first : max(low, ticks.stop) - self.first]
        rows[low - ticks.start :][: len(some)] = some[:, column : column + width]
        return rows


class _Sparse:
    """The counts of each series that are not zero."""

    def __init__(self, series: Sequence[Sums], widths: tuple[int, ...]) -> None:
        self._series = [(each.ticks, each.keys, each.counts) for each in series]
        self._widths = widths

    def require(self, wanted: range, shown: Callable[[int], str]) -> None:
        """Refuse counts outside of some ticks."""
        for ticks, _, counts in self._series:
            if not len(ticks):
                continue
            if int(ticks[0]) < wanted.start:
                raise AlreadyReleasedError(
                    f"publication is released up to {shown(wanted.start)}, got rows from"
                    f" {shown(int(ticks[0]))}; give newer rows only"
                )
            if int(ticks[-1]) >= wanted.stop or int(counts.min()) < 0:
                raise InputError("rows must lie in the ticks that are closed; give older rows only")

    def rows(self, series: int, ticks: range) -> NDArray[np.int64]:
        """A row of counts of a series for each of these ticks; not to be kept."""
        rows = np.zeros((len(ticks), self._widths[series]), dtype=np.int64)
        if self._series:
            of, keys, counts = self._series[series]
            low, high = np.searchsorted(of, [ticks.start, ticks.stop])
            add_up(rows, (of[low:high] - ticks.start, keys[low:high]), counts[low:high])
        return rows
