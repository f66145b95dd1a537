"""From events to figures: events get the position of their tick, their counts are frozen in the
ledger, figures are made from the ledger. A stream does it for each micro-batch, once or again."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import NumericType

from fadecount.calendar import DAY, LATEST
from fadecount.counters.figures import FigureBatch, due_blocks, keyed_figures
from fadecount.durations import parse_time
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Discovery, Level
from fadecount.noise import KeyedNoise
from fadecount.spark.ledger import Commit, Directory, Ledger, Stream
from fadecount.streams.description import can_be_key
from fadecount.streams.embargo import draw_stages

FIGURES = (
    "stream string, per string, start timestamp, end timestamp, key string, stage int, "
    "status string, value long, low long, high long, published timestamp"
)
_NAMES = [column.split()[0] for column in FIGURES.split(", ")]
_COUNTS = pa.schema([("position", pa.int64()), ("key", pa.string()), ("count", pa.int64())])
_TIME = pa.timestamp("us", "UTC")
Sink = Callable[[DataFrame, str], None]
"""Writes the figures of a micro-batch; when it is executed again, the same under the same name."""
_now = sql.current_timestamp


def figures(events: DataFrame, stream: Stream, *, until: str | datetime) -> DataFrame:
    """The figures of a table of events that are public at the time ``until``: a DataFrame of
    (stream, per, start, end, key, stage, status, value, low, high, published). ``low`` and ``high``
    enclose the true count with probability 95 %.

    Guarantees: what :class:`fadecount.spark.Stream` does. The same call gives the same rows again,
    whatever happened to the table: ticks that are over at ``until`` are counted once, and their
    counts are frozen in the stream's ledger. Refuses, before anything is counted: the ledger of
    another stream, a copied or restored one, a time to come.
    """
    end = parse_time(str(until), stream.options.zone, name="until").timestamp()
    public = stream.options.ticks.at(end) - stream.first_tick
    if public < 1 or end > time.time():
        bound = "a tick after start or later, and over"
        raise bad_parameter("until", until, bound, "ticks are counted when they are over")
    ledger = Ledger(events.sparkSession, stream, "table")
    last = ledger.last()
    if public > last.open:
        rows = _placed(events, stream).where(f"position >= {last.open}L and position < {public}L")
        if stream.options.person:
            rows = _capped(rows, ledger, last.open, public)
        last = ledger.append(last, rows, open=public)
    return _figures(ledger, last, 0, public)


def publish(events: DataFrame, stream: Stream, *, to: Sink) -> Any:
    """A stream writer, to be started with a trigger: each micro-batch appends its counts to the
    stream's ledger, then publishes what has become due. A tick closes by the clock,
    ``grace_seconds`` of the options after its end. A later event counts in the first open tick.

    Guarantees: executing a micro-batch again gives the same figures again; in which tick an event
    counts depends on its own time, its own micro-batch and the clock. Assumes, besides what
    ``Stream`` does: a micro-batch takes less time than its trigger, and holds all events that are
    there (no limit by their number).
    """
    if stream.options.person is not None:
        raise ParameterError(
            "person must not be given for a stream: a cap would need a list of the persons of every"
            " open day, which no ledger keeps; count a table of whole days with figures"
        )
    ledger, grace = Ledger(events.sparkSession, stream, "stream"), stream.options.grace_seconds

    def micro_batch(rows: DataFrame, number: int) -> None:
        """Execute a micro-batch, once or again. One of the same number at another time is another
        one, which Spark planned because its checkpoint was restored."""
        commit, ((clock,),) = ledger.last(), rows.select("clock").dropna().collect()
        if (number, clock) != (commit.number, commit.clock):
            if number != commit.number + 1:
                raise CheckpointError(
                    f"state must be that of the checkpoint, got {commit.number + 1} micro-batches"
                    f" in it and {number} in the checkpoint; one of them is another one, or was"
                    " restored: take a new directory for both"
                )
            in_time = sql.greatest("position", sql.lit(commit.open))  # late events too
            rows = rows.dropna(subset=["key"]).withColumn("position", in_time)
            now = stream.options.ticks.at(clock // 1_000_000 - grace) - stream.first_tick
            commit = ledger.append(commit, rows, open=max(commit.open, now), clock=clock)
        if commit.open > commit.after:
            to(_figures(ledger, commit, commit.after, commit.open), f"{commit.epoch}-{commit.name}")

    # One row more in every micro-batch says when it began. Spark logs that time before, so a second
    # execution sees the same. And there is a micro-batch at every trigger, with or without events:
    # no event can close a tick, or keep one open.
    source = events.sparkSession.readStream.format("rate-micro-batch")
    beats = source.options(rowsPerBatch="1", numPartitions="1").load()
    beats = beats.select(sql.unix_micros(_now()).alias("clock"))
    rows = _placed(events, stream).select("position", "key")
    writer = rows.unionByName(beats, allowMissingColumns=True).writeStream.foreachBatch(micro_batch)
    return writer.option("checkpointLocation", f"{stream.state}/checkpoint")


def _placed(events: DataFrame, stream: Stream) -> DataFrame:
    """The events from the stream's start on that have a time, a key and a person, each with the
    position of its tick."""
    options, ticks = stream.options, stream.options.ticks
    columns = {"time": options.time, "key": options.key, "person": options.person}
    rows = events.select(*(events[each].alias(name) for name, each in columns.items() if each))
    if isinstance(rows.schema["time"].dataType, NumericType):
        remedy = "seconds and milliseconds look alike: make one of them, as by timestamp_millis"
        raise bad_parameter("time", options.time, "a column of timestamps or texts", remedy)
    texts = (f"cast({name} as string) as {name}" for name in rows.columns[1:])
    rows = rows.selectExpr("try_cast(time as timestamp) as time", *texts).replace("", None)
    begin = f"time >= timestamp_seconds({ticks.start_seconds(stream.first_tick)}L)"
    rows = rows.where(f"{begin} and time < timestamp_seconds({LATEST}L)").dropna()
    days = ticks.tick_seconds % DAY == 0  # local days, which clock changes make shorter or longer
    clock = f"from_utc_timestamp(time, '{ticks.zone}')" if days else "time"
    tick = sql.expr(f"floor(unix_seconds({clock}) / {ticks.tick_seconds})")
    return rows.withColumn("position", tick - stream.first_tick)


def _capped(rows: DataFrame, ledger: Ledger, after: int, until: int) -> DataFrame:
    """The events that the unit allows each person in its tick or day: the first ones by time or,
    where it allows several keys, the first ones under each of the person's first keys. Under a key
    that is not declared a person counts once, in the first tick. A day is capped and frozen as a
    whole, so only the person's own events decide, at one time."""
    stream, unit, ticks = ledger.stream, ledger.stream.options.unit, ledger.stream.options.ticks
    positions = np.arange(after, until + 1)
    slots = ticks.blocks_of(unit.per, stream.first_tick + positions)
    if slots[-1] == slots[-2]:
        bound = "the end of a day or tick of the unit"
        remedy = "what a person does in it is capped as a whole"
        raise bad_parameter("until", ticks.local(stream.first_tick + until), bound, remedy)
    begins = positions[np.searchsorted(slots, slots)]
    slot = ledger.spark.createDataFrame(pa.table({"position": positions, "slot": begins}))
    declared, known = sql.col("declared"), ledger.keys.withColumn("declared", sql.lit(True))
    can_be = sql.udf(can_be_key, "boolean", useArrow=True)  # what can be no key uses up no cap
    appears = sql.lit(stream.discovery is not None) & can_be("key")
    rows = rows.join(sql.broadcast(slot), "position").join(known, "key", "left")
    rows, person = rows.where(declared | appears), Window.partitionBy("person", "slot")
    if unit.keys > 1:
        own = Window.partitionBy("person", "slot", "key")
        rows = rows.withColumn("since", sql.min("time").over(own))
        rows = rows.withColumn("keys", sql.dense_rank().over(person.orderBy("since", "key")))
        rows, person = rows.where(f"keys <= {unit.keys}"), own
    ranked = rows.withColumn("rank", sql.row_number().over(person.orderBy("time", "key")))
    most = sql.expr(f"rank <= if(declared, {unit.events}, 1)")
    return ranked.where(most).withColumn("position", sql.expr("if(declared, position, slot)"))


