"""A stream open for writing: it takes events, closes ticks, commits releases and only then
publishes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.counters.counter import counter_of, parts_of
from fadecount.counters.state import widened
from fadecount.errors import AlreadyReleasedError, ClockError, FenceError, InputError, StoreError
from fadecount.noise import NoiseSource, unpredictable
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.chunks import CELLS, Chunk, write_chunks
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.description import Description, checked_keys
from fadecount.streams.fence import Fence, publish, recover
from fadecount.streams.inputs import (
    Batch,
    Intake,
    ReadPosition,
    batches_are_due,
    forget_batches,
    forget_persons,
    persons_noted,
    take_inputs,
)
from fadecount.streams.seal import Seal
from fadecount.streams.state import StoredState, write_state, written_keys
from fadecount.streams.status import Status, lock_streams, write_keys, write_statuses

LARGEST_GAP = 50_000_000
"""The most empty ticks that are closed in one call; a wider gap is treated as a wrong clock."""

KEYS_AT_ONCE = 1000
"""The most names of keys that one step of a declaration works on."""

STEP_SECONDS = 0.004
"""How long a step of a declaration should take, so that other work does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a stream works with."""

    database: Database
    seal: Seal
    fence: Fence | None
    noise: NoiseSource | None
    checkpoint: Checkpoints
    audit_log: AuditLog


class Stream:
    """One stream, open for writing by this process alone.

    Guarantees: a tick is closed once, its inputs are final, and its release is published only after
    inputs, new state and release were committed together and the fence moved. After an error the
    state in memory is dropped and read again from the store. Calls from several threads are
    serialized.
    """

    def __init__(self, tools: Tools, name: str) -> None:
        self._tools, self._name = tools, name
        self._status: Status
        self._guard = threading.RLock()
        self._loaded: tuple[Counter, StoredState] | None = None
        self._declaring: object = None
        keys = self._load()[1].keys
        self._intake = Intake(
            tools.database, tools.seal, self._status, checkpoints=tools.checkpoint, keys=keys
        )

    @property
    def description(self) -> Description:
        """What the stream is: fixed and public."""
        return self._status.description

    @property
    def status(self) -> Status:
        """Where the stream is in time."""
        return self._status

    @property
    def keys(self) -> tuple[str, ...]:
        """The declared keys, in order."""
        with self._guard:
            return (self._loaded or self._load())[1].keys

    @property
    def intake(self) -> Intake:
        """What accepts the events of this stream."""
        return self._intake

    @property
    def open_tick(self) -> int | None:
        """The tick that events count in now; None before the stream has begun."""
        self._recover()
        return None if self._status.last_tick is None else self._status.last_tick + 1

    def add(
        self,
        counts: Mapping[str, int],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        person: str | bytes | None = None,
        at: float | None = None,
    ) -> bool:
        """Count events in the open tick; durable when it returns. False if a batch of this id was
        counted before.

        Where the unit has an amount of 1, a count is a number of events. Otherwise each count is
        the amount of one event. One above the unit's amount is refused with an ``InputError``, and
        nothing is counted; :class:`Batch` says how to add sums. ``person`` is the person who caused
        the events; a stream that protects persons needs it, and counts as many of the events as its
        unit allows. ``at`` is when the events happened (Unix seconds): if the open tick was over by
        then, a ``ClockError`` is raised, since an event counted before its time has lost more than
        its age says. Close the ticks that are over first. Without ``at``, the events are assumed to
        belong to the open tick or an older one.
        """
        return self.add_many([Batch(counts=counts, id=id, person=person)], at=at)[0]

    def add_many(
        self,
        batches: Iterable[Batch],
        *,
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> list[bool]:
        """:meth:`add` for several batches in one transaction (group commit), with how far their
        source has been read."""
        return self._intake.accept(list(batches), not_before=self._tick_of(at), position=position)

    def add_rows(
        self,
        keys: NDArray[np.int64],
        amounts: NDArray[np.int64],
        persons: Sequence[str | bytes] | None = None,
        *,
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> int:
        """Count single events in the open tick, in one transaction: one row each, with the position
        of its key and its amount.

        An amount above the unit's is refused with an ``InputError``, and nothing is counted. ``at``
        is the latest time of these events, as in :meth:`add`. ``position`` says how far their
        source has been read; it is stored in the same transaction, so a restart neither counts an
        event twice nor leaves one out. Returns how many rows count: the others are beyond the cap
        of their person. That number is for the operator only.
        """
        return self._intake.accept_rows(
            keys, amounts, persons, not_before=self._tick_of(at), position=position
        )

    def position(self, source: str) -> bytes | None:
        """How far a source has been read, as stored together with its events; None if nothing was
        read."""
        return self._intake.position(source)

    def persons_counted(
        self, persons: Sequence[str | bytes], keys: Sequence[int] | None = None
    ) -> NDArray[np.int64]:
        """How many events of each of these persons count in the open tick so far.

        Where the unit has several keys: under how many keys each person counts; or, with ``keys``,
        how many events of each person count under the key of that position.

        For callers that pass sums to :meth:`release`: they must include only as many more events as
        the cap allows.
        """
        return self._intake.persons_counted(persons, keys)

    @property
    def persons_noted(self) -> int:
        """A number that changes whenever more of any person is accepted for the open tick: for
        :meth:`release`."""
        return self._intake.persons_noted

    @property
    def person_key(self) -> bytes:
        """A secret of this stream, 32 bytes: the key of the digests that stand for persons."""
        return self._intake.person_key

    def _tick_of(self, at: float | None) -> int | None:
        return None if at is None else self.description.ticks.at(at)

    def declare(self, names: Iterable[str]) -> None:
        """Declare more keys. They begin at zero, with noise of the same law as the others."""
        with self._guard:
            for _ in self.declare_in_slices(names):
                pass

    def declare_in_slices(self, names: Iterable[str]) -> Iterator[None]:
        """:meth:`declare` in short steps, between which other work may be done, also on this
        stream.

        The names are written in slices, each in a transaction of its own. They count as keys from
        the last transaction on, which widens the state: all of them or, if the process ends before
        it, none. The next declaration removes the names that were left over. An iteration that
        another one overtakes raises a ``StoreError``.
        """
        new, mine = tuple(names), object()
        known = self._intake.positions
        positions = (
            dict(known)
            if len(known) == self._status.width
            else {key: at for at, key in enumerate(self.keys)}
        )
        written: list[str] = []
        slices = _Slices(len(new))
        for some in slices:
            keys = checked_keys(new[some], positions)
            positions.update(
                zip(keys, range(len(positions), len(positions) + len(keys)), strict=True)
            )
            written.append(written_keys(keys))
            if len(new) > KEYS_AT_ONCE:
                slices.done()
                yield
        self._declaring, slices = mine, _Slices(len(new))
        for some in slices:
            with self._guard:
                if self._declaring is not mine:
                    raise self._changed()
                if some.stop == len(new):
                    self._widen(new, some.start, ", ".join(written))
                    break
                self._write_names(new[some], some.start)
            slices.done()
            yield
        self._intake.positions = positions

    def _write_names(self, names: Sequence[str], start: int) -> None:
        """Some names of a declaration, from the ``start``-th new one on. They are not keys yet."""
        database = self._tools.database
        self._recover()
        with database.transaction(
            durable=False
        ):  # nothing depends on them before the state is widened
            self._check_unchanged(self._status)
            write_keys(database, self._status.id, self._status.width + start, names)
        self._tools.checkpoint("names written")

    def _widen(self, new: Sequence[str], start: int, written: str) -> None:
        """The last names of a declaration, and the state of all ``new`` keys; ``written`` is how
        they are in its digest."""
        database, checkpoint = self._tools.database, self._tools.checkpoint
        with self._changing() as (counter, state):
            status, noise, log = self._status, self._tools.noise, self._tools.audit_log
            mechanism = status.description.mechanism
            with database.transaction():
                self._check_unchanged(status)
                write_keys(database, status.id, status.width + start, new[start:])
                parts = widened(mechanism, parts_of(counter), len(new), noise)
                counter = counter_of(mechanism, parts, noise)
                state.save(counter)
                state.add_keys(new, written)
                database.change(
                    "UPDATE streams SET width = ? WHERE id = ?", (len(parts.total), status.id)
                )
                status = state.sign(status.description.name)
                checkpoint("declare written")
                log.record(
                    Act.KEYS_DECLARED,
                    status.description.name,
                    new_keys=len(new),
                    keys=len(parts.total),
                )
            self._loaded, self._status = (counter, state), status

    def close_through(self, tick: int, *, largest_gap: int = LARGEST_GAP) -> list[Chunk]:
        """Close the open tick and every later one up to ``tick``, and return their releases."""
        self._recover()
        nothing = np.empty((0, self._status.width), dtype=np.int64)
        return list(self.release(tick, nothing, largest_gap=largest_gap, through=tick))

    def catch_up(self, now: float) -> int:
        """Close every tick that is over at ``now`` (Unix seconds), however many: the operator
        confirms that the clock is right.

        Returns how many were closed. They cannot be opened again: what was published stays
        published.
        """
        begin, last = self.open_tick, self.description.ticks.at(now) - 1
        if begin is None or last < begin:
            return 0
        self._tools.audit_log.record(
            Act.STREAM_CAUGHT_UP, self.description.name, ticks=last - begin + 1
        )
        nothing = np.empty((0, self._status.width), dtype=np.int64)
        return sum(
            len(chunk.values)
            for chunk in self.release(last, nothing, largest_gap=last - begin + 2, through=last)
        )

    def release(
        self,
        first_tick: int,
        inputs: NDArray[np.int64],
        *,
        largest_gap: int = LARGEST_GAP,
        through: int | None = None,
        noted: int | None = None,
    ) -> Iterator[Chunk]:
        """Close all ticks up to ``through`` (by default the last of ``inputs``, which holds a row
        of counts per tick from ``first_tick`` on). Ticks without a row are empty. Events that were
        added count in the first tick closed here.

        ``inputs`` are sums, so the caller is responsible for the unit: no event may add more than
        its amount, and a person no more than :meth:`persons_counted` leaves.

        Each chunk that is yielded is committed and published. Stopping between two of them loses
        nothing. Where persons are protected, ``noted`` is :attr:`persons_noted` from before the
        inputs were capped. If events of persons were accepted since, the cap would not hold, and an
        ``InputError`` is raised.
        """
        begin = first_tick if self.open_tick is None else self.open_tick
        _check_inputs(inputs, self._status.width)
        last = first_tick + len(inputs) - 1 if through is None else through
        if len(inputs) and first_tick < begin:
            shown = self.description.ticks.shown
            raise AlreadyReleasedError(
                f"stream {self.description.name!r} is released up to {shown(begin)}, got events"
                f" from {shown(first_tick)}; give newer events only"
            )
        if last - len(inputs) - begin >= largest_gap:
            gap = last - len(inputs) - begin + 1
            raise ClockError(
                f"gap must be at most {largest_gap} empty ticks, got {gap}; check the clock and the"
                " times"
            )
        size = max(1, CELLS // self._status.width)
        while begin <= last:
            count = min(size, last - begin + 1)
            yield self._close(
                begin, _rows_from(inputs, first_tick, begin, (count, self._status.width)), noted
            )
            begin += count
            noted = None if noted is None else 0

    def _close(self, first: int, rows: NDArray[np.int64], noted: int | None) -> Chunk:
        (outcome,) = _close_all([_Closing(self, first, rows)], noted)
        if isinstance(outcome, FenceError):
            raise outcome
        if self.leaves_old_rows(outcome):
            while self.drop_old_rows():
                pass
        return outcome

    def leaves_old_rows(self, closed: Chunk) -> bool:
        """Whether there may be something for :meth:`drop_old_rows`, after these ticks were
        closed."""
        description, ticks = self.description, range(closed.first_tick, closed.last_tick + 1)
        return description.unit.of == "person" or batches_are_due(
            ticks, description.ticks.tick_seconds
        )

    def drop_old_rows(self) -> bool:
        """Drop some of what is not needed since ticks are closed: persons, and ids of old batches.
        Whether there may be more."""
        database, status, unit = self._tools.database, self._status, self.description.unit
        if status.last_tick is None:
            return False
        if unit.of == "person" and forget_persons(database, status.id, status.last_tick + 1):
            return True
        return forget_batches(
            database, status.id, status.last_tick, self.description.ticks.tick_seconds
        )

    def _after(self, first: int, count: int) -> Status:
        """The status once the ticks from ``first`` on are closed, without its digest."""
        status = self._status
        if status.last_tick is not None and first != status.last_tick + 1:
            raise AlreadyReleasedError(
                f"stream {status.description.name!r} has moved on; close its open tick only"
            )
        last = first + count - 1
        return replace(
            status,
            first_tick=first if status.first_tick is None else status.first_tick,
            last_tick=last,
            published_tick=last if self._tools.fence is None else status.published_tick,
            steps=status.steps + count,
            commit_id=unpredictable(16).hex(),
            previous_commit_id=status.commit_id,
        )

    def _check_unchanged(self, status: Status) -> None:
        rows = self._tools.database.query("SELECT digest FROM streams WHERE id = ?", (status.id,))
        if not rows or bytes(rows[0][0]) != status.digest:
            raise self._changed()

    def _changed(self) -> StoreError:
        return StoreError(
            f"stream {self._status.description.name!r} was changed through another object; try"
            " again"
        )

    @contextmanager
    def _changing(self) -> Iterator[tuple[Counter, StoredState]]:
        """Yields the counter for a change that is stored; if that fails, the state in memory is
        dropped."""
        with self._guard:
            counter, state = self._loaded or self._load()
            self._loaded = None
            yield counter, state
            if self._loaded is None:
                self._loaded = counter, state

    def _recover(self) -> None:
        """After an error, read the status from the store again before using it."""
        with self._guard:
            if self._loaded is None:
                self._load()

    def _load(self) -> tuple[Counter, StoredState]:
        tools = self._tools
        self._status = status = recover(
            tools.database, tools.fence, self._name, tools.checkpoint, tools.audit_log
        )
        state = StoredState(tools.database, tools.seal, status.uid, status.id)
        counter = state.load(status, tools.noise)
        self._loaded = counter, state
        return counter, state


def close_together(wanted: Sequence[tuple[Stream, int]]) -> list[Chunk | FenceError]:
    """Close the open tick of several streams of one store and every later one up to a given tick
    each, in one transaction.

    Returns the releases of each stream, which are published; or the error for a stream whose fence
    another copy has moved, which must not be used any more. If it raises, nothing was closed. All
    values are in memory at once, so let it be few.
    """
    closings = []
    for stream, tick in wanted:
        begin = tick if stream.open_tick is None else stream.open_tick
        if tick < begin:
            raise AlreadyReleasedError(
                f"stream {stream.description.name!r} has moved on; close its open tick only"
            )
        closings.append(
            _Closing(
                stream, begin, np.zeros((tick - begin + 1, stream.status.width), dtype=np.int64)
            )
        )
    return _close_all(closings)


@dataclass(frozen=True, slots=True)
class _Closing:
    """Ticks of a stream to close, from ``first`` on, with a row of counts for each; accepted events
    are added to the first."""

    stream: Stream
    first: int
    rows: NDArray[np.int64]


def _close_all(closings: Sequence[_Closing], noted: int | None = None) -> list[Chunk | FenceError]:
    """One transaction for all: inputs, state, releases, status; then the fence; then readers may
    see it."""
    tools = closings[0].stream._tools
    database, checkpoint = tools.database, tools.checkpoint
    with ExitStack() as changes:
        loaded = [changes.enter_context(each.stream._changing()) for each in closings]
        checkpoint("before close")
        with database.transaction():
            written = _write_close(tools, closings, loaded, noted)
            checkpoint("before commit")
        checkpoint("committed")
        committed = [
            (after, each.stream._status.commit_id)
            for (after, _), each in zip(written, closings, strict=True)
        ]
        outcomes = publish(database, tools.fence, committed, checkpoint)
        for each, outcome in zip(closings, outcomes, strict=True):
            if not isinstance(outcome, FenceError):
                each.stream._status = outcome
    found: list[Chunk | FenceError] = []
    for each, (_, chunk), outcome in zip(closings, written, outcomes, strict=True):
        if isinstance(outcome, FenceError):
            each.stream._loaded = None
        found.append(outcome if isinstance(outcome, FenceError) else chunk)
    return found


def _write_close(
    tools: Tools,
    closings: Sequence[_Closing],
    loaded: Sequence[tuple[Counter, StoredState]],
    noted: int | None,
) -> list[tuple[Status, Chunk]]:
    """Inside a transaction: take the inputs, draw noise, write state, releases and status.

    A few statements for all streams together. They are in the order of the streams' numbers, in
    which accepting locks rows too.
    """
    database, checkpoint = tools.database, tools.checkpoint
    before = [each.stream._status for each in closings]
    after = [each.stream._after(each.first, len(each.rows)) for each in closings]
    lock_streams(database, [status.id for status in before])
    for each, status in zip(closings, before, strict=True):
        with_persons = noted is not None and status.description.unit.of == "person"
        if with_persons and noted != persons_noted(database, status.id, each.first):
            raise InputError(
                "source must be alone while it feeds this tick, but other events of persons"
                " arrived; run it again"
            )
    taken = take_inputs(database, tools.seal, before)
    checkpoint("inputs taken")
    chunks, changes = [], []
    for each, status, (counter, _) in zip(closings, before, loaded, strict=True):
        each.rows[0] += taken[status.id]
        chunks.append(Chunk(each.first, np.asarray(counter.extend(each.rows), dtype=np.int64)))
        checkpoint("noise drawn")
    for at, (counter, state) in enumerate(loaded):
        changes.append(state.changes(counter))
        after[at] = replace(after[at], digest=state.digest(after[at]))
    write_state(database, changes)
    checkpoint("state written")
    if write_statuses(database, zip(before, after, strict=True)) != len(closings):
        raise closings[0].stream._changed()
    write_chunks(database, zip((status.id for status in before), chunks, strict=True))
    checkpoint("releases written")
    return list(zip(after, chunks, strict=True))


class _Slices:
    """Where to cut ``count`` names, so that the work on each slice is short. At least one slice,
    also without names."""

    def __init__(self, count: int) -> None:
        self._count, self._size, self._begun = count, KEYS_AT_ONCE, 0.0

    def __iter__(self) -> Iterator[slice]:
        stop = 0
        while True:
            start, stop = stop, min(self._count, stop + self._size)
            self._begun = time.monotonic()
            yield slice(start, stop)
            if stop == self._count:
                return

    def done(self) -> None:
        """The work on the slice is done. The next one is smaller if it took too long."""
        took = max(time.monotonic() - self._begun, 1e-6)
        self._size = max(
            1, KEYS_AT_ONCE // 16, min(KEYS_AT_ONCE, int(self._size * STEP_SECONDS / took))
        )


def _check_inputs(inputs: NDArray[np.int64], width: int) -> None:
    if inputs.ndim != 2 or inputs.shape[1] != width or inputs.dtype != np.int64:
        raise InputError(
            f"inputs must be int64 of the shape (ticks, {width}); one column per declared key"
        )
    if inputs.size and int(inputs.min()) < 0:
        raise InputError("counts must not be negative")


def _rows_from(
    inputs: NDArray[np.int64], first: int, begin: int, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """The rows of ``shape[0]`` ticks from ``begin`` on, where ``inputs`` holds those from ``first``
    on; all others are empty."""
    rows = np.zeros(shape, dtype=np.int64)
    low, high = max(begin, first), min(begin + shape[0], first + len(inputs))
    if low < high:
        rows[low - begin : high - begin] = inputs[low - first : high - first]
    return rows
