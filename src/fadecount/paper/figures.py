"""The figures of the paper's evaluation: lines, ages, what to see, and pictures."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import fadecount as fc
from fadecount.paper.empirical import empirical_losses
from fadecount.paper.table import LONG, SHORT, TableRow, budgets_of, digits, rows
from fadecount.plots import (
    Curve,
    draw_curves,
    new_figure,
    save_figure,
    spread_ages,
    thinned,
)
from fadecount.rounding import shown_loss

Ages = NDArray[np.int64]
Losses = NDArray[np.float64]
Line = tuple[str, str, int, Callable[[Ages], Losses]]
"""Label, kind and group of a curve, and its losses at given ages."""


SENTENCES = {
    name: " ".join(text.split())
    for name, text in {
        "fig2a": (
            """The paper's empirical loss stays below its theorem; the exact loss of the same noise
            is nowhere above it, and at most half of the theorem at every age. The empirical loss
            dips where a range has a cheap cover; the exact one never falls, as it must. Just after
            a power of two the closed form lies below the sum that it summarizes, but nowhere below
            the exact loss."""
        ),
        "fig2b": (
            """At the same mean squared error a larger λ loses less about young items and more about
            old ones. For each λ the exact loss is nowhere above the other two lines."""
        ),
        "fig2c": (
            """Within a round the loss grows slowly; from then on every round adds one past budget,
            without end: a straight line, which bends upward on a logarithmic axis of ages. The
            exact loss starts lower, because nodes not yet published cost nothing."""
        ),
        "fig3": (
            """Refreshing loses little for a while; then one past budget a round adds up, linearly
            in the age, while the loss of Algorithm 3 grows like a power of the logarithm. {ends}
            All five have the same mean squared error."""
        ),
        "fig4a": (
            """With the ratio chosen to lose least by the horizon the shape stays: linear in the
            age. The printed pairs and the true minimizers (Table 1) lie close together."""
        ),
        "fig4b": (
            """The optimal ratio lowers the loss of old items and pays with a loss of several units
            about new ones; it stays linear in the age. {ends} λ = 1 loses less than either refresh
            at every age."""
        ),
    }.items()
}


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
        ("closed form of the theorem", "bound", 1, _values(gradual.paper_closed_form)),
        ("theorem (sum)", "paper", 2, _values(gradual.paper_loss)),
        ("empirical, as in the paper", "empirical", 3, _empirical(row)),
        ("exact loss", "exact", 0, _values(gradual.loss)),
    ]
    title = "Algorithm 3, λ = 2: theorem, empirical and exact loss"
    return _figure("fig2a", "Figures 1a and 2a", title, [row], lines, columns=2)


def fig2b() -> PaperFigure:
    used = rows(SHORT, fading=True)
    lines = _lines(used, partial(_fading_lines, theorem=True))
    title = "Algorithm 3, λ = 1, 2, 3, all with the same error"
    return _figure("fig2b", "Figure 2b", title, used, lines, logarithmic=True)


def fig2c() -> PaperFigure:
    used = rows(SHORT)
    title = "Refreshing the budget every W steps, with ratio 0.1"
    return _figure("fig2c", "Figure 2c", title, used, _lines(used, _refresh_lines))


def fig3() -> PaperFigure:
    fading, refreshing = rows(LONG, fading=True), rows(LONG)
    lines = _lines(fading, _fading_lines) + _lines(refreshing, _refresh_lines, first=3)
    title = "A million steps: fading against refreshing with ratio 0.1"
    used = [*fading, *refreshing]
    return _figure("fig3", "Figures 1b and 3", title, used, lines, logarithmic=True)


def fig4a() -> PaperFigure:
    used = rows(SHORT, optimal=True)
    title = "Refreshing with the optimal ratio, a thousand steps"
    return _figure("fig4a", "Figure 4a", title, used, _lines(used, _optimal_lines))


def fig4b() -> PaperFigure:
    fading, refreshing = rows(LONG, fading=True), rows(LONG, optimal=True)
    lines = _lines(fading, _fading_lines) + _lines(refreshing, _optimal_lines, first=3)
    title = "A million steps: fading against refreshing with the optimal ratio"
    used = [*fading, *refreshing]
    return _figure("fig4b", "Figure 4b", title, used, lines, logarithmic=True)


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


def _lines(
    used: Sequence[TableRow], lines_of: Callable[[TableRow, int], list[Line]], *, first: int = 0
) -> list[Line]:
    """The lines of some rows, each row a group of its own, numbered from ``first`` on."""
    return [line for group, row in enumerate(used, first) for line in lines_of(row, group)]


def _fading_lines(row: TableRow, group: int, *, theorem: bool = False) -> list[Line]:
    gradual, name = _gradual(row), _short(row)
    lines: list[Line] = [
        (f"{name}, exact", "exact", group, _values(gradual.loss)),
        (f"{name}, empirical", "empirical", group, _empirical(row)),
        (f"{name}, theorem", "bound", group, _values(gradual.paper_loss)),
    ]
    return lines if theorem else lines[:2]


def _refresh_lines(row: TableRow, group: int) -> list[Line]:
    refresh, name = row.measured, _short(row)
    return [
        (f"{name}, exact", "exact", group, _values(refresh.loss)),
        (f"{name}, paper", "paper", group, _values(refresh.paper_loss)),
    ]


def _optimal_lines(row: TableRow, group: int) -> list[Line]:
    best = (f"{_short(row)}, true optimum", "bound", group, _values(row.computed.loss))
    return [*_refresh_lines(row, group), best]


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


def _values(loss: Callable[[Ages], object]) -> Callable[[Ages], Losses]:
    return lambda ages: np.asarray(loss(ages), dtype=np.float64)


def _empirical(row: TableRow) -> Callable[[Ages], Losses]:
    return lambda ages: _all_empirical(row)[ages]


@lru_cache(maxsize=8)
def _all_empirical(row: TableRow) -> Losses:
    return empirical_losses(_gradual(row).schedule.budgets, row.horizon)


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_figure(folder: Path, figure: PaperFigure) -> None:
    """The figure as PNG and SVG, and the points behind it as CSV."""
    picture = drawn(figure, figure.title)
    save_figure(picture, folder / f"{figure.name}.png")
    save_figure(picture, folder / f"{figure.name}.svg")
    columns = [curve.losses.tolist() for curve in figure.curves]
    points = zip(figure.ages.tolist(), *columns, strict=True)
    header = ["age", *(curve.label for curve in figure.curves)]
    write_csv(folder / f"{figure.name}.csv", [header, *points])


def drawn(figure: PaperFigure, title: str = "") -> Figure:
    """The picture of a figure; a page that has a heading over it needs no title."""
    wide = figure.horizon > SHORT
    picture = new_figure(9.6 if wide else 8.0, 5.4 if wide else 4.8)
    draw_curves(
        picture,
        figure.curves,
        title=title,
        logarithmic=figure.logarithmic,
        columns=figure.columns,
        subject="item",
    )
    return picture