def _figures(ledger: Ledger, commit: Commit, after: int, until: int) -> DataFrame:
    """The figures that become public after more than ``after`` and at most ``until`` ticks: those
    of every declared key, also where nothing happened, and of keys that appear by themselves."""
    stream, calendar = ledger.stream, ledger.calendar(commit)
    named, blocks = ledger.noise(commit.epoch), stream.blocks
    due = due_blocks(blocks, calendar, after, until)
    first = min((int(each.starts[0]) for each in due), default=0)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Some keys and their counts in, their figures out, in an order that depends on the figures
        only. A row without a position declares its key. No task holds the secret."""
        rows = pa.Table.from_batches((each.cast(_COUNTS) for each in batches), _COUNTS)
        keys = pc.unique(rows.filter(pc.is_null(rows["position"]))["key"]).sort()
        numbers = pc.index_in(rows["key"], value_set=keys)
        if len(keys):
            known = rows.set_column(1, "key", numbers).drop_null().sort_by("position")
            counts = tuple(each.to_numpy().astype(np.int64) for each in known.columns)
            noise = named.of(keys.to_pylist())
            for made in keyed_figures(blocks, calendar, due, counts, noise):
                yield _rows(stream, stream.description.levels[made.level], blocks, made, keys)
        if stream.discovery is not None:
            others = rows.filter(pc.is_null(numbers))
            yield from _appearing(stream, stream.discovery, named, others, until)

    keys = ledger.keys.selectExpr("cast(null as long) as position", "key", "0L as count")
    rows = ledger.counts(commit, first).where(f"position < {until}L").unionByName(keys)
    tasks = int(ledger.spark.conf.get("spark.sql.shuffle.partitions") or 200)
    return rows.repartition(tasks, "key").mapInArrow(task, FIGURES)


def _appearing(
    stream: Stream, discovery: Discovery, named: KeyedNoise, rows: pa.Table, until: int
) -> Iterator[pa.RecordBatch]:
    """The figures of keys that appear by themselves and are public after so many ticks: a row says
    how many persons brought a key on the day that begins at its position."""
    days: dict[int, dict[str, int]] = defaultdict(dict)
    for row in rows.to_pylist():
        days[row["position"]][row["key"]] = row["count"]
    first, ((lag, epsilon), *later) = stream.first_tick, discovery.stages
    blocks = Blocks(Level(1, epsilon, lag, later=tuple(later)))  # the same noise
    for begin, brought in sorted(days.items()):
        noise, day = named.of([*brought]), stream.description.block_of(first + begin)
        for public, shown in draw_stages(stream.description, first, day, brought, noise):
            if shown.keys and public - first <= until:
                start, end, out = np.array([[begin + first], [shown.end_tick], [public]]) - first
                made = FigureBatch(0, shown.stage, start, end, out, shown.values)
                yield _rows(stream, discovery.per, blocks, made, pa.array(shown.keys))


def _rows(
    stream: Stream, per: str, blocks: Blocks, made: FigureBatch, keys: pa.Array
) -> pa.RecordBatch:
    """Figures in the shape (blocks, keys) as rows. Their noise is that of a level of ``blocks``."""
    status = blocks.levels[made.level].status(made.stage)
    half = pa.scalar(blocks.figure_interval(made.level, made.stage))
    (height, width), values = made.values.shape, pa.array(made.values.ravel())
    fixed = stream.name, per, pa.scalar(made.stage, pa.int32()), status
    name, per, stage, status = (pa.repeat(each, len(values)) for each in fixed)
    ticks = (stream.first_tick + each for each in (made.starts, made.ends, made.public))
    seconds = (np.repeat(stream.description.ticks.starts_of(each), width) for each in ticks)
    start, end, published = (pa.array(each * 10**6, _TIME) for each in seconds)
    key = keys.take(np.tile(np.arange(width), height))
    low, high = pc.subtract(values, half), pc.add(values, half)
    columns = [name, per, start, end, key, stage, status, values, low, high, published]
    return pa.RecordBatch.from_arrays(columns, _NAMES)


# Where figures of a stream go
# ------------------------------------------------------------------------------------------------
def parquet(path: str) -> Sink:
    """A directory of Parquet files: one directory below it for each micro-batch that published
    something. Refused are figures of a state that is older than those there, or another one."""

    def write(figures: DataFrame, name: str) -> None:
        directory, (epoch, number, _) = Directory(figures.sparkSession, path), name.split("-")
        own, first, end = f"batch={name}", f"batch={epoch}-", f"batch={epoch}-{number}"
        if any(each != own and not first < each < end for each in directory.names("batch=")):
            raise CheckpointError(
                f"figures must lie with those of the same state, got others in {path!r}; an older"
                " state was restored, or begun anew: take new directories for both"
            )
        if not Directory(figures.sparkSession, f"{path}/{own}").names("_SUCCESS"):
            figures.write.mode("overwrite").parquet(f"{path}/{own}")

    return write


def postgresql(table: str, *, database: str) -> Sink:
    """A table, created if needed. The driver connects with ``database`` (libpq parameters). The
    figures of a micro-batch appear all at once; others for the same block are refused."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    def write(figures: DataFrame, _name: str) -> None:
        with_offset = "yyyy-MM-dd HH:mm:ssxxx"  # whatever the session's time zone is
        times = {name: sql.date_format(name, with_offset) for name in ("start", "end", "published")}
        prepare, insert, others = (
            SQL(text).format(Identifier(*table.split("."))) for text in _STATEMENTS
        )
        with psycopg.connect(database) as connection:
            connection.execute(prepare)
            with connection.cursor().copy("copy fresh from stdin") as copy:
                for row in figures.withColumns(times).toLocalIterator(prefetchPartitions=True):
                    copy.write_row(row)
            connection.execute(insert)
            if connection.execute(others).fetchone() is not None:
                raise CheckpointError(
                    "figures must be those published before, got others for the same block; an"
                    " older state was restored: take a new directory and a new table"
                )

    return write


_STATEMENTS = (
    """create table if not exists {0} (stream text, per text, "start" timestamptz,
    "end" timestamptz not null, key text, stage integer, status text not null,
    value bigint not null, low bigint, high bigint, published timestamptz not null,
    primary key (stream, per, "start", key, stage));
    create temporary table fresh (like {0}) on commit drop""",
    "insert into {0} table fresh on conflict do nothing",
    """select from fresh join {0} old using (stream, per, "start", key, stage)
    where old.value <> fresh.value limit 1""",
)
