"""The entry point, as people run it: events in files, releases in Parquet and in PostgreSQL,
refusals in one line."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, ParameterError, StoreError
from tests.spark.postgres import postgres
from tests.spark.scene import RECENTLY, batches
from tests.spark.session import write_events

from fadecount.spark import __main__ as entry  # isort: skip
from fadecount.spark.sinks import PostgresTable  # isort: skip

KEYS = ["a", "b", "c"]


def _words(root: Path, *more: str) -> list[str]:
    (root / "plan.json").write_text(fc.Gradual(epsilon=0.5, exponent=2.0).to_json())
    (root / "keys.txt").write_text("\n".join(KEYS))
    (root / "secret").write_text("s" * 64)
    words = {
        "--events": str(root / "in"),
        "--time": "at",
        "--key": "lower(page)",
        "--keys": str(root / "keys.txt"),
        "--plan": str(root / "plan.json"),
        "--tick": "10m",
        "--start": datetime.fromtimestamp(RECENTLY, UTC).isoformat(),
        "--shards": "2",
        "--secret": f"file:{root / 'secret'}",
        "--checkpoint": str(root / "checkpoint"),
        "--to": f"parquet:{root / 'out'}",
    }
    words |= dict(zip(more[::2], more[1::2], strict=True))
    return [word for pair in words.items() for word in pair]


def test_events_go_from_files_to_postgresql_and_a_restored_checkpoint_is_refused(
    spark: Any, tmp_path: Path
) -> None:
    write_events(
        tmp_path / "in" / "0.parquet",
        [(RECENTLY, "A"), (RECENTLY + 700, "b"), (RECENTLY + 1300, "c")],
    )
    with (
        tempfile.TemporaryDirectory(prefix="fadecount") as place,
        postgres(Path(place) / "server") as database,
    ):
        psycopg = pytest.importorskip("psycopg")
        assert (
            entry.main(_words(tmp_path, "--to", "postgresql:releases", "--database", database)) == 0
        )
        with psycopg.connect(database) as connection:
            rows = connection.execute(
                "select extract(epoch from tick)::bigint, key, value from releases order by 1, 2"
            ).fetchall()
        ticks = (batches(tmp_path, [[]])[-1].watermark // 1000 - RECENTLY) // 600
        assert ticks >= 6
        assert [(tick, key) for tick, key, _ in rows] == [
            (RECENTLY + 600 * tick, key) for tick in range(ticks) for key in KEYS
        ]

        table = PostgresTable("releases", database)
        again = [
            SimpleNamespace(tick=tick, key=key, value=value, low=value, high=value)
            for tick, key, value in rows
        ]
        table.write_rows(iter(again))
        table.write_rows(iter(()))
        again[-1].value += 1
        again.append(SimpleNamespace(tick=RECENTLY + 90_000, key="a", value=1, low=1, high=1))
        with pytest.raises(
            CheckpointError, match=r"^releases must be those published before, got others"
        ):
            table.write_rows(iter(again))
        with psycopg.connect(database) as connection:
            after = connection.execute(
                "select extract(epoch from tick)::bigint, key, value from releases order by 1, 2"
            ).fetchall()
        assert after == rows
        with psycopg.connect(database) as connection:
            connection.execute("create table narrow (tick timestamptz)")
        with pytest.raises(
            StoreError, match=r"^table narrow must take releases, got 'column \"key\" of relation"
        ):
            PostgresTable("narrow", database).write_rows(iter(again))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--plan", "/nowhere.json"), "plan must be a readable JSON file, got '/nowhere.json'"),
        (("--tick", "soon"), "--tick must be a positive duration, got 'soon'"),
        (
            ("--to", "carrier pigeon"),
            "--to must be parquet:PATH or postgresql:TABLE, got 'carrier pigeon'",
        ),
    ],
)
def test_a_refusal_is_one_line(
    changes: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(_words(tmp_path, *changes)) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"fadecount: {message}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("table", "database", "message"),
    [
        ("releases; drop", "", "table must be a plain name"),
        ("releases", "host=db password=hunter2", "database must not hold a password"),
        ("releases", "postgresql://me:hunter2@db/x", "database must not hold a password"),
    ],
)
def test_a_bad_database_is_refused_and_its_password_not_shown(
    table: str, database: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=f"^{message}") as caught:
        PostgresTable(table, database)
    assert "hunter2" not in str(caught.value)


def test_an_unreachable_database_is_told_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(
        ParameterError, match=r"^database must be reachable and let tables be made, got"
    ):
        PostgresTable("releases", f"host={tmp_path}").prepare()


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        entry.main(["--help"])
    told: Any = capsys.readouterr().out
    assert all(
        option in told
        for option in ("--events", "--keys", "--secret", "--shards", "--checkpoint", "parquet:PATH")
    )
