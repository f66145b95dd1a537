"""Designs with a head start: against designs without one, and against an exhaustive search in small cases."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from tests.planning.oracles import random_targets

import fadecount as fc
from fadecount.errors import ParameterError

LONG = 10**5


@dataclass(frozen=True, slots=True)
class Gain:
    horizon: int
    ratio: float
    """The root mean squared error of the design over that of the design without a head start."""


def gain(seed: int) -> Gain:
    """Random targets: 1 to 7 of them, over horizons from 3 to 10**9."""
    targets, horizon = random_targets(random.Random(seed))
    plain = fc.design(targets=targets, horizon=horizon, head_start=0)
    return Gain(horizon, math.sqrt(fc.design(targets=targets, horizon=horizon).mse(horizon) / plain.mse(horizon)))


def small_case(seed: int) -> tuple[dict[int, float], int, int]:
    """Few targets over a short horizon, and a head start, so that there are at most six levels."""
    chance = random.Random(seed)
    horizon = chance.randrange(12, 32)
    ages = sorted(chance.sample(range(horizon), chance.randrange(1, 3)))
    losses = sorted(math.exp(chance.uniform(-2.0, 0.5)) for _ in ages)
    return dict(zip(ages, losses, strict=True)), horizon, chance.randrange(2, 5)


def least_error(targets: dict[int, float], horizon: int, head_start: int, *, starts: int, seed: int) -> float:
    """The least mean squared error over all sets of levels without noise, each searched downhill from some starts.

    It uses the public losses and errors only, and nothing of the planner.
    """
    levels = (horizon + (1 << head_start) - 1).bit_length()
    limits = [*targets.items(), (horizon, targets[max(targets)])]
    generator = np.random.default_rng(seed)
    solve: Any = minimize
    best = math.inf
    for used in itertools.product((True, False), repeat=levels - 1):
        present = np.array([True, *used])

        def error(logs: np.ndarray, present: np.ndarray = present) -> float:
            budgets = np.full(levels, math.inf)
            budgets[present] = np.exp(logs)
            try:
                shape = fc.Designed(budgets=tuple(budgets.tolist()), head_start=head_start)
                most = max(float(shape.loss(age)) / limit for age, limit in limits)
                scaled = fc.Designed(budgets=tuple((budgets / most).tolist()), head_start=head_start)
            except ParameterError:  # no noise that can be drawn
                return 1e9
            return math.log(scaled.mse(horizon))

        for _ in range(starts):
            first = generator.uniform(-1.0, 1.0, int(present.sum()))
            options = {"maxfev": 250 * len(first), "xatol": 1e-4, "fatol": 1e-6}
            found = solve(error, first, method="Nelder-Mead", options=options)
            best = min(best, math.exp(found.fun))
    return best
