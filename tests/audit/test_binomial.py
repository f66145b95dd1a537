"""Clopper-Pearson bounds against scipy's."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from fadecount.audit import at_least, lower_bound, upper_bound

CASES = [
    (1, 1),
    (1, 10),
    (10, 10),
    (3, 7),
    (90, 100),
    (1, 10**6),
    (999_999, 10**6),
    (250_000, 10**6),
    (17, 10**7),
    (10**6, 10**6),
]


@pytest.mark.parametrize(("seen", "trials"), CASES)
@pytest.mark.parametrize("error", [0.5, 0.05, 1e-3, 1e-8, 1e-12])
def test_bounds_are_those_of_scipy(seen: int, trials: int, error: float) -> None:
    interval = stats.binomtest(seen, trials, alternative="greater").proportion_ci(
        1.0 - error, method="exact"
    )
    exact = interval.low if error > 1e-9 else stats.beta.ppf(error, seen, trials - seen + 1)
    assert lower_bound(seen, trials, error) == pytest.approx(
        exact, rel=1e-6 if error < 1e-6 else 1e-9
    )
    mirrored = stats.beta.isf(error, trials - seen + 1, seen)
    assert upper_bound(trials - seen, trials, error) == pytest.approx(mirrored, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.2, 0.5, 0.9, 1.0])
def test_tails_are_those_of_scipy(p: float) -> None:
    for seen, trials in CASES:
        assert at_least(seen, trials, p) == pytest.approx(
            stats.binom.sf(seen - 1, trials, p), rel=1e-8, abs=1e-14
        )


def test_nothing_seen_bounds_nothing_below() -> None:
    assert lower_bound(0, 100, 1e-6) == 0.0
    assert upper_bound(100, 100, 1e-6) == 1.0
    assert upper_bound(0, 100, 1e-6) == pytest.approx(1.0 - math.pow(1e-6, 0.01))
