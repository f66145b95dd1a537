"""Block counters on the command line: figures with their status, earlier vintages, live runs, what
`streams` shows."""

from __future__ import annotations

import csv
import io
import json
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.streams.export import COLUMNS
from tests.cli.test_live import start, wait_for

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
PLAN = fc.Blocks(
    fc.Level(1, 20.0),
    fc.Level(12, 20.0),
    fc.Level(24, 20.0, lag=3, later=((48, 40.0),)),
)
"""Hours, half days and days, with next to no noise; a day is published three hours after its end,
and final two days after it."""
DAYS = ["--tick", "1h", "--time", "at", "--key", "page", "--keys", "home,help"]
STORED = [*DAYS, "--plan", "plan.json", "--state", "state", "--name", "pages"]
RANGE = ["--start", "2026-03-01", "--until", "2026-03-05T02:00"]
EXPORT = ["streams", "export", "pages", "--state", "state"]


def write_events(path: Path, first: int, last: int) -> None:
    """An event each half hour under one of two keys."""
    rows = [
        f"{(BEGIN + timedelta(minutes=30 * at)).isoformat()},{('home', 'help')[at % 2]}"
        for at in range(first, last)
    ]
    path.write_text("\n".join(["at,page", *rows]) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    write_events(tmp_path / "first.csv", 0, 48 * 5)
    return tmp_path


@pytest.fixture
def stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["run", "first.csv", *STORED, *RANGE, "--output", "days.csv"]) == 0
    capsys.readouterr()
    return folder


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def exported(
    words: list[str], capsys: pytest.CaptureFixture[str], key: str = "home"
) -> list[tuple[str, str, str, str]]:
    """(start, value, status, partial) of the figures of one key, with days and hours only."""
    assert main([*EXPORT, *words]) == 0
    return [
        (row["start"][8:13], row["value"], row["status"], row["partial"])
        for row in rows_of(capsys.readouterr().out)
        if row["key"] == key
    ]


