"""From events to figures. A table and a stream do the same: events get the position of their tick,
their counts are frozen in the ledger, figures are made from the ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType

from fadecount.counters.figures import Due, Made, due_blocks, keyed_figures
from fadecount.durations import parse_time
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import ANNOUNCED
from fadecount.spark.ledger import Commit, Ledger, Stream
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.discovery import DISCOVERED, can_be_key
from fadecount.streams.embargo import drawn
from fadecount.streams.ticks import DAY, LATEST

FIGURES = (
    "stream string, per string, start timestamp, end timestamp, key string, stage int, "
    "status string, value long, low long, high long, published timestamp"
)
_NAMES = [column.split()[0] for column in FIGURES.split(", ")]
_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("count", pa.int64())])
_TIME = pa.timestamp("us", "UTC")


def figures(events: DataFrame, stream: Stream, *, until: str | datetime) -> DataFrame:
    """The figures of a table of events that are public at the time ``until``: a DataFrame of
    (stream, per, start, end, key, stage, status, value, low, high, published). ``low`` and ``high``
    enclose the true count with probability 95 %. ``stage`` is -1 for the difference that a tied
    block announces when it opens: pure noise.

    The call counts the ticks that are over at ``until``, and freezes the counts in the stream's
    ledger. A call with a later ``until`` adds the ticks since then. So the same call gives the same
    rows again, whatever happened to the table. Events that came into the table after their tick was
    counted are left out.

    Guarantees: what :class:`fadecount.spark.Stream` does. Refuses, before anything is counted: the
    ledger of another stream, a copied or restored one, a time to come.
    """
    if events.isStreaming:
        raise ParameterError("events must be a table, got a stream; use fadecount.spark.publish")
    end = parse_time(str(until), stream.options.zone, name="until").timestamp()
    if end > time.time():
        raise bad_parameter("until", until, "over", "ticks are counted when they are over")
    if (public := stream.position(end)) < 1:
        raise bad_parameter("until", until, "a tick after start or later", "nothing is over yet")
    ledger = Ledger(events.sparkSession, stream, "table")
    last = ledger.last()
    if public > last.open:
        rows = placed(events, stream).where(f"position >= {last.open}L and position < {public}L")
        if stream.options.person:
            rows = _capped(rows, ledger, last.open, public)
        last = ledger.append(last, rows.groupBy("position", "key").count(), open=public)
    return figures_of(ledger, last, 0, public)


def placed(events: DataFrame, stream: Stream) -> DataFrame:
    """Events with the position of their tick, their time, key and person.

    Left out are events before the stream's start, without a time, or with a text that is no time,
    and those without a key or a person.
    """
    options, ticks, first = stream.options, stream.options.ticks, stream.first_tick
    columns = {"time": options.time, "key": options.key, "person": options.person}
    rows = events.select(*(events[each].alias(name) for name, each in columns.items() if each))
    if isinstance(rows.schema["time"].dataType, NumericType):
        remedy = "seconds and milliseconds look alike: make one of them, as by timestamp_millis"
        raise bad_parameter("time", options.time, "a column of timestamps or texts", remedy)
    texts = (f"cast({name} as string) as {name}" for name in rows.columns[1:])
    rows = rows.selectExpr("try_cast(time as timestamp) as time", *texts).replace("", None)
    begin = f"time >= timestamp_seconds({ticks.start_seconds(first)}L)"
    days = ticks.tick_seconds % DAY == 0  # local days, which clock changes make shorter or longer
    clock = f"from_utc_timestamp(time, '{ticks.zone}')" if days else "time"
    position = f"floor(unix_seconds({clock}) / {ticks.tick_seconds}) - {first}L"
    rows = rows.where(f"{begin} and time < timestamp_seconds({LATEST}L)").dropna()
    return rows.withColumn("position", sql.expr(position))


def _capped(rows: DataFrame, ledger: Ledger, after: int, until: int) -> DataFrame:
    """The events that the unit allows each person in its tick or day: the first ones by time or,
    where it allows several keys, the first ones under each of the person's first keys. Under a key
    that is not declared a person counts once, in the first tick. A day is capped and frozen as a
    whole, so only the person's own events decide, at one time."""
    stream, unit, ticks = ledger.stream, ledger.stream.options.unit, ledger.stream.options.ticks
    positions = np.arange(after, until + 1)
    slots = unit.blocks_of(ticks, stream.first_tick + positions)
    if slots[-1] == slots[-2]:
        bound = "the end of a day or tick of the unit"
        remedy = "what a person does in it is capped as a whole"
        raise bad_parameter("until", ticks.local(stream.first_tick + until), bound, remedy)
    begins = positions[np.searchsorted(slots, slots)]
    slot = ledger.spark.createDataFrame(pa.table({"position": positions, "slot": begins}))
    declared, known = sql.col("declared"), ledger.keys.withColumn("declared", sql.lit(True))
    can_appear = sql.lit(False)
    if stream.discovery is not None:  # what can be no key uses up no cap
        can_appear = sql.udf(can_be_key, "boolean", useArrow=True)("key")
    rows = rows.join(sql.broadcast(slot), "position").join(known, "key", "left")
    rows, person = rows.where(declared | can_appear), Window.partitionBy("person", "slot")
    if unit.keys > 1:
        own = Window.partitionBy("person", "slot", "key")
        rows = rows.withColumn("since", sql.min("time").over(own))
        rows = rows.withColumn("keys", sql.dense_rank().over(person.orderBy("since", "key")))
        rows, person = rows.where(f"keys <= {unit.keys}"), own
    ranked = rows.withColumn("rank", sql.row_number().over(person.orderBy("time", "key")))
    most = sql.expr(f"rank <= if(declared, {unit.events}, 1)")
    return ranked.where(most).withColumn("position", sql.expr("if(declared, position, slot)"))


