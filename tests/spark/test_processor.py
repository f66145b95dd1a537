"""The processor: equal to the local vector counter, the same again when executed again, whatever
then arrives."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import pandas as pd
import pytest

import fadecount as fc
from fadecount.errors import CheckpointError, ParameterError
from fadecount.mechanisms.noise_law import quantile_of
from tests.spark.micro_batches import LOCATION, Operator, make_job
from tests.spark.oracle import SECRET, START, Event, MicroBatch, frozen_counts, released

from pyspark.sql.streaming.stateful_processor import TimerValues  # isort: skip
from fadecount.spark.job import budgets_of  # isort: skip

KEYS = [f"key {number}" for number in range(12)]
GAUSSIAN = fc.Gaussian(
    sigma=4.0, half_lives=(30, 2.5, 0.75), weights=(0.01, 0.14, 0.25, 0.6), delay=1
)
MECHANISMS = [
    fc.Gradual(epsilon=0.5, exponent=2.0),
    fc.Gradual(epsilon=0.5, exponent=1.0, delay=3),
    fc.Linear(epsilon=0.5),
    fc.Refresh(window=5, epsilon_current=0.7, epsilon_past=0.2),
    fc.Binary(epsilon=1.0, horizon=1000),
    fc.Designed(budgets=(0.1, float("inf"), 0.3)),
    GAUSSIAN,
]


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCATION.removeprefix("env:"), SECRET)


def _batches(seed: int, *, tick: int = 60, number: int = 12) -> list[MicroBatch]:
    """Batches with late events, early events, undeclared keys, idle stretches and jumps."""
    source, batches, latest = random.Random(seed), [], 0
    for _ in range(number):
        now = max(latest, START) + source.choice([5, 20, 60, 61, 400])
        events: list[Event] = [
            (now + source.randint(-200, 90), source.choice([*KEYS, "undeclared"]))
            for _ in range(source.choice([0, 1, 40]))
        ]
        batches.append(MicroBatch(1000 * latest, events))
        latest = max([latest, *(moment - source.choice([0, 30]) for moment, _ in events)])
    return batches


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.kind)
@pytest.mark.parametrize("shards", [1, 3, 40])
def test_releases_equal_those_of_one_local_vector_counter(
    mechanism: fc.Mechanism, shards: int
) -> None:
    batches = _batches(shards)
    operator = Operator(make_job(mechanism, shards=shards), KEYS)
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for batch in batches:
        new = operator.run(batch)
        assert not found.keys() & new.keys()
        found.update(new)
    counts, ticks = frozen_counts(batches, 60)
    wanted = released(mechanism, KEYS, counts, ticks)
    assert ticks > 10
    assert {place: value for place, (value, _, _) in found.items()} == wanted
    for (tick, _), (value, low, high) in found.items():
        assert value - low == high - value == _half_width(mechanism, tick + 1)


def _half_width(mechanism: fc.Mechanism, step: int) -> int:
    if isinstance(mechanism, fc.Gaussian):
        return max(
            0, math.ceil(mechanism.error_bound(step, 0.05, largest_input=0) - 1.0)
        )  # the bound has half a count more
    return quantile_of(mechanism.schedule.budgets_in_use(int(mechanism.shown(step))), 0.05)


def test_a_repeated_micro_batch_releases_the_same_even_if_its_own_events_change() -> None:
    """Releases of a batch rest on what was committed before it. So no source has to be trusted to
    repeat itself."""
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    compared = 0
    for number, batch in enumerate(_batches(7, number=30)):
        crashed = operator.copy()
        other = _batches(100 + number, number=1)[0].events
        changed = crashed.run(MicroBatch(batch.watermark, [*other, (START, KEYS[0])]))
        first = operator.run(batch)
        assert changed == first
        compared += len(first)
    assert compared > 100


def test_a_batch_that_releases_with_its_own_events_would_be_noticed() -> None:
    """The check above can fail: the events of a batch do show in what the next batch releases."""
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    operator.run(MicroBatch(0, [(START + 30, KEYS[0])]))
    changed = operator.copy()
    operator.run(MicroBatch(1000 * (START + 30), [(START + 40, KEYS[0])]))
    changed.run(MicroBatch(1000 * (START + 30), [(START + 40, KEYS[1])]))
    last = MicroBatch(1000 * (START + 60), [])
    assert operator.run(last) != changed.run(last)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mechanism": fc.Linear(epsilon=0.5).to_json()},
            "mechanism must be that of the checkpoint",
        ),
        ({"shards": 4}, "shards must be that of the checkpoint, 3, got 4"),
        ({"epoch": "another"}, "epoch must be that of the checkpoint"),
        ({"tick_seconds": 61}, "tick must be that of the checkpoint, 60, got 61"),
        ({"start_seconds": START + 60}, "start must be that of the checkpoint"),
        ({"keys": "others"}, "keys must be that of the checkpoint"),
        ({"stream": "other"}, "stream must be that of the checkpoint"),
    ],
)
def test_state_of_another_stream_is_refused_before_anything_is_released(
    changes: dict[str, Any], message: str
) -> None:
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    operator.run(MicroBatch(0, [(START + 30, KEYS[0])]))
    mechanism = fc.Mechanism.from_json(str(changes.get("mechanism", MECHANISMS[0].to_json())))
    rest = {name: value for name, value in changes.items() if name not in ("mechanism", "shards")}
    operator.job = make_job(mechanism, shards=int(str(changes.get("shards", 3))), **rest)
    for batch in (MicroBatch(1000 * (START + 90), []), MicroBatch(0, [(START + 30, KEYS[0])])):
        with pytest.raises(CheckpointError, match=f"^{message}"):
            operator.run(batch)


def test_new_state_under_an_old_checkpoint_is_refused() -> None:
    with pytest.raises(
        CheckpointError, match=r"^checkpoint must be the one given to release, got a new one"
    ):
        Operator(make_job(MECHANISMS[0], begins=False), KEYS)


def test_keys_that_spark_lost_on_the_way_are_missed_at_once() -> None:
    """Spark 4.0 drops columns of the initial state when the query selects from the releases."""
    processor = Operator(make_job(MECHANISMS[0]), KEYS).processor()
    with pytest.raises(
        ParameterError, match=r"^releases must be written as they are on Spark 4.0, got a selection"
    ):
        processor.handleInitialState((0,), pd.DataFrame({"shard": [0]}), TimerValues(-1, 0))


def test_a_row_without_a_key_or_a_time_or_out_of_reach_is_left_out_by_itself() -> None:
    good: list[Event] = [(START, KEYS[0]), (START + 1, KEYS[1])]
    bad: list[Any] = [(START, None), (float("nan"), KEYS[0]), (1 << 62, KEYS[0])]
    last = MicroBatch(1000 * (START + 10), [])
    alone, beside = (Operator(make_job(MECHANISMS[0], tick=1), KEYS) for _ in range(2))
    alone.run(MicroBatch(0, good))
    beside.run(MicroBatch(0, [*bad[:2], *good]))
    beside.run(MicroBatch(0, bad[2:]))
    found = alone.run(last)
    assert len(found) == 10 * len(KEYS)
    assert beside.run(last) == found


def test_two_queries_of_one_job_have_noise_of_their_own() -> None:
    """One release may feed two checkpoints. The same noise on their different counts would give the
    difference exactly."""
    job = make_job(MECHANISMS[0])
    first, second = (
        Operator(job, KEYS, query=query).run(MicroBatch(1000 * (START + 6000), []))
        for query in ("a", "b")
    )
    assert first.keys() == second.keys()
    assert sum(first[place][0] == second[place][0] for place in first) < len(first) // 2


def test_a_state_belongs_to_the_query_that_made_it() -> None:
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    operator.query = "another"
    with pytest.raises(
        CheckpointError,
        match=r"^query must be that of the checkpoint, a query for tests, got another",
    ):
        operator.run(MicroBatch(1000 * (START + 60), []))
    with pytest.raises(
        CheckpointError,
        match=r"^query must be that of the checkpoint, a query for tests, got another",
    ):
        Operator(make_job(MECHANISMS[0], query="a query for tests"), KEYS, query="another")
    with pytest.raises(CheckpointError, match=r"^query must have an id, got none"):
        Operator(make_job(MECHANISMS[0]), KEYS, query="")


def test_a_machine_that_computes_other_budgets_is_refused() -> None:
    """Noise depends on every bit of a budget. The driver's are those of the stream."""
    mechanism = fc.Gradual(epsilon=0.5, exponent=1.3)
    assert budgets_of(mechanism).count(" ") == len(mechanism.schedule.budgets)
    first = float.fromhex(budgets_of(mechanism).split()[1])
    other = budgets_of(mechanism).replace(first.hex(), math.nextafter(first, 1.0).hex(), 1)
    with pytest.raises(
        CheckpointError,
        match=r"^budgets must be that of the checkpoint, got others; this machine computes",
    ):
        Operator(make_job(mechanism, budgets=other), KEYS)
    changed = budgets_of(GAUSSIAN).replace("unit_bits=", "unit_bits=1", 1)
    with pytest.raises(CheckpointError, match=r"^budgets must be that of the checkpoint"):
        Operator(make_job(GAUSSIAN, budgets=changed), KEYS)


