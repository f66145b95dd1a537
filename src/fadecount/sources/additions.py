"""What a whole input adds to the measures of a publication: the rule of ``measures``, for many rows
at once, in any order.

Of each person and slot the first rows are kept until the end, since a later piece of the input may
hold earlier ones. Where single events without ids are counted, nothing is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fadecount.mechanisms.unit import ADDRESS_BYTES, person_digest
from fadecount.noise import unpredictable
from fadecount.sources.grouping import (
    Mask,
    Names,
    Numbers,
    Rows,
    Rows32,
    added_up,
    apart,
    as_list,
    joined,
    lengths_of,
    persons_together,
    together,
)
from fadecount.sources.measures import (
    EMPTY,
    UNLISTED,
    MeasureRule,
    MeasureRules,
    PublicationRows,
    note_name,
)
from fadecount.sources.report import MeasureReport, SourceReport
from fadecount.sources.rows import Reason
from fadecount.sources.times import EARLIEST, NO_TIME
from fadecount.streams.discovery import Counts, address_share

LEAST_AT_ONCE = 1 << 19
"""Rows that are counted at once, at least; of persons four times as many."""
_NONE = np.empty(0, dtype=np.int64)
Texts = Callable[[Numbers], list[str]]
"""The texts at some places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierNotes:
    """What earlier runs noted about the slot of the first tick, which is still open (None:
    nothing): the numbers of some notes. The names of notes have this key."""

    key: bytes
    counted: Callable[[Sequence[bytes]], Numbers] | None


@dataclass(slots=True)
class Sums:
    """What is added to a part of a measure: row i says that ``counts[i]`` is added in the tick
    ``ticks[i]`` to the key at the position ``keys[i]``; sorted, each pair once."""

    width: int
    _places: Numbers = field(default_factory=lambda: _NONE, repr=False)
    _counts: Numbers = field(default_factory=lambda: _NONE, repr=False)

    def add(self, ticks: Numbers, keys: Numbers, amounts: Numbers) -> None:
        """Add some amounts."""
        new = added_up(ticks * self.width + keys, amounts)
        if len(self._places):
            both = zip((self._places, self._counts), new, strict=True)
            new = added_up(*map(np.concatenate, both))
        self._places, self._counts = new

    @property
    def ticks(self) -> Numbers:
        return self._places // self.width

    @property
    def keys(self) -> Numbers:
        return self._places % self.width

    @property
    def counts(self) -> Numbers:
        return self._counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputAdditions:
    """What an input that was read to its end adds to a publication: ``series`` in the order of
    :attr:`Publication.parts`. ``first_tick`` and ``last_tick`` are those of the first and the last
    row that counts. All of it is exact, and for the owner of the rows only."""

    series: tuple[Sums, ...] = field(repr=False)
    first_tick: int | None
    last_tick: int | None
    report: SourceReport = field(repr=False)
    hidden: Callable[[int], dict[int, Counts]] = field(repr=False)
    """Of each part that has hidden keys: how many persons brought which in the slot of a tick."""
    notes: Callable[[int], dict[bytes, int]] = field(repr=False)
    """By how much the notes about persons of the slot of a tick grow."""


