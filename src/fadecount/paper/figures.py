"""The curves: the figures of the paper's evaluation, and totals from tied blocks beside the paper's
algorithm, all with the same mean squared error.

The loss that the paper's figures call *empirical* is the costliest smallest cover of any range of a
given length (:func:`empirical_losses`). For each exponent of Table 1 there are two such totals: one
that keeps the shape of the paper's exact loss at every age, and one that keeps it from age
``LATER`` on. The planner finds levels and budgets with the least error under that curve. Then all
budgets are multiplied by one factor, so that the error is that of the table. A factor below 1 means
that totals lose less, one above 1 that the paper's algorithm does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.paper.report import Section, digits
from fadecount.paper.table import LONG, MSE, SHORT, TableRow, budgets_of, rows
from fadecount.planning.blocks import BlockRequest, plain_lengths, totals_for
from fadecount.planning.request import read_request
from fadecount.plots import Curve, spread_ages
from fadecount.rounding import rounded_up, short_loss, shown_loss

Ages = NDArray[np.int64]
Losses = NDArray[np.float64]


# The empirical loss
# ------------------------------------------------------------------------------------------------
def empirical_losses(budgets: Sequence[float], horizon: int) -> NDArray[np.float64]:
    """The paper's empirical loss at the ages ``0 .. horizon - 1``, for level budgets without a
    delay.

    For an item at position ``j`` seen up to ``j + age`` the paper shifts the noise of the intervals
    that cover ``[j, j + age]`` exactly (its ``D[j, t]``), at the cost of their level budgets. Its
    figures show, for each age, the maximum over the positions ``1 <= j`` and ``j + age <=
    horizon``: the positions within the first ``horizon`` outputs.

    That is a maximum over ``horizon - age`` positions for each of ``horizon`` ages. Here it is
    exact and takes O(horizon) operations in all. Let ``n = age + 1`` be the length of the range,
    ``u = j - 1`` and ``N = n + 1``. Climbing the levels from 0, the cover takes an interval on the
    left where bit ``l`` of ``u`` is 0, and one on the right where bit ``l`` of ``u + N`` is 1, for
    as long as ``(N >> l) + carry - 1 > 0`` intervals of level ``l`` lie within the range, where
    ``carry`` is what the lower bits of ``u + N`` hand up. What the levels from ``l`` on can cost
    depends on the lower bits only through ``N >> l``, the carry, and how large ``u >> l`` may still
    be: at most ``((horizon + 1) >> l) - (N >> l) - short`` with ``short`` 0, 1 or 2. So there are
    six numbers per value of ``N >> l``, each found from two of the level above (bit ``l`` of ``u``
    is 0 or 1), from the top down.

    >>> empirical_losses([1.0] * 4, 7).tolist()
    [1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 3.0]
    """
    end = horizon + 1
    costs = np.full((2, 3, 1), -np.inf)
    # Above the highest bit nothing is left to cover, and no bit of the position is left to choose.
    costs[:, 0] = 0.0
    for level in reversed(range(end.bit_length())):
        budget = budgets[min(level, len(budgets) - 1)]
        costs = _lower(costs, budget, end >> level, last=level == 0)
    return costs[0, 0, 2:]


def _lower(
    above: NDArray[np.float64], budget: float, end: int, *, last: bool
) -> NDArray[np.float64]:
    """The six numbers for every length at a level, from those of the level above; on the last level
    only the one asked for."""
    length = np.arange(end + 1)
    odd, half = length & 1, length >> 1
    costs = np.empty((2, 3, end + 1))
    wanted = [(0, 0)] if last else list(product(range(2), range(3)))
    for carry, short in wanted:
        best = np.full(end + 1, -np.inf)
        for bit in range(2):
            right = odd + bit + carry
            shorter = -(((end & 1) - odd - short - bit) >> 1)
            np.maximum(
                best, budget * (1 - bit + (right & 1)) + above[right >> 1, shorter, half], out=best
            )
        best[length + carry <= 1] = 0.0
        best[length > end - short] = -np.inf
        costs[carry, short] = best
    return costs


def thinned(
    ages: NDArray[np.int64], columns: Sequence[NDArray[np.float64]], *, cells: int = 600
) -> NDArray[np.int64]:
    """Places in ``ages`` (rising) whose points draw the same picture as all points, on a
    logarithmic axis of ``cells`` pixels.

    Of the ages that fall onto one pixel column the first and the last are kept and, for each curve,
    those of its least and greatest value: a line through these covers the same pixels as a line
    through all.
    """
    edges = np.unique(
        np.floor(np.log2(ages + 1.0) * (cells / np.log2(float(ages[-1]) + 2.0))), return_index=True
    )[1]
    keep = [edges, np.append(edges[1:] - 1, len(ages) - 1)]
    cell = np.repeat(np.arange(len(edges)), np.diff(np.append(edges, len(ages))))
    for values in columns:
        order = np.lexsort((values, cell))
        keep += [order[edges], order[keep[1]]]
    return np.unique(np.concatenate(keep))


# The figures of the paper
# ------------------------------------------------------------------------------------------------
Part = tuple[Sequence[TableRow], Sequence[str]]
"""Rows of the table, and the losses drawn of each."""
_KINDS = {"exact": "exact", "empirical": "empirical", "paper": "paper", "theorem": "paper"}


def losses_of(row: TableRow, what: str, ages: Ages) -> Losses:
    """A loss of the mechanism of a row, at some ages."""
    mechanism = row.computed if what == "true optimum" else row.measured
    if what == "empirical":
        return _all_empirical(row)[ages]
    if what == "closed form":
        assert isinstance(mechanism, fc.Gradual)
        return np.asarray(mechanism.paper_closed_form(ages))
    loss = mechanism.paper_loss if what in ("theorem", "paper") else mechanism.loss
    return np.asarray(loss(ages))


@lru_cache(maxsize=8)
def _all_empirical(row: TableRow) -> Losses:
    return empirical_losses(row.measured.noise.budgets, row.horizon)


def _drawn_ages(used: Sequence[TableRow]) -> Ages:
    """All ages if they are few. Otherwise, for each pixel of the picture, the first and last age
    and the extremes of every empirical loss on it; all other curves rise throughout, so that these
    ages show them whole."""
    ages = np.arange(used[0].horizon)
    if len(ages) <= SHORT:
        return ages
    falling = [_all_empirical(row) for row in used if row.exponent is not None]
    return np.union1d(ages[thinned(ages, falling)], spread_ages(len(ages)))


def _figure(name: str, heading: str, parts: Sequence[Part], text: str) -> Section:
    """A figure in which each row has a colour; if there is only one, each of its losses has."""
    used = [row for some, _ in parts for row in some]
    ages = _drawn_ages(used)
    lines = [(row, what) for some, losses in parts for row in some for what in losses]
    curves = [
        Curve(
            label=f"{row.short}, {what}",
            ages=ages,
            losses=losses_of(row, what, ages),
            kind=_KINDS.get(what, "bound"),
            group=used.index(row) if len(used) > 1 else at,
        )
        for at, (row, what) in enumerate(lines)
    ]
    ends = ", ".join(
        f"{shown_loss(row.measured.loss(row.horizon - 1))} ({row.short})" for row in used
    )
    budgets = "; ".join(
        f"{row.name}: ε = {' and '.join(map(digits, budgets_of(row.measured)))}" for row in used
    )
    return Section(
        name=name,
        heading=heading,
        text=[text.format(ends=f"Exact loss of the oldest item at the end: {ends}.")],
        parameters=(
            f"T = {used[0].horizon:,}, B = 0, mean squared error {MSE:g} over the first T outputs,"
            f" continuous noise. {budgets}."
        ),
        curves=curves,
        logarithmic=len(used) > 1 and used[0].exponent is not None,
    )


_FADING, _REFRESH = ("exact", "empirical"), ("exact", "paper")
_OPTIMAL = (*_REFRESH, "true optimum")
_ABOUT: dict[str, tuple[str, Sequence[Part], str]] = {
    "fig2a": (
        "Figures 1a and 2a: Algorithm 3, λ = 2: theorem, empirical and exact loss",
        [(rows(SHORT, fading=True)[1:2], ("exact", "closed form", "theorem", "empirical"))],
        """The paper's empirical loss stays below its theorem; the exact loss of the same noise is
        nowhere above it, and at most half of the theorem at every age. The empirical loss dips
        where a range has a cheap cover; the exact one never falls, as it must. Just after a power
        of two the closed form lies below the sum that it summarizes, but nowhere below the exact
        loss.""",
    ),
    "fig2b": (
        "Figure 2b: Algorithm 3, λ = 1, 2, 3, all with the same error",
        [(rows(SHORT, fading=True), (*_FADING, "theorem"))],
        """At the same mean squared error a larger λ loses less about young items and more about old
        ones. For each λ the exact loss is nowhere above the other two lines.""",
    ),
    "fig2c": (
        "Figure 2c: Refreshing the budget every W steps, with ratio 0.1",
        [(rows(SHORT), _REFRESH)],
        """Within a round the loss grows slowly; from then on every round adds one past budget,
        without end: a straight line, which bends upward on a logarithmic axis of ages. The exact
        loss starts lower, because nodes not yet published cost nothing.""",
    ),
    "fig3": (
        "Figures 1b and 3: A million steps: fading against refreshing with ratio 0.1",
        [(rows(LONG, fading=True), _FADING), (rows(LONG), _REFRESH)],
        """Refreshing loses little for a while; then one past budget a round adds up, linearly in
        the age, while the loss of Algorithm 3 grows like a power of the logarithm. {ends} All five
        have the same mean squared error.""",
    ),
    "fig4a": (
        "Figure 4a: Refreshing with the optimal ratio, a thousand steps",
        [(rows(SHORT, optimal=True), _OPTIMAL)],
        """With the ratio chosen to lose least by the horizon the shape stays: linear in the age.
        The printed pairs and the true minimizers (Table 1) lie close together.""",
    ),
    "fig4b": (
        "Figure 4b: A million steps: fading against refreshing with the optimal ratio",
        [(rows(LONG, fading=True), _FADING), (rows(LONG, optimal=True), _OPTIMAL)],
        """The optimal ratio lowers the loss of old items and pays with a loss of several units
        about new ones; it stays linear in the age. {ends} λ = 1 loses less than either refresh at
        every age.""",
    ),
}
FIGURES: dict[str, Callable[[], Section]] = {
    name: partial(_figure, name, *about) for name, about in _ABOUT.items()
}


# Totals from tied blocks beside them
# ------------------------------------------------------------------------------------------------
LATER = 10
_EVERY_AGE = 12
_PARTS = 1.125, 1.5
"""Where in an octave of ages a lag may be, so that the search takes seconds."""
_LAGS = 64
_PLANNED = 4.0
"""The loss at the end of the curve that is planned for. The planner's noise is discrete, the
table's is continuous: under larger budgets they would differ, and other levels would be best."""


