"""The caps of persons, of many rows at once, against the rule that takes row by row."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadecount.mechanisms.unit import CapKey, address_digest, person_digest
from fadecount.sources import (
    Earlier,
    Reason,
    SourceOptions,
    SourceReport,
    files,
    grouping,
    read,
    tally,
)
from tests.sources.test_files import rows_of, written

pl = pytest.importorskip("polars")

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
    {"key": "key", "discover": True},
    {"key": "key", "keys": ("1", "2"), "discover": True, "keys_per_person": 3},
    {"key": "key", "keys": ("1", "2"), "other": "2", "discover": True, "keys_per_person": 3},
    {"per_person": 2, "key": "key", "keys": ("1",), "discover": True, "keys_per_person": 2},
]
PER_ADDRESS = 3
"""Persons of an address who count under a hidden key, where that is bounded."""


def name_of(number: int) -> str:
    """One of six persons at each address."""
    return f"house{number % 7} number {number}"


def file_of(folder: Path, seed: int, rows: int = 1500) -> Path:
    """Rows of 40 persons on three days, some of them bad."""
    drawn = np.random.default_rng(seed).integers(0, [3 * 86_400, 5, 9, 40, 50], (rows, 5))
    lines = [
        f"{moment},{key},{n},{name_of(who) if bad else ''}"
        for moment, key, n, who, bad in drawn.tolist()
    ]
    return written(folder, "\n".join(["time,key,n,who", *lines]))


BEFORE: dict[CapKey, int] = {}
"""What an earlier run counted on the first day: of every third person something."""
for number in range(0, 40, 3):
    BEFORE[person_digest(name_of(number), KEY)] = number % 3
    BEFORE[person_digest(name_of(number), KEY), 1] = number % 3
AT_ADDRESSES = {(address_digest(name_of(at), KEY), f"{at % 5}"): at for at in range(7)}
"""How many persons of an address brought a hidden key in that run."""


def counted_before(persons: Any, keys: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    names = persons if keys is None else zip(persons, keys, strict=True)
    found = (AT_ADDRESSES.get(each, min(1, BEFORE.get(each, 0))) for each in names)
    return np.fromiter(found, dtype=np.int64)


def one_by_one(
    path: Path, chosen: SourceOptions, *, before: bool, per_address: int | None = None
) -> tuple[Any, ...]:
    """What a run learns from a file, as :meth:`Unit.takes` decides row by row."""
    houses: dict[int, dict[Any, int]] = {day: {} for day in DAYS}
    unit = chosen.unit
    counted: dict[int, dict[Any, int]] = {day: {} for day in DAYS}
    if before:
        names = {each for each in BEFORE if unit.keys > 1 or isinstance(each, bytes)}
        counted[0] = {each: 1 for each in names if BEFORE[each]}
    given = dict(counted[0])
    sums: dict[tuple[int, int], int] = {}
    hidden: dict[int, dict[str, int]] = {day: {} for day in DAYS}
    report = SourceReport()
    for line in path.read_text().splitlines()[1:]:
        moment, key, n, who = line.split(",")
        report.rows_read += 1
        tick, day = int(moment) // 3600, int(moment) // 86_400
        place: int | str = key
        if chosen.key is None:
            place = 0
        elif key in chosen.keys:
            place = chosen.keys.index(key)
        elif not chosen.discover:
            place = chosen.keys.index(str(chosen.other)) if chosen.other else -1
        reason = Reason.KEY if place == -1 else None if who else Reason.PERSON
        block = day if chosen.person_per == "1d" else tick
        if reason is not None:
            report.skipped[reason] += 1
        elif not unit.takes(counted.setdefault(block, {}), person_digest(who, KEY), place):
            report.rows_dropped += 1
        else:
            if isinstance(place, str):
                house = address_digest(who, KEY), place
                earlier = AT_ADDRESSES.get(house, 0) if before and not day else 0
                houses[day][house] = 1 + houses[day].get(house, 0)
                counts = per_address is None or earlier + houses[day][house] <= per_address
                hidden[day][place] = hidden[day].get(place, 0) + counts
                if chosen.other is None:
                    continue
                place = chosen.keys.index(chosen.other)
            amount = 1 if chosen.amount is None else int(n)
            report.rows_cut += amount > chosen.max_amount
            amount = min(amount, chosen.max_amount)
            sums[tick, place] = sums.get((tick, place), 0) + amount
    noted = {
        day: {
            name: count - given.get(name, 0) * (day == 0)
            for name, count in counted[day].items()
            if count > given.get(name, 0) * (day == 0)
        }
        for day in DAYS
    }
    for day in DAYS if per_address else ():
        noted[day] |= houses[day]
    rows = [(tick, place, count) for (tick, place), count in sorted(sums.items())]
    return rows, report, noted if chosen.person_per == "1d" else None, hidden


@pytest.mark.parametrize("rows_at_once", [1, 200, 10**6])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("number", range(len(UNITS)))
def test_pieces_of_an_input_are_capped_as_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, rows_at_once: int, fast: bool
) -> None:
    monkeypatch.setattr(tally, "LEAST_AT_ONCE", rows_at_once)
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(files, "SMALL_BYTES", -1 if fast else 1 << 60)
    monkeypatch.setattr("fadecount.sources.columns.BLOCK_BYTES", 4096)
    path = file_of(tmp_path, number)
    unit = {"tick": "1h", "time": "time", "time_unit": "s", "person": "who", "person_per": "1d"}
    chosen = SourceOptions(**{**unit, "first_tick": 0, **UNITS[number]})
    bounded = (None, PER_ADDRESS) if chosen.discover else (None,)
    for before, most in product((False, True) if chosen.person_per == "1d" else (False,), bounded):
        earlier = Earlier(key=KEY, counted=counted_before if before else None)
        history = read(path, chosen, earlier=earlier, per_address=most)
        noted = {day: history.persons(24 * day) for day in DAYS}
        found = (
            rows_of(history),
            history.report,
            noted if chosen.person_per == "1d" else None,
            {day: dict(history.hidden(24 * day)) for day in DAYS},
        )
        assert found == one_by_one(path, chosen, before=before, per_address=most)


@pytest.mark.parametrize("number", [1, 5, 8])
@pytest.mark.parametrize("fast", [True, False])
def test_persons_whose_hashes_are_equal_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fast: bool
) -> None:
    monkeypatch.setattr(tally, "LEAST_AT_ONCE", 300)
    monkeypatch.setattr(files, "SMALL_BYTES", -1 if fast else 1 << 60)
    monkeypatch.setattr(grouping, "_ODD", np.uint64(0))  # those of days, too
    few = lambda names, _seed: names.str.len_bytes().cast(pl.UInt64) * (1 << 59)  # noqa: E731
    monkeypatch.setattr(pl.Series, "hash", few)
    monkeypatch.setattr(grouping, "hash", lambda name: (len(name) & 7) << 58, raising=False)
    path = file_of(tmp_path, number)
    unit = {"tick": "1h", "time": "time", "time_unit": "s", "person": "who", "person_per": "1d"}
    chosen = SourceOptions(**{**unit, **UNITS[number]})
    found = read(path, chosen)
    rows, report, *_ = one_by_one(path, chosen, before=False)
    assert (rows_of(found), found.report) == (rows, report)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.text("ab", max_size=2), st.integers(-1, 1), st.integers(0, 3))))
def test_rows_are_together_exactly_if_person_and_block_are_the_same(
    rows: list[tuple[str, int, int]],
) -> None:
    texts = [f"a name of many letters {name}" for name, _, _ in rows]
    blocks = np.array([block for _, block, _ in rows], dtype=np.int64)
    coarse: dict[tuple[str, int], int] = {}  # one number for a person and block; some share one
    numbers = [coarse.setdefault((name, block), number) for name, block, number in rows]
    wanted: dict[tuple[str, int], list[int]] = {}
    for at, (name, block, _) in enumerate(rows):
        wanted.setdefault((name, block), []).append(at)
    for names in (pl.Series(texts, dtype=pl.String), np.array(texts, dtype=np.object_)):
        together = grouping.together(np.array(numbers, dtype=np.int64))
        order, begins = grouping._checked(names, blocks, *together)
        runs = np.split(order, begins[1:]) if len(rows) else []
        assert sorted(run.tolist() for run in runs) == sorted(wanted.values())


@pytest.mark.parametrize("rows", ["", "0,a,ann\n0,b,ann\n"])
def test_an_input_without_hidden_keys(tmp_path: Path, rows: str) -> None:
    path = written(tmp_path, "time,key,who\n" + rows)
    declared: dict[str, Any] = {"key": "key", "keys": ("a", "b"), "discover": True}
    persons: dict[str, Any] = {"person": "who", "person_per": "1d", "keys_per_person": 2}
    history = read(
        path, SourceOptions(tick="1h", time="time", time_unit="s", **declared, **persons)
    )
    assert rows_of(history) == ([(0, 0, 1), (0, 1, 1)] if rows else [])
    assert history.hidden(0) == {}


@pytest.mark.parametrize("largest", [3, 1 << 40, 1 << 63])
def test_numbers_of_any_size_come_together(largest: int) -> None:
    numbers = np.array([largest, 0, 1, 0, largest], dtype=np.uint64)
    order, begins = grouping.together(numbers)
    assert (order.tolist(), begins.tolist()) == ([1, 3, 2, 0, 4], [0, 2, 3])
