"""A driver to be killed: figures of files into a directory that keeps every write, also the
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import fadecount as fc
from campaigns.spark.events import all_read
from fadecount.sources import SourceOptions
from fadecount.spark import Stream, publish


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
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    events = (
        session.readStream.schema("at timestamp, page string")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(root / "in"))
    )
    life = uuid.uuid4().hex

    def write(figures: Any, name: str) -> None:
        figures.write.parquet(str(root / "raw" / f"{name}-{life}"))
        (root / "markers" / f"{name.split('-')[1]}-{life}").touch()
        time.sleep(settings["pause"])

    mechanism = fc.Mechanism.from_json(settings["mechanism"])
    assert isinstance(mechanism, fc.Blocks)
    keys = pq.read_table(root / "keys.parquet")["page"].to_pylist()
    stream = Stream(
        mechanism,
        SourceOptions(tick=settings["tick"], time="at", key="page", keys=keys),
        start=datetime.fromtimestamp(settings["start"], UTC),
        secret_file=str(root / "secret"),
        state=str(root / "state"),
        fence=str(root / "fence"),
        name=settings["stream"],
    )
    writer = publish(events, stream, to=write)
    query = writer.trigger(processingTime="1 second").start()
    while not all_read(root / "state" / "checkpoint", settings["files"]):
        if query.awaitTermination(1):
            raise SystemExit("the query stopped by itself")
    query.stop()
    (root / "finished").touch()


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main(json.loads(sys.argv[1]))
