"""The processor under Spark's own in-memory state: micro-batches as Spark runs them, rows first and
timers afterwards."""

from __future__ import annotations

import copy
from typing import Any

import pandas as pd
import pytest

import fadecount as fc

testing = pytest.importorskip(
    "pyspark.sql.streaming.tws_tester", reason="needs Spark 4.2 or newer, with its in-memory state"
)

from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues  # noqa: E402

from fadecount.spark.job import Identity, Job, budgets_of, proof_of  # noqa: E402
from fadecount.spark.stream import ShardProcessor  # noqa: E402
from tests.spark.oracle import EPOCH, QUERY, SECRET, START, STREAM, MicroBatch  # noqa: E402

LOCATION = "env:FADECOUNT_TEST_SECRET"


def make_job(
    mechanism: fc.Mechanism, *, tick: int = 60, shards: int = 3, begins: bool = True, **changes: Any
) -> Job:
    fields = {
        "stream": STREAM,
        "mechanism": mechanism.to_json(),
        "tick_seconds": tick,
        "start_seconds": START,
        "shards": shards,
        "keys": "some",
        "secret_proof": proof_of(SECRET.encode()),
        "epoch": EPOCH,
        "budgets": budgets_of(mechanism),
    }
    return Job(
        identity=Identity(**{**fields, **changes}), secret=LOCATION, beta=0.05, begins=begins
    )


class Processor(ShardProcessor):
    """The processor inside a query whose id the test chooses, for there is no task here that knows
    one."""

    def __init__(self, job: Job, query: str) -> None:
        super().__init__(job)
        self._query = query

    def query_id(self) -> str:
        return self._query


class Operator:
    """Some shards with their states and timers, between micro-batches; ``query`` is the id of the
    query that runs them."""

    def __init__(self, job: Job, keys: list[str], *, query: str = QUERY) -> None:
        self.job = job
        self.query = query
        self.shards = job.identity.shards
        self.handle = testing._InMemoryStatefulProcessorHandle("EventTime")
        processor = self.processor()
        for shard in range(self.shards):
            declared = [key for key in keys if self.shard_of(key) == shard]
            if declared:
                self.handle.setGroupingKey(shard)
                processor.handleInitialState(
                    (shard,), pd.DataFrame({"keys": [declared]}), TimerValues(-1, 0)
                )

    def processor(self) -> ShardProcessor:
        processor = Processor(self.job, self.query)
        processor.init(self.handle)
        return processor

    def shard_of(self, key: str | None) -> int:
        return sum((key or "").encode()) % self.shards

    def copy(self) -> Operator:
        """The state as a checkpoint holds it."""
        other: Operator = Operator.__new__(Operator)
        other.job, other.query, other.shards, other.handle = (
            self.job,
            self.query,
            self.shards,
            copy.deepcopy(self.handle),
        )
        return other

    def run(self, batch: MicroBatch) -> dict[tuple[int, str], tuple[int, int, int]]:
        """Execute one micro-batch: (value, low, high) of each (tick, key) that it releases."""
        start, tick, processor = (
            self.job.identity.start_seconds,
            self.job.identity.tick_seconds,
            self.processor(),
        )
        rows = [(self.shard_of(key), (moment - start) // tick, key) for moment, key in batch.events]
        for shard in sorted({row[0] for row in rows}):
            some = pd.DataFrame(
                [row[1:] for row in rows if row[0] == shard], columns=["tick", "key"]
            )
            self.handle.setGroupingKey(shard)
            assert not list(
                processor.handleInputRows(
                    (shard,), iter([some[:1], some[1:]]), TimerValues(-1, batch.watermark)
                )
            )
        timers, found = self.handle._timers, {}
        self.handle.setWatermark(batch.watermark)
        for shard in list(timers.getAllKeysWithTimers()):
            self.handle.setGroupingKey(shard)
            for expiry in [each for each in timers.listTimers(shard) if each <= batch.watermark]:
                for frame in processor.handleExpiredTimer(
                    (shard,), TimerValues(-1, batch.watermark), ExpiredTimerInfo(expiry)
                ):
                    for row in frame.itertuples():
                        place = ((int(row.tick.timestamp()) - start) // tick, row.key)
                        assert place not in found
                        found[place] = (row.value, row.low, row.high)
                timers.deleteTimer(shard, expiry)
        return found
