"""Where the secret of keyed noise lies, and how executors read it. The secret itself never leaves the process that read it.

``file:/path`` names a file, ``env:NAME`` an environment variable, on the executors. Only this name travels: in the
job's closure, plans and logs there is nothing else. A *proof*, a 64-bit value that depends on the secret, tells whether all
executors and all restarts hold the same one.
"""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path
from typing import Any

from fadecount.errors import FadecountError, ParameterError
from fadecount.noise.keyed import require_secret

_LOCATION = re.compile(r"file:.+|env:[A-Za-z_][A-Za-z0-9_]*")
_REMEDY = "name where executors find it: file:/path or env:NAME"


def require_location(location: Any) -> str:
    """The name of a place for a secret; anything else is refused without being shown, for it might be the secret itself."""
    if location is None or location == "":
        raise ParameterError(f"secret must be given; {_REMEDY}")
    if not isinstance(location, str) or not _LOCATION.fullmatch(location):
        raise ParameterError(f"secret must be the name of a place, got something else; {_REMEDY}")
    return location


def read_secret(location: str) -> bytes:
    """The secret at a place on this machine, without white space around it: at least 32 bytes."""
    kind, _, name = require_location(location).partition(":")
    if kind == "env":
        value = os.environ.get(name)
        if value is None:
            raise ParameterError(f"secret must exist, got no environment variable {name} on an executor; set it there")
        secret = value.encode("utf-8", "surrogateescape").strip()
    else:
        try:
            secret = Path(name).read_bytes().strip()
        except OSError as error:
            reason = error.strerror or "unreadable"
            raise ParameterError(f"secret must be readable, got {name!r} ({reason}) on an executor; put it there") from None
    require_secret(secret)
    return secret


def proof_of(secret: bytes) -> str:
    """A value that differs between secrets and does not give them away."""
    return hmac.digest(secret, b"fadecount proof of the secret 1", "sha256")[:8].hex()


def probe(location: str) -> tuple[str, str]:
    """The proof of the secret on this machine, or why there is none: one of the two is empty."""
    try:
        return proof_of(read_secret(location)), ""
    except FadecountError as error:
        return "", str(error)
