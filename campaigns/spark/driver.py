"""A driver to be killed: releases from files into a directory that keeps every write, also the
repeated ones.

Run by campaigns/spark/crash.py with one JSON text of settings. After each write it leaves a marker
and waits a moment, so that a kill can be aimed between the write and the commit.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import fadecount as fc
from campaigns.spark.events import all_read
from fadecount.spark import release

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def main(settings: dict[str, Any]) -> None:
    root = Path(settings["root"])
    session = (
        SparkSession.builder.master(settings["master"])
        .appName("fadecount crash test")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "1g")
        .config("spark.executor.cores", "1")
        .config("spark.task.maxFailures", "20")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.minBatchesToRetain", "1000000"
        )  # the oracle reads the whole log
        .config("spark.sql.codegen.wholeStage", "false")  # a life is too short to compile for it
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKS)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    events = (
        session.readStream.schema("at timestamp, page string")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(root / "in"))
    )
    releases = release(
        events,
        fc.Mechanism.from_json(settings["mechanism"]),
        tick=settings["tick"],
        time="at",
        key="page",
        keys=session.read.parquet(str(root / "keys.parquet")),
        secret=f"file:{root / 'secret'}",
        shards=settings["shards"],
        start=settings["start"],
        stream=settings["stream"],
        checkpoint=str(root / "checkpoint"),
    )
    life = uuid.uuid4().hex

    def write(batch: Any, number: int) -> None:
        batch.write.parquet(str(root / "raw" / f"{number:04}-{life}"))
        (root / "markers" / f"{number:04}-{life}").touch()
        time.sleep(settings["pause"])

    writer = releases.writeStream.foreachBatch(write).option(
        "checkpointLocation", str(root / "checkpoint")
    )
    query = writer.trigger(processingTime="1 second").start()
    while not all_read(root / "checkpoint", settings["files"]):
        if query.awaitTermination(1):
            raise SystemExit("the query stopped by itself")
    query.stop()
    (root / "finished").touch()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(json.loads(sys.argv[1]))
