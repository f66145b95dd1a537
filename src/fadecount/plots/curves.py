"""Loss curves: what is lost about an event, by its age; and a plan as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import NDArray

from fadecount.errors import bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.planning import Option, Plan
from fadecount.plots.figure import COLOURS, RC, plain_numbers

MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
KINDS: Final[dict[str, dict[str, Any]]] = {
    "exact": {"linestyle": "-", "linewidth": 2.0},
    "paper": {"linestyle": (0, (5, 2)), "linewidth": 1.3},
    "bound": {"linestyle": (0, (1, 1.4)), "linewidth": 1.4},
    "empirical": {"linestyle": "-", "linewidth": 0.7, "alpha": 0.75},
    "baseline": {"linestyle": (0, (7, 2, 1.5, 2)), "linewidth": 1.8},
}
MARKED: Final = ("exact", "baseline")
"""Kinds that carry the mark of their group; the others have the same colour and run close by."""
_PER_OCTAVE = 32
_SINGLES = 4
"""Columns of a legend in which every line has a colour of its own."""


def spread_ages(horizon: int) -> NDArray[np.int64]:
    """The ages ``0 .. horizon - 1`` that a curve on a logarithmic axis needs: all small ones, then
    32 per doubling.

    On top of these, both sides of every power of two: where the loss of a mechanism with dyadic
    intervals jumps.

    >>> spread_ages(10).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> len(spread_ages(10**18)) < 2500
    True
    """
    octaves = max(1, horizon).bit_length()
    fractions = 1.0 + np.arange(_PER_OCTAVE) / _PER_OCTAVE
    grown = [np.rint(np.ldexp(fractions, octave)).astype(np.int64) for octave in range(octaves)]
    powers = np.int64(1) << np.arange(octaves, dtype=np.int64)
    ages = np.unique(np.concatenate([[0, horizon - 1], *grown, powers - 1, powers, powers - 2]))
    result: NDArray[np.int64] = ages[(ages >= 0) & (ages < horizon)]
    return result


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One line of a picture: ``kind`` is its dashes (exact, paper, bound, empirical, baseline),
    ``group`` its colour and mark, such as those of one mechanism."""

    label: str
    ages: NDArray[np.int64]
    losses: NDArray[np.float64]
    kind: str = "exact"
    group: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            bound, remedy = f"one of {', '.join(KINDS)}", "it chooses how the line is drawn"
            raise bad_parameter("kind", self.kind, bound, remedy)

    @classmethod
    def of(
        cls, mechanism: Mechanism, *, horizon: int, label: str, kind: str = "exact", group: int = 0
    ) -> Self:
        """The curve of a mechanism over the ages below a horizon: its exact loss, or the published
        one for ``kind="paper"``."""
        ages = spread_ages(horizon)
        losses = mechanism.paper_loss(ages) if kind in ("paper", "bound") else mechanism.loss(ages)
        return cls(label=label, ages=ages, losses=np.asarray(losses), kind=kind, group=group)


def draw_curves(
    figure: Figure | SubFigure,
    curves: Sequence[Curve],
    *,
    tick_seconds: float | None = None,
    title: str = "",
    logarithmic: bool = True,
    subject: str = "event",
) -> None:
    """Draw loss curves over a logarithmic axis of ages, with the legend below the data: a column
    for each group. With ``tick_seconds``, the length of one step, ages are in human time."""
    with matplotlib.rc_context(RC):
        axes = figure.subplots()
        for curve in curves:
            _draw(axes, curve)
        _age_axis(axes, max(int(curve.ages[-1]) for curve in curves), tick_seconds, subject)
        axes.set_ylabel("privacy loss (epsilon)")
        if logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            low, high = axes.get_ylim()
            if high < 200.0 * low:
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        else:
            axes.set_ylim(bottom=0.0)
        plain_numbers(axes)
        axes.set_title(title)
        columns = _by_group(axes, curves)
        count = len(columns) if len(columns[0]) > 1 else min(_SINGLES, len(columns))
        room: dict[str, Any] = {"handlelength": 3.6 if count < 5 else 2.8, "columnspacing": 1.4}
        handles = [line for column in columns for line in column]
        figure.legend(handles=handles, loc="outside lower center", ncols=count, **room)


def _by_group(axes: Axes, curves: Sequence[Curve]) -> list[list[Line2D]]:
    """The lines of each group, with gaps where one has fewer than another."""
    columns: dict[int, list[Line2D]] = {}
    for line, curve in zip(axes.get_lines(), curves, strict=True):
        columns.setdefault(curve.group, []).append(line)
    deepest = max(len(column) for column in columns.values())
    gap = Line2D([], [], linestyle="none", label=" ")
    return [[*column, *[gap] * (deepest - len(column))] for column in columns.values()]


