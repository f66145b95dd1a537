"""The figures of the paper's evaluation as data: which lines, at which ages, and what to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.paper.empirical import empirical_losses
from fadecount.paper.table import LONG, SHORT, TableRow, budgets_of, digits, rows
from fadecount.paper.words import SENTENCES
from fadecount.plots import Curve, spread_ages, thinned
from fadecount.rounding import shown_loss

Ages = NDArray[np.int64]
Losses = NDArray[np.float64]
Line = tuple[str, str, int, Callable[[Ages], Losses]]
"""Label, kind and group of a curve, and its losses at given ages."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PaperFigure:
    """One figure: its lines at the ages drawn, which are all ages, or all that make a difference to
    the picture."""

    name: str
    number: str
    title: str
    horizon: int
    columns: int | None
    logarithmic: bool
    sentence: str
    parameters: str
    ages: Ages
    curves: tuple[Curve, ...]


def fig2a() -> PaperFigure:
    row = rows(SHORT, fading=True)[1]
    gradual = _gradual(row)
    lines: list[Line] = [
        (
            "closed form of the theorem",
            "bound",
            1,
            lambda ages: np.asarray(gradual.paper_closed_form(ages)),
        ),
        ("theorem (sum)", "paper", 2, _account(gradual)),
        ("empirical, as in the paper", "empirical", 3, _empirical(row)),
        ("exact loss", "exact", 0, _exact(gradual)),
    ]
    return _figure(
        "fig2a",
        "Figures 1a and 2a",
        "Algorithm 3, λ = 2: theorem, empirical and exact loss",
        [row],
        lines,
        columns=2,
    )


def fig2b() -> PaperFigure:
    found = rows(SHORT, fading=True)
    lines = [line for at, row in enumerate(found) for line in _fading_lines(row, at, theorem=True)]
    return _figure(
        "fig2b",
        "Figure 2b",
        "Algorithm 3, λ = 1, 2, 3, all with the same error",
        found,
        lines,
        logarithmic=True,
    )


def fig2c() -> PaperFigure:
    found = rows(SHORT)
    lines = [
        line
        for at, row in enumerate(found)
        for line in _refresh_lines(row.computed, f"W = {row.window}", at)
    ]
    return _figure(
        "fig2c", "Figure 2c", "Refreshing the budget every W steps, with ratio 0.1", found, lines
    )


def fig3() -> PaperFigure:
    fading, refreshing = rows(LONG, fading=True), rows(LONG)
    lines = [
        line for at, row in enumerate(fading) for line in _fading_lines(row, at, theorem=False)
    ]
    for at, row in enumerate(refreshing):
        lines += _refresh_lines(row.computed, f"W = {row.window}", 3 + at)
    return _figure(
        "fig3",
        "Figures 1b and 3",
        "A million steps: fading against refreshing with ratio 0.1",
        [*fading, *refreshing],
        lines,
        logarithmic=True,
    )


def fig4a() -> PaperFigure:
    found = rows(SHORT, optimal=True)
    lines = [
        line
        for at, row in enumerate(found)
        for line in _optimal_lines(row, f"W = {row.window}", at)
    ]
    return _figure(
        "fig4a", "Figure 4a", "Refreshing with the optimal ratio, a thousand steps", found, lines
    )


def fig4b() -> PaperFigure:
    fading, refreshing = rows(LONG, fading=True), rows(LONG, optimal=True)
    lines = [
        line for at, row in enumerate(fading) for line in _fading_lines(row, at, theorem=False)
    ]
    for at, row in enumerate(refreshing):
        lines += _optimal_lines(row, f"W = {row.window}", 3 + at)
    return _figure(
        "fig4b",
        "Figure 4b",
        "A million steps: fading against refreshing with the optimal ratio",
        [*fading, *refreshing],
        lines,
        logarithmic=True,
    )


