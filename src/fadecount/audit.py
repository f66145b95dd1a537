"""The audit: run a mechanism on neighbouring streams, find an event of outputs that distinguishes
them, and bound the loss from below, beside the loss that is claimed.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount import Blocks, Counter, Mechanism
from fadecount.checks import require_integer, require_real
from fadecount.errors import ParameterError

__all__ = ["Finding", "audit"]

LONGEST_AGE = 255
POSITIONS = 64
LONGEST_BLOCK = 4096
"""Longer blocks are not attacked: every run would have to count through one of them."""
_RUNS_AT_ONCE = 50_000

Rows = NDArray[np.int64]
Outputs = NDArray[np.float64]
"""One row per step, one column per run."""
Claim = Mechanism | Callable[[int], float]
"""A mechanism, or the loss that somebody claims for each age."""
Runs = Callable[[Rows], ArrayLike]
"""From streams to outputs: one row per step, one column per independent run, in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the outputs up to an age show about an item, beside the claim."""

    age: int
    position: int
    claimed: float
    shown: float
    """A lower bound on the true loss. It is too high with at most the audit's false-alarm
    probability."""
    likely: int
    rare: int
    samples: int
    """How often the event was seen on either stream, and the number of runs on each."""

    @property
    def refuted(self) -> bool:
        """Whether the outputs show more than is claimed."""
        return self.shown > self.claimed


def audit(
    mechanism: Claim,
    ages: Sequence[int],
    *,
    samples: int = 400_000,
    false_alarm: float = 1e-6,
    running: Mechanism | Runs | None = None,
    position: int | None = None,
    progress: Callable[[float], object] = lambda _runs: None,
) -> list[Finding]:
    """Lower bounds on the loss at some ages, from ``samples`` runs on each of two streams that
    differ in one item.

    One half of the runs is used to find an event that is likely on one stream and rare on the
    other; the other half is used to test it, by Clopper-Pearson bounds. Guarantees: if the
    mechanism keeps its claim, the chance that any finding refutes it is at most ``false_alarm``.
    Assumes nothing about the mechanism. The item audited at an age is at ``position``; by default
    it is the one among the first positions that loses most. ``progress`` is called with the number
    of runs done.

    ``running`` is what actually runs, if it differs from the mechanism whose claim is audited: this
    shows that an audit can fail. It may be any function that takes streams, an array of one row per
    step and one column per run, and returns outputs with as many columns, of independent runs. Then
    ``mechanism`` may be a function too, from an age to the claimed loss, and ``position`` is 1 if
    it is not given.

    Of a block counter all figures about the item's blocks are seen together, and the item is the
    last one of a block of every level. Levels longer than ``LONGEST_BLOCK`` are not attacked.
    """
    remedy = f"audit ages from 0 to {LONGEST_AGE}, of which an outsider can see something"
    checked = [
        require_integer("age", age, minimum=0, maximum=LONGEST_AGE, remedy=remedy) for age in ages
    ]
    samples = require_integer(
        "samples", samples, minimum=1000, maximum=10**9, remedy="more runs show more of the loss"
    )
    remedy = "it is the chance that a correct mechanism is refuted, such as 1e-6"
    false_alarm = require_real(
        "false_alarm", false_alarm, low=0.0, high=1.0, open_ends=True, remedy=remedy
    )
    if not checked:
        raise ParameterError("ages must hold at least one age, got none; such as 0, 1, 3, 7")
    if running is None:
        if not isinstance(mechanism, Mechanism):
            raise ParameterError(
                "running must be given with a claim, got None; it is the function that is audited"
            )
        running = mechanism
    if position is None and not isinstance(mechanism, Mechanism):
        position = 1
    if position is not None:
        remedy = "the first step of a stream is step 1"
        require_integer("position", position, minimum=1, maximum=LONGEST_BLOCK, remedy=remedy)
    half, error = samples // 2, false_alarm / len(checked)
    findings = []
    for age in checked:
        place = _worst_position(mechanism, age) if position is None else position
        outputs = partial(_outputs, running, place, age, half, progress)
        without, having = outputs(item=0), outputs(item=1)
        score = largest if isinstance(running, Blocks) else learn(without, having)
        event = best_event(score, without, having, error)
        empty, item = event.count(outputs(item=0)), event.count(outputs(item=1))
        likely, rare = (item, empty) if event.upwards else (empty, item)
        claim = mechanism.loss if isinstance(mechanism, Mechanism) else mechanism
        findings.append(
            Finding(
                age=age,
                position=place,
                claimed=float(claim(age)),
                shown=loss_shown(likely, rare, half, error),
                likely=likely,
                rare=rare,
                samples=half,
            )
        )
    return findings


def _worst_position(mechanism: Claim, age: int) -> int:
    """The position that loses most among the first ones; of block counters the first that ends a
    block of every level, which loses most at every age."""
    assert isinstance(mechanism, Mechanism)
    if isinstance(mechanism, Blocks):
        short = [level.length for level in mechanism.levels if level.length <= LONGEST_BLOCK]
        return max(short, default=1)
    last = mechanism.last_step
    most = POSITIONS if last is None else min(POSITIONS, last - age)
    if most < 1:
        raise ParameterError(
            f"age must be below the horizon, {last}, got {age}; no item gets so old"
        )
    losses = mechanism.loss(age, position=np.arange(1, most + 1))
    return int(np.argmax(losses)) + 1


def _outputs(
    mechanism: Mechanism | Runs,
    position: int,
    age: int,
    runs: int,
    progress: Callable[[float], object],
    *,
    item: int,
) -> Outputs:
    """What an observer sees in independent runs on the empty stream (``item`` 0), or on one with a
    single item at a position."""
    seen = None
    for start in range(0, runs, _RUNS_AT_ONCE):
        width = min(_RUNS_AT_ONCE, runs - start)
        inputs = np.zeros((position + age, width), dtype=np.int8)
        inputs[position - 1] = item
        rows = _seen(mechanism, inputs, position)
        seen = np.empty((len(rows), runs)) if seen is None else seen
        seen[:, start : start + width] = rows
        progress(width)
    assert seen is not None
    return seen


def _seen(mechanism: Mechanism | Runs, inputs: NDArray[np.int8], position: int) -> Rows | Outputs:
    """What is published about streams: running totals, figures, or what a function returns."""
    if isinstance(mechanism, Mechanism):
        counter = Counter(mechanism, shape=inputs.shape[1:])
        if isinstance(mechanism, Blocks):
            return _figures(counter, inputs, position)
        return counter.extend(inputs)
    outputs = np.atleast_2d(np.asarray(mechanism(inputs.astype(np.int64)), dtype=np.float64))
    if outputs.ndim != 2 or outputs.shape[1] != inputs.shape[1] or not np.isfinite(outputs).all():
        raise ParameterError(
            f"running must return finite numbers in {inputs.shape[1]} columns, one for each run,"
            f" got the shape {outputs.shape}; its argument has one column per run too"
        )
    return outputs


def _figures(counter: Counter, inputs: NDArray[np.int8], position: int) -> Rows:
    """The figures of the blocks that hold the position, at all stages. No other figure depends on
    the item, and the live totals are functions of figures."""
    figures: dict[tuple[int, int], Rows] = {}
    for row in inputs:
        counter.step(row)
        for level, start, end, stage, value in counter.figures():
            if start < position <= end:
                figures[level, stage] = np.asarray(value)
    return np.array([*figures.values()], dtype=np.int64).reshape(-1, *counter.shape)


# The event that distinguishes two streams
# ------------------------------------------------------------------------------------------------
BINS = 64
_OFTEN, _SELDOM = (0.7, 0.5, 0.35, 0.25, 0.18, 0.12), (0.08, 0.05, 0.03, 0.02, 0.01)
SHARES = (*_OFTEN, *_SELDOM, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)


Score = Callable[[Outputs], NDArray[np.float64]]
"""From outputs to an estimate of how much likelier they are with the item than without."""


@dataclass(frozen=True, slots=True)
class Event:
    """Scores from a threshold on, upwards (likelier with the item) or downwards (likelier
    without)."""

    score: Score
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

    def score(outputs: Outputs) -> NDArray[np.float64]:
        total = np.zeros(outputs.shape[1])
        for row, cuts, each in zip(whitening @ outputs, edges, ratios, strict=True):
            total += each[np.searchsorted(cuts, row, side="right")]
        return total

    return score


def largest(outputs: Outputs) -> NDArray[np.float64]:
    """A score that needs no samples: the largest output, or 0 if all are below.

    With the item it is 0 if each noise is at most -1. Where no noise is above 0, lowering one by 1
    makes it less likely by exactly its budget, also if the others are in a chain with it.
    """
    scores: NDArray[np.float64] = np.max(outputs, axis=0, initial=0.0)
    return scores


def best_event(score: Score, without: Outputs, having: Outputs, error: float) -> Event:
    """The event that would show about the largest loss on these samples, by the normal
    approximation."""
    scores = score(without), score(having)
    largest, best_event = -math.inf, Event(score, math.inf, True)
    for share in SHARES:
        for upwards in (True, False):
            likely, rare = scores[::-1] if upwards else scores
            quantile = 1.0 - share if upwards else share
            event = Event(score, float(np.quantile(likely, quantile, method="nearest")), upwards)
            often, seldom = (event.among(each) for each in (likely, rare))
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