@lru_cache(maxsize=16)
def totals_like(row: TableRow, first: int) -> tuple[fc.Totals, float]:
    """The totals with the error of the table whose loss is, from age ``first`` on, at most
    the returned factor times the exact loss of the row's mechanism."""
    losses = np.asarray(row.computed.loss(np.arange(row.horizon)))
    starts = _starts(losses, first, row.horizon)
    ends = [*(start - 1 for start in starts[1:]), row.horizon - 1]
    scale = _PLANNED / float(losses[-1])
    # Up to the end of a stretch no more is lost than the curve allows at its start.
    targets = {end: scale * float(losses[start]) for start, end in zip(starts, ends, strict=True)}
    block_request = BlockRequest(lengths=tuple(plain_lengths(row.horizon)), most_lags=_LAGS)
    shape = totals_for(read_request(loss=targets, horizon=row.horizon), block_request)
    assert shape is not None
    totals = shape.for_mse(MSE, horizon=row.horizon, continuous=True)
    factor = max(
        stage.millionths / before.millionths
        for level, old in zip(totals.levels, shape.levels, strict=True)
        for stage, before in zip(level.stages, old.stages, strict=True)
    )
    return totals, scale * factor


def _starts(losses: Losses, first: int, horizon: int) -> list[int]:
    """The ages from ``first`` on at which more may be published: every early one at which the loss
    rises, then a few in each octave."""
    octaves = range(_EVERY_AGE.bit_length(), horizon.bit_length())
    ages = [int(part * 2**octave) - 1 for octave in octaves for part in _PARTS]
    wanted = np.array([*range(first, _EVERY_AGE), *(age for age in ages if age < horizon)])
    rises = np.searchsorted(losses, losses[wanted] * (1.0 - 1e-12))
    return sorted({max(first, rise) for rise in rises.tolist()})


