"""True counts at rest: plain, or sealed with AES-256-GCM.

A sealed body is one version byte, the first 8 bytes of the key's fingerprint, a random 96-bit nonce and the ciphertext with
its tag. What the body is (store, stream, kind, number) is authenticated with it, so bodies cannot be swapped. Random nonces
are safe for 2**32 bodies per key: rotate the key before that (at five bodies per tick and one tick per second, after 27
years).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fadecount.errors import StoreError, bad_parameter
from fadecount.noise import unpredictable

KEY_VARIABLE = "FADECOUNT_KEY"
_VERSION = 1
_FINGERPRINT = 8
_NONCE = 12
_CHECKSUM = 16


class Seal(Protocol):
    """Closes and opens the bodies that hold true counts."""

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without revealing them."""

    def close(self, body: bytes, about: str) -> bytes:
        """Seal a body, bound to its place."""

    def open(self, body: bytes, about: str) -> bytes:
        """Open a body, or refuse one that was changed or moved."""


class Plain:
    """No encryption, but a checksum that finds damage: the file's mode and the disk's own encryption protect the state."""

    fingerprint = ""

    def close(self, body: bytes, about: str) -> bytes:
        """The text itself: nothing is sealed."""
        return _checksum(body, about) + body

    def open(self, body: bytes, about: str) -> bytes:
        """The text itself: nothing was sealed."""
        if _checksum(body[_CHECKSUM:], about) != body[:_CHECKSUM]:
            raise StoreError("state is damaged; take an intact copy of the store")
        return body[_CHECKSUM:]


@dataclass(frozen=True, slots=True)
class Sealed:
    """AES-256-GCM under one key of 32 bytes."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise bad_parameter("key length", len(self.key), "32 bytes", "make one with: openssl rand -hex 32")

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without revealing them."""
        return hashlib.sha256(b"fadecount key" + self.key).hexdigest()[: 2 * _FINGERPRINT]

    def close(self, body: bytes, about: str) -> bytes:
        """Seal a body, bound to its place."""
        nonce = unpredictable(_NONCE)
        head = bytes([_VERSION]) + bytes.fromhex(self.fingerprint)
        return head + nonce + AESGCM(self.key).encrypt(nonce, body, head + about.encode())

    def open(self, body: bytes, about: str) -> bytes:
        """Open a body, or refuse one that was changed or moved."""
        head, nonce = body[: 1 + _FINGERPRINT], body[1 + _FINGERPRINT : 1 + _FINGERPRINT + _NONCE]
        if head != bytes([_VERSION]) + bytes.fromhex(self.fingerprint):
            raise StoreError("state must be sealed with the given key, got another one; give the key it was sealed with")
        try:
            return AESGCM(self.key).decrypt(nonce, body[1 + _FINGERPRINT + _NONCE :], head + about.encode())
        except (InvalidTag, ValueError) as error:
            raise StoreError("sealed state is damaged; take an intact copy of the store") from error


def _checksum(body: bytes, about: str) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM, key=hashlib.blake2b(about.encode()).digest()).digest()


def seal_from(key_file: str | Path | None = None) -> Seal:
    """The seal from a key file, else from the variable ``FADECOUNT_KEY``, else none. Keys are 32 bytes, or 64 hexadecimal
    digits.
    """
    if key_file is not None:
        try:
            content = Path(key_file).read_bytes()
        except OSError as error:
            raise bad_parameter("key file", str(key_file), "readable", error.strerror or "check the path") from None
        return Sealed(content if len(content) == 32 else _hexadecimal(content.decode("ascii", "replace"), "key file"))
    text = os.environ.get(KEY_VARIABLE)
    return Sealed(_hexadecimal(text, KEY_VARIABLE)) if text else Plain()


def _hexadecimal(text: str, name: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise StoreError(f"{name} must hold 32 bytes or 64 hexadecimal digits; make one with: openssl rand -hex 32")
    return key
