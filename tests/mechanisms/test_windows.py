"""Differences of outputs: their variance, their exact intervals, and how often these hold the
truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from campaigns.windows.__main__ import CASES, coverage
from hypothesis import given, settings
from hypothesis import strategies as st

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.mechanisms import RunningTotal, views_of
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.examples import ALL, half_widths

SIGMAS = 4.5
"""A false alarm of one comparison has a chance below 10**-5."""


@pytest.mark.parametrize("mechanism", ALL, ids=str)
def test_a_window_from_the_beginning_is_the_total(mechanism: RunningTotal) -> None:
    for step in (1, 2, 8, 9, 100, 1000):
        assert mechanism.window_variance(0, step) == pytest.approx(
            float(np.asarray(mechanism.variance(step)))
        )
        assert mechanism.window_interval(0, step, 0.05) == int(half_widths(mechanism, step, 1)[0])


@pytest.mark.parametrize("mechanism", ALL, ids=str)
@settings(max_examples=10)
@given(data=st.data())
def test_many_windows_at_once_are_the_single_ones(
    mechanism: RunningTotal, data: st.DataObject
) -> None:
    pairs = data.draw(
        st.lists(
            st.lists(st.integers(0, 900), min_size=2, max_size=2, unique=True),
            min_size=1,
            max_size=20,
        )
    )
    starts, ends = np.sort(np.array(pairs, dtype=np.int64), axis=1).T
    assert isinstance(mechanism, RunningTotal)
    found = mechanism.half_widths(starts, ends)
    singles = [mechanism.window_interval(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
    assert found.tolist() == singles


def test_no_windows_have_no_widths() -> None:
    none = np.zeros(0, dtype=np.int64)
    blocks = fc.Blocks(fc.Level(1, 0.5))
    assert fc.Gradual(0.5).half_widths(none, none).tolist() == []
    assert views_of(blocks, none, none, none, calendar=blocks.calendar).half_widths(0.05).size == 0


def renewed(mechanism: RunningTotal, first: int, last: int) -> int:
    return int(mechanism.noise.renewed(first, last)[1].sum())


def test_noise_in_use_at_both_ends_cancels() -> None:
    gradual = fc.Gradual(epsilon=0.5)
    assert renewed(gradual, 16, 17) == 2, "only the lowest level was renewed"
    assert renewed(gradual, 15, 16) == 4 + 5, "every level was renewed"
    assert AnyLevels(budgets=(math.inf, 0.5)).window_interval(2, 3) == 0, (
        "the only noise is in both"
    )
    refresh = fc.Refresh(window=4, epsilon_current=0.5, epsilon_past=0.2)
    assert renewed(refresh, 5, 6) == 2
    assert renewed(refresh, 4, 5) == 1 + 2, (
        "the node of the round that ended; a new one and the carry"
    )
    assert fc.Linear(epsilon=0.5).window_variance(0, 1) == 0.0, "nothing is shown yet"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    """A short version of ``python -m campaigns.windows``. The squares of the noise have a kurtosis
    below 10."""
    windows = 20_000
    share, ratio = coverage(CASES[name], windows, seed=5)
    assert abs(share - 0.95) <= 0.002 + SIGMAS * math.sqrt(0.95 * 0.05 / windows)
    assert abs(ratio - 1.0) <= SIGMAS * math.sqrt(9.0 / windows)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 3), (5, 2)])
def test_windows_that_are_none_are_refused(start: int, end: int) -> None:
    with pytest.raises(ParameterError, match=r"(start|end) must be"):
        fc.Gradual(epsilon=1.0).window_variance(start, end)


def test_many_windows_after_very_many_steps() -> None:
    """So many levels are in use that windows cannot be told apart by one number at once."""
    mechanism = fc.Gradual(epsilon=0.5)
    ends = 10**17 + np.arange(64)
    found = mechanism.half_widths(ends - 7, ends)
    singles = [mechanism.window_interval(int(end) - 7, int(end)) for end in ends]
    assert found.tolist() == singles
