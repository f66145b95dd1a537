"""A stream that is being written: events in, ticks closed, releases committed and only then shown."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.counters.parts import counter_of, parts_of, widened
from fadecount.errors import AlreadyReleasedError, ClockError, StoreError
from fadecount.noise import NoiseSource, unpredictable
from fadecount.streams.chunks import CELLS, Chunk, write_chunk
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.description import Description, Place, checked_keys, read_keys, read_place, write_keys
from fadecount.streams.fence import Fence
from fadecount.streams.inputs import Batch, Intake, forget_batches, take_inputs
from fadecount.streams.recovery import published, settled
from fadecount.streams.rows import check_inputs, rows_from
from fadecount.streams.seal import Seal
from fadecount.streams.state import StoredState

LARGEST_GAP = 50_000_000
"""Empty ticks that are closed at once; a wider gap is taken for a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a stream works with."""

    database: Database
    seal: Seal
    fence: Fence | None
    noise: NoiseSource | None
    checkpoint: Checkpoints


class Stream:
    """One stream, open for writing by this process alone.

    Guarantees: a tick is closed once, its inputs are final, and its release is shown only after inputs, new state and
    release were committed together and the fence moved. After an error the state in memory is dropped, and what the store
    says is read again. Calls from several threads are serialized.
    """

    def __init__(self, tools: Tools, name: str, *, accept_extra_loss: bool = False) -> None:
        self._tools = tools
        self._guard = threading.RLock()
        self._place = settled(tools.database, tools.fence, name, tools.checkpoint, accept_extra_loss=accept_extra_loss)
        self._intake = Intake(tools.database, tools.seal, name, checkpoints=tools.checkpoint)
        self._loaded: tuple[Counter, StoredState] | None = None
        self._load()

    @property
    def description(self) -> Description:
        return self._place.description

    @property
    def place(self) -> Place:
        """Where the stream is in time."""
        return self._place

    @property
    def keys(self) -> tuple[str, ...]:
        return read_keys(self._tools.database, self._place.id)

    @property
    def open_tick(self) -> int | None:
        """The tick that events count in now; None before the stream has begun."""
        self._recover()
        return None if self._place.last_tick is None else self._place.last_tick + 1

    @property
    def holds_events(self) -> bool:
        """Whether events have been added to the open tick, by this process or an earlier one."""
        return bool(self._tools.database.query("SELECT 1 FROM inputs WHERE stream = ? LIMIT 1", (self._place.id,)))

    def add(self, counts: Mapping[str, int], *, id: str | None = None) -> bool:  # noqa: A002 - the word for it
        """Count events in the open tick; durable when it returns. False if a batch of this id was counted before."""
        return self._intake.accept([Batch(counts=counts, id=id)])[0]

    def add_many(self, batches: Iterable[Batch]) -> list[bool]:
        """:meth:`add` for several batches in one transaction (group commit)."""
        return self._intake.accept(list(batches))

    def begin(self, tick: int) -> None:
        """Let a new stream begin with this tick, so that events can be added."""
        with self._changing() as (_, state):
            place, tools = self._place, self._tools
            if place.last_tick is not None:
                raise AlreadyReleasedError(f"stream {place.description.name!r} has begun already; it goes on from there")
            place.description.ticks.start(tick)
            with tools.database.transaction():
                tools.database.change(
                    "UPDATE streams SET first_tick = ?, last_tick = ?, published_tick = ? WHERE id = ?",
                    (tick, tick - 1, tick - 1, place.id),
                )
                self._place = state.sign(place.description.name)

    def declare(self, names: Iterable[str]) -> None:
        """Declare more keys. They begin at zero, with noise of the same law as the others."""
        with self._changing() as (counter, state):
            new = checked_keys(names, self.keys)
            place, tools = self._place, self._tools
            mechanism = place.description.mechanism
            with tools.database.transaction():
                self._check_unchanged(place)
                parts = widened(mechanism, parts_of(counter), len(new), tools.noise)
                counter = counter_of(mechanism, parts, tools.noise)
                state.save(counter)
                write_keys(tools.database, place.id, place.width, new)
                tools.database.change("UPDATE streams SET width = ? WHERE id = ?", (len(parts.total), place.id))
                place = state.sign(place.description.name)
                tools.checkpoint("declare written")
            self._loaded, self._place = (counter, state), place

    def close_through(self, tick: int, *, largest_gap: int = LARGEST_GAP) -> list[Chunk]:
        """Close the open tick and every later one up to ``tick``, and return their releases."""
        self._recover()
        nothing = np.empty((0, self._place.width), dtype=np.int64)
        return list(self.release(tick, nothing, largest_gap=largest_gap, through=tick))

    def release(
        self, first_tick: int, inputs: NDArray[np.int64], *, largest_gap: int = LARGEST_GAP, through: int | None = None
    ) -> Iterator[Chunk]:
        """Close all ticks up to ``through`` (by default the last of ``inputs``, which holds a row of counts per tick from
        ``first_tick`` on). Ticks without a row are empty. Events that were added count in the first tick closed here.

        Each chunk that is yielded is committed and published. Stopping between two of them loses nothing.
        """
        begin = first_tick if self.open_tick is None else self.open_tick
        check_inputs(inputs, self._place.width)
        last = first_tick + len(inputs) - 1 if through is None else through
        if len(inputs) and first_tick < begin:
            shown = self.description.ticks.shown
            raise AlreadyReleasedError(
                f"stream {self.description.name!r} is released up to {shown(begin)}, got events from {shown(first_tick)}; "
                "give newer events only"
            )
        if last - len(inputs) - begin >= largest_gap:
            gap = last - len(inputs) - begin + 1
            raise ClockError(f"gap must be at most {largest_gap} empty ticks, got {gap}; check the clock and the times")
        size = max(1, CELLS // self._place.width)
        while begin <= last:
            count = min(size, last - begin + 1)
            yield self._close(begin, rows_from(inputs, first_tick, begin, (count, self._place.width)))
            begin += count

    def _close(self, first: int, rows: NDArray[np.int64]) -> Chunk:
        """One transaction: inputs, state, releases, place; then the fence; then readers may see it."""
        tools, checkpoint = self._tools, self._tools.checkpoint
        with self._changing() as (counter, state):
            place = self._place
            if place.last_tick is not None and first != place.last_tick + 1:
                raise AlreadyReleasedError(f"stream {place.description.name!r} has moved on; close its open tick only")
            last = first + len(rows) - 1
            token, shown = unpredictable(16).hex(), last if tools.fence is None else place.published_tick
            checkpoint("before close")
            with tools.database.transaction():
                self._check_unchanged(place)
                rows[0] += take_inputs(tools.database, tools.seal, place.uid, place.id, place.width)
                checkpoint("inputs taken")
                chunk = Chunk(first, counter.extend(rows))
                checkpoint("noise drawn")
                state.save(counter)
                checkpoint("state written")
                write_chunk(tools.database, place.id, chunk)
                forget_batches(tools.database, place.id, last, place.description.ticks.tick_seconds)
                checkpoint("releases written")
                tools.database.change(
                    "UPDATE streams SET first_tick = COALESCE(first_tick, ?), last_tick = ?, published_tick = ?, steps = ?, "
                    "token = ?, previous_token = ? WHERE id = ?",
                    (first, last, shown, counter.time, token, place.token, place.id),
                )
                state.sign(place.description.name)
                checkpoint("before commit")
            checkpoint("committed")
            self._place = published(tools.database, tools.fence, place.description.name, place.token, checkpoint)
        return chunk

    def _check_unchanged(self, place: Place) -> None:
        """The lock keeps other processes out; this keeps out a second object for the same stream in this one."""
        if read_place(self._tools.database, place.description.name).digest != place.digest:
            raise StoreError(f"stream {place.description.name!r} was changed through another object; try again")

    @contextmanager
    def _changing(self) -> Iterator[tuple[Counter, StoredState]]:
        """Hands out the counter for a change that is stored; if that fails, memory is dropped in favour of the store."""
        with self._guard:
            counter, state = self._loaded or self._load()
            self._loaded = None
            yield counter, state
            if self._loaded is None:
                self._loaded = counter, state

    def _recover(self) -> None:
        """After an error: read again what the store says, before anything is decided by it."""
        with self._guard:
            if self._loaded is None:
                self._load()

    def _load(self) -> tuple[Counter, StoredState]:
        tools = self._tools
        name = self._place.description.name
        self._place = place = settled(tools.database, tools.fence, name, tools.checkpoint)
        state = StoredState(tools.database, tools.seal, place.uid, place.id)
        counter = state.load(place, tools.noise)
        self._loaded = counter, state
        return counter, state
