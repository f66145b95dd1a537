"""Views of block counters: the counts of any windows, as sums of figures that are public at a time.

A window is covered by the largest blocks that are out, each at its latest stage. Where it ends
inside a larger block, smaller ones go on. Every figure counts once, with the weight 1. So the
counts of adjacent windows add up to that of both together wherever they are covered by the same
blocks.

The noise in a view is a sum of independent discrete Laplace variables, each with the weight 1. So
its variance is exact, and its quantiles are where :mod:`fadecount.mechanisms.noise_distribution`
says so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.calendar import Calendar
from fadecount.errors import bad_parameter
from fadecount.mechanisms.figures import UNKNOWN, Figure, Figures, ListedFigures
from fadecount.mechanisms.noise_distribution import Weighted, quantiles_of_rows, variance_of

if TYPE_CHECKING:
    from fadecount.mechanisms.blocks import Blocks

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

_MOST_RANGES = 32


class Runs(NamedTuple):
    """For some of the windows, each at most once, a run of blocks to add up: those of the level
    with ends in ``(starts, ends]``, at one stage."""

    level: int
    stage: int
    windows: Integers
    starts: Integers
    ends: Integers
    blocks: Integers


class Noise(NamedTuple):
    """For each window (row) how many noise variables of which budget (column) are in its value."""

    budgets: tuple[float, ...]
    counts: Integers


@dataclass(frozen=True, eq=False)
class Views:
    """The counts of windows, as figures to add up; see :func:`views_of`."""

    blocks: Blocks
    calendar: Calendar
    starts: Integers
    ends: Integers
    as_of: Integers
    since: Integers

    @cached_property
    def begun(self) -> Integers:
        """Where the first block that counts begins: the start, or later if that lies inside a block
        or before ``since``; the start if nothing counts."""
        return np.where(self._reached > self._low, self._low, self.starts)

    @cached_property
    def reached(self) -> Integers:
        """The step up to which the figures that are out count; the start if none is."""
        return np.where(self._reached > self._low, self._reached, self.starts)

    @cached_property
    def _low(self) -> Integers:
        low: Integers = self.calendar.end(0, np.maximum(self.starts, self.since))
        return low

    @property
    def _reached(self) -> Integers:
        return self._cover[0]

    @cached_property
    def runs(self) -> tuple[Runs, ...]:
        """The largest blocks that are out and lie in the windows, at their latest stages."""
        runs = []
        for level, pieces in enumerate(self._cover[1]):
            stages = self.blocks.levels[level].stages
            for low, end in pieces:
                for stage in range(len(stages) - 1, -1, -1):
                    out = self.calendar.out(level, self.as_of - stages[stage].lag)
                    high = np.minimum(end, out)
                    some = np.flatnonzero(low < high)
                    if len(some):
                        first, last = low[some], high[some]
                        count = self.calendar.count(level, first, last)
                        runs.append(Runs(level, stage, some, first, last, count))
                    low = np.maximum(low, high)
        return tuple(runs)

    @cached_property
    def _cover(self) -> tuple[Integers, list[list[tuple[Integers, Integers]]]]:
        """Up to which step each window is covered, and for each level what its blocks cover: pieces
        with a start and an end for each window.

        From the largest level down, a level covers what is left on both sides, as far as it is out.
        A larger block is used only if what is before it can be covered by the smallest ones.
        """
        levels, dates, first = self.blocks.levels, self.calendar, self._low
        out = dates.out(0, self.as_of - levels[0].lag)
        smallest = np.minimum(dates.frontier(0, self.ends), out)
        low, high = np.full_like(first, UNKNOWN), first
        pieces: list[list[tuple[Integers, Integers]]] = []
        for number in range(len(levels) - 1, -1, -1):
            out = dates.out(number, self.as_of - levels[number].lag)
            begin = dates.end(number, first)
            end = np.minimum(out, dates.frontier(number, self.ends))
            none = low == UNKNOWN
            begins = none & (begin < end) & (begin <= np.maximum(smallest, first))
            before = ~none & (begin < low) & (low <= out)
            after = ~none & (high < end)
            pieces.append(
                [
                    (np.where(begins | before, begin, 0), np.where(begins, end, low * before)),
                    (np.where(after, high, 0), np.where(after, end, 0)),
                ]
            )
            low = np.where(begins | before, begin, low)
            high = np.where(begins | after, end, high)
        return high, pieces[::-1]

    # Values
    # --------------------------------------------------------------------------------------------
    def values(self, figures: Figures) -> Integers:
        """The count of each window (row) and key (column). It costs no privacy."""
        total = np.zeros((len(self.starts), figures.keys), dtype=np.int64)
        for level, stage, windows, starts, ends, _ in self.runs:
            total[windows] += figures.sums(level, stage, ends) - figures.sums(level, stage, starts)
        return total

    def needs(self) -> dict[tuple[int, int], Integers]:
        """By level and stage which figures the values are made of: rows ``(low, high)`` for those
        with ends in ``(low, high]``, apart from each other and at most 32."""
        spans: dict[tuple[int, int], list[tuple[Integers, Integers]]] = {}
        for run in self.runs:
            spans.setdefault((run.level, run.stage), []).append((run.starts, run.ends))
        return {
            name: _ranges(*map(np.concatenate, zip(*s, strict=True))) for name, s in spans.items()
        }

    @property
    def published(self) -> Integers:
        """After which step the last of the figures in the value became public; ``as_of`` if there
        is none in it."""
        levels, out = self.blocks.levels, np.zeros_like(self.as_of)
        for run in self.runs:
            due = self.calendar.due(run.level, run.ends)
            public = due + levels[run.level].stages[run.stage].lag
            out[run.windows] = np.maximum(out[run.windows], public)
        return np.where(self.begun < self.reached, out, self.as_of)

    @cached_property
    def final(self) -> Booleans:
        """Where nothing that is still to come can change the value: everything is out that the same
        window uses in the end."""
        levels, dates = self.blocks.levels, self.calendar
        last = replace(self, as_of=np.full_like(self.as_of, UNKNOWN - 1))
        out = np.where(dates.end(0, self.ends) < UNKNOWN, 0, UNKNOWN)
        for run in last.runs:
            due = dates.due(run.level, run.ends) + levels[run.level].stages[run.stage].lag
            out[run.windows] = np.maximum(out[run.windows], due)
        return out <= self.as_of

    # Noise
    # --------------------------------------------------------------------------------------------
    @cached_property
    def noise(self) -> Noise:
        """The noise in the values."""
        columns = {(0, 0): np.zeros_like(self.starts)}
        for run in self.runs:
            count = columns.setdefault((run.level, run.stage), np.zeros_like(self.starts))
            count[run.windows] += run.blocks
        levels = self.blocks.levels
        budgets = tuple(levels[level].stages[stage].epsilon for level, stage in columns)
        return Noise(budgets, np.stack([*columns.values()], axis=1))

    def variances(self) -> NDArray[np.float64]:
        """The variances of the noise in the values."""
        budgets, counts = self.noise
        variances: NDArray[np.float64] = counts @ np.array([*map(variance_of, budgets)])
        return variances

    def half_widths(self, beta: float) -> Integers:
        """How far each value may be from the true count, except with probability ``beta``."""
        return half_widths_of_sums([(self, 1)], beta)

    def noise_of(self, window: int, copies: int = 1) -> Weighted:
        """The noise in the value of one window, or in the sum of so many such values, each with its
        own noise."""
        budgets, counts = self.noise
        columns = zip(budgets, counts[window].tolist(), strict=True)
        return tuple((Fraction(1), budget, count * copies) for budget, count in columns if count)


def _ranges(lows: Integers, highs: Integers) -> Integers:
    """The union of ranges, with the narrowest gaps closed if it has too many."""
    order = np.argsort(lows, kind="stable")
    lows, highs = lows[order], np.maximum.accumulate(highs[order])
    gaps = lows[1:] - highs[:-1]
    widest = np.argsort(gaps)[::-1][: _MOST_RANGES - 1]
    cuts = np.sort(widest[gaps[widest] > 0]) + 1
    return np.stack([lows[[0, *cuts]], highs[[*(cuts - 1), -1]]], axis=1)


def views_of(
    blocks: Blocks,
    starts: ArrayLike,
    ends: ArrayLike,
    as_of: ArrayLike,
    *,
    calendar: Calendar,
    since: ArrayLike = 0,
) -> Views:
    """The views of the steps ``start + 1 .. end`` from what is public after step ``as_of``, for
    many windows (arrays are broadcast).

    Blocks that begin before the step ``since`` do not count: a key that is declared then begins
    with the next block of each level.
    """
    steps = [np.atleast_1d(np.asarray(e, dtype=np.int64)) for e in (starts, ends, as_of, since)]
    return Views(blocks, calendar, *np.broadcast_arrays(*steps))


def half_widths_of_sums(parts: Sequence[tuple[Views, int]], beta: float) -> Integers:
    """How far the sums of the values of several keys are from the true ones, except with
    probability ``beta``, for each window. Keys with the same views are one part, with their
    number."""
    rows = np.concatenate([views.noise.counts for views, _ in parts], axis=1)

    def noise_of(window: int) -> Weighted:
        return tuple(term for views, copies in parts for term in views.noise_of(window, copies))

    widths: Integers = np.floor(quantiles_of_rows(rows, noise_of, beta)).astype(np.int64)
    return widths


@dataclass(frozen=True, slots=True)
class View:
    """The count of one window: the first of some :class:`Views`."""

    views: Views

    @property
    def reached(self) -> int:
        """The last step that it counts: the end of the window, unless it is ``partial``."""
        return int(self.views.reached[0])

    @property
    def partial(self) -> bool:
        """Whether figures of the last steps of the window are not public yet."""
        return self.reached < int(self.views.ends[0])

    def value(self, figures: Iterable[Figure]) -> Any:
        """The count, from published figures; with keys, an array over them. It costs no privacy."""
        given = list(figures)
        known = {(level, stage, end) for level, _, end, stage, _ in given}
        for (level, stage), ranges in self.views.needs().items():
            for low, high in ranges.tolist():
                for end in self.views.calendar.edges(level, low, high).tolist():
                    if (level, stage, end) not in known:
                        needed = f"at least that of level {level} and stage {stage} up to {end}"
                        remedy = "keep what each call of Counter.figures returns"
                        raise bad_parameter("figures", f"{len(given)} figures", needed, remedy)
        listed = ListedFigures(given)
        return self.views.values(listed)[0].reshape(listed.shape)[()]

    def variance(self) -> float:
        """The variance of the noise in the value."""
        return float(self.views.variances()[0])

    def half_width(self, beta: float) -> int:
        """How far the value may be from the true count, except with probability ``beta``."""
        return int(self.views.half_widths(beta)[0])
