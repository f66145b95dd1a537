"""Unpredictable 64-bit words: AES-256 in counter mode, keyed by the operating system.

Guarantees: words are indistinguishable from independent uniform ones for anyone who does not hold
the key; no two threads and no two processes share a key. Each thread has its own generator. A
forked child drops what it inherited (by a hook that Python runs in the child, and by a check of the
process id), and a new key is taken after every 2**30 bytes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fadecount.errors import ForkedError

_CHUNK_BYTES = 1 << 19
_REKEY_BYTES = 1 << 30
_ZEROS = bytes(_CHUNK_BYTES)

Words = Callable[[int], NDArray[np.uint64]]
"""Gives so many uniform 64-bit words that no other call gives."""


class Lineage:
    """Distinguishes a process from its forked children: ``current`` is a new object in every
    child."""

    current: object = object()

    @classmethod
    def renew(cls) -> None:
        cls.current = object()


def require_lineage(lineage: object) -> None:
    """Refuse an object made before a fork: the parent may use the same noise, and both together
    reveal more than stated."""
    if lineage is not Lineage.current:
        raise ForkedError(
            "counter must stay in its process, got a forked child; save() it before, and resume it"
            " in one process"
        )


os.register_at_fork(after_in_child=Lineage.renew)


class _Stream:
    """One keyed AES-CTR stream, for one thread of one process."""

    __slots__ = ("_cipher", "_left", "lineage", "process")

    def __init__(self) -> None:
        self.lineage = Lineage.current
        self.process = os.getpid()
        self._left = _REKEY_BYTES
        self._cipher: CipherContext = Cipher(
            AES256(os.urandom(32)), CTR(os.urandom(16))
        ).encryptor()

    @property
    def usable(self) -> bool:
        return self._left > 0 and self.lineage is Lineage.current and self.process == os.getpid()

    def fill(self, target: memoryview) -> None:
        """Overwrite ``target`` with key stream; it must be longer than needed by one AES block less
        one byte."""
        size = len(target) - 15
        for start in range(0, size, _CHUNK_BYTES):
            part = min(_CHUNK_BYTES, size - start)
            self._cipher.update_into(memoryview(_ZEROS)[:part], target[start : start + part + 15])
        self._left -= size


_local = threading.local()


def words(count: int) -> NDArray[np.uint64]:
    """``count`` fresh 64-bit words, each returned only once."""
    stream: _Stream | None = getattr(_local, "stream", None)
    if stream is None or not stream.usable:
        stream = _local.stream = _Stream()
    buffer = np.empty(count + 2, dtype=np.uint64)
    stream.fill(buffer.data.cast("B")[: 8 * count + 15])
    return buffer[:count]
