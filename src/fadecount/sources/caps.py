"""The caps of persons on many rows at once: of each person and tick (or day) the first rows in the
order of the file, under the first keys. The rule of :class:`~fadecount.sources.files.People`, for
the frames of ``frames``.

The rows of a person and day are put together by a sort of 64-bit numbers: some bits of a seeded
hash, and the number of the row. Then each name is compared with the one before it, so that two
persons are never taken for one, whatever their hashes are.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from fadecount.noise import unpredictable
from fadecount.streams.inputs import Noted, person_digest

if TYPE_CHECKING:
    from fadecount.sources.files import People
    from fadecount.sources.options import SourceOptions

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint32]
MOST_PAIRS = 1 << 62
_ODD = np.uint64(0x9E3779B97F4A7C15)


class BulkCaps:
    """Which rows count, of pieces of a file that come in its order.

    Between two pieces it keeps one row for each person, tick (or day) and key of which something
    counts: memory does not grow with the other rows.
    """

    def __init__(self, options: SourceOptions, people: People) -> None:
        self._options, self._people = options, people
        self._several = options.unit.keys > 1
        self._seed = int.from_bytes(unpredictable(8))
        self._rows: pl.DataFrame | None = None
        self._times = self._before = np.empty(0, dtype=np.int64)
        """How many rows of each count, with those of earlier runs; and those of earlier runs."""

    @property
    def noted(self) -> int:
        """How many rows are kept between two pieces."""
        return len(self._times)

    def counts(self, piece: pl.DataFrame) -> npt.NDArray[np.bool_]:
        """Which rows of the next piece count. They have a good place, and a name."""
        options, old = self._options, self.noted
        rows = piece.drop("amount")
        if self._rows is not None:  # with texts of its own: the others would hold a whole piece
            kept = self._rows.with_columns(pl.col(pl.String) + "")
            rows = pl.concat([kept, rows], rechunk=True)
        blocks = self._blocks_of(rows)
        order, begins = _persons_together(rows["name"], blocks, self._seed)
        if self._several:
            whose = np.empty(len(rows), dtype=np.int64)
            whose[order] = np.repeat(np.arange(len(begins)), _lengths(begins, len(rows)))
            keys = self._keys_of(rows)
            order, begins = _together(_pairs(whose, keys))
        first, lengths = order[begins], _lengths(begins, len(rows))
        noted = first < old
        before, offset = np.zeros((2, len(first)), dtype=np.int64)
        before[noted], offset[noted] = self._before[first[noted]], self._times[first[noted]] - 1
        if options.first_tick is not None and self._people.counted_before:
            new = np.flatnonzero(~noted & (blocks[first] == options.block_of(options.first_tick)))
            before[new] = offset[new] = self._people.before(
                self._digests(rows["name"].gather(first[new]))
            )
        most = np.full(len(first), options.per_person)
        if self._several:  # under a hidden key a person counts once
            most[keys[first] >= len(options.keys)] = 1
            in_file = np.argsort(first)  # the first keys of a person are those of the first rows
            order_of_keys = _numbered(whose[first[in_file]])
            most[in_file[order_of_keys >= options.keys_per_person]] = 0
        taken = np.minimum(np.maximum(most - offset, 0), lengths)
        parts = np.stack([taken, lengths - taken], axis=1).ravel()
        counts = np.empty(len(rows), dtype=np.bool_)
        counts[order] = np.repeat(np.tile([True, False], len(first)), parts)
        times = offset + taken
        keep = np.flatnonzero(times) if not self._several else in_file[times[in_file] > 0]
        self._rows, self._times, self._before = rows[first[keep]], times[keep], before[keep]
        return counts[old:]

    def in_block(self, block: int) -> dict[Noted, int]:
        """What was counted there, as :meth:`Unit.takes` notes it."""
        if self._rows is None:
            return {}
        there = (self._blocks_of(self._rows) == block) & (self._times > self._before)
        rows, at = self._rows.filter(there), np.flatnonzero(there)
        persons = self._digests(rows["name"])
        times = (self._times - self._before)[at].tolist()
        if not self._several:
            return dict(zip(persons, times, strict=True))
        noted: dict[Noted, int] = {}
        texts = rows["text"].to_list() if self._options.discover else repeat(None)
        keys = (rows["place"] % self._options.width).to_list()
        for person, key, text, count in zip(persons, keys, texts, times, strict=False):
            noted[person] = noted.get(person, 0) + 1
            noted[person, key if text is None else text] = count
        return noted

    def _digests(self, names: pl.Series) -> list[bytes]:
        return [person_digest(name, self._people.key) for name in names]

    def _blocks_of(self, rows: pl.DataFrame) -> Numbers:
        ticks = (rows["place"] // self._options.width).to_numpy()
        first, last = (int(ticks.min()), int(ticks.max())) if len(ticks) else (0, 0)
        blocks_of = partial(self._options.unit.blocks_of, self._options.ticks)
        if last - first >= len(ticks):
            return blocks_of(ticks)
        blocks: Numbers = blocks_of(np.arange(first, last + 1))[ticks - first]
        return blocks

    def _keys_of(self, rows: pl.DataFrame) -> Numbers:
        """A number for the key of each row: the position of a declared one; those of hidden keys
        are larger."""
        keys: Numbers = (rows["place"] % self._options.width).to_numpy().astype(np.int64)
        if not self._options.discover:
            return keys
        texts = rows["text"].cast(pl.Categorical).to_physical().fill_null(0).to_numpy()
        keys += texts  # a hidden key has the place behind the declared ones
        return keys


def _persons_together(names: pl.Series, blocks: Numbers, seed: int) -> tuple[Rows, Numbers]:
    """:func:`_together` for rows of the same person and block."""
    numbers = names.hash(seed).to_numpy() + blocks.astype(np.uint64) * _ODD
    numbers >>= np.uint64(len(names).bit_length())
    return _checked(names, blocks, *_together(numbers))


def _checked(
    names: pl.Series, blocks: Numbers, order: Rows, begins: Numbers
) -> tuple[Rows, Numbers]:
    """The same order and beginnings; where rows of several persons or blocks came together by their
    hashes, those of each by themselves."""
    exact = _changes(names, blocks, order)
    if len(exact) == len(begins):
        return order, begins
    group = np.repeat(np.arange(len(begins)), _lengths(begins, len(order)))
    mixed = np.flatnonzero(np.isin(group, group[np.setdiff1d(exact, begins)]))
    rows = order[mixed]
    ranks = names.gather(rows).rank("dense").to_numpy()
    order[mixed] = rows[np.lexsort((rows, ranks, blocks[rows], group[mixed]))]
    return order, _changes(names, blocks, order)


def _changes(names: pl.Series, blocks: Numbers, order: Rows) -> Numbers:
    """Where the person or the block is another than that of the row before."""
    texts = names.gather(order)
    changes = np.ones(len(order), dtype=np.bool_)
    changes[1:] = (texts[1:] != texts[:-1]).to_numpy()
    if len(blocks) and np.ptp(blocks):
        blocks = blocks[order]
        changes[1:] |= blocks[1:] != blocks[:-1]
    return np.flatnonzero(changes)


def _together(numbers: npt.NDArray[np.uint64] | Numbers) -> tuple[Rows, Numbers]:
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


def _pairs(first: Numbers, second: Numbers) -> Numbers:
    """One number for each pair of two, from 0. The second ones are not negative."""
    if not len(first):
        return first
    first, width = first - first.min(), int(second.max()) + 1
    if (int(first.max()) + 1) * width > MOST_PAIRS:  # they would wrap
        _, first = np.unique(first, return_inverse=True)
    pairs: Numbers = first * width + second
    return pairs


def _numbered(whose: Numbers) -> Numbers:
    """The number of each row, from 0, among those of the same."""
    order, begins = _together(whose)
    number: Numbers = np.empty(len(whose), dtype=np.int64)
    number[order] = np.arange(len(whose)) - np.repeat(begins, _lengths(begins, len(whose)))
    return number
