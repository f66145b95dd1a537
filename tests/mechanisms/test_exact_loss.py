"""The exact loss equals a linear program that scipy solves, for every pair of times and every kind
of budget sequence."""

from __future__ import annotations

import numpy as np
import pytest

import fadecount as fc
from tests.mechanisms.examples import ROUNDS, SEQUENCES
from tests.mechanisms.shift_program import delay_of, losses_by_program

LAST = 64
FAR = 300
PAIRS = [(position, now) for now in range(1, LAST + 1) for position in range(1, now + 1)]
OTHERS: dict[str, fc.Mechanism] = {
    "linear": fc.Linear(epsilon=0.4),
    "binary 64": fc.Binary(epsilon=0.8, horizon=64),
    "binary 1000": fc.Binary(epsilon=0.8, horizon=1000),
}
MECHANISMS = {**SEQUENCES, **ROUNDS, **OTHERS}
LESS = 32
EXHAUSTIVE = {"random", "without noise on some levels", "window 7, past 0.25"}
"""Every pair up to LAST; the others, which differ in little, up to LESS and at random beyond."""


@pytest.mark.no_cover
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_position_and_age_up_to_64(name: str) -> None:
    mechanism = MECHANISMS[name]
    for now in range(1, (LAST if name in EXHAUSTIVE else LESS) + 1):
        _compare(mechanism, [pair for pair in PAIRS if pair[1] == now])


@pytest.mark.no_cover
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "binary 64"])
def test_random_positions_and_ages_up_to_300(name: str) -> None:
    generator = np.random.default_rng(17)
    nows = generator.integers(LESS, FAR, 20, endpoint=True)
    _compare(
        MECHANISMS[name],
        [(int(generator.integers(1, now, endpoint=True)), int(now)) for now in nows],
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("name", MECHANISMS)
def test_scalars_and_arrays_agree(name: str) -> None:
    mechanism = MECHANISMS[name]
    pairs = np.array(PAIRS[:: 1 + len(PAIRS) // 300])
    ages = pairs[:, 1] - pairs[:, 0]
    assert [mechanism.loss(int(age)) for age in ages] == np.asarray(mechanism.loss(ages)).tolist()
    assert [mechanism.paper_loss(int(age)) for age in ages] == np.asarray(
        mechanism.paper_loss(ages)
    ).tolist()
    one_by_one = [
        mechanism.loss(int(now - position), position=int(position)) for position, now in pairs
    ]
    assert one_by_one == np.asarray(mechanism.loss(ages, position=pairs[:, 0])).tolist()


def test_ages_and_positions_are_broadcast() -> None:
    mechanism = fc.Gradual(epsilon=0.5, exponent=2.0)
    table = np.asarray(mechanism.loss(np.arange(5)[:, np.newaxis], position=np.arange(1, 4)))
    assert table.shape == (5, 3)
    assert table[4, 1] == mechanism.loss(4, position=2)
    assert np.array_equal(mechanism.loss(4, position=np.arange(1, 4)), table[4])


def _compare(mechanism: fc.Mechanism, pairs: list[tuple[int, int]]) -> None:
    positions, nows = np.array(pairs).T
    exact = np.asarray(mechanism.loss(nows - positions, position=positions))
    wanted = losses_by_program(mechanism, pairs)
    delayed = nows - positions < delay_of(mechanism)
    assert not exact[delayed].any()
    different = ~np.isclose(exact, wanted, rtol=1e-7, atol=1e-9)
    assert not different.any(), [
        (pairs[at], exact[at], wanted[at]) for at in np.flatnonzero(different)[:5]
    ]
