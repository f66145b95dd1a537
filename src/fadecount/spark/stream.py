"""The adapter between Spark's stateful operator and a shard: loads its state, passes it rows and
the clock, stores its state.

The watermark from Spark is the public clock of :func:`fadecount.spark.release.with_clock`: when the
micro-batch before this one began, minus the time that ticks wait for late events. It does not
depend on any event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from fadecount.errors import CheckpointError, ParameterError
from fadecount.spark.job import Identity, Job
from fadecount.spark.shard import (
    Pending,
    Roster,
    Shard,
    accept,
    frames,
    new_shard,
    resumed_shard,
    roster_from,
)

_QUERY_ID = "sql.streaming.queryId"


class ShardProcessor(StatefulProcessor):
    """Runs one :class:`~fadecount.spark.shard.Shard` per grouping key.

    State per shard, in four values so that each is written only when it changes: ``identity`` and
    ``roster`` once, ``pending`` with every micro-batch that has events, ``counter`` with every
    tick. One timer per shard stands at the end of the open tick.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._now: Identity | None = None
        self._stream_key: bytes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_job": self._job, "_now": None, "_stream_key": None}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._identity = handle.getValueState("identity", "json string")
        self._roster = handle.getValueState("roster", "keys binary")
        self._pending = handle.getValueState("pending", "counts binary")
        self._counter = handle.getValueState("counter", "saved binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:  # noqa: ARG002, N802, N803
        """Make a shard for its declared keys: in the first micro-batch of a checkpoint, which
        releases nothing."""
        if not self._job.begins:
            raise CheckpointError(
                "checkpoint must be the one given to release, got a new one; start the query with"
                " that one"
            )
        if "keys" not in initialState:
            raise ParameterError(
                "releases must be written as they are on Spark 4.0, got a selection; select in"
                " foreachBatch"
            )
        identity = self._running()
        roster = Roster.of(initialState["keys"].iloc[0]).tagged(self._key())
        shard = self._begun(roster)
        self._identity.update((identity.to_json(),))
        self._roster.update((roster.to_bytes(),))
        self._pending.update((Pending.empty().to_bytes(),))
        self._counter.update((shard.saved(),))
        self._wait_for(shard.open)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Count events, if the shard has declared keys. Nothing is released here."""
        if not self._checked():
            for _ in rows:
                pass
            return iter(())
        open_tick = self._job.identity.open_tick(timerValues.getCurrentWatermarkInMs())
        pending = Pending.from_bytes(bytes(self._value(self._pending)))
        for some in rows:
            pending = accept(self._keys(), pending, some["key"], some["tick"], open_tick=open_tick)
        self._pending.update((pending.to_bytes(),))
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Release every tick that the clock has closed, and wait for the end of the next."""
        self._checked()
        open_tick = self._job.identity.open_tick(timerValues.getCurrentWatermarkInMs())
        shard = self._resumed(bytes(self._value(self._counter)), bytes(self._value(self._pending)))
        yield from frames(self._job.identity, shard.roster, shard.close(open_tick))
        self._pending.update((shard.pending.to_bytes(),))
        self._counter.update((shard.saved(),))
        self._wait_for(shard.open)

    def close(self) -> None:
        pass

    def query_id(self) -> str:
        """The id of the query that executes this, the same after every restart of its
        checkpoint."""
        context = TaskContext.get()
        return (context.getLocalProperty(_QUERY_ID) if context else None) or ""

    def _running(self) -> Identity:
        if self._now is None:
            self._now = self._job.identity.running(self.query_id())
        return self._now

    def _key(self) -> bytes:
        if self._stream_key is None:
            self._stream_key = self._job.stream_key(of=f"query {self._running().query}")
        return self._stream_key

    def _begun(self, roster: Roster) -> Shard:
        return new_shard(self._job.identity, roster, self._key(), beta=self._job.beta)

    def _resumed(self, saved: bytes, pending: bytes) -> Shard:
        return resumed_shard(self._keys(), self._key(), saved, pending, beta=self._job.beta)

    def _checked(self) -> bool:
        """Whether the shard has declared keys; if so, it must be a shard of this stream."""
        stored = self._identity.get()
        if stored is not None:
            self._running().require_same(Identity.from_json(stored[0]))
        return stored is not None

    def _keys(self) -> Roster:
        return roster_from(bytes(self._value(self._roster)))

    @staticmethod
    def _value(state: Any) -> Any:
        stored = state.get()
        if stored is None:
            raise CheckpointError(
                "checkpoint must hold the whole state of a shard, got a part of it; restore the"
                " checkpoint"
            )
        return stored[0]

    def _wait_for(self, tick: int) -> None:
        self._handle.registerTimer(1000 * self._job.identity.tick_start(tick + 1))
