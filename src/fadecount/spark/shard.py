"""One shard: a vector of counters over some keys, and the counts of its open ticks. Plain Python,
independent of Spark.

Two rules make a repeated execution harmless. The noise is keyed, so the same tick with the same
counts gives the same releases. And counts are *frozen* before noise is added to them: a micro-batch
closes ticks by a clock that was read before it began, and its events never count in a tick that
this clock closes, but in the first one that it leaves open. So what is released in a micro-batch
depends only on the state that the batch before it committed and on the clock that Spark logged
before it began, whatever the source returns when the batch is executed again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.errors import CheckpointError, ParameterError, SavedStateError
from fadecount.mechanisms.noise_law import half_widths
from fadecount.noise import KeyedNoise
from fadecount.noise.keyed import tags_of
from fadecount.spark.job import Identity

RELEASES = "tick timestamp, key string, value bigint, low bigint, high bigint"
_CELLS = 1 << 19
_LARGEST_CELL = 1 << 62
_HEADER = 2
_TYPES = ("<u1", "<u2", "<u4", "<u8")


class Roster:
    """The declared keys of a shard in their order, and the tag of each (see
    :mod:`fadecount.noise.keyed`)."""

    __slots__ = ("_index", "names", "tags")

    def __init__(self, names: Sequence[str], tags: NDArray[np.uint64] | None = None) -> None:
        self.names: NDArray[Any] = np.array(names, dtype=object)
        self.tags = np.empty((0, 2), dtype="<u8") if tags is None else tags
        self._index: Any = pd.Index(self.names)

    @classmethod
    def of(cls, names: Iterable[str | None]) -> Roster:
        """A roster of declared keys, sorted, each once, still without tags."""
        given = set(names)
        if None in given:
            raise ParameterError("keys must not hold null; declare only keys with a name")
        return cls(sorted(str(name) for name in given))

    def tagged(self, stream_key: bytes) -> Roster:
        return Roster(self.names.tolist(), tags_of(stream_key, self.names.tolist()))

    def __len__(self) -> int:
        return len(self.names)

    def positions(self, keys: Any) -> NDArray[np.int64]:
        """The place of each key of some events; -1 for keys that were not declared, such as a
        null."""
        found: NDArray[np.int64] = np.asarray(self._index.get_indexer(keys), dtype=np.int64)
        return found

    def to_bytes(self) -> bytes:
        """The number of keys, the lengths of their names, the names, the tags."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in self.names]
        lengths = np.array([len(each) for each in encoded], dtype="<u4")
        return (
            len(encoded).to_bytes(8, "little")
            + lengths.tobytes()
            + b"".join(encoded)
            + self.tags.tobytes()
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> Roster:
        count = int.from_bytes(blob[:8], "little")
        names_at = 8 + 4 * count
        if len(blob) < names_at:
            raise _damaged_keys()
        ends = list(
            itertools.accumulate(np.frombuffer(blob, "<u4", count, 8).tolist(), initial=names_at)
        )
        if len(blob) != ends[-1] + 16 * count:
            raise _damaged_keys()
        tags = np.frombuffer(blob, "<u8", 2 * count, ends[-1]).reshape(-1, 2)
        names = [
            blob[start:end].decode("utf-8", "surrogatepass")
            for start, end in itertools.pairwise(ends)
        ]
        return cls(names, tags)


def _damaged_keys() -> SavedStateError:
    return SavedStateError(
        "keys of a shard must be whole, got damaged bytes; restore the checkpoint"
    )


@dataclass(frozen=True, slots=True)
class Pending:
    """Numbers of events by cell; a cell is ``tick * width + position of the key``, cells are sorted
    and distinct."""

    cells: NDArray[np.uint64]
    counts: NDArray[np.uint64]

    @classmethod
    def empty(cls) -> Pending:
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64))

    def with_counts(self, cells: NDArray[np.uint64], counts: NDArray[np.uint64]) -> Pending:
        """These counts and some more; a cell may come several times."""
        merged, places = np.unique(np.concatenate([self.cells, cells]), return_inverse=True)
        sums = np.zeros(len(merged), dtype=np.uint64)
        np.add.at(sums, places, np.concatenate([self.counts, counts]))
        return Pending(merged, sums)

    def before(self, cell: int) -> tuple[Pending, Pending]:
        """The counts of the cells below one, and the rest."""
        at = int(np.searchsorted(self.cells, np.uint64(cell)))
        return Pending(self.cells[:at], self.counts[:at]), Pending(
            self.cells[at:], self.counts[at:]
        )

    def dense(self, first: int, count: int) -> NDArray[np.int64]:
        """The counts of ``count`` cells from ``first`` on; all cells held must be among them."""
        counts = np.zeros(count, dtype=np.int64)
        counts[(self.cells - np.uint64(first)).astype(np.int64)] = self.counts.astype(np.int64)
        return counts

    def to_bytes(self) -> bytes:
        """Two bytes for the widths of the numbers, then cells, then counts: about 5 bytes an
        entry."""
        widths = bytes([_narrowest(self.cells), _narrowest(self.counts)])
        return (
            widths
            + self.cells.astype(_TYPES[widths[0]]).tobytes()
            + self.counts.astype(_TYPES[widths[1]]).tobytes()
        )

    @classmethod
    def from_bytes(cls, blob: bytes) -> Pending:
        try:
            cell_type, count_type = np.dtype(_TYPES[blob[0]]), np.dtype(_TYPES[blob[1]])
            number, rest = divmod(len(blob) - _HEADER, cell_type.itemsize + count_type.itemsize)
            if rest:
                raise ValueError("entries are cut")
            cells = np.frombuffer(blob, cell_type, number, _HEADER)
            counts = np.frombuffer(blob, count_type, number, _HEADER + number * cell_type.itemsize)
        except (IndexError, ValueError) as error:
            raise SavedStateError(
                "pending counts must be whole, got damaged bytes; restore the checkpoint"
            ) from error
        return cls(cells.astype(np.uint64), counts.astype(np.uint64))


