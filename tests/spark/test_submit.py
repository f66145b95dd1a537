"""The entry point under Spark's own spark-submit, in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.spark.oracle import Event
from tests.spark.scene import RECENTLY, TICK, command, expected
from tests.spark.session import read_releases, write_events

import pyspark  # isort: skip
from fadecount.spark import __main__ as entry  # isort: skip

KEYS = ["a", "b"]
EVENTS: list[Event] = [(RECENTLY, "a"), (RECENTLY + TICK, "b"), (RECENTLY + 3 * TICK, "b")]


def _submitted(words: list[str]) -> subprocess.CompletedProcess[str]:
    home = Path(pyspark.__file__).parent
    program = [
        str(home / "bin" / "spark-submit"),
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    surroundings = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(
        [*program, str(entry.__file__), *words],
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_submitted_job_releases_what_the_local_counter_does(spark: Any, tmp_path: Path) -> None:
    write_events(tmp_path / "in" / "0.parquet", list(EVENTS))
    done = _submitted(command(tmp_path, KEYS))
    assert done.returncode == 0, done.stderr
    assert read_releases(spark, tmp_path / "out", TICK, start=RECENTLY) == expected(
        tmp_path, KEYS, [EVENTS]
    )


def test_a_submitted_job_is_refused_in_one_line(tmp_path: Path) -> None:
    done = _submitted(command(tmp_path, KEYS, plan=str(tmp_path / "nowhere.json")))
    assert done.returncode == 1
    told = done.stdout + done.stderr  # spark-submit gives both as output
    assert (
        f"fadecount: plan must be a readable JSON file, got '{tmp_path / 'nowhere.json'}'" in told
    )
    assert "Traceback" not in told
