"""What the exact loss and a head start gain over the theorem: the loss at the same error, and the
error at the same loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import fadecount as fc
from fadecount.paper.figures import PaperFigure
from fadecount.paper.sections import Table
from fadecount.paper.words import SENTENCES
from fadecount.plots import Curve, spread_ages
from fadecount.rounding import short_loss

HORIZON = 10**6
MSE = 1000.0
EXPONENTS = (1.0, 1.5, 2.0, 3.0)
LOSS = 4.0
"""The loss of the oldest item, where errors are compared."""

YEAR = 525_600
TARGETS = {60: 0.5, 43_200: 2.0, YEAR: 4.0}
"""A year of minutes: at most 0.5 after an hour, 2 after 30 days, 4 after the year."""

_HEAD_STARTS = range(10, 21)
_DRAWN = (1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Three losses of the oldest item at one mean squared error: by the theorem, exactly, and with
    the best head start."""

    exponent: float
    plain: fc.Gradual
    started: fc.Gradual

    @property
    def losses(self) -> tuple[float, float, float]:
        oldest = HORIZON - 1
        return (
            float(self.plain.paper_loss(oldest)),
            float(self.plain.loss(oldest)),
            float(self.started.loss(oldest)),
        )

    @property
    def errors(self) -> tuple[float, float, float]:
        """Root mean squared errors at a loss of :data:`LOSS`. Budgets times x have losses times x
        and, in continuous noise, errors divided by x."""
        theorem, exact, started = (math.sqrt(MSE) * loss / LOSS for loss in self.losses)
        return theorem, exact, started


@lru_cache(maxsize=1)
def gains() -> tuple[Gain, ...]:
    """One per exponent; of all head starts the one with the least loss at the end."""

    def fitted(exponent: float, head_start: int) -> fc.Gradual:
        return fc.Gradual.for_mse(
            MSE, horizon=HORIZON, exponent=exponent, head_start=head_start, resolution_bits=math.inf
        )

    found = []
    for exponent in EXPONENTS:
        started = min(
            (fitted(exponent, each) for each in _HEAD_STARTS),
            key=lambda each: float(each.loss(HORIZON - 1)),
        )
        found.append(Gain(exponent=exponent, plain=fitted(exponent, 0), started=started))
    return tuple(found)


@lru_cache(maxsize=1)
def design_errors() -> tuple[float, float, float]:
    """Root mean squared errors over a year of minutes under :data:`TARGETS`: the best exponent
    under the paper's theorem, a design without a head start, and one with it."""
    by_theorem = []
    for step in range(81):
        shape = fc.Gradual(epsilon=1.0, exponent=0.05 * step)
        most = max(float(shape.paper_loss(age)) / limit for age, limit in TARGETS.items())
        by_theorem.append(most * math.sqrt(shape.mse(YEAR, resolution_bits=math.inf)))
    plain, started = (
        fc.design(targets=TARGETS, horizon=YEAR, head_start=each) for each in (0, None)
    )
    return min(by_theorem), math.sqrt(plain.mse(YEAR)), math.sqrt(started.mse(YEAR))


def loss_rows() -> Table:
    """Privacy losses of the oldest item at the same error."""
    rows = [["λ", "theorem", "exact", "head start", "m", "head start over theorem"]]
    for gain in gains():
        theorem, _, started = gain.losses
        cells = [f"{gain.exponent:g}", *map(short_loss, gain.losses), str(gain.started.head_start)]
        rows.append([*cells, f"{started / theorem:.0%}"])
    return rows


def error_rows() -> Table:
    """Root mean squared errors at the same loss."""
    rows = [["mechanism", "theorem", "exact", "head start", "head start over theorem"]]
    named = [
        (f"λ = {gain.exponent:g}, loss {LOSS:g} after 10⁶ steps", gain.errors) for gain in gains()
    ]
    for name, errors in [*named, ("designed for a year of minutes", design_errors())]:
        rows.append([name, *(f"{error:.1f}" for error in errors), f"{errors[2] / errors[0]:.0%}"])
    return rows


def figure() -> PaperFigure:
    """The three losses at every age, for two exponents."""
    ages = spread_ages(HORIZON)
    curves = []
    for group, gain in enumerate(gain for gain in gains() if gain.exponent in _DRAWN):
        name = f"λ = {gain.exponent:g}"
        curves += [
            Curve(
                label=f"{name}, theorem",
                ages=ages,
                losses=np.asarray(gain.plain.paper_loss(ages)),
                kind="bound",
                group=group,
            ),
            Curve(
                label=f"{name}, exact",
                ages=ages,
                losses=np.asarray(gain.plain.loss(ages)),
                kind="paper",
                group=group,
            ),
            Curve(
                label=f"{name}, head start",
                ages=ages,
                losses=np.asarray(gain.started.loss(ages)),
                kind="exact",
                group=group,
            ),
        ]
    chosen = "; ".join(f"λ = {gain.exponent:g}: m = {gain.started.head_start}" for gain in gains())
    return PaperFigure(
        name="head_start",
        number="Beyond the paper",
        title="What the exact loss and a head start gain",
        horizon=HORIZON,
        columns=2,
        logarithmic=False,
        sentence=SENTENCES["head_start"],
        parameters=(
            f"T = {HORIZON:,}, B = 0, mean squared error 1000 over the first T outputs, continuous"
            f" noise. {chosen}."
        ),
        ages=ages,
        curves=tuple(curves),
    )
