"""A small local Spark, and what its tests need around it. Tests are skipped, with the reason, where
Java or Spark is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.spark.oracle import Event

pytest.importorskip("pyspark", reason="needs fadecount[spark]")
if shutil.which("java") is None:
    pytest.skip("needs Java 17 or newer", allow_module_level=True)

from pyspark.sql import SparkSession


def build_session(log: Path, *, master: str = "local[1]", **more: str) -> Any:
    """A session that logs its events, for what must not be in that log."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # short tests: do not compile much or verify Spark's classes, and leave no folder of figures
    os.environ.setdefault(
        "JAVA_TOOL_OPTIONS",
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
        " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    )
    log.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.parquet.compression.codec": "uncompressed",
        "spark.shuffle.compress": "false",
        "spark.broadcast.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # tests look for texts in it
        "spark.eventLog.dir": log.as_uri(),
        **more,
    }
    builder = SparkSession.builder.master(master).appName("fadecount tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def events_frame(events: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Events (a moment, a page, perhaps a person) with the columns ``at``, ``page``, ``who``."""
    moments, *texts = zip(*events, strict=True) if events else ((), (), ())
    at = pa.array(np.array(moments, dtype="datetime64[s]")).cast(pa.timestamp("us", "UTC"))
    columns = [at, *(pa.array(each, pa.string()) for each in texts)]
    return pa.table(columns, ["at", "page", "who"][: len(columns)])


def write_events(place: Path, events: Sequence[Event]) -> None:
    """One Parquet file of events."""
    place.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(events_frame(events), place)


def files_with(secrets: list[bytes], *places: Path) -> list[Path]:
    """The files below some places that hold one of some byte strings."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]
