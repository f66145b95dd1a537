"""An event that distinguishes two streams well, found on samples of both.

An output sequence gets a *score*: an estimate of its log-likelihood ratio, learnt without knowing
how the mechanism works. The outputs are decorrelated one after the other (subtracting what the
earlier ones predict linearly), the distribution of each result is estimated by a histogram on
either side, and the logarithms of the ratios are added up. An event is a score beyond a threshold.
The audit is valid even if the score is bad: a bad score finds less, never too much, because the
event is tested on samples that were not used to find it, by the exact bounds of Clopper and Pearson
on the two probabilities.

Figures of blocks need no learning. If each is a count with symmetric geometric noise of its own,
the event that all of them are at most the counts without the item shows the whole loss
(:func:`largest`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fadecount.mechanisms.gaussian_law import normal_quantile

Outputs = NDArray[np.float64]
"""One row per step, one column per run."""

BINS = 64
_OFTEN, _SELDOM = (0.7, 0.5, 0.35, 0.25, 0.18, 0.12), (0.08, 0.05, 0.03, 0.02, 0.01)
SHARES = (*_OFTEN, *_SELDOM, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)


@dataclass(frozen=True, slots=True)
class Score:
    """From outputs to an estimate of how much likelier they are with the item than without."""

    whitening: NDArray[np.float64]
    edges: list[NDArray[np.float64]]
    ratios: list[NDArray[np.float64]]

    def __call__(self, outputs: Outputs) -> NDArray[np.float64]:
        total = np.zeros(outputs.shape[1])
        for row, edges, ratios in zip(
            self.whitening @ outputs, self.edges, self.ratios, strict=True
        ):
            total += ratios[np.searchsorted(edges, row, side="right")]
        return total


@dataclass(frozen=True, slots=True)
class Event:
    """Scores from a threshold on, upwards (likelier with the item) or downwards (likelier
    without)."""

    score: Callable[[Outputs], NDArray[np.float64]]
    threshold: float
    upwards: bool

    def among(self, scores: NDArray[np.float64]) -> int:
        """How many of some scores it holds."""
        beyond = scores >= self.threshold if self.upwards else scores <= self.threshold
        return int(np.count_nonzero(beyond))

    def count(self, outputs: Outputs) -> int:
        """How many of some outputs it holds."""
        return self.among(self.score(outputs))


def learn(without: Outputs, having: Outputs) -> Score:
    """The score that samples of both streams suggest."""
    covariance = np.atleast_2d(np.cov(without))
    # Outputs of a delay do not vary.
    jitter = 1e-9 * (1.0 + np.trace(covariance)) * np.eye(len(covariance))
    whitening = np.linalg.inv(np.linalg.cholesky(covariance + jitter))
    edges, ratios = [], []
    for before, after in zip(whitening @ without, whitening @ having, strict=True):
        cuts = np.unique(
            np.quantile(np.concatenate([before, after]), np.arange(1, BINS) / BINS, method="higher")
        )
        counts = [
            np.bincount(np.searchsorted(cuts, each, side="right"), minlength=len(cuts) + 1)
            for each in (before, after)
        ]
        edges.append(cuts)
        ratios.append(np.log((counts[1] + 1.0) / (counts[0] + 1.0)))
    return Score(whitening, edges, ratios)


def largest(outputs: Outputs) -> NDArray[np.float64]:
    """A score that needs no samples: the largest output, or 0 if all are below.

    With the item it is 0 if each noise is at most -1. Where no noise is above 0, lowering one by 1
    makes it less likely by exactly its budget, also if the others are in a chain with it.
    """
    scores: NDArray[np.float64] = np.max(outputs, axis=0, initial=0.0)
    return scores


def best_event(
    score: Callable[[Outputs], NDArray[np.float64]],
    without: Outputs,
    having: Outputs,
    error: float,
    *,
    gaussian: bool = False,
) -> Event:
    """The event that would show about the largest loss (or ``mu``) on these samples, by the normal
    approximation."""
    scores = score(without), score(having)
    largest, best_event = -math.inf, Event(score, math.inf, True)
    for share in SHARES:
        for upwards in (True, False):
            likely, rare = scores[::-1] if upwards else scores
            quantile = 1.0 - share if upwards else share
            event = Event(score, float(np.quantile(likely, quantile, method="nearest")), upwards)
            often, seldom = (event.among(each) for each in (likely, rare))
            if gaussian:
                shown = mu_shown(often, seldom, len(likely), error)
            else:
                spread = 1 / often + 1 / max(seldom, 1)
                shown = math.log(often / max(seldom, 1))
                shown -= math.sqrt(2.0 * math.log(1.0 / error) * spread)
            if shown > largest:
                largest, best_event = shown, event
    return best_event


def loss_shown(likely: int, rare: int, samples: int, error: float) -> float:
    """A lower bound on the loss from an event's counts on two streams, too high with chance at most
    ``error``; never below 0."""
    low, high = _bounds(likely, rare, samples, error)
    return max(0.0, math.log(low / high)) if low else 0.0


def mu_shown(likely: int, rare: int, samples: int, error: float) -> float:
    """A lower bound on ``mu`` from an event's counts on two streams, too high with chance at most
    ``error``; never below 0.

    No test of a ``mu``-Gaussian private mechanism finds an event with chance p on one stream and q
    on the other such that the normal quantiles of p and q are farther apart than ``mu``.
    """
    low, high = _bounds(likely, rare, samples, error)
    return max(0.0, _quantile(low) - _quantile(high)) if low > 0.0 and high < 1.0 else 0.0


def _quantile(chance: float) -> float:
    return -normal_quantile(chance) if chance <= 0.5 else normal_quantile(1.0 - chance)


# The bounds of Clopper and Pearson
# ------------------------------------------------------------------------------------------------
def _bounds(likely: int, rare: int, samples: int, error: float) -> tuple[float, float]:
    """A lower and an upper bound on two probabilities, both right but for a chance ``error``."""
    return lower_bound(likely, samples, 0.5 * error), upper_bound(rare, samples, 0.5 * error)


def lower_bound(seen: int, trials: int, error: float) -> float:
    """A probability that the true one is below with chance at most ``error``.

    >>> round(lower_bound(90, 100, 0.025), 4)
    0.8238
    """
    low, high = 0.0, float(seen > 0)
    while low < (middle := 0.5 * (low + high)) < high and high - low > 1e-14 * high:
        too_low = at_least(seen, trials, middle) < error  # rounding makes the bound lower
        low, high = (middle, high) if too_low else (low, middle)
    return low


def upper_bound(seen: int, trials: int, error: float) -> float:
    """A probability that the true one is above with chance at most ``error``.

    >>> round(upper_bound(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 - lower_bound(trials - seen, trials, error)


def at_least(seen: int, trials: int, p: float) -> float:
    """The chance of at least ``seen`` (from 1 on) successes in ``trials`` of probability ``p``: the
    sum of the terms that matter."""
    if not 0.0 < p < 1.0:
        return float(p >= 1.0)
    if p * (trials + 1) > seen:  # terms that grow first: the other tail has only falling ones
        return 1.0 - at_least(trials - seen + 1, trials, 1.0 - p)
    rest = trials - seen
    first = math.lgamma(trials + 1) - math.lgamma(seen + 1) - math.lgamma(rest + 1)
    first += seen * math.log(p) + rest * math.log1p(-p)
    terms = np.arange(seen, min(trials, seen + 1000 + 40 * math.isqrt(seen)), dtype=np.float64)
    ratios = (trials - terms) / (terms + 1.0) * (p / (1.0 - p))
    return math.exp(first) * (1.0 + float(np.cumprod(ratios).sum()))