def _beside(name: str, horizon: int, steps: str) -> Section:
    """For each exponent the paper's exact loss and theorem, and both totals from tied blocks."""
    used = rows(horizon, fading=True)
    designs = {(row, first): totals_like(row, first) for row in used for first in (0, LATER)}
    levels = [level for totals, _ in designs.values() for level in totals.levels]
    lags = np.array([stage.lag for level in levels for stage in level.stages])
    shown = sorted({0, 1, 3, LATER, 100, SHORT - 1, horizon - 1})
    jumps = np.concatenate([lags - 1, lags, shown])
    ages = np.union1d(spread_ages(horizon), jumps[(jumps >= 0) & (jumps < horizon)])
    curves = [
        Curve(label=f"{row.short}, {what}", ages=ages, losses=losses, kind=kind, group=group)
        for group, row in enumerate(used)
        for what, kind, losses in (
            ("exact", "exact", losses_of(row, "exact", ages)),
            ("theorem", "bound", losses_of(row, "theorem", ages)),
            ("totals", "paper", np.asarray(designs[row, 0][0].loss(ages))),
            (f"totals, age {LATER}+", "baseline", np.asarray(designs[row, LATER][0].loss(ages))),
        )
    ]
    early, late = (
        ", ".join(f"{rounded_up(designs[row, first][1], 3)} ({row.short})" for row in used)
        for first in (0, LATER)
    )
    places = np.searchsorted(ages, shown)
    numbers = [[curve.label, *map(short_loss, curve.losses[places].tolist())] for curve in curves]
    return Section(
        name=name,
        heading=f"Algorithm 3 and totals from tied blocks with the same error, {steps} steps",
        text=[
            f"""Totals that keep the shape of the paper's exact loss at every age lose at most so
            many times as much: {early}. Where this is above 1, the paper's algorithm is the
            better one: a curve that is tightest at the first ages suits it. Totals that
            keep the shape only from age {LATER} on lose from then on at most {late} times as much,
            and before it as much as at age {LATER}: more than the paper's algorithm at the first
            ages.""",
            "The same losses at a few ages, rounded up.",
        ],
        table=[["", *(f"age {age:,}" for age in shown)], *numbers],
        parameters=(
            f"T = {horizon:,}, mean squared error {MSE:g} over the first T outputs, continuous"
            " noise."
        ),
        curves=curves,
        logarithmic=True,
    )


BESIDE: dict[str, Callable[[], Section]] = {
    name: partial(_beside, name, horizon, steps)
    for name, horizon, steps in (
        ("totals_thousand", SHORT, "a thousand"),
        ("totals_million", LONG, "a million"),
    )
}
