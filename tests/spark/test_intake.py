"""Events of every kind through the entry point, with a plan file: the releases are those of one
local counter."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.spark.oracle import Event
from tests.spark.scene import RECENTLY, TICK, command, expected
from tests.spark.session import read_releases, write_events

from fadecount.spark import __main__ as entry  # isort: skip

KEYS = ["007", "7", "never", "é, ;\u2028"]
EVENTS: list[Event] = [
    (RECENTLY + 40 * number, KEYS[number % 7 % 4]) for number in range(60) if number % 7 % 4 != 2
]
ROBOT: Event = (RECENTLY + TICK, "robot")


def _written(root: Path, kind: str, session: Any) -> dict[str, str]:
    """The events in files of a kind, or in a table, with a robot among them; and the words that
    read them."""
    rows = [*EVENTS, ROBOT]
    texts = [
        {"at": datetime.fromtimestamp(moment, UTC).isoformat(), "page": key} for moment, key in rows
    ]
    place = root / "in" / "0"
    place.parent.mkdir()
    if kind == "csv":
        with place.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["at", "page"], delimiter=";")
            writer.writeheader()
            writer.writerows(texts)
        return {"option": "sep=;"}
    if kind == "json":
        place.write_text("\n".join(map(json.dumps, texts)))
        return {"schema": "at timestamp, page string"}
    write_events(place.with_suffix(".parquet"), list(rows))
    if kind == "table":
        session.read.parquet(str(root / "in")).write.saveAsTable("visits")
        return {"events": "visits"}
    return {}


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "table"])
def test_events_of_every_kind_equal_the_local_counter(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "plan.json").write_text(fc.Gradual(epsilon=0.2).to_json())
    more = _written(tmp_path, kind, spark)
    words = command(tmp_path, KEYS, format=kind, where="page <> 'robot'", **more)
    (tmp_path / "keys.txt").write_bytes("\r\n".join(KEYS).encode() + b"\r\n")
    assert entry.main(words) == 0
    found = read_releases(spark, tmp_path / "out", TICK, start=RECENTLY)
    assert len(found) >= 6 * len(KEYS)
    assert found == expected(tmp_path, KEYS, [EVENTS])
