"""A short version of ``python -m campaigns.figures.accuracy``, on made-up events."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

pl = pytest.importorskip("polars")

from campaigns.figures.accuracy import FIRST, LARGEST, errors  # noqa: E402 - needs polars

CHANCE = 1.15
"""Room for chance: with 45 keys and 15 days the roots below vary by about 3 % (an hour: 1 %), so
that a false alarm is rarer than one in 10^5 runs."""


def test_figures_of_a_run_are_as_exact_as_the_plan_promises() -> None:
    random, days, events = np.random.default_rng(26), 15, 20_000
    seconds = random.integers(0, days * 86_400, events)
    frame = pl.DataFrame(
        {
            "at": [FIRST + timedelta(seconds=int(second)) for second in seconds],
            "key": [f"k{key}" for key in random.integers(0, 45, events)],
        }
    )
    found = errors(frame, days)
    assert found.keys() == LARGEST.keys()
    for name, error in found.items():
        assert error**0.5 <= CHANCE * LARGEST[name], name
        assert error**0.5 >= LARGEST[name] / 2, f"{name}: there must be noise"
