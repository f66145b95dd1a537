"""One person's day as the protected unit; pairs of days are an intake of their own."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import Unit
from fadecount.runs import run
from fadecount.streams import Description, SQLiteStore, Ticks
from fadecount.streams.inputs import OF_THE_STREAM
from fadecount.streams.loss import StreamLoss
from tests.mechanisms.block_oracles import program_loss, random_design
from tests.neighbours import hidden
from tests.neighbours.days import (
    EXACT,
    FIRST,
    HOUR,
    KEYS,
    by_files,
    counts_of,
    csv_of,
    described_as,
    moment,
    options,
    rows_of,
    violations,
)
from tests.streams.backends import BriefStore


@pytest.mark.parametrize("seed", range(10))
def test_a_persons_day_moves_the_figures_by_at_most_its_cap(seed: int, tmp_path: Path) -> None:
    found, _ = violations(seed, tmp_path)
    assert found == []


@pytest.mark.parametrize("seed", range(4))
def test_a_persons_day_moves_its_own_hidden_keys_by_one(seed: int, tmp_path: Path) -> None:
    found, _ = hidden.violations(seed, tmp_path)
    assert found == []


def test_the_cap_holds_over_runs_files_and_keys_and_keys_of_days_are_destroyed(
    tmp_path: Path,
) -> None:
    """And which events count: the first ones, by the person's own events only."""
    rows = [(FIRST + hour, "ann", KEYS[hour % 2]) for hour in range(24)]
    rows += [(FIRST + 24, "ann", "a"), (FIRST + 5, "bob", "a")]
    store = by_files(rows, 3, [FIRST + 2, FIRST + 7, FIRST + 24], tmp_path, plain=True)
    counts = counts_of(store)
    assert np.argwhere(counts).tolist() == [[0, 0], [1, 1], [2, 0], [5, 0], [24, 0]]
    keys = store._database.query("SELECT block FROM secrets")
    assert len(keys) == 2 and (OF_THE_STREAM,) in keys, "the stream's, and the open day's"
    assert store._database.query("SELECT * FROM persons") == []
    store.close()
    store = by_files(rows, 3, [FIRST + 2], tmp_path, plain=False)
    store.close()


def test_sealed_keys_of_days_follow_the_key_of_the_store(tmp_path: Path) -> None:
    from fadecount.streams import FileFence, Seal

    unit = Unit(of="person", events=2, per="1d")
    described = described_as(unit)
    fence, path = FileFence(tmp_path / "fence"), tmp_path / "state" / "streams.db"
    seal = Seal(b"k" * 32)
    with SQLiteStore(path, fence=fence, seal=seal) as store:
        stream = store.create(described, start_tick=FIRST)
        stream.add({"all": 1}, person="ann")
        stream.close_through(FIRST)
    with SQLiteStore(path, fence=fence, seal=seal) as store:
        store.rotate(Seal())
    with SQLiteStore(path, fence=fence) as store:
        stream = store.open("s")
        for _ in range(3):
            stream.add({"all": 1}, person="ann")
        stream.close_through(FIRST + 1)
        assert counts_of(store).ravel().tolist() == [1, 1]
        sql = "SELECT block, body FROM secrets ORDER BY block"
        key, secret = store._database.query(sql)
        stream.close_through(FIRST + 23)
        for _ in range(3):
            stream.add({"all": 1}, person="ann")
        other, same = store._database.query(sql)
        assert other[0] == key[0] + 1 and other[1] != key[1] and same == secret


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
        stated = StreamLoss(mechanism=mechanism, sensitivity=cap).at_age(now - day).epsilon
        assert exact <= stated + 1e-6


@pytest.mark.parametrize("keys", [1, 2])
def test_distinct_persons_are_counted_exactly(keys: int, tmp_path: Path) -> None:
    """Each once a day (and key), by the first event; against sets."""
    chance = random.Random(keys)
    for number in range(3):
        rows, _ = rows_of(chance, 3)
        folder = tmp_path / str(number)
        folder.mkdir()
        store = by_files(rows, 1, [FIRST + 30], folder, plain=number == 0, keys_per_person=keys)
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
