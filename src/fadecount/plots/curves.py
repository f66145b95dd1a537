"""Loss curves: what is lost about an event, by its age; and a plan as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from fadecount.errors import bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.planning import Option, Plan, person_losses
from fadecount.plots.figure import COLOURS, KINDS, MARKED, MARKS, RC, age_axis, loss_axis

_PER_OCTAVE = 32


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
    ``group`` its colour and mark."""

    label: str
    ages: NDArray[np.int64]
    losses: NDArray[np.float64]
    kind: str = "exact"
    group: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise bad_parameter(
                "kind", self.kind, f"one of {', '.join(KINDS)}", "it chooses how the line is drawn"
            )

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
    columns: int | None = None,
    subject: str = "event",
) -> None:
    """Draw loss curves over a logarithmic axis of ages, with the legend below the data.

    With ``tick_seconds``, the length of one step, the ages are marked in human time. ``columns`` is
    the number of columns of the legend, by default one for each group.
    """
    with matplotlib.rc_context(RC):
        axes = figure.subplots()
        for curve in curves:
            _draw(axes, curve)
        age_axis(axes, max(int(curve.ages[-1]) for curve in curves), tick_seconds, subject)
        loss_axis(axes, logarithmic=logarithmic)
        axes.set_title(title)
        handles = _by_group(axes, curves) if columns is None else axes.get_lines()
        count = columns or len({curve.group for curve in curves})
        room: dict[str, Any] = {"handlelength": 3.6 if count < 5 else 2.8, "columnspacing": 1.4}
        figure.legend(handles=handles, loc="outside lower center", ncols=count, **room)


def _by_group(axes: Axes, curves: Sequence[Curve]) -> list[Line2D]:
    """The lines in the order in which a legend with one column per group takes them, with gaps
    where a group has fewer."""
    columns: dict[int, list[Line2D]] = {}
    for line, curve in zip(axes.get_lines(), curves, strict=True):
        columns.setdefault(curve.group, []).append(line)
    deepest = max(len(column) for column in columns.values())
    gap = Line2D([], [], linestyle="none", label=" ")
    return [
        line for column in columns.values() for line in [*column, *[gap] * (deepest - len(column))]
    ]


def _draw(axes: Axes, curve: Curve) -> None:
    look: dict[str, Any] = dict(KINDS[curve.kind])
    if curve.kind in MARKED:
        places = _mark_places(curve.ages, curve.group)
        look |= {"marker": MARKS[curve.group % len(MARKS)], "markersize": 5.5, "markevery": places}
    # A loss of 0 cannot be drawn on a logarithmic axis.
    shown = np.where(curve.losses > 0, curve.losses, np.nan)
    look |= {"color": COLOURS[curve.group % len(COLOURS)], "label": curve.label}
    order = 3 if curve.kind in MARKED else 2.5
    # between two ages the loss of the later one: never below the truth
    axes.plot(curve.ages, shown, drawstyle="steps-pre", zorder=order, **look)


def _mark_places(ages: NDArray[np.int64], group: int) -> list[int]:
    """Places for about six marks, evenly on the logarithmic axis and shifted by group so that marks
    do not hide each other."""
    logs = np.log2(ages + 1.0)
    wanted = (np.arange(6) + 0.25 + 0.12 * (group % 6)) / 6.0 * logs[-1]
    places: list[int] = np.unique(np.searchsorted(logs, wanted).clip(max=len(ages) - 1)).tolist()
    return places


_ALTERNATIVES = 3
_LIMIT_GROUP = 5


def draw_plan(figure: Figure | SubFigure, made: Plan, chosen: Option | None = None) -> None:
    """Draw the loss of an option (by default the best) by age, with the requested limits and the
    next best options."""
    option = made.best if chosen is None else chosen
    request = made.request
    others = [other for other in made.options if other is not option][:_ALTERNATIVES]
    curves = [
        _curve(made, option, "exact", 0),
        *(_curve(made, other, "paper", at + 1) for at, other in enumerate(others)),
    ]
    if request.targets:
        ages = spread_ages(request.horizon + 1)
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
        columns=3,
        subject=request.person.subject,
    )


def _curve(made: Plan, option: Option, kind: str, group: int) -> Curve:
    ages = spread_ages(made.request.horizon + 1)
    losses = person_losses(option.mechanism, ages.tolist(), made.request.person)
    return Curve(
        label=option.name,
        ages=ages,
        losses=np.array([loss.epsilon for loss in losses]),
        kind=kind,
        group=group,
    )


def draw_bounds(
    figure: Figure | SubFigure,
    ages: Sequence[int],
    claimed: Sequence[float],
    shown: Sequence[float],
    *,
    title: str = "",
) -> None:
    """Draw, for each age, what outputs show about an event (a lower bound, as a bar) beside the
    claimed loss (as a line)."""
    places = np.arange(len(ages))
    with matplotlib.rc_context(RC):
        axes = figure.subplots()
        least: dict[str, Any] = {"color": COLOURS[0], "zorder": 2}
        axes.bar(places, shown, 0.55, label="shown by the outputs, at least", **least)
        most: dict[str, Any] = {"color": COLOURS[1], "linewidth": 2.5, "zorder": 3}
        axes.hlines(claimed, places - 0.38, places + 0.38, label="claimed, at most", **most)
        axes.set_xticks(places, [f"{age:,}" for age in ages])
        axes.grid(visible=False, axis="x")
        axes.set_xlabel("age of the event (steps)")
        loss_axis(axes, logarithmic=False)
        axes.set_ylim(0.0, 1.08 * max([1e-9, *claimed, *shown]))
        axes.set_title(title)
        figure.legend(loc="outside lower center", ncols=2)
