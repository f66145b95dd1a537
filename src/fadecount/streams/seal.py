"""True counts at rest: plain, or sealed with AES-256-GCM under a key of its own for every body.

A sealed body is one version byte, the first 8 bytes of the key's fingerprint, a random salt of 32
bytes and the ciphertext with its tag. The key of a body is HKDF-SHA256 of the given key and the
salt (RFC 5869). So each derived key seals one body, and the nonce of AES-GCM is always zero: no
nonces need to be counted, and no key must be rotated before a limit. Two bodies share a key only if
two salts of 256 random bits are equal. The identity of the body (store, stream, kind, number) is
authenticated with it, so bodies cannot be swapped.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fadecount.errors import StoreError, bad_parameter
from fadecount.noise import unpredictable
from fadecount.streams.database import Database, placeholders

KEY_VARIABLE = "FADECOUNT_KEY"
_VERSION = 1
_FINGERPRINT = 8
_SALT = 32
_NONCE = bytes(12)
_CHECKSUM = 16
_PLAIN_SALT = 16


class Seal(Protocol):
    """Seals and opens the bodies that hold true counts."""

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without revealing them."""

    def close(self, body: bytes, about: str) -> bytes:
        """Seal a body, bound to its place."""

    def open(self, body: bytes, about: str) -> bytes:
        """Open a body, or refuse one that was changed or moved."""


class Plain:
    """No encryption, but a checksum that finds damage: the file's mode and the disk's own
    encryption protect the state.

    The checksum has a random salt. So it, and digests of it that readers can see, confirm no guess
    of what was counted.
    """

    fingerprint = ""

    def close(self, body: bytes, about: str) -> bytes:
        """The body with its checksum."""
        salt = unpredictable(_PLAIN_SALT)
        return salt + _checksum(body, about, salt) + body

    def open(self, body: bytes, about: str) -> bytes:
        """The body, or a :class:`StoreError` if it is damaged or of another place."""
        salt, rest = body[:_PLAIN_SALT], body[_PLAIN_SALT:]
        if len(salt) < _PLAIN_SALT or _checksum(rest[_CHECKSUM:], about, salt) != rest[:_CHECKSUM]:
            raise StoreError("state is damaged; take an intact copy of the store")
        return rest[_CHECKSUM:]


@dataclass(frozen=True, slots=True)
class Sealed:
    """AES-256-GCM under keys that are derived, one for each body, from one key of 32 bytes."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise bad_parameter(
                "key length", len(self.key), "32 bytes", "make one with: openssl rand -hex 32"
            )

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without revealing them."""
        return hashlib.sha256(b"fadecount key" + self.key).hexdigest()[: 2 * _FINGERPRINT]

    def close(self, body: bytes, about: str) -> bytes:
        """Seal a body, bound to its place."""
        head, salt = bytes([_VERSION]) + bytes.fromhex(self.fingerprint), unpredictable(_SALT)
        return head + salt + self._cipher(salt).encrypt(_NONCE, body, head + about.encode())

    def open(self, body: bytes, about: str) -> bytes:
        """The body, or a :class:`StoreError` if it is damaged, of another place, or sealed with
        another key."""
        head, salt = body[: 1 + _FINGERPRINT], body[1 + _FINGERPRINT : 1 + _FINGERPRINT + _SALT]
        if head != bytes([_VERSION]) + bytes.fromhex(self.fingerprint):
            raise StoreError(
                "state must be sealed with the given key, got another one; give the key it was"
                " sealed with"
            )
        try:
            return self._cipher(salt).decrypt(
                _NONCE, body[1 + _FINGERPRINT + _SALT :], head + about.encode()
            )
        except (InvalidTag, ValueError) as error:
            raise StoreError("sealed state is damaged; take an intact copy of the store") from error

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(
            HKDF(hashes.SHA256(), length=32, salt=salt, info=b"fadecount body").derive(self.key)
        )


_SEALED = {
    "state": ("state", "kind", "number", "body"),
    "ratchets": ("state", "kind", "number", "body"),
    "embargo": ("embargo", "level", "stage", "first_tick", "end_tick", "public_tick", "body"),
    "inputs": ("input", "body"),
    "hidden": ("hidden", "block", "body"),
    "positions": ("position", "source", "body"),
    "block_keys": ("block", "block", "secret"),
}
"""The tables with sealed bodies: what a body is bound to (its kind and these columns of its row),
and the column that holds it."""


def reseal(database: Database, old: Seal, new: Seal, uid: str, stream: int) -> None:
    """Seal every body of a stream with another key, inside a transaction."""
    for table, (kind, *columns) in _SEALED.items():
        names, values = ", ".join(columns), placeholders(["stream", *columns])
        rows = database.query(
            f"DELETE FROM {table} WHERE stream = ? RETURNING {names}",  # noqa: S608 - constants
            (stream,),
        )
        sealed = []
        for *place, body in rows:
            about = "/".join(map(str, (uid, kind, *place)))
            sealed.append((stream, *place, new.close(old.open(body, about), about)))
        database.change_many(
            f"INSERT INTO {table} (stream, {names}) VALUES ({values})",  # noqa: S608 - constants
            sealed,
        )
    ((secret,),) = database.query("SELECT secret FROM streams WHERE id = ?", (stream,))
    about = f"{uid}/secret"
    body = new.close(old.open(secret, about), about)
    database.change("UPDATE streams SET secret = ? WHERE id = ?", (body, stream))


def _checksum(body: bytes, about: str, salt: bytes) -> bytes:
    """The tag of AES-GCM on its own: 20 times as fast as a hash."""
    key = hashlib.blake2b(about.encode(), digest_size=16, salt=salt).digest()
    return AESGCM(key).encrypt(_NONCE, b"", body)


def seal_from(key_file: str | Path | None = None) -> Seal:
    """The seal from a key file, else from the variable ``FADECOUNT_KEY``, else none. Keys are 32
    bytes, or 64 hexadecimal digits.
    """
    if key_file is not None:
        try:
            content = Path(key_file).read_bytes()
        except OSError as error:
            raise bad_parameter(
                "key file", str(key_file), "readable", error.strerror or "check the path"
            ) from None
        return Sealed(
            content
            if len(content) == 32
            else _hexadecimal(content.decode("ascii", "replace"), "key file")
        )
    text = os.environ.get(KEY_VARIABLE)
    return Sealed(_hexadecimal(text, KEY_VARIABLE)) if text else Plain()


def _hexadecimal(text: str, name: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise StoreError(
            f"{name} must hold 32 bytes or 64 hexadecimal digits; make one with: openssl rand"
            " -hex 32"
        )
    return key
