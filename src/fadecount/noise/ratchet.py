"""Noise that is drawn ahead: the noises of the children of an open tied block.

The sum of all children's noises is announced when the block opens, each of them is needed again
when its child opens, and none may explain a figure that is out. A single count with few children
keeps a list of noises, and removes each when its child begins. Many counts, or many children, would
be a long list. They keep a ratchet, a 32-byte key ``k``. It gives the noise of the next child, and

    k_(i+1), seed_i = the two halves of BLAKE2b-512(k_i).

The noise of child ``i`` is drawn from ``seed_i``; then ``k_i`` is forgotten. Whoever reads the
state learns the noises of children to come, and none of a child that has begun: for that BLAKE2b
would have to be inverted. Given a fresh key from the operating system, the seeds are as good as
independent uniform ones for anyone without it, and so are the words of AES-256 in counter mode
under them. The law is exactly that of :mod:`fadecount.noise.laplace`.

The ratchet of a single count takes 16 children from one seed, two bytes each (see the table of
prefixes there; the few draws that these do not determine take further words from a hash of the
seed). At most 15 noises wait then, beside the key; each is forgotten when its child has begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fadecount.noise.entropy import unpredictable
from fadecount.noise.laplace import UNDETERMINED, DiscreteLaplace, completed, prefix_table
from fadecount.noise.source import NoiseSource, fresh

KEY_BYTES = 32
MOST_LISTED = 64
"""From more children on, a single count has a ratchet too: its state does not grow."""
_AT_ONCE = 16
_KEPT_AHEAD = 64
_KEPT_CELLS, _WIDE = 1 << 21, 1 << 12
"""How many draws of 16, or of at least ``_WIDE`` counts how many noises, a ratchet that ran ahead
keeps in memory, to save a second draw; a saved state does not hold them."""


class Ahead(Protocol):
    """The noises of the children of one open block, in order: first their sum, then one by one."""

    def total(self, count: int) -> Any:
        """The sum of the next ``count`` noises, without using them up."""

    @property
    def next(self) -> Callable[[], Any]:
        """Gives the noise of the next child."""


class Listed:
    """The noises of the few children of a single count: a list, from which each is removed when its
    child begins."""

    __slots__ = ("_noises", "next")

    def __init__(self, noises: list[int]) -> None:
        """The next noise is the last of the list."""
        self._noises = noises
        self.next: Callable[[], int] = noises.pop

    @classmethod
    def of(cls, state: bytes, count: int) -> Listed:
        """That of a saved state with so many noises; another one is refused with a
        ``ValueError``."""
        noises = np.frombuffer(state, dtype="<i8").tolist()
        if len(noises) != count:
            raise ValueError("state must hold one noise for each child to come")
        return cls(noises)

    @property
    def state(self) -> bytes:
        """All that is needed to go on."""
        return np.array(self._noises, dtype="<i8").tobytes()

    def total(self, count: int) -> int:
        return sum(self._noises[-count:])


class Ratchet:
    """Noises drawn ahead of a single count (``width`` None) or of ``width`` counts. See the
    module."""

    __slots__ = ("_ahead", "_key", "_law", "_table", "_waiting", "_width")

    def __init__(self, law: DiscreteLaplace, width: int | None, state: bytes | None = None) -> None:
        """A fresh one, or that of a saved ``state``; another one is refused with a
        ``ValueError``."""
        self._law, self._width = law, width
        self._table = _table(law.scale) if law.tabled and width is None else None
        self._waiting: list[Any] = []
        self._ahead: deque[tuple[bytes, list[Any]]] = deque()
        self._key = unpredictable(KEY_BYTES) if state is None else state[:KEY_BYTES]
        if state is not None:
            self._waiting = np.frombuffer(state[KEY_BYTES:], dtype="<i8").tolist()
            most = _AT_ONCE if width is None else 1
            if len(self._key) < KEY_BYTES or len(self._waiting) >= most:
                raise ValueError("state must hold a key, and fewer numbers than are drawn at once")

    @property
    def state(self) -> bytes:
        """All that is needed to go on; it explains no noise that was used."""
        return self._key + np.array(self._waiting, dtype="<i8").tobytes()

    def total(self, count: int) -> Any:
        total: Any = sum(self._waiting[-count:])
        key, count = self._key, count - len(self._waiting)
        most = _KEPT_AHEAD
        if self._width is not None:
            most = _KEPT_CELLS // self._width if self._width >= _WIDE else 0
        self._ahead.clear()
        while count > 0:
            key, waiting = self._drawn(key)
            total = sum(waiting[-count:], total)
            count -= len(waiting)
            if len(self._ahead) < most:
                self._ahead.append((key, waiting))
        return total

    def next(self) -> Any:
        waiting = self._waiting
        if not waiting:
            again = self._ahead.popleft() if self._ahead else self._drawn(self._key)
            self._key, self._waiting = again
            waiting = self._waiting
        return waiting.pop()

    def _drawn(self, key: bytes) -> tuple[bytes, list[Any]]:
        """The key after this one, and the noises of this one: the next is the last."""
        digest = blake2b(key).digest()
        key, seed = digest[:KEY_BYTES], digest[KEY_BYTES:]
        if self._width is not None:
            row = np.empty(self._width, dtype=np.int64)
            return key, [fresh(self._law, row, _SeededWords(seed))]
        if self._table is None:
            words = _SeededWords(seed)
            return key, self._law.from_words(words(_AT_ONCE), words.one).tolist()
        draws = list(itemgetter(*memoryview(seed).cast("H"))(self._table))
        if None in draws:
            words = _SeededWords(blake2b(seed, digest_size=32).digest())
            whole = completed(np.frombuffer(seed, dtype=np.uint16), words(_AT_ONCE))
            draws = self._law.from_words(whole, words.one).tolist()
        return key, draws


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

    def one(self, _position: int, _asked: int) -> int:
        return int(self(1)[0])


@lru_cache(maxsize=64)
def _table(scale: float) -> list[int | None]:
    """The draw that each prefix determines, or None."""
    return [None if draw == UNDETERMINED else draw for draw in prefix_table(scale).tolist()]
