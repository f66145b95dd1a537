"""Gaussian noise from system entropy has the law."""

from __future__ import annotations

import numpy as np
import pytest

from fadecount.noise import RoundedGaussian, SystemNoise
from tests.false_alarm import EACH, explained
from tests.noise.rounded import chance_of

DRAWS = 20_000


@pytest.mark.parametrize("scale", [300.0, 5e3, 2.0**28])
def test_single_and_bulk_draws_from_the_system_have_the_law(scale: float) -> None:
    source, law = SystemNoise(), RoundedGaussian(scale)
    many = (source.many(law, 0, range(1), range(1), 1) for _ in range(DRAWS))
    singles = np.concatenate([each.ravel() for each in many])
    bulk = source.many(law, 0, range(1), range(DRAWS), 1).reshape(-1)
    large = source.many(law, 0, range(1), range(3), DRAWS).reshape(-1)
    for what, draws in (("single", singles), ("bulk", bulk), ("large", large)):
        chance = chance_of(draws, scale)
        assert chance > EACH, explained(f"{what} draws at {scale}", chance)
        assert chance_of(draws, 1.5 * scale) < EACH
        assert chance_of(draws, scale / 1.5) < EACH
