"""Noise that is drawn ahead: the noises of the children of an open tied block.

The sum of all children's noises is announced when the block opens, each of them is needed again
when its child opens, and none may explain a figure that is out. A list of them could be long. So an
open block keeps a ratchet, a 32-byte key ``k``. It gives the noise of the next child, and

    k_(i+1), seed_i = the two halves of BLAKE2b-512(k_i).

The noise of child ``i`` is drawn from ``seed_i``; then ``k_i`` is forgotten. Whoever reads the
state learns the noises of children to come, and none of a child that has begun: for that BLAKE2b
would have to be inverted. Given a fresh key from the operating system, the seeds are as good as
independent uniform ones for anyone without it, and so are the words of AES-256 in counter mode
under them. The law is exactly that of :mod:`fadecount.noise.laplace`.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fadecount.noise.entropy import unpredictable
from fadecount.noise.laplace import DiscreteLaplace
from fadecount.noise.source import NoiseSource, fresh

KEY_BYTES = 32
_WIDE, _KEPT_WIDE, _KEPT = 1 << 12, 1 << 21, 1 << 10
"""How many noises of at least ``_WIDE`` counts, or of fewer, a ratchet that ran ahead keeps in
memory, to save a second draw; a saved state does not hold them."""


class Ahead(Protocol):
    """The noises of the children of one open block, in order: first their sum, then one by one."""

    def total(self, count: int) -> Any:
        """The sum of the next ``count`` noises, without using them up."""

    def next(self) -> Any:
        """The noise of the next child."""


class Ratchet:
    """Noises of ``width`` counts drawn ahead. See the module."""

    __slots__ = ("_ahead", "_law", "_width", "state")

    def __init__(self, law: DiscreteLaplace, width: int, state: bytes | None = None) -> None:
        """A fresh one, or that of a saved ``state``; another one is refused with a
        ``ValueError``."""
        if state is not None and len(state) != KEY_BYTES:
            raise ValueError(f"state must be a key of {KEY_BYTES} bytes, got {len(state)}")
        self._law, self._width = law, width
        self.state = unpredictable(KEY_BYTES) if state is None else state
        """The key: all that is needed to go on. It explains no noise that was used."""
        self._ahead: deque[tuple[bytes, Any]] = deque()

    def total(self, count: int) -> Any:
        total, key = np.zeros(self._width, dtype=np.int64), self.state
        most = _KEPT_WIDE if self._width >= _WIDE else _KEPT
        self._ahead.clear()
        for _ in range(count):
            key, noise = self._drawn(key)
            total += noise
            if len(self._ahead) * self._width < most:
                self._ahead.append((key, noise))
        return total

    def next(self) -> Any:
        self.state, noise = self._ahead.popleft() if self._ahead else self._drawn(self.state)
        return noise

    def _drawn(self, key: bytes) -> tuple[bytes, Any]:
        """The key after this one, and the noise of this one."""
        digest = blake2b(key).digest()
        key, seed = digest[:KEY_BYTES], digest[KEY_BYTES:]
        return key, fresh(self._law, np.empty(self._width, dtype=np.int64), _SeededWords(seed))


class Named:
    """Noises of a source that gives a variable again by its name: scripted, or derived from a
    secret."""

    __slots__ = ("_block", "_law", "_level", "_source", "_width")

    def __init__(
        self, source: NoiseSource, law: DiscreteLaplace, level: int, block: int, width: int
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
        blocks = range(block, block + 1)
        return self._source.many(self._law, self._level, range(1), blocks, self._width)[0, 0]


class _SeededWords:
    """The key stream of AES-256 in counter mode under a seed that is used once."""

    __slots__ = ("_cipher",)

    def __init__(self, seed: bytes) -> None:
        self._cipher = Cipher(AES256(seed), CTR(bytes(16))).encryptor()

    def __call__(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(self._cipher.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)
