"""What rows add to the measures of a publication: the rule, and its form for one row after another.

Each row is judged by itself; then these are the steps, in files in the order of the rows' own times
(and, of a person at one second, of what their cells mean), live in the order of arrival:

1. It is left out of everything if its time, person or id is missing, if it lies outside the open
   ticks, or if a key or amount of a measure that is open then means nothing.
2. It *enters* the measures that are open then and whose key and amount it has. Its key must be
   declared, unless the measure has ``other``, ``discover`` or ``overall``.
3. It is the same row as an earlier one that counts, of the same person, slot and id (of single
   events: of the same day and id, under all keys).
4. It uses up one of the ``max_events`` of its person's slot; there is no row beyond them.
5. It adds to each measure that it entered. A person counts once under each of the first
   ``max_keys`` keys, and once overall. Of a sum, a unit adds what is left of ``max``.

What one row adds depends on itself and on earlier rows of the same person and slot, which are
noted: nobody else's row decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from fadecount.calendar import Ticks, zone_of
from fadecount.checks import require_integer, set_fields
from fadecount.errors import bad_parameter
from fadecount.mechanisms.unit import ADDRESS_BYTES, Key, person_digest
from fadecount.planning.publication import (
    BETWEEN,
    Measure,
    Publication,
    can_be_key,
    local_time,
)
from fadecount.sources.grouping import Numbers, blocks_of
from fadecount.sources.options import LARGEST_AMOUNT, LARGEST_KEYS, LOG_COLUMNS, Format, TimeUnit
from fadecount.sources.rows import Event, Reason, RowRules, whole_number

UNLISTED, EMPTY = -int(Reason.KEY), -int(Reason.EMPTY)
"""In place of a number: the key is in no list; the key or amount is empty."""
ABSENT = UNLISTED, EMPTY
"""They say nothing about other measures. Any other negative number leaves the row out of all."""
_EVER = 1 << 62


class Cell(NamedTuple):
    """A key, an amount, or the number of events that a row stands for, in some columns."""

    kind: Literal["key", "amount", "count"]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRows:
    """How rows of a publication are read now: those of the ticks from ``first_tick`` on (by default
    that of its start) and before ``end_tick``. ``keys`` are the declared ones of each key, if
    there are more of them by now. Of the persons of one address who bring a hidden key in a slot,
    ``per_address`` count."""

    publication: Publication
    keys: Mapping[tuple[str, ...], Sequence[str]] = field(default_factory=dict)
    first_tick: int | None = None
    end_tick: int | None = None
    per_address: int | None = None
    max_line_bytes: int = 65_536
    ticks: Ticks = field(init=False, repr=False)
    """The calendar of its ticks."""
    first: int = field(init=False, repr=False)
    """The first tick whose rows count."""
    measures: tuple[MeasureRule, ...] = field(init=False, repr=False)
    """The measures that are open at some time in the range."""
    columns: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        remedy = "65536 suits most files"
        require_integer(
            "max_line_bytes", self.max_line_bytes, minimum=64, maximum=1 << 24, remedy=remedy
        )
        publication = self.publication
        set_fields(self, ticks=Ticks(tick_seconds=publication.tick_seconds, zone=publication.zone))
        begin = self._tick_of(publication.start)
        first = begin if self.first_tick is None else max(begin, self.first_tick)
        set_fields(self, first=first)
        set_fields(self, measures=tuple(self._open(begin)))
        named = publication.columns
        wanted = [named.time, *(each for cell in self.cells for each in cell.columns)]
        wanted += [each for each in (self.person, named.id) if each is not None]
        set_fields(self, columns=tuple(dict.fromkeys(wanted)))
        if publication.input.format == "log" and not {*self.columns} <= {*LOG_COLUMNS}:
            bound = f"{', '.join(LOG_COLUMNS)} for an access log"
            raise bad_parameter("columns", self.columns, bound, "name these")

    def _open(self, begin: int) -> Iterator[MeasureRule]:
        """The measures that are open at some time."""
        publication, end = self.publication, _EVER if self.end_tick is None else self.end_tick
        series = 0
        for measure in publication.measures:
            since = begin if measure.start is None else self._tick_of(measure.start)
            until = _EVER if measure.until is None else self._tick_of(measure.until)
            summed = publication.columns.count if measure.sum is None else measure.sum
            if max(since, self.first) < min(until, end):
                keys = tuple(self.keys.get(measure.key, measure.declared))
                if len(keys) > LARGEST_KEYS:
                    place, bound = f"measures.{measure.name}.keys", f"at most {LARGEST_KEYS} keys"
                    raise bad_parameter(place, len(keys), bound, "or use other")
                yield MeasureRule(
                    measure,
                    series,
                    since,
                    until,
                    keys=keys,
                    key=Cell("key", measure.key) if measure.key else None,
                    amount=None
                    if summed is None
                    else Cell("count" if measure.sum is None else "amount", (summed,)),
                )
            series += 2 if measure.overall else 1

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The keys and amounts of rows that are read, each once."""
        keys = [rule.key for rule in self.measures]
        both = [*keys, *(rule.amount for rule in self.measures)]
        return tuple(dict.fromkeys(cell for cell in both if cell is not None))

    def _tick_of(self, written: str) -> int:
        publication = self.publication
        moment = local_time("start", written, zone_of(publication.zone))
        return self.ticks.first_from(moment.timestamp())

    @property
    def person(self) -> str | None:
        """The column of persons, if they are protected."""
        publication = self.publication
        return publication.columns.person if publication.unit.of == "person" else None

    @property
    def slot(self) -> str:
        """How long the notes of a person hold, or those of the ids of single events."""
        unit = self.publication.unit
        return unit.per if unit.of == "person" else "1d"

    def slots_of(self, ticks: Numbers) -> Numbers:
        """The slots that hold some ticks."""
        return blocks_of(self.ticks, self.slot, ticks)

    def slot_of(self, tick: int) -> int:
        """The slot that holds a tick."""
        return self.ticks.block_of(self.slot, tick)

    # How rows are written
    # --------------------------------------------------------------------------------------------
    @property
    def format(self) -> Format | None:
        """That of a pipe; a file's name can say it."""
        return self.publication.input.format  # type: ignore[return-value] # checked there

    @property
    def separator(self) -> str:
        """Between the fields of CSV."""
        return self.publication.input.separator

    @property
    def time_unit(self) -> TimeUnit:
        """How times are written."""
        return self.publication.input.time_unit  # type: ignore[return-value] # checked there

    @property
    def zone(self) -> str:
        """That of times without an offset."""
        return self.publication.zone


