"""Releases of a finite table of events at once.

Every call of ``release`` draws an epoch, so two calls have independent noise, and their losses add
up. They must not have the same noise even on the same events: from equal releases an observer would
know that nothing changed between two calls, and from different ones that something did.

Spark may execute one call several times, and the table may change in between. So the call counts
the table once, and keeps the counts: every execution uses these, and fails if they are lost with an
executor. It never counts again, because a difference between two executions would reveal in which
shard something changed. In addition, the noise of a shard is bound to a digest of its counts: it is
never added to other counts.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from fadecount.spark.job import Job
from fadecount.spark.shard import Pending, Released, Roster, cells_of, frames, new_shard

_NOTHING = Released(0, np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int64))


def release_shard(
    job: Job, ticks: int, declared: pd.DataFrame, counted: pd.DataFrame
) -> pd.DataFrame:
    """All releases of one shard, from its declared keys and its (tick, key, count) rows.

    The caller has already left out events before the first tick and after the last one.
    """
    roster = Roster.of(declared["keys"].iloc[0] if len(declared) else [])
    cells, used = cells_of(roster, counted["key"], counted["tick"], open_tick=0)
    everything = Pending.empty().with_counts(
        cells, np.asarray(counted["count"], dtype=np.uint64)[used]
    )
    pending, _ = everything.before(ticks * len(roster))
    if not len(roster):
        return next(frames(job.identity, roster, iter([_NOTHING])))
    stream_key = job.stream_key(of=f"inputs {digest_of(roster, pending, ticks)}")
    shard = new_shard(job.identity, roster.tagged(stream_key), stream_key, beta=job.beta)
    shard.pending = pending
    return pd.concat(list(frames(job.identity, roster, shard.close(ticks))), ignore_index=True)


def digest_of(roster: Roster, pending: Pending, ticks: int) -> str:
    """A digest of all that a shard's releases depend on besides the job."""
    parts = (roster.to_bytes(), ticks.to_bytes(8, "little"), pending.to_bytes())
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
