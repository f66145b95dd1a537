"""The noise of a running Gaussian counter, for many steps at once: integers that store decaying
sums of noise (memories).

:mod:`fadecount.mechanisms.memories` defines a step. A block of steps has the same result, bit by
bit. Within an epoch of a memory there is no rounding, so its values are cumulative sums. From one
epoch to the next, ``y' = (y + sum) >> shift``. As floors of floors are floors, several such steps
are one: ``(y + d_0 + 2**s d_1 + 4**s d_2 + ...) >> (n s)``. That recurrence over groups is repeated
for all groups at once until nothing changes. This takes few repetitions: each one reduces the
remaining error by ``2**(n s)``.

Overflow is always detected. If no product exceeds 2**61 and no value of a memory exceeds its limit,
then by induction over the steps every sum is the true one: a step changes a value by less than
2**61, so the first true value beyond its limit would still be computed correctly, and detected.
Limits are 32 standard deviations: where one is exceeded, which no counter will live to see, the
block is refused, and its noise is forgotten.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.counters.inputs import farthest, running_sums
from fadecount.errors import SumOverflowError
from fadecount.mechanisms import Memories
from fadecount.mechanisms.memories import BLOCK, Memory
from fadecount.noise import NoiseSource, RoundedGaussian

Rows = NDArray[Any]
_FEW = 8
_WIDE = 64


class MemoryPath:
    """The memories of some counts. ``tails`` are the part that never decays, then each memory,
    longest half-life first."""

    __slots__ = ("_law", "_memories", "_source", "shown", "tails")

    def __init__(self, memories: Memories, source: NoiseSource, width: int) -> None:
        self._memories, self._source = memories, source
        self._law = _law_of(memories.deviation)
        self.shown = 0
        self.tails: list[Rows] = [np.zeros(width, dtype=np.int64)] * memories.rows()

    def add_to(self, sums: Rows) -> None:
        """Add the noise of the next ``len(sums)`` steps, a block at a time that stays in cache."""
        width, state, done = sums.shape[1], self.tails, 0
        while done < len(sums):
            first = self.shown + done
            count = min(max(1, BLOCK // width), len(sums) - done)
            nodes = range(first + 1, first + count + 1)
            drawn = self._source.many(self._law, 0, range(1), nodes, width)[0]
            before, state = state, [np.empty_like(row) for row in state]
            for start in range(0, width, BLOCK):
                columns = slice(start, start + BLOCK)
                self._block(
                    first,
                    drawn[:, columns],
                    [row[columns] for row in before],
                    [row[columns] for row in state],
                    sums[done : done + count, columns],
                )
            done += count
        self.tails, self.shown = state, self.shown + done

    def _block(
        self, first: int, drawn: Rows, state: list[Rows], after: list[Rows], sums: Rows
    ) -> None:
        """Add the noise of some steps to sums in the shape (steps, counts), and write the state
        after them. Refused if a number would not fit 64 bits."""
        plan = self._memories
        largest = farthest(drawn)
        noise, room = np.zeros_like(drawn), np.empty_like(drawn)
        values = running_sums(drawn)
        values += state[0]
        if largest >> 46 or _passes(values, plan.kept_limit_bits):
            raise _too_far()
        after[0][:] = values[-1]
        if plan.kept:
            _shifted(state[0], values, plan.kept_dropped, noise)
            noise *= plan.kept
            noise >>= plan.kept_down
        for memory, start, last in zip(plan.memories, state[1:], after[1:], strict=True):
            grown, read = memory.factors(first, len(drawn))
            if largest * int(grown.max()) >> 61:
                raise _too_far()
            np.multiply(drawn, grown[:, np.newaxis], out=values)
            _remember(memory, first, start, values)
            if _passes(values, memory.limit_bits):
                raise _too_far()
            last[:] = values[-1]
            _shifted(start, values, memory.dropped, room)
            room *= read[:, np.newaxis]
            room >>= memory.down
            noise += room
        noise >>= 6
        noise += drawn
        noise += 1 << plan.unit_bits >> 1
        noise >>= plan.unit_bits
        sums += noise


@lru_cache(maxsize=16)
def _law_of(deviation: float) -> RoundedGaussian:
    return RoundedGaussian(deviation)


def _remember(memory: Memory, first: int, start: Rows, values: Rows) -> None:
    """Turn what is added at each step into the values of a memory after each step, beginning with
    ``start``."""
    epoch = memory.epoch
    if values.shape[1] >= _WIDE:  # as it is defined
        for step, row in enumerate(values, start=first):
            row += start if step % epoch else start >> memory.shift
            start = row
        return
    np.cumsum(values, axis=0, out=values)
    begins = -first % epoch  # the first step of a new epoch in this block
    starts = np.arange(begins, len(values), epoch)
    before = np.concatenate([np.zeros_like(values[:1]), values])[starts]
    values[:begins] += start
    if len(starts):
        ends = _halved(start, np.diff(before, axis=0, prepend=0 * before[:1]), memory.shift)
        lengths = np.diff(np.append(starts, len(values)))
        values[begins:] += np.repeat(ends - before, lengths, axis=0)


def _halved(start: Rows, sums: Rows, shift: int) -> Rows:
    """``y_0 = (start + sums_0) >> shift``, ``y_(k+1) = (y_k + sums_(k+1)) >> shift``, for all k."""
    halved = np.empty_like(sums)
    together = _together(start, sums, shift) if len(sums) > _FEW else 1
    if together == 1:
        for at, row in enumerate(sums):
            start = (start + row) >> shift
            halved[at] = start
        return halved
    groups = len(sums) // together
    grouped = sums[: groups * together].reshape(groups, together, -1)
    joined = grouped[:, 0].copy()
    for at in range(1, together):
        joined += grouped[:, at] << (at * shift)
    ends = np.concatenate([[start], np.zeros_like(joined)])
    while True:
        again = (ends[:-1] + joined) >> (together * shift)
        if np.array_equal(again, ends[1:]):
            break
        ends[1:] = again
    value = ends[:-1]
    inside = halved[: groups * together].reshape(groups, together, -1)
    for at in range(together):
        value = (value + grouped[:, at]) >> shift
        inside[:, at] = value
    if groups * together < len(sums):
        halved[groups * together :] = _halved(ends[-1], sums[groups * together :], shift)
    return halved


def _together(start: Rows, sums: Rows, shift: int) -> int:
    """How many halvings may be done at once without exceeding 2**62."""
    largest = max(abs(int(each)) for each in (start.max(), start.min(), sums.max(), sums.min()))
    return max(1, min(16, len(sums), (60 - largest.bit_length()) // shift))


def _shifted(start: Rows, values: Rows, bits: int, out: Rows) -> None:
    """The values before each step, with their lowest bits dropped."""
    np.right_shift(start, bits, out=out[0])
    np.right_shift(values[:-1], bits, out=out[1:])


def _passes(values: Rows, bits: int) -> bool:
    return bool(max(int(values.max()), -1 - int(values.min())) >> bits)


def _too_far() -> SumOverflowError:
    return SumOverflowError("noise would pass +-2**62 and lose exactness; start a new counter")