class MeasureTally:
    """Adds up the rows of a publication. Memory grows with the rows of persons that count, and with
    the distinct pairs of tick and key, not with the other rows."""

    def __init__(self, rules: MeasureRules, earlier: EarlierNotes | None = None) -> None:
        self._rules, self._wanted, self.report = rules, rules.wanted, SourceReport()
        self._earlier = earlier
        unit = self._wanted.publication.unit
        self._most = unit.events if unit.of == "person" else 1
        self._grouped = unit.of == "person" or rules.id is not None
        self._seed = int.from_bytes(unpredictable(8))
        self._waiting: list[Rows] = []
        self._kept: Rows | None = None
        self._begins = self._repeats = _NONE
        """Of the rows that are kept: where each person and slot begins, and how many rows repeat
        each of them."""
        self._entered = 0
        self._ticks: list[int] = []
        parts = self._wanted.publication.parts
        widths = {each.series: max(1, len(each.keys)) for each in self._wanted.measures}
        self._sums = [Sums(widths.get(at, 1)) for at in range(len(parts))]
        self._reports = [
            self.report.measures.setdefault(each.measure.name, MeasureReport())
            for each in self._wanted.measures
        ]
        self._hidden: dict[int, tuple[MeasureRule, Numbers, Numbers]] = {}
        """By part: the groups that brought hidden keys, and these."""

    def add(self, rows: Rows) -> None:
        """Count the rows that are good, and report the others."""
        self.report.rows_read += len(rows.times)
        rows = self._judged(rows)
        self._waiting.append(rows)
        self._entered += len(rows.times)
        kept = 0 if self._kept is None else len(self._kept.times)
        least = max(4 * LEAST_AT_ONCE, kept) if self._grouped else LEAST_AT_ONCE
        if sum(len(each.times) for each in self._waiting) >= least:
            self._settle()

    def done(self) -> InputAdditions:
        """Everything that was added."""
        self._settle()
        persons = Persons(self._wanted, self._earlier)
        if self._kept is not None:
            self._finish(self._kept, persons)
            self._kept = None
        return InputAdditions(
            series=tuple(self._sums),
            first_tick=min(self._ticks, default=None),
            last_tick=max(self._ticks, default=None),
            report=self.report,
            hidden=lambda tick: dict(self._hidden_in(self._wanted.slot_of(tick), persons)),
            notes=lambda tick: persons.notes(self._wanted.slot_of(tick)),
        )

    # Rows by themselves
    # --------------------------------------------------------------------------------------------
    def _judged(self, rows: Rows) -> Rows:
        """The rows that enter some measure."""
        wanted, seconds = self._wanted, rows.times
        wrong: list[tuple[Mask, Numbers | int]] = []
        untimed = seconds < EARLIEST
        if untimed.any():
            because = seconds - NO_TIME
            wrong = [(untimed & (because > 0), because), (untimed, Reason.TIME)]
            seconds = np.where(untimed, 0, seconds)
        for names, missing in ((rows.persons, Reason.PERSON), (rows.ids, Reason.ID)):
            if names is not None:
                wrong.append((np.asarray(names == "", dtype=np.bool_), missing))
        ticks = wanted.ticks.of(seconds)
        wrong.append((ticks < wanted.first, Reason.BEFORE))
        if wanted.end_tick is not None:
            wrong.append((ticks >= wanted.end_tick, Reason.AFTER))
        cells = list(rows.cells)
        for at, cell in enumerate(self._rules.kinds):
            used = np.zeros(len(ticks), dtype=np.bool_)
            for rule in wanted.measures:
                if cell in (rule.key, rule.amount):
                    used |= _open(rule, ticks)
            cells[at] = codes = np.where(used, cells[at], 0)  # what nobody reads says nothing
            wrong.append(((codes < 0) & (codes != UNLISTED) & (codes != EMPTY), codes))
        rows = self._without(Rows(seconds, tuple(cells), rows.persons, rows.ids), wrong)
        return self._new(self._entering(rows))

    def _without(self, rows: Rows, wrong: list[tuple[Mask, Numbers | int]]) -> Rows:
        """The rows that are not wrong; the first reason is reported."""
        wrong = [(mask, reason) for mask, reason in wrong if mask.any()]
        if not wrong:
            return rows
        reasons = np.abs(np.select([mask for mask, _ in wrong], [each for _, each in wrong], 0))
        for reason, count in enumerate(np.bincount(reasons).tolist()):
            if reason and count:
                self.report.skipped[Reason(reason)] += count
        return rows.at(np.flatnonzero(reasons == 0))

    def _entering(self, rows: Rows) -> Rows:
        """The rows that enter some measure; what each does not count is reported."""
        ticks = self._wanted.ticks.of(rows.times)
        closed = np.ones(len(ticks), dtype=np.bool_)
        nowhere, listed = closed.copy(), closed.copy()
        for rule, report in zip(self._wanted.measures, self._reports, strict=True):
            is_open = _open(rule, ticks)
            closed &= ~is_open
            enters = self._enters(rule, rows, ticks)
            nowhere &= ~enters
            report.rows_empty += _number(is_open & self._empty(rule, rows))
            if rule.key is not None:
                unlisted = _unlisted(self._codes(rule, rows), rule) & is_open
                listed &= ~unlisted
                if rule.lists_all:
                    report.rows_unlisted += _number(unlisted & ~self._empty(rule, rows))
        reasons = [(closed, Reason.CLOSED), (nowhere & ~listed, Reason.KEY)]
        return self._without(rows, [*reasons, (nowhere, Reason.EMPTY)])

    def _codes(self, rule: MeasureRule, rows: Rows) -> Numbers:
        """The keys of rows, as numbers."""
        if rule.key is None:
            return np.zeros(len(rows.times), dtype=np.int64)
        return rows.cells[self._rules.place[rule.key]]

    def _empty(self, rule: MeasureRule, rows: Rows) -> Mask:
        """The rows that lack the key or the amount of a measure."""
        cells = [rows.cells[self._rules.place[each]] for each in (rule.key, rule.amount) if each]
        empty = np.zeros(len(rows.times), dtype=np.bool_)
        for codes in cells:
            empty |= codes == EMPTY
        return empty

    def _enters(self, rule: MeasureRule, rows: Rows, ticks: Numbers) -> Mask:
        """The rows that enter a measure."""
        enters = _open(rule, ticks) & ~self._empty(rule, rows)
        if rule.key is not None and not rule.takes_unlisted:
            enters &= ~_unlisted(self._codes(rule, rows), rule)
        return enters

    def _new(self, rows: Rows) -> Rows:
        """The rows whose id was not noted by an earlier run for their person."""
        earlier, wanted = self._earlier, self._wanted
        if earlier is None or earlier.counted is None or rows.persons is None or rows.ids is None:
            return rows
        slots = wanted.slots_of(wanted.ticks.of(rows.times))
        again = np.flatnonzero(slots == wanted.slot_of(wanted.first))
        pairs = zip(as_list(rows.persons[again]), as_list(rows.ids[again]), strict=True)
        names = [
            note_name(earlier.key, "id", person_digest(person, earlier.key), text=each)
            for person, each in pairs
        ]
        repeated = np.zeros(len(slots), dtype=np.bool_)
        if names:
            repeated[again] = earlier.counted(names) > 0
        return self._without(rows, [(repeated, Reason.REPEATED)])

    # Rows of the same person and slot
    # --------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Count the rows that wait; of persons, keep those that count so far."""
        if not self._waiting:
            return
        rows, self._waiting = joined(self._waiting), []
        if not len(rows.times):
            return
        if not self._grouped:
            self._count(rows, _NONE, Persons(self._wanted, None))
            return
        repeats = np.zeros(len(rows.times), dtype=np.int64)
        if (kept := self._kept) is not None:
            kept = kept._replace(
                persons=apart(kept.persons), ids=None if kept.ids is None else apart(kept.ids)
            )
            rows, repeats = joined([kept, rows]), np.append(self._repeats, repeats)
        names = rows.persons if rows.persons is not None else rows.ids
        assert names is not None
        slots = self._wanted.slots_of(self._wanted.ticks.of(rows.times))
        order, begins = persons_together(names, slots, self._seed, rows.times)
        self._sort_ties(rows, order, begins)
        lengths = lengths_of(begins, len(order))
        repeats = repeats[order]
        if rows.persons is not None and rows.ids is not None:
            rows, group = rows.at(order), np.repeat(np.arange(len(begins)), lengths)
            assert rows.ids is not None
            same, firsts = persons_together(rows.ids, group, self._seed)
            order = same[firsts]
            repeats = np.add.reduceat(repeats[same] + 1, firsts)[np.argsort(order)] - 1
            order.sort()
            lengths = np.bincount(group[order], minlength=len(begins))
            begins = np.cumsum(lengths) - lengths
        number = np.arange(len(order)) - np.repeat(begins, lengths)
        stay = np.flatnonzero(number < self._most)
        self._kept, self._repeats = rows.at(order[stay]), repeats[stay]
        lengths = np.minimum(lengths, self._most)
        self._begins = np.cumsum(lengths) - lengths

    def _sort_ties(self, rows: Rows, order: Rows32, begins: Numbers) -> None:
        """Rows of one person at one second are in the order of what their cells mean: declared keys
        in the order of their list, hidden ones by their text, smaller amounts first."""
        times = rows.times[order]
        tied = np.zeros(len(order) + 1, dtype=np.bool_)
        tied[1:-1] = times[1:] == times[:-1]
        tied[begins] = False
        at = np.flatnonzero(tied[:-1] | tied[1:])
        if not len(at):
            return
        some, run = order[at], np.cumsum(~tied[at])
        ranks = [self._ranks(at, codes[some]) for at, codes in enumerate(rows.cells)]
        order[at] = some[np.lexsort((*reversed(ranks), run))]

    def _ranks(self, at: int, codes: Numbers) -> Numbers:
        """Numbers in the order of what they mean."""
        names, listed = self._rules.names[at], self._rules.listed[at]
        if len(names) == listed or self._rules.kinds[at].kind != "key":
            return codes
        by_text = np.empty(len(names), dtype=np.int64)
        by_text[:listed] = np.arange(listed)
        hidden = sorted(range(listed, len(names)), key=names.__getitem__)
        by_text[hidden] = np.arange(listed, len(names))
        return np.where(codes < 0, codes, by_text[np.maximum(codes, 0)])

    def _finish(self, rows: Rows, persons: Persons) -> None:
        """Count the rows that are kept, within what earlier runs left of each cap."""
        names = rows.persons if rows.persons is not None else rows.ids
        assert names is not None
        begins, length = self._begins, len(rows.times)
        slots = self._wanted.slots_of(self._wanted.ticks.of(rows.times[begins]))
        persons.begin(names[begins], slots)
        group = np.repeat(np.arange(len(begins)), lengths_of(begins, length))
        room = self._most - persons.before("row", np.arange(len(begins)))
        counts = np.flatnonzero(np.arange(length) - begins[group] < room[group])
        rows, group, repeats = rows.at(counts), group[counts], self._repeats[counts]
        repeated = int(repeats.sum())
        left = self._entered - len(counts) - repeated
        if self._rules.person is None:
            repeated, left = repeated + left, 0
        self.report.rows_dropped += left
        if repeated:
            self.report.skipped[Reason.REPEATED] += repeated
        persons.note("row", group, np.ones_like(group))
        if rows.persons is not None and rows.ids is not None:
            ids = rows.ids
            persons.note("id", group, np.ones_like(group), texts=lambda at: as_list(ids[at]))
        self._count(rows, group, persons)

    # What rows add
    # --------------------------------------------------------------------------------------------
    def _count(self, rows: Rows, group: Numbers, persons: Persons) -> None:
        """Add the rows to each measure; those of a person and slot stand together, in order."""
        if not len(rows.times):
            return
        ticks = self._wanted.ticks.of(rows.times)
        self._ticks += [int(ticks.min()), int(ticks.max())]
        for rule, report in zip(self._wanted.measures, self._reports, strict=True):
            enters = self._enters(rule, rows, ticks)
            keys, whose = self._codes(rule, rows), group
            amounts = np.ones_like(ticks)
            if rule.amount is not None:
                amounts = rows.cells[self._rules.place[rule.amount]]
            mine = ticks
            if not enters.all():
                mine, keys, amounts = ticks[enters], keys[enters], amounts[enters]
                whose = group[enters] if self._grouped else group
            if rule.measure.distinct:
                self._count_persons(rule, mine, keys, whose, persons)
                continue
            if rule.measure.max is not None:
                taken = self._cut(rule, amounts, whose, persons)
                report.rows_cut += _number(taken < amounts)
                amounts = taken
            self._add(rule, mine, _positions(keys, rule), amounts)

    def _add(self, rule: MeasureRule, ticks: Numbers, keys: Numbers, amounts: Numbers) -> None:
        if len(amounts) and not amounts.min():
            some = amounts > 0
            ticks, keys, amounts = ticks[some], keys[some], amounts[some]
        if rule.measure.overall:
            self._sums[rule.series + 1].add(ticks, np.zeros_like(ticks), amounts)
        if len(keys) and keys.min() < 0:
            some = keys >= 0
            ticks, keys, amounts = ticks[some], keys[some], amounts[some]
        self._sums[rule.series].add(ticks, keys, amounts)

    def _cut(
        self, rule: MeasureRule, amounts: Numbers, group: Numbers, persons: Persons
    ) -> Numbers:
        """What of each amount is added: a unit adds the largest sum at most."""
        assert rule.measure.max is not None
        cut = np.minimum(amounts, rule.measure.max)
        if self._rules.person is None or not len(cut):
            return cut
        begins = _begins_of(group)
        lengths = lengths_of(begins, len(cut))
        own = np.cumsum(cut)
        own -= np.repeat(own[begins] - cut[begins], lengths)
        left = rule.measure.max - persons.before("sum", group[begins], rule.measure.name)
        own = np.minimum(own, np.repeat(left, lengths))
        taken: Numbers = np.diff(own, prepend=0)
        taken[begins] = own[begins]
        persons.note("sum", group, taken, rule.measure.name)
        return taken

    def _count_persons(
        self, rule: MeasureRule, ticks: Numbers, keys: Numbers, group: Numbers, persons: Persons
    ) -> None:
        """Count each person of a slot once overall, and once under each of its first keys."""
        name, one, measure = rule.measure.name, np.ones_like(ticks), rule.measure
        if measure.overall:
            first = _begins_of(group)
            first = first[persons.before("overall", group[first], name) == 0]
            persons.note("overall", group[first], one[first], name)
            self._sums[rule.series + 1].add(ticks[first], np.zeros_like(first), one[first])
        positions = _positions(keys, rule)
        hidden = (keys >= len(rule.keys)) & measure.discover
        codes = np.where(hidden, keys, positions)  # one number for each key of a person
        mine = np.flatnonzero(codes >= 0)
        at = mine[self._first_keys(rule, codes[mine], group[mine], persons)]
        persons.note("keys", group[at], one[at], name)
        if measure.max_keys > 1:
            persons.note("key", group[at], one[at], name, self._texts(rule, codes[at]))
        if measure.discover:
            brought = at[hidden[at]]
            self._hidden[rule.series] = rule, group[brought], keys[brought]
            if self._wanted.per_address is not None:
                texts = self._texts(rule, keys[brought])
                persons.note("address", group[brought], one[brought], name, texts)
        shown = at[positions[at] >= 0]
        if measure.max_keys > 1 and measure.discover and rule.other >= 0:
            shown = self._once_under_other(rule, shown, positions, hidden, group, persons)
        self._sums[rule.series].add(ticks[shown], positions[shown], one[shown])

    def _first_keys(
        self, rule: MeasureRule, codes: Numbers, group: Numbers, persons: Persons
    ) -> Numbers:
        """The places of the rows under whose keys persons count: the first of each key."""
        most, name = rule.measure.max_keys, rule.measure.name
        if most == 1:
            firsts = _begins_of(group)
            new: Mask = persons.before("keys", group[firsts], name) == 0
            return np.compress(new, firsts)
        names = 1 + int(codes.max(initial=0))
        order, begins = together(group * names + codes)
        firsts = np.sort(order[begins]).astype(np.int64)
        texts = self._texts(rule, codes[firsts])
        firsts = firsts[persons.before("key", group[firsts], name, texts) == 0]
        if rule.measure.discover and rule.other >= 0:  # who brought a hidden key counts there
            other = rule.other
            is_hidden = codes >= len(rule.keys)
            begins = _begins_of(group[is_hidden])
            earliest = np.full(1 + int(group.max(initial=0)), len(codes))
            earliest[group[is_hidden][begins]] = np.flatnonzero(is_hidden)[begins]
            firsts = firsts[(codes[firsts] != other) | (firsts < earliest[group[firsts]])]
        begins = _begins_of(group[firsts])
        number = np.arange(len(firsts)) - np.repeat(begins, lengths_of(begins, len(firsts)))
        room = most - persons.before("keys", group[firsts], name)
        return np.compress(number < room, firsts)

    def _once_under_other(
        self,
        rule: MeasureRule,
        shown: Numbers,
        positions: Numbers,
        hidden: Mask,
        group: Numbers,
        persons: Persons,
    ) -> Numbers:
        """Of several hidden keys of a person, the first one counts under the other key too."""
        at_other = positions[shown] == rule.other
        others = shown[at_other]
        firsts = others[_begins_of(group[others])]
        through, name = firsts[hidden[firsts]], rule.measure.name
        texts = self._texts(rule, np.full_like(through, rule.other))
        through = through[persons.before("key", group[through], name, texts) == 0]
        persons.note("key", group[through], np.ones_like(through), name, texts)
        own = firsts[~hidden[firsts]]
        return np.sort(np.concatenate([shown[~at_other], own, through]))

    def _texts(self, rule: MeasureRule, codes: Numbers) -> Texts:
        names = rule.keys if rule.key is None else self._rules.names[self._rules.place[rule.key]]
        return lambda at: [names[code] for code in codes[at].tolist()]

    def _hidden_in(self, slot: int, persons: Persons) -> Iterator[tuple[int, Counts]]:
        """By how much the counts of hidden keys grow in a slot."""
        most = self._wanted.per_address
        for series, (rule, group, codes) in self._hidden.items():
            there = np.flatnonzero(persons.slots[group] == slot)
            texts, counts = self._texts(rule, codes)(there), Counter[str]()
            if most is None:
                yield series, Counter(texts)
                continue
            named = self._texts(rule, codes[there])
            before = persons.before("address", group[there], rule.measure.name, named)
            addresses = [persons.digest(each)[:ADDRESS_BYTES] for each in group[there].tolist()]
            brought = Counter(zip(addresses, texts, strict=True))
            earlier = dict(zip(zip(addresses, texts, strict=True), before.tolist(), strict=True))
            for each, more in brought.items():
                counts[each[1]] += address_share(earlier[each], more, most)
            yield series, counts


