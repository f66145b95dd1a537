"""The audit: run a mechanism on neighbouring streams, find an event that distinguishes them, and
bound the loss from below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fadecount import Blocks, Counter, Gaussian, Mechanism
from fadecount.audit.event import Outputs, best_event, largest, learn, loss_shown, mu_shown
from fadecount.checks import require_integer, require_real
from fadecount.errors import ParameterError
from fadecount.mechanisms import ANNOUNCED
from fadecount.mechanisms.gaussian_law import epsilon_at

LONGEST_AGE = 255
POSITIONS = 64
LONGEST_BLOCK = 4096
"""Longer blocks are not attacked: every run would have to count through one of them."""
_RUNS_AT_ONCE = 50_000

Rows = NDArray[np.int64]
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
    probability.

    For Gaussian noise it is the epsilon, at the mechanism's delta, of a lower bound on ``mu``.
    """
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
    progress: Callable[[float], object] | None = None,
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
    if position is not None or not isinstance(mechanism, Mechanism):
        remedy = "the first step of a stream is step 1"
        given = 1 if position is None else position
        position = require_integer(
            "position", given, minimum=1, maximum=LONGEST_BLOCK, remedy=remedy
        )
    runs: Mechanism | Runs | None = running
    if runs is None and isinstance(mechanism, Mechanism):
        runs = mechanism
    if runs is None:
        raise ParameterError(
            "running must be given with a claim, got None; it is the function that is audited"
        )
    error, report = false_alarm / len(checked), progress or (lambda _runs: None)
    return [
        _one_age(mechanism, runs, age, position, samples // 2, error, report) for age in checked
    ]


def _one_age(
    mechanism: Claim,
    running: Mechanism | Runs,
    age: int,
    position: int | None,
    half: int,
    error: float,
    progress: Callable[[float], object],
) -> Finding:
    if position is None:
        assert isinstance(mechanism, Mechanism)
        position = _worst_position(mechanism, age)
    outputs = partial(_outputs, running, position, age, half, progress)
    without, having = outputs(item=0), outputs(item=1)
    gaussian = mechanism if isinstance(mechanism, Gaussian) else None
    score = largest if isinstance(running, Blocks) else learn(without, having)
    event = best_event(score, without, having, error, gaussian=gaussian is not None)
    empty, item = event.count(outputs(item=0)), event.count(outputs(item=1))
    likely, rare = (item, empty) if event.upwards else (empty, item)
    return Finding(
        age=age,
        position=position,
        claimed=mechanism.loss(age) if isinstance(mechanism, Mechanism) else float(mechanism(age)),
        shown=loss_shown(likely, rare, half, error)
        if gaussian is None
        else (1.0 - 1e-9) * epsilon_at(mu_shown(likely, rare, half, error), gaussian.delta),
        likely=likely,
        rare=rare,
        samples=half,
    )


def _worst_position(mechanism: Mechanism, age: int) -> int:
    """The position that loses most among the first ones; of block counters the first that ends a
    block of every level, which loses most at every age."""
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
    """The figures of the blocks that hold the position, at all stages, and for each tied one of
    them the announced difference plus its children, beside its own figure if that is out.

    The other figures depend on the item only through these sums, and the live totals are functions
    of figures.
    """
    assert isinstance(counter.mechanism, Blocks)
    levels = counter.mechanism.levels
    figures: dict[tuple[int, int], Rows] = {}
    announced = [np.zeros(counter.shape, dtype=np.int64) for _ in (*levels, None)]
    for row in inputs:
        counter.step(row)
        for level, start, end, stage, value in counter.figures():
            if start < position <= end and stage == ANNOUNCED:
                announced[level] += value
            elif start < position <= end:
                figures[level, stage] = np.asarray(value)
            larger = levels[min(level + 1, len(levels) - 1)].length
            if stage == 0 and (end - 1) // larger == (position - 1) // larger:
                announced[level + 1] += value
    ties = [
        figures[number, 0] - announced[number] if (number, 0) in figures else announced[number]
        for number, level in enumerate(levels)
        if level.tied and (number - 1, 0) in figures
    ]
    return np.array([*figures.values(), *ties], dtype=np.int64).reshape(-1, *counter.shape)