FIGURES: dict[str, Callable[[], PaperFigure]] = {
    each.__name__: each for each in (fig2a, fig2b, fig2c, fig3, fig4a, fig4b)
}
ALIASES = {"fig1a": "fig2a", "fig1b": "fig3"}


def _figure(
    name: str,
    number: str,
    title: str,
    used: Sequence[TableRow],
    lines: Sequence[Line],
    *,
    columns: int | None = None,
    logarithmic: bool = False,
) -> PaperFigure:
    horizon = used[0].horizon
    ages = _drawn_ages(used, horizon)
    curves = tuple(
        Curve(label=label, ages=ages, losses=at(ages), kind=kind, group=group)
        for label, kind, group, at in lines
    )
    chosen = "; ".join(
        f"{row.name}: ε = {' and '.join(digits(value) for value in budgets_of(row.measured))}"
        for row in used
    )
    return PaperFigure(
        name=name,
        number=number,
        title=title,
        horizon=horizon,
        columns=columns,
        logarithmic=logarithmic,
        sentence=SENTENCES[name].format(ends=_ends(used)),
        parameters=(
            f"T = {horizon:,}, B = 0, mean squared error 1000 over the first T outputs, continuous"
            f" noise. {chosen}."
        ),
        ages=ages,
        curves=curves,
    )


def _drawn_ages(used: Sequence[TableRow], horizon: int) -> Ages:
    """All ages if they are few. Otherwise, for each pixel of the picture, the first and last age
    and the extremes of every empirical loss on it; all other curves rise throughout, so that these
    ages show them whole."""
    ages = np.arange(horizon)
    if horizon <= SHORT:
        return ages
    falling = [_all_empirical(row) for row in used if row.exponent is not None]
    return np.union1d(ages[thinned(ages, falling)], spread_ages(horizon))


def _fading_lines(row: TableRow, group: int, *, theorem: bool) -> list[Line]:
    gradual, name = _gradual(row), f"λ = {row.exponent:g}"
    lines: list[Line] = [
        (f"{name}, exact", "exact", group, _exact(gradual)),
        (f"{name}, empirical", "empirical", group, _empirical(row)),
    ]
    return [*lines, (f"{name}, theorem", "bound", group, _account(gradual))] if theorem else lines


def _refresh_lines(refresh: fc.Mechanism, name: str, group: int) -> list[Line]:
    return [
        (f"{name}, exact", "exact", group, _exact(refresh)),
        (f"{name}, paper", "paper", group, _account(refresh)),
    ]


def _optimal_lines(row: TableRow, name: str, group: int) -> list[Line]:
    best = row.computed
    return [
        *_refresh_lines(row.printed_mechanism, name, group),
        (f"{name}, true optimum", "bound", group, _exact(best)),
    ]


def _ends(used: Sequence[TableRow]) -> str:
    """What the oldest item has lost by the horizon, row by row."""
    oldest = used[0].horizon - 1
    losses = ", ".join(f"{shown_loss(row.measured.loss(oldest))} ({_short(row)})" for row in used)
    return f"Exact loss of the oldest item at the end: {losses}."


def _short(row: TableRow) -> str:
    return f"λ = {row.exponent:g}" if row.exponent is not None else f"W = {row.window}"


def _gradual(row: TableRow) -> fc.Gradual:
    mechanism = row.computed
    assert isinstance(mechanism, fc.Gradual)
    return mechanism


def _exact(mechanism: fc.Mechanism) -> Callable[[Ages], Losses]:
    return lambda ages: np.asarray(mechanism.loss(ages))


def _account(mechanism: fc.Mechanism) -> Callable[[Ages], Losses]:
    return lambda ages: np.asarray(mechanism.paper_loss(ages))


def _empirical(row: TableRow) -> Callable[[Ages], Losses]:
    return lambda ages: _all_empirical(row)[ages]


@lru_cache(maxsize=8)
def _all_empirical(row: TableRow) -> Losses:
    return empirical_losses(_gradual(row).schedule.budgets, row.horizon)
