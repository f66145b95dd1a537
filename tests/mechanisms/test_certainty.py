"""What a loss means: the best guess's success, losses of one person together, and which of two
counters loses less."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import optimize, stats

import fadecount as fc
from fadecount.mechanisms import Loss

PURE = fc.Gradual(epsilon=0.5)
GAUSSIAN = fc.Gaussian(sigma=4.0, half_lives=(8, 1), weights=(0.05, 0.25, 0.7), delta=1e-6)


def mu_at(loss: float, delta: float) -> float:
    """The mu of a Gaussian mechanism with this loss, by SciPy."""

    def beyond(mu: float) -> float:
        return (
            float(
                stats.norm.cdf(-loss / mu + mu / 2)
                - math.exp(loss) * stats.norm.cdf(-loss / mu - mu / 2)
            )
            - delta
        )

    return float(optimize.brentq(beyond, 1e-3, 20.0, xtol=1e-12))


@pytest.mark.parametrize("loss", [0.25, 1.0, 3.0])
def test_the_best_guess(loss: float) -> None:
    assert Loss(loss).certainty == pytest.approx(math.exp(loss) / (1.0 + math.exp(loss)))
    assert Loss(loss, delta=1e-6).certainty == pytest.approx(stats.norm.cdf(loss / 2))
    assert Loss(0.0).certainty == Loss(0.0, delta=1e-6).certainty == 0.5
    assert min(Loss(1e-30).certainty, Loss(1e-30, delta=1e-6).certainty) > 0.5, (
        "a little is not nothing"
    )


def test_losses_of_one_person_together() -> None:
    assert Loss.together([(Loss(0.5), 1), (Loss(0.25), 2), (Loss(0.0), 9)]) == Loss(1.0)
    assert Loss.together([]) == Loss(0.0)
    assert Loss.together([(Loss(math.inf), 2), (Loss(1.0), 1)]).epsilon == math.inf
    tenths = Loss.together([(Loss(0.1), 3)])
    assert (
        Fraction(tenths.epsilon)
        >= 3 * Fraction(0.1)
        > Fraction(math.nextafter(tenths.epsilon, 0.0))
    )
    together = Loss.together(
        [(Loss(0.1, GAUSSIAN.delta), 2), (Loss(0.0), 1), (Loss(0.2, GAUSSIAN.delta), 1)]
    )
    assert mu_at(together.epsilon, GAUSSIAN.delta) == pytest.approx(0.4, rel=1e-6)
    assert together.amount >= 0.4


@pytest.mark.parametrize(
    "mechanism",
    [PURE, GAUSSIAN, fc.Gaussian.gradual(1000.0, delta=1e-3)],
    ids=["pure", "1e-6", "1e-3"],
)
def test_many_contributions_against_their_exact_loss(mechanism: fc.mechanisms.Mechanism) -> None:
    """Also where each loss is 0 at its delta: 1,000 visits to ``Gaussian.gradual(1000,
    delta=1e-3)`` lose 4.7, not nothing."""
    for visits, now in ((1000, 1), (1000, 1000), (50, 2000)):
        exact = mechanism.loss_of([1] * visits, now)
        assert exact > 0.0
        stated = mechanism.composed_loss([now - 1], units=visits)
        assert exact <= stated.epsilon <= exact * 1.001
        places = list(range(1, now + 1, max(1, now // visits)))
        spread = mechanism.composed_loss([now - place for place in places])
        assert mechanism.loss_of(places, now) <= spread.epsilon
