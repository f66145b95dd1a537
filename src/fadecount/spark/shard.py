"""One shard: a vector of counters over some keys, and the counts of its open ticks. Plain Python: Spark only carries it.

Two rules make a repeated execution harmless. The noise is keyed, so the same tick with the same counts gives the same
releases. And counts are *frozen* before noise meets them: events that arrive together with a watermark are never counted in
a tick which that watermark closes, but in the first one that it leaves open. So what is released in a micro-batch depends
only on the state that the batch before it committed and on the watermark that Spark logged before it began; whatever the
source gives when the batch is executed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters import Counter
from fadecount.errors import CheckpointError, InputError
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.noise_law import tail_bound
from fadecount.noise import KeyedNoise
from fadecount.noise.keyed import derive_stream_key
from fadecount.spark.identity import Identity
from fadecount.spark.pending import Pending
from fadecount.spark.roster import Roster

_CELLS = 1 << 19
_LARGEST_CELL = 1 << 62


@dataclass(frozen=True, slots=True)
class Released:
    """The releases of consecutive ticks from ``first`` on: one row per tick, one column per key; and the error bound per tick."""

    first: int
    values: NDArray[np.int64]
    bounds: NDArray[np.int64]


def cells_of(roster: Roster, keys: Any, ticks: Any, *, open_tick: int) -> tuple[NDArray[np.uint64], NDArray[np.bool]]:
    """The cells of events with declared keys, and which events these are. Ticks before ``open_tick`` become that one."""
    positions, numbers = roster.positions(keys), np.asarray(ticks)
    if numbers.dtype.kind not in "iu":
        raise InputError("time must not be null; drop or date such events before they are counted")
    declared = positions >= 0
    places = np.maximum(numbers[declared].astype(np.int64), open_tick)
    width = len(roster)
    if len(places) and int(places.max()) >= _LARGEST_CELL // width:
        raise InputError("time must be within the reach of the ticks, got one too far ahead; drop such events")
    return (places * width + positions[declared]).astype(np.uint64), declared


def accept(roster: Roster, pending: Pending, keys: Any, ticks: Any, *, open_tick: int) -> Pending:
    """The pending counts with some events more; events of ticks before ``open_tick`` count in that one, the first still open."""
    cells, _ = cells_of(roster, keys, ticks, open_tick=open_tick)
    distinct, counts = np.unique(cells, return_counts=True)
    return pending.with_counts(distinct, counts.astype(np.uint64))


class Shard:
    """The running counters of a shard's keys. ``open`` is the number of the first tick that was not released."""

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
        """Release every tick before ``open_tick``, in blocks of bounded size; afterwards :meth:`saved` is the state to keep."""
        width = len(self.roster)
        if open_tick < self.open or len(self.pending.before(self.open * width)[0].cells):
            raise CheckpointError(f"tick must not go back behind {self.open}, got an earlier one; restore the checkpoint")
        at_once = max(1, _CELLS // width)
        while self.open < open_tick:
            first = self.open
            last = min(open_tick, first + at_once)
            counted, rest = self.pending.before(last * width)
            items = counted.dense(first * width, (last - first) * width).reshape(-1, width)
            values = self._counter.extend(items)
            self.pending = rest
            yield Released(first, values, error_bounds(self._counter.mechanism, first + 1, last, self._beta))

    def saved(self) -> bytes:
        return self._counter.save()


def new_shard(identity: Identity, roster: Roster, stream_key: bytes, *, beta: float) -> Shard:
    """A shard before its first tick."""
    noise = KeyedNoise(stream_key, roster.tags)
    counter = Counter._with_noise(identity.description, noise, width=len(roster))
    return Shard(roster, counter, Pending.empty(), beta=beta)


def resumed_shard(roster: Roster, stream_key: bytes, saved: bytes, pending: bytes, *, beta: float) -> Shard:
    """The shard that :meth:`Shard.saved` and its pending counts describe."""
    counter = Counter._resume_with_noise(saved, KeyedNoise(stream_key, roster.tags))
    return Shard(roster, counter, Pending.from_bytes(pending), beta=beta)


def stream_key_of(identity: Identity, secret: bytes, *, inputs: str = "") -> bytes:
    """The stream's key for keyed noise; ``inputs`` binds it to a digest of inputs that are all known beforehand."""
    epoch = f"{identity.epoch} {inputs}" if inputs else identity.epoch
    return derive_stream_key(secret, epoch=epoch, stream=identity.stream, mechanism=identity.mechanism)


def error_bounds(mechanism: Mechanism, first_step: int, last_step: int, beta: float) -> NDArray[np.int64]:
    """For each step a whole number that the noise of one release passes with probability at most ``beta``."""
    schedule = mechanism.schedule
    bounds = [_bound(tuple(schedule.budgets_in_use(step)), beta) for step in range(first_step, last_step + 1)]
    return np.array(bounds, dtype=np.int64)


@lru_cache(maxsize=4096)
def _bound(budgets: tuple[float, ...], beta: float) -> int:
    return math.ceil(tail_bound(budgets, beta, 0))
