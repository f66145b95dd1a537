"""Rows as columns of numbers and texts, and which of them are of the same person.

The rows of a person and slot are put together by a sort of 64-bit numbers: some bits of a seeded
hash, and the number of the row. Then each name is compared with the one before it, so that two
persons are never taken for one, whatever their hashes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fadecount.calendar import Ticks
from fadecount.sources.rows import Event, Reason, RowRules
from fadecount.sources.times import NO_TIME

if TYPE_CHECKING:
    import polars

Numbers = npt.NDArray[np.int64]
Whole = npt.NDArray[np.integer[Any]]
"""Whole numbers of any size."""
Mask = npt.NDArray[np.bool_]
Names: TypeAlias = "npt.NDArray[np.object_] | polars.Series"
"""Texts, one for each row: an array of strings, or a column of polars."""
Rows32 = npt.NDArray[np.uint32]
"""Numbers of rows."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class Rows(NamedTuple):
    """Rows of an input, in its order: what the rules of ``rows`` make of their cells.

    ``times`` are Unix seconds (in :class:`~fadecount.sources.tally.Tally`, ticks, once the rows are
    judged). ``NO_TIME`` stands for no time, and plus a reason it says why a row has no cells.
    ``cells`` are keys and amounts as numbers, by :meth:`RowRules.cell`; negative ones say why a
    cell means nothing.
    """

    times: Numbers
    cells: tuple[Numbers, ...]
    persons: Names | None = None
    ids: Names | None = None

    @property
    def keys(self) -> Numbers:
        """The keys of a source with one key."""
        return self.cells[0]

    @property
    def amounts(self) -> Numbers:
        """The amounts of a source with one amount."""
        return self.cells[1]

    def at(self, places: npt.NDArray[Any]) -> Rows:
        """Some of the rows."""
        return Rows(
            self.times[places],
            tuple(each[places] for each in self.cells),
            *(None if each is None else each[places] for each in self[2:]),
        )


def rows_of(events: Sequence[Event | Reason], rules: RowRules) -> Rows:
    """Events as columns."""
    none = Event(0, (0,) * len(rules.cells), "-", "-")
    rows = [none._replace(seconds=NO_TIME + e) if isinstance(e, Reason) else e for e in events]
    cells = [
        [rules.number(at, event.cells[at]) for event in rows] for at in range(len(rules.cells))
    ]
    return Rows(
        np.array([event.seconds for event in rows], dtype=np.int64),
        tuple(np.array(each, dtype=np.int64) for each in cells),
        persons=_names([event.person for event in rows], rules.person),
        ids=_names([event.id for event in rows], rules.id),
    )


def _names(texts: list[str], column: str | None) -> Names | None:
    return None if column is None else np.array(texts, dtype=np.object_)


def as_list(values: Names | Numbers) -> list[Any]:
    """The values as Python has them."""
    return values.tolist() if isinstance(values, np.ndarray) else values.to_list()


def joined(parts: Sequence[Rows]) -> Rows:
    """All rows as one, without chunks: to gather texts from many takes ten times as long."""
    if len(parts) == 1:
        return parts[0]
    times, cells, *names = zip(*parts, strict=True)
    columns = tuple(map(np.concatenate, zip(*cells, strict=True)))
    return Rows(np.concatenate(times), columns, *map(joined_names, names))


def joined_names(parts: Sequence[Any]) -> Any:
    """The texts of all parts; None if they have none."""
    if parts[0] is None:
        return None
    if all(isinstance(each, np.ndarray) for each in parts):
        return np.concatenate(parts)
    import polars

    columns = [polars.Series("", each, polars.String) for each in parts]
    return polars.concat(columns, rechunk=True)


def apart(names: Names | None) -> Names | None:
    """Texts of their own: those of polars would hold a whole piece in memory."""
    return names if names is None or isinstance(names, np.ndarray) else names + ""


def blocks_of(calendar: Ticks, per: str, ticks: Numbers) -> Numbers:
    """:meth:`Ticks.blocks_of` for many ticks of few blocks."""
    if per == "tick" or not len(ticks):
        return ticks
    first, last = int(ticks.min()), int(ticks.max())
    if last - first >= len(ticks):
        return calendar.blocks_of(per, ticks)
    blocks: Numbers = calendar.blocks_of(per, np.arange(first, last + 1))
    if blocks[0] == blocks[-1]:  # a file of one day, as most are
        return np.broadcast_to(blocks[0], len(ticks))
    return blocks[ticks - first]


def persons_together(names: Names, blocks: Whole, seed: int) -> tuple[Rows32, Numbers]:
    """:func:`together` for rows of the same person and block."""
    if isinstance(names, np.ndarray):
        hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names)).view(np.uint64)
    else:
        hashes = names.hash(seed).to_numpy()
    if len(blocks) and np.ptp(blocks):
        hashes = hashes + blocks.astype(np.uint64) * _ODD
    return _checked(names, blocks, *together(hashes >> np.uint64(len(names).bit_length())))


def _checked(names: Names, blocks: Whole, order: Rows32, begins: Numbers) -> tuple[Rows32, Numbers]:
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
    lengths = lengths_of(begins, len(order))[groups]
    group = np.repeat(groups, lengths)
    mixed = begins[group] + np.concatenate([np.arange(length) for length in lengths.tolist()])
    rows, numbers = order[mixed], dict[str, int]()
    ranks = np.array([numbers.setdefault(name, len(numbers)) for name in as_list(names[rows])])
    order[mixed] = rows[np.lexsort((rows, ranks, blocks[rows], group))]
    changes[mixed] = False
    changes[mixed[_changes(names, blocks, order[mixed])]] = True
    return order, np.flatnonzero(changes)


def _changes(names: Names, blocks: Whole, order: Rows32) -> Numbers:
    """Where the person or the block is another than that of the row before."""
    texts = names[order]
    changes = np.ones(len(order), dtype=np.bool_)
    changes[1:] = np.asarray(texts[1:] != texts[:-1], dtype=np.bool_)
    if len(blocks) and np.ptp(blocks):
        blocks = blocks[order]
        changes[1:] |= blocks[1:] != blocks[:-1]
    return np.flatnonzero(changes)


def together(numbers: Whole) -> tuple[Rows32, Numbers]:
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


def lengths_of(begins: Numbers, end: int) -> Numbers:
    return np.diff(begins, append=end)


def numbered(whose: Numbers) -> Numbers:
    """The number of each row, from 0, among those of the same."""
    order, begins = together(whose)
    number: Numbers = np.empty(len(whose), dtype=np.int64)
    number[order] = np.arange(len(whose)) - np.repeat(begins, lengths_of(begins, len(whose)))
    return number


def added_up(places: Numbers, amounts: Numbers) -> tuple[Numbers, Numbers]:
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
