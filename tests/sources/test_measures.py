"""What rows add to the measures of a publication: the bulk form and the one for row after row,
against the plain rule."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fadecount.errors import InputError, ParameterError
from fadecount.mechanisms import Unit
from fadecount.mechanisms.unit import address_digest, person_digest
from fadecount.planning.publication import Columns, Input, Measure, Publication
from fadecount.sources import additions, files, grouping
from fadecount.sources.additions import EarlierNotes, InputAdditions, MeasureTally
from fadecount.sources.files import count_rows, first_bad_row
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
        monkeypatch.undo()
        monkeypatch.setattr(additions, "LEAST_AT_ONCE", chance.choice((1, 5, 1000)))
        if chance.random() < 0.3:  # persons whose hashes are equal stay apart
            few = lambda name: (len(name) & 3) << 58  # noqa: E731
            monkeypatch.setattr(grouping, "hash", few, raising=False)
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


def test_a_whole_unit_changes_each_part_by_its_weight_and_nothing_else() -> None:
    attained = Counter[str]()
    for seed in range(600):
        chance = random.Random(seed)
        publication = publication_of(chance)
        first, end = range_of(publication, FIRST, END)
        plain = Plain(publication, first=first, end=end)
        most = chance.choice((None, 2))
        rows = list(rows_of(chance, 60))
        person, row_id = publication.unit.of == "person", publication.columns.id

        def whose(row: Mapping[str, str]) -> Any:
            seconds = plain.seconds(row["time"])  # noqa: B023
            if seconds is None:
                return None
            who = row["who"] if person else row["id"] if row_id else id(row)  # noqa: B023
            return plain.slot(plain.tick(seconds)), who  # noqa: B023

        unit = whose(chance.choice(rows))
        fewer: list[Mapping[str, str]] = [row for row in rows if whose(row) != unit]
        if publication.columns.count is not None:  # one of the events that a row stands for
            one = chance.choice([row for row in rows if whose(row) == unit])
            if one["n"].isdigit() and 0 < int(one["n"]) <= 1 << 31:
                less = {**one, "n": str(int(one["n"]) - 1)}
                fewer = [less if row is one else row for row in rows]
            else:
                continue
        wanted = PublicationRows(
            publication=publication, first_tick=first, end_tick=end, per_address=most
        )
        both = [
            read_rows(wanted, each, chance, EarlierNotes(key=KEY, counted=None))
            for each in (rows, fewer)
        ]
        slots = ticks_of(plain)
        found = [shown(each, slots) for each in both]
        for at, part in enumerate(publication.parts):
            counts = [
                {place[1:]: count for place, count in each["added"].items() if place[0] == at}
                for each in found
            ]
            moved = {
                place: more
                for place in {*counts[0], *counts[1]}
                if (more := abs(counts[0].get(place, 0) - counts[1].get(place, 0)))
            }
            assert sum(moved.values()) <= part.weight
            assert all(plain.slot(tick) == unit[0] for tick, _ in moved)
            attained[part.measure.count] += sum(moved.values()) == part.weight
            hidden = {
                place[1:]: count - found[1]["hidden"].get(place, 0)
                for place, count in found[0]["hidden"].items()
                if place[0] == at
            }
            brought = [count for count in hidden.values() if count]
            assert set(brought) <= {1}
            assert len(brought) <= part.measure.max_keys
            attained["hidden"] += len(brought) == part.measure.max_keys
    assert min(attained[each] for each in ("events", "persons", "hidden")) > 20


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


# Reports and refusals
# ------------------------------------------------------------------------------------------------
RIDES = Measure(
    name="rides", key=("station",), keys=("north", "south"), overall=True, per=("1h", "1d")
)
MINUTES = Measure(name="minutes", sum="minutes", max=120)


def rides(*measures: Measure, **changes: Any) -> Publication:
    made: dict[str, Any] = {
        "name": "rides",
        "zone": "Europe/Vienna",
        "start": "2026-03-01",
        "unit": Unit(of="person", per="1d", events=2),
        "promise": {"ever": 1},
        "columns": Columns(person="card"),
        "measures": measures or (RIDES, MINUTES),
    }
    return Publication(**{**made, **changes})


ROWS = """time,card,station,minutes
2026-03-01T10:00,ann,north,5
2026-03-01T10:30,ann,hidden-name-7,200
2026-03-01T09:00,bob,,
2026-03-01T11:00,bob,south,1
2026-03-01T11:00,bob,south,many
2026-03-01T11:00,,south,1
2026-03-01T12:00,ann,south,1
"""


def test_the_report_says_what_each_measure_leaves_out_and_names_no_key(tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(ROWS)
    wanted = PublicationRows(publication=rides())
    result = count_rows(path, wanted)
    assert [sums.counts.sum() for sums in result.series] == [2, 3, 121]
    assert (result.report.rows_read, result.report.rows_dropped) == (7, 1)
    lines = result.report.lines()
    assert lines == [
        "1 row left out: the amount is not a whole number",
        "1 row left out: the person is missing",
        "1 row left out: what is counted is empty in it",
        "rides: 1 row not counted by key: their key is in no list",
        "rides: 1 row left out: the key or amount is empty",
        "minutes: 1 row left out: the key or amount is empty",
        "minutes: 1 row counted in part: beyond the largest amount of a unit",
    ]
    assert "hidden-name" not in repr(result) + repr(result.report)
    start, end = wanted.ticks.start_seconds(result.first_tick or 0), result.last_tick
    assert (start, end) == (1772355600, (result.first_tick or 0) + 1)
    bad = first_bad_row(path, wanted)
    assert bad is not None
    assert bad.startswith("rides.csv, line 4: what is counted is empty")


def test_a_list_of_keys_may_be_longer_by_now(tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(ROWS)
    longer = ("north", "south", "hidden-name-7")
    wanted = PublicationRows(publication=rides(), keys={("station",): longer})
    result = count_rows(path, wanted)
    assert result.series[0].keys.tolist() == [0, 2, 1]
    assert not result.report.measures["rides"].rows_unlisted


def test_columns_of_measures_that_are_over_need_not_be_there(tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text("time,card,station\n2026-03-02T10:00,ann,north\n")
    publication = rides(RIDES, replace(MINUTES, until="2026-03-02"))
    with pytest.raises(InputError, match="'minutes' is not among its 3 columns"):
        count_rows(path, PublicationRows(publication=publication))
    _, tick = range_of(publication, FIRST, "2026-03-02")
    result = count_rows(path, PublicationRows(publication=publication, first_tick=tick))
    assert [sums.counts.tolist() for sums in result.series] == [[1], [1], []]


def test_what_cannot_be_read_is_refused() -> None:
    log = rides(RIDES, input=Input(format="log"))
    with pytest.raises(ParameterError, match="time, page, visitor for an access log"):
        PublicationRows(publication=log)
    with pytest.raises(ParameterError, match="max_line_bytes must be"):
        PublicationRows(publication=rides(), max_line_bytes=1)


def test_sums_of_many_large_counts_do_not_wrap(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("time,n\n" + "2026-03-01T10:00,2147483648\n" * 5000)
    publication = rides(Measure(name="all"), unit=Unit(), columns=Columns(count="n"))
    (sums,) = count_rows(path, PublicationRows(publication=publication)).series
    assert sums.counts.tolist() == [5000 << 31]


def test_a_row_of_five_and_five_rows_are_alike(tmp_path: Path) -> None:
    results = []
    for text in ("10:05,5\n", "10:05,1\n" * 5):
        path = tmp_path / "n.csv"
        path.write_text("time,n\n" + text.replace("10:05", "2026-03-01T10:05"))
        publication = rides(Measure(name="all"), unit=Unit(), columns=Columns(count="n"))
        (sums,) = count_rows(path, PublicationRows(publication=publication)).series
        results.append((sums.ticks.tolist(), sums.counts.tolist()))
    assert results[0] == results[1]