def test_a_clock_that_goes_back_releases_nothing_again() -> None:
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    operator.run(MicroBatch(0, []))
    operator.run(MicroBatch(1000 * (START + 600), []))
    operator.handle._timers.registerTimer(operator.shard_of(KEYS[0]), 1)
    with pytest.raises(CheckpointError, match=r"^tick must not go back behind 10"):
        operator.run(MicroBatch(1000 * (START + 300), []))
    fresh = Operator(make_job(MECHANISMS[0]), KEYS)
    fresh.run(MicroBatch(1000 * (START + 600), []))
    fresh.run(MicroBatch(1000 * (START + 300), [(START, KEYS[0])]))
    with pytest.raises(CheckpointError, match=r"^tick must not go back behind 10"):
        fresh.run(MicroBatch(1000 * (START + 660), []))


def test_a_secret_that_changes_or_vanishes_is_refused_and_travels_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    processor = operator.processor()
    processor._key()
    del (
        processor._handle,
        processor._identity,
        processor._roster,
        processor._pending,
        processor._counter,
    )
    assert SECRET.encode() not in pickle.dumps(processor)
    assert processor._key() not in pickle.dumps(processor)
    monkeypatch.setenv(LOCATION.removeprefix("env:"), "x" * 64)
    with pytest.raises(CheckpointError, match=r"^secret must be the same on every executor"):
        operator.run(MicroBatch(1000 * (START + 60), []))
    monkeypatch.delenv(LOCATION.removeprefix("env:"))
    with pytest.raises(ParameterError, match=r"^secret must exist, got no environment variable"):
        operator.run(MicroBatch(1000 * (START + 60), []))


def test_half_a_state_is_refused() -> None:
    operator = Operator(make_job(MECHANISMS[0]), KEYS)
    operator.handle.value_states["counter"].state.clear()
    with pytest.raises(CheckpointError, match=r"^checkpoint must hold the whole state of a shard"):
        operator.run(MicroBatch(1000 * (START + 60), []))


def test_state_per_key_stays_within_its_bound() -> None:
    """16 * (ceil(log2 t) + 4) bytes per key, with names of ten letters, one event pending per key,
    everything counted."""
    keys = [f"{number:010}" for number in range(1000)]
    job = make_job(fc.Gradual(epsilon=0.5, exponent=2.0), shards=1)
    operator = Operator(job, keys)
    for ticks in (1, 2, 3, 10, 100):
        moment = START + 60 * ticks
        operator.run(MicroBatch(1000 * moment, [(moment + 1, key) for key in keys]))
        size = sum(
            len(value[0])
            for state in operator.handle.value_states.values()
            for value in state.state.values()
        )
        assert size / len(keys) <= 16 * ((ticks - 1).bit_length() + 4)
