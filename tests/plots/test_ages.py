"""Which ages are drawn."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fadecount.plots import spread_ages, thinned


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


@given(st.integers(1, 5000), st.integers(5, 60), st.integers(0, 2**32 - 1))
def test_thinned_keeps_the_extremes_of_every_cell(count: int, cells: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    ages = np.arange(count)
    columns = [generator.normal(size=count) for _ in range(2)]
    kept = thinned(ages, columns, cells=cells)
    cell = np.floor(np.log2(ages + 1.0) * (cells / np.log2(ages[-1] + 2.0)))
    assert np.all(np.diff(kept) > 0)
    assert {0, count - 1} <= set(kept.tolist())
    for values in columns:
        for one in np.unique(cell):
            inside = values[cell == one]
            shown = values[kept[cell[kept] == one]]
            assert shown.min() == inside.min()
            assert shown.max() == inside.max()
    assert len(kept) <= (2 + 2 * len(columns)) * (cells + 1)
