"""The noise of a running Gaussian counter, step by step or in blocks: integers that store decaying
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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import SumOverflowError
from fadecount.mechanisms import Memories
from fadecount.mechanisms.memories import BLOCK, Memory
from fadecount.noise import NoiseSource, RoundedGaussian

Rows = NDArray[Any]
_FEW = 8
_WIDE = 64
_VERY_WIDE = 1 << 10
_COLUMNS = 1 << 14
_WIDE_BLOCK = 1 << 19


class MemoryPath:
    """The memories of one counter (``width`` None) or of a vector of counters (one count each).

    ``shown`` counts the steps that the path has noise for. All changes are made at the end of a
    call: a call that fails changes nothing.
    """

    __slots__ = (
        "_bounds",
        "_down",
        "_half",
        "_law",
        "_memories",
        "_plan",
        "_source",
        "_state",
        "_width",
        "shown",
    )

    def __init__(self, memories: Memories, source: NoiseSource, *, width: int | None) -> None:
        self._memories = memories
        self._law = RoundedGaussian(memories.deviation)
        self._source = source
        self._width = width
        self._down = memories.unit_bits
        self._half = 1 << self._down >> 1
        self._plan = (
            memories.kept,
            memories.kept_dropped,
            memories.kept_down,
            [
                (each, each.epoch, each.dropped, each.down, each.shift, each.listed)
                for each in memories.memories
            ],
        )
        self.shown = 0
        zero: Any = 0 if width is None else np.zeros(width, dtype=np.int64)
        self._state: list[Any] = [zero] * memories.rows
        self._bounds: list[int] | None = None  # of the state, where known

    @property
    def tails(self) -> list[Any]:
        """The part that never decays, then each memory, longest half-life first."""
        if self._width is None and any(abs(number) >> 62 for number in self._state):
            raise _too_far()
        return list(self._state)

    @tails.setter
    def tails(self, tails: list[Any]) -> None:
        self._state, self._bounds = list(tails), None

    def step(self) -> Any:
        """The noise of the next step: an int, or an array over the counts (not to be written
        to)."""
        step = self.shown
        if self._width is None:
            noise, self._state = self._stepped(step, self._source.one(self._law, 0, 0, step + 1))
        else:
            row = self._source.many(self._law, 0, range(1), range(step + 1, step + 2), self._width)[
                0
            ]
            sums = np.zeros_like(row)
            self._state = self._block(step, row, sums)
            noise = sums[0]
        self.shown = step + 1
        return noise

    def _stepped(self, step: int, drawn: Any) -> tuple[Any, list[Any]]:
        """One step of a single count, in Python's integers."""
        kept, dropped, down, memories = self._plan
        state = self._state
        number = state[0]
        terms = kept * (number >> dropped) >> down
        after = [number + drawn]
        at = 1
        for memory, epoch, dropped, down, shift, listed in memories:
            number = state[at]
            place = step % epoch
            grown, read = listed[place] if listed is not None else memory.factors_at(step)
            terms += read * (number >> dropped) >> down
            if not place:
                number >>= shift  # of zeros, at the first step
            after.append(number + grown * drawn)
            at += 1
        return (drawn + (terms >> 6) + self._half) >> self._down, after

    def add_to(self, sums: NDArray[np.int64]) -> None:
        """Add the noise of the next ``len(sums)`` steps, block by block. Writes nothing but
        ``sums`` if it fails."""
        width, before, done = self._width or 1, self._state, 0
        limit = max(1, (BLOCK if width < _VERY_WIDE else _WIDE_BLOCK) // width)
        try:
            while done < len(sums):
                count = min(limit, len(sums) - done)
                first = self.shown + done
                drawn = self._source.many(
                    self._law, 0, range(1), range(first + 1, first + count + 1), width
                )[0]
                self._state = self._block(
                    first, drawn, sums[done : done + count].reshape(count, width)
                )
                done += count
        except BaseException:
            self._state, self._bounds = before, None
            raise
        self.shown += done

    def _block(self, first: int, drawn: NDArray[np.int64], sums: NDArray[np.int64]) -> list[Any]:
        """Add the noise of some steps to sums in the shape (steps, counts); returns the state after
        them."""
        state = [np.reshape(np.asarray(row), (1, -1)) for row in self.tails]
        run = self._wide if drawn.shape[1] >= _VERY_WIDE else self._fast
        last = run(first, drawn, state, sums)
        return [int(row[0]) if self._width is None else row for row in last]

    def _fast(self, first: int, drawn: Rows, state: list[Rows], sums: Rows) -> list[Rows]:
        """A block in 64-bit integers; refused (and ``sums`` as they were) if one of them would not
        fit."""
        plan = self._memories
        largest = max(int(drawn.max()), -int(drawn.min()))
        noise = np.empty_like(drawn)
        values = np.cumsum(drawn, axis=0)
        values += state[0]
        if largest >> 46 or _passes(values, plan.kept_limit_bits):
            raise _too_far()
        last = [values[-1].copy()]
        if plan.kept:
            _shifted(state[0], values, plan.kept_dropped, noise)
            noise *= plan.kept
            noise >>= plan.kept_down
        else:
            noise[:] = 0
        room = np.empty_like(drawn)
        for memory, start in zip(plan.memories, state[1:], strict=True):
            grown, read = memory.factors(first, len(drawn))
            if largest * int(grown.max()) >> 61:
                raise _too_far()
            np.multiply(drawn, grown[:, np.newaxis], out=values)
            _remember(memory, first, start[0], values)
            if _passes(values, memory.limit_bits):
                raise _too_far()
            last.append(values[-1].copy())
            _shifted(start, values, memory.dropped, room)
            room *= read[:, np.newaxis]
            room >>= memory.down
            noise += room
        noise >>= 6
        noise += drawn
        noise += self._half
        noise >>= self._down
        sums += noise
        return last

    def _wide(self, first: int, drawn: Rows, state: list[Rows], sums: Rows) -> list[Rows]:
        """A block of many counts, row by row, and some columns at a time, so that they stay in
        cache."""
        plan, factors = (
            self._memories,
            [memory.factors(first, len(drawn)) for memory in self._memories.memories],
        )
        bounds = self._bounded(first, drawn, factors, self._bounds) if self._bounds else None
        bounds = bounds or self._bounded(
            first, drawn, factors, [max(int(row.max()), -int(row.min())) for row in state]
        )
        if bounds is None:
            self._bounds = None
            return self._fast(first, drawn, state, sums)
        after = [np.empty_like(row[0]) for row in state]
        room, noise = np.empty((2, min(_COLUMNS, drawn.shape[1])), dtype=np.int64)
        for start in range(0, drawn.shape[1], _COLUMNS):
            columns = slice(start, start + _COLUMNS)
            before, now = [row[0, columns] for row in state], [row[columns] for row in after]
            part, out = room[: len(now[0])], noise[: len(now[0])]
            for at, (row, summed) in enumerate(
                zip(drawn[:, columns], sums[:, columns], strict=True)
            ):
                np.right_shift(before[0], plan.kept_dropped, out=out)
                out *= plan.kept
                out >>= plan.kept_down
                np.add(before[0], row, out=now[0])
                for memory, (grown, read), old, new in zip(
                    plan.memories, factors, before[1:], now[1:], strict=True
                ):
                    np.right_shift(old, memory.dropped, out=part)
                    part *= read[at]
                    part >>= memory.down
                    out += part
                    if (first + at) % memory.epoch == 0:
                        old = np.right_shift(old, memory.shift, out=new)
                    np.multiply(row, grown[at], out=part)
                    np.add(old, part, out=new)
                out >>= 6
                out += row
                out += self._half
                out >>= self._down
                summed += out
                before = now
        self._bounds = bounds
        return after

    def _bounded(
        self, first: int, drawn: Rows, factors: list[tuple[Rows, Rows]], bounds: list[int]
    ) -> list[int] | None:
        """Bounds of all numbers after a block, from bounds before it; None if one might pass its
        limit on the way."""
        plan, bounds = self._memories, list(bounds)
        limits = [plan.kept_limit_bits, *(memory.limit_bits for memory in plan.memories)]
        for at, row in enumerate(drawn):
            largest = max(int(row.max()), -int(row.min()))
            bounds[0] += largest
            for place, (memory, (grown, _read)) in enumerate(
                zip(plan.memories, factors, strict=True), 1
            ):
                ended = (first + at) % memory.epoch == 0
                if ended:  # a floor may be further from 0 by one
                    bounds[place] = (bounds[place] >> memory.shift) + 1
                bounds[place] += largest * int(grown[at])
            if any(bound >> bits for bound, bits in zip(bounds, limits, strict=True)):
                return None
        return bounds


def _remember(memory: Memory, first: int, start: Rows, values: Rows) -> None:
    """Turn what is added at each step into the values of a memory after each step, beginning with
    ``start``."""
    count, epoch, nothing = len(values), memory.epoch, np.zeros_like(values[:1])
    if epoch == 1:
        values += _halved(start, np.concatenate([nothing, values[:-1]]), memory.shift)
        return
    np.cumsum(values, axis=0, out=values)
    begins = -first % epoch  # the first step of a new epoch in this block
    starts = np.arange(begins, count, epoch)
    before = values[starts - 1] if begins else np.concatenate([nothing, values[starts[1:] - 1]])
    values[:begins] += start
    if not len(starts):
        return
    ends = _halved(start, np.diff(before, axis=0, prepend=nothing), memory.shift)
    ends -= before
    lengths = np.diff(np.append(starts, count))
    if len(starts) < _FEW:
        for at, length, each in zip(starts.tolist(), lengths.tolist(), ends, strict=True):
            values[at : at + length] += each
    else:
        whole = (count - begins) // epoch
        middle = values[begins : begins + whole * epoch].reshape(whole, epoch, -1)
        middle += ends[:whole, np.newaxis]
        if whole < len(starts):
            values[begins + whole * epoch :] += ends[-1]


def _halved(start: Rows, sums: Rows, shift: int) -> Rows:
    """``y_0 = (start + sums_0) >> shift``, ``y_(k+1) = (y_k + sums_(k+1)) >> shift``, for all k."""
    found = np.empty_like(sums)
    together = _together(start, sums, shift) if len(sums) > _FEW and sums.shape[1] < _WIDE else 1
    if together == 1:
        for at, row in enumerate(sums):
            start = (start + row) >> shift
            found[at] = start
        return found
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
    inside = found[: groups * together].reshape(groups, together, -1)
    for at in range(together):
        value = (value + grouped[:, at]) >> shift
        inside[:, at] = value
    if groups * together < len(sums):
        found[groups * together :] = _halved(ends[-1], sums[groups * together :], shift)
    return found


def _together(start: Rows, sums: Rows, shift: int) -> int:
    """How many halvings may be done at once without exceeding 2**62."""
    largest = max(abs(int(each)) for each in (start.max(), start.min(), sums.max(), sums.min()))
    return max(1, min(16, len(sums), (60 - largest.bit_length()) // shift))


def _shifted(start: Rows, values: Rows, bits: int, out: Rows) -> None:
    """The values before each step, with their lowest bits dropped."""
    np.right_shift(start[0], bits, out=out[0])
    np.right_shift(values[:-1], bits, out=out[1:])


def _passes(values: Rows, bits: int) -> bool:
    return bool(max(int(values.max()), -1 - int(values.min())) >> bits)


def _too_far() -> SumOverflowError:
    return SumOverflowError("noise would pass +-2**62 and lose exactness; start a new counter")
