"""One person's whole day added or removed, through files (both readers), pipes and a stream fed by
hand, over runs that cut the day into parts; and what moves then."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import fadecount as fc
from fadecount.runs import run
from fadecount.sources import Gate, SourceOptions, files
from fadecount.streams import Batch, Description, Store, Ticks, Unit
from tests.streams.backends import BriefStore

HOUR, DAY = 3600, 86400
FIRST = 20_000 * 24
"""The first tick: midnight."""
KEYS = ("a", "b")
EXACT = fc.Blocks(fc.Level(1, 16384.0), fc.Level(24, 16384.0))
Row = tuple[int, str, str]
"""Tick, person, key."""


def rows_of(chance: random.Random, cap: int) -> tuple[list[Row], list[Row]]:
    """Three days of some people; and the same without what one of them did on one day."""
    names = [f"p{at}" for at in range(chance.randint(1, 4))]
    rows = [
        (
            FIRST + chance.randrange(72),
            chance.choice(names),
            chance.choice(KEYS),
        )
        for _ in range(chance.randint(1, 12 * cap))
    ]
    gone, day = chance.choice(names), chance.randrange(3)
    left = [row for row in rows if row[1] != gone or (row[0] - FIRST) // 24 != day]
    return rows, left


def options(cap: int, **changes: object) -> SourceOptions:
    fields = {"tick": "1h", "time": "t", "key": "k", "keys": KEYS, "person": "p"}
    return SourceOptions(**{**fields, "per_person": cap, "person_per": "1d", **changes})  # type: ignore[arg-type]


def csv_of(rows: list[Row]) -> bytes:
    return b"t,p,k\n" + b"".join(f"{at * HOUR},{who},{key}\n".encode() for at, who, key in rows)


def counts_of(store: Store, per: str = "1h") -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The figures of each slot and key: without noise, the counts."""
    published = store.reader().stream("s")
    assert published is not None
    return published.figures(per).values


def moment(tick: int) -> datetime:
    return datetime.fromtimestamp(tick * HOUR, UTC)


def by_files(
    rows: list[Row], cap: int, cuts: list[int], folder: Path, *, plain: bool, keys: int = 1
) -> Store:
    store = BriefStore()
    common: dict[str, Any] = {"gate": Gate(max_left_out=1, allow_gap=True)}
    before = FIRST
    for number, cut in enumerate([*cuts, FIRST + 72]):
        path = folder / f"{plain}{number}.csv"
        path.write_bytes(csv_of([row for row in rows if before <= row[0] < cut]))
        start: dict[str, Any] = {"start": moment(FIRST), "mechanism": EXACT} if number == 0 else {}
        chosen = options(cap, keys_per_person=keys)
        pieces = run(path, chosen, store=store, name="s", until=moment(cut), **common, **start)
        list(pieces)
        before = cut
    return store


def described_as(unit: Unit) -> Description:
    ticks = Ticks(tick_seconds=HOUR)
    return Description(name="s", mechanism=unit.scaled(EXACT), ticks=ticks, unit=unit)


def by_hand(rows: list[Row], cap: int, cuts: list[int], keys: int = 1) -> Store:
    """Events arrive tick by tick, in several ways; after each cut the store is opened again."""
    store = BriefStore()
    described = described_as(Unit(of="person", events=cap, keys=keys, per="1d"))
    stream = store.create(described, keys=KEYS, start_tick=FIRST)
    for tick in range(FIRST, FIRST + 72):
        for number, (_, who, key) in enumerate(row for row in rows if row[0] == tick):
            if number % 3 == 0:
                stream.add({key: 1}, person=who)
            elif number % 3 == 1:
                store.intake("s").add_many([Batch(counts={key: 1}, person=who)])
            else:
                at = np.array([KEYS.index(key)])
                stream.add_rows(at, np.array([1]), [who])
        stream.close_through(tick)
        if tick + 1 in cuts:
            store._database.unlock(stream.status.uid)
            stream = store.open("s")
    return store


def by_pipe(rows: list[Row], cap: int, keys: int = 1) -> Store:
    store = BriefStore()
    chosen = options(cap, time=None, format="jsonl", keys_per_person=keys)

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.left, self.now = iter(sorted(rows)), float(FIRST * HOUR)

        def readline(self, _size: int | None = -1, /) -> bytes:
            row = next(self.left, None)
            if row is None:
                return b""
            self.now = row[0] * HOUR + 1.0
            return json.dumps({"p": row[1], "k": row[2]}).encode() + b"\n"

    pipe = Pipe()
    list(run(pipe, chosen, store=store, name="s", mechanism=EXACT, clock=lambda: pipe.now))
    store._database.unlock(store.reader().status("s").uid)
    store.open("s").close_through(FIRST + 71)
    return store


def violations(seed: int, folder: Path) -> tuple[list[str], bool]:
    """What is wrong with the pair of a seed, and whether the person's day shows at all: figures may
    move by at most the cap, in all, in the person's own day; and however the rows came, the same
    number counts in each day."""
    chance = random.Random(seed)
    cap, keys = chance.randint(1, 4), chance.choice((1, 1, 2))
    rows, left = rows_of(chance, cap)
    cuts = sorted(chance.sample(range(FIRST + 1, FIRST + 72), chance.randint(0, 4)))
    both = []
    for number, some in enumerate((rows, left)):
        place = folder / str(number)
        place.mkdir(parents=True)
        with patch.object(files, "SMALL_BYTES", -1):
            polars = by_files(some, cap, cuts, place, plain=False, keys=keys)
        made = {
            "polars": polars,
            "plain": by_files(some, cap, cuts, place, plain=True, keys=keys),
            "by hand": by_hand(some, cap, cuts, keys),
            "pipe": by_pipe(some, cap, keys),
        }
        both.append(
            {door: (counts_of(store), counts_of(store, "1d")) for door, store in made.items()}
        )
        for store in made.values():
            store.close()
    wrong = []
    for door, (hours, whole) in both[0].items():
        moved = np.abs(hours - both[1][door][0])
        if moved.sum() > cap * keys or np.abs(whole - both[1][door][1]).sum() > cap * keys:
            wrong.append(f"{door}: more than the cap moves")
        if len({*(np.flatnonzero(moved.sum(axis=1)) // 24).tolist()}) > 1:
            wrong.append(f"{door}: another day moves")
    for made_of in both:
        sums = {door: days.sum(axis=1).tolist() for door, (_, days) in made_of.items()}
        if any(each != sums["plain"] for each in sums.values()):
            wrong.append(f"doors differ: {sums}")
    return wrong, len(rows) != len(left)
