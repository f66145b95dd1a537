"""The examples on pages that need Spark run in the session that the other tests use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.docs.pages import ROOT, blocks, read
from tests.spark.oracle import SECRET
from tests.spark.postgres import postgres

PAGE = "docs/spark.md"


def examples(page: str) -> list[str]:
    return [
        block.text
        for block in blocks(read(page))
        if block.language == "python" and block.place == "spark"
    ]


def execute(page: str, text: str, names: dict[str, Any], words: dict[str, str]) -> None:
    for old, new in words.items():
        assert old in read(page)
        text = text.replace(old, new)
    exec(compile(text, page, "exec"), names)  # noqa: S102 - our own page


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch, tick_seconds: float) -> None:
    monkeypatch.chdir(folder)
    plan = fc.Gradual(epsilon=0.1, planned_tick_seconds=tick_seconds)
    (folder / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    (folder / "secret").write_text(SECRET, encoding="utf-8")


def test_a_table(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, monkeypatch, 3600.0)
    text = examples(PAGE)[3]
    words = {  # Java has a working folder of its own
        '"doors.csv"': repr(str(ROOT / "examples/library/doors.csv")),
        '"spark-releases"': repr(str(tmp_path / "spark-releases")),
    }
    names: dict[str, Any] = {"spark": spark}
    execute(PAGE, text, names, words)
    assert names["days"].where("key = 'main'").count() == 14


@pytest.fixture
def tables(spark: Any) -> Iterator[None]:
    """The tables of the page. Events have the time of the first tick, whenever the test runs."""
    spark.sql("create database web")
    spark.sql("create table web.visits (at timestamp, page string) using parquet")
    spark.sql("create table web.pages (page string) using parquet")
    spark.sql("insert into web.pages values ('home'), ('help')")
    spark.createDataFrame([(START, "home")] * 2, "at string, page string").selectExpr(
        "cast(at as timestamp) as at", "page"
    ).write.insertInto("web.visits")
    yield
    spark.sql("drop database web cascade")


START = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:00:00")


def test_the_page_about_spark(
    spark: Any, tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, monkeypatch, 900.0)
    into_parquet, into_postgresql, per_day, _ = examples(PAGE)
    words = {
        "file:/run/secrets/fadecount": f"file:{tmp_path / 'secret'}",
        "s3://bucket": str(tmp_path),
        "2026-01-01": START,
        "10 seconds": "0 seconds",
        "shards=256": "shards=2",
    }
    names: dict[str, Any] = {"spark": spark}
    execute(PAGE, into_parquet, names, words)
    finish(names["query"])
    execute(PAGE, per_day, names, words)
    assert {row.key for row in names["days"].collect()} == {"home", "help"}
    with (
        tempfile.TemporaryDirectory(prefix="fadecount") as place,
        postgres(Path(place) / "server") as database,
    ):
        execute(
            PAGE, into_postgresql, names, {**words, "host=db dbname=counts": database}
        )  # tests/spark/test_main.py starts one


def finish(query: Any) -> None:
    """Wait until ticks were released: a micro-batch closes the ticks that were over when the one
    before it began."""
    try:
        while (
            not any(each["numInputRows"] for each in query.recentProgress)
            or query.lastProgress["batchId"] < 1
        ):
            assert not query.awaitTermination(0.1)
    finally:
        query.stop()
