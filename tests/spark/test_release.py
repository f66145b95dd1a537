"""Releases on a real local Spark: equal to one local counter, in a stream and from a table; bad input stops before release."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter as Tally
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, FadecountError, ParameterError
from tests.spark.oracle import EPOCH, SECRET, START, STREAM, Event, MicroBatch, frozen_counts, released
from tests.spark.session import files_with, read_releases, write_events

from fadecount.spark import explain, release  # isort: skip
from fadecount.spark.batch import digest_of  # isort: skip
from fadecount.spark.parameters import Parameters  # isort: skip
from fadecount.spark.pending import Pending  # isort: skip
from fadecount.spark.release import _released, _shard  # isort: skip
from fadecount.spark.roster import Roster  # isort: skip

TICK = 600
KEYS = [f"page {number}" for number in range(40)]
MECHANISM = fc.Gradual(epsilon=0.5, exponent=2.0, delay=1)


def _files(number: int) -> list[list[Event]]:
    """Events of one file per micro-batch, some of them late, some with keys that nobody declared."""
    source = random.Random(11)
    return [
        [
            (START + file * 1500 + source.randint(-900 if file else 0, 1500), source.choice([*KEYS[:-3], "undeclared"]))
            for _ in range(300)
        ]
        for file in range(number)
    ]


def _batches(files: list[list[Event]]) -> list[MicroBatch]:
    """What Spark makes of them: the watermark of a batch is the latest event before it; at the end comes one without events."""
    batches, latest = [], 0
    for events in [*files, []]:
        batches.append(MicroBatch(1000 * latest, events))
        latest = max([latest, *(moment for moment, _ in events)])
    return batches


def _options(session: Any, **changes: Any) -> dict[str, Any]:
    place = f"file:{session.fadecount_test_root / 'secret'}"
    return {"tick": TICK, "start": START, "late": 0, "shards": 4, "beta": 0.05, "stream": STREAM, "secret": place, **changes}


def _stream(session: Any, root: Path) -> Any:
    source = session.readStream.schema("at timestamp, page string").option("maxFilesPerTrigger", "1")
    return source.parquet(str(root / "in"))


def _run(releases: Any, root: Path) -> None:
    """Everything that is there, into Parquet."""
    sink = releases.writeStream.format("parquet").option("path", str(root / "out"))
    query = sink.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def _release(session: Any, root: Path, **changes: Any) -> Any:
    """Through the front door."""
    options = _options(session, **changes)
    options = {"keys": KEYS, "time": "at", "key": "page", "checkpoint": str(root / "checkpoint"), **options}
    return release(_stream(session, root), options.pop("mechanism", MECHANISM), **options)


def test_a_stream_equals_the_local_counter_and_its_checkpoint_stays_its_own(spark: Any, tmp_path: Path) -> None:
    files = _files(3)
    for number, events in enumerate(files):
        write_events(tmp_path / "in" / f"{number}.parquet", list(events))
    dated = _stream(spark, tmp_path).selectExpr("at as time", "page as key")
    declared = spark.createDataFrame([(key,) for key in KEYS], "key string")
    parameters = Parameters.checked(MECHANISM, **_options(spark), end=None, streaming=True)
    _run(_released(dated, declared, parameters, checkpoint=str(tmp_path / "checkpoint"), epoch=EPOCH), tmp_path)
    counts, ticks = frozen_counts(_batches(files), TICK)
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
    longer, ticks = frozen_counts(_batches([*files, [], [(START + 90_000, KEYS[0])]]), TICK)
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


def test_a_table_equals_the_local_counter_with_noise_bound_to_its_events(spark: Any, tmp_path: Path) -> None:
    events = [event for some in _files(3) for event in some]
    write_events(tmp_path / "in" / "0.parquet", list(events))
    table = spark.read.parquet(str(tmp_path / "in"))
    ticks = 6
    declared = spark.createDataFrame([(key,) for key in KEYS], "page string")
    options = {**_options(spark), "start": START, "end": START + ticks * TICK}
    releases = release(table, MECHANISM, time="at", key="page", keys=declared, **options)
    releases.write.parquet(str(tmp_path / "out"))
    found = read_releases(spark, tmp_path / "out", TICK)
    again = {(row.tick, row.key): row.value for row in releases.collect()}
    assert len(again) == len(found) == ticks * len(KEYS)
    assert sorted(again.values()) == sorted(found.values())

    counts = Tally({((moment - START) // TICK, key): 0 for moment, key in events})
    counts.update(((moment - START) // TICK, key) for moment, key in events)
    shards = {row.page: row.shard for row in declared.selectExpr("page", "page as key").select("page", _shard(4)).collect()}
    for shard in range(4):
        keys = sorted(key for key in KEYS if shards[key] == shard)
        cells = [(tick * len(keys) + keys.index(key), n) for (tick, key), n in counts.items() if key in keys and tick < ticks]
        pending = Pending.empty().with_counts(*_columns(cells))
        inputs = digest_of(Roster.of(keys), pending, ticks)
        wanted = released(MECHANISM, keys, counts, ticks, epoch=f" {inputs}")
        assert {place: value for place, value in found.items() if place[1] in keys} == wanted

    write_events(tmp_path / "more" / "0.parquet", [*events, *((START, key) for key in KEYS)])
    changed = release(
        spark.read.parquet(str(tmp_path / "more")), MECHANISM, time="at", key="page", keys=declared, **options
    ).collect()
    first = min(row.tick for row in changed)
    same = sum(row.value == again[row.tick, row.key] + 1 for row in changed if row.tick != first)
    assert same < len(changed) // 2, "changed events met the same noise"


def _columns(cells: list[tuple[int, int]]) -> Any:
    return np.array([cell for cell, _ in cells], dtype=np.uint64), np.array([count for _, count in cells], dtype=np.uint64)
