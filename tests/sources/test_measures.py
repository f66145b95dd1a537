"""What rows add to the measures of a publication: the bulk form and the one for row after row,
against the plain rule."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fadecount.mechanisms.unit import address_digest, person_digest
from fadecount.planning.publication import Publication
from fadecount.sources import additions, files
from fadecount.sources.additions import EarlierNotes, InputAdditions, MeasureTally
from fadecount.sources.files import count_rows
from fadecount.sources.grouping import rows_of as as_rows
from fadecount.sources.measures import MeasureRules, PublicationRows, note_name
from fadecount.sources.rows import Event, Reason
from tests.sources.messy import FIELDS, publication_of, rows_of
from tests.sources.plain_rule import Counts, Note, Plain, Slot

pl = pytest.importorskip("polars")

KEY = b"k" * 32
FIRST, END = "2026-03-28", "2026-04-01T01:00"


def named(notes: Counter[Note]) -> dict[bytes, int]:
    """Notes by their names."""
    return {
        note_name(
            KEY,
            kind,
            address_digest(who, KEY) if kind == "address" else person_digest(who, KEY),
            measure,
            text,
        ): count
        for (kind, who, measure, text), count in notes.items()
        if count
    }


def counted_of(notes: Counter[Note]) -> Any:
    stored = named(notes)

    def counted(names: Sequence[bytes]) -> npt.NDArray[np.int64]:
        return np.array([stored.get(each, 0) for each in names], dtype=np.int64)

    return counted


def read_rows(
    wanted: PublicationRows,
    rows: Sequence[Mapping[str, str]],
    chance: random.Random,
    earlier: EarlierNotes | None,
) -> InputAdditions:
    """Count rows in pieces of any size."""
    rules = MeasureRules(wanted)
    tally = MeasureTally(rules, earlier)
    events = [rules.event([row[name] for name in wanted.columns]) for row in rows]
    columns = chance.random() < 0.3
    while events:
        size = chance.choice((1, 3, 10, 100))
        piece, events = as_rows(events[:size], rules), events[size:]
        if columns:
            names = (None if each is None else pl.Series("", each, pl.String) for each in piece[2:])
            persons, ids = names
            piece = piece._replace(persons=persons, ids=ids)
        tally.add(piece)
    return tally.done()


def shown(result: InputAdditions, ticks: Mapping[Slot, int]) -> dict[str, Any]:
    """What a form counted, as the plain rule says it."""
    report = result.report
    added = {
        (at, tick, key): count
        for at, sums in enumerate(result.series)
        for tick, key, count in zip(
            sums.ticks.tolist(), sums.keys.tolist(), sums.counts.tolist(), strict=True
        )
    }
    hidden = {
        (series, slot, text): count
        for slot, tick in ticks.items()
        for series, counts in result.hidden(tick).items()
        for text, count in counts.items()
        if count
    }
    return {
        "added": added,
        "hidden": hidden,
        "notes": {slot: result.notes(tick) for slot, tick in ticks.items()},
        "skipped": report.skipped,
        "dropped": report.rows_dropped,
        "measures": {
            name: (each.rows_unlisted, each.rows_empty, each.rows_cut)
            for name, each in report.measures.items()
            if each.rows_unlisted or each.rows_empty or each.rows_cut
        },
    }


def wanted_of(counts: Counts) -> dict[str, Any]:
    """What the plain rule counted."""
    names = {*counts.unlisted, *counts.empty, *counts.cut}
    return {
        "added": {place: count for place, count in counts.added.items() if count},
        "hidden": {place: count for place, count in counts.hidden.items() if count},
        "notes": {slot: named(notes) for slot, notes in counts.notes.items()},
        "skipped": counts.skipped,
        "dropped": counts.dropped,
        "measures": {
            name: each
            for name in names
            if any(each := (counts.unlisted[name], counts.empty[name], counts.cut[name]))
        },
    }


def ticks_of(plain: Plain) -> dict[Slot, int]:
    """A tick of each slot of which something is noted."""
    return {slot: tick for tick in range(plain.first, plain.end) if (slot := plain.slot(tick))}


def range_of(publication: Publication, first: str, end: str) -> tuple[int, int]:
    plain = Plain(publication, first=0, end=0)
    moments = (plain.seconds(first), plain.seconds(end))
    return tuple(plain.tick(each or 0) for each in moments)  # type: ignore[return-value] # two


def some_notes(plain: Plain, chance: random.Random) -> dict[Slot, Counter[Note]]:
    """What an earlier run counted in the first slot, before the first tick."""
    before = Plain(plain.publication, first=0, end=plain.first, per_address=plain.per_address)
    before.count(list(rows_of(chance, 60)), by_time=True)
    slot = plain.slot(plain.first)
    return {slot: before.counts.notes.get(slot, Counter())}


@pytest.mark.parametrize("seed", range(40))
def test_pieces_of_any_size_count_as_row_after_row(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    seen: Counter[str] = Counter()
    for number in range(50):
        chance = random.Random(1000 * seed + number)
        monkeypatch.setattr(additions, "LEAST_AT_ONCE", chance.choice((1, 5, 1000)))
        publication = publication_of(chance)
        first, end = range_of(publication, "2026-03-28T12:00", chance.choice((END, "2026-05-01")))
        most = chance.choice((None, None, 1, 2))
        plain = Plain(publication, first=first, end=end, per_address=most)
        earlier = EarlierNotes(key=KEY, counted=None)
        if chance.random() < 0.5:
            notes = some_notes(plain, chance)
            plain = Plain(publication, first=first, end=end, notes=notes, per_address=most)
            earlier = EarlierNotes(key=KEY, counted=counted_of(notes[plain.slot(first)]))
        rows = list(rows_of(chance, chance.choice((0, 5, 40, 150))))
        counts = plain.count(rows, by_time=True)
        wanted = PublicationRows(
            publication=publication, first_tick=first, end_tick=end, per_address=most
        )
        result = read_rows(wanted, rows, chance, earlier)
        assert result.report.rows_read == len(rows)
        slots = {slot: tick for slot, tick in ticks_of(plain).items() if slot in counts.notes}
        found, right = shown(result, slots), wanted_of(counts)
        if len(rows) > additions.LEAST_AT_ONCE:  # a row may be both, and then be said to be either
            for each in (found, right):
                each["dropped"] += each["skipped"].pop(Reason.REPEATED, 0)
        assert found == right
        seen.update(kind for each in counts.notes.values() for kind, *_ in each)
        seen.update(reason.name for reason in counts.skipped)
        seen.update(hidden=len(counts.hidden), cut=counts.cut.total(), dropped=counts.dropped)
    assert min(seen.values()) > 0


@pytest.mark.parametrize("seed", range(20))
def test_one_row_after_the_other_as_they_arrive(seed: int) -> None:
    for number in range(50):
        chance = random.Random(1000 * seed + number)
        publication = publication_of(chance)
        first, end = range_of(publication, "2026-03-28T12:00", END)
        most = chance.choice((None, 1, 2))
        plain = Plain(publication, first=first, end=end, per_address=most)
        notes = some_notes(plain, chance)
        plain = Plain(publication, first=first, end=end, notes=notes, per_address=most)
        rows = list(rows_of(chance, chance.choice((5, 40, 150))))
        counts = plain.count(rows, by_time=False)
        wanted = PublicationRows(
            publication=publication, first_tick=first, end_tick=end, per_address=most
        )
        rules = MeasureRules(wanted)
        stored = {slot: named(each) for slot, each in notes.items()}
        before = {slot: dict(each) for slot, each in stored.items()}
        added, hidden = Counter[Any](), Counter[Any]()
        skipped = Counter[Reason]()
        for row in rows:
            event = rules.event([row[name] for name in wanted.columns])
            if isinstance(event, Event):
                entry = rules.entry(event, wanted.ticks.at(event.seconds), KEY)
            else:
                entry = event
            if isinstance(entry, Reason):
                skipped[entry] += 1
                continue
            slot = plain.slot(entry.tick)
            own = stored.setdefault(slot, {})
            # a store looks up what has a name, and nothing else
            result = rules.additions(entry, {name: own.get(name, 0) for name in entry.names})
            assert {*result.notes} == {*entry.names}  # what is written says nothing
            for name, more in result.notes.items():
                own[name] = own.get(name, 0) + more
            if result.reason is not None:
                assert not result.added
                assert not any(result.notes.values())
                skipped[result.reason] += 1
            for series, key, amount in result.added:
                if isinstance(key, str):
                    hidden[series, slot, key] += amount
                else:
                    added[series, entry.tick, key] += amount
        new = {
            slot: {
                name: more
                for name, count in each.items()
                if (more := count - before.get(slot, {}).get(name, 0))
            }
            for slot, each in stored.items()
        }
        right = wanted_of(counts)
        assert skipped.pop(Reason.CAP, 0) == right["dropped"]
        assert {place: count for place, count in hidden.items() if count} == right["hidden"]
        assert (added, skipped) == (right["added"], right["skipped"])
        assert {slot: each for slot, each in new.items() if each} == {
            slot: each for slot, each in right["notes"].items() if each
        }


def test_two_runs_within_a_slot_count_as_one() -> None:
    split = 0
    for seed in range(200):
        chance = random.Random(seed)
        publication = publication_of(chance)
        first, end = range_of(publication, FIRST, END)
        middle = chance.randint(first, end)
        rows = list(rows_of(chance, 150))
        whole = Plain(publication, first=first, end=end).count(rows, by_time=True)
        added, hidden = Counter[Any](), Counter[Any]()
        stored: dict[bytes, int] = {}

        def counted(names: Sequence[bytes]) -> npt.NDArray[np.int64]:
            return np.array([stored.get(each, 0) for each in names], dtype=np.int64)  # noqa: B023

        for span in ((first, middle), (middle, end)):
            wanted = PublicationRows(publication=publication, first_tick=span[0], end_tick=span[1])
            earlier = EarlierNotes(key=KEY, counted=counted)
            result = read_rows(wanted, rows, chance, earlier)
            slots = ticks_of(Plain(publication, first=span[0], end=span[1]))
            found = shown(result, slots)
            added.update(found["added"])
            hidden.update(found["hidden"])
            stored = result.notes(middle)
        split += bool(stored) and first < middle < end
        right = wanted_of(whole)
        assert (added, hidden) == (right["added"], right["hidden"])
    assert split > 20


# Files and frames
# ------------------------------------------------------------------------------------------------
def written(folder: Path, rows: Sequence[Mapping[str, str]], kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, FIELDS)
            table.writeheader()
            table.writerows(rows)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pl.DataFrame(rows, schema=dict.fromkeys(FIELDS, pl.String)).write_parquet(path)
    return path


@pytest.mark.parametrize("door", ["csv", "plain csv", "jsonl", "parquet", "frame", "pandas"])
def test_every_door_counts_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", 1 << 60 if door.startswith("plain") else -1)
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 30)
    monkeypatch.setattr("fadecount.sources.columns.BLOCK_BYTES", 1024)
    monkeypatch.setattr("fadecount.sources.columns.ROWS_PER_BLOCK", 30)
    for seed in range(25):
        chance = random.Random(seed)
        publication = publication_of(chance)
        first, end = range_of(publication, FIRST, END)
        rows = list(rows_of(chance, 200))
        plain = Plain(publication, first=first, end=end)
        counts = plain.count(rows, by_time=True)
        wanted = PublicationRows(publication=publication, first_tick=first, end_tick=end)
        source: Any = pl.DataFrame(rows, schema=dict.fromkeys(FIELDS, pl.String))
        if door == "pandas":
            source = source.to_pandas()
        elif door != "frame":
            source = written(tmp_path, rows, door.split()[-1])
        result = count_rows(source, wanted, earlier=EarlierNotes(key=KEY, counted=None))
        slots = {slot: tick for slot, tick in ticks_of(plain).items() if slot in counts.notes}
        assert shown(result, slots) == wanted_of(counts)
