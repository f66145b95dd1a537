"""The part of the tutorial that needs Spark runs in the session that the other tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.docs.pages import ROOT, blocks, read
from tests.spark.oracle import SECRET


def test_the_tutorial_on_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = fc.Gradual(epsilon=0.1, planned_tick_seconds=3600.0)
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    (tmp_path / "secret").write_text(SECRET, encoding="utf-8")
    (block,) = [each for each in blocks(read("docs/tutorial.md")) if each.place == "spark"]
    text = block.text.replace('"doors.csv"', repr(str(ROOT / "examples/library/doors.csv")))
    text = text.replace('"spark-releases"', repr(str(tmp_path / "spark-releases")))  # Java has a working folder of its own
    exec(compile(text, "docs/tutorial.md", "exec"), {"spark": spark})  # noqa: S102 - our own page
    shown = capsys.readouterr().out
    assert shown.count("main") == 3 and "2026-03-02 00:00:00" in shown
