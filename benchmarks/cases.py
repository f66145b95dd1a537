"""The work that is measured: the floor, and what fadecount does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fadecount as fc
from benchmarks.measure import FLOOR, Case
from fadecount.noise import DiscreteLaplace, KeyedNoise
from fadecount.noise.generator import words

MECHANISM = fc.Gradual(epsilon=0.1, exponent=2.0)
BLOCKS = fc.Blocks(
    fc.Level(1, 0.246),
    fc.Level(12, 0.254, later=((61, 0.320),)),
    fc.Level(60, 0.618, lag=61),
    fc.Level(1440, 0.816, lag=61, later=((43201, 1.577),)),
    fc.Level(43200, 1.239, lag=43201),
)
SCALE = 10.0
ITEMS = 10**6
KEYS = 10**5
STEPS = 1 << 12
ROWS = 16
DRAWS = 1 << 20


def floor() -> Case:
    """Two values per item from numpy's generator: not exact, not cryptographic, and without the
    counter around it."""
    generator = np.random.Generator(np.random.PCG64())
    return Case(FLOOR, ITEMS, lambda: generator.laplace(scale=SCALE, size=2 * ITEMS))


def counters() -> list[Case]:
    scalar, single = fc.Counter(MECHANISM), fc.Counter(MECHANISM)
    rows, row = fc.Counter(MECHANISM, shape=(KEYS,)), fc.Counter(MECHANISM, shape=(KEYS,))
    items = np.ones(ITEMS, dtype=np.int64)
    keyed = np.ones((ROWS, KEYS), dtype=np.int64)
    return [
        Case("extend, 10^6 items, scalar", ITEMS, lambda: scalar.extend(items), ours=True),
        Case(
            "extend, shape (10^5,), per key and step",
            ROWS * KEYS,
            lambda: rows.extend(keyed),
            ours=True,
        ),
        Case(
            "step, shape (10^5,), per key and step",
            ROWS * KEYS,
            _repeated(row.step, list(keyed)),
            ours=True,
        ),
        Case("step, scalar, one call", STEPS, _repeated(single.step, [1] * STEPS), ours=True),
    ]


def block_counters() -> list[Case]:
    """The same work with blocks: a year of minutes with hours, days and months. Rows go through
    whole blocks, so that each pays its share of those that end."""
    scalar, single = fc.Counter(BLOCKS), fc.Counter(BLOCKS)
    rows, row = fc.Counter(BLOCKS, shape=(KEYS,)), fc.Counter(BLOCKS, shape=(KEYS,))
    items = np.ones(ITEMS, dtype=np.int64)
    keyed = np.ones((20, KEYS), dtype=np.int64)
    return [
        Case("Blocks extend, 10^6 items, scalar", ITEMS, lambda: scalar.extend(items), ours=True),
        Case(
            "Blocks extend, shape (10^5,), per key and step",
            20 * KEYS,
            lambda: rows.extend(keyed),
            ours=True,
        ),
        Case(
            "Blocks step, shape (10^5,), per key and step",
            20 * KEYS,
            _repeated(row.step, list(keyed)),
            ours=True,
        ),
        Case(
            "Blocks step, scalar, one call", STEPS, _repeated(single.step, [1] * STEPS), ours=True
        ),
    ]


def draws() -> list[Case]:
    distribution, room = DiscreteLaplace(SCALE), np.empty(DRAWS, dtype=np.int64)
    return [
        Case("one exact draw in bulk", DRAWS, lambda: distribution.fill(room, words), ours=True)
    ]


def keyed_draws() -> list[Case]:
    """Noise derived from a secret: 100 nodes of 1,000 keys, whose words the distribution then turns
    into draws."""
    names = {"epoch": "e", "stream": "s", "mechanism": "m"}
    noise = KeyedNoise(bytes(32), **names, keys=[str(at) for at in range(1000)])
    distribution = DiscreteLaplace(SCALE)
    return [
        Case(
            "one keyed draw, 1,000 keys",
            100_000,
            lambda: noise.many(distribution, 0, range(1), range(1, 101), 1000),
            ours=True,
        )
    ]


def _repeated(step: Callable[[Any], object], items: list[Any]) -> Callable[[], object]:
    def work() -> None:
        for item in items:
            step(item)

    return work
