"""Releases on a real local Spark: equal to one local counter; bad input stops before release."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, FadecountError, ParameterError
from tests.spark.oracle import EPOCH, SECRET, START, frozen_counts, released
from tests.spark.scene import KEYS, MECHANISM, TICK, batches, files, options, stream
from tests.spark.session import files_with, read_releases, write_events

from fadecount.spark import explain, release  # isort: skip
from fadecount.spark.parameters import Parameters  # isort: skip
from fadecount.spark.release import _released  # isort: skip


def _run(releases: Any, root: Path) -> None:
    """Everything that is there, into Parquet."""
    sink = releases.writeStream.format("parquet").option("path", str(root / "out"))
    query = sink.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def _release(session: Any, root: Path, **changes: Any) -> Any:
    """Through the front door."""
    words = {"keys": KEYS, "time": "at", "key": "page", "checkpoint": str(root / "checkpoint"), **options(session, **changes)}
    return release(stream(session, root), words.pop("mechanism", MECHANISM), **words)


def test_a_stream_equals_the_local_counter_and_its_checkpoint_stays_its_own(spark: Any, tmp_path: Path) -> None:
    inputs = files(3)
    for number, events in enumerate(inputs):
        write_events(tmp_path / "in" / f"{number}.parquet", list(events))
    dated = stream(spark, tmp_path).selectExpr("at as time", "page as key")
    declared = spark.createDataFrame([(key,) for key in KEYS], "key string")
    parameters = Parameters.checked(MECHANISM, **options(spark), end=None, streaming=True)
    _run(_released(dated, declared, parameters, checkpoint=str(tmp_path / "checkpoint"), epoch=EPOCH), tmp_path)
    counts, ticks = frozen_counts(batches(inputs), TICK)
    wanted = released(MECHANISM, KEYS, counts, ticks)
    assert ticks == 7
    assert read_releases(spark, tmp_path / "out", TICK) == wanted

    secret = SECRET.encode()
    hidden = [secret, bytes.fromhex(SECRET), base64.b64encode(secret), secret.hex().encode()]
    root = spark.fadecount_test_root
    assert files_with(hidden, root / "secret", tmp_path) == []
    assert [path for path in (root / "log").rglob("*") if path.is_file() and path.stat().st_size > 10_000], (
        "no event log to search"
    )
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
    write_events(tmp_path / "in" / "9.parquet", [(START + 90_000, KEYS[0])])
    with pytest.raises(Exception, match="fadecount") as caught:
        _run(_release(spark, tmp_path), tmp_path)
    line = explain(caught.value)
    assert line is not None
    assert line.startswith("epoch must be that of the checkpoint, an epoch for tests, got a forged one")
    assert read_releases(spark, tmp_path / "out", TICK) == wanted

    note.write_text(json.dumps(identity))
    _run(_release(spark, tmp_path), tmp_path)
    longer, ticks = frozen_counts(batches([*inputs, [], [(START + 90_000, KEYS[0])]]), TICK)
    assert ticks == 150
    assert read_releases(spark, tmp_path / "out", TICK) == released(MECHANISM, KEYS, longer, ticks)
    note.unlink()
    with pytest.raises(CheckpointError, match=r"^checkpoint must hold fadecount.json, got"):
        _release(spark, tmp_path)


def test_a_null_key_stops_a_stream_before_it_releases(spark: Any, tmp_path: Path) -> None:
    write_events(tmp_path / "in" / "0.parquet", [(START, KEYS[0]), (START + 5000, None)])
    with pytest.raises(Exception, match="fadecount") as caught:
        _run(_release(spark, tmp_path), tmp_path)
    assert explain(caught.value) == "key must not be null; drop or name such events before they are counted"
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"secret": None}, "secret must be given"),
        ({"secret": "file:/nowhere/at/all"}, "secret must be readable, got '/nowhere/at/all'"),
        ({"secret": "env:FADECOUNT_NO_SUCH_SECRET"}, "secret must exist, got no environment variable"),
        ({"keys": []}, "keys must not be empty"),
        ({"keys": "page"}, "keys must be a list of strings"),
        ({"key": "pages"}, r"key must be a column of the events \(at, page\)"),
        ({"checkpoint": None}, "checkpoint must be given for a stream"),
    ],
)
def test_bad_input_is_refused_before_a_stream_exists(spark: Any, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
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
    spark.conf.set(name, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(ParameterError, match=f"^{name} must be"):
            _release(spark, tmp_path)
    finally:
        spark.conf.set(name, before)
