"""One person's whole hour, day or month added or removed, through files (both readers), pipes and a
stream fed by hand, over runs that cut the day into parts; and what moves then."""

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
from fadecount.mechanisms import Unit
from fadecount.runs import run
from fadecount.sources import Gate, SourceOptions, files
from fadecount.streams import Batch, Description, Store, Ticks
from tests.streams.backends import BriefStore
from tests.streams.rows import add_rows

HOUR, DAY = 3600, 86400
FIRST = 20_027 * 24
"""The first tick: midnight before the last day of a month."""
SLOTS = {"1h": 1, "1d": 24, "1mo": 24}
"""How many ticks have passed in the first slot of each unit when it ends."""
KEYS = ("a", "b")
EXACT = fc.Blocks(fc.Level(1, 16384.0), fc.Level(24, 16384.0))
Row = tuple[Any, ...]
"""Tick, person, key and, if it is not 1, the amount."""


def slot_of(tick: int, per: str) -> int:
    """The hour, day or month of a tick."""
    passed = tick - FIRST
    return int(passed >= 24) if per == "1mo" else passed // SLOTS[per]


def rows_of(
    chance: random.Random, cap: int, per: str = "1d", most: int = 1
) -> tuple[list[Row], list[Row]]:
    """Three days of some people; and the same without what one of them did in one slot. Amounts
    are up to twice what counts."""
    names = [f"p{at}" for at in range(chance.randint(1, 4))]
    rows: list[Row] = [
        (
            FIRST + chance.randrange(72),
            chance.choice(names),
            chance.choice(KEYS),
            *([chance.randint(1, 2 * most)] if most > 1 else []),
        )
        for _ in range(chance.randint(1, 12 * cap))
    ]
    gone = chance.choice(rows)
    same = gone[1], slot_of(gone[0], per)
    return rows, [row for row in rows if (row[1], slot_of(row[0], per)) != same]


def options(cap: int, **changes: object) -> SourceOptions:
    fields = {"tick": "1h", "time": "t", "key": "k", "keys": KEYS, "person": "p", "amount": "n"}
    return SourceOptions(**{**fields, "per_person": cap, "person_per": "1d", **changes})  # type: ignore[arg-type]


def csv_of(rows: list[Row]) -> bytes:
    lines = (f"{at * HOUR},{who},{key},{[*more, 1][0]}\n" for at, who, key, *more in rows)
    return "".join(["t,p,k,n\n", *lines]).encode()