@dataclass(frozen=True, slots=True)
class MeasureRule:
    """What a measure takes of rows. It is open in the ticks from ``since`` on and before ``until``;
    its first part is number ``series`` of the publication's."""

    measure: Measure
    series: int
    since: int
    until: int
    keys: tuple[str, ...]
    key: Cell | None
    amount: Cell | None

    @property
    def other(self) -> int:
        """The position of the key that takes keys of no list; -1 if there is none."""
        return -1 if self.measure.other is None else self.keys.index(self.measure.other)

    @property
    def lists_all(self) -> bool:
        """Whether a key of no list counts nowhere but overall."""
        return not self.measure.discover and self.measure.other is None

    @property
    def takes_unlisted(self) -> bool:
        """Whether a row with a key of no list enters."""
        return not self.lists_all or bool(self.measure.overall)


class Added(NamedTuple):
    """What a row adds to a part of a measure (by its number) under a key: its position, or the text
    of a hidden one."""

    series: int
    key: Key
    amount: int


class Take(NamedTuple):
    """What a row is in a measure that it enters. The key is -1 where it counts overall only.
    ``names`` are those of the notes about its person, by their kind."""

    rule: MeasureRule
    key: Key
    amount: int
    names: dict[str, bytes]


class Entry(NamedTuple):
    """A row that enters some measure: its tick, and the names of the notes that decide. ``row`` and
    ``id`` are None where single events are counted, and they have no ids."""

    tick: int
    takes: tuple[Take, ...]
    row: bytes | None
    id: bytes | None

    @property
    def names(self) -> list[bytes]:
        """All of them. Whatever counts, each is written."""
        names = [each for take in self.takes for each in take.names.values()]
        return names + [each for each in (self.row, self.id) if each is not None]


class Additions(NamedTuple):
    """What a row adds, and by how much the notes grow; or why it adds nothing, to be reported."""

    added: list[Added]
    notes: dict[bytes, int]
    reason: Reason | None = None


def note_name(secret: bytes, kind: str, person: bytes, measure: str = "", text: str = "") -> bytes:
    """The name of a note about a person (by :func:`person_digest`) or an address (by its part). Its
    kind is ``row`` (how many rows entered), ``id`` (a row of this id did), ``keys`` (under how many
    keys of a measure the person counts), ``key`` (under this one), ``overall``, ``sum`` (how much
    the person added), or ``address`` (how many persons of it brought a hidden key)."""
    content = person + measure.encode() + b"\0" + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, key=secret, digest_size=16, person=kind.encode()).digest()


