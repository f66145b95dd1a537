"""Events accepted for the open tick: durable before they are acknowledged, each batch counted once,
each person up to a cap.

Accepting needs no counter state and no lock of the stream, so with PostgreSQL any process may
accept while one closes ticks. The transaction that closes a tick waits for transactions that
accept, and they wait for it: an event counts in one tick.

Accepted events are added up as they arrive, so the time to close a tick grows with the number of
keys, not of events.
"""

from __future__ import annotations

import hashlib
import operator
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import add_up
from fadecount.errors import ClockError, FadecountError, InputError, ParameterError
from fadecount.noise import unpredictable
from fadecount.streams.database import Checkpoints, Database, placeholders
from fadecount.streams.description import Description
from fadecount.streams.discovery import LONGEST_KEY, Counts, can_be_key
from fadecount.streams.embargo import full, hide, take_hidden
from fadecount.streams.seal import Seal
from fadecount.streams.status import Status, read_keys

LARGEST_COUNT = 1 << 40
FOLD_BYTES = 1 << 16
"""Accepted rows are added up into one when they are larger than this, and larger than that one."""

JOIN_ENTRIES = 1000
"""Rows of hidden keys are joined after so many entries, and more than an eighth of those before."""

_ROWS_PER_STATEMENT = 256
_ROW_BYTES = 100
"""Approximate size of a row without its body."""

Numbers = NDArray[np.int64]
Key = int | str
"""The position of a declared key, or the text of a hidden one."""
Noted = bytes | tuple[bytes, Key]
"""The digest of a person, or that of a person and a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Counts by key that are accepted together; a repeated batch with the same ``id`` counts once.

    A stream that protects persons needs the ``person`` whose events these are: an id, or its digest
    (:func:`person_digest`). The events of a batch arrive key by key.

    Where the unit has an amount of 1, a count is a number of events. Otherwise each count is the
    amount of one event, and one above the unit's amount counts as that. Counts that add up several
    events need ``largest_amount``, the largest amount among these events; the caller is responsible
    for it. One above the unit's is refused, and so are sums of amounts of a person.
    """

    counts: Mapping[str, int] = field(repr=False)
    id: str | None = None
    person: str | bytes | None = field(default=None, repr=False)
    largest_amount: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """How far a source has been read, in the reader's own form (``body``); stored together with
    what was read up to there."""

    source: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Events:
    """Checked events in the order of their arrival, as entries: a key, how many events, the amount
    of each, and whose. ``id`` is that of their batch.

    There is one entry for each key of a batch, however large its count is. Without persons,
    ``amounts`` may be sums.
    """

    keys: list[Key]
    times: list[int]
    amounts: list[int]
    persons: list[bytes]
    id: str | None = None