def counts_of(store: Store, per: str = "1h") -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The figures of each slot and key: without noise, the counts."""
    published = store.reader().stream("s")
    assert published is not None
    return published.figures(per).values


def moment(tick: int) -> datetime:
    return datetime.fromtimestamp(tick * HOUR, UTC)


def by_files(
    rows: list[Row], cap: int, cuts: list[int], folder: Path, *, plain: bool, **unit: Any
) -> Store:
    store = BriefStore()
    common: dict[str, Any] = {"gate": Gate(max_left_out=1, allow_gap=True)}
    before = FIRST
    for number, cut in enumerate([*cuts, FIRST + 72]):
        path = folder / f"{plain}{number}.csv"
        path.write_bytes(csv_of([row for row in rows if before <= row[0] < cut]))
        start: dict[str, Any] = {"start": moment(FIRST), "mechanism": EXACT} if number == 0 else {}
        chosen = options(cap, **unit)
        pieces = run(path, chosen, store=store, name="s", until=moment(cut), **common, **start)
        list(pieces)
        before = cut
    return store


def described_as(unit: Unit) -> Description:
    ticks = Ticks(tick_seconds=HOUR)
    return Description(name="s", mechanism=unit.scaled(EXACT), ticks=ticks, unit=unit)


def by_hand(rows: list[Row], cap: int, cuts: list[int], **unit: Any) -> Store:
    """Events arrive tick by tick, in several ways; after each cut the store is opened again."""
    store = BriefStore()
    described = described_as(options(cap, **unit).unit)
    stream = store.create(described, keys=KEYS, start_tick=FIRST)
    for tick in range(FIRST, FIRST + 72):
        for number, (_, who, key, *more) in enumerate(row for row in rows if row[0] == tick):
            amount = [*more, 1][0]
            if number % 3 == 0:
                stream.add({key: amount}, person=who)
            elif number % 3 == 1:
                store.intake("s").add_many([Batch(counts={key: amount}, person=who)])
            else:
                add_rows(stream, [KEYS.index(key)], [amount], [who])
        stream.close_through(tick)
        if tick + 1 in cuts:
            store._database.unlock(stream.status.uid)
            stream = store.open("s")
    return store


def by_pipe(rows: list[Row], cap: int, **unit: Any) -> Store:
    store = BriefStore()
    chosen = options(cap, time=None, format="jsonl", **unit)

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.left = iter(sorted(rows, key=lambda row: row[0]))
            self.now = float(FIRST * HOUR)

        def readline(self, _size: int | None = -1, /) -> bytes:
            row = next(self.left, None)
            if row is None:
                return b""
            self.now = row[0] * HOUR + 1.0
            return json.dumps({"p": row[1], "k": row[2], "n": [*row[3:], 1][0]}).encode() + b"\n"

    pipe = Pipe()
    list(run(pipe, chosen, store=store, name="s", mechanism=EXACT, clock=lambda: pipe.now))
    store._database.unlock(store.reader().status("s").uid)
    store.open("s").close_through(FIRST + 71)
    return store


def violations(seed: int, folder: Path) -> tuple[list[str], bool]:
    """What is wrong with the pair of a seed, and whether the person's slot shows at all: figures
    may move by at most the cap, in all, in the person's own slot; and however the rows came, the
    same counts in each slot. With a cap of 1 and no amounts these are distinct persons."""
    chance = random.Random(seed)
    cap, keys, most = chance.randint(1, 4), chance.choice((1, 1, 2)), chance.choice((1, 1, 5))
    per = chance.choice(list(SLOTS))
    unit = {"keys_per_person": keys, "person_per": per, "max_amount": most}
    rows, left = rows_of(chance, cap, per, most)
    cuts = sorted(chance.sample(range(FIRST + 1, FIRST + 72), chance.randint(0, 4)))
    if most > 1:  # doors take the rows of a tick in one order, or other amounts count
        rows.sort(key=lambda row: row[0])
        left.sort(key=lambda row: row[0])
    both = []
    for number, some in enumerate((rows, left)):
        place = folder / str(number)
        place.mkdir(parents=True)
        with patch.object(files, "SMALL_BYTES", -1):
            polars = by_files(some, cap, cuts, place, plain=False, **unit)
        made = {
            "polars": polars,
            "plain": by_files(some, cap, cuts, place, plain=True, **unit),
            "by hand": by_hand(some, cap, cuts, **unit),
            "pipe": by_pipe(some, cap, **unit),
        }
        both.append({door: counts_of(store) for door, store in made.items()})
        for store in made.values():
            store.close()
    wrong = []
    limit = cap * keys * most
    slots = np.array([slot_of(FIRST + tick, per) for tick in range(72)])
    days = np.arange(72) // 24
    for door, hours in both[0].items():
        moved = hours - both[1][door]
        in_days = [np.abs(moved[days == day].sum(axis=0)).sum() for day in range(3)]
        if np.abs(moved).sum() > limit or sum(in_days) > limit:
            wrong.append(f"{door}: more than the cap moves")
        if len({*slots[np.abs(moved).sum(axis=1) > 0].tolist()}) > 1:
            wrong.append(f"{door}: another slot moves")
    for made_of, some in zip(both, (rows, left), strict=True):
        sums = {
            door: [int(hours[slots == slot].sum()) for slot in range(slots[-1] + 1)]
            for door, hours in made_of.items()
        }
        if any(each != sums["plain"] for each in sums.values()):
            wrong.append(f"doors differ: {sums}")
        if (cap, keys, most) == (1, 1, 1):
            seen = {(slot_of(row[0], per), row[1]) for row in some}
            exact = [sum(slot == each for slot, _ in seen) for each in range(slots[-1] + 1)]
            if sums["plain"] != exact:
                wrong.append(f"not the distinct persons: {sums['plain']}, {exact}")
    return wrong, len(rows) != len(left)
