"""Gaussian streams: releases are those of one counter, across restarts, gaps and new keys; losses
follow from mu."""

from __future__ import annotations

import numpy as np

import fadecount as fc
from fadecount.counters.counter import Counter
from fadecount.mechanisms import Unit
from fadecount.mechanisms.gaussian_law import epsilon_at
from fadecount.streams import Ticks
from fadecount.streams.description import Description
from tests.counters.test_memories import Waves
from tests.streams.backends import Backend
from tests.streams.test_contract import released

MECHANISM = fc.Gaussian(
    sigma=4.0, half_lives=(30, 2.5, 0.75), weights=(0.01, 0.14, 0.25, 0.6), delay=1
)


def describe(unit: Unit) -> Description:
    return Description(name="doors", mechanism=MECHANISM, ticks=Ticks(tick_seconds=60), unit=unit)


def test_releases_are_those_of_one_counter_across_restarts(backend: Backend) -> None:
    rows = np.arange(80, dtype=np.int64).reshape(40, 2) % 7
    store = backend.open(noise=Waves())  # type: ignore[arg-type]
    stream = store.create(describe(Unit()), keys=("a", "b"), start_tick=100)
    for step, row in enumerate(rows[:30]):
        stream.add({"a": int(row[0]), "b": int(row[1])})
        stream.close_through(100 + step)
        if step % 7 == 3:
            store.close()
            store = backend.open(noise=Waves())  # type: ignore[arg-type]
            stream = store.open("doors")
    list(stream.release(130, rows[30:]))
    store.close()
    want = Counter._with_noise(MECHANISM, Waves(), width=2).extend(rows)
    np.testing.assert_array_equal(released(backend), want)


def test_a_larger_unit_has_the_loss_of_its_mu(backend: Backend) -> None:
    with backend.open() as store:
        store.create(describe(Unit(amount=5)), keys=("a",), start_tick=100)
        loss = store.open("doors").status.loss
    mu = float(np.asarray(MECHANISM.mu(61)))
    assert (
        epsilon_at(5 * mu * (1 - 1e-6), MECHANISM.delta)
        <= loss.at_age(61).epsilon
        <= epsilon_at(5 * mu * (1 + 1e-9), MECHANISM.delta)
    )
    assert loss.at_age(61).epsilon > 5 * MECHANISM.loss(61)
