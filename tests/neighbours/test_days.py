"""One person's whole day added or removed: everything published moves by at most the cap, in all,
in the person's own day; through files (both readers), pipes, live runs, a stream fed by hand, a
service, and over runs that cut the day into parts."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.runs import run
from fadecount.sources import Gate, SourceOptions, files
from fadecount.streams import Batch, Description, SQLiteStore, Store, Ticks, Unit
from fadecount.streams.forks import StreamLoss
from tests.mechanisms.block_oracles import program_loss, random_design
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


def check(one: Store, other: Store, cap: int, gone_day: int | None = None) -> None:
    there, here = counts_of(one), counts_of(other)
    moved = np.abs(there - here)
    assert moved.sum() <= cap
    days = np.flatnonzero(moved.sum(axis=1)) // 24
    assert len({*days.tolist()}) <= 1
    day = counts_of(one, "1d") - counts_of(other, "1d")
    assert np.abs(day).sum() <= cap and gone_day in (None, *days.tolist())


@pytest.mark.parametrize("seed", range(16))
def test_a_persons_day_moves_the_figures_by_at_most_its_cap(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    cap = chance.randint(1, 4)
    keys = chance.choice((1, 1, 2))
    rows, left = rows_of(chance, cap)
    cuts = sorted(chance.sample(range(FIRST + 1, FIRST + 72), chance.randint(0, 4)))
    stores = []
    for number, some in enumerate((rows, left)):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkey = pytest.MonkeyPatch()
        monkey.setattr(files, "SMALL_BYTES", -1)  # polars
        stores.append(
            [
                by_files(some, cap, cuts, folder, plain=False, keys=keys),
                by_hand(some, cap, cuts, keys),
                by_pipe(some, cap, keys),
            ]
        )
        monkey.undo()
        stores[-1].append(by_files(some, cap, cuts, folder, plain=True, keys=keys))
    for with_day, without in zip(*stores, strict=True):
        check(with_day, without, cap * keys)
    # however the rows came, the same number counts in each day
    for made in stores:
        sums = [counts_of(store).reshape(3, 24, 2).sum(axis=(1, 2)).tolist() for store in made]
        assert all(each == sums[0] for each in sums)
    for made in stores:
        for store in made:
            store.close()


def test_the_cap_holds_over_runs_files_and_keys_and_keys_of_days_are_destroyed(
    tmp_path: Path,
) -> None:
    """And which events count: the first ones, by the person's own events only."""
    rows = [(FIRST + hour, "ann", KEYS[hour % 2]) for hour in range(24)]
    rows += [(FIRST + 24, "ann", "a"), (FIRST + 5, "bob", "a")]
    store = by_files(rows, 3, [FIRST + 2, FIRST + 7, FIRST + 24], tmp_path, plain=True)
    counts = counts_of(store)
    assert np.argwhere(counts).tolist() == [[0, 0], [1, 1], [2, 0], [5, 0], [24, 0]]
    keys = store._database.query("SELECT block FROM block_keys")
    assert keys == [], "the last day is over"
    assert store._database.query("SELECT * FROM persons") == []
    store.close()
    store = by_files(rows, 3, [FIRST + 2], tmp_path, plain=False)
    store.close()


def test_sealed_keys_of_days_follow_the_key_of_the_store(tmp_path: Path) -> None:
    from fadecount.streams import FileFence, Plain, Sealed

    unit = Unit(of="person", events=2, per="1d")
    described = described_as(unit)
    fence, path = FileFence(tmp_path / "fence"), tmp_path / "state" / "streams.db"
    seal = Sealed(bytes(32))
    with SQLiteStore(path, fence=fence, seal=seal) as store:
        stream = store.create(described, start_tick=FIRST)
        stream.add({"all": 1}, person="ann")
        stream.close_through(FIRST)
    with SQLiteStore(path, fence=fence, seal=seal) as store:
        store.rotate(Plain())
    with SQLiteStore(path, fence=fence) as store:
        stream = store.open("s")
        for _ in range(3):
            stream.add({"all": 1}, person="ann")
        stream.close_through(FIRST + 1)
        assert counts_of(store).ravel().tolist() == [1, 1]
        ((_, secret),) = store._database.query("SELECT block, secret FROM block_keys")
        stream.close_through(FIRST + 23)
        assert store._database.query("SELECT * FROM block_keys") == []
        for _ in range(3):
            stream.add({"all": 1}, person="ann")
        ((_, other),) = store._database.query("SELECT block, secret FROM block_keys")
        assert secret != other


