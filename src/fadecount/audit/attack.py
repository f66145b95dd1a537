"""The audit: run a mechanism on neighbouring streams, find an event that distinguishes them, and
bound the loss from below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fadecount import Counter, Gaussian, Mechanism
from fadecount.audit.event import Outputs, best_event, learn, loss_shown, mu_shown
from fadecount.checks import require_integer, require_real
from fadecount.errors import ParameterError
from fadecount.mechanisms.gaussian_law import epsilon_at

LONGEST_AGE = 255
POSITIONS = 64
_RUNS_AT_ONCE = 50_000


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
    mechanism: Mechanism,
    ages: Sequence[int],
    *,
    samples: int = 400_000,
    false_alarm: float = 1e-6,
    running: Mechanism | None = None,
    progress: Callable[[float], object] | None = None,
) -> list[Finding]:
    """Lower bounds on the loss at some ages, from ``samples`` runs on each of two streams that
    differ in one item.

    One half of the runs is used to find an event that is likely on one stream and rare on the
    other; the other half is used to test it, by Clopper-Pearson bounds. Guarantees: if the
    mechanism keeps its claim, the chance that any finding refutes it is at most ``false_alarm``.
    Assumes nothing about the mechanism. ``running`` is the mechanism that actually runs, if it
    differs from the one whose claim is audited: this shows that an audit can fail. The item audited
    at an age is the one among the first positions that loses most. ``progress`` is called with the
    number of runs done.
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
    error, told = false_alarm / len(checked), progress or (lambda _runs: None)
    return [
        _one_age(mechanism, running or mechanism, age, samples // 2, error, told) for age in checked
    ]


def _one_age(
    mechanism: Mechanism,
    running: Mechanism,
    age: int,
    half: int,
    error: float,
    progress: Callable[[float], object],
) -> Finding:
    position = _worst_position(mechanism, age)
    steps = position + age
    without, having = (_outputs(running, steps, item, half, progress) for item in (None, position))
    gaussian = mechanism if isinstance(mechanism, Gaussian) else None
    event = best_event(
        learn(without, having), without, having, error, gaussian=gaussian is not None
    )
    empty, item = (
        event.count(_outputs(running, steps, each, half, progress)) for each in (None, position)
    )
    likely, rare = (item, empty) if event.upwards else (empty, item)
    return Finding(
        age=age,
        position=position,
        claimed=mechanism.loss(age),
        shown=loss_shown(likely, rare, half, error)
        if gaussian is None
        else (1.0 - 1e-9) * epsilon_at(mu_shown(likely, rare, half, error), gaussian.delta),
        likely=likely,
        rare=rare,
        samples=half,
    )


def _worst_position(mechanism: Mechanism, age: int) -> int:
    last = mechanism.schedule.horizon
    most = POSITIONS if last is None else min(POSITIONS, last - age)
    if most < 1:
        raise ParameterError(
            f"age must be below the horizon, {last}, got {age}; no item gets so old"
        )
    losses = mechanism.loss(age, position=np.arange(1, most + 1))
    return int(np.argmax(losses)) + 1


def _outputs(
    mechanism: Mechanism,
    steps: int,
    item: int | None,
    runs: int,
    progress: Callable[[float], object],
) -> Outputs:
    """What an observer sees in independent runs on the empty stream, or on one with a single item
    at a position."""
    seen = np.empty((steps, runs))
    for start in range(0, runs, _RUNS_AT_ONCE):
        some = seen[:, start : start + _RUNS_AT_ONCE]
        inputs = np.zeros(some.shape, dtype=np.int64)
        if item is not None:
            inputs[item - 1] = 1
        some[:] = Counter(mechanism, shape=(some.shape[1],)).extend(inputs)
        progress(some.shape[1])
    return seen
