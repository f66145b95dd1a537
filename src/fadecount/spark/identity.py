"""What a stream on Spark is: everything that its noise and its ticks depend on. A checkpoint belongs to one identity.

The noise of a stream is a function of its secret, its epoch and names. If the same noise met other inputs, the
difference would give them away. So the identity is kept twice, and compared before anything is released: in every
shard's state, which is what protects, and beside the checkpoint, where the driver can refuse in one line.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

from fadecount.errors import CheckpointError
from fadecount.mechanisms import Mechanism

VERSION = 1
_REMEDIES = {
    "epoch": "this state was made under another one; take a new checkpoint",
    "secret_proof": "executors hold another secret than the one this checkpoint began with; give them that one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One stream: ``keys`` is a digest of the declared keys, ``epoch`` is drawn once for every new checkpoint."""

    stream: str
    mechanism: str
    tick_seconds: int
    start_seconds: int
    shards: int
    keys: str
    secret_proof: str
    epoch: str
    version: int = VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Identity:
        try:
            fields = json.loads(text)
            version = fields["version"]
            if isinstance(version, int) and version > VERSION:
                raise CheckpointError(f"checkpoint must have version <= {VERSION}, got {version}; upgrade fadecount to go on")
            return cls(**fields)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError("checkpoint must hold a whole identity, got a damaged one; restore it") from error

    @property
    def description(self) -> Mechanism:
        return Mechanism.from_json(self.mechanism)

    def require_same(self, stored: Identity) -> None:
        """Refuse to go on with a state that was made for something else."""
        for field in dataclasses.fields(self):
            now, before = getattr(self, field.name), getattr(stored, field.name)
            if now != before:
                name = field.name.removesuffix("_seconds").replace("_", " ")
                remedy = _REMEDIES.get(field.name, "a stream keeps what it began with; take a new checkpoint for another one")
                raise CheckpointError(f"{name} must be that of the checkpoint, {before}, got {now}; {remedy}")

    def open_tick(self, watermark_milliseconds: int) -> int:
        """The number (from 0) of the first tick that a watermark leaves open."""
        return max(0, watermark_milliseconds - 1000 * self.start_seconds) // (1000 * self.tick_seconds)

    def tick_start(self, tick: int) -> int:
        """When a tick begins, in seconds since 1970."""
        return self.start_seconds + tick * self.tick_seconds
