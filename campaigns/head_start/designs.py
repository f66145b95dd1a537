"""Designs with a head start: against designs without one, and against a global search by scipy in
small cases."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import differential_evolution, minimize
from tests.planning.oracles import random_targets

import fadecount as fc

LONG = 10**5
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Gain:
    horizon: int
    ratio: float
    """The root mean squared error of the design over that of the design without a head start."""


def gain(seed: int) -> Gain:
    """Random targets: 1 to 7 of them, over horizons from 3 to 10**9."""
    targets, horizon = random_targets(random.Random(seed))
    plain = fc.design(targets=targets, horizon=horizon, head_start=0)
    return Gain(
        horizon,
        math.sqrt(fc.design(targets=targets, horizon=horizon).mse(horizon) / plain.mse(horizon)),
    )


def small_case(seed: int) -> tuple[dict[int, float], int]:
    """One to three targets over a horizon below 64, so that there are at most seven levels."""
    chance = random.Random(seed)
    horizon = chance.randrange(8, 64)
    ages = sorted(chance.sample(range(horizon), chance.randrange(1, 4)))
    losses = sorted(10 ** chance.uniform(-1.5, 0.7) for _ in ages)
    return dict(zip(ages, losses, strict=True)), horizon


def least_error(targets: dict[int, float], horizon: int, *, starts: int, seed: int) -> float:
    """The least mean squared error over all head starts, each searched by scipy's differential
    evolution from some starts.

    It uses nothing of the planner. The best budgets are made a mechanism, whose public losses and
    error count.
    """
    return min(
        _Budgets(targets, horizon, head_start).least_error(seed + start)
        for head_start in range(horizon.bit_length())
        for start in range(starts)
    )


class _Budgets:
    """Level budgets with a head start: what they lose, item by item, and their error once they are
    scaled to the targets.

    The recursion of docs/theory.md, section 6, for all items up to one tree above, without any of
    the shortcuts of the library. Past the levels that the horizon reaches, the last budget with
    noise goes on.
    """

    def __init__(self, targets: dict[int, float], horizon: int, head_start: int) -> None:
        self._head_start, self._horizon = head_start, horizon
        clocks = np.arange(1 << head_start, horizon + (1 << head_start))
        self._levels = int(clocks[-1]).bit_length()
        self._shares = np.array([np.mean(clocks >> level > 0) for level in range(self._levels)])
        limits = {**targets, horizon: max(targets.values())}
        first = [
            np.arange(1 << head_start, 4 << max(head_start, (age + 1).bit_length()))
            for age in limits
        ]
        self._first = np.concatenate(first)
        self._last = np.concatenate([each + age for each, age in zip(first, limits, strict=True)])
        self._most = np.concatenate(
            [np.full(len(each), loss) for each, loss in zip(first, limits.values(), strict=True)]
        )

    def least_error(self, seed: int) -> float:
        """By a global search, and a search downhill from its result."""
        search: Any = differential_evolution
        sides = [(-1.5, 1.5)] * self._levels
        how = {
            "vectorized": True,
            "updating": "deferred",
            "polish": False,
            "popsize": 12,
            "tol": 1e-4,
        }
        found = search(lambda logs: self._errors(logs.T), sides, seed=seed, **how)
        downhill: Any = minimize
        options = {"maxfev": 600, "xatol": 1e-4, "fatol": 1e-7}
        last = downhill(
            lambda logs: float(self._errors(logs[None])[0]),
            found.x,
            method="Nelder-Mead",
            options=options,
        )
        budgets = self._scaled((last if last.fun < found.fun else found).x[None])[0]
        later = budgets[np.isfinite(budgets)][-1]
        mechanism = fc.Designed(
            budgets=(*budgets.tolist(), float(later)), head_start=self._head_start
        )
        for first, last_clock, most in zip(self._first, self._last, self._most, strict=True):
            assert mechanism.loss(int(last_clock - first)) <= most * (1.0 + 1e-9)
        return mechanism.mse(self._horizon)

    def _errors(self, logs: Array) -> Array:
        """Logarithms of the mean squared errors."""
        budgets = self._scaled(logs)
        noise = np.where(
            np.isinf(budgets), 0.0, 0.5 / np.sinh(0.5 * np.minimum(budgets, 600.0)) ** 2
        )
        errors: Array = np.log(noise @ self._shares)
        return errors

    def _scaled(self, logs: Array) -> Array:
        """Up to the targets. A level that costs no less than both halves is never shifted: it needs
        no noise."""
        budgets = np.exp(logs)
        whole, later = budgets[:, 0], budgets[:, 0]
        for level in range(1, self._levels):
            idle = budgets[:, level] >= 2.0 * whole
            budgets[idle, level] = np.inf
            whole, later = (
                np.minimum(budgets[:, level], 2.0 * whole),
                np.where(idle, later, budgets[:, level]),
            )
        scaled: Array = budgets / (self._losses(budgets, later) / self._most).max(
            axis=1, keepdims=True
        )
        return scaled

    def _losses(self, budgets: Array, later: Array) -> Array:
        first, last = self._first, self._last
        own = [np.minimum(budgets[:, at : at + 1], 1e9) for at in range(self._levels)]
        own += [later[:, None]] * (int(last.max()).bit_length() - self._levels)
        whole = own[:1]
        for each in own[1:]:
            whole.append(np.minimum(each, 2.0 * whole[-1]))
        tree, last_tree, meeting = (np.frexp(each)[1] - 1 for each in (first, last, first ^ last))
        apart = tree < last_tree
        zero = right = np.repeat(own[0], len(first), axis=1)
        one = np.zeros_like(zero)
        for level in range(len(own) - 1):
            bit, last_bit, up = first >> level & 1 == 1, last >> level & 1 == 1, own[level + 1]
            climbs = level < np.where(apart, tree, meeting)
            above = climbs | ~apart & (level < tree)
            zero = np.where(
                climbs & ~bit | apart & (tree < level) & (level < last_tree),
                zero + whole[level],
                zero,
            )
            zero = np.where(~apart & (level == meeting), zero + right, zero)
            one = np.where(above & (level != meeting) & bit | climbs & bit, one + whole[level], one)
            relaxed = np.minimum(zero, one + up), np.minimum(one, zero + up)
            zero, one = (np.where(above, *each) for each in zip(relaxed, (zero, one), strict=True))
            seen = np.minimum(np.where(last_bit, right + whole[level], right), up)
            right = np.where(level < np.where(apart, last_tree, meeting), seen, right)
        losses: Array = np.where(apart, zero + right, zero)
        return losses
