"""The caps of persons in bulk against the reader that takes row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadecount.sources import SourceOptions, SourceReport
from fadecount.sources.files import Earlier, People, TickBatch, read_plain
from fadecount.streams.inputs import person_digest
from tests.sources.test_plain import written

pl = pytest.importorskip("polars")
from fadecount.sources import caps, frames  # noqa: E402 (polars may be missing)

KEY = b"k" * 32
DAYS = range(3)
UNITS: list[dict[str, Any]] = [
    {"per_person": 1},
    {"per_person": 3},
    {"per_person": 3, "person_per": "tick"},
    {"per_person": 2, "amount": "n", "max_amount": 4},
    {"per_person": 2, "key": "key", "keys": tuple("01234")},
    {"per_person": 2, "key": "key", "keys": tuple("01234"), "keys_per_person": 2},
    {"per_person": 2, "key": "key", "keys": ("1", "9"), "other": "9", "keys_per_person": 3},
    {"key": "key", "keys": "discover"},
    {"key": "key", "keys": ("1", "2"), "discover": True, "keys_per_person": 3},
    {"per_person": 2, "key": "key", "keys": ("1",), "discover": True, "keys_per_person": 2},
]


def file_of(folder: Path, seed: int, rows: int = 1500) -> Path:
    """Rows of 40 persons on three days, some of them bad."""
    drawn = np.random.default_rng(seed).integers(0, [3 * 86_400, 5, 9, 40, 50], (rows, 5))
    lines = [
        f"{moment},{key},{n},{f'person number {who}' if bad else ''}"
        for moment, key, n, who, bad in drawn.tolist()
    ]
    return written(folder, "\n".join(["time,key,n,who", *lines]))


def counted_before(persons: Any, _keys: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What an earlier run counted: of every third person something."""
    some = {person_digest(f"person number {who}", KEY): who % 3 for who in range(0, 40, 3)}
    return np.array([some.get(person, 0) for person in persons], dtype=np.int64)


def outcome(path: Path, chosen: SourceOptions, *, fast: bool, before: bool) -> object:
    """Everything that a run learns from a file."""
    report = SourceReport()
    people = People(chosen, Earlier(key=KEY, counted=counted_before, any=before))
    batches: list[TickBatch]
    if fast:
        batches = list(frames.read_csv(path, chosen, report, people))
        assert people.counted_in_bulk is not None
    else:
        batches = list(read_plain(path, "csv", chosen, report, people))
    sums = [
        row
        for batch in batches
        for row in zip(
            *(each.tolist() for each in (batch.ticks, batch.keys, batch.counts)), strict=True
        )
    ]
    ticks = [24 * day for day in DAYS]
    return sums, report, [(people.in_day(tick), people.hidden_in(tick)) for tick in ticks]


@pytest.mark.parametrize("rows_at_once", [1, 200, 10**6])
@pytest.mark.parametrize("number", range(len(UNITS)))
def test_pieces_of_a_file_are_capped_as_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, rows_at_once: int
) -> None:
    monkeypatch.setattr(frames, "ROWS_PER_BLOCK", 100)
    monkeypatch.setattr(frames, "ROWS_AT_ONCE", rows_at_once)
    path = file_of(tmp_path, number)
    unit = {"tick": "1h", "time": "time", "time_unit": "s", "person": "who", "person_per": "1d"}
    chosen = SourceOptions(**{**unit, "first_tick": 0, **UNITS[number]})
    for before in (False, True) if chosen.unit.keys == 1 else (False,):
        alike = [outcome(path, chosen, fast=fast, before=before) for fast in (True, False)]
        assert alike[0] == alike[1]


@pytest.mark.parametrize("number", [1, 5, 8])
def test_persons_whose_hashes_are_equal_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(frames, "ROWS_PER_BLOCK", 300)
    monkeypatch.setattr(frames, "ROWS_AT_ONCE", 300)
    monkeypatch.setattr(caps, "_ODD", np.uint64(0))  # those of days, too
    few = lambda names, _seed: names.str.len_bytes().cast(pl.UInt64) * (1 << 59)  # noqa: E731
    monkeypatch.setattr(pl.Series, "hash", few)
    path = file_of(tmp_path, number)
    unit = {"tick": "1h", "time": "time", "time_unit": "s", "person": "who", "person_per": "1d"}
    chosen = SourceOptions(**{**unit, **UNITS[number]})
    fast, plain = (outcome(path, chosen, fast=fast, before=False) for fast in (True, False))
    assert fast == plain


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.text("ab", max_size=2), st.integers(-1, 1), st.integers(0, 3))))
def test_rows_are_together_exactly_if_person_and_block_are_the_same(
    rows: list[tuple[str, int, int]],
) -> None:
    names = pl.Series([f"a name of many letters {name}" for name, _, _ in rows], dtype=pl.String)
    blocks = np.array([block for _, block, _ in rows], dtype=np.int64)
    coarse: dict[tuple[str, int], int] = {}  # one number for a person and block; some share one
    numbers = [coarse.setdefault((name, block), number) for name, block, number in rows]
    order, begins = caps._checked(names, blocks, *caps._together(np.array(numbers, dtype=np.int64)))
    runs = np.split(order, begins[1:]) if len(rows) else []
    wanted: dict[tuple[str, int], list[int]] = {}
    for at, (name, block, _) in enumerate(rows):
        wanted.setdefault((name, block), []).append(at)
    assert sorted(run.tolist() for run in runs) == sorted(wanted.values())


@pytest.mark.parametrize("largest", [3, 1 << 40, 1 << 63])
def test_numbers_of_any_size_come_together(largest: int) -> None:
    numbers = np.array([largest, 0, 1, 0, largest], dtype=np.uint64)
    order, begins = caps._together(numbers)
    assert (order.tolist(), begins.tolist()) == ([1, 3, 2, 0, 4], [0, 2, 3])


def test_pairs_of_times_far_apart_do_not_wrap() -> None:
    first = np.array([-(1 << 40), 1 << 40, (1 << 40) + 1, 1 << 40], dtype=np.int64)
    second = np.array([1 << 30, 5, 5, 5], dtype=np.int64)
    pairs = caps._pairs(first, second).tolist()
    assert min(pairs) >= 0 and [pairs.index(each) for each in pairs] == [0, 1, 2, 1]
