"""Noise drawn ahead for sources that give a variable again by its name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fadecount.noise import Ahead, DiscreteLaplace, KeyedNoise

Rows = NDArray[np.int64]


class NamedAhead:
    """The part of a source that draws ahead, from its ``many``."""

    def many(
        self, law: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> Rows:
        raise NotImplementedError

    def ahead(
        self, law: DiscreteLaplace, level: int, node: int, width: int, state: bytes | None
    ) -> Ahead:
        return Named(self, law, level, node, width)


class Named:
    """The noises of the children of a block, the next of which has the name ``node``."""

    state = b""

    def __init__(
        self, source: NamedAhead, law: DiscreteLaplace, level: int, node: int, width: int
    ) -> None:
        self._source, self._law, self._width = source, law, width
        self._level, self._node = level, node

    def total(self, count: int) -> Rows:
        rows: Rows = self._next(count).sum(axis=0)
        return rows

    def take(self, count: int) -> list[Rows]:
        rows = self._next(count)
        self._node += count
        return [rows]

    def _next(self, count: int) -> Rows:
        nodes = range(self._node, self._node + count)
        rows: Rows = self._source.many(self._law, self._level, range(1), nodes, self._width)[0]
        return rows


class KeyedSource(KeyedNoise, NamedAhead):
    """Noise from a secret, for counters."""
