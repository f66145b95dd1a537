"""From wanted losses at ages to the mechanism with the least error."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fadecount.errors import ParameterError
from fadecount.mechanisms import Blocks, Gaussian, Gradual
from fadecount.planning.blocks import block_request_for, blocks_for
from fadecount.planning.gaussian_design import gaussian_design_for
from fadecount.planning.request import Person, Request, read_request

EXPONENTS = tuple(0.25 * step for step in range(33))


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
    contributions of one person in a slot lose together (docs/planning.md). With a ``delta``, losses
    are epsilons at that delta, and the result is a Gaussian counter.

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
    request = read_request(
        loss=targets,
        horizon=horizon,
        delay=delay,
        person=person,
        delta=delta,
        figures=figures,
        tick=tick_seconds,
        name="targets",
    )
    if delta is not None:
        return gaussian_design_for(request, delta)
    blocks = blocks_for(request, block_request_for(request))
    gradual = None if figures and blocks else best_gradual(request)
    made = [each for each in (blocks, gradual) if each is not None]
    if not made:
        raise ParameterError(
            "targets must be within reach of noise that can be drawn, got a loss of"
            f" {request.targets[0][1]:.12g}; allow a larger loss, or a shorter horizon"
        )
    return min(made, key=lambda each: each.mse(request.horizon))


def best_gradual(request: Request) -> Gradual | None:
    """The gradual curve under the limits with the least mean squared error, over exponents from 0
    to 8; None if none can be drawn."""
    curves = [gradual(request, exponent) for exponent in EXPONENTS]
    drawn = [each for each in curves if each is not None]
    return min(drawn, key=lambda each: each.mse(request.horizon), default=None)


def gradual(request: Request, exponent: float) -> Gradual | None:
    """The gradual curve of an exponent with the largest budgets, up to rounding, that keep all
    limits exactly, or None if they cannot be drawn."""
    shape = Gradual(epsilon=2.0**-10, exponent=exponent, delay=request.delay)
    room = [most / request.person.loss(shape, age).epsilon for age, most in request.limits()]
    slip = 2.0**-52
    while True:
        try:
            factor = min(room) * (1.0 - slip)
            curve = dataclasses.replace(shape, epsilon=shape.epsilon * factor)
        except ParameterError:
            return None
        if request.kept_by(curve):
            return curve
        slip *= 2.0
