"""What is secret at rest: sealed with AES-256-GCM, under a key of its own for every body.

A sealed body is one version byte, the first 8 bytes of the key's fingerprint, a random salt of 32
bytes and the ciphertext with its tag. The key of a body is HKDF-SHA256 of the given key and the
salt (RFC 5869). So each derived key seals one body, and the nonce of AES-GCM is always zero: no
nonces need to be counted, and no key must be rotated before a limit. Two bodies share a key only if
two salts of 256 random bits are equal. The place of the body (store, stream, table, row) is
authenticated with it, so bodies cannot be swapped.

Without a key, a body ends with a digest of it and its place. It finds what SQLite's own
``integrity_check`` does not, which looks at the structure of a file and at no value: a bit that
flipped in a count, in accepted events, in a figure under embargo or in the key of a day's persons,
who would then be counted again. tests/faults/test_damage.py flips bits of both kinds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadecount.errors import StoreError, bad_parameter
from fadecount.noise import unpredictable
from fadecount.streams.database import Context, Database, placeholders

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_VARIABLE = "FADECOUNT_KEY"
TAG = 16
"""The bytes at the end of a stored body that tell it from every other one."""
_VERSION = 1
_FINGERPRINT = 8
_SALT = 32
_TO_SALT = 1 + _FINGERPRINT
_TO_BODY = _TO_SALT + _SALT
_NONCE = bytes(12)


@dataclass(frozen=True, slots=True)
class Seal:
    """AES-256-GCM under keys that are derived, one for each body, from one key of 32 bytes.

    Without a key, bodies stay readable: the file's mode and the disk's own encryption protect the
    state, and damage is found all the same.
    """

    key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.key is not None and len(self.key) != 32:
            raise bad_parameter(
                "key length", len(self.key), "32 bytes", "make one with: openssl rand -hex 32"
            )

    @property
    def fingerprint(self) -> str:
        """What tells two keys apart without revealing them; empty without a key."""
        return "" if self.key is None else _head(self.key)[1:].hex()

    def close(self, body: bytes, about: str) -> bytes:
        """Seal a body, bound to its place."""
        if self.key is None:
            return body + _digest(body, about)
        head, salt = _head(self.key), unpredictable(_SALT)
        return head + salt + _cipher(self.key, salt).encrypt(_NONCE, body, head + about.encode())

    def open(self, body: bytes, about: str) -> bytes:
        """The body, or a :class:`StoreError` if it is damaged, of another place, or sealed with
        another key."""
        if not isinstance(body, bytes):
            raise _damaged()
        if self.key is None:
            if body[-TAG:] != _digest(body[:-TAG], about):
                raise _damaged()
            return body[:-TAG]
        from cryptography.exceptions import InvalidTag

        head, salt, rest = body[:_TO_SALT], body[_TO_SALT:_TO_BODY], body[_TO_BODY:]
        if head != _head(self.key):
            raise _damaged()
        try:
            return _cipher(self.key, salt).decrypt(_NONCE, rest, head + about.encode())
        except (InvalidTag, ValueError) as error:
            raise _damaged() from error


def _head(key: bytes) -> bytes:
    digest = hashlib.sha256(b"fadecount key" + key).digest()
    return bytes([_VERSION]) + digest[:_FINGERPRINT]


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(hashes.SHA256(), length=32, salt=salt, info=b"fadecount body").derive(key))


def _digest(body: bytes, about: str) -> bytes:
    digest = hashlib.blake2b(f"{about}\n".encode(), digest_size=TAG, person=b"body")
    digest.update(body)
    return digest.digest()


def _damaged() -> StoreError:
    return StoreError(
        "state is damaged, or sealed with another key; take an intact copy of the store, or give"
        " the key it was sealed with"
    )


SECRET: Mapping[str, tuple[str, ...]] = {
    "state": ("series", "kind", "number"),
    "inputs": (),
    "hidden": ("series", "block"),
    "positions": ("source",),
    "secrets": ("block",),
    "embargo": ("series", "level", "stage", "first_tick", "end_tick", "public_tick"),
}
"""The tables with a secret ``body``, and the columns before it: its place."""

_REPLACED = ("state", "positions")
"""Those with one row at a place, which is written again and again."""


class SecretRows:
    r"""The rows of one stream in the tables of :data:`SECRET`, as (\*place, body).

    Guarantees: a body is stored sealed, and bound to its stream, table and place. One that was
    changed or moved is refused.
    """

    def __init__(self, context: Context, uid: str, stream: int) -> None:
        self._context, self._uid, self._stream = context, uid, stream

    def sealed(self, table: str, *row: Any) -> tuple[Any, ...]:
        """A row as it is stored."""
        *place, body = row
        return (self._stream, *place, self._context.seal.close(body, self._about(table, place)))

    def opened(self, table: str, *row: Any) -> bytes:
        """The body of a stored row."""
        *place, body = row
        return self._context.seal.open(body, self._about(table, place))

    def put(self, table: str, *rows: Sequence[Any]) -> None:
        """Write rows."""
        insert_sealed(self._context.database, table, [self.sealed(table, *row) for row in rows])

    def read(self, table: str, condition: str = "TRUE", *values: Any) -> list[tuple[Any, ...]]:
        """The rows that meet a condition."""
        sql = "SELECT {columns} FROM {table} WHERE {condition}"
        return self._opened(sql, table, condition, values)

    def take(self, table: str, condition: str = "TRUE", *values: Any) -> list[tuple[Any, ...]]:
        """:meth:`read` and remove them."""
        sql = "DELETE FROM {table} WHERE {condition} RETURNING {columns}"
        return self._opened(sql, table, condition, values)

    def _opened(
        self, sql: str, table: str, condition: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        columns, condition = ", ".join((*SECRET[table], "body")), f"stream = ? AND {condition}"
        rows = self._context.database.query(
            sql.format(table=table, columns=columns, condition=condition), (self._stream, *values)
        )
        return [(*row[:-1], self.opened(table, *row)) for row in rows]

    def _about(self, table: str, place: Sequence[Any]) -> str:
        return "/".join(map(str, (self._uid, table, *place)))


def insert_sealed(database: Database, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows of any streams as :meth:`SecretRows.sealed` returns them."""
    columns = ("stream", *SECRET[table])
    sql = f"INSERT INTO {table} ({', '.join(columns)}, body) VALUES ({placeholders(columns)}, ?)"  # noqa: S608
    if table in _REPLACED:
        sql += f" ON CONFLICT ({', '.join(columns)}) DO UPDATE SET body = excluded.body"
    database.change_many(sql, rows)


def seal_from(key_file: str | Path | None = None) -> Seal:
    """The seal from a key file, else from the variable ``FADECOUNT_KEY``, else none. Keys are 32
    bytes, or 64 hexadecimal digits.
    """
    name, content = KEY_VARIABLE, os.environ.get(KEY_VARIABLE, "").encode()
    if key_file is not None:
        try:
            name, content = "key file", Path(key_file).read_bytes()
        except OSError as error:
            raise bad_parameter(
                "key file", str(key_file), "readable", error.strerror or "check the path"
            ) from None
    elif not content:
        return Seal()
    try:
        is_raw = key_file is not None and len(content) == 32
        key = content if is_raw else bytes.fromhex(content.decode("ascii", "replace"))
    except ValueError:
        key = b""
    if len(key) != 32:
        raise StoreError(
            f"{name} must hold 32 bytes or 64 hexadecimal digits; make one with: openssl rand"
            " -hex 32"
        )
    return Seal(key)
