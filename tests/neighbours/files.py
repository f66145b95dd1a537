"""Files and pipes of history through ``fadecount run INPUT --start … --until …``, once or several
times into one stream."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import polars as pl

import fadecount as fc
from fadecount.cli import main as command
from fadecount.sources import files as sources
from fadecount.streams import Reader
from tests.neighbours.figures import blocks_for, seen
from tests.neighbours.harness import Published, Row, Scene

MECHANISMS = {
    "gradual": fc.Gradual(epsilon=1.0, exponent=2.0),
    "delayed": fc.Gradual(epsilon=1.0, delay=2),
    "linear": fc.Linear(epsilon=1.0),
    "refresh": fc.Refresh(window=3, epsilon_current=1.0, epsilon_past=1.0),
    "binary": fc.Binary(epsilon=1.0, horizon=7),
}
KINDS = ("csv", "plain csv", "jsonl", "parquet", "typed parquet", "pipe", "jsonl pipe")


def publish(kind: str, scene: Scene, folder: Path) -> Published:
    """What others see of the scene's rows when they are counted as files (or pipes) of this kind,
    one per part."""
    folder.mkdir(parents=True)
    statuses: list[object] = []
    for number, rows in enumerate(scene.parts()):
        until = (*scene.cuts, scene.end)[number]
        with _input(kind, scene, rows, folder / f"part{number}") as place:
            statuses.append(
                _run(
                    _words(
                        scene,
                        place,
                        folder,
                        number,
                        until,
                        pipe="pipe" in kind,
                        jsonl="jsonl" in kind,
                    )
                )
            )
    return published(scene, folder, tuple(statuses))


def _words(
    scene: Scene, place: str, folder: Path, number: int, until: int, *, pipe: bool, jsonl: bool
) -> list[str]:
    words = ["run", place, "--tick", f"{scene.tick_seconds}s", "--time", "time"]
    words += ["--state", str(folder / "state"), "--fence", str(folder / "fence"), "--name", "s"]
    words += ["--output", str(folder / f"out{number}.csv"), "--until", _iso(scene, until)]
    words += ["--per", ("total", f"{scene.tick_seconds}s")[scene.seed % 2]]
    if number == 0:
        plan = folder / "plan.json"
        blocks = scene.mechanism == "blocks"
        chosen = blocks_for(scene.tick_seconds) if blocks else MECHANISMS[scene.mechanism]
        plan.write_text(chosen.to_json())
        words += ["--plan", str(plan), "--start", _iso(scene, scene.first)]
    words += ["--allow-gap", "--max-left-out", "100%"]  # what only the operator sees
    words += event_words(scene)
    return words + (["--format", "jsonl" if jsonl else "csv"] if pipe else [])


def event_words(scene: Scene) -> list[str]:
    """The options that say what an event is and how much of it counts."""
    words: list[str] = []
    if scene.keys:
        words += ["--key", "key", "--keys", ",".join(scene.keys)]
    if scene.other:
        words += ["--other", scene.other]
    if scene.max_amount:
        words += ["--amount", "amount", "--max-amount", str(scene.max_amount)]
    if scene.per_person:
        words += ["--person", "person", "--per-person", f"{scene.per_person}/tick"]
    if scene.keys_per_person > 1:
        words += ["--keys-per-person", str(scene.keys_per_person)]
    return words


def _iso(scene: Scene, tick: int) -> str:
    return datetime.fromtimestamp(scene.start_of(tick), UTC).isoformat()


_PARSER = command.build_parser()  # made once: it takes longer than a run


def _run(words: list[str]) -> object:
    with (
        patch.object(command, "build_parser", return_value=_PARSER),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        status = command.main(words)
    assert status in (0, 1), f"{status}: {err.getvalue()}"
    return status, out.getvalue()


@contextlib.contextmanager
def _input(kind: str, scene: Scene, rows: tuple[Row, ...], stem: Path) -> Iterator[str]:
    if kind in ("pipe", "jsonl pipe"):
        body = as_jsonl(rows) if kind == "jsonl pipe" else as_csv(rows)
        with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(body))):
            yield "-"
        return
    path = stem.with_suffix(
        ".parquet" if "parquet" in kind else ".csv" if "csv" in kind else ".jsonl"
    )
    if "parquet" in kind:
        _frame(rows, typed=kind.startswith("typed")).write_parquet(path)
    else:
        path.write_bytes(as_jsonl(rows) if kind == "jsonl" else as_csv(rows))
    with patch.object(sources, "SMALL_BYTES", 1 << 60 if kind == "plain csv" else -1):
        yield str(path)


def as_csv(rows: tuple[Row, ...]) -> bytes:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(("time", "key", "amount", "person"))
    out.writerows((row.time, row.key, row.amount, row.person) for row in rows)
    return text.getvalue().encode()


def as_jsonl(rows: tuple[Row, ...]) -> bytes:
    fields = ("time", "key", "amount", "person")
    return "".join(
        json.dumps({name: getattr(row, name) for name in fields}) + "\n" for row in rows
    ).encode()


def _frame(rows: tuple[Row, ...], *, typed: bool) -> pl.DataFrame:
    names = ("time", "key", "amount", "person")
    frame = pl.DataFrame(
        {name: [getattr(row, name) for row in rows] for name in names},
        schema=dict.fromkeys(names, pl.String),
    )
    if not typed:
        return frame
    number = (
        pl.from_epoch(pl.col("time").cast(pl.Int64, strict=False), time_unit="s")
        .cast(pl.Datetime("us"))
        .dt.replace_time_zone("UTC")
    )
    moment = pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%z", time_unit="us", strict=False)
    return frame.with_columns(
        pl.coalesce(moment, number).alias("time"), pl.col("amount").cast(pl.Int64, strict=False)
    )


def published(scene: Scene, folder: Path, messages: tuple[object, ...]) -> Published:
    """What the store holds for readers, in which rows it was published, and all of the output files
    but for their values, which are views of the same figures."""
    place = folder / "state" / "streams.db"
    rows = [
        [value for name, value in row.items() if name not in ("value", "low", "high")]
        for path in sorted(folder.glob("out*.csv"))
        for row in csv.DictReader(path.read_text().splitlines())
    ]
    if not place.exists():
        return Published(keys=scene.keys or ("all",), values={}, messages=(messages, rows))
    with Reader.of_file(place) as reader:
        return seen(reader, "s", moments=tuple(_groups(place)), messages=(*messages, rows))


def _groups(path: Path) -> Iterator[tuple[int, ...]]:
    """Which figures are in which rows."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        yield from database.execute(
            "SELECT level, stage, first_tick, end_tick, length(body) FROM figures"
            " ORDER BY level, stage, first_tick"
        )
