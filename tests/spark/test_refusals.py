"""What the entry point refuses on a checkpoint that exists, in one line each; and that a corrected
job goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.spark.oracle import Event
from tests.spark.scene import RECENTLY, TICK, command, expected
from tests.spark.session import read_releases, write_events

from fadecount.spark import __main__ as entry  # isort: skip

KEYS = ["a", "b", "c"]
FIRST: list[Event] = [
    (RECENTLY, "a"),
    (RECENTLY + TICK, "b"),
    (RECENTLY + 3 * TICK, "c"),
    (RECENTLY, None),
]
SECOND: list[Event] = [(RECENTLY + 2 * TICK, "a"), (RECENTLY + 5 * TICK, "b")]


def _refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert entry.main(words) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told.removeprefix("fadecount: ").rstrip()


def test_a_wrong_start_on_a_checkpoint_is_refused_and_a_right_one_goes_on(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_events(tmp_path / "in" / "0.parquet", list(FIRST))
    words = command(tmp_path, KEYS)
    assert entry.main(words) == 0
    before = read_releases(spark, tmp_path / "out", TICK, start=RECENTLY)
    assert before == expected(tmp_path, KEYS, [FIRST])

    write_events(tmp_path / "in" / "1.parquet", SECOND)
    plan = tmp_path / "other.json"
    plan.write_text(fc.Linear(epsilon=0.5).to_json())
    (tmp_path / "short").write_text("s" * 31)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    refusals: list[tuple[dict[str, str | None], str]] = [
        ({"plan": str(plan)}, "mechanism must be that of the checkpoint"),
        ({"shards": "3"}, "shards must be that of the checkpoint, 2, got 3"),
        ({"tick": "1s"}, "tick must be that of the checkpoint, 600, got 1"),
        ({"tick": "0s"}, "--tick must be a positive duration"),
        ({"stream": "other"}, "stream must be that of the checkpoint"),
        ({"secret": None}, "secret must be given"),
        ({"secret": f"file:{tmp_path / 'short'}"}, "secret must have at least 32 bytes, got 31"),
        (
            {"checkpoint": str(tmp_path / "copy")},
            f"checkpoint must be where it began, file:{tmp_path / 'checkpoint'}, got",
        ),
        ({"checkpoint": "nosuch://place"}, "Spark failed: "),
        (
            {"to": f"parquet:{tmp_path / 'elsewhere'}"},
            "releases must lie with those of the same checkpoint, got 0 micro-batches",
        ),
        (
            {"checkpoint": str(tmp_path / "new")},
            "releases must lie with those of the same checkpoint, got ",
        ),
        ({"events": str(tmp_path / "nowhere")}, "Spark failed: [PATH_NOT_FOUND]"),
        (
            {"time": "unix_millis(at)"},
            "time must be a timestamp, got a column of type bigint; convert it",
        ),
        ({"key": "pages"}, "Spark failed: [UNRESOLVED_COLUMN"),
        ({"option": "sep"}, "--option must be NAME=VALUE, got 'sep'"),
        (
            {"option": "maxOffsetsPerTrigger=9"},
            "--option must not limit a micro-batch by its events, got maxOffsetsPerTrigger",
        ),
    ]
    for changes, message in refusals:
        assert _refused(command(tmp_path, KEYS, **changes), capsys).startswith(message)
    assert read_releases(spark, tmp_path / "out", TICK, start=RECENTLY) == before

    assert entry.main(words) == 0
    assert read_releases(spark, tmp_path / "out", TICK, start=RECENTLY) == expected(
        tmp_path, KEYS, [FIRST, SECOND]
    )
