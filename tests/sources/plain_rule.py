"""The rule that turns rows into counts, in plain Python: one row after the other, with
dictionaries. Every other form of it is compared with this one, which shares nothing with them but
the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from fadecount.planning.publication import Measure, Publication
from fadecount.sources.rows import Reason

Row = Mapping[str, str]
Note = tuple[str, str, str, str]
"""Kind, person (or address), measure, key."""
Slot = tuple[Any, ...]
EMPTY = "empty"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Counts:
    """What the rows add, what is noted of persons, and what was left out."""

    added: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """By number of the part, tick, and position of the key."""
    hidden: Counter[tuple[int, Slot, str]] = field(default_factory=Counter)
    notes: dict[Slot, Counter[Note]] = field(default_factory=dict)
    skipped: Counter[Reason] = field(default_factory=Counter)
    dropped: int = 0
    unlisted: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)


class Plain:
    """Counts rows. ``notes`` are those of earlier runs, by slot."""

    def __init__(
        self,
        publication: Publication,
        *,
        first: int,
        end: int,
        notes: Mapping[Slot, Counter[Note]] | None = None,
        per_address: int | None = None,
    ) -> None:
        self.publication, self.first, self.end = publication, first, end
        self.zone = ZoneInfo(publication.zone)
        self.noted = {slot: Counter(each) for slot, each in (notes or {}).items()}
        self.per_address = per_address
        self.counts = Counts()

    # Time
    # --------------------------------------------------------------------------------------------
    def seconds(self, text: str) -> int | None:
        if text.isdigit():
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
        return (moment - EPOCH) // timedelta(seconds=1)

    def tick(self, seconds: int) -> int:
        if self.publication.tick == "1d":
            return (self.local(seconds).date() - date(1970, 1, 1)).days
        return seconds // self.publication.tick_seconds

    def local(self, seconds: int) -> datetime:
        return datetime.fromtimestamp(seconds, self.zone)

    def slot(self, tick: int) -> Slot:
        """The slot of the unit (of single events: the day) in which a tick begins."""
        if self.publication.tick == "1d":
            day = date(1970, 1, 1) + timedelta(days=tick)
        else:
            begin = tick * self.publication.tick_seconds
            day = self.local(begin).date()
        unit = self.publication.unit
        if unit.of == "event" or unit.per == "1d":
            return (day,)
        if unit.per == "1mo":
            return (day.year, day.month)
        assert unit.per == "1h"
        assert self.publication.tick_seconds <= 3600
        midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
        return (day, (begin - int(midnight.timestamp())) // 3600)

    def is_open(self, measure: Measure, tick: int) -> bool:
        def first_tick(text: str) -> int:
            moment = datetime.fromisoformat(text).replace(tzinfo=self.zone)
            if self.publication.tick == "1d":
                return self.tick(int(moment.timestamp()))
            return -(-int(moment.timestamp()) // self.publication.tick_seconds)

        after = measure.start is None or tick >= first_tick(measure.start)
        return after and (measure.until is None or tick < first_tick(measure.until))

    # Cells
    # --------------------------------------------------------------------------------------------
    def key(self, measure: Measure, row: Row) -> str | Reason | None:
        """The text of a row's key; None where it is empty."""
        if not measure.key:
            return "all"
        texts = [row[column] for column in measure.key]
        if any(text and (len(text) > 200 or not text.isprintable()) for text in texts):
            return Reason.KEY_TEXT
        return "\t".join(texts) if all(texts) else None

    def amount(self, measure: Measure, row: Row) -> int | Reason | None:
        """How much of a measure a row has; None where that is empty."""
        column = measure.sum or self.publication.columns.count
        if column is None:
            return 1
        if not row[column]:
            return None
        try:
            number = Fraction(row[column])
        except ValueError:
            return Reason.AMOUNT
        if number < 0:
            return Reason.NEGATIVE
        if number.denominator > 1:
            return Reason.AMOUNT
        if measure.sum is None and number > 2**31:
            return Reason.LARGE
        return int(number)

    def meaning(self, row: Row, tick: int) -> tuple[Any, ...]:
        """What decides the order of a person's rows at one second: what their keys mean, then their
        amounts."""
        keys, amounts = [], []
        open_now = [each for each in self.publication.measures if self.is_open(each, tick)]
        for measure in self.publication.measures:
            if not measure.key:
                continue
            shown = self.key(measure, row)
            hides = any(
                each.discover for each in self.publication.measures if each.key == measure.key
            )
            if not any(each.key == measure.key for each in open_now):
                keys.append((0, ""))
            elif shown is None:
                keys.append((-2, ""))
            elif shown in measure.keys:
                keys.append((measure.keys.index(str(shown)), ""))
            else:
                keys.append((len(measure.keys), str(shown)) if hides else (-1, ""))
        for measure in self.publication.measures:
            amount = self.amount(measure, row) if measure in open_now else 0
            amounts.append(-1 if amount is None else amount)
        return (*keys, *amounts)

    # Rows
    # --------------------------------------------------------------------------------------------
    def count(self, rows: Sequence[Row], *, by_time: bool) -> Counts:
        """Count rows: by their own times, as files are, or as they arrive."""
        judged = []
        for row in rows:
            reason = self.judge(row)
            if isinstance(reason, Reason):
                self.counts.skipped[reason] += 1
            else:
                judged.append((self.seconds(row[self.publication.columns.time]), row, reason))
        if by_time:
            judged.sort(key=lambda each: (each[0], self.meaning(each[1], each[2])))
        for _, row, tick in judged:
            self.take(row, tick)
        return self.counts

    def judge(self, row: Row) -> int | Reason:
        """The tick of a row, or why it is left out of all measures."""
        publication, columns = self.publication, self.publication.columns
        seconds = self.seconds(row[columns.time])
        if seconds is None:
            return Reason.TIME
        if publication.unit.of == "person" and not row[columns.person]:
            return Reason.PERSON
        if columns.id is not None and not row[columns.id]:
            return Reason.ID
        tick = self.tick(seconds)
        if tick < self.first:
            return Reason.BEFORE
        if tick >= self.end:
            return Reason.AFTER
        measures = [each for each in publication.measures if self.is_open(each, tick)]
        for what in (self.key, self.amount):
            for measure in measures:
                if isinstance(wrong := what(measure, row), Reason):
                    return wrong
        enters, unlisted = False, False
        for measure in measures:
            key, amount = self.key(measure, row), self.amount(measure, row)
            listed = key in measure.declared
            unlisted |= key is not None and not listed
            if key is None or amount is None:
                self.counts.empty[measure.name] += 1
            elif not listed and measure.other is None and not measure.discover:
                self.counts.unlisted[measure.name] += 1
                enters |= bool(measure.overall)
            else:
                enters = True
        if enters:
            return tick
        if not measures:
            return Reason.CLOSED
        return Reason.KEY if unlisted else Reason.EMPTY

    def take(self, row: Row, tick: int) -> None:
        """Count a row that enters some measure."""
        publication, columns, slot = self.publication, self.publication.columns, self.slot(tick)
        notes = self.noted.setdefault(slot, Counter())
        new = self.counts.notes.setdefault(slot, Counter())

        def note(*name: str, amount: int = 1) -> None:
            notes[name] += amount  # type: ignore[index] # four texts
            new[name] += amount  # type: ignore[index]

        unit = publication.unit
        person = row[columns.person] if unit.of == "person" else ""
        if unit.of == "person":
            if columns.id is not None and notes["id", person, "", row[columns.id]]:
                self.counts.skipped[Reason.REPEATED] += 1
                return
            if notes["row", person, "", ""] >= unit.events:
                self.counts.dropped += 1
                return
            note("row", person, "", "")
            if columns.id is not None:
                note("id", person, "", row[columns.id])
        elif columns.id is not None:
            if notes["row", row[columns.id], "", ""]:
                self.counts.skipped[Reason.REPEATED] += 1
                return
            note("row", row[columns.id], "", "")
        series = 0
        for measure in publication.measures:
            if self.is_open(measure, tick):
                self.add(measure, series, row, tick, person, notes, note)
            series += 2 if measure.overall else 1

    def add(
        self,
        measure: Measure,
        series: int,
        row: Row,
        tick: int,
        person: str,
        notes: Counter[Note],
        note: Any,
    ) -> None:
        """Count a row in one measure."""
        key, amount, name = self.key(measure, row), self.amount(measure, row), measure.name
        if key is None or amount is None:
            return
        assert isinstance(key, str)
        assert isinstance(amount, int)
        declared, slot = measure.declared, self.slot(tick)
        position = declared.index(key) if key in declared else None
        if position is None and measure.other is not None:
            position = declared.index(measure.other)
        hidden = key not in declared and measure.discover
        if not (position is not None or hidden or measure.overall):
            return
        if measure.count == "events":
            if measure.max is not None:
                most = measure.max - notes["sum", person, name, ""] * bool(person)
                taken = min(amount, most)
                self.counts.cut[name] += taken < amount
                amount = taken
                if person:
                    note("sum", person, name, "", amount=amount)
            if position is not None:
                self.counts.added[series, tick, position] += amount
            if measure.overall:
                self.counts.added[series + 1, tick, 0] += amount
            return
        if measure.overall and not notes["overall", person, name, ""]:
            note("overall", person, name, "")
            self.counts.added[series + 1, tick, 0] += 1
        if position is None and not hidden:
            return
        counted = key if hidden or position is None else declared[position]
        many = measure.max_keys > 1
        if notes["keys", person, name, ""] >= measure.max_keys:
            return
        if many and notes["key", person, name, counted]:
            return
        note("keys", person, name, "")
        if many:
            note("key", person, name, counted)
        if hidden:
            address, most_persons = person.split(" ")[0], self.per_address
            if most_persons is None or notes["address", address, name, key] < most_persons:
                self.counts.hidden[series, slot, key] += 1
            if most_persons is not None:
                note("address", address, name, key)
            if position is not None and many:
                if notes["key", person, name, declared[position]]:
                    return
                note("key", person, name, declared[position])
        if position is not None:
            self.counts.added[series, tick, position] += 1
