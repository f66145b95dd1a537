"""The examples on the page about Spark run in the session that the other tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks, read

PAGE = "docs/spark.md"


@pytest.fixture
def tables(spark: Any) -> Iterator[None]:
    """The tables of the page."""
    spark.sql("create database web")
    spark.sql("create table web.visits (at timestamp, page string, visitor string) using parquet")
    spark.sql("insert into web.visits values (timestamp '2026-03-02 10:00', 'home', 'ann')")
    yield
    spark.sql("drop database web cascade")


def test_the_page_about_spark(spark: Any, tables: None, tmp_path: Path) -> None:
    table, persons, keys, stream, into_postgresql = (
        block.text
        for block in blocks(read(PAGE))
        if block.language == "python" and block.place == "spark"
    )
    names: dict[str, Any] = {"spark": spark}
    words = {
        '"doors.csv"': repr(str(ROOT / "examples/library/doors.csv")),
        "/run/secrets/fadecount": str(spark.fadecount_test_root / "secret"),
        "s3://bucket": str(tmp_path),
        "/var/lib/fadecount-fence": str(tmp_path / "fence"),
        "10 seconds": "0 seconds",
    }

    def execute(text: str) -> None:
        for old, new in words.items():
            assert old in read(PAGE)
            text = text.replace(old, new)
        exec(compile(text, PAGE, "exec"), names)  # noqa: S102 - our own page

    execute(table)
    written = spark.read.parquet(str(tmp_path / "doors-figures"))
    assert written.where("per = '1d' and stage = 0").count() == 14 * 3
    execute(persons)
    assert names["rows"].where("per = '1d' and stage = 0").count() == 14 * 2
    execute(keys)
    assert names["rows"].count() == 0, "one visitor makes no key appear"
    execute(stream)
    query = names["query"]
    try:
        while not list((tmp_path / "figures").glob("batch=*/_SUCCESS")):
            assert not query.awaitTermination(0.1)
    finally:
        query.stop()
    assert spark.read.parquet(str(tmp_path / "figures")).where("per = '1h'").count() > 0
    execute(into_postgresql)
    assert callable(names["to"])
