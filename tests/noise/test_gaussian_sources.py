"""Gaussian noise from system entropy and from a secret: the law, and the same draw for the same
name on every machine."""

from __future__ import annotations

import os

import numpy as np
import pytest

from fadecount.noise import KeyedNoise, RoundedGaussian, SystemNoise
from tests.false_alarm import EACH, explained
from tests.noise.rounded import chance_of, exact_draw
from tests.noise.test_keyed import _naive_word

DRAWS = 20_000


@pytest.mark.parametrize("scale", [0.7, 30.0, 5e3])
def test_single_and_bulk_draws_from_the_system_have_the_law(scale: float) -> None:
    source, law = SystemNoise(), RoundedGaussian(scale)
    singles = np.array([source.one(law, 0, 0, node) for node in range(DRAWS)])
    bulk = source.many(law, 0, range(1), range(DRAWS), 1).reshape(-1)
    large = source.many(law, 0, range(1), range(3), DRAWS).reshape(-1)
    for what, draws in (("single", singles), ("bulk", bulk), ("large", large)):
        chance = chance_of(draws, scale)
        assert chance > EACH, explained(f"{what} draws at {scale}", chance)
        assert chance_of(draws, 1.5 * scale) < EACH
        assert chance_of(draws, scale / 1.5) < EACH


@pytest.mark.parametrize("scale", [0.7, 30.0, 5e3, 2.0**30])
def test_keyed_draws_follow_the_documented_derivation(scale: float) -> None:
    noise = KeyedNoise.derive(
        bytes(range(32)), epoch="e", stream="s", mechanism="m", keys=["a", "b", "c"]
    )
    draws = noise.many(RoundedGaussian(scale), 0, range(1), range(1, 151), 3)[0]
    for node in range(1, 151):
        for at, key in enumerate("abc"):

            def word(number: int, key: str = key, node: int = node) -> int:
                return _naive_word("e", "s", "m", key, 0, (0, node, number), scale)

            assert draws[node - 1, at] == exact_draw(
                scale,
                word(0),
                lambda asked, word=word: word(asked + 1),  # type: ignore[misc]
            )


@pytest.mark.parametrize("scale", [0.7, 30.0, 5e3])
def test_keyed_draws_have_the_law_and_do_not_depend_on_other_keys(scale: float) -> None:
    secret, law = os.urandom(32), RoundedGaussian(scale)
    names = [f"key {at}" for at in range(50)]
    both = [
        KeyedNoise.derive(secret, epoch="e", stream="s", mechanism="m", keys=keys)
        for keys in (names, names[:7])
    ]
    draws, fewer = (each.many(law, 0, range(1), range(1, 401), len(each.tags))[0] for each in both)
    assert np.array_equal(draws[:, :7], fewer)
    chance = chance_of(draws.reshape(-1), scale)
    assert chance > EACH, explained(f"keyed draws at {scale}", chance)
    assert chance_of(draws.reshape(-1), 1.5 * scale) < EACH
