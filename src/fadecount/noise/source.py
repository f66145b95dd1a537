"""Where a counter gets its noise from: by the name of the variable, so that it can be scripted,
replayed or derived from a key.

This is private. A running counter draws from :class:`SystemNoise`; only tests pass another source.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.noise.generator import Lineage, require_lineage, words
from fadecount.noise.laplace import DiscreteLaplace

_LARGE = 1 << 16
_NOTHING = np.empty(0, dtype=np.int64)


class NoiseSource(Protocol):
    """Draws the noise variables ``(level, round, node)``, each at most once."""

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        """The variables of ``width`` counts for each round and node, in the shape (rounds, nodes,
        width): only to be read."""


class SystemNoise:
    """Fresh noise from the operating system's entropy. Names do not matter: no draw is ever
    repeated.

    Small batches come from a prefetched block of their distribution, so the time of a draw reveals
    nothing about its value. A forked child is refused: the parent continues with the same blocks.
    """

    __slots__ = ("_blocks", "_lineage", "_sizes")

    def __init__(self) -> None:
        self._lineage = Lineage.current
        self._blocks: dict[DiscreteLaplace, NDArray[np.int64]] = {}
        self._sizes: dict[DiscreteLaplace, int] = {}

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        require_lineage(self._lineage)
        count = len(rounds) * len(nodes) * width
        draws = (
            self._small(distribution, count) if 2 * count < _LARGE else _fresh(distribution, count)
        )
        return draws.reshape(len(rounds), len(nodes), width)

    def _small(self, distribution: DiscreteLaplace, count: int) -> NDArray[np.int64]:
        block = self._blocks.get(distribution, _NOTHING)
        if len(block) < count:  # as many as asked for at first, then ever more at once
            before = self._sizes.get(distribution, 0)
            size = self._sizes[distribution] = max(count, min(2 * before, 16 * count, _LARGE))
            block = _fresh(distribution, size)
        draws, self._blocks[distribution] = block[:count], block[count:]
        return draws


def _fresh(distribution: DiscreteLaplace, count: int) -> NDArray[np.int64]:
    return distribution.fill(np.empty(count, dtype=np.int64), words)
