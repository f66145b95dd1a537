"""A plan as a picture: the limits, the option chosen, and its alternatives."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure, SubFigure

from fadecount.planning import Option, Plan, person_losses
from fadecount.plots.ages import spread_ages
from fadecount.plots.curves import Curve, draw_curves

_ALTERNATIVES = 3
_LIMIT_GROUP = 5


def draw_plan(figure: Figure | SubFigure, made: Plan, chosen: Option | None = None) -> None:
    """Draw the loss of an option (by default the best) by age, under the limits asked for, beside the next best ones."""
    option = made.best if chosen is None else chosen
    request = made.request
    others = [other for other in made.options if other is not option][:_ALTERNATIVES]
    curves = [_curve(made, option, "exact", 0), *(_curve(made, other, "paper", at + 1) for at, other in enumerate(others))]
    if request.targets:
        ages = spread_ages(request.horizon + 1)
        ends, losses = np.array(request.targets).T
        limits = losses[np.minimum(np.searchsorted(ends, ages), len(losses) - 1)]
        curves.append(Curve(label="limit", ages=ages, losses=limits, kind="baseline", group=_LIMIT_GROUP))
    draw_curves(
        figure,
        curves,
        tick_seconds=request.tick_seconds,
        title=f"{option.name}: mean error {option.forecast.mean:,.3g}",
        columns=3,
        subject="event" if request.person.events == 1 and request.person.steps is None else "person's first event",
    )


def _curve(made: Plan, option: Option, kind: str, group: int) -> Curve:
    ages = spread_ages(made.request.horizon + 1)
    if made.request.person.steps is not None:
        ages = np.union1d(ages[:: max(1, len(ages) // 100)], ages[-1:])  # each age of a person is a long sum
    losses = person_losses(option.mechanism, ages.tolist(), made.request.person, option.mechanism.delay)
    return Curve(label=option.name, ages=ages, losses=np.array(losses), kind=kind, group=group)
