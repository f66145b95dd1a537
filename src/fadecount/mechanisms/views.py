"""Views of block counters: the counts of any windows, from figures that are public at a time.

A window is covered by the largest blocks that are out, each at its latest stage; a block whose
figure never comes out is replaced by its children. Where an end of the window lies inside a tied
block ``v``, the difference ``D`` that ``v`` announced is shared: the part of ``v`` that lies before
that end gets the same part of ``D``. Parts count children, not steps, so they hold for unequal
children too: ``part(v) = (complete children + part(open child)) / children``. The shares of one
tied group at one end are added up and rounded once, in integers. So the counts of adjacent windows
inside a tied block add up to that of the block, exactly.

The noise in a view is a sum of independent discrete Laplace variables with weights. A block that is
covered has the weight 1. If a tied block has the difference weight ``W`` (1 if it ends in the
window, plus its part at the window's end, less its part at the start), its own noise gets ``+W``
and that of each child ``-W``. So variances are exact, and quantiles too where
:mod:`fadecount.mechanisms.noise_law` says so.

Shares are rounded half up, so each tied group moves a value by at most one half at each end of the
window. A band around a value is as much wider as rounding moved it, which is public; a band that is
stated before there is a value counts one half for each rounding. The rounding is not symmetric:
where the part of a block is ``i / r`` in lowest terms and ``r`` is even, one of ``r`` remainders
lies exactly between two integers and goes up, and the mean of the live total is higher by about ``1
/ (2 r)``, at most 1/4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount.errors import bad_parameter
from fadecount.mechanisms.figures import (
    ANNOUNCED,
    UNKNOWN,
    Calendar,
    Figure,
    Figures,
    ListedFigures,
)
from fadecount.mechanisms.noise_law import Weighted, quantiles_of_rows, variance_of

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


class Shares(NamedTuple):
    """For every window the block of a tied level that one end of the window lies in, and the part
    of the block before that end. ``shared`` says where there is such a block and its difference is
    known; the rest means nothing elsewhere."""

    level: int
    starts: Integers
    ends: Integers
    children: Integers
    stages: Integers
    numerators: Integers
    denominators: Integers
    shared: Booleans

    def terms(self) -> Iterator[tuple[int, int, Integers]]:
        """The differences as figures: signs, stages, and the windows that each is for. The noise of
        a later stage takes the place of that of the first."""
        if self.shared.any():
            yield 1, ANNOUNCED, np.flatnonzero(self.shared)
        for stage in np.unique(self.stages[self.shared & (self.stages > 0)]).tolist():
            windows = np.flatnonzero(self.shared & (self.stages == stage))
            yield 1, stage, windows
            yield -1, 0, windows

    def differences(self, figures: Figures) -> Integers:
        """The difference for each window and key, 0 where none is shared."""
        total = np.zeros((len(self.shared), figures.keys), dtype=np.int64)
        for sign, stage, windows in self.terms():
            total[windows] += sign * figures.at(self.level, stage, self.ends[windows])
        return total


class Noise(NamedTuple):
    """For each window (row) how many noise variables of which weight and budget (column) are in its
    value. Weights are fractions in lowest terms, 0/1 where there is no such variable."""

    budgets: tuple[float, ...]
    numerators: Integers
    denominators: Integers
    counts: Integers


@dataclass(frozen=True, eq=False)
class Views:
    """The counts of windows, as figures to add and differences to share; see :func:`views_of`."""

    blocks: Blocks
    calendar: Calendar
    missing: frozenset[tuple[int, int]]
    starts: Integers
    ends: Integers
    as_of: Integers
    since: Integers

    @cached_property
    def _spans(self) -> tuple[Integers, Integers]:
        begun = self.calendar.end(0, np.maximum(self.starts, self.since))
        out = np.minimum(self.ends, self.as_of - self.blocks.levels[0].lag)
        reached = self.calendar.frontier(0, out)
        some = begun < reached
        return np.where(some, begun, self.starts), np.where(some, reached, self.starts)

    @property
    def begun(self) -> Integers:
        """Where the first block that counts begins: the start, or later if that lies inside a block
        or before ``since``."""
        return self._spans[0]

    @property
    def reached(self) -> Integers:
        """The step up to which the figures that are out count; the start if none is."""
        return self._spans[1]

    @cached_property
    def runs(self) -> tuple[Runs, ...]:
        """The largest blocks that are out and lie in the windows, at their latest stages."""
        runs = []
        for level, pieces in enumerate(self._pieces()):
            stages = self.blocks.levels[level].stages
            for windows, low, end in pieces:
                for stage in range(len(stages) - 1, -1, -1):
                    out = self.calendar.frontier(level, self.as_of[windows] - stages[stage].lag)
                    high = np.minimum(end, out)
                    some = low < high
                    if some.any():
                        first, last = low[some], high[some]
                        count = self.calendar.count(level, first, last)
                        runs.append(Runs(level, stage, windows[some], first, last, count))
                    low = np.maximum(low, high)
        return tuple(runs)

    def _pieces(self) -> list[list[tuple[Integers, Integers, Integers]]]:
        """For each level which parts of windows its blocks cover: windows, starts and ends."""
        levels, dates = self.blocks.levels, self.calendar
        everywhere, (low, high) = np.arange(len(self.starts)), self._spans
        pieces = []
        for number in range(len(levels)):
            inner_low, inner_high = high, high
            if number + 1 < len(levels):
                out = np.minimum(high, self.as_of - levels[number + 1].lag)
                inner_low, inner_high = dates.end(number + 1, low), dates.frontier(number + 1, out)
                none = inner_low >= inner_high
                inner_low, inner_high = (np.where(none, high, e) for e in (inner_low, inner_high))
            pieces.append([(everywhere, low, inner_low), (everywhere, inner_high, high)])
            low, high = inner_low, inner_high
        for level, end in sorted(self.missing, reverse=True):  # the largest levels first
            start = dates.frontier(level, end - 1)
            for at, (windows, low, high) in enumerate(list(pieces[level])):
                hit = (low <= start) & (end <= high)
                if hit.any():
                    held, ends = windows[hit], np.full_like(high[hit], end)
                    pieces[level][at] = windows, low, np.where(hit, start, high)
                    pieces[level].append((held, ends, high[hit]))
                    pieces[level - 1].append((held, np.full_like(ends, start), ends))
        return pieces

    @cached_property
    def shares(self) -> tuple[tuple[tuple[Shares, Shares], ...], ...]:
        """For each tied group and each tied level of it, the smallest first, the blocks that the
        windows begin inside of, and those that they end inside of."""
        shares = []
        for group in self.blocks.groups:
            if len(group) > 1:
                first = self.calendar.end(group[0], self.begun)
                out = np.minimum(self.reached, self.as_of - self.blocks.levels[group[0]].lag)
                last = self.calendar.frontier(group[0], out)
                sides = (self._shares_at(group, at, first < last) for at in (first, last))
                shares.append(tuple(zip(*sides, strict=True)))
        return tuple(shares)

    def _shares_at(self, group: range, at: Integers, some: Booleans) -> list[Shares]:
        shares, below = [], at
        numerators, denominators = np.zeros_like(at), np.ones_like(at)
        for level in group[1:]:
            starts, ends = self.calendar.frontier(level, at), self.calendar.end(level, at)
            inside = some & (starts < at) & (at < ends) & (ends < UNKNOWN)
            children = np.where(inside, self.calendar.count(level - 1, starts, ends), 1)
            complete = np.where(inside, self.calendar.count(level - 1, starts, below), 0)
            numerators = complete * denominators + numerators
            denominators = children * denominators
            stages = np.zeros_like(at)
            for stage in self.blocks.levels[level].stages[1:]:
                stages += ends + stage.lag <= self.as_of
            gone = [end for number, end in self.missing if number == level]
            shared = inside & (starts >= self.since) & ~np.isin(ends, gone)
            block = level, starts, ends, children, stages
            shares.append(Shares(*block, numerators, denominators, shared))
            below = starts
        return shares

    # Values
    # --------------------------------------------------------------------------------------------
    def values(self, figures: Figures) -> Integers:
        """The count of each window (row) and key (column). It costs no privacy."""
        return self.rounded(figures)[0]

    def rounded(self, figures: Figures) -> tuple[Integers, NDArray[np.float64]]:
        """The same, and what rounding added to each."""
        total = np.zeros((len(self.starts), figures.keys), dtype=np.int64)
        added = np.zeros(total.shape)
        for level, stage, windows, starts, ends, _ in self.runs:
            total[windows] += figures.sums(level, stage, ends) - figures.sums(level, stage, starts)
        for group in self.shares:
            for side, sign in ((0, -1), (1, 1)):
                common = group[-1][side].denominators[:, np.newaxis]
                rest = np.zeros_like(total)
                for pair in group:
                    difference = pair[side].differences(figures)
                    if side == 0:  # a block that ends in the window is added as a whole
                        total += np.where(_alike(pair)[:, np.newaxis], 0, difference)
                    numerators = pair[side].numerators[:, np.newaxis]
                    denominators = pair[side].denominators[:, np.newaxis]
                    # numerators * difference / denominators, without a product that wraps
                    whole, left = np.divmod(difference, denominators)
                    more, left = np.divmod(numerators * left, denominators)
                    total += sign * (numerators * whole + more)
                    rest += left * (common // denominators)
                shares = (2 * rest + common) // (2 * common)
                total += sign * shares
                added += sign * (shares - rest / common)
        return total, added

    def needs(self) -> dict[tuple[int, int], Integers]:
        """By level and stage (or ``ANNOUNCED``) which figures the values are made of: rows ``(low,
        high)`` for those with ends in ``(low, high]``, apart from each other and at most 32."""
        spans: dict[tuple[int, int], list[tuple[Integers, Integers]]] = {}
        for run in self.runs:
            spans.setdefault((run.level, run.stage), []).append((run.starts, run.ends))
        for share in (share for group in self.shares for pair in group for share in pair):
            for _, stage, windows in share.terms():
                span = share.starts[windows], share.ends[windows]
                spans.setdefault((share.level, stage), []).append(span)
        return {
            name: _ranges(*map(np.concatenate, zip(*s, strict=True))) for name, s in spans.items()
        }

    @property
    def published(self) -> Integers:
        """After which step the last of the figures in the value became public; ``as_of`` if there
        is none in it."""
        levels, out = self.blocks.levels, np.zeros_like(self.as_of)
        for run in self.runs:
            due = run.ends + levels[run.level].stages[run.stage].lag
            out[run.windows] = np.maximum(out[run.windows], due)
        for share in (share for group in self.shares for pair in group for share in pair):
            lags = np.array([stage.lag for stage in levels[share.level].stages])
            due = np.where(share.stages > 0, share.ends + lags[share.stages], 0)
            out = np.where(share.shared, np.maximum(out, due), out)
        return np.where(self.begun < self.reached, out, self.as_of)

    @cached_property
    def final(self) -> Booleans:
        """Where nothing that is still to come can change the value: everything is out that the same
        window uses in the end."""
        levels, dates = self.blocks.levels, self.calendar
        last = replace(self, as_of=np.full_like(self.as_of, UNKNOWN - 1))
        out = np.where(dates.end(0, self.ends) < UNKNOWN, 0, UNKNOWN)
        for run in last.runs:
            due = run.ends + levels[run.level].stages[run.stage].lag
            out[run.windows] = np.maximum(out[run.windows], due)
        for group in last.shares:
            smallest = group[0][0].level - 1
            ended = dates.frontier(smallest, last.reached) + levels[smallest].lag
            for share in (share for pair in group for share in pair):
                later = levels[share.level].stages[1:]
                due = np.maximum(ended, share.ends + later[-1].lag) if later else ended
                out = np.where(share.shared, np.maximum(out, due), out)
        return out <= self.as_of

    # Noise
    # --------------------------------------------------------------------------------------------
    @cached_property
    def noise(self) -> Noise:
        """The noise in the values, before shares are rounded."""
        columns: list[tuple[float, Integers, Integers, Integers]] = []
        levels, none = self.blocks.levels, np.zeros_like(self.starts)

        def add(level: int, stage: int, weight: Integers, common: Integers, count: Any) -> None:
            used = (weight != 0) & (count > 0)
            if used.any() or not columns:
                shortened = np.gcd(weight, common)
                numerators = np.where(used, weight // shortened, 0)
                denominators = np.where(used, common // shortened, 1)
                budget = levels[level].stages[stage].epsilon
                columns.append((budget, numerators, denominators, np.where(used, count, 0)))

        covered = {(0, 0): none.copy()} | {(r.level, r.stage): none.copy() for r in self.runs}
        for run in self.runs:
            covered[run.level, run.stage][run.windows] += run.blocks
        for group in self.shares:
            common = np.lcm(*(share.denominators for share in group[-1]))
            above = [none, none]
            for pair, below in zip(group[::-1], (*group[-2::-1], None), strict=True):
                level, alike, (start, end) = pair[0].level, _alike(pair), pair
                begun, ended = (
                    np.where(s.shared, s.numerators * (common // s.denominators), 0) for s in pair
                )
                weights = [
                    np.where(alike, ended - begun, np.where(start.shared, common - begun, 0)),
                    np.where(alike, ended - begun, ended),
                ]
                for side, once in ((0, start.shared & ~alike), (1, end.shared)):
                    share, weight = pair[side], weights[side]
                    for stage in range(len(levels[level].stages)):
                        own = once & (share.stages == stage)
                        add(level, stage, weight - above[side], common, own)
                    others = np.where(once, share.children, 0)
                    if below is not None:  # children that are shared themselves
                        others -= once & below[side].shared
                        others -= once & alike & below[1 - side].shared & ~_alike(below)
                    inside = self._covered(share, once)
                    if inside.any():
                        covered[level - 1, 0] -= inside
                    add(level - 1, 0, common - weight, common, inside)
                    add(level - 1, 0, -weight, common, others - inside)
                above = weights
        for (level, stage), count in covered.items():
            add(level, stage, none + 1, none + 1, count)
        budgets, *rest = zip(*columns, strict=True)
        return Noise(budgets, *(np.stack(each, axis=1) for each in rest))

    def _covered(self, share: Shares, once: Booleans) -> Integers:
        """How many children of the shared blocks are covered."""
        total = np.zeros_like(self.starts)
        for run in self.runs:
            if run.level == share.level - 1:
                low = np.maximum(run.starts, share.starts[run.windows])
                high = np.minimum(run.ends, share.ends[run.windows])
                count = self.calendar.count(run.level, low, high)
                total[run.windows] += np.where((low < high) & once[run.windows], count, 0)
        return total

    @property
    def roundings(self) -> Integers:
        """How often shares are rounded; each moves the value by at most one half."""
        total = np.zeros_like(self.starts)
        for group in self.shares:
            for side in (0, 1):
                total += np.any([pair[side].shared for pair in group], axis=0)
        return total

    def variances(self) -> NDArray[np.float64]:
        """The variances of the noise in the values (before shares are rounded)."""
        budgets, numerators, denominators, counts = self.noise
        each = np.array([variance_of(budget) for budget in budgets])
        variances: NDArray[np.float64] = counts * (numerators / denominators) ** 2 @ each
        return variances

    def half_widths(self, beta: float) -> Integers:
        """How far each value may be from the true count, except with probability ``beta``, whatever
        rounding adds."""
        bounds = bounds_of_sums([(self, 1)], beta)
        widths: Integers = np.floor(bounds + 0.5 * self.roundings).astype(np.int64)
        return widths

    def noise_of(self, window: int, copies: int = 1) -> Weighted:
        """The noise in the value of one window, or in the sum of so many such values, each with its
        own noise."""
        budgets, *rest = self.noise
        columns = zip(budgets, *(each[window].tolist() for each in rest), strict=True)
        return tuple(
            (Fraction(numerator, denominator), budget, count * copies)
            for budget, numerator, denominator, count in columns
            if count
        )


def _alike(pair: tuple[Shares, Shares]) -> Booleans:
    """Where a window begins and ends inside of the same shared block."""
    start, end = pair
    alike: Booleans = start.shared & end.shared & (start.ends == end.ends)
    return alike


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
    missing: frozenset[tuple[int, int]] = frozenset(),
) -> Views:
    """The views of the steps ``start + 1 .. end`` from what is public after step ``as_of``, for
    many windows (arrays are broadcast).

    Blocks that begin before the step ``since`` do not count: a key that is declared then begins
    with the next block of each level. ``missing`` are the (level, end) of blocks whose figure never
    comes out, of larger levels than the smallest; their children count instead, and their
    difference is not shared. (Adjacent windows add up if all tied blocks that hold such a block are
    missing too.)
    """
    steps = [np.atleast_1d(np.asarray(e, dtype=np.int64)) for e in (starts, ends, as_of, since)]
    return Views(blocks, calendar, missing, *np.broadcast_arrays(*steps))


def bounds_of_sums(parts: Sequence[tuple[Views, int]], beta: float) -> NDArray[np.float64]:
    """How far the sums of the values of several keys are from the true ones before rounding, except
    with probability ``beta``, for each window.

    Keys with the same views are one part, with their number; their figures are added before shares
    are rounded.
    """
    rows = np.concatenate([each for views, _ in parts for each in views.noise[1:]], axis=1)

    def law_of(window: int) -> Weighted:
        return tuple(term for views, copies in parts for term in views.noise_of(window, copies))

    return quantiles_of_rows(rows, law_of, beta)


def half_widths_around(
    bounds: NDArray[np.float64], added: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The half widths of bands around rounded values, from bounds before rounding: what rounding
    added is known, and the truth is a whole number."""
    widths: Integers = np.floor(bounds + np.abs(added) + 1e-9).astype(np.int64)
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
        """The variance of the noise in the value (before shares are rounded)."""
        return float(self.views.variances()[0])

    def half_width(self, beta: float) -> int:
        """How far the value may be from the true count, except with probability ``beta``."""
        return int(self.views.half_widths(beta)[0])
