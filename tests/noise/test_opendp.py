"""The sampler against OpenDP's, an oracle that nobody here wrote: two samples that may have one
distribution, and must not have another.

OpenDP before 0.14.2 was itself biased by its big-number library, so an older one is no oracle.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from fadecount.noise import DiscreteLaplace
from fadecount.noise.generator import words
from tests.false_alarm import EACH, explained

DRAWS = 20_000
SCALES = [0.4, 1.0, 3.3, 20.0, 300.0, 1e5]


def by_opendp(scale: float, count: int) -> NDArray[np.int64]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    return np.array(dp.m.make_laplace(*space, scale=scale)([0] * count), dtype=np.int64)


def chance_of_one_law(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """The p-value of a chi-square test that two samples have one distribution, over bins with
    enough of both together."""
    both = np.concatenate([left, right])
    edges = np.unique(np.quantile(both, np.arange(1, 40) / 40, method="nearest"))
    table = np.array(
        [
            np.bincount(np.searchsorted(edges, each, side="right"), minlength=len(edges) + 1)
            for each in (left, right)
        ]
    )
    full = table.sum(axis=0) >= 100
    merged = np.column_stack([table[:, full], table[:, ~full].sum(axis=1)])
    merged = merged[:, merged.sum(axis=0) > 0]
    return float(stats.chi2_contingency(merged, correction=False).pvalue)


def test_the_oracle_is_new_enough() -> None:
    assert tuple(int(part) for part in version("opendp").split(".")[:3]) >= (0, 14, 2)


@pytest.mark.parametrize("scale", SCALES)
def test_both_samplers_have_one_law(scale: float) -> None:
    oracle, distribution = by_opendp(scale, DRAWS), DiscreteLaplace(scale)
    draws = distribution.fill(np.empty(DRAWS, dtype=np.int64), words)
    chance = chance_of_one_law(draws, oracle)
    assert chance > EACH, explained(f"scale {scale} against OpenDP", chance)
    other = DiscreteLaplace(1.5 * scale).fill(np.empty(DRAWS, dtype=np.int64), words)
    assert chance_of_one_law(other, oracle) < EACH, "the test cannot tell 3/2 of the scale"
