"""From a wanted loss curve at a delta to the half-lives, weights and sigma with the least error.

The sequences ``b`` and ``c`` of a Gaussian counter follow from interlaced rates ``a_1 < g_1 < a_2 <
g_2 < ...``: ``g`` are the rates at which noise decays, ``a`` those at which the visible part of an
input decays (``Response`` in :mod:`fadecount.mechanisms.memories`). Error and loss are smooth in
them. At the least sigma that keeps all targets the squared error is ``E * max of L(age) /
mu(age)**2``. This is minimised by a quasi-Newton method, first over all rates; then half-lives are
rounded to what integers can do, and ``a`` alone is optimised again. More half-lives are tried until
they gain little.

The promise does not depend on any of this: weights are rounded, and sigma is raised until the
certified loss of the integers that run is at or below every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fadecount.errors import ParameterError
from fadecount.mechanisms import Gaussian
from fadecount.mechanisms.gaussian import SMALLEST_SIGMA
from fadecount.mechanisms.gaussian_law import mu_at
from fadecount.mechanisms.memories import LARGEST_SHIFT, LONGEST_HALF_LIFE, Response, as_epoch
from fadecount.planning.request import Request

Vector = NDArray[np.float64]
MOST_HALF_LIVES = 5
_GAIN = 0.006
_SHARP = (30.0, 1000.0)
_FASTEST = 20.0
_SHORT = 12.0


def gaussian_design_for(request: Request, delta: float) -> Gaussian:
    """The Gaussian counter with the least error under the limits of a request."""
    objective = _Objective(request, delta)
    best, least = None, math.inf
    rates = np.array([0.5 / objective.shown, math.sqrt(1.0 / objective.shown)])
    for count in range(1, MOST_HALF_LIVES + 1):
        if count == 2:
            rates = np.geomspace(0.3 / objective.shown, 1.5, 2 * count)
        elif count > 2:
            rates = _widened(rates)
        rates = objective.best_rates(rates)
        made = objective.mechanism(rates)
        if made is None:
            continue
        error = made.mse(request.horizon)
        enough = count > 2 and error > (1.0 - _GAIN) * least
        if error < least:
            best, least = made, error
        if enough:
            break
    if best is None:
        raise ParameterError(
            "targets must be within reach of noise that can be drawn; allow a larger loss, or a"
            " shorter horizon"
        )
    return best


class _Objective:
    """The targets as a function to be minimised."""

    def __init__(self, request: Request, delta: float) -> None:
        self._request, self._delta = request, delta
        self.shown = request.horizon - request.delay
        self._limits = np.array([mu_at(loss, delta) for _, loss in request.limits()])
        self._ages = np.array([age - request.delay for age, _ in request.limits()], dtype=np.int64)

    def _least(self, rates: Callable[[Vector], tuple[Vector, Vector]], start: Vector) -> Vector:
        """The argument with the least error; ``rates`` gives its decays and poles."""
        for sharp in _SHARP:
            start = minimised(lambda x, sharp=sharp: self._value(*rates(x), sharp), start)  # type: ignore[misc]
        return start

    def _value(self, decays: Vector, poles: Vector, sharp: float) -> float:
        if (
            poles[-1] > _FASTEST
            or float(np.diff(np.sort(np.concatenate([decays, poles])), prepend=0.0).min()) <= 0.0
        ):
            return math.inf
        response = response_of(decays, poles)
        error = response.mean_variance(self.shown)
        ratios = np.log(response.loss_square(self._ages)) - 2.0 * np.log(self._limits)
        largest = float(ratios.max())
        return (
            math.log(error)
            + largest
            + math.log(float(np.exp(sharp * (ratios - largest)).sum())) / sharp
        )

    def best_rates(self, rates: Vector) -> Vector:
        """The rates with the least error, all of them free."""
        start = np.log(np.concatenate([rates[:1], np.diff(np.log(rates))]))

        def free(x: Vector) -> Vector:
            steps = [np.clip(x[:1], -60.0, 1.0), np.exp(np.clip(x[1:], -9.0, 4.0))]
            return np.asarray(np.exp(np.cumsum(np.concatenate(steps))))

        return free(self._least(lambda x: (free(x)[::2], free(x)[1::2]), start))

    def mechanism(self, rates: Vector) -> Gaussian | None:
        """The certified mechanism with half-lives near these rates; None if two of them coincide or
        none fits."""
        half_lives = [_allowed(math.log(2.0) / each) for each in rates[1::2]]
        if any(late >= early for early, late in pairwise(half_lives)):
            return None
        poles = math.log(2.0) / np.array(half_lives)
        lows = np.concatenate([[min(rates[0], poles[0]) * 1e-3], poles[:-1]])
        ratios = np.log(poles / lows)
        shares = np.clip(np.log(np.maximum(rates[::2], lows) / lows) / ratios, 1e-4, 1.0 - 1e-4)

        def inside(x: Vector) -> Vector:
            return np.asarray(lows * np.exp(ratios / (1.0 + np.exp(-np.clip(x, -12.0, 12.0)))))

        start = np.log(shares / (1.0 - shares))
        decays = inside(self._least(lambda x: (inside(x), poles), start))
        return self._certified(half_lives, response_of(decays, poles).weights.tolist())

    def _certified(self, half_lives: list[float], weights: list[float]) -> Gaussian | None:
        """The least sigma, up to rounding, whose certified loss keeps every limit."""
        request, sigma = self._request, 1.0
        for _ in range(60):
            try:
                made = Gaussian(sigma, half_lives, weights, delta=self._delta, delay=request.delay)
            except ParameterError:
                return None
            shown = [request.unit.loss(made, age).amount for age, _ in request.limits()]
            over = float(np.max(shown / self._limits))
            if 1.0 - 1e-6 < over <= 1.0 or (over <= 1.0 and sigma == SMALLEST_SIGMA):
                return made if request.kept_by(made) else None
            sigma = max(SMALLEST_SIGMA, sigma * over * (1.0 + 2e-7))
        return None


def response_of(decays: Vector, poles: Vector) -> Response:
    """The sequences of interlaced rates: the weights are the residues of B, the parts those of
    C."""
    own = np.eye(len(poles), dtype=bool)
    crossed = -np.expm1(decays[:, None] - poles[None, :])
    beside = np.where(own, 1.0, -np.expm1(decays[:, None] - decays[None, :]))
    parts = np.exp(np.log(np.abs(crossed)).sum(axis=1) - np.log(np.abs(beside)).sum(axis=1))
    back = -np.expm1(poles[:, None] - decays[None, :])
    apart = np.where(own, 1.0, -np.expm1(poles[:, None] - poles[None, :]))
    weights = np.exp(
        np.log(np.abs(back)).sum(axis=1) - np.log(np.abs(apart)).sum(axis=1)
    ) / np.expm1(poles)
    kept = math.exp(float(np.log(np.expm1(-decays) / np.expm1(-poles)).sum()))
    total = kept + float(weights.sum())
    rates, all_weights = np.concatenate([[0.0], poles]), np.concatenate([[kept], weights]) / total
    return Response(
        rates, all_weights, decays, parts, math.exp(float((decays - poles).sum())), np.zeros(0)
    )


def _allowed(half_life: float) -> float:
    """The nearest half-life that a counter can run: whole steps, or halves, thirds and quarters of
    them where that matters."""
    bounded = min(max(half_life, 1.0 / LARGEST_SHIFT), float(LONGEST_HALF_LIFE))
    epoch, shift = as_epoch(bounded)
    return epoch / shift if bounded < _SHORT else float(round(bounded))


def _widened(rates: Vector) -> Vector:
    """One more pair of rates, in the widest gap, so close together that they hardly change
    anything."""
    gaps = np.diff(np.log(rates[1:]))[::2]
    at = 2 + 2 * int(np.argmax(gaps))
    low, high = math.log(rates[at - 1]), math.log(rates[at])
    added = np.exp([low + (high - low) * 0.45, low + (high - low) * 0.55])
    return np.concatenate([rates[:at], added, rates[at:]])


def minimised(value: Callable[[Vector], float], start: Vector) -> Vector:
    """A local minimum by the BFGS method, gradients by differences: for a few smooth parameters of
    order 1."""
    point, here = start, value(start)
    inverse, slope = np.eye(len(start)), _slope(value, start)
    for _ in range(120):
        direction = -inverse @ slope
        descent = float(direction @ slope)
        if descent >= 0.0:
            inverse, direction = np.eye(len(start)), -slope
            descent = float(direction @ slope)
        size = min(1.0, 2.0 / max(1e-12, float(np.abs(direction).max())))
        while (
            size > 1e-8
            and not (there := value(point + size * direction)) <= here + 1e-4 * size * descent
        ):
            size *= 0.5
        if size <= 1e-8 or here - there < 1e-10:
            break
        moved, point, here = size * direction, point + size * direction, there
        turned = _slope(value, point)
        change, slope = turned - slope, turned
        along = float(moved @ change)
        if along > 1e-14:
            left = np.eye(len(start)) - np.outer(moved, change) / along
            inverse = left @ inverse @ left.T + np.outer(moved, moved) / along
    return point


def _slope(value: Callable[[Vector], float], point: Vector) -> Vector:
    slope = np.empty_like(point)
    for at in range(len(point)):
        step = np.zeros_like(point)
        step[at] = 1e-5
        above, below = value(point + step), value(point - step)
        slope[at] = (above - below) / 2e-5 if math.isfinite(above) and math.isfinite(below) else 0.0
    return slope
