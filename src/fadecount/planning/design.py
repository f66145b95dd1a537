"""From wanted losses at ages to the mechanism with the least error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

from fadecount.errors import ParameterError
from fadecount.mechanisms import Gaussian, Gradual
from fadecount.mechanisms.blocks import Blocks
from fadecount.mechanisms.gaussian import require_delta
from fadecount.planning.blocks import blocks_for, wish_for
from fadecount.planning.certify import best_gradual
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.request import Person, read_figures, read_targets


@overload
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    person: Person | None = None,
    delta: None = None,
    figures: Mapping[int, float] | None = None,
    tick_seconds: float | None = None,
) -> Blocks | Gradual: ...
@overload
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    person: Person | None = None,
    delta: float,
    figures: None = None,
    tick_seconds: float | None = None,
) -> Gaussian: ...
def design(
    targets: Mapping[int, float],
    *,
    horizon: int,
    delay: int = 0,
    person: Person | None = None,
    delta: float | None = None,
    figures: Mapping[int, float] | None = None,
    tick_seconds: float | None = None,
) -> Blocks | Gradual | Gaussian:
    """The mechanism with the least error over the horizon that the search finds, and a loss at or
    below every target: a block counter, or the paper's gradual one where that is better, which is
    where the loss of the first few steps is the tight one.

    ``targets`` maps ages to losses. Between two targets the limit is that of the next one; past the
    last one the last holds to the horizon. With a ``person`` the targets limit what all
    contributions of one person during the last ``age`` steps lose together (docs/planning.md). With
    a ``delta``, losses are epsilons at that delta, and the result is a Gaussian counter.

    The error is the mean squared error of the live total over the steps ``1 .. horizon``. With
    ``tick_seconds``, the length of a step, levels have lengths of the calendar, which a stream can
    publish, and hours and days are among them; the total is within a few per cent of the best.
    ``figures`` says otherwise: it maps lengths in steps to the weight of the variance of their
    figures beside that of the total; ``{}`` is for the total alone.

    Guarantees: the loss of the result, computed exactly, is at or below the target at every age
    from 0 to the horizon. What happens after the horizon is not part of the plan. The same call
    gives the same result on every machine.

    >>> import fadecount as fc
    >>> year = {60: 0.5, 43_200: 2.0, 525_600: 4.0}
    >>> total = fc.design(year, horizon=525_600, tick_seconds=60, figures={})
    >>> total.mse(525_600) ** 0.5 < 17.7, total.loss(60), total.loss(61), total.loss(525_600)
    (True, 0.5, 2.0, 4.0)
    >>> readable = fc.design(year, horizon=525_600, tick_seconds=60)
    >>> [level.length for level in readable.levels], readable.mse(525_600) ** 0.5 < 17.8
    ([1, 20, 60, 1440, 43200], True)
    >>> fc.design(year, horizon=525_600, delta=1e-9).mse(525_600) ** 0.5 < 26.3
    True
    """
    read = read_targets(targets, horizon=horizon, delay=delay, person=person)
    weights = read_figures(figures, read.horizon)
    if delta is not None:
        return gaussian_design_for(read, require_delta(delta))
    blocks = blocks_for(read, wish_for(read.horizon, tick_seconds, weights))
    gradual = None if weights and blocks else best_gradual(read)
    made = [each for each in (blocks, gradual) if each is not None]
    if not made:
        raise ParameterError(
            "targets must be within reach of noise that can be drawn, got a loss of"
            f" {read.losses[0]:.12g}; allow a larger loss, or a shorter horizon"
        )
    return min(made, key=lambda each: each.mse(read.horizon))
