"""Figures of a stream equal those of the local library: micro-batches at moments that the test
decides, killed and repeated, on a real Spark."""

from __future__ import annotations

import random
import shutil
from collections import Counter as Tally
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, ParameterError
from tests.spark import oracle
from tests.spark.oracle import START, Event, Place, Row, expected, last_commit, reason, rows_of
from tests.spark.session import events_frame, write_events

from fadecount.spark import figures, parquet, pipeline, publish  # isort: skip
from pyspark.sql import functions as sql  # isort: skip

TICK, HOUR = 600, 3600
KEYS = ["a", "b", "c"]
MECHANISM = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(6, 0.8, later=((8, 2.0),)),
    fc.Level(24, 1.0, lag=9),
)


class Stage:
    """A stream in a directory: add events, then let a micro-batch run at a moment."""

    def __init__(
        self,
        session: Any,
        root: Path,
        patch: pytest.MonkeyPatch,
        mechanism: fc.Blocks = MECHANISM,
    ) -> None:
        self.session, self.root, self._patch, self.mechanism = session, root, patch, mechanism
        self.counts: Tally[tuple[int, str]] = Tally()
        self.open = self.files = 0
        (root / "in").mkdir(parents=True)

    def stream(self, **changes: Any) -> Any:
        about = {"tick": "10m", "keys": KEYS} | changes
        return oracle.stream(self.session, self.root / "state", self.mechanism, **about)

    @property
    def events(self) -> Any:
        return self.session.readStream.schema("at timestamp, page string").parquet(
            str(self.root / "in")
        )

    def add(self, events: list[Event]) -> None:
        """Events for the next micro-batch. One that is late counts in the tick still open."""
        self.files += 1
        write_events(self.root / "in" / f"{self.files}.parquet", events)
        for moment, key in events:
            if key and moment >= START:
                self.counts[max((moment - START) // TICK, self.open), key] += 1

    def run(self, moment: float, to: Any = None, **changes: Any) -> None:
        """One micro-batch, at so many seconds after the start."""
        at = START + moment
        self._patch.setattr(pipeline, "_now", lambda: sql.timestamp_seconds(sql.lit(at)))
        sink = to or parquet(str(self.root / "out"))
        writer = publish(self.events, self.stream(**changes), to=sink)
        writer.trigger(availableNow=True).start().awaitTermination()
        self.open = max(self.open, int(moment) // TICK)

    def refused(self, moment: float, **changes: Any) -> str:
        """Why a micro-batch is refused."""
        with pytest.raises(Exception) as caught:
            self.run(moment, **changes)
        return reason(caught.value)

    @property
    def found(self) -> dict[Place, Row]:
        return rows_of(self.session.read.parquet(str(self.root / "out")))

    @property
    def wanted(self) -> dict[Place, Row]:
        return expected(self.root / "state", KEYS, self.counts, self.open)


@pytest.fixture
def stage(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(spark, tmp_path, monkeypatch)


def test_figures_equal_the_local_library_and_done_counts_are_removed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.spark.ledger._MOST_PARTS", 3)
    chance, ahead = random.Random(5), 15 * HOUR
    stage.add([(START + ahead, "b")])
    moments = (700, 700, 5 * HOUR, 5 * HOUR + 5400, 9 * HOUR, 9 * HOUR + 60, 14 * HOUR)
    for number, moment in enumerate(moments):
        if number != 2:
            early = -900 if number else 0
            stage.add(
                [
                    (
                        START + moment + chance.randrange(early, 900),
                        chance.choice([*KEYS, "x", None]),
                    )
                    for _ in range(40)
                ]
            )
        stage.run(moment)
        if number in (3, 6):
            assert stage.found == stage.wanted
    assert {per for per, *_ in stage.found} == {"10m", "1h", "4h"}
    commit = last_commit(stage.root / "state")
    assert commit["kept"] == 24, "two blocks of 4 hours are over, the second only just"
    held = stage.session.read.parquet(
        *(str(stage.root / "state" / part) for part in commit["parts"])
    )
    assert held.agg({"position": "min"}).first()[0] >= 24
    assert held.where(f"position = {ahead // TICK}").count() == 1, "it waits for its tick"
    parts = {path.name for path in (stage.root / "state").glob("counts-*")}
    assert parts == set(commit["parts"]) and len(parts) <= 4
    assert len(list((stage.root / "state").glob("commit-*"))) == 1


def test_a_secret_that_is_replaced_meanwhile_gives_no_second_noise(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that is published later has less noise, not other noise: the differences would tell
    more than the curve."""
    own, at = stage.root / "own", START + 9 * HOUR
    own.write_text(oracle.SECRET)
    stage.add([(START + 10, "a"), (START + HOUR, "b")])
    monkeypatch.setattr(pipeline, "_now", lambda: sql.timestamp_seconds(sql.lit(at)))
    running = publish(
        stage.events, stage.stream(secret_file=str(own)), to=parquet(str(stage.root / "out"))
    )
    own.write_text("another secret of thirty-two bytes")
    running.trigger(availableNow=True).start().awaitTermination()
    stage.open = 9 * HOUR // TICK
    assert stage.found == stage.wanted
    assert "secret must be that of the state" in stage.refused(10 * HOUR, secret_file=str(own))


def test_late_events_count_in_the_open_tick_and_ticks_wait_for_them(stage: Stage) -> None:
    stage.add([(START + 10, "a")])
    stage.run(TICK + 100, grace_seconds=300)
    assert not (stage.root / "out").exists(), "the first tick is kept open for five minutes"
    stage.open = 0
    stage.add([(START + 20, "b"), (START - 1, "c"), (START + 99 * HOUR, "c")])
    stage.run(TICK + 300, grace_seconds=300)
    stage.add([(START + 30, "c")])
    stage.run(3 * TICK, grace_seconds=300)
    stage.open = 2
    assert stage.counts == {(0, "a"): 1, (0, "b"): 1, (1, "c"): 1, (594, "c"): 1}
    assert stage.found == stage.wanted


def test_a_micro_batch_that_failed_after_its_commit_publishes_the_same(stage: Stage) -> None:
    """The sink fails; then the source shows other events under the same offsets, at another
    time."""

    def broken(figures: Any, name: str) -> None:
        seen.append((rows_of(figures), name))
        raise RuntimeError("the sink is full")

    seen: list[tuple[dict[Place, Row], str]] = []
    stage.add([(START + 10, "a"), (START + 700, "b")])
    assert "the sink is full" in stage.refused(2 * TICK, to=broken)
    assert "the sink is full" in stage.refused(2 * TICK, to=broken)
    assert seen[0] == seen[1]
    write_events(stage.root / "in" / "1.parquet", [(START + 10, "c")] * 5)
    (stage.root / "in" / ".1.parquet.crc").unlink(missing_ok=True)
    stage.run(2 * TICK)
    assert stage.found == stage.wanted == seen[0][0]
    stage.add([(START + 1300, "a")])
    stage.run(3 * TICK)
    assert stage.found == stage.wanted


def test_a_micro_batch_that_failed_before_its_commit_is_counted_anew(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("killed before the commit")

    stage.add([(START + 10, "a")])
    with monkeypatch.context() as patch:
        patch.setattr("fadecount.spark.ledger.Directory.create", failing)
        assert "killed before the commit" in stage.refused(2 * TICK)
    (leftover,) = (stage.root / "state").glob("counts-*")
    stage.run(2 * TICK)
    assert stage.found == stage.wanted
    assert not leftover.exists()


def test_a_second_checkpoint_and_restored_states_are_refused(stage: Stage, tmp_path: Path) -> None:
    state, kept = stage.root / "state", tmp_path / "kept"

    def put(*patterns: str) -> None:
        """Bring back what a backup holds, and remove what came after it."""
        for pattern in patterns:
            for path in state.glob(pattern):
                (shutil.rmtree if path.is_dir() else Path.unlink)(path)
            for path in kept.glob(pattern):
                (shutil.copytree if path.is_dir() else shutil.copy2)(path, state / path.name)

    stage.add([(START + 10, "a")])
    stage.run(2 * TICK)
    shutil.copytree(state, kept)
    stage.add([(START + 1300, "b")])
    stage.run(3 * TICK)
    before = stage.found
    assert before == stage.wanted
    shutil.move(kept, tmp_path / "older")
    shutil.copytree(state, kept)
    stage.add([(START + 1900, "c")])

    shutil.rmtree(state / "checkpoint")
    assert stage.refused(4 * TICK).startswith("state must be that of the checkpoint, got 2 micro-")
    shutil.rmtree(state / "checkpoint")
    shutil.copytree(tmp_path / "older" / "checkpoint", state / "checkpoint")
    message = "state must be that of the checkpoint, got 2 micro-batches in it and 1 in the"
    assert stage.refused(4 * TICK).startswith(message), "the same number, but another micro-batch"
    put("checkpoint")
    stage.run(4 * TICK)
    assert stage.found == stage.wanted, "the right checkpoint goes on"
    before = stage.found

    put("checkpoint", "commit-*", ".commit-*")
    assert stage.refused(5 * TICK).startswith("state must have the last commit, "), "older commit"
    shutil.rmtree(state)
    shutil.copytree(kept, state)
    assert "a copy or a restored backup" in stage.refused(5 * TICK), "older state"
    shutil.rmtree(state)
    assert "got others in" in stage.refused(4 * TICK), "a state that was begun anew"
    assert stage.found == before
    table = stage.session.read.parquet(str(stage.root / "in"))
    with pytest.raises(CheckpointError, match=r"^kind must be that of the state, stream, got"):
        figures(table, stage.stream(), until="2026-01-02")


def test_a_repeated_micro_batch_has_the_time_that_spark_logged(stage: Stage) -> None:
    """With the real clock: Spark begins a failed micro-batch again as the same one."""

    def broken(_: Any, name: str) -> None:
        names.append(name)
        raise RuntimeError("the sink is full")

    names: list[str] = []
    stage.add([(START + 10, "a")])
    for to in (broken, lambda _, name: names.append(name)):
        writer = publish(stage.events, stage.stream(), to=to)
        query = writer.trigger(availableNow=True).start()
        if to is broken:
            with pytest.raises(Exception, match="the sink is full"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert names[0] == names[1] and "-0000000000-" in names[0]


def test_what_a_stream_cannot_do_is_refused_with_the_reason(stage: Stage) -> None:
    table, to = stage.session.createDataFrame(events_frame([])), print
    with pytest.raises(Exception, match="can not be called on streaming"):
        figures(stage.events, stage.stream(), until="2026-01-02")
    with pytest.raises(Exception, match="streaming and batch"):
        publish(table, stage.stream(), to=to).start()
    assert not list((stage.root / "state").glob("co*-*")), "nothing was counted"
    with pytest.raises(
        ParameterError, match=r"^person must not be given for a stream: a cap would"
    ):
        publish(stage.events, stage.stream(person="who"), to=to)