def figures_of(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened, and of keys that appear by themselves.

    A task makes those of some keys, from their counts in the ledger and the keyed noise.
    """
    stream, calendar = ledger.stream, ledger.calendar(commit)
    wanted = due_blocks(stream.blocks, calendar, after, until)
    first = min((int(each.starts[0]) for each in wanted if each.stage != ANNOUNCED), default=until)
    if stream.discovery is not None:
        first = 0
    keys = ledger.keys.selectExpr("cast(null as long) as position", "key", "0L as count")
    rows = ledger.counts(commit, first).where(f"position < {until}L").unionByName(keys)
    tasks = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    task = partial(_task, stream, commit, calendar, wanted, range(after, until))
    return rows.repartition(tasks, "key").mapInArrow(task, FIGURES)


# What a task does: some keys and their counts in, their figures out. Arrow and NumPy only.
# ------------------------------------------------------------------------------------------------
def _task(
    stream: Stream,
    commit: Commit,
    calendar: BlockCalendar,
    wanted: list[Due],
    news: range,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The figures of the keys in some rows of the ledger. Their order depends on the figures
    only."""
    if stream.proof() != commit.stream["secret"]:
        raise CheckpointError(
            "secret_file must hold the secret that the stream began with on every executor, got"
            " another one; give all executors that one"
        )
    rows = pa.Table.from_batches((each.cast(_COUNTS) for each in batches), _COUNTS)
    keys = pc.unique(rows.filter(pc.is_null(rows["position"]))["key"]).sort()
    numbers = pc.index_in(rows["key"], value_set=keys)
    if len(keys):
        known = rows.set_column(1, "key", numbers).drop_null().sort_by("position")
        steps, places, events = (each.to_numpy().astype(np.int64) for each in known.columns)
        noise = stream.noise(commit.epoch, keys.to_pylist())
        counts = steps, places, events
        for made in keyed_figures(stream.blocks, calendar, wanted, counts, noise):
            yield _rows(stream, made, keys)
    if stream.discovery is not None:
        for made, appeared in _appearing(stream, commit, rows.filter(pc.is_null(numbers))):
            if appeared and made.public[0] - 1 in news:
                yield _rows(stream, made, pa.array(appeared))


def _appearing(stream: Stream, commit: Commit, rows: pa.Table) -> Iterator[tuple[Made, list[str]]]:
    """The figures of keys that appear by themselves: a row says how many persons brought a key on
    the day that begins at its position."""
    description, first, days = stream.description, stream.first_tick, rows["position"]
    for start in pc.unique(days).sort().to_pylist():
        day = description.block_of(first + start)
        _, keys, persons = rows.filter(pc.equal(days, start)).to_pydict().values()
        brought, noise = dict(zip(keys, persons, strict=True)), stream.noise(commit.epoch, keys)
        for public, shown in drawn(description, first, day, brought, noise):
            starts, ends, publics = np.array([[first + start], [shown.end_tick], [public]]) - first
            made = Made(DISCOVERED, shown.stage, starts, ends, publics, shown.values)
            yield made, list(shown.keys)


def _rows(stream: Stream, made: Made, keys: pa.Array) -> pa.RecordBatch:
    """Figures in the shape (blocks, keys) as rows."""
    (height, width), values = made.values.shape, pa.array(made.values.ravel())
    per, status, half_width = stream.about(made.level, made.stage)
    fixed = stream.name, per, pa.scalar(made.stage, pa.int32()), status
    name, per, stage, status = (pa.repeat(each, len(values)) for each in fixed)
    ticks, first = stream.description.ticks, stream.first_tick
    start, end, published = (
        pa.array(np.repeat(ticks.starts_of(first + each), width) * 10**6, _TIME)
        for each in (made.starts, made.ends, made.public)
    )
    key, half = keys.take(np.tile(np.arange(width), height)), pa.scalar(half_width, pa.int64())
    low, high = pc.subtract(values, half), pc.add(values, half)
    columns = [name, per, start, end, key, stage, status, values, low, high, published]
    return pa.RecordBatch.from_arrays(columns, _NAMES)