def _draw(axes: Axes, curve: Curve) -> None:
    look: dict[str, Any] = {**KINDS[curve.kind], "zorder": 2.5}
    if curve.kind in MARKED:
        places = _mark_places(curve.ages, curve.group)
        look |= {"marker": MARKS[curve.group % len(MARKS)], "markersize": 5.5, "markevery": places}
        look["zorder"] = 3
    # A loss of 0 cannot be drawn on a logarithmic axis.
    shown = np.where(curve.losses > 0, curve.losses, np.nan)
    look |= {"color": COLOURS[curve.group % len(COLOURS)], "label": curve.label}
    # between two ages the loss of the later one: never below the truth
    axes.plot(curve.ages, shown, drawstyle="steps-pre", **look)


def _mark_places(ages: NDArray[np.int64], group: int) -> list[int]:
    """Places for about six marks, evenly on the logarithmic axis and shifted by group so that marks
    do not hide each other."""
    logs = np.log2(ages + 1.0)
    wanted = (np.arange(6) + 0.25 + 0.12 * (group % 6)) / 6.0 * logs[-1]
    places: list[int] = np.unique(np.searchsorted(logs, wanted).clip(max=len(ages) - 1)).tolist()
    return places


# The axis of ages
# ------------------------------------------------------------------------------------------------
_YEAR = 365 * 86400
_HUMAN = (
    *((1, "1 s"), (60, "1 min"), (3600, "1 hour"), (86400, "1 day"), (30 * 86400, "1 month")),
    *((_YEAR, "1 year"), (10 * _YEAR, "10 years"), (100 * _YEAR, "100 years")),
    *((10**power * _YEAR, f"$10^{{{power}}}$ years") for power in (4, 7, 10, 13)),
)
_LINEAR = 0.6  # decades of room for the step from age 0 to age 1
_APART = 0.12  # of the axis: nearer marks would run into each other


def _age_axis(axes: Axes, oldest: int, tick_seconds: float | None, subject: str) -> None:
    """A logarithmic axis that has room for age 0."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=_LINEAR)
    axes.set_xlim(-0.02, max(2.0, oldest * 1.15))
    marks = _human_marks(oldest, tick_seconds) if tick_seconds else _plain_marks(oldest)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([0.0, *(place for place, _ in marks)], ["0", *(name for _, name in marks)])
    axes.set_xlabel(f"age of the {subject}" if tick_seconds else f"age of the {subject} (steps)")


def _plain_marks(oldest: int) -> list[tuple[float, str]]:
    powers = len(str(oldest * 115 // 100))
    shown = range(0, powers, 1 + powers // 10)
    return [(10.0**n, f"{10**n:,}" if n <= 3 else f"$10^{{{n}}}$") for n in shown]


def _human_marks(oldest: int, tick_seconds: float) -> list[tuple[float, str]]:
    """The marks of human time within the axis, leaving out those too close to the one before."""
    kept: list[tuple[float, str]] = []
    room, last = _APART * (math.log10(oldest + 1.0) + _LINEAR), 0.0
    for seconds, name in _HUMAN:
        age = seconds / tick_seconds
        if 1.0 <= age <= oldest * 1.15 and math.log10(age) + _LINEAR - last >= room:
            kept.append((age, name))
            last = math.log10(age) + _LINEAR
    return kept


# Plans
# ------------------------------------------------------------------------------------------------
_ALTERNATIVES = 3
_LIMIT_GROUP = 5


def draw_plan(figure: Figure | SubFigure, made: Plan, chosen: Option | None = None) -> None:
    """Draw the loss of an option (by default the best) by age, with the requested limits and the
    next best options."""
    option, request = made.best if chosen is None else chosen, made.request
    others = [other for other in made.options if other is not option][:_ALTERNATIVES]
    ages = spread_ages(request.horizon + 1)
    curves = []
    for group, each in enumerate([option, *others]):
        lost = [request.person.loss(each.mechanism, age).epsilon for age in ages.tolist()]
        losses, kind = np.array(lost), "paper" if group else "exact"
        curves.append(Curve(label=each.name, ages=ages, losses=losses, kind=kind, group=group))
    if request.targets:
        ends, losses = np.array(request.targets).T
        limits = losses[np.minimum(np.searchsorted(ends, ages), len(losses) - 1)]
        curves.append(
            Curve(label="limit", ages=ages, losses=limits, kind="baseline", group=_LIMIT_GROUP)
        )
    draw_curves(
        figure,
        curves,
        tick_seconds=request.tick_seconds,
        title=f"{option.name}: mean error {option.error:,.3g}",
        subject=request.person.subject,
    )
