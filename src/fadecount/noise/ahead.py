"""Noise that is drawn ahead: the noises of the children of an open tied block.

The sum of all children's noises is announced when the block opens, each of them is needed again
when its child opens, and none may explain a figure that is out. So the state is a ratchet, a
32-byte key ``k``. It gives the noises of the next children, and

    k_(i+1), seed_i = the two halves of BLAKE2b-512(k_i).

The noises are drawn from ``seed_i``; then ``k_i`` is forgotten. Whoever reads the state learns the
noises of children to come, and none of a child that has begun: for that BLAKE2b would have to be
inverted. Given a fresh key from the operating system, the seeds are as good as independent uniform
ones for anyone without it, and so are the words of AES-256 in counter mode under them. The law is
exactly that of :mod:`fadecount.noise.laplace`.

One seed gives the next child's noises of all counts; of few counts it gives those of several
children. The noises of these wait beside the key, and each is forgotten when its child has begun.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fadecount.noise.entropy import unpredictable
from fadecount.noise.generator import Words
from fadecount.noise.laplace import DiscreteLaplace

_KEY_BYTES = 32
_AT_ONCE = 64
"""How many noises a seed gives at least."""
_KEPT, _WIDE = 1 << 21, 1 << 12
"""A ratchet of at least ``_WIDE`` counts that ran ahead keeps so many noises in memory, to save a
second draw; a saved state does not hold them."""

Rows = NDArray[np.int64]


class Ahead(Protocol):
    """The noises of the children of one open block, in order, as rows of one number per count."""

    @property
    def state(self) -> bytes:
        """All that is needed to go on."""

    def total(self, count: int) -> Rows:
        """The sum of the next ``count`` rows, without using them up."""

    def take(self, count: int) -> list[Rows]:
        """The next ``count`` rows, in pieces."""


class Ratchet:
    """Noises that only this object can give. See the module."""

    __slots__ = ("_ahead", "_key", "_keys", "_law", "_waiting", "_width")

    def __init__(self, law: DiscreteLaplace, width: int, state: bytes | None = None) -> None:
        """A fresh one, or that of a saved ``state``; another one is refused with a
        ``ValueError``."""
        # a stream whose keys all appear by themselves has no declared one
        self._law, self._keys, self._width = law, width, max(1, width)
        self._ahead: deque[tuple[bytes, Rows]] = deque()
        state = unpredictable(_KEY_BYTES) if state is None else state
        self._key = state[:_KEY_BYTES]
        waiting = np.frombuffer(state[_KEY_BYTES:], dtype="<i8").astype(np.int64)
        if len(self._key) < _KEY_BYTES or len(waiting) % self._width or len(waiting) >= _AT_ONCE:
            raise ValueError("state must hold a key, and fewer numbers than are drawn at once")
        self._waiting = waiting.reshape(-1, self._width)

    @property
    def state(self) -> bytes:
        """All that is needed to go on; it explains no noise that was used."""
        return self._key + self._waiting.astype("<i8").tobytes()

    def total(self, count: int) -> Rows:
        total: Rows = self._waiting[:count].sum(axis=0)
        key, left = self._key, count - len(self._waiting)
        most = _KEPT // self._width if self._width >= _WIDE else 0
        self._ahead.clear()
        while left > 0:
            key, rows = self._drawn(key)
            total += rows[:left].sum(axis=0) if len(rows) > 1 else rows[0]
            left -= len(rows)
            if len(self._ahead) < most:
                self._ahead.append((key, rows))
        return total[: self._keys]

    def take(self, count: int) -> list[Rows]:
        rows: list[Rows] = []
        while count:
            if not len(self._waiting):
                ahead = self._ahead.popleft() if self._ahead else self._drawn(self._key)
                self._key, self._waiting = ahead
            rows.append(self._waiting[:count, : self._keys])
            self._waiting = self._waiting[count:].copy()  # and forget the others
            count -= len(rows[-1])
        return rows

    def _drawn(self, key: bytes) -> tuple[bytes, Rows]:
        """The key after this one, and the rows of this one."""
        digest = blake2b(key).digest()
        count = max(1, _AT_ONCE // self._width)
        draws = np.empty(count * self._width, dtype=np.int64)
        self._law.fill(draws, seeded_words(digest[_KEY_BYTES:]))
        return digest[:_KEY_BYTES], draws.reshape(count, self._width)


def seeded_words(seed: bytes) -> Words:
    """The key stream of AES-256 in counter mode under a seed that is used once."""
    cipher = Cipher(AES256(seed), CTR(bytes(16))).encryptor()

    def words(count: int) -> NDArray[np.uint64]:
        room = np.zeros(count + 2, dtype="<u8")  # a block less one byte more than needed
        cipher.update_into(bytes(8 * count), room.data.cast("B"))
        return room[:count].astype(np.uint64, copy=False)

    return words
