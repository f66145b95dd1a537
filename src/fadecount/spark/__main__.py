"""Private running counts of events on Spark: reads files, a table or a topic, writes Parquet or
PostgreSQL.

examples:
  what is there, then stop (run it again when there is more):
    python -m fadecount.spark --events visits/ --time at --key page --keys pages.txt --tick 1h
    --start 2026-01-01 \\
        --plan plan.json --secret file:/run/secrets/fadecount --shards 64 --checkpoint state/ --to
        parquet:releases/
  a table, for ever, into PostgreSQL:
    spark-submit .../fadecount/spark/__main__.py --format table --events web.visits --follow --to
    postgresql:releases ...
  a Kafka topic (the connector is yours):
    ... --format kafka --option subscribe=visits --option kafka.bootstrap.servers=host:9092 \\
        --time timestamp --key "cast(key as string)"

The plan is a file that fadecount plan --save wrote, or the JSON of a mechanism. The secret is read
on the executors.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Any

from fadecount.durations import parse_duration
from fadecount.errors import FadecountError, ParameterError, bad_parameter
from fadecount.mechanisms import Mechanism, read_mechanism

FAILED = 1
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_WITH_SCHEMA = ("parquet", "csv", "json", "orc")
_BY_EVENTS = (
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxbytespertrigger",
    "maxrowspertrigger",
    "maxrecordspertrigger",
)
_OPTIONS = {
    "header": "true",
    "maxFileAge": "36500d",  # Spark would silently skip files that are a week older than the newest
}


def build_parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m fadecount.spark",
        description=summary,
        epilog=details.strip("\n"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    source = parser.add_argument_group("events")
    source.add_argument(
        "--events", default="", metavar="PATH", help="directory of files, or a table's name"
    )
    source.add_argument(
        "--format",
        default="parquet",
        help="parquet, csv, json, table, or any of Spark's (default: %(default)s)",
    )
    source.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the source; repeatable",
    )
    source.add_argument(
        "--schema",
        default="",
        metavar="DDL",
        help="columns of files, such as 'at timestamp, page string'",
    )
    source.add_argument(
        "--where", default="", metavar="SQL", help="condition on events; others are not read"
    )
    source.add_argument(
        "--time", required=True, metavar="SQL", help="column or expression: when the event happened"
    )
    source.add_argument(
        "--key", required=True, metavar="SQL", help="column or expression: the event's key"
    )
    source.add_argument(
        "--keys",
        required=True,
        metavar="FILE",
        help="declared keys: one per line, or Parquet (first column)",
    )
    stream = parser.add_argument_group("stream")
    stream.add_argument(
        "--plan", required=True, metavar="FILE", help="the plan or mechanism, as JSON"
    )
    stream.add_argument(
        "--tick", required=True, metavar="DURATION", help="length of a tick, such as 15m or 1d"
    )
    stream.add_argument(
        "--start",
        required=True,
        metavar="TIME",
        help="when the first tick begins; UTC unless it says otherwise",
    )
    stream.add_argument(
        "--late",
        default="0s",
        metavar="DURATION",
        help="how long after its end a tick closes (default: 0s)",
    )
    stream.add_argument(
        "--beta",
        type=float,
        default=0.05,
        help="how often a count may lie outside its interval (default: 0.05)",
    )
    stream.add_argument(
        "--stream",
        default="default",
        metavar="NAME",
        help="name of the stream (default: %(default)s)",
    )
    stream.add_argument(
        "--secret",
        metavar="PLACE",
        help="file:/path or env:NAME, on the executors; at least 32 bytes",
    )
    stream.add_argument(
        "--shards",
        type=int,
        required=True,
        metavar="N",
        help="how many shards the keys are spread over; fixed",
    )
    stream.add_argument(
        "--checkpoint", required=True, metavar="PATH", help="where Spark keeps the state"
    )
    stream.add_argument(
        "--moved",
        action="store_true",
        help="the checkpoint was moved here, and no copy of it is left",
    )
    sink = parser.add_argument_group("releases")
    sink.add_argument(
        "--to", required=True, metavar="PLACE", help="parquet:PATH or postgresql:TABLE"
    )
    sink.add_argument(
        "--database",
        default="",
        metavar="WORDS",
        help="libpq connection words, no password (default: PG* variables)",
    )
    sink.add_argument(
        "--follow",
        action="store_true",
        help="go on for ever instead of stopping when all events are read",
    )
    sink.add_argument(
        "--every",
        default="10s",
        metavar="DURATION",
        help="time between micro-batches of --follow (default: 10s)",
    )
    return parser


def main(words: list[str] | None = None) -> int:
    """Run the job; 0 when it stopped by itself, 1 when it was refused or failed, in one line."""
    arguments = build_parser().parse_args(words)
    try:
        mechanism = read_mechanism(
            arguments.plan, tick_seconds=parse_duration(arguments.tick, name="--tick")
        )
        kind, _, place = arguments.to.partition(":")
        if kind not in ("parquet", "postgresql") or not place:
            raise bad_parameter(
                "--to", arguments.to, "parquet:PATH or postgresql:TABLE", "say where releases go"
            )
        run(arguments, mechanism, kind, place)
    except FadecountError as error:
        print(f"fadecount: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("fadecount: stopped", file=sys.stderr)
        return 130
    return 0


def run(arguments: argparse.Namespace, mechanism: Mechanism, kind: str, place: str) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from fadecount.spark import explain, release, to_parquet, to_postgresql
    from fadecount.spark.explain import summary

    every = parse_duration(arguments.every, name="--every")
    try:
        session = _session(arguments.shards)
        releases = release(
            read_events(session, arguments),
            mechanism,
            tick=arguments.tick,
            time="time",
            key="key",
            keys=read_keys(session, arguments.keys),
            secret=arguments.secret,
            shards=arguments.shards,
            start=arguments.start,
            late=arguments.late,
            beta=arguments.beta,
            stream=arguments.stream,
            checkpoint=arguments.checkpoint,
            moved=arguments.moved,
        )
        if kind == "parquet":
            writer = to_parquet(releases, place, checkpoint=arguments.checkpoint)
        else:
            writer = to_postgresql(
                releases, place, database=arguments.database, checkpoint=arguments.checkpoint
            )
        when = (
            {"processingTime": f"{every} seconds"} if arguments.follow else {"availableNow": True}
        )
        writer.trigger(**when).start().awaitTermination()
    except (PySparkException, Py4JError) as error:
        raise FadecountError(explain(error) or f"Spark failed: {summary(error)}") from error


def read_events(session: Any, wanted: argparse.Namespace) -> Any:
    """The events as a stream with the columns ``time`` and ``key``.

    All columns of CSV files are text: the key 007 must not become 7. Times are in UTC unless they
    say otherwise.
    """
    options = {**_OPTIONS, **dict(map(_option, wanted.option))}
    reader = session.readStream
    if wanted.format == "table":
        events = reader.options(**dict(map(_option, wanted.option))).table(wanted.events)
    elif wanted.format in _WITH_SCHEMA:
        known = (
            wanted.schema
            or session.read.format(wanted.format).options(**options).load(wanted.events).schema
        )
        events = reader.format(wanted.format).options(**options).schema(known).load(wanted.events)
    else:
        reader = reader.format(wanted.format).options(**dict(map(_option, wanted.option)))
        events = reader.load(wanted.events) if wanted.events else reader.load()
    if wanted.where:
        events = events.where(wanted.where)
    return events.selectExpr(f"({wanted.time}) as time", f"({wanted.key}) as key")


def read_keys(session: Any, path: str) -> Any:
    """The declared keys: the lines of a text file that the driver has, or the first column of
    Parquet anywhere."""
    if path.endswith(".parquet") or not Path(path).is_file():
        return session.read.parquet(path)
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
            return [line.removesuffix("\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ParameterError(
            f"keys must be a readable file, got {path!r} ({reason}); check it"
        ) from error


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise bad_parameter("--option", text, "NAME=VALUE", "such as sep=;")
    if name.lower() in _BY_EVENTS:
        raise ParameterError(
            f"--option must not limit a micro-batch by its events, got {name}; one event more would"
            " move others to another tick"
        )
    return name, value


def _session(shards: int) -> Any:
    """The session of spark-submit, or a local one; with no more partitions than shards, for the
    rest would be empty."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.appName("fadecount")
        .config("spark.sql.streaming.stateStore.providerClass", _ROCKS)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    partitions = "spark.sql.shuffle.partitions"
    session.conf.set(partitions, str(max(1, min(shards, int(session.conf.get(partitions) or 200)))))
    session.sparkContext.setLogLevel(os.environ.get("FADECOUNT_SPARK_LOG", "OFF"))
    for name in ("SQLQueryContextLogger", "py4j"):  # they repeat the error at length
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return session


if __name__ == "__main__":
    sys.exit(main())
