"""Releases on a real local Spark: equal to one local counter; bad input stops before release."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, FadecountError, ParameterError
from tests.spark.oracle import EPOCH, SECRET, START, frozen_counts, released
from tests.spark.scene import KEYS, MECHANISM, TICK, batches, files, noise_of, options, stream
from tests.spark.session import files_with, read_releases, write_events

from fadecount.spark import explain, release, to_parquet, to_postgresql  # isort: skip
from pyspark.sql import functions as sql  # isort: skip
from fadecount.spark.parameters import Parameters  # isort: skip
from fadecount.spark.release import _released  # isort: skip


def _run(session: Any, root: Path, *, clock: int, epoch: str = "", **changes: Any) -> None:
    """Everything that is there, into Parquet, in a run that begins at a moment of the test's
    choice."""
    dated = stream(session, root).selectExpr("at as time", "page as key")
    declared = session.createDataFrame([(key,) for key in KEYS], "key string")
    parameters = Parameters.checked(
        MECHANISM, **options(session, **changes), end=None, streaming=True
    )
    moment = sql.timestamp_seconds(sql.lit(clock))
    releases = _released(
        dated, declared, parameters, checkpoint=str(root / "checkpoint"), epoch=epoch, clock=moment
    )
    to_parquet(releases, str(root / "out"), checkpoint=str(root / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def _release(session: Any, root: Path, **changes: Any) -> Any:
    """Through the front door."""
    words = {
        "keys": KEYS,
        "time": "at",
        "key": "page",
        "checkpoint": str(root / "checkpoint"),
        **options(session, **changes),
    }
    return release(stream(session, root), words.pop("mechanism", MECHANISM), **words)


def test_a_stream_equals_the_local_counter_and_its_checkpoint_stays_its_own(
    spark: Any, tmp_path: Path
) -> None:
    inputs = files(3)
    write_events(tmp_path / "in" / "0.parquet", inputs[0])
    _run(spark, tmp_path, clock=START + 2 * TICK, epoch=EPOCH)
    for number in (1, 2):
        write_events(tmp_path / "in" / f"{number}.parquet", inputs[number])
    _run(spark, tmp_path, clock=START + 7 * TICK + 1)
    counts, ticks = frozen_counts(batches(tmp_path, inputs), TICK)
    wanted = released(MECHANISM, KEYS, counts, ticks, **noise_of(tmp_path))
    assert ticks == 7
    assert read_releases(spark, tmp_path / "out", TICK) == wanted

    secret = SECRET.encode()
    hidden = [secret, bytes.fromhex(SECRET), base64.b64encode(secret), secret.hex().encode()]
    root = spark.fadecount_test_root
    assert files_with(hidden, root / "secret", tmp_path) == []
    assert [
        path
        for path in (root / "log").rglob("*")
        if path.is_file() and path.stat().st_size > 10_000
    ], "no event log to search"
    assert files_with(hidden, root / "log") == []
    assert files_with([EPOCH.encode()], tmp_path / "checkpoint"), "the search cannot find anything"

    for forgotten in ("0", ".0.crc"):  # as Spark does after a hundred micro-batches
        (tmp_path / "checkpoint" / "commits" / forgotten).unlink()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"mechanism": fc.Gradual(epsilon=0.4)}, "mechanism must be that of the checkpoint"),
        ({"shards": 5, "keys": KEYS[1:]}, "shards must be that of the checkpoint, 4, got 5"),
        ({"keys": KEYS[1:]}, "keys must be that of the checkpoint, 40 keys"),
    ]
    for changes, message in refused:
        with pytest.raises(CheckpointError, match=f"^{message}"):
            _release(spark, tmp_path, **changes)

    note = tmp_path / "checkpoint" / "fadecount.json"
    identity = json.loads(note.read_text())
    note.write_text(json.dumps({**identity, "epoch": "a forged one"}))
    note.with_name(".fadecount.json.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="fadecount") as caught:
        _run(spark, tmp_path, clock=START + 8 * TICK, epoch="a forged one")
    line = explain(caught.value)
    assert line is not None
    assert line.startswith(
        "epoch must be that of the checkpoint, an epoch for tests, got a forged one"
    )
    assert read_releases(spark, tmp_path / "out", TICK) == wanted

    note.write_text(json.dumps(identity))
    first = tmp_path / "first"
    (tmp_path / "checkpoint").rename(first)
    shutil.copytree(first, tmp_path / "checkpoint")
    with pytest.raises(
        CheckpointError, match=r"^checkpoint must be the first, got a copy of it in file:"
    ):
        _release(spark, tmp_path)
    _release(spark, tmp_path, moved=True)
    _release(spark, tmp_path)
    note.unlink()
    with pytest.raises(CheckpointError, match=r"^checkpoint must hold fadecount.json, got"):
        _release(spark, tmp_path)
    with pytest.raises(
        CheckpointError,
        match=r"^checkpoint must be where it began, file:.*/checkpoint, got file:.*/first",
    ):
        _release(spark, tmp_path, checkpoint=str(first))
    (first / "fadecount.place.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"^checkpoint must hold a whole fadecount.place.json, got none"
    ):
        _release(spark, tmp_path, checkpoint=str(first))


def test_releases_are_written_with_the_checkpoint_they_were_made_for(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    first, second = (
        _release(spark, tmp_path, checkpoint=str(tmp_path / name)) for name in ("a", "b")
    )
    to_parquet(first, str(tmp_path / "out"), checkpoint=str(tmp_path / "a"))
    to_parquet(second.where("value > 0"), str(tmp_path / "out"), checkpoint=str(tmp_path / "b"))
    with pytest.raises(
        CheckpointError,
        match=r"^checkpoint must be the one that release was given last, got file:.*/b; give",
    ):
        to_parquet(first, str(tmp_path / "out"), checkpoint=str(tmp_path / "b"))
    with pytest.raises(
        CheckpointError,
        match=r"^checkpoint must be the one that release was given last, got file:.*/c; give",
    ):
        to_postgresql(first, "releases", database="", checkpoint=str(tmp_path / "c"))
    again = _release(spark, tmp_path, checkpoint=str(tmp_path / "a"))
    with pytest.raises(
        CheckpointError,
        match=r"^checkpoint must be the one that release was given last, got file:.*/a; give",
    ):
        to_parquet(first, str(tmp_path / "out"), checkpoint=str(tmp_path / "a"))
    to_parquet(again, str(tmp_path / "out"), checkpoint=str(tmp_path / "a"))


def test_events_with_a_watermark_of_their_own_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    words = {
        "keys": KEYS,
        "time": "at",
        "key": "page",
        "checkpoint": str(tmp_path / "checkpoint"),
        **options(spark),
    }
    with pytest.raises(ParameterError, match=r"^events must have no watermark of their own"):
        release(stream(spark, tmp_path).withWatermark("at", "1 hour"), MECHANISM, **words)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secret": None}, "secret must be given"),
        ({"secret": "file:/nowhere/at/all"}, "secret must be readable, got '/nowhere/at/all'"),
        (
            {"secret": "env:FADECOUNT_NO_SUCH_SECRET"},
            "secret must exist, got no environment variable",
        ),
        ({"keys": []}, "keys must not be empty"),
        ({"keys": "page"}, "keys must be a list of strings"),
        ({"key": "pages"}, r"key must be a column of the events \(at, page\)"),
        ({"checkpoint": None}, "checkpoint must be given for a stream"),
    ],
)
def test_bad_input_is_refused_before_a_stream_exists(
    spark: Any, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(FadecountError, match=f"^{message}"):
        _release(spark, tmp_path, **changes)


def test_a_short_secret_and_another_state_store_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "short").write_text("31 bytes are not enough at all.")
    with pytest.raises(ParameterError, match=r"^secret must have at least 32 bytes, got 31"):
        _release(spark, tmp_path, secret=f"file:{tmp_path / 'short'}")
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(name)
    spark.conf.set(
        name, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    )
    try:
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            _release(spark, tmp_path)
    finally:
        spark.conf.set(name, before)