def test_days_are_the_default_with_their_status(stored: Path) -> None:
    rows = rows_of((stored / "days.csv").read_text())
    assert tuple(rows[0]) == COLUMNS
    seen = [
        tuple(row[name] for name in ("start", "value", "status", "partial", "published"))
        for row in rows
        if row["key"] == "help"
    ]
    assert seen == [
        ("2026-03-01T00:00:00Z", "24", "final", "false", "2026-03-04T00:00:00Z"),
        ("2026-03-02T00:00:00Z", "24", "final", "false", "2026-03-05T00:00:00Z"),
        ("2026-03-03T00:00:00Z", "24", "provisional", "false", "2026-03-04T03:00:00Z"),
        ("2026-03-04T00:00:00Z", "24", "provisional", "false", "2026-03-05T00:00:00Z"),
        ("2026-03-05T00:00:00Z", "2", "provisional", "true", "2026-03-05T02:00:00Z"),
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_format_carries_unit_curve_and_status(
    stored: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT, "--output", f"out.{kind}"]) == 0
    if kind == "parquet":
        polars = pytest.importorskip("polars")
        rows = polars.read_parquet("out.parquet").to_dicts()
        about = polars.read_parquet_metadata("out.parquet")
        unit, curve = about["fadecount.unit"], json.loads(about["fadecount.curve"])
    else:
        text = (stored / f"out.{kind}").read_text()
        rows = rows_of(text) if kind == "csv" else [json.loads(line) for line in text.splitlines()]
        about = json.loads((stored / f"out.{kind}-metadata.json").read_text())
        unit, curve = about["unit"], about["curve"]
    assert tuple(rows[0]) == COLUMNS and len(rows) == 10
    assert [row["status"] for row in rows[::2]] == ["final"] * 2 + ["provisional"] * 3
    assert unit == "one event"
    assert [(step["age_seconds"] // 3600, step["loss"]) for step in curve] == [
        (0, 40.0),
        (3, 60.0),
        (48, 80.0),
    ]
    assert curve[-1]["cause"] == "figures per 1d (final)"


def test_figures_per_level_per_view_and_as_totals(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = exported(["--per", "1h"], capsys)
    assert [row[1] for row in hours] == ["1"] * 98 and {row[2] for row in hours} == {"final"}
    assert exported(["--per", "12h", "--since", "2026-03-04"], capsys) == [
        ("04T00", "12", "final", "false"),
        ("04T12", "12", "final", "false"),
        ("05T00", "2", "provisional", "true"),
    ]
    assert exported(["--per", "1w"], capsys) == [
        ("23T00", "24", "provisional", "true"),
        ("02T00", "74", "provisional", "true"),
    ]
    assert exported(["--per", "6h", "--until", "2026-03-01T12:00"], capsys) == [
        ("01T00", "6", "final", "false"),
        ("01T06", "6", "final", "false"),
    ]
    totals = exported(["--per", "total"], capsys)
    assert [int(row[1]) for row in totals] == list(range(1, 99))


def test_figures_as_they_were_published_then(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for moment, first in (
        ("2026-03-02T02:59", ("01T00", "24", "provisional", "false")),
        ("2026-03-03T23:59", ("01T00", "24", "provisional", "false")),
        ("2026-03-04T00:00", ("01T00", "24", "final", "false")),
    ):
        assert exported(["--as-of", moment], capsys)[0] == first
    assert exported(["--as-of", "2026-03-02T01:59"], capsys)[-1] == (
        *("02T00", "1", "provisional", "true"),
    ), "what was public at that moment, not with the tick that was open"
    assert len(exported(["--as-of", "2026-03-02T01:59", "--per", "total"], capsys)) == 25


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--as-of", "2026-03-06"],
            "--as-of must be from 2026-03-01T00:00:00Z to 2026-03-05T02:00:00Z, got",
        ),
        (["--as-of", "2026-02-01"], "--as-of must be from 2026-03-01T00:00:00Z to"),
        (["--as-of", "2026-03-06", "--per", "total"], "--as-of must be from"),
        (["--per", "90m"], "--per must be made of whole ticks of 3600 s, got '90m'"),
        (["--per", "20m"], "--per must be made of whole ticks"),
        (["--per", "often"], "--per must be a part of a day"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(
    stored: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*EXPORT, *words]) == 1
    said = capsys.readouterr()
    assert message in said.err and said.err.count("\n") == 1
    assert not said.out, "nothing was written"


def test_a_vintage_before_what_is_kept_is_refused(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["streams", "retain", "pages", "--state", "state", "--for", "1h"]) == 0
    assert "are removed" in capsys.readouterr().out
    assert main([*EXPORT, "--as-of", "2026-03-01T12:00"]) == 1
    error = capsys.readouterr().err
    assert "were removed, got an earlier time; ask from then on" in error and error.count("\n") == 1
    assert [row[1] for row in exported([], capsys)] == ["24"] * 4 + ["2"]


@pytest.mark.parametrize("where", [[], ["--state", "state", "--start", "2026-03-01"]])
def test_slots_smaller_than_all_figures_are_refused_before_a_run(
    folder: Path, where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest figures are of six hours: no slot begins or ends inside of one."""
    (folder / "plan.json").write_text(fc.Blocks(fc.Level(6, 1.0), fc.Level(24, 1.0)).to_json())
    words = ["run", "first.csv", *DAYS, "--plan", "plan.json", *where]
    for per in ("1h", "3h", "4h"):
        assert main([*words, "--per", per]) == 1
        said = capsys.readouterr()
        assert f"--per must be made of whole blocks of 6h, got '{per}'; the stream publishes" in (
            said.err
        )
        assert said.out == ""
    assert main(["streams", "list", "--state", "state"]) == (0 if where else 1)
    assert "released up to" not in capsys.readouterr().out
    assert main([*words, "--per", "12h"]) == 0


def test_a_later_run_writes_every_figure_that_has_news(folder: Path) -> None:
    """The day that was open, and days whose figures came out or were revised since."""
    assert main(["run", "first.csv", *STORED, *RANGE[:2], "--until", "2026-03-03T01:00"]) == 0, (
        "the third day is open, the second one is not published"
    )
    more = ["--until", "2026-03-04T04:00", "--output", "more.csv"]
    assert main(["run", "first.csv", *STORED, *more]) == 0
    seen = [
        (row["start"][8:10], row["value"], row["status"], row["partial"])
        for row in rows_of((folder / "more.csv").read_text())
        if row["key"] == "home"
    ]
    assert seen == [
        ("01", "24", "final", "false"),
        ("02", "24", "provisional", "false"),
        ("03", "24", "provisional", "false"),
        ("04", "4", "provisional", "true"),
    ]
    again = ["--until", "2026-03-04T04:00", "--output", "again.csv"]
    assert main(["run", "first.csv", *STORED, *again]) == 0
    assert not (folder / "again.csv").exists(), "nothing was published"


def test_show_list_and_curve(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "list", "--state", "state"]) == 0
    assert capsys.readouterr().out.startswith("pages: 98 ticks of 1 hour, released up to")
    assert main(["streams", "show", "pages", "--state", "state"]) == 0
    assert "figures per: 1h, 12h, 1d\n" in capsys.readouterr().out
    assert main(["streams", "show", "pages", "--state", "state", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [level["per"] for level in shown["levels"]] == ["1h", "12h", "1d"]
    assert fc.Mechanism.from_json(json.dumps(shown["mechanism"])) == PLAN
    assert main(["streams", "list", "--state", "state", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["levels"][2]["per"] == "1d"
    assert main(["streams", "curve", "pages", "--state", "state", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["age"], row["cause"]) for row in rows] == [
        (0, "figures per 1h, 12h"),
        (3, "figures per 1d (provisional)"),
        (48, "figures per 1d (final)"),
    ]
    assert all(row["loss"] >= PLAN.loss(row["age"]) for row in rows)
    assert main(["streams", "curve", "pages", "--state", "state"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "48 2 days 80.0000 figures per 1d (final)" in shown


@pytest.mark.parametrize("words", [[], ["--per", "1h"], ["--per", "total"], ["--per", "1w"]])
def test_pictures_of_figures(stored: Path, words: list[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["streams", "plot", "pages", "--state", "state", "-o", "x.svg", *words]) == 0
    assert (stored / "x.svg").read_bytes().startswith(b"<?xml")


LIVE = fc.Blocks(fc.Level(1, 20.0), fc.Level(2, 20.0), fc.Level(4, 20.0, lag=3, later=((6, 40.0),)))
"""Ticks of a second; figures of four of them are published three seconds after their end, and are
final after six."""


@pytest.mark.parametrize(("intake", "per"), [("pipe", "1s"), ("file", "2s"), ("pipe", "4s")])
def test_a_live_run_writes_each_figure_once_when_it_is_published(
    folder: Path, intake: str, per: str
) -> None:
    (folder / "live.json").write_text(LIVE.to_json())
    (folder / "grown.csv").write_text("at\n")
    words = ["--tick", "1s", "--plan", "live.json", "--per", per, "--output", "one.csv"]
    words += ["--state", "state", "--name", "s"]
    source = ["-", "--format", "csv"] if intake == "pipe" else ["grown.csv", "--time", "at"]
    process = start([*source, *words, *(["--follow"] if intake == "file" else [])])
    wait_for(folder / "one.csv", 4)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    rows = rows_of((folder / "one.csv").read_text())
    stages = [(row["start"], row["status"]) for row in rows]
    assert len(set(stages)) == len(stages)
    length, lags = int(per[0]), {"provisional": 3, "final": 6 if per == "4s" else 0}
    for row in rows:
        begin, end, published = (
            datetime.fromisoformat(row[name]) for name in ("start", "end", "published")
        )
        assert end - begin <= timedelta(seconds=length)
        assert published - end == timedelta(seconds=lags[row["status"]])
    order = [row["published"] for row in rows]
    assert order == sorted(order)
    final = [row["start"] for row in rows if row["status"] == "final"]
    assert final == sorted(final) and len(final) >= 1
    assert main(["streams", "export", "s", "--state", "state", "--per", per]) == 0


def test_a_live_run_refuses_slots_that_are_no_level(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "grown.csv").write_text(f"at\n{time.time()}\n")
    words = ["run", "grown.csv", "--tick", "1h", "--time", "at", "--follow"]
    assert main([*words, "--plan", "plan.json", "--state", "state", "--per", "1w"]) == 1
    said = capsys.readouterr().err
    assert "--per must be 1h, 12h, 1d, which the stream publishes, got '1w'" in said
    assert said.count("\n") == 1
