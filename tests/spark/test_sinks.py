"""Figures in PostgreSQL: written once; others for the same block are refused."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import CheckpointError
from tests.spark.oracle import START, expected, reason, rows_of, stream, tally
from tests.spark.postgres import postgres
from tests.spark.session import events_frame, files_with

from fadecount.spark import figures, postgresql  # isort: skip

DAYS = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.8, later=((26, 2.0),)))


def test_figures_go_to_postgresql_once(spark: Any, tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    events = [(START + 3600 * hour, "ab"[hour % 2]) for hour in range(30)]
    table = spark.createDataFrame(events_frame(events))
    keys = ["a", "b", "é \\N"]
    hours = stream(spark, tmp_path / "state", DAYS, keys=keys)
    made = figures(table, hours, until="2026-01-03T06:00")
    with (
        tempfile.TemporaryDirectory(prefix="fadecount") as place,
        postgres(Path(place) / "server") as database,
    ):
        write = postgresql("figures", database=f"{database} password=hunter2")
        spark.conf.set(
            "spark.sql.session.timeZone", "America/New_York"
        )  # times do not depend on it
        write(made, "first")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        postgresql("figures", database=database)(made.where("stage < 1"), "again")
        write(made.where("false"), "nothing")
        with psycopg.connect(database) as connection:
            rows = connection.execute(
                'select per, extract(epoch from "start")::bigint, stage, key,'
                ' extract(epoch from "end")::bigint, status, value, low, high,'
                " extract(epoch from published)::bigint from figures"
            ).fetchall()
        assert {tuple(row[:4]): tuple(row[4:]) for row in rows} == rows_of(made)
        assert rows_of(made) == expected(tmp_path / "state", keys, tally(events, 3600), 54)
        others = made.selectExpr("* except (value)", "value + 1 as value").select(made.columns)
        with pytest.raises(Exception) as caught:
            write(others, "again")
        message = "figures must be those published before, got others for the same block"
        assert reason(caught.value).startswith(message)
        with psycopg.connect(database) as connection:
            assert connection.execute("select count(*) from figures").fetchone() == (len(rows),)
        address = f"postgresql://tester:hunter2@/postgres?host={place}/server"
        fenced = [
            stream(spark, tmp_path / name, DAYS, keys=keys, fence=address)
            for name in ("one", "two")
        ]
        figures(table, fenced[0], until="2026-01-02")
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        figures(table, fenced[0], until="2026-01-03")
        with pytest.raises(CheckpointError, match=r"^state must have the last commit, 0000000001-"):
            figures(table, fenced[1], until="2026-01-03").count()
    log = spark.fadecount_test_root / "log"
    assert files_with([str(tmp_path / "state").encode()], log), "the log can be searched"
    assert not files_with([b"hunter2"], log), "it stays on the driver"
