"""Loss curves: what is lost about an event, by its age."""

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
from fadecount.plots.ages import spread_ages
from fadecount.plots.axes import age_axis, loss_axis
from fadecount.plots.style import COLOURS, KINDS, MARKED, MARKS, RC


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One line of a picture: ``kind`` is its dashes (exact, paper, bound, empirical, baseline), ``group`` its colour and mark."""

    label: str
    ages: NDArray[np.int64]
    losses: NDArray[np.float64]
    kind: str = "exact"
    group: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise bad_parameter("kind", self.kind, f"one of {', '.join(KINDS)}", "it chooses how the line is drawn")

    @classmethod
    def of(cls, mechanism: Mechanism, *, horizon: int, label: str, kind: str = "exact", group: int = 0) -> Self:
        """The curve of a mechanism over the ages below a horizon: its exact loss, or the published one for ``kind="paper"``."""
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

    With ``tick_seconds``, the length of one step, the ages are marked in human time. The legend has so many ``columns``,
    by default one for each group.
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
        handle = 3.6 if count < 5 else 2.8
        figure.legend(handles=handles, loc="outside lower center", ncols=count, handlelength=handle, columnspacing=1.4)


def _by_group(axes: Axes, curves: Sequence[Curve]) -> list[Line2D]:
    """The lines in the order in which a legend with one column per group takes them, with gaps where a group has fewer."""
    columns: dict[int, list[Line2D]] = {}
    for line, curve in zip(axes.get_lines(), curves, strict=True):
        columns.setdefault(curve.group, []).append(line)
    deepest = max(len(column) for column in columns.values())
    gap = Line2D([], [], linestyle="none", label=" ")
    return [line for column in columns.values() for line in [*column, *[gap] * (deepest - len(column))]]


def _draw(axes: Axes, curve: Curve) -> None:
    look: dict[str, Any] = dict(KINDS[curve.kind])
    if curve.kind in MARKED:
        places = _mark_places(curve.ages, curve.group)
        look |= {"marker": MARKS[curve.group % len(MARKS)], "markersize": 5.5, "markevery": places}
    shown = np.where(curve.losses > 0, curve.losses, np.nan)  # a loss of nothing has no place on a logarithmic axis
    order = 3 if curve.kind in MARKED else 2.5
    axes.plot(
        curve.ages,
        shown,
        color=COLOURS[curve.group % len(COLOURS)],
        label=curve.label,
        zorder=order,
        drawstyle="steps-pre",  # between two ages the loss of the later one: never below the truth
        **look,
    )


def _mark_places(ages: NDArray[np.int64], group: int) -> list[int]:
    """Places for about six marks, evenly on the logarithmic axis and shifted by group so that marks do not hide each other."""
    logs = np.log2(ages + 1.0)
    wanted = (np.arange(6) + 0.25 + 0.12 * (group % 6)) / 6.0 * logs[-1]
    places: list[int] = np.unique(np.searchsorted(logs, wanted).clip(max=len(ages) - 1)).tolist()
    return places