class MeasureRules(RowRules):
    """The rules of a publication. No row says what another one means; what it adds follows from
    itself and from what is noted of its person."""

    def __init__(self, wanted: PublicationRows) -> None:
        columns, cells = wanted.publication.columns, wanted.cells
        super().__init__(
            wanted,
            time=columns.time,
            cells=[cell.columns for cell in cells],
            person=wanted.person,
            id=columns.id,
        )
        self.wanted, self.kinds = wanted, cells
        self.place = {cell: at for at, cell in enumerate(cells)}
        """The number of each cell."""
        self.names = [self._declared(cell) for cell in cells]
        """Of each key: the texts that have numbers, the declared ones first."""
        self.listed = [len(names) for names in self.names]
        """Of each key: how many are declared."""
        self._numbers = [{text: at for at, text in enumerate(names)} for names in self.names]
        self._hides = [
            any(rule.key == cell and rule.measure.discover for rule in wanted.measures)
            for cell in cells
        ]

    def _declared(self, cell: Cell) -> list[str]:
        lists = (rule.keys for rule in self.wanted.measures if rule.key == cell)
        return [*next(lists, ())]

    # Cells
    # --------------------------------------------------------------------------------------------
    def cell(self, at: int, text: str) -> int | str:
        kind, columns = self.kinds[at]
        if kind == "key":
            return self._key(at, text, len(columns))
        if not text:
            return EMPTY
        number = whole_number(text)
        if kind == "count" and number > LARGEST_AMOUNT:
            return -int(Reason.LARGE)
        return number

    def _key(self, at: int, text: str, columns: int) -> int | str:
        number = self._numbers[at].get(text, _EVER)
        if number < self.listed[at]:
            return number
        if can_be_key(text, columns):
            return text if self._hides[at] else UNLISTED
        parts = text.split(BETWEEN)
        fit = len(parts) == columns and all(not part or can_be_key(part) for part in parts)
        return EMPTY if fit else -int(Reason.KEY_TEXT)

    def number(self, at: int, meaning: int | str) -> int:
        if isinstance(meaning, int):
            return meaning
        names = self.names[at]
        number = self._numbers[at].setdefault(meaning, len(names))
        if number == len(names):
            names.append(meaning)
        return number

    # One row after the other
    # --------------------------------------------------------------------------------------------
    def entry(self, event: Event, tick: int, secret: bytes) -> Entry | Reason:
        """The row as it counts in a tick, or why it is left out of everything. ``secret`` is the
        key of the names of notes."""
        if self.person is not None and not event.person:
            return Reason.PERSON
        if self.id is not None and not event.id:
            return Reason.ID
        wanted = self.wanted
        if tick < wanted.first:
            return Reason.BEFORE
        if wanted.end_tick is not None and tick >= wanted.end_tick:
            return Reason.AFTER
        if wanted.person is None and self.id is not None:  # the same event may have counted then
            own, slot = (wanted.slot_of(each) for each in (wanted.ticks.at(event.seconds), tick))
            if own != slot:
                return Reason.LATE if own < slot else Reason.FUTURE
        rules = [each for each in wanted.measures if each.since <= tick < each.until]
        for at, cell in enumerate(self.kinds):
            meaning = event.cells[at]
            used = any(cell in (rule.key, rule.amount) for rule in rules)
            if used and isinstance(meaning, int) and meaning < 0 and meaning not in ABSENT:
                return Reason(-meaning)
        person = None if self.person is None else person_digest(event.person, secret)
        takes = tuple(
            take for rule in rules if (take := self._take(rule, event, person, secret)) is not None
        )
        if not takes:
            return self._left_out(rules, event)
        if person is not None:
            row = note_name(secret, "row", person)
            repeat = note_name(secret, "id", person, text=event.id) if self.id else None
            return Entry(tick, takes, row, repeat)
        if self.id is None:
            return Entry(tick, takes, None, None)
        return Entry(tick, takes, note_name(secret, "row", person_digest(event.id, secret)), None)

    def _take(
        self, rule: MeasureRule, event: Event, person: bytes | None, secret: bytes
    ) -> Take | None:
        """What the row is in an open measure; None if it does not enter."""
        key: Key = 0 if rule.key is None else event.cells[self.place[rule.key]]
        amount = 1 if rule.amount is None else event.cells[self.place[rule.amount]]
        assert isinstance(amount, int)
        unlisted = isinstance(key, str) or key == UNLISTED
        if EMPTY in (key, amount) or (unlisted and not rule.takes_unlisted):
            return None
        if unlisted and not rule.measure.discover:
            key = rule.other
        names, measure = dict[str, bytes](), rule.measure
        if person is not None:
            named = partial(note_name, secret, person=person, measure=measure.name)
            if measure.sum is not None:
                names["sum"] = named(kind="sum")
            if measure.distinct and measure.overall:
                names["overall"] = named(kind="overall")
            if measure.distinct and key != -1:
                names |= self._key_names(rule, key, named)
        return Take(rule, key, amount, names)

    def _key_names(
        self, rule: MeasureRule, key: Key, named: Callable[..., bytes]
    ) -> dict[str, bytes]:
        measure, other = rule.measure, rule.other
        names = {"keys": named(kind="keys")}
        if measure.max_keys > 1:
            text = key if isinstance(key, str) else rule.keys[key]
            names["key"] = named(kind="key", text=text)
            if isinstance(key, str) and other >= 0:
                names["other"] = named(kind="key", text=rule.keys[other])
        if isinstance(key, str) and self.wanted.per_address is not None:
            address = named.keywords["person"][:ADDRESS_BYTES]  # type: ignore[attr-defined] # a partial
            names["address"] = named(kind="address", person=address, text=key)
        return names

    def _left_out(self, rules: Sequence[MeasureRule], event: Event) -> Reason:
        """Why a row enters no measure."""
        if not rules:
            return Reason.CLOSED
        keys = [event.cells[self.place[rule.key]] for rule in rules if rule.key is not None]
        unlisted = any(isinstance(key, str) or key == UNLISTED for key in keys)
        return Reason.KEY if unlisted else Reason.EMPTY

    def additions(self, entry: Entry, notes: Mapping[bytes, int]) -> Additions:
        """What a row adds, given what is noted of its person in the slot of its tick. Add the notes
        that it returns to them before the next row, whether it counts or not."""
        more = dict.fromkeys(entry.names, 0)
        unit = self.wanted.publication.unit
        if entry.id is not None and notes.get(entry.id, 0):
            return Additions([], more, Reason.REPEATED)
        if entry.row is not None:
            if notes.get(entry.row, 0) >= unit.events:
                reason = Reason.CAP if unit.of == "person" else Reason.REPEATED
                return Additions([], more, reason)
            more[entry.row] = 1
        if entry.id is not None:
            more[entry.id] = 1
        added = list[Added]()
        for take in entry.takes:
            rule, key, amount, names = take
            if rule.measure.distinct:
                added += self._of_person(take, notes, more)
                continue
            if rule.measure.max is not None:
                name = names.get("sum")
                left = rule.measure.max - (0 if name is None else notes.get(name, 0))
                amount = min(amount, left)
                if name is not None:
                    more[name] = amount
            added += _counted(rule, key, amount)
        return Additions(added, more)

    def _of_person(
        self, take: Take, notes: Mapping[bytes, int], more: dict[bytes, int]
    ) -> Iterator[Added]:
        """What a row adds to distinct persons; ``more`` notes it."""
        rule, key, _, names = take
        noted = {kind: notes.get(name, 0) for kind, name in names.items()}
        if "overall" in names and not noted["overall"]:
            more[names["overall"]] = 1
            yield Added(rule.series + 1, 0, 1)
        if key == -1 or noted["keys"] >= rule.measure.max_keys or noted.get("key"):
            return
        more[names["keys"]] = 1
        if "key" in names:
            more[names["key"]] = 1
        if isinstance(key, str):
            most = self.wanted.per_address
            yield Added(rule.series, key, int(most is None or noted["address"] < most))
            if "address" in names:
                more[names["address"]] = 1
            if noted.get("other"):
                return
            if "other" in names:
                more[names["other"]] = 1
            key = rule.other
        if key >= 0:
            yield Added(rule.series, key, 1)


def _counted(rule: MeasureRule, key: Key, amount: int) -> list[Added]:
    assert isinstance(key, int)
    if not amount:
        return []
    keyed = [Added(rule.series, key, amount)] if key >= 0 else []
    return keyed + ([Added(rule.series + 1, 0, amount)] if rule.measure.overall else [])
