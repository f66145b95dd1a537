"""From rows to counts per tick and key: the one place that decides which rows of a history count.

Readers give rows as columns of numbers (:class:`Rows`). A row is left out for a reason of its own,
because its id is repeated, or because its person has reached the cap. Of each person and tick (or
day) the first rows in the order of the input count, under the first keys: the rule of
:meth:`Unit.takes`, for many rows at once.

The rows of a person and day are put together by a sort of 64-bit numbers: some bits of a seeded
hash, and the number of the row. Then each name is compared with the one before it, so that two
persons are never taken for one, whatever their hashes are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fadecount.mechanisms.unit import CapKey, Key, person_digest
from fadecount.noise import unpredictable
from fadecount.sources.report import SourceReport
from fadecount.sources.rows import Event, Reason, Rules
from fadecount.sources.times import EARLIEST, NO_TIME
from fadecount.streams.discovery import Counts
from fadecount.streams.embargo import add_counts

if TYPE_CHECKING:
    import polars

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Names: TypeAlias = "npt.NDArray[np.object_] | polars.Series"
"""Texts, one for each row: an array of strings, or a column of polars."""

LEAST_AT_ONCE = 1 << 19
"""Rows that are counted at once, at least. Of persons there are four times as many, and more as
more of them are kept: to look at those again takes less time than the rows."""
Rows32 = npt.NDArray[np.uint32]
"""Numbers of rows."""
_NONE = np.empty(0, dtype=np.int64)
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Rows(NamedTuple):
    """Rows of an input, in its order: what the rules of ``rows`` make of their cells.

    ``times`` are Unix seconds; ticks, once the rows are judged. ``NO_TIME`` stands for no time, and
    plus a reason it says why a row has no cells. Negative keys and amounts say why a cell means
    nothing. Keys are numbers of :attr:`Rules.names`; those of hidden ones are the largest.
    """

    times: Numbers
    keys: Numbers
    amounts: Numbers
    persons: Names | None = None
    ids: Names | None = None

    def at(self, places: npt.NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows._make(column if column is None else column[places] for column in self)


def rows_of(events: Sequence[Event | Reason], rules: Rules) -> Rows:
    """Events as columns."""
    none = (0, 0, "-", "-")
    seconds, keys, amounts, persons, ids = zip(
        *(each if isinstance(each, Event) else (NO_TIME + each, *none) for each in events),
        strict=True,
    )
    return Rows(
        np.array(seconds, dtype=np.int64),
        np.array([rules.number(key) for key in keys], dtype=np.int64),
        np.array(amounts, dtype=np.int64),
        persons=None if rules.options.person is None else np.array(persons, dtype=np.object_),
        ids=None if rules.options.unique is None else np.array(ids, dtype=np.object_),
    )


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
    """How many persons brought each hidden key in the day of a tick."""
    persons: Callable[[int], dict[CapKey, int]] = field(repr=False)
    """What of each person was counted here in the day of a tick, as :meth:`Unit.takes` notes it."""


class Tally:
    """Adds up rows. Memory grows with the number of distinct pairs of tick and key (of tick and
    person, where these are bounded; of ids), not with the number of rows."""

    def __init__(self, rules: Rules, earlier: Earlier | None = None) -> None:
        self._rules, self._options, self.report = rules, rules.options, SourceReport()
        self._caps = None if rules.options.person is None else Caps(rules, earlier)
        self._ids: set[tuple[object, ...]] = set()
        self._waiting: list[Rows] = []
        self._sums: tuple[Numbers, Numbers] = (_NONE, _NONE)
        self._hidden: dict[int, dict[str, int]] = {}

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
            hidden=lambda tick: self._hidden.get(options.block_of(tick), {}),
            persons=lambda tick: {} if caps is None else caps.in_block(options.block_of(tick)),
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
            for each in rows._replace(amounts=rows.times)
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
            rows = rows._replace(persons=None).at(np.flatnonzero(counts))
        keys = rows.keys
        if options.discover:
            hidden = keys >= len(options.keys)
            self._hide(rows.at(np.flatnonzero(hidden)))
            other = options.other
            place = len(options.keys) if other is None else options.keys.index(other)
            keys = np.where(hidden, place, keys)
        self.report.rows_cut += int(np.count_nonzero(rows.amounts > options.max_amount))
        amounts = np.minimum(rows.amounts, options.max_amount)
        added = _added_up(rows.times * options.width + keys, amounts)
        both = (np.concatenate(pair) for pair in zip(self._sums, added, strict=True))
        self._sums = _added_up(*both)

    def _hide(self, rows: Rows) -> None:
        """Note how many more persons brought hidden keys."""
        blocks = self._options.ticks.blocks_of(self._options.unit.per, rows.times)
        for block in np.unique(blocks).tolist():
            keys, persons = np.unique(rows.keys[blocks == block], return_counts=True)
            names = (self._rules.names[key] for key in keys.tolist())
            brought = zip(names, persons.tolist(), strict=True)
            add_counts(self._hidden.setdefault(block, {}), brought)


def _added_up(places: Numbers, amounts: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct places in their order, and the sum of the amounts at each."""
    if not len(places):
        return places, amounts
    first, span = int(places.min()), int(np.ptp(places)) + 1
    if span > 16 * len(places):
        distinct, at = np.unique(places, return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(sums, at, amounts)
        return distinct, sums
    sums = np.zeros(span, dtype=np.int64)
    np.add.at(sums, places - first, amounts)
    there = np.flatnonzero(np.bincount(places - first))
    return there + first, sums[there]


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
    def _key(self) -> bytes:
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
            rows = joined([kept._replace(persons=_apart(kept.persons)), piece])
        assert rows.persons is not None
        blocks = self._blocks_of(rows.times)
        order, begins = _persons_together(rows.persons, blocks, self._seed)
        whose = keys = np.empty(0, dtype=np.int64)
        if self._several:
            whose, keys = np.empty(len(blocks), dtype=np.int64), rows.keys
            whose[order] = np.repeat(np.arange(len(begins)), _lengths(begins, len(blocks)))
            order, begins = _together(whose * len(self._names) + keys)
        first, lengths = order[begins], _lengths(begins, len(blocks))
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
            most[fresh[_numbered(whose[first[fresh]]) >= room]] = 0
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
        return [person_digest(name, self._key) for name in as_list(rows.persons)]

    def _names_of_keys(self, rows: Rows) -> list[Key]:
        """Positions of declared keys, and texts of hidden ones."""
        declared, names = len(self._options.keys), self._names
        return [key if key < declared else names[key] for key in rows.keys.tolist()]

    def _blocks_of(self, ticks: Numbers) -> Numbers:
        per, blocks_of = self._options.unit.per, self._options.ticks.blocks_of
        if per == "tick" or not len(ticks):
            return ticks
        first, last = int(ticks.min()), int(ticks.max())
        if last - first >= len(ticks):
            return blocks_of(per, ticks)
        blocks: Numbers = blocks_of(per, np.arange(first, last + 1))
        if blocks[0] == blocks[-1]:  # a file of one day, as most are
            return np.broadcast_to(blocks[0], len(ticks))
        return blocks[ticks - first]


def as_list(values: Names | Numbers) -> list[Any]:
    """The values as Python has them."""
    return values.tolist() if isinstance(values, np.ndarray) else values.to_list()


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows as one, without chunks: to gather texts from many takes ten times as long."""
    return (
        parts[0] if len(parts) == 1 else Rows._make(map(_joined_column, zip(*parts, strict=True)))
    )


def _joined_column(parts: Sequence[Any]) -> Any:
    if parts[0] is None:
        return None
    if all(isinstance(each, np.ndarray) for each in parts):
        return np.concatenate(parts)
    import polars

    columns = [polars.Series("", each, polars.String) for each in parts]
    return polars.concat(columns, rechunk=True)


def _apart(names: Names | None) -> Names | None:
    """Texts of their own: those of polars would hold a whole piece in memory."""
    return names if names is None or isinstance(names, np.ndarray) else names + ""


def _persons_together(names: Names, blocks: Numbers, seed: int) -> tuple[Rows32, Numbers]:
    """:func:`_together` for rows of the same person and block."""
    if isinstance(names, np.ndarray):
        hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names)).view(np.uint64)
    else:
        hashes = names.hash(seed).to_numpy()
    numbers = hashes + blocks.astype(np.uint64) * _ODD
    numbers >>= np.uint64(len(names).bit_length())
    return _checked(names, blocks, *_together(numbers))


def _checked(
    names: Names, blocks: Numbers, order: Rows32, begins: Numbers
) -> tuple[Rows32, Numbers]:
    """The same order and beginnings; where rows of several persons or blocks came together by their
    hashes, those of each by themselves. With millions of persons some do, so this looks at their
    rows alone."""
    exact = _changes(names, blocks, order)
    if len(exact) == len(begins):
        return order, begins
    changes = np.zeros(len(order), dtype=np.bool_)
    changes[exact] = True
    changes[begins] = False
    groups = np.unique(np.searchsorted(begins, np.flatnonzero(changes), side="right") - 1)
    changes[exact] = True
    lengths = _lengths(begins, len(order))[groups]
    group = np.repeat(groups, lengths)
    mixed = begins[group] + np.concatenate([np.arange(length) for length in lengths.tolist()])
    rows, numbers = order[mixed], dict[str, int]()
    ranks = np.array([numbers.setdefault(name, len(numbers)) for name in as_list(names[rows])])
    order[mixed] = rows[np.lexsort((rows, ranks, blocks[rows], group))]
    changes[mixed] = False
    changes[mixed[_changes(names, blocks, order[mixed])]] = True
    return order, np.flatnonzero(changes)


def _changes(names: Names, blocks: Numbers, order: Rows32) -> Numbers:
    """Where the person or the block is another than that of the row before."""
    texts = names[order]
    changes = np.ones(len(order), dtype=np.bool_)
    changes[1:] = np.asarray(texts[1:] != texts[:-1], dtype=np.bool_)
    if len(blocks) and np.ptp(blocks):
        blocks = blocks[order]
        changes[1:] |= blocks[1:] != blocks[:-1]
    return np.flatnonzero(changes)


def _together(numbers: npt.NDArray[np.uint64] | Numbers) -> tuple[Rows32, Numbers]:
    """The rows in an order that puts equal numbers together, each in the order of the rows, and
    where those of each number begin. Numbers are not negative."""
    rows, bits = len(numbers), np.uint64(len(numbers).bit_length())
    if rows and int(numbers.max()) >> 64 - int(bits):  # too large to stand before a row
        _, numbers = np.unique(numbers, return_inverse=True)
    both = numbers.astype(np.uint64)
    both <<= bits
    both |= np.arange(rows, dtype=np.uint32)
    both.sort()
    order = both.astype(np.uint32)
    order &= np.uint32((1 << int(bits)) - 1)
    both >>= bits
    begins = np.ones(rows, dtype=np.bool_)
    np.not_equal(both[1:], both[:-1], out=begins[1:])
    return order, np.flatnonzero(begins)


def _lengths(begins: Numbers, end: int) -> Numbers:
    return np.diff(begins, append=end)


def _numbered(whose: Numbers) -> Numbers:
    """The number of each row, from 0, among those of the same."""
    order, begins = _together(whose)
    number: Numbers = np.empty(len(whose), dtype=np.int64)
    number[order] = np.arange(len(whose)) - np.repeat(begins, _lengths(begins, len(whose)))
    return number