class Intake:
    """Accepts events for the open tick of one stream.

    Guarantees: accepted events are durable; a batch id counts once; no more events and keys of one
    person count in a released tick than the stream's unit allows, over all processes, runs and
    restarts. Nothing that a caller sees depends on the cap.
    """

    def __init__(
        self, database: Database, seal: Seal, status: Status, checkpoint: Checkpoints
    ) -> None:
        self._database, self._seal, self._checkpoint = database, seal, checkpoint
        self._id, self._uid, self._description = status.id, status.uid, status.description
        self.positions: dict[str, int] = {}
        """The position of every declared key."""
        self._read_positions()
        self._secret = seal.open(_secret_of(database, status.id), f"{status.uid}/secret")
        self._unfolded = 0
        self._unjoined, self._joined = 0, (0, 0)
        """Entries since rows of hidden keys were joined; a block, and its entries until then."""
        self._full = False

    def _read_positions(self, width: int = -1) -> None:
        """Read the declared keys, unless those that are known are so many."""
        if width != len(self.positions):
            keys = read_keys(self._database, self._id)
            self.positions = {key: at for at, key in enumerate(keys)}

    @property
    def description(self) -> Description:
        """What the stream is: fixed and public."""
        return self._description

    def add(
        self,
        counts: Mapping[str, int],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        person: str | bytes | None = None,
        at: float | None = None,
    ) -> bool:
        """Count events in the open tick; durable when it returns. False if a batch of this id was
        counted before.

        Where the unit has an amount of 1, a count is a number of events. Otherwise each count is
        the amount of one event, and one above the unit's amount counts as that; :class:`Batch` says
        how to add sums. ``person`` is the person who caused
        the events; a stream that protects persons needs it, and counts as many of the events as its
        unit allows. ``at`` is when the events happened (Unix seconds): if the open tick was over by
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
        """:meth:`add_many` for events that are checked already. Sums of theirs have no bound."""
        not_before = None if at is None else self._description.ticks.at(at)
        (outcome,) = accept_together([Acceptance(self, events, not_before, position)])
        if isinstance(outcome, FadecountError):
            raise outcome
        return outcome

    def add_rows(
        self,
        keys: Sequence[Key] | Numbers,
        amounts: Numbers,
        persons: Sequence[str | bytes] | None = None,
        *,
        at: float | None = None,
        position: ReadPosition | None = None,
    ) -> int:
        """Count single events in the open tick, in one transaction: one row each, with the position
        of its key (the text of a hidden one) and its amount.

        An amount above the unit's counts as that. ``at`` is the latest time of these
        events, as in :meth:`add`. ``position`` says how far their source has been read; it is
        stored in the same transaction, so a restart neither counts an event twice nor leaves one
        out. Returns how many rows count: the others are beyond the cap of their person. That number
        is for the operator only.
        """
        if not len(keys) == len(amounts) == (len(keys) if persons is None else len(persons)):
            raise InputError(
                "keys, amounts and persons must have one length; give each row its own"
            )
        keys = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        for key in set(keys):
            hidden = isinstance(key, str)
            if not (self._may_hide(key) if hidden else 0 <= key < len(self.positions)):
                raise InputError("keys must be positions in the declared keys")
        self._check_person(persons is not None)
        if len(keys) and int(amounts.min()) < 0:
            raise InputError("amount must be at least 0 for every event; leave the others out")
        amounts = np.minimum(amounts, self._description.unit.amount)
        hashes = [] if persons is None else self._hashes(persons)
        events = Events(keys, [1] * len(keys), amounts.tolist(), hashes)
        return self.accept([events], at, position).counted

    def _may_hide(self, key: object) -> bool:
        return self._description.hidden is not None and can_be_key(key)

    def persons_counted(
        self, persons: Sequence[str | bytes], keys: Sequence[Key] | None = None
    ) -> Numbers:
        """How many events of each of these persons count in the open tick so far, at most the
        unit's number.

        Where the unit has several keys: under how many keys each person counts; or, with ``keys``,
        how many events of each person count under that key.
        """
        unit, hashes = self._description.unit, self._hashes(persons)
        most = unit.events if keys is not None or unit.keys == 1 else unit.keys
        if keys is not None:
            hashes = [self._pair(person, key) for person, key in zip(hashes, keys, strict=True)]
        counted = self._counted(self._open_block(), hashes)
        numbers = np.array([counted.get(each, 0) for each in hashes], dtype=np.int64)
        return np.minimum(numbers, most)

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
        return self._description.block_of(int(last) + 1)

    def _counted(self, block: int, hashes: Iterable[bytes]) -> dict[bytes, int]:
        counted: dict[bytes, int] = {}
        names = self._names(block, hashes)
        for part in _parts(sorted(names)):
            sql = "SELECT person, events FROM persons WHERE stream = ? AND person IN"
            rows = self._database.query(f"{sql} ({placeholders(part)})", (self._id, *part))
            counted.update((names[bytes(name)], count) for name, count in rows)
        return counted

    def _names(self, block: int, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
        """The hash of each person by the name under which it is noted in a tick or a day. The key
        of a day is drawn when it is first needed, and destroyed with the day."""
        begin = noted_as(block)
        if self._description.unit.per == "tick":
            return {begin + each: each for each in hashes}
        key = self._block_key(block)
        return {
            begin + hashlib.blake2b(each, key=key, digest_size=16).digest(): each for each in hashes
        }

    def _block_key(self, block: int) -> bytes:
        """The key of a day. It is read each time: a transaction that drew it may be undone."""
        about = f"{self._uid}/block/{block}"
        sql = "SELECT secret FROM block_keys WHERE stream = ? AND block = ?"
        rows = self._database.query(sql, (self._id, block))
        if not rows:
            self._database.change(
                "INSERT INTO block_keys (stream, block, secret) VALUES (?, ?, ?)"
                " ON CONFLICT (stream, block) DO NOTHING",
                (self._id, block, self._seal.close(unpredictable(32), about)),
            )
            rows = self._database.query(sql, (self._id, block))
        return self._seal.open(rows[0][0], about)

    def note_persons(self, block: int, counted: Mapping[Noted, int]) -> None:
        """Note what of persons, by their digests, a source has counted in a block, as
        :meth:`Unit.takes` notes it, in the transaction that closes the ticks of these events."""
        names: dict[bytes, int] = {}
        for each, count in counted.items():
            (person,) = self._hashes([each if isinstance(each, bytes) else each[0]])
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
        rows = self._database.query(
            "SELECT body FROM positions WHERE stream = ? AND source = ?", (self._id, source)
        )
        return self._seal.open(rows[0][0], f"{self._uid}/position/{source}") if rows else None

    def _accept(self, acceptance: Acceptance) -> Accepted | FadecountError:
        """Inside a transaction. An error is returned before anything is written."""
        try:
            tick, width = self._require_open(acceptance.not_before)
        except (ClockError, ParameterError) as error:
            return error
        if self._full and self._description.hidden is not None:
            return full(self._description.hidden)
        self._read_positions(width)  # a key that was hidden so far may be declared now
        fresh = self._remember([each.id for each in acceptance.events], tick)
        new = [each for each, is_new in zip(acceptance.events, fresh, strict=True) if is_new]
        return Accepted(fresh, self._write(tick, new, acceptance.position))

    def _require_open(self, not_before: int | None) -> tuple[int, int]:
        """Return the open tick, which stays open until this transaction ends, and how many keys are
        declared."""
        sql = "SELECT last_tick, width FROM streams WHERE id = ?"
        rows = self._database.query(sql + self._database.for_share, (self._id,))
        if not rows:
            raise ParameterError("stream must exist to accept events; it was deleted")
        tick, width = int(rows[0][0]) + 1, int(rows[0][1])
        if not_before is not None and tick < not_before:
            raise ClockError("the open tick is over; close it before events are added")
        return tick, width

    def checked(self, batch: Batch) -> Events:
        """A batch as events that can be accepted, or an ``InputError``; for known keys without the
        database."""
        unit, person, largest = self._description.unit, batch.person, batch.largest_amount
        self._check_person(person is not None)
        counts, keys = [_count(count) for count in batch.counts.values()], self._keys(batch)
        ones = [1] * len(keys)
        if unit.amount > 1 and largest is None:
            counts = [min(count, unit.amount) for count in counts]
        elif largest is not None and not 0 <= largest <= unit.amount:
            raise InputError(
                f"largest_amount must be from 0 to {unit.amount}, the largest of the stream's unit;"
                " cut the amounts to it before you add them up"
            )
        if person is None:
            return Events(keys, ones, counts, [], batch.id)
        if unit.amount > 1 and largest is not None:
            raise InputError(
                "largest_amount must be left out for a person: give each event by itself, with its"
                " own amount"
            )
        times, amounts = (ones, counts) if unit.amount > 1 else (counts, ones)
        return Events(keys, times, amounts, self._hashes([person]) * len(keys), batch.id)

    def _keys(self, batch: Batch) -> list[Key]:
        if self._description.hidden is not None:  # looked up when they are written
            if not all(map(can_be_key, batch.counts)):
                raise InputError(f"key must be 1 to {LONGEST_KEY} printable characters")
            return list(batch.counts)
        if any(key not in self.positions for key in batch.counts):  # it may be declared by now
            sql = "SELECT width FROM streams WHERE id = ?"
            for (width,) in self._database.query(sql, (self._id,)):
                self._read_positions(int(width))
        if any(key not in self.positions for key in batch.counts):
            raise InputError(
                "key must be declared, got an unknown one; declare it first, or count it under one"
                " such as other"
            )
        return [self.positions[key] for key in batch.counts]

    def _check_person(self, given: bool) -> None:
        wanted = self._description.unit.of == "person"
        if given and not wanted:
            raise InputError("person must be left out: the stream protects one event, not persons")
        if wanted and not given:
            raise InputError("person must be given: the stream protects persons")

    def _hashes(self, persons: Iterable[str | bytes]) -> list[bytes]:
        """How persons are stored. An id and its digest are one person, whichever way the events
        came."""
        secret, key = self._secret, self.person_key
        digests = (person_digest(each, key) if isinstance(each, str) else each for each in persons)
        return [hashlib.blake2b(each, key=secret, digest_size=16).digest() for each in digests]

    def _pair(self, person: bytes, key: Key) -> bytes:
        """How a stored person and a key are stored together."""
        kind, text = (
            (b"hidden", key.encode()) if isinstance(key, str) else (b"key", key.to_bytes(8))
        )
        return hashlib.blake2b(
            person + text, key=self._secret, person=kind, digest_size=16
        ).digest()

    def _write(self, tick: int, taken: Sequence[Events], position: ReadPosition | None) -> int:
        """Store the events within their persons' caps for the open tick; returns how many there
        are."""
        keys, times, amounts = (
            [value for each in taken for value in getattr(each, name)]
            for name in ("keys", "times", "amounts")
        )
        block = self._description.block_of(tick)
        if self._description.hidden is not None:
            keys = [
                self.positions.get(each, each) if isinstance(each, str) else each for each in keys
            ]
        if persons := [person for each in taken for person in each.persons]:
            times = self._capped(block, persons, keys, times)
        if taken:  # even if nothing counts: the write must not reveal whether something did
            if self._description.hidden is not None:
                keys = self._hide(block, keys, times)
            rows = np.array([keys, times, amounts], dtype=np.int64).reshape(3, -1)
            rows = rows[:, (rows[1] > 0) & (rows[0] >= 0)]
            self._insert(rows[0], rows[1] * rows[2])
        if position is not None:
            sealed = self._seal.close(position.body, f"{self._uid}/position/{position.source}")
            self._database.change(
                "INSERT INTO positions (stream, source, body) VALUES (?, ?, ?) "
                "ON CONFLICT (stream, source) DO UPDATE SET body = excluded.body",
                (self._id, position.source, sealed),
            )
        return sum(times)

    def _hide(self, block: int, keys: Sequence[Key], times: Sequence[int]) -> list[int]:
        """Store the hidden ones of these entries; for each entry the position under which it
        counts too, or -1."""
        hidden = self._description.hidden
        assert hidden is not None
        taken = zip(keys, times, strict=True)
        counts = Counter(key for key, number in taken if isinstance(key, str) and number)
        self.store_hidden(block, self._sampled(block, counts), len(keys))
        other = -1 if hidden.other is None else self.positions[hidden.other]
        return [other if isinstance(key, str) else key for key in keys]

    def _sampled(self, block: int, counts: Counts) -> Counts:
        hidden = self._description.hidden
        if hidden is None or hidden.sample == 1.0:
            return counts
        return hidden.sampled(counts, self._block_key(block))

    def store_hidden(self, block: int, counts: Counts, entries: int = 0) -> None:
        """Store how many more persons brought which hidden keys, in a transaction. From time to
        time the rows of the day are joined: after so many ``entries``, whatever their keys are, or
        a pause would tell how many keys are hidden."""
        hide(self._database, self._seal, self._uid, self._id, block, counts)
        before = self._joined[1] if self._joined[0] == block else 0
        self._joined = block, before
        self._unjoined += 1 + entries
        if self._unjoined > max(JOIN_ENTRIES, before // 8):
            self._joined = block, before + self._unjoined
            self._join_hidden(block)

    def _join_hidden(self, block: int, without: Iterable[str] = ()) -> None:
        """Join the rows of hidden keys of the open day, and destroy what they hold of some keys."""
        place, hidden = (self._database, self._seal, self._uid, self._id), self._description.hidden
        assert hidden is not None
        joined = take_hidden(*place, block + 1).get(block, {})
        for key in without:
            joined.pop(key, None)
        # what brings one key too many is stored; then everything is refused, whatever its key is
        self._full = len(joined) > hidden.most
        self._unjoined = 0
        hide(*place, block, joined)

    def _capped(
        self, block: int, persons: Sequence[bytes], keys: Sequence[Key], times: Sequence[int]
    ) -> list[int]:
        """How many events of each of these entries count, by :meth:`Unit.takes`."""
        unit, entries = self._description.unit, list(zip(persons, keys, times, strict=True))
        # after this, other processes wait with these persons
        counted: dict[Hashable, int] = {}
        counted.update(self._note(block, dict.fromkeys(persons, 0)).items())
        noted = set(counted)
        stored: dict[Hashable, bytes] = {person: person for person in persons}
        if unit.keys > 1:
            pairs = {each[:2]: self._pair(*each[:2]) for each in entries}
            earlier = self._counted(block, pairs.values())
            counted |= {each: earlier[name] for each, name in pairs.items() if name in earlier}
            stored.update(pairs.items())
        before = dict(counted)
        kept = [unit.takes(counted, *each) for each in entries]
        more = {each: count - before.get(each, 0) for each, count in counted.items()}
        # persons are always written: what is written does not reveal whether something counts
        self._note(block, {stored[e]: count for e, count in more.items() if count or e in noted})
        return kept

    def _note(self, block: int, added: Mapping[bytes, int]) -> dict[bytes, int]:
        """Add to the stored numbers, and return those before. Every process writes in one order:
        otherwise two could deadlock."""
        before: dict[bytes, int] = {}
        names = self._names(block, added)
        for part in _parts(sorted(names)):
            rows = self._insert_rows(
                "persons (stream, person, events)",
                [(self._id, name, added[names[name]]) for name in part],
                "(stream, person) DO UPDATE SET events = persons.events + excluded.events"
                " RETURNING person, events",
            )
            before.update(
                (names[bytes(name)], count - added[names[bytes(name)]]) for name, count in rows
            )
        return before

    def _insert_rows(
        self, table: str, rows: Sequence[tuple[object, ...]], on_conflict: str
    ) -> list[tuple[Any, ...]]:
        values = ", ".join([f"({placeholders(rows[0])})"] * len(rows))
        return self._database.query(
            f"INSERT INTO {table} VALUES {values} ON CONFLICT {on_conflict}",  # noqa: S608
            [value for row in rows for value in row],
        )

    def _insert(self, keys: Numbers, counts: Numbers) -> None:
        body = np.concatenate([keys, counts]).astype("<i8").tobytes()
        self._unfolded += len(body) + _ROW_BYTES
        if self._unfolded > max(FOLD_BYTES, 16 * len(self.positions)):
            taken = _taken(self._database, self._seal, {self._id: self._uid})
            waiting = [each[1:] for each in taken]
            keys, counts = np.concatenate([*waiting, (keys, counts)], axis=1)
            some, places = np.unique(keys, return_inverse=True)
            sums = np.zeros(len(some), dtype=np.int64)
            add_up(sums, places, counts)
            body = np.concatenate([some, sums]).astype("<i8").tobytes()
            self._unfolded = 0
        sealed = self._seal.close(body, f"{self._uid}/input")
        self._database.change("INSERT INTO inputs (stream, body) VALUES (?, ?)", (self._id, sealed))

    def _remember(self, ids: Sequence[str | None], tick: int) -> list[bool]:
        """Store the ids; True for those that are new (and for batches without one).

        Every process writes in the same order: two that write the same ids in opposite orders would
        deadlock.
        """
        names = [
            None if each is None else hashlib.blake2b(each.encode(), digest_size=16).digest()
            for each in ids
        ]
        added: set[bytes | None] = set()
        for part in _parts(sorted({name for name in names if name is not None})):
            rows = self._insert_rows(
                "seen (stream, batch, tick)",
                [(self._id, name, tick) for name in part],
                "DO NOTHING RETURNING batch",
            )
            added.update(name for (name,) in rows)
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
    events: Sequence[Events]
    not_before: int | None = None
    position: ReadPosition | None = None


class Accepted(NamedTuple):
    """For each of the events whether they are new (False: their id counted before), and how many
    count: that number is for the operator only."""

    fresh: list[bool]
    counted: int


def accept_together(acceptances: Sequence[Acceptance]) -> list[Accepted | FadecountError]:
    """Accept events for several streams of one store, in one transaction.

    A stream that was deleted, or whose open tick is over, gets its error; the others are accepted.
    When it raises, none is.
    """
    outcomes: list[Accepted | FadecountError] = [Accepted([], 0)] * len(acceptances)
    # in the order of their numbers, so that processes do not deadlock
    order = sorted((each.intake._id, at) for at, each in enumerate(acceptances) if each.events)
    if order:
        database, checkpoint = acceptances[0].intake._database, acceptances[0].intake._checkpoint
        checkpoint("before accept")
        with database.transaction():
            for _, at in order:
                outcomes[at] = acceptances[at].intake._accept(acceptances[at])
            checkpoint("accept written")
        checkpoint("accept committed")
    return outcomes


def person_digest(person: str, key: bytes) -> bytes:
    """A digest of fixed size that stands for a person while a tick is open; the text itself is not
    kept.

    It is keyed (:attr:`Intake.person_key`): nobody outside can find two people with the same
    digest.
    """
    return hashlib.blake2b(
        person.encode("utf-8", "surrogatepass"), digest_size=16, key=key
    ).digest()


def take_inputs(database: Database, seal: Seal, statuses: Sequence[Status]) -> dict[int, Numbers]:
    """Add up the inputs accepted so far for some streams and remove them, inside the transaction
    that closes their ticks."""
    sums = {status.id: np.zeros(status.width, dtype=np.int64) for status in statuses}
    uids = {status.id: status.uid for status in statuses}
    for stream, keys, counts in _taken(database, seal, uids):
        add_up(sums[stream], keys, counts)
    return sums


def _taken(
    database: Database, seal: Seal, uids: Mapping[int, str]
) -> Iterator[tuple[int, Numbers, Numbers]]:
    streams = list(uids)
    sql = f"DELETE FROM inputs WHERE stream IN ({placeholders(streams)}) RETURNING stream, body"  # noqa: S608
    for stream, body in database.query(sql, streams):
        numbers = np.frombuffer(seal.open(body, f"{uids[stream]}/input"), dtype="<i8")
        keys, counts = numbers.astype(np.int64).reshape(2, -1)
        yield stream, keys, counts


def noted_as(block: int) -> bytes:
    """What ``person`` begins with in a row of ``persons`` that was noted in a tick or day; in their
    order."""
    return (block + (1 << 63)).to_bytes(8, "big")


def new_secret(seal: Seal, uid: str) -> bytes:
    """The secret by which a new stream hashes persons, as it is stored."""
    return seal.close(unpredictable(32), f"{uid}/secret")


def _secret_of(database: Database, stream: int) -> bytes:
    ((body,),) = database.query("SELECT secret FROM streams WHERE id = ?", (stream,))
    return bytes(body)


def _parts(names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(names), _ROWS_PER_STATEMENT):
        yield names[start : start + _ROWS_PER_STATEMENT]


def _count(value: int) -> int:
    try:
        number = -1 if isinstance(value, bool | np.bool) else operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= LARGEST_COUNT:
        raise InputError(
            "count must be an integer from 0 to 2**40; split larger ones over several batches"
        )
    return number
