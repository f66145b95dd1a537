"""Which ages are drawn."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fadecount.plots import spread_ages


@given(st.integers(1, 2**60))
def test_spread_ages_rise_within_the_horizon_and_hold_both_sides_of_every_jump(
    horizon: int,
) -> None:
    ages = spread_ages(horizon)
    assert np.all(np.diff(ages) > 0)
    assert ages[0] == 0
    assert ages[-1] == horizon - 1
    jumps = [(1 << level) - 1 + side for level in range(1, 60) for side in (-1, 0)]
    assert {age for age in jumps if 0 <= age < horizon} <= set(ages.tolist())
