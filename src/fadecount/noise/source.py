"""Where a counter gets its noise from: by the name of the variable, so that it can be scripted,
replayed or derived from a key.

This is private. A running counter draws from :class:`SystemNoise`; only tests pass another source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.noise.gaussian import RoundedGaussian
from fadecount.noise.generator import Lineage, require_lineage, words
from fadecount.noise.laplace import (
    UNDETERMINED,
    DiscreteLaplace,
    completed,
    prefix_table,
)

_WORTH_A_TABLE = 1 << 12
_PREFETCH = 2048
_LARGE = 1 << 16
_NOTHING = np.empty(0, dtype=np.int64)
_CHUNK = 1 << 15

Law = DiscreteLaplace | RoundedGaussian
Words = Callable[[int], NDArray[np.uint64]]
"""Gives so many uniform 64-bit words that no other call gives."""


class NoiseSource(Protocol):
    """Draws the noise variables ``(level, round, node)``, each at most once."""

    def one(self, law: Law, level: int, round_number: int, node: int) -> int:
        """The variable of a single count."""

    def many(
        self, law: Law, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        """The variables of ``width`` counts for each round and node, in the shape (rounds, nodes,
        width): only to be read."""


class SystemNoise:
    """Fresh noise from the operating system's entropy. Names do not matter: no draw is ever
    repeated.

    Single draws and small batches come from a prefetched block of their law, so the time of a draw
    reveals nothing about its value. A forked child is refused: the parent continues with the same
    blocks.
    """

    __slots__ = ("_blocks", "_lineage", "_singles", "_sizes")

    def __init__(self) -> None:
        self._lineage = Lineage.current
        self._singles: dict[Law, list[int]] = {}
        self._blocks: dict[Law, NDArray[np.int64]] = {}
        self._sizes: dict[Law, int] = {}

    def one(self, law: Law, level: int, round_number: int, node: int) -> int:
        if self._lineage is not Lineage.current:
            require_lineage(self._lineage)
        try:
            return self._singles[law].pop()
        except (KeyError, IndexError):
            block = self._singles[law] = fresh(
                law, np.empty(max(16, _PREFETCH >> max(0, level) // 2), dtype=np.int64)
            ).tolist()
            value: int = block.pop()
            return value

    def several(self, law: Law, count: int) -> list[int]:
        """Fresh variables of a single count, as a list of the caller's own."""
        require_lineage(self._lineage)
        block = self._singles.get(law, [])
        if len(block) < count:
            size = max(count, _PREFETCH)
            block = self._singles[law] = fresh(law, np.empty(size, dtype=np.int64)).tolist()
        draws = block[-count:]
        del block[-count:]
        return draws

    def many(
        self, law: Law, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        count = len(rounds) * len(nodes) * width
        draws = (
            self._from_block(law, count)
            if 2 * count < _LARGE
            else fresh(law, np.empty(count, dtype=np.int64))
        )
        return draws.reshape(len(rounds), len(nodes), width)

    def _from_block(self, law: Law, count: int) -> NDArray[np.int64]:
        require_lineage(self._lineage)
        block = self._blocks.get(law, _NOTHING)
        if len(block) < count:  # as many as asked for at first, then ever more at once
            size = self._sizes[law] = max(
                count, min(2 * self._sizes.get(law, 0), 16 * count, _LARGE)
            )
            block = fresh(law, np.empty(size, dtype=np.int64))
        draws, self._blocks[law] = block[:count], block[count:]
        return draws


def fresh(law: Law, draws: NDArray[np.int64], take: Words | None = None) -> NDArray[np.int64]:
    """Fill an array with independent draws from system entropy, or from other uniform words: by
    table where that pays, the rest from whole words."""
    take = take or words
    if isinstance(law, RoundedGaussian):
        return law.fill(draws, take)

    def more(_position: int, _asked: int) -> int:
        return int(take(1)[0])

    count = len(draws)
    if count < _WORTH_A_TABLE or not law.tabled:
        return law.from_words(take(count), more, out=draws)
    table = prefix_table(law.scale)
    positions, begun = [], []
    for start in range(0, count, _CHUNK):
        part = draws[start : start + _CHUNK]
        prefixes = take(-(-len(part) // 4)).view(np.uint16)[: len(part)]
        known = table.take(prefixes, mode="clip")
        part[:] = known
        unknown = (known == UNDETERMINED).nonzero()[0]
        positions.append(unknown + start)
        begun.append(prefixes[unknown])
    rest = completed(np.concatenate(begun), take(sum(map(len, begun))))
    draws[np.concatenate(positions)] = law.from_words(rest, more)
    return draws
