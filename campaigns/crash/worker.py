"""One life of a process that writes to a stream until it is killed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

import fadecount as fc
from campaigns.crash.journal import Journal, JournalNoise
from fadecount.streams import (
    Batch,
    Description,
    FileFence,
    PostgresStore,
    Reader,
    ReadPosition,
    SQLiteStore,
    Store,
    Stream,
    Ticks,
    Unit,
    inputs,
)
from fadecount.streams.database import Checkpoints

STEPS = (
    "before accept",
    "accept written",
    "accept committed",
    "before close",
    "inputs taken",
    "noise drawn",
    "state written",
    "figures written",
    "before commit",
    "committed",
    "fence written",
    "fence synced",
    "fenced",
    "before publish",
    "published",
    "declare written",
)
MECHANISMS = (
    fc.Gradual(epsilon=0.5, delay=2),
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Refresh(window=5, epsilon_current=0.5, epsilon_past=0.25),
    fc.Linear(epsilon=0.5),
    fc.Binary(epsilon=1.0, horizon=1 << 20),
    fc.Gaussian(sigma=3.0, half_lives=(20, 1), weights=(0.01, 0.29, 0.7), delay=1),
)
UNITS = (Unit(), Unit(of="person", events=300), Unit(of="person", events=150, keys=2))
"""The caps are reached: a batch holds up to 510 events of one of three persons, under two keys."""

NAME, FIRST_TICK, SOURCE = "doors", 1000, "journal"
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

    def open(self, checkpoints: Checkpoints) -> Store:
        fence = FileFence(self.folder / "fence", checkpoint=checkpoints)
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

    @property
    def journal(self) -> Path:
        return self.folder / "journal"


class Killer(Checkpoints):
    """Kills its own process, as hard as anybody can, at the n-th passing of a step."""

    def __init__(self, step: str | None, passing: int) -> None:
        self.step, self._left = step, passing

    def __call__(self, step: str) -> None:
        if step == self.step:
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
    step: str | None,
    passing: int,
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
        _live(site, journal, Killer(step, passing), unanswered, next_batch, operations, seed)
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
    if NAME in store.names():
        stream = store.open(NAME)
    else:
        description = Description(
            name=NAME, mechanism=site.mechanism, ticks=Ticks(tick_seconds=60), unit=site.unit
        )
        stream = store.create(description, keys=["key0", "key1"], start_tick=FIRST_TICK)
    read = (stream.position(SOURCE) or b"").decode()
    journal.write("opened", steps=stream.status.steps, width=stream.status.width, position=read)
    sender = _Sender(stream, journal, noise)
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
            sender.close(chance.choice((1, 1, 1, 2, 9)))
        elif stream.status.width < MOST_KEYS and (killer.step == "declare written" or what > 0.997):
            sender.declare()
    store.close()


class _Sender:
    def __init__(self, stream: Stream, journal: Journal, noise: JournalNoise) -> None:
        self._stream, self._journal, self._noise = stream, journal, noise

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
        values = [
            row for closed in self._stream.close_through(last) for row in closed.values.tolist()
        ]
        self._journal.write("closed", steps=self._stream.status.steps, values=values)

    def declare(self) -> None:
        width = self._stream.status.width
        self._noise.first_column = width
        self._journal.write("declaring", width=width)
        self._stream.declare([f"key{width}"])
        self._noise.first_column = 0
        self._journal.write("declared", width=width + 1)
