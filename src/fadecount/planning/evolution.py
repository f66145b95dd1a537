"""A search far and wide for the budgets of a design with a head start, because one that only goes
downhill stops too early.

The loss of the worst item is neither convex nor smooth in the level budgets. Even five levels have
dozens of local optima, some of them 10 % above the best. So populations of budgets, apart from each
other, evolve: differences of some members are added to others, and a child replaces its parent if
it has less noise (differential evolution, Storn and Price 1997). Budgets are looked at up to a
common factor. A level whose budget is at least twice the cost of a half is never shifted, so it has
no noise.

The noise of a member needs its worst items. Those of all members at once would take long, so the
losses of the items known so far are computed together, and from time to time the worst items of the
best members join them, as in :mod:`fadecount.planning.cutting_planes`.

Nothing is random: numbers are scattered by a fixed formula, so equal targets have equal designs.
Nothing here is trusted either: every result is checked exactly in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fadecount.planning.convex import Vector, variance

Row = tuple[tuple[float, int, int], ...]
"""A limit on some items: how much each counts, its first and its last clock."""

_FIRST, _FARTHEST = 0.8, 3.0
_CROSSED = 0.8
_SAMPLE = 24
_LOOK = 20


def evolved(
    shares: Vector,
    worst: Callable[[Vector], Sequence[Row]],
    islands: int,
    members: int,
    generations: int,
) -> list[Vector]:
    """The best budgets of each population, up to a factor; infinite for levels without noise.

    ``worst`` names the worst items of some budgets: one row per limit, always with the same number
    of items.
    """
    levels = len(shares)
    logs = _FIRST * (2.0 * _scattered(0, (islands, members, levels)) - 1.0)
    items = _Items()
    items.add(
        worst(budgets)
        for budgets in _without_idle(
            logs.reshape(-1, levels)[: islands * members : members * islands // _SAMPLE]
        )
    )
    noise = _noise(shares, items, logs)
    island, member = np.arange(islands)[:, None], np.arange(members)
    for generation in range(1, generations + 1):
        chance = _scattered(generation, (4, islands, members, levels))
        one, two = (
            (member + 1 + (chance[at, :, :, 0] * (members - 1)).astype(int)) % members
            for at in (0, 1)
        )
        best = logs[island, noise.argmin(axis=1)[:, None]]
        pull, push = 0.5 + 0.5 * chance[2, :, :1, :1], 0.5 + 0.5 * chance[2, :, 1:2, :1]
        toward = np.where(
            chance[2, :, :, 1:2] < 0.5, best - logs, logs[island, (one + two) % members] - logs
        )
        moved = logs + pull * toward + push * (logs[island, one] - logs[island, two])
        crossed = (chance[3] < _CROSSED) | (
            np.arange(levels) == (chance[0, :, :, 1:2] * levels).astype(int)
        )
        tried = np.where(crossed, np.clip(moved, -_FARTHEST, _FARTHEST), logs)
        found = _noise(shares, items, tried)
        better = found < noise
        logs[better], noise[better] = tried[better], found[better]
        if generation % _LOOK == 0:
            items.keep_worst(_without_idle(logs.reshape(-1, levels)))
            items.add(worst(each) for each in _bests(logs, noise))
            noise = _noise(shares, items, logs)
    return list(_bests(logs, noise))


def _bests(logs: Vector, noise: Vector) -> Vector:
    """The best member of each population."""
    return _without_idle(logs[np.arange(len(logs)), noise.argmin(axis=1)])


def _noise(shares: Vector, items: _Items, logs: Vector) -> Vector:
    """The noise of budgets, given by their logarithms, scaled to what the limits allow."""
    budgets = _without_idle(logs.reshape(-1, logs.shape[-1]))
    noise: Vector = variance(budgets / items.excess(budgets)[:, None]) @ shares
    return noise.reshape(logs.shape[:-1])


def _without_idle(logs: Vector) -> Vector:
    """The budgets of each row, infinite where two halves cost no more."""
    budgets = np.exp(logs)
    whole = budgets[:, 0].copy()
    for level in range(1, budgets.shape[1]):
        idle = budgets[:, level] >= 2.0 * whole
        whole = np.where(idle, 2.0 * whole, budgets[:, level])
        budgets[idle, level] = np.inf
    return budgets


def _scattered(stream: int, shape: tuple[int, ...]) -> Vector:
    """Numbers in [0, 1), scattered by a fixed formula (the finalizer of SplitMix64)."""
    number = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) + np.uint64(stream << 32)
    number *= np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((number ^ (number >> np.uint64(31))) >> np.uint64(11)).reshape(shape).astype(
        np.float64
    ) * 2.0**-53


class _Items:
    """The items that are the worst of some budgets: those known so far, as long as they matter.

    An item climbs from both ends at once (docs/theory.md, section 6). What it pays on its way from
    each level to the next does not depend on the budgets: it is one row of the arrays per level.
    """

    def __init__(self) -> None:
        self._known: list[tuple[int, int, int]] = []

    def add(self, found: Iterable[Sequence[Row]]) -> None:
        """Know the items of some rows too."""
        known = set(self._known)
        for rows in found:
            weights = [(limit, weight) for limit, row in enumerate(rows) for weight, _, _ in row]
            self._weights = np.zeros((len(weights), len(rows)))
            for part, (limit, weight) in enumerate(weights):
                self._weights[part, limit] = weight
            known |= {
                (part, first, last)
                for part, (_, first, last) in enumerate(item for row in rows for item in row)
            }
        self._use(known)

    def keep_worst(self, budgets: Vector) -> None:
        """Forget the items that are not the worst of their part for any row of budgets."""
        losses, ends = self._losses(budgets), [*self._starts[1:], len(self._known)]
        places = [
            start + losses[start:end].argmax(axis=0)
            for start, end in zip(self._starts.tolist(), ends, strict=True)
        ]
        self._use({self._known[place] for place in np.unique(np.concatenate(places)).tolist()})

    def _use(self, known: set[tuple[int, int, int]]) -> None:
        self._known = sorted(known)
        part, first, last = np.array(self._known, dtype=np.int64).T
        self._starts = np.searchsorted(part, np.arange(len(self._weights)))
        tree, last_tree, meeting = (_bit_lengths(each) for each in (first, last, first ^ last))
        apart, level = tree < last_tree, np.arange(int(last_tree.max()) - 1)[:, None]
        left = level < np.where(apart, tree, meeting) - 1
        right = level < np.where(apart, last_tree, meeting) - 1
        meets, above = (
            ~apart & (level == meeting - 1),
            ~apart & (level >= meeting) & (level < tree - 1),
        )
        between = apart & (level >= tree) & (level < last_tree - 1)
        ones, last_ones = (first >> level & 1) == 1, (last >> level & 1) == 1
        steps = (
            left & ~ones | between,
            meets,
            (left | above) & ones,
            right & last_ones,
            left | meets | above,
            right,
        )
        self._steps = [[np.flatnonzero(row) for row in rows] for rows in zip(*steps, strict=True)]
        self._apart = np.flatnonzero(apart)

    def excess(self, budgets: Vector) -> Vector:
        """The largest ratio of a loss to its limit, for each row of budgets."""
        worst = np.maximum.reduceat(self._losses(budgets), self._starts, axis=0)
        excess: Vector = (self._weights.T @ worst).max(axis=0)
        return excess

    def _losses(self, budgets: Vector) -> Vector:
        """The loss of each item (rows) for each row of budgets. The last finite budget goes on
        upward."""
        count, noisy = budgets.shape[1], np.isfinite(budgets)
        later = np.take_along_axis(
            budgets, count - 1 - noisy[:, ::-1].argmax(axis=1)[:, None], axis=1
        )[:, 0]
        whole = budgets[:, 0]
        zero, one, right = (
            np.repeat(each[None], len(self._known), axis=0) for each in (whole, 0.0 * whole, whole)
        )
        for level, (zeros, meets, ones, seen, left, last) in enumerate(self._steps, start=1):
            zero[zeros] += whole
            zero[meets] += right[meets]
            one[ones] += whole
            right[seen] += whole
            whole = np.minimum(2.0 * whole, budgets[:, level] if level < count else later)
            right[last] = np.minimum(right[last], whole)
            some, others = zero[left], one[left]
            zero[left], one[left] = (
                np.minimum(some, others + whole),
                np.minimum(others, some + whole),
            )
        zero[self._apart] += right[self._apart]
        return zero


def _bit_lengths(numbers: Vector) -> Vector:
    return np.frexp(numbers.astype(np.float64))[1]
