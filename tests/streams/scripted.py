"""Noise that follows from its name, and the released values by definition."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms import CARRY, RunningTotal
from fadecount.noise import DiscreteLaplace


class NamedNoise:
    """Every variable has a value that follows from its name and column; ``drawn`` lists the names
    in the order of drawing."""

    def __init__(self) -> None:
        self.drawn: list[tuple[int, int, int]] = []

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        self.drawn += [(level, r, n) for r in rounds for n in nodes]
        values = [
            [[value_of(level, r, n, column) for column in range(width)] for n in nodes]
            for r in rounds
        ]
        return np.array(values, dtype=np.int64)


def value_of(level: int, round_number: int, node: int, column: int) -> int:
    text = f"{level}/{round_number}/{node}/{column}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=2).digest(), "big") - (1 << 15)


def names_in_use(mechanism: fc.Mechanism, step: int) -> list[tuple[int, int, int]]:
    """The variables in the output of a step, from the rules of the schedule."""
    assert isinstance(mechanism, RunningTotal)
    schedule = mechanism.noise
    if step <= mechanism.delay:
        return []
    rounds, clock = schedule.place(step - mechanism.delay)
    names = [
        (level, rounds, clock >> level)
        for level in range(clock.bit_length())
        if not np.isinf(schedule.budgets[level])
        and (not schedule.alternating or clock >> level & 1)
    ]
    return [*names, (CARRY, rounds, 0)] if rounds else names


def expected(mechanism: fc.Mechanism, inputs: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the definition says is released for these inputs (one row per step), under
    :class:`NamedNoise`."""
    steps, width = inputs.shape
    sums = np.cumsum(inputs, axis=0)
    delay = mechanism.delay
    result = np.zeros_like(inputs)
    for step in range(delay + 1, steps + 1):
        names = names_in_use(mechanism, step)
        noise = [sum(value_of(*name, column) for name in names) for column in range(width)]
        result[step - 1] = sums[step - 1 - delay] + noise
    return result
