"""The figures of the paper's evaluation: which losses of which mechanisms, and what to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.paper.empirical import empirical_losses
from fadecount.paper.report import Section, digits
from fadecount.paper.table import LONG, MSE, SHORT, TableRow, budgets_of, rows
from fadecount.plots import Curve, spread_ages, thinned
from fadecount.rounding import shown_loss

Ages = NDArray[np.int64]
Losses = NDArray[np.float64]
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
