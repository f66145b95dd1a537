"""Figures in PostgreSQL: written once; others for the same block are refused."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import ParameterError
from tests.spark.oracle import SECRET, START, expected, rows_of, tally
from tests.spark.postgres import postgres

from fadecount.spark import explain, figures, postgresql  # isort: skip

DAYS = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.8, tied=True, later=((26, 2.0),)))


def test_figures_go_to_postgresql_once(spark: Any, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    events = [(START + 3600 * hour, "ab"[hour % 2]) for hour in range(30)]
    (tmp_path / "secret").write_text(SECRET)
    table = spark.createDataFrame(
        [(datetime.fromtimestamp(moment, UTC), key) for moment, key in events],
        "at timestamp, page string",
    )
    made = figures(
        table,
        DAYS,
        tick="1h",
        start="2026-01-01",
        until="2026-01-03T06:00",
        time="at",
        key="page",
        keys=["a", "b", "é\t\\N"],
        secret=f"file:{tmp_path / 'secret'}",
        state=str(tmp_path / "state"),
    )
    with (
        tempfile.TemporaryDirectory(prefix="fadecount") as place,
        postgres(Path(place) / "server") as database,
    ):
        write = postgresql("figures", database=database)
        write(made, "first")
        postgresql("figures", database=database)(made.where("stage < 1"), "again")
        write(made.where("false"), "nothing")
        with psycopg.connect(database) as connection:
            rows = connection.execute(
                'select per, extract(epoch from "start")::bigint, stage, key,'
                ' extract(epoch from "end")::bigint, status, value, low, high,'
                " extract(epoch from published)::bigint from figures"
            ).fetchall()
        assert {tuple(row[:4]): tuple(row[4:]) for row in rows} == rows_of(made)
        assert rows_of(made) == expected(
            tmp_path / "state", ["a", "b", "é\t\\N"], tally(events, 3600), 54
        )
        for changed, message in (
            ("value + 1", "figures must be those published before, got others for the same block"),
            ("null", 'table figures must take figures, got \'null value in column "value"'),
        ):
            with pytest.raises(Exception) as caught:
                write(
                    made.selectExpr("* except (value)", f"{changed} as value").select(made.columns),
                    "again",
                )
            assert (explain(caught.value) or "").startswith(message)
        with psycopg.connect(database) as connection:
            assert connection.execute("select count(*) from figures").fetchone() == (len(rows),)


@pytest.mark.parametrize(
    ("table", "database", "message"),
    [
        ("figures; drop", "", "table must be a plain name"),
        ("figures", "host=db password=hunter2", "database must not hold a password"),
        ("figures", "postgresql://me:hunter2@db/x", "database must not hold a password"),
        ("figures", "host=/nowhere", "database must be reachable and let tables be made, got"),
    ],
)
def test_a_bad_database_is_refused_and_its_password_not_shown(
    table: str, database: str, message: str
) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(ParameterError, match=f"^{message}") as caught:
        postgresql(table, database=database)
    assert "hunter2" not in str(caught.value) and "\n" not in str(caught.value)
