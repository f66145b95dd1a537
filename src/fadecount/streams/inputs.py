"""Events accepted for the open tick: durable before they are acknowledged, each batch counted once,
each person up to a cap, and of the persons of one address who bring a hidden key only so many.

Accepting needs no counter state and no lock of the stream, so with PostgreSQL any process may
accept while one closes ticks. The transaction that closes a tick waits for transactions that
accept, and they wait for it: an event counts in one tick.

Accepted events are added up as they arrive, so the time to close a tick grows with the number of
keys, not of events.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import add_up
from fadecount.errors import ClockError, FadecountError, InputError, ParameterError
from fadecount.mechanisms.unit import ADDRESS_BYTES, CapKey, Key, person_digest
from fadecount.streams.database import Context, placeholders
from fadecount.streams.description import LONGEST_KEY, Description, can_be_key
from fadecount.streams.discovery import Counts, address_share
from fadecount.streams.embargo import full, hide, is_full, take_hidden
from fadecount.streams.seal import SecretRows
from fadecount.streams.status import Status, read_keys

LARGEST_COUNT = 1 << 40
"""The largest sum of a batch: millions of batches do not reach that of a counter, which would stop
the stream."""
OF_THE_STREAM = 1 << 62
"""The block of the secret that lives as long as its stream; in the others, keys live for a tick or
a day."""
IN_A_SERIES = 1 << 32
"""More than the keys of a series: the cell of a key is the number of its series times this, and its
position."""
FOLD_BYTES = 1 << 16
"""Accepted rows are added up into one when they are larger than this, and larger than that one."""

JOIN_ENTRIES = 1000
"""Rows of hidden keys are joined after so many entries, and more than an eighth of those before."""

_ROWS_PER_STATEMENT = 256
_ROW_BYTES = 100
"""Approximate size of a row without its body, which has at most 16 bytes for each entry."""

Numbers = NDArray[np.int64]
Entry = tuple[Key, int, int, bytes]
"""A key, how many events, the amount of each, and a hash of the person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Counts by key that are accepted together; a repeated batch with the same ``id`` counts once.

    A stream that protects persons needs the ``person`` whose events these are: an id, or its digest
    (:func:`person_digest`). The events of a batch arrive key by key.

    Where the unit has an amount of 1, a count is a number of events. Otherwise each count is the
    amount of one event, and one above the unit's amount counts as that.
    """

    counts: Mapping[str, int] = field(repr=False)
    id: str | None = None
    person: str | bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """How far a source has been read, in the reader's own form (``body``); stored together with
    what was read up to there."""

    source: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Events:
    """Checked events in the order of their arrival. There is one entry for each key of a batch,
    however large its count is: the key, how many events, the amount of each, and the hash of whose
    they are. Without persons, amounts may be sums. ``id`` is that of the batch."""

    entries: Sequence[Entry] = field(repr=False)
    id: str | None = None


class RowEntry(Protocol):
    """A row of a publication as it counts in a tick; ``names`` are those of all notes that decide
    what it adds."""

    @property
    def names(self) -> Sequence[bytes]:
        """Of each note. Whatever counts, each is written."""


class Adds(Protocol):
    """What a row adds, as (number of the series, key, amount), and by how much the notes about its
    person grow; or a ``reason`` why it adds nothing."""

    @property
    def added(self) -> Sequence[tuple[int, Key, int]]: ...

    @property
    def notes(self) -> Mapping[bytes, int]: ...

    @property
    def reason(self) -> int | None: ...


class RowRule(Protocol):
    """What rows add to the measures of a publication; the rule of :mod:`fadecount.sources`."""

    def entry(self, event: Any, tick: int, secret: bytes, /) -> RowEntry | int:
        """The row as it counts in a tick, or why it is left out. ``secret`` is the key of the names
        of notes."""

    def additions(self, entry: Any, notes: Mapping[bytes, int], /) -> Adds:
        """What a row adds, given what is noted in the slot of its tick."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of a publication that are accepted together, in the order of their arrival; a repeated
    batch with the same ``id`` counts once."""

    rows: Sequence[Any] = field(repr=False)
    id: str | None = None


class Intake:
    """Accepts events for the open tick of one stream.

    Guarantees: accepted events are durable; a batch id counts once; no more events and keys of one
    person count in a released tick than the stream's unit allows, over all processes, runs and
    restarts. Nothing that a caller sees depends on the cap.
    """

    def __init__(self, context: Context, status: Status) -> None:
        self._context, self._database, self._id = context, context.database, status.id
        self._rows = SecretRows(context, status.uid, status.id)
        self.description = status.description
        """What the stream is: fixed and public."""
        self.positions: dict[str, int] = {}
        """The position of every declared key, where there is one series."""
        self._widths, self._width = "", 0
        """How many keys there are known to be, as it is stored, and in all."""
        self._read_positions(json.dumps(status.widths))
        self._secret = self._secret_of(OF_THE_STREAM)
        self._unfolded = 0
        self._unjoined, self._joined = 0, (0, 0)
        """Entries since rows of hidden keys were joined; a block, and its entries until then."""
        self._full = False

    def _read_positions(self, widths: str) -> None:
        """Read the declared keys, unless those that are known are so many."""
        if widths != self._widths:
            self._widths, self._width = widths, sum(json.loads(widths))
            if len(self.description.series) == 1:
                keys, _ = read_keys(self._database, self._id)
                self.positions = {key: at for at, key in enumerate(keys)}

    def add(
        self,
        counts: Mapping[str, int],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        person: str | bytes | None = None,
        at: float | None = None,
    ) -> bool:
        """Count a :class:`Batch` in the open tick; durable when it returns. False if a batch of
        this id was counted before.

        ``at`` is when the events happened (Unix seconds): if the open tick was over by
        then, a ``ClockError`` is raised, since an event counted before its time has lost more than
        its age says. Close the ticks that are over first. Without ``at``, the events are assumed to
        belong to the open tick or an older one.
        """
        return self.add_many([Batch(counts=counts, id=id, person=person)], at=at)[0]

    def add_many(
        self,
        batches: Iterable[Batch],
        *,
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> list[bool]:
        """:meth:`add` for several batches in one transaction (group commit), with how far their
        source has been read.

        When it raises an ``InputError``, none was counted; after a ``StoreError``, repeating them
        under the same ids counts each once.
        """
        return self.accept([self.checked(batch) for batch in batches], at, position).fresh

    def accept(
        self,
        events: Sequence[Events],
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> Accepted:
        """Accept events that are checked, in one transaction. Sums of theirs have no bound.

        ``position`` says how far their source has been read; it is stored in the same transaction,
        so a restart neither counts an event twice nor leaves one out.
        """
        not_before = None if at is None else self.description.ticks.at(at)
        (outcome,) = accept_together([Acceptance(self, events, not_before, position)])
        if isinstance(outcome, FadecountError):
            raise outcome
        return outcome

    def take(
        self,
        batches: Sequence[RowBatch],
        rule: RowRule,
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> Accepted:
        """Accept rows of a publication, in one transaction: each counts in all its measures. The
        others are as for :meth:`accept`. ``reasons`` of the result say for each batch why which of
        its rows add nothing, for the operator only."""
        not_before = None if at is None else self.description.ticks.at(at)
        (outcome,) = accept_together([Acceptance(self, batches, not_before, position, rule)])
        if isinstance(outcome, FadecountError):
            raise outcome
        return outcome

    def noted(self, names: Sequence[bytes]) -> Numbers:
        """The numbers of some notes about the open slot of the unit."""
        counted = self._counted(self._open_block(), names)
        return np.array([counted.get(each, 0) for each in names], dtype=np.int64)

    def persons_counted(
        self, persons: Sequence[str | bytes], keys: Sequence[Key] | None = None
    ) -> Numbers:
        """How many events of each of these persons count in the open tick so far.

        Where the unit has several keys: under how many keys each person counts; or, with ``keys``,
        how many events of each person count under that key. Of an address (by its digest), how many
        persons brought that hidden key.
        """
        hashes = self.hashes(persons)
        if keys is not None:
            hashes = [self._pair(person, key) for person, key in zip(hashes, keys, strict=True)]
        counted = self._counted(self._open_block(), hashes)
        return np.array([counted.get(each, 0) for each in hashes], dtype=np.int64)

    @property
    def persons_noted(self) -> int:
        """A number that grows whenever more of any person is accepted for the open tick or day; 0
        if nothing was."""
        sql = "SELECT COALESCE(SUM(events), 0) FROM persons WHERE stream = ? AND person >= ?"
        ((noted,),) = self._database.query(sql, (self._id, noted_as(self._open_block())))
        return int(noted)

    def _open_block(self) -> int:
        """The open tick, or its day."""
        ((last,),) = self._database.query("SELECT last_tick FROM streams WHERE id = ?", (self._id,))
        return self.description.slot_of(int(last) + 1)

    def _counted(self, block: int, hashes: Iterable[bytes]) -> dict[bytes, int]:
        counted: dict[bytes, int] = {}
        names = self._names(block, hashes)
        for part in _parts(sorted(names)):
            sql = "SELECT person, events FROM persons WHERE stream = ? AND person IN"
            rows = self._database.query(f"{sql} ({placeholders(part)})", (self._id, *part))
            counted.update((names[bytes(name)], count) for name, count in rows)
        return counted

    def _names(self, block: int, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        """The hash of each person by the name under which it is noted in a tick or a day. Its key
        is drawn when that begins, and destroyed when it ends."""
        begin, key = noted_as(block), self._secret_of(block)
        return {
            begin + hashlib.blake2b(each, key=key, digest_size=16).digest(): each for each in hashes
        }

    def _secret_of(self, block: int) -> bytes:
        """The key of a tick or a day, or of the stream."""
        ((_, secret),) = self._rows.read("secrets", "block = ?", block)
        return bytes(secret)

    def note_persons(self, block: int, counted: Mapping[CapKey, int]) -> None:
        """Note what of persons, by their digests, a source has counted in a block, as
        :meth:`Unit.takes` notes it, in the transaction that closes the ticks of these events."""
        names: dict[bytes, int] = {}
        for each, count in counted.items():
            (person,) = self.hashes([each if isinstance(each, bytes) else each[0]])
            names[person if isinstance(each, bytes) else self._pair(person, each[1])] = count
        self._note(block, names)

    @property
    def person_key(self) -> bytes:
        """A secret of this stream, 32 bytes: the key of the digests that stand for persons
        (:func:`person_digest`)."""
        return hashlib.blake2b(b"in memory", key=self._secret, digest_size=32).digest()

    def position(self, source: str) -> bytes | None:
        """How far a source has been read, as stored together with its events; None if nothing was
        read."""
        rows = self._rows.read("positions", "source = ?", source)
        return rows[0][1] if rows else None

    def _accept(self, acceptance: Acceptance) -> Accepted | FadecountError:
        """Inside a transaction, until whose end the open tick stays open. An error is returned
        before anything is written."""
        sql = "SELECT last_tick + 1, widths FROM streams WHERE id = ?"
        rows = self._database.query(sql + self._database.for_share, (self._id,))
        if not rows:
            return ParameterError("stream must exist to accept events; it was deleted")
        tick, widths = int(rows[0][0]), rows[0][1]
        if acceptance.not_before is not None and tick < acceptance.not_before:
            return ClockError("the open tick is over; close it before events are added")
        if (acceptance.rule is None) is not (self.description.publication is None):
            return InputError("a publication takes rows, and any other stream events")
        if self._full:
            return full()
        self._read_positions(widths)  # a key that was hidden so far may be declared now
        fresh = self._remember([each.id for each in acceptance.events], tick)
        new = list(compress(acceptance.events, fresh))
        if acceptance.position is not None:
            self._rows.put("positions", (acceptance.position.source, acceptance.position.body))
        if acceptance.rule is None:
            return Accepted(fresh, self._write(tick, [e for e in new if isinstance(e, Events)]))
        batches = [each for each in new if isinstance(each, RowBatch)]
        reasons = self._take(tick, batches, acceptance.rule)
        return Accepted(fresh, sum(each.count(None) for each in reasons), reasons)

    def _take(
        self, tick: int, batches: Sequence[RowBatch], rule: RowRule
    ) -> list[list[int | None]]:
        """Store what the rows of some batches add to each series, and the notes about their
        persons; returns for each row why it adds nothing (None: it does)."""
        slot, secret = self.description.slot_of(tick), self.person_key
        entries = [[rule.entry(row, tick, secret) for row in each.rows] for each in batches]
        flat = [each for some in entries for each in some if not isinstance(each, int)]
        more = dict.fromkeys((name for each in flat for name in each.names), 0)
        notes = self._notes(slot, more)
        cells, amounts = list[int](), list[int]()
        hidden: dict[int, Counter[str]] = {each.number or 0: Counter() for each in self._hiding}

        def adds(entry: RowEntry | int) -> int | None:
            if isinstance(entry, int):
                return entry
            adding = rule.additions(entry, notes)
            for name, number in adding.notes.items():
                notes[name] += number
                more[name] += number
            for series, key, amount in adding.added:
                if isinstance(key, str):
                    hidden[series][key] += amount
                else:
                    cells.append(series * IN_A_SERIES + key)
                    amounts.append(amount)
            return adding.reason

        reasons = [[adds(each) for each in some] for some in entries]
        if more:  # all of them: what is written does not reveal whether something counts
            self._note(slot, more)
        rows = sum(map(len, entries))
        for series, counts in hidden.items():
            self.store_hidden(slot, counts, rows, series=series)
        if batches:
            at = np.array(cells, dtype=np.int64), np.array(amounts, dtype=np.int64)
            self._insert(*at, rows * len(self.description.series))
        return reasons

    def _notes(self, slot: int, names: Iterable[bytes]) -> dict[bytes, int]:
        """The numbers of notes. After this, other processes wait with them."""
        wanted = dict.fromkeys(names, 0)
        if not wanted:
            return {}
        if self._database.for_update:
            return self._note(slot, wanted)
        return wanted | self._counted(slot, wanted)

    @property
    def _hiding(self) -> list[Description]:
        """The parts in which keys are hidden."""
        return [each for each in self.description.parts if each.hidden is not None]

    def checked(self, batch: Batch) -> Events:
        """A batch as events that can be accepted, or an ``InputError``; for known keys without the
        database."""
        counts = [(key, _count(count)) for key, count in batch.counts.items()]
        if self.description.unit.amount == 1:
            return self.events([(*each, 1) for each in counts], batch.id, batch.person)
        return self.events([(key, 1, amount) for key, amount in counts], batch.id, batch.person)

    def events(
        self,
        events: Sequence[tuple[str, int, int]],
        batch_id: str | None,
        person: str | bytes | None,
    ) -> Events:
        """:meth:`checked` for events, all of one person or of nobody: a key, how many, and the
        amount of each. A larger amount counts as the unit's."""
        unit = self.description.unit
        if person is not None and unit.of != "person":
            raise InputError("person must be left out: the stream protects one event, not persons")
        if person is None and unit.of == "person":
            raise InputError("person must be given: the stream protects persons")
        whose = b"" if person is None else self.hashes([person])[0]
        keys = self._keys([key for key, _, _ in events])
        entries = [
            (key, times, min(amount, unit.amount), whose)
            for key, (_, times, amount) in zip(keys, events, strict=True)
        ]
        if sum(times * amount for _, times, amount, _ in entries) > LARGEST_COUNT:
            raise _wrong_count()
        return Events(entries, batch_id)

    def _keys(self, keys: Sequence[str]) -> Sequence[Key]:
        if self.description.hidden is not None:  # looked up when they are written
            if not all(map(can_be_key, keys)):
                raise InputError(f"key must be 1 to {LONGEST_KEY} printable characters")
            return keys
        if not self.positions.keys() >= set(keys):  # it may be declared by now
            sql = "SELECT widths FROM streams WHERE id = ?"
            for (widths,) in self._database.query(sql, (self._id,)):
                self._read_positions(widths)
        if not self.positions.keys() >= set(keys):
            raise InputError(
                "key must be declared, got an unknown one; declare it first, or count it under one"
                " such as other"
            )
        return [self.positions[key] for key in keys]

    def hashes(self, persons: Iterable[str | bytes]) -> list[bytes]:
        """How persons are stored, and named in :class:`Events`. An id and its digest are one
        person, whichever way the events came. Where few persons of an address count, a hash begins
        with that of the address, as the digest does."""
        key, hidden = self.person_key, self.description.hidden
        digests = (person_digest(each, key) if isinstance(each, str) else each for each in persons)
        if hidden is None or hidden.per_address is None:
            return [self._hash(each) for each in digests]
        split = ((each[:ADDRESS_BYTES], each[ADDRESS_BYTES:]) for each in digests)
        return [self._hash(address) + (own and self._hash(own)) for address, own in split]

    def _hash(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._secret, digest_size=ADDRESS_BYTES).digest()

    def _pair(self, person: bytes, key: Key) -> bytes:
        """How a stored person (or address) and a key are stored together."""
        kind, text = (
            (b"hidden", key.encode()) if isinstance(key, str) else (b"key", key.to_bytes(8))
        )
        return hashlib.blake2b(
            person + text, key=self._secret, person=kind, digest_size=16
        ).digest()

    def _write(self, tick: int, taken: Sequence[Events]) -> int:
        """Store the events within their persons' caps for the open tick; returns how many there
        are."""
        description, block = self.description, self.description.block_of(tick)
        entries = [entry for each in taken for entry in each.entries]
        if description.hidden is not None:
            known = self.positions
            entries = [
                (known.get(key, key) if isinstance(key, str) else key, times, amount, who)
                for key, times, amount, who in entries
            ]
        if description.unit.of == "person":
            entries = self._capped(block, entries)
        if taken:  # even if nothing counts: the write must not reveal whether something did
            counted = entries if description.hidden is None else self._hide(block, entries)
            keys = np.array([key for key, times, _, _ in counted if times], dtype=np.int64)
            sums = [times * amount for _, times, amount, _ in counted if times]
            self._insert(keys, np.array(sums, dtype=np.int64), len(entries))
        return sum(times for _, times, _, _ in entries)

    def _hide(self, block: int, entries: Sequence[Entry]) -> list[Entry]:
        """Store what of these entries is hidden; returns them as they count under declared keys:
        the hidden ones under another, or not at all."""
        hidden = self.description.hidden
        assert hidden is not None
        counts = self._brought(
            block, [(who, key) for key, times, _, who in entries if isinstance(key, str) and times]
        )
        self.store_hidden(block, self._sampled(block, counts), len(entries))
        if hidden.other is None:
            return [each for each in entries if not isinstance(each[0], str)]
        other = self.positions[hidden.other]
        return [
            (other if isinstance(key, str) else key, times, amount, who)
            for key, times, amount, who in entries
        ]

    def _brought(self, block: int, brought: Sequence[tuple[bytes, str]]) -> Counts:
        """By how much the counts of hidden keys grow that these persons brought.

        A key of which no more persons of an address count is there too, with 0, and its persons are
        noted: what is written does not reveal whether something counts.
        """
        hidden = self.description.hidden
        if hidden is None or hidden.per_address is None:
            return Counter(key for _, key in brought)
        more = Counter((person[:ADDRESS_BYTES], key) for person, key in brought)
        names = {self._pair(*each): each for each in more}
        noted = self._note(block, {name: more[each] for name, each in names.items()})
        counts = Counter[str]()
        for name, each in names.items():
            before = noted[name] - more[each]
            counts[each[1]] += address_share(before, more[each], hidden.per_address)
        return counts

    def _sampled(self, block: int, counts: Counts) -> Counts:
        hidden = self.description.hidden
        if hidden is None or hidden.sample == 1.0:
            return counts
        return hidden.sampled(counts, self._secret_of(block))

    def store_hidden(
        self, block: int, counts: Counts, entries: int = 0, *, series: int = 0
    ) -> None:
        """Store how many more persons brought which hidden keys, in a transaction. From time to
        time the rows of the day are joined: after so many ``entries``, whatever their keys are, or
        a pause would tell how many keys are hidden."""
        hide(self._rows, series, block, counts)
        before = self._joined[1] if self._joined[0] == block else 0
        self._joined = block, before
        self._unjoined += 1 + entries
        if self._unjoined > max(JOIN_ENTRIES, before // 8):
            self._joined = block, before + self._unjoined
            self._join_hidden(block)

    def _join_hidden(self, block: int, without: Iterable[str] = ()) -> None:
        """Join the rows of hidden keys of the open day, and destroy what they hold of some keys."""
        self._unjoined, self._full = 0, False
        for part in self._hiding:
            series = part.number or 0
            joined = take_hidden(self._rows, series, block + 1).get(block, {})
            for key in without:
                joined.pop(key, None)
            # what brings one key too many is stored; then everything is refused, whatever its key
            self._full = self._full or is_full(joined)
            hide(self._rows, series, block, joined)

    def _capped(self, block: int, entries: Sequence[Entry]) -> list[Entry]:
        """These entries with as many of their events as count, by :meth:`Unit.takes`."""
        unit = self.description.unit
        # after this, other processes wait with these persons
        persons = [person for _, _, _, person in entries]
        counted = dict[Hashable, int](self._note(block, dict.fromkeys(persons, 0)).items())
        stored = dict[Hashable, bytes](zip(persons, persons, strict=True))
        noted = set(stored)
        if unit.keys > 1:
            pairs = {(person, key): self._pair(person, key) for key, _, _, person in entries}
            earlier = self._counted(block, pairs.values())
            counted |= {each: earlier[name] for each, name in pairs.items() if name in earlier}
            stored.update(pairs.items())
        before = dict(counted)
        capped = [
            (key, unit.takes(counted, person, key, times), amount, person)
            for key, times, amount, person in entries
        ]
        more = {each: count - before.get(each, 0) for each, count in counted.items()}
        # persons are always written: what is written does not reveal whether something counts
        self._note(block, {stored[e]: count for e, count in more.items() if count or e in noted})
        return capped

    def _note(self, block: int, added: Mapping[bytes, int]) -> dict[bytes, int]:
        """Add to the stored numbers, and return them."""
        names = self._names(block, added)
        rows = self._insert_rows(
            "persons (stream, person, events)",
            [(self._id, name, added[each]) for name, each in names.items()],
            "(stream, person) DO UPDATE SET events = persons.events + excluded.events"
            " RETURNING person, events",
        )
        return {names[bytes(name)]: count for name, count in rows}

    def _insert_rows(
        self, table: str, rows: Iterable[tuple[Any, ...]], on_conflict: str
    ) -> Iterator[tuple[Any, ...]]:
        """Insert rows, and return what that returns. Every process writes in one order: otherwise
        two could deadlock."""
        for part in _parts(sorted(rows)):
            values = ", ".join([f"({placeholders(part[0])})"] * len(part))
            yield from self._database.query(
                f"INSERT INTO {table} VALUES {values} ON CONFLICT {on_conflict}",  # noqa: S608
                [value for row in part for value in row],
            )

    def _insert(self, keys: Numbers, counts: Numbers, entries: int) -> None:
        """Store what counts of so many ``entries``. From time to time the rows are added up: after
        so many entries, whether they count or not, or a pause would tell how many do."""
        self._unfolded += _ROW_BYTES + 16 * entries
        if self._unfolded > max(FOLD_BYTES, 16 * self._width):
            waiting = [_unpacked(body) for (body,) in self._rows.take("inputs")]
            keys, counts = np.concatenate([*waiting, (keys, counts)], axis=1)
            keys, places = np.unique(keys, return_inverse=True)
            sums = np.zeros(len(keys), dtype=np.int64)
            add_up(sums, places, counts)
            counts, self._unfolded = sums, 0
        self._rows.put("inputs", (np.concatenate([keys, counts]).astype("<i8").tobytes(),))

    def _remember(self, ids: Sequence[str | None], tick: int) -> list[bool]:
        """Store the ids; True for those that are new (and for batches without one)."""
        names = [
            None if each is None else hashlib.blake2b(each.encode(), digest_size=16).digest()
            for each in ids
        ]
        rows = self._insert_rows(
            "seen (stream, batch, tick)",
            [(self._id, name, tick) for name in {*names} - {None}],
            "DO NOTHING RETURNING batch",
        )
        added = {name for (name,) in rows}
        fresh = []
        for name in names:
            fresh.append(name is None or name in added)
            added.discard(name)
        return fresh


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Events for the open tick of a stream. One before ``not_before`` is a ``ClockError``:
    an event counted in a tick before its own would have lost more than its time says."""

    intake: Intake
    events: Sequence[Events | RowBatch]
    not_before: int | None = None
    position: ReadPosition | None = None
    rule: RowRule | None = None
    """What rows of a publication add."""


class Accepted(NamedTuple):
    """For each of the events whether they are new (False: their id counted before), and how many
    count: that number is for the operator only. For each new batch of rows, why which of them add
    nothing."""

    fresh: list[bool]
    counted: int
    reasons: Sequence[Sequence[int | None]] = ()


def accept_together(acceptances: Sequence[Acceptance]) -> list[Accepted | FadecountError]:
    """Accept events for several streams of one store, in one transaction.

    A stream that was deleted, or whose open tick is over, gets its error; the others are accepted.
    When it raises, none is.
    """
    outcomes: list[Accepted | FadecountError] = [Accepted([], 0)] * len(acceptances)
    # in the order of their numbers, so that processes do not deadlock
    order = sorted((each.intake._id, at) for at, each in enumerate(acceptances) if each.events)
    if order:
        context = acceptances[0].intake._context
        context.checkpoint("before accept")
        with context.database.transaction():
            for _, at in order:
                outcomes[at] = acceptances[at].intake._accept(acceptances[at])
            context.checkpoint("accept written")
        context.checkpoint("accept committed")
    return outcomes


def take_inputs(context: Context, statuses: Sequence[Status]) -> dict[int, Numbers]:
    """Add up the inputs accepted so far for some streams and remove them, inside the transaction
    that closes their ticks: one count for each key, series after series."""
    sums = {status.id: np.zeros(status.width, dtype=np.int64) for status in statuses}
    before = {status.id: np.cumsum([0, *status.widths[:-1]]) for status in statuses}
    rows = {status.id: SecretRows(context, status.uid, status.id) for status in statuses}
    streams = list(rows)
    sql = f"DELETE FROM inputs WHERE stream IN ({placeholders(streams)}) RETURNING stream, body"  # noqa: S608
    for stream, body in context.database.query(sql, streams):
        cells, amounts = _unpacked(rows[stream].opened("inputs", body))
        columns = before[stream][cells // IN_A_SERIES] + cells % IN_A_SERIES
        add_up(sums[stream], columns, amounts)
    return sums


def _unpacked(body: bytes) -> Numbers:
    """The cells of accepted events, and how much each gets."""
    return np.frombuffer(body, dtype="<i8").astype(np.int64).reshape(2, -1)


def noted_as(block: int) -> bytes:
    """What ``person`` begins with in a row of ``persons`` that was noted in a tick or day; in their
    order."""
    return (block + (1 << 63)).to_bytes(8, "big")


def _parts(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        yield rows[start : start + _ROWS_PER_STATEMENT]


def _count(value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong_count() from None
    if isinstance(value, bool | np.bool) or not 0 <= number <= LARGEST_COUNT:
        raise _wrong_count()
    return number


def _wrong_count() -> InputError:
    return InputError(
        "counts must be integers from 0 to 2**40, also together; split larger ones over several"
        " batches"
    )
