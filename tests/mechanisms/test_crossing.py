"""Where two loss curves cross for good."""

from __future__ import annotations

import numpy as np
import pytest

import fadecount as fc

PAIRS = [
    (fc.Linear(epsilon=0.1), fc.Gradual(epsilon=0.1)),
    (fc.Refresh(window=7, epsilon_current=0.5, epsilon_past=0.05), fc.Gradual(epsilon=0.1, exponent=2.0)),
    (fc.Refresh(window=31, epsilon_current=0.57, epsilon_past=0.057), fc.Gradual(epsilon=0.13)),
    (fc.Refresh(window=100, epsilon_current=0.5, epsilon_past=0.3), fc.Gradual(epsilon=0.1, exponent=1.5, delay=9)),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_from_the_crossing_on_the_first_never_loses_less(first: fc.Mechanism, second: fc.Mechanism) -> None:
    ages = np.arange(20_000)
    below = np.flatnonzero(np.asarray(first.loss(ages)) < np.asarray(second.loss(ages)))
    assert len(below)
    assert below[-1] < 10_000
    assert fc.crossing_age(first, second) == below[-1] + 1


def test_no_crossing_and_no_start() -> None:
    classical = fc.Binary(epsilon=1.0, horizon=10)
    assert fc.crossing_age(fc.Gradual(epsilon=0.1), fc.Linear(epsilon=0.1)) is None
    assert fc.crossing_age(classical, classical) == 0
    assert fc.crossing_age(classical, fc.Binary(epsilon=2.0, horizon=10)) is None
