"""Where a counter gets its noise from: by the name of the variable, so that it can be scripted, replayed or derived from a key.

This is private. A running counter draws from :class:`SystemNoise`; only tests hand in anything else.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fadecount.noise.generator import Lineage, words
from fadecount.noise.laplace import DiscreteLaplace

_PREFETCH = 1024


class NoiseSource(Protocol):
    """Draws the noise variables ``(level, round, node)``, each at most once."""

    def one(self, law: DiscreteLaplace, level: int, round_number: int, node: int) -> int:
        """The variable of a single count."""

    def many(self, law: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int) -> NDArray[np.int64]:
        """The variables of ``width`` counts for each round and node, in the shape (rounds, nodes, width)."""


class SystemNoise:
    """Fresh noise from the operating system's entropy. Names do not matter: what was drawn once never comes again.

    Single draws come from a prefetched block, so that the time of a draw tells nothing about its value. A forked child drops
    the blocks that it inherited.
    """

    __slots__ = ("_lineage", "_ready")

    def __init__(self) -> None:
        self._lineage = Lineage.current
        self._ready: dict[int, list[int]] = {}

    def one(self, law: DiscreteLaplace, level: int, round_number: int, node: int) -> int:
        if self._lineage is not Lineage.current:
            self._lineage, self._ready = Lineage.current, {}
        ready = self._ready
        try:
            return ready[level].pop()
        except (KeyError, IndexError):
            block = fresh(law, max(8, _PREFETCH >> max(0, level))).tolist()
            value: int = block.pop()
            ready[level] = block
            return value

    def many(self, law: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int) -> NDArray[np.int64]:
        return fresh(law, len(rounds) * len(nodes) * width).reshape(len(rounds), len(nodes), width)


def _one_word(_position: int, _asked: int) -> int:
    return int(words(1)[0])


def fresh(law: DiscreteLaplace, count: int) -> NDArray[np.int64]:
    """``count`` independent draws from system entropy."""
    return law.from_words(words(count), _one_word)
