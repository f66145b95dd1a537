"""What the driver sends to the executors: the identity of a stream, and where its secret is. Never
the secret itself.

The noise of a stream is a function of its secret, its epoch and names. If the same noise were added
to other inputs, the difference would reveal them. So the identity of a stream holds everything that
its noise and its ticks depend on. It is stored twice and compared before anything is released: in
every shard's state, which gives the protection, and beside the checkpoint, where the driver can
refuse with one line.

The secret is read on the executors: ``file:/path`` names a file, ``env:NAME`` an environment
variable. Only this name is in the job's closure, plans and logs. A *proof*, a 64-bit value that
depends on the secret, shows whether all executors and all restarts hold the same one.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadecount.errors import CheckpointError, FadecountError, ParameterError
from fadecount.mechanisms import Mechanism
from fadecount.noise.keyed import derive_stream_key, require_secret

VERSION = 1
_REMEDIES = {
    "query": (
        "a stream's noise belongs to the query of its first start; restore the checkpoint's"
        " metadata file"
    ),
    "budgets": (
        "this machine computes other noise budgets; run the same version of fadecount everywhere"
    ),
    "epoch": "this state was made under another one; take a new checkpoint",
    "secret_proof": (
        "executors hold another secret than the one this checkpoint began with; give them that one"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One stream: ``keys`` is a digest of the declared keys, ``epoch`` is drawn once for every new
    checkpoint.

    ``query`` is the id that Spark gives to the query of a checkpoint, the same after every restart.
    The driver does not know it before the first start, and a table has none: then it is empty.
    ``budgets`` are the noise budgets as the driver computed them, bit by bit: an executor that
    computes different ones refuses, because its noise would differ.
    """

    stream: str
    mechanism: str
    tick_seconds: int
    start_seconds: int
    shards: int
    keys: str
    secret_proof: str
    epoch: str
    budgets: str
    query: str = ""
    unit: str = "one event"
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Identity:
        try:
            fields = json.loads(text)
            version = fields["version"]
            if isinstance(version, int) and version > VERSION:
                raise CheckpointError(
                    f"checkpoint must have version <= {VERSION}, got {version}; upgrade fadecount"
                    " to go on"
                )
            return cls(**fields)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                "checkpoint must hold a whole identity, got a damaged one; restore it"
            ) from error

    @property
    def description(self) -> Mechanism:
        return Mechanism.from_json(self.mechanism)

    def running(self, query: str) -> Identity:
        """The identity on an executor, inside a running query, whose id is part of it.

        Refuses another query than the checkpoint's, and a machine that computes other budgets than
        the driver did.
        """
        if not query:
            raise CheckpointError(
                "query must have an id, got none; run the stream as a query of Structured Streaming"
            )
        dataclasses.replace(self, budgets=budgets_of(self.description)).require_same(self)
        found = dataclasses.replace(self, query=query)
        if self.query:
            found.require_same(self)
        return found

    def require_same(self, stored: Identity) -> None:
        """Refuse to continue with the state of another stream."""
        for field in dataclasses.fields(self):
            now, before = getattr(self, field.name), getattr(stored, field.name)
            if now != before:
                name = field.name.removesuffix("_seconds").replace("_", " ")
                remedy = _REMEDIES.get(
                    field.name,
                    "a stream keeps what it began with; take a new checkpoint for another one",
                )
                shown = "got others" if field.name == "budgets" else f"{before}, got {now}"
                raise CheckpointError(f"{name} must be that of the checkpoint, {shown}; {remedy}")

    def open_tick(self, watermark_milliseconds: int) -> int:
        """The number (from 0) of the first tick that a watermark leaves open."""
        return max(0, watermark_milliseconds - 1000 * self.start_seconds) // (
            1000 * self.tick_seconds
        )

    def tick_start(self, tick: int) -> int:
        """When a tick begins, in seconds since 1970."""
        return self.start_seconds + tick * self.tick_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One release job. ``begins`` says whether its checkpoint is new, the only time when state may
    be made."""

    identity: Identity
    secret: str
    beta: float
    begins: bool

    def stream_key(self, *, of: str) -> bytes:
        """The stream's key, derived on the executor from the secret there, which must be the one
        the stream began with.

        ``of`` binds it to a running query, or to a digest of inputs that are all known beforehand.
        """
        secret = read_secret(self.secret)
        if proof_of(secret) != self.identity.secret_proof:
            raise CheckpointError(
                "secret must be the same on every executor, got another one; give all executors one"
                " secret"
            )
        epoch = noise_epoch(self.identity.epoch, of)
        return derive_stream_key(
            secret, epoch=epoch, stream=self.identity.stream, mechanism=self.identity.mechanism
        )


def noise_epoch(epoch: str, of: str) -> str:
    """The epoch of the keyed noise: the given epoch, and the query or the inputs that it is bound
    to."""
    return json.dumps([epoch, of])


def budgets_of(mechanism: Mechanism) -> str:
    """Every noise budget of a mechanism, bit by bit; the last level's budget is that of all further
    levels.

    Gaussian noise has none: there it is the integers that a counter runs, which the state is made
    of.

    >>> import fadecount as fc
    >>> budgets_of(fc.Designed(budgets=(0.5, 0.25)))
    '0x1.0000000000000p-1 0x1.0000000000000p-2, inf'
    """
    schedule = mechanism.schedule
    if schedule.memories is not None:
        return str(schedule.memories)
    budgets = list(schedule.budgets)
    while len(budgets) > 1 and budgets[-1] == budgets[-2]:
        budgets.pop()
    return f"{' '.join(budget.hex() for budget in budgets)}, {schedule.carry_budget.hex()}"


_LOCATION = re.compile(r"file:.+|env:[A-Za-z_][A-Za-z0-9_]*")
_REMEDY = "name where executors find it: file:/path or env:NAME"


def require_location(location: Any) -> str:
    """The location of a secret. Anything else is refused without showing it, because it might be
    the secret itself."""
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
            raise ParameterError(
                f"secret must exist, got no environment variable {name} on an executor; set it"
                " there"
            )
        secret = value.encode("utf-8", "surrogateescape").strip()
    else:
        try:
            secret = Path(name).read_bytes().strip()
        except OSError as error:
            reason = error.strerror or "unreadable"
            raise ParameterError(
                f"secret must be readable, got {name!r} ({reason}) on an executor; put it there"
            ) from None
    require_secret(secret)
    return secret


def proof_of(secret: bytes) -> str:
    """A value that differs between secrets and does not reveal them."""
    return hmac.digest(secret, b"fadecount proof of the secret 1", "sha256")[:8].hex()


def probe(location: str) -> tuple[str, str]:
    """The proof of the secret on this machine, or why there is none: one of the two is empty."""
    try:
        return proof_of(read_secret(location)), ""
    except FadecountError as error:
        return "", str(error)
