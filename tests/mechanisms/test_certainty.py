"""What a loss means: the best guess's success, losses of one person together, and which of two counters loses less."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

import fadecount as fc
from fadecount.mechanisms.comparison import which_loses_less

PURE = fc.Gradual(epsilon=0.5)
GAUSSIAN = fc.Gaussian(sigma=4.0, half_lives=(8, 1), weights=(0.05, 0.25, 0.7), delta=1e-6)


def mu_at(loss: float, delta: float) -> float:
    """The mu of a Gaussian mechanism with this loss, by SciPy."""

    def beyond(mu: float) -> float:
        return float(stats.norm.cdf(-loss / mu + mu / 2) - math.exp(loss) * stats.norm.cdf(-loss / mu - mu / 2)) - delta

    return float(optimize.brentq(beyond, 1e-3, 20.0, xtol=1e-12))


@pytest.mark.parametrize("loss", [0.25, 1.0, 3.0])
def test_the_best_guess(loss: float) -> None:
    assert PURE.certainty(loss) == pytest.approx(math.exp(loss) / (1.0 + math.exp(loss)))
    assert GAUSSIAN.certainty(loss) == pytest.approx(stats.norm.cdf(mu_at(loss, GAUSSIAN.delta) / 2), rel=1e-4)


def test_losses_of_one_person_together() -> None:
    assert PURE.together([0.5, 0.25, 0.125]) == 0.875
    together = GAUSSIAN.together([0.5, 1.0])
    mu = mu_at(0.5, GAUSSIAN.delta) + mu_at(1.0, GAUSSIAN.delta)
    assert mu_at(together, GAUSSIAN.delta) == pytest.approx(mu, rel=1e-3)
    assert mu_at(together, GAUSSIAN.delta) >= mu * (1.0 - 1e-9)


def test_which_loses_less() -> None:
    assert which_loses_less(0, ours="fading", tick_seconds=None) == "fading loses less, or as much, at every age"
    assert which_loses_less(None, ours="fading", tick_seconds=60) == "there is no age from which on fading loses less"
