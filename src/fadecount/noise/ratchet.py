"""Noise that is drawn ahead and not kept: the noises of the children of an open tied block.

The sum of all children's noises is announced when the block opens, each of them is needed again
when its child opens, and none may explain a figure that is out. So only a 32-byte key ``k`` is
kept. It gives the next child's noise, and

    k_(i+1), seed_i = the two halves of BLAKE2b-512(k_i).

The noise of child ``i`` is drawn from ``seed_i``; then ``k_i`` is forgotten. Whoever reads the
state learns the noises of children to come, and none of a child that has begun: for that BLAKE2b
would have to be inverted. Given a fresh key from the operating system, the seeds are as good as
independent uniform ones for anyone without it, and so are the words of AES-256 in counter mode
under them. The law is exactly that of :mod:`fadecount.noise.laplace`.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fadecount.noise.entropy import unpredictable
from fadecount.noise.laplace import UNDETERMINED, DiscreteLaplace, prefix_table
from fadecount.noise.source import NoiseSource, fresh

KEY_BYTES = 32
_KEPT_AHEAD = 1 << 22
"""How many noises a ratchet that ran ahead may hold until they are used, to save a second draw."""


class Ahead(Protocol):
    """The noises of the children of one open block, in order: first their sum, then one by one."""

    def total(self, count: int) -> Any:
        """The sum of the next ``count`` noises, without using them up."""

    def next(self) -> Any:
        """The noise of the next child."""


class Ratchet:
    """Noises drawn ahead of a single count (``width`` None) or of ``width`` counts. See the
    module."""

    __slots__ = ("_ahead", "_law", "_width", "key")

    def __init__(self, law: DiscreteLaplace, width: int | None, key: bytes | None = None) -> None:
        self._law, self._width = law, width
        self.key = unpredictable(KEY_BYTES) if key is None else key
        self._ahead: deque[tuple[bytes, Any]] = deque()

    def total(self, count: int) -> Any:
        key, total = self.key, 0 if self._width is None else np.zeros(self._width, dtype=np.int64)
        kept = count * (self._width or 1) <= _KEPT_AHEAD
        for _ in range(count):
            key, noise = self._drawn(key)
            total += noise
            if kept:
                self._ahead.append((key, noise))
        return total

    def next(self) -> Any:
        self.key, noise = self._ahead.popleft() if self._ahead else self._drawn(self.key)
        return noise

    def _drawn(self, key: bytes) -> tuple[bytes, Any]:
        """The key after this one, and the noise of this one."""
        digest = blake2b(key).digest()
        if self._width is not None:
            words = _SeededWords(digest[KEY_BYTES:])
            return digest[:KEY_BYTES], fresh(self._law, np.empty(self._width, np.int64), words)
        word = int.from_bytes(digest[KEY_BYTES : KEY_BYTES + 8], "little")
        draw = _table(self._law.scale)[word >> 49 << 1 | word & 1] if self._law.tabled else None
        if draw is None:  # the first bits of the word do not determine the draw
            further = _SeededWords(blake2b(digest[KEY_BYTES:], digest_size=32).digest())
            one = np.array([word], dtype=np.uint64)
            draw = int(self._law.from_words(one, lambda _at, _asked: int(further(1)[0]))[0])
        return digest[:KEY_BYTES], draw


class Named:
    """Noises of a source that gives a variable again by its name: scripted, or derived from a
    secret."""

    __slots__ = ("_block", "_law", "_level", "_source", "_width")

    def __init__(
        self, source: NoiseSource, law: DiscreteLaplace, level: int, block: int, width: int | None
    ) -> None:
        """``block`` is the number of the next child."""
        self._source, self._law, self._width = source, law, width
        self._level, self._block = level, block

    def total(self, count: int) -> Any:
        return sum(self._one(self._block + place) for place in range(count))

    def next(self) -> Any:
        self._block += 1
        return self._one(self._block - 1)

    def _one(self, block: int) -> Any:
        if self._width is None:
            return self._source.one(self._law, self._level, 0, block)
        blocks = range(block, block + 1)
        return self._source.many(self._law, self._level, range(1), blocks, self._width)[0, 0]


class _SeededWords:
    """The key stream of AES-256 in counter mode under a seed that is used once."""

    __slots__ = ("_cipher",)

    def __init__(self, seed: bytes) -> None:
        self._cipher = Cipher(AES256(seed), CTR(bytes(16))).encryptor()

    def __call__(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._cipher.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


@lru_cache(maxsize=64)
def _table(scale: float) -> list[int | None]:
    """The draw that each prefix determines, or None."""
    return [None if draw == UNDETERMINED else draw for draw in prefix_table(scale).tolist()]
