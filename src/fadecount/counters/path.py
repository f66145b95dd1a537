"""The noise of a running counter, step by step or in blocks.

At clock ``u`` the noise in an output is the sum over the levels of the variable in use. A step renews the levels ``0
.. n`` for some ``n`` and leaves the higher ones, so all that is ever needed is the *tails*: ``tails[l]`` is the sum
of the variables in use on the levels ``>= l``, carry included. Renewing means rebuilding ``tails[n], ..., tails[0]``
from ``tails[n + 1]``; the output noise is ``tails[0]``.

A block of steps is built top-down by doubling: the tails of level ``l + 1`` over the block, each repeated for its two
halves, plus the new variables of level ``l``. That is two additions and two draws per step, whatever the number of
levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fadecount.intervals import highest_change, trailing_zeros
from fadecount.mechanisms import CARRY, Schedule, scale_of
from fadecount.noise import DiscreteLaplace, NoiseSource


class NoisePath:
    """The noise variables in use by one counter (``width`` None) or by a vector of counters (one count each).

    ``shown`` counts the steps that the path has noise for. All changes are made at the end of a call: a call that fails changes
    nothing.
    """

    __slots__ = ("_carry_law", "_laws", "_schedule", "_source", "_width", "shown", "tails")

    def __init__(self, schedule: Schedule, source: NoiseSource, *, width: int | None, resolution_bits: int) -> None:
        self._schedule = schedule
        self._source = source
        self._width = width
        self._laws = [_law(budget, resolution_bits) for budget in schedule.budgets]
        self._carry_law = _law(schedule.carry_budget, resolution_bits)
        self.shown = 0
        self.tails: list[Any] = [self._zero]

    @property
    def _zero(self) -> Any:
        return 0 if self._width is None else np.zeros(self._width, dtype=np.int64)

    def step(self) -> Any:
        """The noise of the next step: an int, or an array over the counts (not to be written to)."""
        shown = self.shown + 1
        round_number, clock = self._schedule.place(shown)
        tails = self.tails
        if clock == 1 and round_number:
            tails = [self._draw(self._carry_law, CARRY, round_number, 0)]
        newest = trailing_zeros(clock)
        below = len(tails) - 1  # where the level above all others begins: only the carry is there
        above = tails[min(newest + 1, below)]
        rebuilt = []
        for level in range(newest, -1, -1):
            if level == newest or not self._schedule.alternating:
                above = above + self._draw(self._laws[level], level, round_number, clock >> level)
            rebuilt.append(above)
        if newest == below:
            tails.append(tails[below])
        tails[newest::-1] = rebuilt
        self.tails, self.shown = tails, shown
        return above

    def block(self, count: int) -> NDArray[np.int64]:
        """The noise of the next ``count`` steps, in the shape (count,) or (count, width)."""
        pieces: list[NDArray[np.int64]] = []
        tails, shown, left = self.tails, self.shown, count
        length = self._schedule.round_length
        while left:
            round_number, clock = self._schedule.place(shown + 1)
            if length is None:
                noise, tails = self._tree(range(round_number, round_number + 1), clock, left, tails)
            elif clock == 1 and round_number and left >= 2 * length:
                noise, tails = self._rounds(range(round_number, round_number + left // length))
            else:
                if clock == 1 and round_number:
                    tails = [self._draw(self._carry_law, CARRY, round_number, 0)]
                part = min(left, length - clock + 1)
                noise, tails = self._tree(range(round_number, round_number + 1), clock, part, tails)
            pieces.append(noise.reshape((-1,) if self._width is None else (-1, self._width)))
            shown, left = shown + len(pieces[-1]), left - len(pieces[-1])
        self.tails, self.shown = tails, shown
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _rounds(self, rounds: range) -> tuple[NDArray[np.int64], list[Any]]:
        """Whole rounds at once: their noise in the shape (rounds, steps, width), and the tails after the last."""
        assert self._schedule.round_length is not None
        carry = self._draws(self._carry_law, CARRY, rounds, range(1))
        noise, tails = self._tree(rounds, 1, self._schedule.round_length, [carry])
        tails[-1] = self._last_of(carry)
        return noise, tails

    def _tree(self, rounds: range, first: int, count: int, tails: Sequence[Any]) -> tuple[NDArray[np.int64], list[Any]]:
        """The noise of ``count`` clock readings from ``first`` on in each of some rounds, and the tails of the last round."""
        last = first + count - 1
        highest = highest_change(first - 1, last)
        below = len(tails) - 1
        width = 1 if self._width is None else self._width
        path: NDArray[np.int64] = np.reshape(tails[min(highest + 1, below)], (-1, 1, width))
        after = list(tails[: below + 1]) + [tails[below]] * (highest + 1 - below)
        for level in range(highest, -1, -1):
            start, end = first >> level, last >> level
            path = np.repeat(path, 2, axis=1)[:, start & 1 : (start & 1) + end - start + 1]
            begun = start << level < first
            if begun:
                path[:, 0] = np.reshape(tails[min(level, below)], (-1, width))
            new = range(start + begun, end + 1)
            if self._schedule.alternating:
                new = range(new.start | 1, new.stop, 2)
            if self._laws[level] is not None and len(new):
                path[:, new.start - start : new.stop - start : new.step] += self._draws(self._laws[level], level, rounds, new)
            after[level] = self._last_of(path)
        return path, after

    def _last_of(self, path: NDArray[np.int64]) -> Any:
        return path[-1, -1].copy() if self._width is not None else int(path[-1, -1, 0])

    def _draw(self, law: DiscreteLaplace | None, level: int, round_number: int, node: int) -> Any:
        if law is None:
            return self._zero
        if self._width is None:
            return self._source.one(law, level, round_number, node)
        rounds, nodes = range(round_number, round_number + 1), range(node, node + 1)
        return self._source.many(law, level, rounds, nodes, self._width)[0, 0]

    def _draws(self, law: DiscreteLaplace | None, level: int, rounds: range, nodes: range) -> NDArray[np.int64]:
        width = 1 if self._width is None else self._width
        if law is None:
            return np.zeros((len(rounds), len(nodes), width), dtype=np.int64)
        return self._source.many(law, level, rounds, nodes, width)


@lru_cache(maxsize=1024)
def _law(budget: float, resolution_bits: int) -> DiscreteLaplace | None:
    scale = scale_of(budget, resolution_bits)
    return DiscreteLaplace(scale) if scale else None
