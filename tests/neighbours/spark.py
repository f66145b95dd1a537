"""The shards of a Spark job, without Spark: rows in micro-batches by their arrival, the clock at
public moments.

Both inputs of a pair have the same keyed noise, which does not depend on the inputs: it cancels in
every difference.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import fadecount as fc
from tests.neighbours.harness import Published, Row, Scene
from tests.spark.micro_batches import Operator, make_job
from tests.spark.oracle import SECRET, Event, MicroBatch

MECHANISMS: dict[str, fc.Mechanism] = {
    "gradual": fc.Gradual(epsilon=0.5, exponent=2.0),
    "delayed": fc.Gradual(epsilon=0.5, exponent=1.0, delay=2),
    "linear": fc.Linear(epsilon=0.5),
    "refresh": fc.Refresh(window=3, epsilon_current=0.7, epsilon_past=0.2),
    "binary": fc.Binary(epsilon=1.0, horizon=1000),
    "gaussian": fc.Gaussian(sigma=16.0, half_lives=(32, 1), weights=(0.01, 0.25, 0.74)),
}


def publish(scene: Scene, folder: Path) -> Published:
    """What a stream releases of a scene. At its cuts a micro-batch is executed twice, as after a
    crash."""
    folder.mkdir(parents=True)
    (folder / "secret").write_text(SECRET)
    start, keys = scene.start_of(scene.first), list(scene.keys or ("a",))
    job = make_job(
        MECHANISMS[scene.mechanism],
        tick=scene.tick_seconds,
        shards=1 + scene.seed % 3,
        start_seconds=start,
    )
    operator = Operator(replace(job, secret=f"file:{folder / 'secret'}"), keys)
    values: dict[int, dict[str, int]] = {}
    widths: dict[int, dict[str, tuple[int, int]]] = {}
    moments = []
    for number, batch in enumerate(_micro_batches(scene)):
        crashed = operator.copy()
        released = operator.run(batch)
        if number % 3 == len(scene.cuts):
            assert crashed.run(MicroBatch(batch.watermark, [])) == released, (
                "a repeated micro-batch released something else"
            )
        for (tick, key), (value, low, high) in released.items():
            values.setdefault(tick, {})[key] = value
            widths.setdefault(tick, {})[key] = (value - low, high - value)
        moments.append((number, sorted(released)))
    return Published(
        keys=tuple(keys),
        values={tick: tuple(row[key] for key in keys) for tick, row in sorted(values.items())},
        widths={tick: tuple(row[key] for key in keys) for tick, row in sorted(widths.items())},
        moments=tuple(moments),
    )


def _micro_batches(scene: Scene) -> list[MicroBatch]:
    """Triggers at moments that the seed alone decides; the clock of a micro-batch is the moment of
    the one before it."""
    chance, late = random.Random(scene.seed), scene.graces[0]
    now, end = (
        float(scene.start_of(scene.first)),
        scene.start_of(scene.end) + late + scene.tick_seconds,
    )
    batches, before, clock = [], float("-inf"), 0
    while now <= end:
        rows = [_event(row) for row in scene.rows if before < row.arrival <= now]
        batches.append(MicroBatch(clock, rows))
        before, clock = now, max(clock, int(1000 * (now - late)))
        now += chance.choice((0.1, 0.4, 1.0, 1.7)) * scene.tick_seconds
    return [*batches, MicroBatch(clock, [])]


def _event(row: Row) -> Event:
    """A row as Spark hands it over: a text that is no time is a null."""
    try:
        moment = (
            float(row.time) if row.time.isdigit() else datetime.fromisoformat(row.time).timestamp()
        )
    except ValueError:
        moment = float("nan")
    return moment, row.key  # type: ignore[return-value]  # nulls make the column one of floats, as in pandas
