"""What travels from the driver to the executors: the identity of the stream and where the secret lies. Never the secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from fadecount.errors import CheckpointError
from fadecount.spark.identity import Identity
from fadecount.spark.roster import Roster
from fadecount.spark.secret import proof_of, read_secret
from fadecount.spark.shard import Released, stream_key_of

RELEASES = "tick timestamp, key string, value bigint, low bigint, high bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One release job. ``begins`` says whether its checkpoint is new, the only time when state may be made."""

    identity: Identity
    secret: str
    beta: float
    begins: bool

    def stream_key(self, *, inputs: str = "") -> bytes:
        """The stream's key, derived on the executor from the secret there, which must be the one the stream began with."""
        secret = read_secret(self.secret)
        if proof_of(secret) != self.identity.secret_proof:
            raise CheckpointError("secret must be the same on every executor, got another one; give all executors one secret")
        return stream_key_of(self.identity, secret, inputs=inputs)


def frames(identity: Identity, roster: Roster, blocks: Iterator[Released]) -> Iterator[pd.DataFrame]:
    """Releases as rows, tick by tick; a tick is named by the moment at which it begins."""
    for block in blocks:
        ticks, width = block.values.shape
        starts = [identity.tick_start(block.first + number) for number in range(ticks)]
        values = block.values.reshape(-1)
        bounds = np.repeat(block.bounds, width)
        yield pd.DataFrame(
            {
                "tick": pd.DatetimeIndex(np.repeat(np.array(starts, dtype="datetime64[s]"), width), tz="UTC").as_unit("us"),
                "key": np.tile(roster.names, ticks),
                "value": values,
                "low": values - bounds,
                "high": values + bounds,
            }
        )


@lru_cache(maxsize=16)
def roster_from(blob: bytes) -> Roster:
    """A shard's keys; workers that live on keep the last ones, since names never change."""
    return Roster.from_bytes(blob)
