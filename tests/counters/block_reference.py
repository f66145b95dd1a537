"""The definition of block counters, read literally: slow, one key, every figure kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.noise import DiscreteLaplace

Noise = Callable[[int, int, int], int]
"""The noise of a block of a level at a stage, from 1, 0 and 0."""


def published(
    mechanism: fc.Blocks, counts: list[int], noise: Noise
) -> dict[int, list[tuple[int, int, int, int, int]]]:
    """For each step everything published in it: (level, start, end, stage, value)."""
    records: dict[int, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    for number, level in enumerate(mechanism.levels):
        for end in range(level.length, len(counts) + level.length, level.length):
            block, start = end // level.length, end - level.length
            for stage, (lag, _) in enumerate(level.stages):
                if end + lag <= len(counts):
                    value = sum(counts[start:end]) + noise(number, block, stage)
                    records[end + lag].append((number, start, end, stage, value))
    for step in records:
        records[step].sort(key=lambda each: (each[0], each[3]))
    return dict(records)


def live_totals(mechanism: fc.Blocks, counts: list[int], noise: Noise) -> list[int]:
    """The live total after each step, from what is published by then."""
    records, figures, totals = published(mechanism, counts, noise), {}, []
    for step in range(1, len(counts) + 1):
        for level, _, end, stage, value in records.get(step, ()):
            figures[level, end, stage] = value
        totals.append(_total(mechanism, step, figures))
    return totals


def _total(mechanism: fc.Blocks, step: int, figures: dict[tuple[int, int, int], int]) -> int:
    total = reached = 0
    for number in range(len(mechanism.levels) - 1, -1, -1):
        level = mechanism.levels[number]
        for stage in range(len(level.stages) - 1, -1, -1):
            while (number, reached + level.length, stage) in figures:
                reached += level.length
                total += figures[number, reached, stage]
    return total


class NamedNoise:
    """Gives each variable (level, stage, block) the value of its name and key, again and again."""

    def __init__(self, seed: int = 0, spread: int = 9) -> None:
        self._seed, self._spread = seed, spread

    def value(self, level: int, stage: int, block: int, key: int = 0) -> int:
        mixed = (
            self._seed * 7919 + level * 104729 + stage * 1299709 + block * 15485863 + key * 32452843
        )
        mixed = (mixed + 17) * 0x9E3779B97F4A7C15 % (1 << 64) >> 20
        return mixed % (2 * self._spread + 1) - self._spread

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        assert distribution.scale > 0
        values = [
            self.value(level, each, node, key)
            for each in rounds
            for node in nodes
            for key in range(width)
        ]
        array = np.array(values, dtype=np.int64).reshape(len(rounds), len(nodes), width)
        array.flags.writeable = False
        return array

    def of(self, mechanism: fc.Blocks, key: int = 0) -> Noise:
        """The noise of a stage: the sharpest one and the differences down to it."""

        def noise(level: int, block: int, stage: int) -> int:
            stages = range(stage, len(mechanism.levels[level].stages))
            return sum(self.value(level, each, block, key) for each in stages)

        return noise