def _narrowest(numbers: NDArray[np.uint64]) -> int:
    largest = int(numbers.max()) if len(numbers) else 0
    return (largest > 0xFF) + (largest > 0xFFFF) + (largest > 0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Released:
    """The releases of consecutive ticks from ``first`` on: one row per tick, one column per key;
    and the error bound per tick."""

    first: int
    values: NDArray[np.int64]
    bounds: NDArray[np.int64]


def cells_of(
    roster: Roster, keys: Any, ticks: Any, *, open_tick: int
) -> tuple[NDArray[np.uint64], NDArray[np.bool]]:
    """The cells of events that count, and which events these are. Ticks before ``open_tick`` become
    that one.

    An event without a declared key, without a tick, or with one before the first or out of reach is
    left out by itself.
    """
    positions, known, width = roster.positions(keys), ~np.asarray(pd.isna(ticks)), len(roster)
    numbers = np.where(known, np.asarray(ticks), 0).astype(np.int64)
    counts = (positions >= 0) & known & (numbers >= 0) & (numbers < _LARGEST_CELL // max(1, width))
    places = np.maximum(numbers[counts], open_tick)
    return (places * width + positions[counts]).astype(np.uint64), counts


def accept(roster: Roster, pending: Pending, keys: Any, ticks: Any, *, open_tick: int) -> Pending:
    """The pending counts plus some events; events of ticks before ``open_tick`` count in
    ``open_tick``, the first still open."""
    cells, _ = cells_of(roster, keys, ticks, open_tick=open_tick)
    distinct, counts = np.unique(cells, return_counts=True)
    return pending.with_counts(distinct, counts.astype(np.uint64))


class Shard:
    """The running counters of a shard's keys. ``open`` is the number of the first tick that was not
    released."""

    __slots__ = ("_beta", "_counter", "pending", "roster")

    def __init__(self, roster: Roster, counter: Counter, pending: Pending, *, beta: float) -> None:
        self.roster = roster
        self.pending = pending
        self._counter = counter
        self._beta = beta

    @property
    def open(self) -> int:
        return self._counter.time

    def close(self, open_tick: int) -> Iterator[Released]:
        """Release every tick before ``open_tick``, in blocks of bounded size; afterwards
        :meth:`saved` is the state to keep."""
        width = len(self.roster)
        if open_tick < self.open or len(self.pending.before(self.open * width)[0].cells):
            raise CheckpointError(
                f"tick must not go back behind {self.open}, got an earlier one; restore the"
                " checkpoint"
            )
        at_once = max(1, _CELLS // width)
        while self.open < open_tick:
            first = self.open
            last = min(open_tick, first + at_once)
            counted, rest = self.pending.before(last * width)
            items = counted.dense(first * width, (last - first) * width).reshape(-1, width)
            values = np.asarray(self._counter.extend(items), dtype=np.int64)
            self.pending = rest
            yield Released(
                first,
                values,
                half_widths(self._counter.mechanism, first + 1, last - first, beta=self._beta),
            )

    def saved(self) -> bytes:
        return self._counter.save()


def new_shard(identity: Identity, roster: Roster, stream_key: bytes, *, beta: float) -> Shard:
    """A shard before its first tick."""
    noise = KeyedNoise(stream_key, roster.tags)
    counter = Counter._with_noise(identity.description, noise, width=len(roster))
    return Shard(roster, counter, Pending.empty(), beta=beta)


def resumed_shard(
    roster: Roster, stream_key: bytes, saved: bytes, pending: bytes, *, beta: float
) -> Shard:
    """The shard that :meth:`Shard.saved` and its pending counts describe."""
    counter = Counter._resume_with_noise(saved, KeyedNoise(stream_key, roster.tags))
    return Shard(roster, counter, Pending.from_bytes(pending), beta=beta)


def frames(
    identity: Identity, roster: Roster, blocks: Iterator[Released]
) -> Iterator[pd.DataFrame]:
    """Releases as rows, tick by tick; a tick is named by the time at which it begins."""
    for block in blocks:
        ticks, width = block.values.shape
        starts = [identity.tick_start(block.first + number) for number in range(ticks)]
        values = block.values.reshape(-1)
        bounds = np.repeat(block.bounds, width)
        yield pd.DataFrame(
            {
                "tick": (
                    pd.DatetimeIndex(
                        np.repeat(np.array(starts, dtype="datetime64[s]"), width), tz="UTC"
                    ).as_unit("us")
                ),
                "key": np.tile(roster.names, ticks),
                "value": values,
                "low": values - bounds,
                "high": values + bounds,
            }
        )


@lru_cache(maxsize=16)
def roster_from(blob: bytes) -> Roster:
    """A shard's keys. A reused worker caches the last ones, since names never change."""
    return Roster.from_bytes(blob)