class Persons:
    """The persons (or ids of events) of whom something counts, each in a slot: a *group*; and what
    is noted about them, by this input and by earlier runs."""

    def __init__(self, wanted: PublicationRows, earlier: EarlierNotes | None) -> None:
        self._wanted, self._earlier = wanted, earlier
        self.slots = _NONE
        self._names: Names = np.empty(0, dtype=np.object_)
        self._secret = unpredictable(32) if earlier is None else earlier.key
        self._digests: dict[int, bytes] = {}
        self._new: list[tuple[str, Numbers, Numbers, str, Texts | None]] = []

    def begin(self, names: Names, slots: Numbers) -> None:
        """Say who the groups are."""
        self._names, self.slots = names, np.asarray(slots)

    def digest(self, group: int) -> bytes:
        """That of the person of a group."""
        if group not in self._digests:
            self._digests[group] = person_digest(self._names[group], self._secret)
        return self._digests[group]

    def _named(self, kind: str, groups: Numbers, measure: str, texts: list[str]) -> list[bytes]:
        part = ADDRESS_BYTES if kind == "address" else None
        return [
            note_name(self._secret, kind, self.digest(group)[:part], measure, text)
            for group, text in zip(groups.tolist(), texts, strict=True)
        ]

    def before(
        self, kind: str, groups: Numbers, measure: str = "", texts: Texts | None = None
    ) -> Numbers:
        """What earlier runs noted of each of some groups (and keys)."""
        before = np.zeros(len(groups), dtype=np.int64)
        if self._earlier is None or self._earlier.counted is None or not len(groups):
            return before
        open_slot = self._wanted.slot_of(self._wanted.first)
        again = np.flatnonzero(self.slots[groups] == open_slot)
        if len(again):
            named = [""] * len(again) if texts is None else texts(again)
            before[again] = self._earlier.counted(self._named(kind, groups[again], measure, named))
        return before

    def note(
        self,
        kind: str,
        groups: Numbers,
        amounts: Numbers,
        measure: str = "",
        texts: Texts | None = None,
    ) -> None:
        """Note amounts about some groups (and keys)."""
        self._new.append((kind, groups, amounts, measure, texts))

    def notes(self, slot: int) -> dict[bytes, int]:
        """All that is noted about a slot here."""
        notes = dict[bytes, int]()
        for kind, groups, amounts, measure, texts in self._new:
            there = np.flatnonzero((self.slots[groups] == slot) & (amounts > 0))
            named = [""] * len(there) if texts is None else texts(there)
            names = self._named(kind, groups[there], measure, named)
            for name, amount in zip(names, amounts[there].tolist(), strict=True):
                notes[name] = notes.get(name, 0) + amount
        return notes


def _positions(keys: Numbers, rule: MeasureRule) -> Numbers:
    """The positions of declared keys; of the others that of the key which takes them, or -1."""
    listed = len(rule.keys)
    if not len(keys) or (keys.min() >= 0 and keys.max() < listed):
        return keys
    return np.where((keys >= 0) & (keys < listed), keys, rule.other)


def _unlisted(keys: Numbers, rule: MeasureRule) -> Mask:
    """Which keys are in no list."""
    unlisted: Mask = (keys == UNLISTED) | (keys >= len(rule.keys))
    return unlisted


def _open(rule: MeasureRule, ticks: Numbers) -> Mask:
    """Where a measure is open."""
    is_open: Mask = (ticks >= rule.since) & (ticks < rule.until)
    return is_open


def _number(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _begins_of(group: Numbers) -> Numbers:
    """Where each group begins; groups stand together."""
    changes = np.ones(len(group), dtype=np.bool_)
    changes[1:] = group[1:] != group[:-1]
    return np.flatnonzero(changes)
