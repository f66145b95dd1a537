"""One life of a process that writes to a stream until it is killed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import traceback
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.counters.block_reference import NamedNoise

import fadecount as fc
from campaigns.crash.journal import Journal, JournalNoise
from fadecount.calendar import Calendar, level_calendar
from fadecount.errors import StoreError
from fadecount.mechanisms import Unit
from fadecount.streams import (
    Batch,
    Description,
    FileFence,
    PostgresStore,
    Reader,
    SQLiteStore,
    Store,
    Stream,
    Ticks,
    inputs,
)
from fadecount.streams.database import Checkpoints, Database
from fadecount.streams.figures import Closed
from fadecount.streams.inputs import ReadPosition
from fadecount.streams.sqlite import SQLiteConnection
from fadecount.streams.stream import close_together

STEPS = (
    "before accept",
    "accept written",
    "accept committed",
    "before close",
    "inputs taken",
    "noise drawn",
    "state written",
    "before commit",
    "committed",
    "fence written",
    "fence synced",
    "fenced",
    "published",
    "declare written",
)
MECHANISMS = (
    fc.Gradual(epsilon=0.5, delay=2),
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Refresh(window=5, epsilon_current=0.5, epsilon_past=0.25),
    fc.Linear(epsilon=0.5),
    fc.Binary(epsilon=1.0, horizon=1 << 20),
)
BLOCKS = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(5, 0.5),
    fc.Level(10, 0.5, lag=3),
    fc.Level(60, 0.5, lag=3, later=((20, 1.0),)),
)
"""Lags and a later stage: something ends or becomes public in most ticks."""
EVENTS = ("end", "publication")
"""What may happen in a tick of a stream of blocks: an hour ends, a figure comes out of the
embargo."""
UNITS = (Unit(), Unit(of="person", events=300), Unit(of="person", events=150, keys=2))
"""The caps are reached: a batch holds up to 510 events of one of three persons, under two keys."""

NAME, BESIDE, FIRST_TICK, SOURCE = "doors", "beside", 1000, "journal"
FOLD_BYTES = 1500
"""So small that what is accepted is added up in every tick of some length."""

MOST_KEYS = 30


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where one store of the campaign lives; ``url`` is None for SQLite."""

    folder: Path
    mechanism: fc.Mechanism
    unit: Unit = UNITS[0]
    url: str | None = None
    named: bool = False
    """Of streams of blocks: noise that follows from its name, so that every figure is known; else
    real noise."""

    def open(self, checkpoints: Checkpoints) -> Store:
        fence = FileFence(self.folder / "fence")
        fence.checkpoint = checkpoints
        if self.url is None:
            store: Store = SQLiteStore(self.folder / "state" / "streams.db", fence=fence)
        else:
            store = PostgresStore(self.url, fence=fence, lock_wait_seconds=20.0)
        store._context.checkpoint = checkpoints
        return store

    def reader(self) -> Reader:
        return (
            Reader.of_file(self.folder / "state" / "streams.db")
            if self.url is None
            else Reader.of_server(self.url)
        )

    def open_database(self) -> AbstractContextManager[Database]:
        """A connection that reads every table, also those that readers may not."""
        if self.url is None:
            path = self.folder / "state" / "streams.db"
            if not path.exists():
                raise StoreError("there is no store yet")
            return closing(SQLiteConnection(path, pragmas=("PRAGMA query_only = ON",)))
        from fadecount.streams.postgres import PostgresDatabase

        return closing(PostgresDatabase(self.url, writes=False))

    @property
    def journal(self) -> Path:
        return self.folder / "journal"


class Killer(Checkpoints):
    """Kills its own process, as hard as anybody can, at the n-th passing of a step; where an event
    is wanted, only while ticks are closed in which it happens."""

    def __init__(self, step: str | None, passing: int, event: str | None = None) -> None:
        self.step, self.event, self._left = step, event, passing
        self.happening: set[str] = set()

    def __call__(self, step: str) -> None:
        if step == self.step and (self.event is None or self.event in self.happening):
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


def position_of(ids: list[str]) -> str:
    """How far the source has been read once these batches are accepted."""
    return ",".join(ids)


def counts_of(batch: str, keys: int) -> dict[str, int]:
    """What a batch holds follows from its id."""
    digest = hashlib.blake2b(batch.encode(), digest_size=8).digest()
    return {f"key{at}": digest[at % 8] for at in range(keys)}


def person_of(batch: str, unit: Unit) -> str | None:
    """Whose events a batch holds, where the stream protects persons."""
    return f"person{sum(batch.encode()) % 3}" if unit.of == "person" else None


def live(
    site: Site,
    killer: Killer,
    unanswered: list[str],
    next_batch: int,
    operations: int,
    seed: int,
) -> None:
    """Open the store, repeat what was not answered, then go on: batches, ticks, gaps, new keys,
    repeated ids."""
    journal = Journal(site.journal)
    inputs.FOLD_BYTES = FOLD_BYTES
    try:
        _live(site, journal, killer, unanswered, next_batch, operations, seed)
    except BaseException:
        journal.write("failed", reason=traceback.format_exc())
        os._exit(1)
    os._exit(0)


