"""From rows to counts per tick and key: the one place that decides which rows of a history count.

Readers give rows as columns of numbers (:class:`Rows`). A row is left out for a reason of its own,
because its id is repeated, or because its person has reached the cap. Of each person and tick (or
day) the first rows in the order of the input count, under the first keys: the rule of
:meth:`Unit.takes`, for many rows at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

import numpy as np

from fadecount.mechanisms.unit import CapKey, Key, address_digest, address_part, person_digest
from fadecount.noise import unpredictable
from fadecount.sources.grouping import (
    Mask,
    Numbers,
    Rows,
    added_up,
    apart,
    as_list,
    blocks_of,
    joined,
    lengths_of,
    numbered,
    persons_together,
    together,
)
from fadecount.sources.report import SourceReport
from fadecount.sources.rows import Reason, Rules
from fadecount.sources.times import EARLIEST, NO_TIME
from fadecount.streams.discovery import Counts, address_share

LEAST_AT_ONCE = 1 << 19
"""Rows that are counted at once, at least. Of persons there are four times as many, and more as
more of them are kept: to look at those again takes less time than the rows."""
_KEY_BITS = 32
"""More than the number of a key has."""
_NONE = np.empty(0, dtype=np.int64)

Counted = Callable[[Sequence[bytes], Sequence[Key] | None], Numbers]
"""What of each person (by digest) already counts in the first wanted tick; see
:meth:`Stream.persons_counted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What of persons earlier runs counted in the first wanted tick, which is still open (None:
    nothing). Digests use this key."""

    key: bytes
    counted: Counted | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """The counts of an input that was read to its end: row i says that ``counts[i]`` was counted in
    tick ``ticks[i]`` under key ``keys[i]``, sorted, each pair once. ``first_tick`` and
    ``last_tick`` are those of the first and the last event, also of hidden keys.

    ``report`` is exact, and for the owner of the events only, like all of this.
    """

    ticks: Numbers = field(repr=False)
    keys: Numbers = field(repr=False)
    counts: Numbers = field(repr=False)
    first_tick: int | None
    last_tick: int | None
    report: SourceReport = field(repr=False)
    hidden: Callable[[int], Counts] = field(repr=False)
    """By how much the persons of the day of a tick raise the count of each hidden key."""
    persons: Callable[[int], dict[CapKey, int]] = field(repr=False)
    """What of each person was counted here in the day of a tick, as :meth:`Unit.takes` notes it."""


class Tally:
    """Adds up rows. Memory grows with the number of distinct pairs of tick and key (of tick and
    person, where these are bounded; of ids), not with the number of rows."""

    def __init__(
        self, rules: Rules, earlier: Earlier | None = None, per_address: int | None = None
    ) -> None:
        self._rules, self._options, self.report = rules, rules.options, SourceReport()
        self._per_address = per_address
        self._caps = None if rules.options.person is None else Caps(rules, earlier)
        self._ids: set[tuple[object, ...]] = set()
        self._waiting: list[Rows] = []
        self._sums: tuple[Numbers, Numbers] = (_NONE, _NONE)
        self._hidden: dict[int, Counter[int]] = {}
        """By block: how many persons of an address brought a hidden key; its number and that of
        the address make one."""
        self._addresses: dict[str, int] = {}

    def add(self, rows: Rows) -> None:
        """Count the rows that are good, and report the others."""
        self.report.rows_read += len(rows.times)
        rows = self._judged(rows)
        self._waiting.append(rows if rows.ids is None else self._new(rows))
        least = LEAST_AT_ONCE
        if self._caps is not None:
            least = 4 * max(least, self._caps.kept)
        if sum(len(each.times) for each in self._waiting) >= least:
            self._settle()

    def done(self) -> History:
        """Everything that was added."""
        self._settle()
        places, counts = self._sums
        options, caps = self._options, self._caps
        ticks, keys = np.divmod(places, options.width)
        first, last = ticks[[0, -1]].tolist() if len(ticks) else (None, None)
        shown = keys != len(options.keys) if options.discover else keys >= 0
        return History(
            ticks=ticks[shown],
            keys=keys[shown],
            counts=counts[shown],
            first_tick=first,
            last_tick=last,
            report=self.report,
            hidden=lambda tick: self._hidden_in(options.block_of(tick)),
            persons=lambda tick: {} if caps is None else self._noted(options.block_of(tick), caps),
        )

    def _judged(self, rows: Rows) -> Rows:
        """The rows that are good, with the ticks in which they count."""
        options, seconds = self._options, rows.times
        first, end, since = options.first_tick, options.end_tick, options.late_from
        wrong: list[tuple[Mask, Numbers | int]] = []
        untimed = seconds < EARLIEST
        if untimed.any():
            because = seconds - NO_TIME
            wrong = [(untimed & (because > 0), because), (untimed, Reason.TIME)]
            seconds = np.where(untimed, 0, seconds)
        ticks = options.ticks.of(seconds)
        wrong += [(rows.keys < 0, rows.keys), (rows.amounts < 0, rows.amounts)]
        for names, missing in ((rows.persons, Reason.PERSON), (rows.ids, Reason.ID)):
            if names is not None:
                wrong.append((np.asarray(names == "", dtype=np.bool_), missing))
        if first is not None:
            if options.late == "next" and since is not None:
                ticks = np.where((ticks >= since) & (ticks < first), first, ticks)
            wrong.append((ticks < first, Reason.BEFORE))
        if end is not None:
            wrong.append((ticks >= end, Reason.AFTER))
        rows = rows._replace(times=ticks)
        wrong = [(mask, reason) for mask, reason in wrong if mask.any()]
        if not wrong:
            return rows
        reasons = np.abs(np.select([mask for mask, _ in wrong], [each for _, each in wrong], 0))
        for reason, count in enumerate(np.bincount(reasons).tolist()):
            if reason and count:
                self.report.skipped[Reason(reason)] += count
        return rows.at(np.flatnonzero(reasons == 0))

    def _new(self, rows: Rows) -> Rows:
        """The rows whose id no earlier row of the same tick, key and person had. Rows of other keys
        and persons must not decide: one of them could push out what somebody else did."""
        columns = (
            repeat(None) if each is None else as_list(each)
            for each in (rows.times, rows.keys, rows.persons, rows.ids)
        )
        fresh = []
        for event in zip(*columns, strict=False):
            before = len(self._ids)
            self._ids.add(event)
            fresh.append(len(self._ids) > before)
        self.report.skipped.update({Reason.REPEATED: fresh.count(False)} if not all(fresh) else {})
        return rows._replace(ids=None).at(np.flatnonzero(fresh))

    def _settle(self) -> None:
        """Count the rows that wait."""
        if not self._waiting:
            return
        rows, self._waiting = joined(self._waiting), []
        options = self._options
        if self._caps is not None:
            counts = self._caps.counts(rows)
            self.report.rows_dropped += len(counts) - int(np.count_nonzero(counts))
            if self._per_address is None:
                rows = rows._replace(persons=None)
            rows = rows.at(np.flatnonzero(counts))
        keys = rows.keys
        if options.discover:
            hidden = keys >= len(options.keys)
            self._hide(rows.at(np.flatnonzero(hidden)))
            other = options.other
            place = len(options.keys) if other is None else options.keys.index(other)
            keys = np.where(hidden, place, keys)
        self.report.rows_cut += int(np.count_nonzero(rows.amounts > options.max_amount))
        amounts = np.minimum(rows.amounts, options.max_amount)
        added = added_up(rows.times * options.width + keys, amounts)
        both = (np.concatenate(pair) for pair in zip(self._sums, added, strict=True))
        self._sums = added_up(*both)

    def _hide(self, rows: Rows) -> None:
        """Note how many more persons brought hidden keys, by address if few of each count."""
        blocks = self._options.ticks.blocks_of(self._options.unit.per, rows.times)
        places = rows.keys
        if self._per_address is not None:
            assert rows.persons is not None
            known = self._addresses
            numbers = [
                known.setdefault(address_part(each), len(known)) for each in as_list(rows.persons)
            ]
            places = places + (np.array(numbers, dtype=np.int64) << _KEY_BITS)
        for block in np.unique(blocks).tolist():
            brought, persons = np.unique(places[blocks == block], return_counts=True)
            more = dict(zip(brought.tolist(), persons.tolist(), strict=True))
            self._hidden.setdefault(block, Counter()).update(more)

    def _brought(self, block: int) -> list[tuple[str, str, int]]:
        """An address, a hidden key, and how many persons brought it in a block."""
        names, addresses = self._rules.names, list(self._addresses) or [""]
        return [
            (addresses[place >> _KEY_BITS], names[place & (1 << _KEY_BITS) - 1], persons)
            for place, persons in self._hidden.get(block, {}).items()
        ]

    def _hidden_in(self, block: int) -> Counts:
        """By how much the counts of hidden keys grow in a block."""
        brought, most, counts = self._brought(block), self._per_address, Counter[str]()
        before = [0] * len(brought)
        if most is not None and self._caps is not None:
            before = self._caps.of_addresses(block, brought)
        for (_, key, more), earlier in zip(brought, before, strict=True):
            counts[key] += address_share(earlier, more, most)
        return counts

    def _noted(self, block: int, caps: Caps) -> dict[CapKey, int]:
        """What was counted of persons in a block, and of addresses."""
        noted = caps.in_block(block)
        if self._per_address is not None:
            for address, key, more in self._brought(block):
                noted[address_digest(address, caps.key), key] = more
        return noted


class Caps:
    """Which rows of persons count, of pieces of an input that come in its order.

    Between two pieces it keeps one row for each person, tick (or day) and key of which something
    counts: memory does not grow with the other rows.
    """

    def __init__(self, rules: Rules, earlier: Earlier | None = None) -> None:
        self._names, self._options, self._earlier = rules.names, rules.options, earlier
        self._several = rules.options.unit.keys > 1
        self._seed = int.from_bytes(unpredictable(8))
        self._rows: Rows | None = None
        self._times = self._before = np.empty(0, dtype=np.int64)
        """How many rows of each count, with those of earlier runs; and those of earlier runs."""

    @cached_property
    def key(self) -> bytes:
        """That of the digests of persons."""
        return unpredictable(32) if self._earlier is None else self._earlier.key

    @property
    def kept(self) -> int:
        """How many rows are kept between two pieces."""
        return len(self._times)

    def counts(self, piece: Rows) -> Mask:
        """Which rows of the next piece count."""
        options, old = self._options, self.kept
        rows = piece
        if (kept := self._rows) is not None:
            rows = joined([kept._replace(persons=apart(kept.persons)), piece])
        assert rows.persons is not None
        blocks = self._blocks_of(rows.times)
        order, begins = persons_together(rows.persons, blocks, self._seed)
        whose = keys = np.empty(0, dtype=np.int64)
        if self._several:
            whose, keys = np.empty(len(blocks), dtype=np.int64), rows.keys
            whose[order] = np.repeat(np.arange(len(begins)), lengths_of(begins, len(blocks)))
            order, begins = together(whose * len(self._names) + keys)
        first, lengths = order[begins], lengths_of(begins, len(blocks))
        noted = first < old
        before, offset = np.zeros((2, len(first)), dtype=np.int64)
        before[noted], offset[noted] = self._before[first[noted]], self._times[first[noted]] - 1
        reopened = self._reopened(blocks[first])
        new = np.flatnonzero(reopened & ~noted)
        before[new] = offset[new] = self._counted(rows.at(first[new]), by_key=self._several)
        most = np.full(len(first), options.per_person)
        if self._several:  # under a hidden key a person counts once
            most[keys[first] >= len(options.keys)] = 1
            # the first keys of a person are those of earlier runs, then those of the first rows
            fresh = np.flatnonzero(before == 0)
            fresh = fresh[np.argsort(first[fresh])]
            room = np.full(len(fresh), options.keys_per_person)
            again = np.flatnonzero(reopened[fresh])
            room[again] -= self._counted(rows.at(first[fresh[again]]), by_key=False)
            most[fresh[numbered(whose[first[fresh]]) >= room]] = 0
        taken = np.minimum(np.maximum(most - offset, 0), lengths)
        parts = np.stack([taken, lengths - taken], axis=1).ravel()
        counts = np.empty(len(blocks), dtype=np.bool_)
        counts[order] = np.repeat(np.tile([True, False], len(first)), parts)
        times = offset + taken
        keep = np.flatnonzero(times)
        keep = keep[np.argsort(first[keep])] if self._several else keep
        self._rows = rows.at(first[keep])
        self._times, self._before = times[keep], before[keep]
        return counts[old:]

    def in_block(self, block: int) -> dict[CapKey, int]:
        """What was counted there, as :meth:`Unit.takes` notes it."""
        if self._rows is None:
            return {}
        there = (self._blocks_of(self._rows.times) == block) & (self._times > self._before)
        at = np.flatnonzero(there)
        rows, persons = self._rows.at(at), self._digests(self._rows.at(at))
        times = (self._times - self._before)[at].tolist()
        if not self._several:
            return dict(zip(persons, times, strict=True))
        noted: dict[CapKey, int] = {}
        keys, new = self._names_of_keys(rows), (self._before[at] == 0).tolist()
        for person, key, count, is_new in zip(persons, keys, times, new, strict=True):
            if is_new:
                noted[person] = noted.get(person, 0) + 1
            noted[person, key] = count
        return noted

    def of_addresses(self, block: int, brought: Sequence[tuple[str, str, int]]) -> list[int]:
        """How many persons of these addresses brought these hidden keys in earlier runs."""
        if self._earlier is None or not self._reopened(np.array([block]))[0]:
            return [0] * len(brought)
        digests = [address_digest(address, self.key) for address, _, _ in brought]
        assert self._earlier.counted is not None
        return as_list(self._earlier.counted(digests, [key for _, key, _ in brought]))

    def _reopened(self, blocks: Numbers) -> Mask:
        """Where the block is the first one, and earlier runs have counted persons there."""
        first, earlier = self._options.first_tick, self._earlier
        if first is None or earlier is None or earlier.counted is None:
            return np.zeros(len(blocks), dtype=np.bool_)
        return np.equal(blocks, self._options.block_of(first))

    def _counted(self, rows: Rows, *, by_key: bool) -> Numbers:
        """What earlier runs counted of the persons of these rows: events (under the key of the
        row), or where a person has several keys, and not ``by_key``, keys."""
        if not len(rows.times) or self._earlier is None or self._earlier.counted is None:
            return np.zeros(len(rows.times), dtype=np.int64)
        keys = self._names_of_keys(rows) if by_key else None
        return self._earlier.counted(self._digests(rows), keys)

    def _digests(self, rows: Rows) -> list[bytes]:
        assert rows.persons is not None
        return [person_digest(name, self.key) for name in as_list(rows.persons)]

    def _names_of_keys(self, rows: Rows) -> list[Key]:
        """Positions of declared keys, and texts of hidden ones."""
        declared, names = len(self._options.keys), self._names
        return [key if key < declared else names[key] for key in rows.keys.tolist()]

    def _blocks_of(self, ticks: Numbers) -> Numbers:
        return blocks_of(self._options.ticks, self._options.unit.per, ticks)
