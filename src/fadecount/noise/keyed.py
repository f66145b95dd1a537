"""Noise derived from a secret: each variable is a function of its name, the same on every machine
and after every crash.

A job that is executed again must publish the same values again. So the word behind a noise variable
is taken from AES-256 in counter mode at a place that its name determines:

    stream key   K = HKDF-SHA256(secret, salt = epoch,
                     info = "fadecount keyed noise 1", stream, mechanism)
    key's tag    T = first 128 bits of HMAC-SHA256(K, "key", name of the key)
    level's key  A = HMAC-SHA256(K, "level", level, round, scale)
    n-th word      = first 64 bits of AES-256(A, T xor (node, n))

``n`` is 0 for the word itself, and 1, 2, ... for the further words of the few draws that need them.
All texts carry their lengths, so that no two different lists of names give the same bytes.

Why the words are as good as independent, for anyone without the secret. HKDF and HMAC-SHA256 are
pseudorandom functions: the stream keys of different (secret, epoch, stream, mechanism), and the
tags and AES keys below them, are as good as independent and uniform. Under one AES key every block
has a different input, unless two keys have tags with ``T xor T' = (node xor node', n xor n')``. For
k keys and nodes below 2**m that happens with probability at most k**2 / 2 * 2**m / 2**128: 2**-39
for 2**30 keys and 2**30 nodes, and the names of the keys cannot be chosen to bring it about, for
tags depend on the secret. Encryptions of q different blocks under a pseudorandom permutation, cut
to their first half, differ from uniform words by at most about q / 2**96. The distribution of the
noise is that of :mod:`fadecount.noise.laplace`, exactly, with these words.

Limits: the same noise on *changed* inputs reveals the change exactly. A caller must freeze the
inputs of a step before noise is added to them, and must take a new epoch for every new run of a
stream.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from copy import copy
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fadecount.errors import ParameterError
from fadecount.noise.laplace import UNDETERMINED, DiscreteLaplace, prefix_table

SHORTEST_SECRET = 32
_PURPOSE = b"fadecount keyed noise 1"
_BLOCKS = 1 << 15


class KeyedNoise:
    """The noise variables of some keys of a stream, derived from a secret. The module describes the
    method and its limits.

    Guarantees: a variable depends on the secret, the epoch, the stream, the mechanism, its key and
    its name, and on nothing else: not on the other keys, their order, or on what was drawn before.
    Assumes: once noise was added to inputs, these never change within an epoch. Costs: one AES
    block per draw.
    """

    __slots__ = ("_stream_key", "tags")

    def __init__(
        self, secret: bytes, *, epoch: str, stream: str, mechanism: str, keys: Sequence[str] = ()
    ) -> None:
        """The noise of a list of keys, in this order; ``mechanism`` is its JSON. A secret that is
        too short is refused; the message shows its length, never the secret."""
        if len(secret) < SHORTEST_SECRET:
            raise ParameterError(
                f"secret must have at least {SHORTEST_SECRET} bytes, got {len(secret)}; make one"
                " with: openssl rand -hex 32"
            )
        info = _joined(_PURPOSE, stream.encode(), mechanism.encode())
        derivation = HKDF(algorithm=SHA256(), length=32, salt=_joined(epoch.encode()), info=info)
        self._stream_key = derivation.derive(secret)
        self.tags = self._tags_of(keys)
        """The 128-bit tag of each key, as two halves."""

    def of(self, keys: Sequence[str]) -> KeyedNoise:
        """The noise of other keys of the same stream."""
        noise = copy(self)
        noise.tags = self._tags_of(keys)
        return noise

    def _tags_of(self, keys: Sequence[str]) -> NDArray[np.uint64]:
        begun = hmac.new(self._stream_key, _joined(b"key"), hashlib.sha256)
        tags = bytearray()
        for name in keys:
            each = begun.copy()
            each.update(_joined(name.encode("utf-8", "surrogatepass")))
            tags += each.digest()[:16]
        return np.frombuffer(bytes(tags), dtype="<u8").reshape(-1, 2)

    def __repr__(self) -> str:
        return f"KeyedNoise({len(self.tags)} keys)"

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        if width != len(self.tags):
            raise ParameterError(
                f"width must be the number of keys, {len(self.tags)}, got {width}; give one key per"
                " count"
            )
        keys = [_level_key(self._stream_key, level, each, distribution.scale) for each in rounds]
        names = np.arange(nodes.start, nodes.stop, nodes.step, dtype="<u8")
        words = np.empty((len(rounds), len(nodes), width), dtype=np.uint64)
        at_once = max(1, _BLOCKS // width)
        for start in range(0, len(nodes), at_once):
            some = names[start : start + at_once]
            blocks = np.empty((len(some), width, 2), dtype="<u8")
            np.bitwise_xor(self.tags[:, 0], some[:, np.newaxis], out=blocks[:, :, 0])
            blocks[:, :, 1] = self.tags[:, 1]
            for key, target in zip(keys, words[:, start : start + at_once], strict=True):
                target[...] = _encrypted(key, blocks)[:, 0].reshape(target.shape)

        flat = words.reshape(-1)
        draws = (
            _by_table(distribution, flat)
            if distribution.tabled
            else np.full(len(flat), UNDETERMINED)
        )
        rest = np.flatnonzero(draws == UNDETERMINED)

        def further(position: int, asked: int) -> int:
            """The n-th further word of one of the remaining draws."""
            place, node, at = np.unravel_index(rest[position], words.shape)
            more = np.array([names[node], asked + 1], dtype=np.uint64)
            return int(_encrypted(keys[place], self.tags[at] ^ more)[0, 0])

        draws[rest] = distribution.from_words(flat[rest], further)
        return draws.reshape(words.shape)


def _by_table(distribution: DiscreteLaplace, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The draws that the first bits of words and their signs determine; the others are
    ``UNDETERMINED``. They are those of ``distribution.from_words``, only sooner."""
    table, draws = prefix_table(distribution.scale), np.empty(len(words), dtype=np.int64)
    for start in range(0, len(words), _BLOCKS):
        some = words[start : start + _BLOCKS]
        prefixes = some >> np.uint64(48) & np.uint64(0xFFFE) | some & np.uint64(1)
        draws[start : start + _BLOCKS] = table.take(prefixes.view(np.int64), mode="clip")
    return draws


@lru_cache(maxsize=256)
def _level_key(stream_key: bytes, level: int, round_number: int, scale: float) -> bytes:
    named = _joined(b"level", str(level).encode(), str(round_number).encode(), scale.hex().encode())
    return hmac.digest(stream_key, named, "sha256")


def _encrypted(key: bytes, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each 128-bit block on its own: the key stream of counter mode, at any places. No block occurs
    twice under a key."""
    encryptor = Cipher(AES256(key), ECB()).encryptor()  # noqa: S305 - the blocks are counters, not messages
    room = np.empty(blocks.nbytes + 15, dtype=np.uint8)  # a block less one byte more than needed
    encryptor.update_into(blocks.reshape(-1).view(np.uint8).data, room.data)
    return room[: blocks.nbytes].view("<u8").reshape(-1, 2)


def _joined(*parts: bytes) -> bytes:
    """Several byte strings as one, each preceded by its length: different lists never give the same
    bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
