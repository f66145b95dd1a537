"""What a real counter releases, seen from outside: covariances between steps, and an audit of its
privacy loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fadecount as fc
from tests.counters.scripted import names_in_use
from tests.false_alarm import EACH, explained
from tests.mechanisms.any_levels import AnyLevels

KEYS = 100_000
STEPS = 10
DEVIATIONS = 7.0
"""A normal variable is farther off with probability 3e-12. Means of KEYS products of Laplace
variables are skewed, which makes it at most ten times as likely: less than EACH for each
covariance."""

COVARIED: list[fc.Mechanism] = [
    fc.Gradual(epsilon=0.5, exponent=1.5, delay=1),
    AnyLevels(budgets=(0.5, math.inf, 0.2)),
    fc.Refresh(window=3, epsilon_current=0.8, epsilon_past=0.3),
    fc.Binary(epsilon=1.5, horizon=STEPS),
]


@pytest.mark.parametrize("mechanism", COVARIED, ids=repr)
def test_steps_covary_by_the_variables_they_share(mechanism: fc.Mechanism) -> None:
    noise = _noise(mechanism)
    shared = _covariances(mechanism)
    off = _deviations(noise, shared)
    assert off.max() < DEVIATIONS, explained(
        f"covariances off by {off.max():.1f} standard errors", float(stats.norm.sf(off.max()))
    )
    fresh = np.diag(np.diag(shared))
    assert _deviations(noise, fresh).max() > DEVIATIONS, "cannot tell reused noise from fresh noise"
    for wrong in (2 / 3, 3 / 2):
        assert _deviations(noise, shared * wrong**2).max() > DEVIATIONS, "cannot tell a wrong scale"


def _noise(mechanism: fc.Mechanism) -> NDArray[np.float64]:
    """The outputs of a counter of zeros: steps one by one, then many at once, then resumed."""
    counter = fc.Counter(mechanism, shape=(KEYS,))
    zeros = np.zeros((STEPS, KEYS), dtype=np.int64)
    rows = [*(counter.step(zeros[0]) for _ in range(3)), *counter.extend(zeros[:4])]
    counter = fc.Counter.resume(counter.save())
    return np.array([*rows, *counter.extend(zeros[:2]), counter.step(zeros[0])], dtype=np.float64)


def _covariances(mechanism: fc.Mechanism) -> NDArray[np.float64]:
    used = [names_in_use(mechanism, step) for step in range(1, STEPS + 1)]
    return np.array(
        [
            [sum(_variance(one[name]) for name in one.keys() & other.keys()) for other in used]
            for one in used
        ]
    )


def _variance(budget: float) -> float:
    q = math.exp(-budget)
    return 2.0 * q / (1.0 - q) ** 2


def _deviations(noise: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many standard errors each mean product is away from its expectation."""
    products = noise[:, np.newaxis] * noise[np.newaxis]
    errors = products.std(axis=2) / math.sqrt(KEYS)
    return np.asarray(np.abs(products.mean(axis=2) - wanted) / np.maximum(errors, 1e-9))


AUDITED: list[tuple[fc.Mechanism, fc.Mechanism]] = [
    (fc.Gradual(epsilon=1.0, exponent=2.0), fc.Gradual(epsilon=1.5, exponent=2.0)),
    (
        fc.Gradual(epsilon=1.0, exponent=0.0, delay=2),
        fc.Gradual(epsilon=1.5, exponent=0.0, delay=2),
    ),
    (AnyLevels(budgets=(1.0, 0.2)), AnyLevels(budgets=(1.5, 0.2))),
    (fc.Linear(epsilon=1.0), fc.Linear(epsilon=1.5)),
    (fc.Binary(epsilon=3.0, horizon=7), fc.Binary(epsilon=4.5, horizon=7)),
    (
        fc.Refresh(window=7, epsilon_current=3.0, epsilon_past=0.1),
        fc.Refresh(window=7, epsilon_current=4.5, epsilon_past=0.1),
    ),
]
SAMPLES = 300_000
SHARP = 0.9


@pytest.mark.parametrize(("mechanism", "leaky"), AUDITED, ids=lambda mechanism: repr(mechanism))
def test_an_audit_finds_the_loss_that_is_claimed(
    mechanism: fc.Mechanism, leaky: fc.Mechanism
) -> None:
    """The first item at its first output is the tight case: an observer can learn just the claimed
    loss, not more."""
    claimed = mechanism.loss(mechanism.delay, position=1)
    found = _audit(mechanism)
    print(
        f"{mechanism!r}: an observer has learnt at least {found:.4f}, and may learn {claimed:.4f}"
    )
    assert found <= claimed, explained(
        f"loss of at least {found:.4f} where {claimed:.4f} was claimed", EACH
    )
    assert found >= SHARP * claimed, f"the audit found {found:.4f} of {claimed:.4f}"
    assert _audit(leaky) > claimed, "the audit would not find a counter with too little noise"


def _audit(mechanism: fc.Mechanism) -> float:
    """A lower bound on the loss that holds with probability 1 - EACH: Clopper-Pearson bounds on the
    event "at least 1"."""
    with_item, without = (int((_first_output(mechanism, first) >= 1).sum()) for first in (1, 0))
    likely = stats.binomtest(with_item, SAMPLES).proportion_ci(1.0 - EACH, method="exact").low
    rare = stats.binomtest(without, SAMPLES).proportion_ci(1.0 - EACH, method="exact").high
    return math.log(likely / rare)


def _first_output(mechanism: fc.Mechanism, first: int) -> NDArray[np.int64]:
    counter = fc.Counter(mechanism, shape=(SAMPLES,))
    rows = np.zeros((mechanism.delay + 1, SAMPLES), dtype=np.int64)
    rows[0] = first
    return np.asarray(counter.extend(rows)[-1])
