"""The noise of a running counter, step by step or in blocks.

At clock ``u`` the noise in an output is the sum over the levels of the variable in use. A step
renews the levels ``0 .. n`` for some ``n`` and keeps the higher ones, so only the *tails* are
needed: for each level ``l`` the sum of the variables in use on the levels ``>= l``, carry included.
They are listed from the highest level (above all that are in use: the carry alone) to level 0,
whose tail is the output noise. Renewing means dropping the last ``n + 1`` and rebuilding them from
the one before.

A block of steps is built top-down by doubling: the tails of level ``l + 1`` over the block, each
repeated for its two halves, plus the new variables of level ``l``. That is two additions and two
draws per step, whatever the number of levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms import CARRY, IntervalSchedule, Schedule, scale_of
from fadecount.noise import DiscreteLaplace, NoiseSource

_BLOCK = 1 << 18
Rooms = list[NDArray[np.int64]]


class NoisePath:
    """The noise variables in use by one counter (``width`` None) or by a vector of counters (one
    count each).

    ``shown`` counts the steps that the path has noise for. All changes are made at the end of a
    call: a call that fails changes nothing.
    """

    __slots__ = ("_draw", "_length", "_place", "_plan", "_source", "_tails", "_width", "shown")

    def __init__(self, schedule: Schedule, source: NoiseSource, *, width: int | None) -> None:
        self._plan = _plan(schedule)
        self._length = schedule.round_length
        self._place = schedule.place
        self._source = source
        self._width = width
        self._draw = drawing(source, width)
        self.shown = 0
        self._tails: list[Any] = [self._zero]

    @property
    def _zero(self) -> Any:
        return 0 if self._width is None else np.zeros(self._width, dtype=np.int64)

    @property
    def tails(self) -> list[Any]:
        """The tails from level 0 upwards, the carry last."""
        return self._tails[::-1]

    @tails.setter
    def tails(self, tails: list[Any]) -> None:
        self._tails = tails[::-1]

    def step(self) -> Any:
        """The noise of the next step: an int, or an array over the counts (not to be written
        to)."""
        shown = self.shown + 1
        clock, round_number, tails = shown, 0, self._tails
        if self._length is not None:
            round_number, clock = self._place(shown)
            if clock == 1 and round_number:
                tails = self._carry(round_number)
        if clock & 1 and clock > 1:  # every other step renews level 0 alone
            law = self._plan.laws[0]
            assert law is not None  # a counter that would release an input without noise is refused
            tails[-1] = above = tails[-2] + self._draw(law, 0, round_number, clock)
        else:
            self._tails = tails = self._renewed(tails, round_number, clock)
            above = tails[-1]
        self.shown = shown
        return above

    def _renewed(self, tails: list[Any], round_number: int, clock: int) -> list[Any]:
        """The tails at a clock reading, given those at the one before."""
        newest = (clock & -clock).bit_length() - 1
        kept = tails[: max(1, len(tails) - 1 - newest)]
        above, draw = kept[-1], self._draw
        for level, law in self._plan.renewed[newest]:
            if law is not None:
                above = above + draw(law, level, round_number, clock >> level)
            kept.append(above)
        return kept

    def add_to(self, sums: NDArray[np.int64]) -> None:
        """Add the noise of the next ``len(sums)`` steps, block by block. Writes nothing but
        ``sums`` if it fails."""
        tails, done, length = self._tails, 0, self._length
        limit = min(max(1, _BLOCK // (self._width or 1)), len(sums))
        # Room for two levels, used in turn.
        rooms = [np.empty(limit * (self._width or 1), dtype=np.int64) for _ in range(2)]
        while done < len(sums):
            left = min(limit, len(sums) - done)
            round_number, clock = self._place(self.shown + done + 1)
            begins = clock == 1 and round_number > 0
            if begins and length is not None and left >= 2 * length:
                noise, tails = self._rounds(
                    range(round_number, round_number + left // length), rooms
                )
            else:
                if begins:
                    tails = self._carry(round_number)
                part = left if length is None else min(left, length - clock + 1)
                noise, tails = self._tree(
                    range(round_number, round_number + 1), clock, part, tails, rooms
                )
            noise = noise.reshape(-1, *sums.shape[1:])
            sums[done : done + len(noise)] += noise
            done += len(noise)
        self._tails = tails
        self.shown += done

    def _rounds(self, rounds: range, rooms: Rooms) -> tuple[NDArray[np.int64], list[Any]]:
        """Whole rounds at once: their noise in the shape (rounds, steps, width), and the tails
        after the last."""
        assert self._length is not None and self._plan.carry is not None
        carry = self._source.many(self._plan.carry, CARRY, rounds, range(1), self._width or 1)
        noise, tails = self._tree(rounds, 1, self._length, [carry], rooms)
        tails[0] = self._last_of(carry)
        return noise, tails

    def _tree(
        self, rounds: range, first: int, count: int, tails: list[Any], rooms: Rooms
    ) -> tuple[NDArray[np.int64], list[Any]]:
        """The noise of ``count`` clock readings from ``first`` on in each of some rounds, and the
        tails of the last round."""
        last = first + count - 1
        highest = ((first - 1) ^ last).bit_length() - 1  # of the levels renewed on the way
        width = self._width or 1
        kept = tails[: max(1, len(tails) - 1 - highest)]
        path: NDArray[np.int64] = np.reshape(kept[-1], (-1, 1, width))
        for level in range(highest, -1, -1):
            start, end = first >> level, last >> level
            shape = (len(rounds), end - start + 1, width)
            halves = rooms[level & 1][: math.prod(shape)].reshape(shape)
            begun = start << level < first
            if begun:
                halves[:, 0] = np.reshape(tails[max(0, len(tails) - 1 - level)], (-1, width))
            self._fill(
                halves[:, 1:] if begun else halves,
                path,
                level,
                rounds,
                range(start + begun, end + 1),
                start >> 1,
            )
            path = halves
            kept.append(self._last_of(path))
        return path, kept

    def _fill(
        self,
        halves: NDArray[np.int64],
        above: NDArray[np.int64],
        level: int,
        rounds: range,
        nodes: range,
        at: int,
    ) -> None:
        """The tails of new nodes: those of the nodes above (which are numbered from ``at`` on) plus
        the new variables."""
        law, alternating = self._plan.laws[level], self._plan.alternating
        new = range(nodes.start | 1, nodes.stop, 2) if alternating else nodes
        draws = (
            self._source.many(law, level, rounds, new, halves.shape[-1])
            if law is not None and len(new)
            else None
        )
        for odd in (0, 1):
            skip = (nodes.start + odd) & 1
            target = halves[:, skip::2]
            parent = (nodes.start + skip >> 1) - at
            parents = above[:, parent : parent + target.shape[1]]
            if draws is None or (alternating and not odd):
                target[...] = parents
            else:
                np.add(parents, draws if alternating else draws[:, skip::2], out=target)

    def _last_of(self, path: NDArray[np.int64]) -> Any:
        return path[-1, -1].copy() if self._width is not None else int(path[-1, -1, 0])

    def _carry(self, round_number: int) -> list[Any]:
        """The tails at the beginning of a later round: its carry alone."""
        assert self._plan.carry is not None
        return [self._draw(self._plan.carry, CARRY, round_number, 0)]


class IntervalPath:
    """The noise of a schedule of one's own: one variable for each interval that holds the step.

    ``tails`` are the variables of the intervals that hold the last step, in the order of the
    schedule. All changes are made at the end of a call: a call that fails changes nothing.
    """

    __slots__ = ("_draw", "_laws", "_schedule", "shown", "tails")

    def __init__(
        self, schedule: IntervalSchedule, source: NoiseSource, *, width: int | None
    ) -> None:
        self._schedule, self._draw = schedule, drawing(source, width)
        self._laws = [law for budget in schedule.budgets if (law := law_of(budget)) is not None]
        self.shown = 0
        self.tails: list[Any] = []

    def step(self) -> Any:
        """The noise of the next step: an int, or an array over the counts."""
        tails = self._next(self.shown, self.tails)
        self.shown, self.tails = self.shown + 1, tails
        return sum(tails)

    def add_to(self, sums: NDArray[np.int64]) -> None:
        """Add the noise of the next ``len(sums)`` steps."""
        shown, tails = self.shown, self.tails
        for row in range(len(sums)):
            tails = self._next(shown + row, tails)
            sums[row] += sum(tails)
        self.shown, self.tails = shown + len(sums), tails

    def _next(self, shown: int, tails: list[Any]) -> list[Any]:
        """The variables of the step after ``shown``: kept where they are in use already."""
        kept = dict(zip(self._schedule.in_use(shown), tails, strict=True))
        return [
            kept[number] if number in kept else self._draw(self._laws[number], number, 0, 0)
            for number in self._schedule.in_use(shown + 1)
        ]


def drawing(
    source: NoiseSource, width: int | None
) -> Callable[[DiscreteLaplace, int, int, int], Any]:
    """Gives a variable by its name: an int, or a row of ``width`` of them."""
    if width is None:
        return source.one

    def row(law: DiscreteLaplace, level: int, round_number: int, node: int) -> Any:
        rounds, nodes = range(round_number, round_number + 1), range(node, node + 1)
        return source.many(law, level, rounds, nodes, width)[0, 0]

    return row


@dataclass(frozen=True, slots=True)
class _Plan:
    """The laws of a schedule's slots (None: no noise), and what a step draws for each highest level
    that it renews, downwards."""

    laws: tuple[DiscreteLaplace | None, ...]
    carry: DiscreteLaplace | None
    alternating: bool
    renewed: tuple[tuple[tuple[int, DiscreteLaplace | None], ...], ...]


@lru_cache(maxsize=256)
def _plan(schedule: Schedule) -> _Plan:
    laws = tuple(law_of(budget) for budget in schedule.budgets)
    renewed = tuple(
        tuple(
            (level, laws[level] if level == newest or not schedule.alternating else None)
            for level in range(newest, -1, -1)
        )
        for newest in range(len(laws))
    )
    return _Plan(laws, law_of(schedule.carry_budget), schedule.alternating, renewed)


@lru_cache(maxsize=1024)
def law_of(budget: float) -> DiscreteLaplace | None:
    scale = scale_of(budget)
    return DiscreteLaplace(scale) if scale else None