def test_ages_of_a_persons_day_count_from_its_start() -> None:
    store = BriefStore()
    unit = Unit(of="person", events=2, per="1d")
    levels = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 1.0, lag=25))
    described = Description(name="s", mechanism=levels, ticks=Ticks(tick_seconds=HOUR), unit=unit)
    store.create(described, start_tick=FIRST).close_through(FIRST + 30)
    loss = store.reader().loss
    assert loss("s", FIRST) == loss("s", FIRST + 23) == 2 * 1.5
    assert loss("s", FIRST + 24) == loss("s", FIRST + 30) == 2 * 0.5
    store.close()


@pytest.mark.parametrize("seed", range(60))
def test_no_events_of_a_day_lose_more_than_the_cap_at_the_age_of_the_day(seed: int) -> None:
    """Against linear programs of the single events, whose losses add up at most."""
    chance = random.Random(seed)
    mechanism, cap = random_design(chance), chance.randint(1, 3)
    day, length = chance.randint(1, 8), chance.randint(1, 6)
    events = [chance.randrange(day, day + length) for _ in range(cap)]
    for now in sorted(chance.sample(range(day, day + 16), 4)):
        exact = sum(program_loss(mechanism, each, now) for each in events if each <= now) / 1e6
        stated = StreamLoss(mechanism=mechanism, sensitivity=cap, steps=now).of_step(day).epsilon
        assert exact <= stated + 1e-6


@pytest.mark.parametrize("keys", [1, 2])
def test_distinct_persons_are_counted_exactly(keys: int, tmp_path: Path) -> None:
    """Each once a day (and key), by the first event; against sets."""
    chance = random.Random(keys)
    for number in range(3):
        rows, _ = rows_of(chance, 3)
        folder = tmp_path / str(number)
        folder.mkdir()
        store = by_files(rows, 1, [FIRST + 30], folder, plain=number == 0, keys=keys)
        figures = counts_of(store, "1d")
        for day in range(3):
            seen = {(who, key) for at, who, key in rows if (at - FIRST) // 24 == day}
            if keys == 1:
                assert figures[day].sum() == len({who for who, _ in seen})
            else:
                assert figures[day].tolist() == [
                    sum(key == each for _, key in seen) for each in KEYS
                ]
        store.close()


def test_a_day_is_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed in the middle of a day has released nothing of it."""
    monkeypatch.setattr("fadecount.streams.stream.CELLS", 8)  # four ticks of two keys
    rows = [(FIRST + hour, "ann", "a") for hour in range(48)]
    path = tmp_path / "ann.csv"
    path.write_bytes(csv_of(rows))
    store = BriefStore()
    whole = {"store": store, "name": "s", "mechanism": EXACT, "start": moment(FIRST)}
    pieces = run(path, options(3), until=moment(FIRST + 47), **whole)  # type: ignore[arg-type]
    assert [(each.first_tick - FIRST, each.last_tick - FIRST) for each in pieces] == [
        (0, 23),
        (24, 46),
    ]
    assert np.argwhere(counts_of(store))[:, 0].tolist() == [0, 1, 2, 24, 25, 26]
    store.close()
    monkeypatch.setattr("fadecount.runs.LARGEST_DAY", 10)
    with pytest.raises(ParameterError, match="ticks of a day times keys"):
        list(run(path, options(3), until=moment(FIRST + 47), mechanism=EXACT))
