"""What a loss means: the best guess's success, losses of one person together, and which of two
counters loses less."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import fadecount as fc
from fadecount.mechanisms import Loss


@pytest.mark.parametrize("loss", [0.25, 1.0, 3.0])
def test_the_best_guess(loss: float) -> None:
    assert Loss(loss).certainty == pytest.approx(math.exp(loss) / (1.0 + math.exp(loss)))
    assert Loss(0.0).certainty == 0.5 < Loss(1e-30).certainty, "a little is not nothing"


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
    chances = Loss.together([(Loss(0.5, 0.1), 3), (Loss(0.25), 1), (Loss(0.0, 1e-9), 1)])
    assert chances.epsilon == 1.75
    assert Fraction(chances.delta) >= 3 * Fraction(0.1) + Fraction(1e-9)
    assert chances.delta == pytest.approx(0.3 + 1e-9)


def test_many_contributions_against_their_exact_loss() -> None:
    mechanism = fc.Gradual(epsilon=0.5)
    for visits, now in ((1000, 1), (1000, 1000), (50, 2000)):
        exact = mechanism.loss_of([1] * visits, now)
        assert exact > 0.0
        stated = mechanism.composed_loss([now - 1], times=visits)
        assert exact <= stated.epsilon <= exact * 1.001
        places = list(range(1, now + 1, max(1, now // visits)))
        spread = mechanism.composed_loss([now - place for place in places])
        assert mechanism.loss_of(places, now) <= spread.epsilon