def _live(
    site: Site,
    journal: Journal,
    killer: Killer,
    unanswered: list[str],
    next_batch: int,
    operations: int,
    seed: int,
) -> None:
    store, noise = site.open(killer), JournalNoise(journal)
    store._context.noise = noise
    blocks = isinstance(site.mechanism, fc.Blocks)
    if blocks:
        store._context.noise = NamedNoise(spread=10**6) if site.named else None
    stream = _stream(store, NAME, site.mechanism, site.unit)
    beside = _stream(store, BESIDE, fc.Gradual(epsilon=2.0**14), Unit()) if blocks else None
    read = (stream.position(SOURCE) or b"").decode()
    journal.write("opened", steps=stream.status.steps, width=stream.status.width, position=read)
    if beside is not None:
        assert beside.status.steps == stream.status.steps, "closed in one transaction"
    sender = _Sender(stream, beside, journal, noise, killer)
    sender.send(unanswered)
    chance = random.Random(seed)
    for _ in range(operations):
        what = chance.random()
        if what < 0.55:
            group = [f"b{next_batch + at}" for at in range(chance.choice((1, 1, 3)))]
            next_batch += len(group)
            sender.send(group)
        elif what < 0.62 and next_batch > 10:
            sender.send([f"b{next_batch - 5}"])
        elif what < 0.96 and killer.step != "declare written":
            ticks = chance.choice((1, 1, 1, 2, 9))
            if killer.event is not None and chance.random() < 0.5:
                ticks = _until(killer.event, stream.status.steps)
            sender.close(ticks)
        elif stream.status.width < MOST_KEYS and (killer.step == "declare written" or what > 0.997):
            sender.declare()
    store.close()


def _stream(store: Store, name: str, mechanism: fc.Mechanism, unit: Unit) -> Stream:
    if name in store.names():
        return store.open(name)
    description = Description(
        name=name, mechanism=mechanism, ticks=Ticks(tick_seconds=60), unit=unit
    )
    return store.create(description, keys=["key0", "key1"], start_tick=FIRST_TICK)


def happening(first: int, last: int) -> set[str]:
    """What happens in the steps ``first .. last`` of a stream of ``BLOCKS``."""
    dates = calendar_of(last + 100)
    events = set()
    if len(dates.edges(3, first - 1, last)):
        events.add("end")
    for number, level in enumerate(BLOCKS.levels):
        for stage in level.stages:
            begin, end = max(0, first - 1 - stage.lag), max(0, last - stage.lag)
            if stage.lag and len(dates.edges(number, begin, end)):
                events.add("publication")
    return events


def _until(event: str, steps: int) -> int:
    """How many ticks are closed so that an event happens in the last one."""
    return next(
        ticks for ticks in range(1, 1000) if event in happening(steps + ticks, steps + ticks)
    )


def calendar_of(steps: int) -> Calendar:
    """The calendar of streams of blocks, far enough for so many steps."""
    return _calendar(-(-steps // 1000))


@lru_cache
def _calendar(thousands: int) -> Calendar:
    new = level_calendar(BLOCKS.lengths, Ticks(tick_seconds=60), FIRST_TICK)
    return new.reaching(1000 * thousands)


class _Sender:
    def __init__(
        self,
        stream: Stream,
        beside: Stream | None,
        journal: Journal,
        noise: JournalNoise,
        killer: Killer,
    ) -> None:
        self._stream, self._beside, self._killer = stream, beside, killer
        self._journal, self._noise = journal, noise

    def send(self, ids: list[str]) -> None:
        if ids:
            width = self._stream.status.width
            self._journal.write("sent", ids=ids)
            unit = self._stream.description.unit
            batches = [
                Batch(counts=counts_of(each, 2), id=each, person=person_of(each, unit))
                for each in ids
            ]
            fresh = self._stream.add_many(
                batches, position=ReadPosition(source=SOURCE, body=position_of(ids).encode())
            )
            self._journal.write("answered", ids=ids, fresh=fresh, width=width)

    def close(self, ticks: int) -> None:
        last = (self._stream.open_tick or 0) + ticks - 1
        self._journal.write("closing", last=last)
        if self._beside is None:
            values = [
                row for closed in self._stream.close_through(last) for row in closed.values.tolist()
            ]
        else:
            steps = self._stream.status.steps
            self._killer.happening = happening(steps + 1, steps + ticks)
            closed, _ = close_together([(each, last) for each in (self._stream, self._beside)])
            assert isinstance(closed, Closed)
            self._stream.drop_old_rows()
            values = [
                [row.level, row.stage, row.first_tick, row.end_tick, row.values.tolist()]
                for row in closed.figures
            ]
            self._killer.happening = set()
        self._journal.write("closed", steps=self._stream.status.steps, values=values)

    def declare(self) -> None:
        width = self._stream.status.width
        self._noise.first_column = width
        self._journal.write("declaring", width=width)
        self._stream.declare([f"key{width}"])
        self._noise.first_column = 0
        self._journal.write("declared", width=width + 1)
