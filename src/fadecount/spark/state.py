"""The state of a stream: a directory on any file system that Spark knows.

    fadecount.json    what the stream is: written once, before the first commit
    keys-EPOCH/       the declared keys: written once
    counts-.../       parts of the ledger: how many events count in which tick under which key
    commits/N         what the ledger is after its N-th append: which parts, which tick is open
    checkpoint/       Spark's own, for streams

A commit is one file that appears whole or not at all, and never twice. It freezes counts *before*
noise is added to them: every later execution sees the same counts. The noise is a function of the
secret, the names in ``fadecount.json``, and an epoch that is drawn with the first commit. So the
same noise never meets other counts, as long as there is one directory of its epoch. A commit notes
what a copy does not preserve: the place of the directory, and when ``fadecount.json`` was made (on
a local file system its inode too). A copy, or a backup that was restored, is refused. A clone of a
whole disk preserves all of this and is not detected.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fadecount.durations import parse_duration
from fadecount.errors import CheckpointError, FadecountError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Mechanism
from fadecount.noise.entropy import unpredictable
from fadecount.spark.identity import Identity, proof_of, read_secret, require_moment
from fadecount.streams.calendar import BlockCalendar
from fadecount.streams.description import Description
from fadecount.streams.ticks import Ticks

_IDENTITY = "fadecount.json"
COUNTS = "position long, key string, events long"


class Directory:
    """A directory, which need not exist yet; ``place`` is its full name, file system included."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        connection: Any = spark
        if not hasattr(connection, "_jvm"):
            raise ParameterError(
                "session must be of Spark's classic API, got one of Spark Connect; run the job with"
                " spark-submit"
            )
        self._jvm, self._gateway = connection._jvm, connection.sparkContext._gateway
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._settings = connection._jsparkSession.sessionState().newHadoopConf()
        self._files = root.getFileSystem(self._settings)
        self._root = self._files.makeQualified(root)
        self.place = str(self._root.toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def path(self, name: str) -> str:
        """The full name of something in the directory."""
        return f"{self.place}/{name}"

    def names(self) -> list[str]:
        """What is in the directory."""
        if not self._files.exists(self._root):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(self._root)]

    def holds(self, name: str) -> bool:
        """Whether a file is there."""
        return bool(self._files.exists(self._at(name)))

    def read(self, name: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def create(self, name: str, text: str) -> None:
        """Write a new file, whole or not at all; one that is there is never replaced."""
        temporary = self._at(f".{unpredictable(16).hex()}")
        stream = self._files.create(temporary, True)
        stream.write(text.encode())
        stream.close()
        hadoop: Any = self._jvm.org.apache.hadoop.fs
        context = hadoop.FileContext.getFileContext(self._root.toUri(), self._settings)
        no_options = self._gateway.new_array(getattr(hadoop, "Options$Rename"), 0)
        try:
            context.rename(temporary, self._at(name), no_options)
        except Exception as error:
            if not self.holds(name):
                raise
            raise CheckpointError(
                f"state must be used by one job at a time, got another one in {self.place}; let one"
                " of them run"
            ) from error

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._at(name), True)

    def mark(self, name: str) -> str:
        """What a copy of a file does not keep: when it was written; on a local file system its
        inode and when that was made."""
        path = self._at(name)
        if str(path.toUri().getScheme()) != "file":
            return f"written {self._files.getFileStatus(path).getModificationTime()}"
        local, java = str(path.toUri().getPath()), self._jvm.java
        no_options = self._gateway.new_array(java.nio.file.LinkOption, 0)
        made = java.nio.file.Files.getAttribute(
            java.io.File(local).toPath(), "basic:creationTime", no_options
        )
        return f"inode {Path(local).stat().st_ino}, made {made.toString()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The ledger after an append: ``parts`` hold the counts from position ``kept`` on. The ticks
    from position ``after`` to before ``open`` are closed by it. ``token`` is drawn."""

    epoch: str
    number: int = -1
    query: str = ""
    after: int = 0
    open: int = 0
    kept: int = 0
    parts: tuple[str, ...] = ()
    midnights: str = ""
    place: str = ""
    mark: str = ""
    token: str = ""

    @property
    def name(self) -> str:
        """A name that no other commit has, also not one with its number."""
        return f"{self.epoch}-{self.number:010}-{self.token}"


class State:
    """The state of one stream: made with its first commit, refused if it is another one's."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        mechanism: Any,
        *,
        kind: str,
        stream: str,
        tick: str,
        zone: str,
        start: Any,
        keys: Any,
        secret: str,
        moved: bool,
        unit: str = "one event",
        per_unit: int = 1,
    ) -> None:
        ticks = Ticks(tick_seconds=parse_duration(tick, name="tick"), zone=zone)
        first = require_moment("start", start, zone)
        if ticks.start_seconds(ticks.at(first)) != first:
            raise bad_parameter("start", start, "the beginning of a tick", "round it down")
        if isinstance(mechanism, Mechanism) and not isinstance(mechanism, Blocks):
            raise ParameterError(
                f"mechanism must be fadecount.Blocks, got {type(mechanism).__name__}; figures of"
                " blocks replace running totals on Spark"
            )
        promise = Description(name=stream, mechanism=mechanism, ticks=ticks).mechanism
        self._declared = _declared(spark, keys)
        self.identity = Identity(
            kind=kind,
            stream=stream,
            mechanism=promise.for_sensitivity(per_unit).to_json(),
            unit=unit,
            tick=ticks.tick_seconds,
            zone=zone,
            start=first,
            keys=_digest(self._declared),
            secret=_proof(spark, secret),
        )
        self.spark, self.secret, self._moved = spark, secret, moved
        self._directory = Directory(spark, path)
        self._commits = Directory(spark, self.path("commits"))
        self._new = Commit(epoch=unpredictable(16).hex())
        if self._directory.holds(_IDENTITY):
            self.identity.require_same(self._directory.read(_IDENTITY))
            self.last()

    def path(self, name: str) -> str:
        """The full name of something in the directory."""
        return self._directory.path(name)

    def last(self) -> Commit:
        """The last commit, or an empty one before the first. A copied or restored state is refused,
        unless ``moved`` says that no other one is left."""
        numbers = [int(name) for name in self._commits.names() if name.isdigit()]
        if not numbers:
            return self._new
        try:
            last = Commit(**json.loads(self._commits.read(str(max(numbers)))))
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                "state must hold whole commits, got a damaged one; take a new directory"
            ) from error
        now = self._directory.place
        if (last.place, last.mark) != (now, self._directory.mark(_IDENTITY)) and not self._moved:
            raise CheckpointError(
                f"state must be the first one, in {last.place}, got a copy or a restored backup in"
                f" {now}; it would put the same noise on other counts: go on with the first, or say"
                " moved=True if no other one is left"
            )
        return last

    def append(self, counts: DataFrame, number: int) -> str:
        """Write a part of the ledger, which counts for nothing before it is committed."""
        part = f"counts-{number}-{unpredictable(8).hex()}"
        counts.write.parquet(self.path(part))
        return part

    def commit(self, commit: Commit) -> Commit:
        """Freeze the ledger, and remove what only earlier commits needed."""
        if commit.number == 0:
            self._declared.write.parquet(self.path(f"keys-{commit.epoch}"))
            if not self._directory.holds(_IDENTITY):
                self._directory.create(_IDENTITY, json.dumps(asdict(self.identity)))
        commit = replace(
            commit,
            midnights=self.calendar(commit).midnights.to_json(),
            place=self._directory.place,
            mark=self._directory.mark(_IDENTITY),
            token=unpredictable(4).hex(),
        )
        self._commits.create(str(commit.number), json.dumps(asdict(commit)))
        for name in self._commits.names():
            if name.isdigit() and int(name) < commit.number:
                self._commits.remove(name)
        for name in self._directory.names():
            if name.startswith("counts-") and name not in commit.parts:
                self._directory.remove(name)
        return commit

    def calendar(self, commit: Commit) -> BlockCalendar:
        """The blocks: those that were open by the rules of that time, later ones as known now."""
        return self.identity.calendar(commit.midnights).reaching(commit.open)

    def counts(self, commit: Commit) -> DataFrame:
        """The rows of the ledger."""
        if not commit.parts:
            return self.spark.createDataFrame([], COUNTS)
        return self.spark.read.schema(COUNTS).parquet(*map(self.path, commit.parts))

    def keys(self, commit: Commit) -> DataFrame:
        """The declared keys, as they were when the stream began."""
        return self.spark.read.schema("key string").parquet(self.path(f"keys-{commit.epoch}"))

    @property
    def number_of_keys(self) -> int:
        """How many keys are declared."""
        return int(self.identity.keys.split()[0])


def _declared(spark: SparkSession, keys: Any) -> DataFrame:
    """The declared keys, each once: a list of strings, or the first column of a DataFrame."""
    if isinstance(keys, DataFrame):
        return keys.select(sql.col(keys.columns[0]).cast("string").alias("key")).distinct()
    if isinstance(keys, str) or not all(isinstance(each, str) for each in keys):
        raise ParameterError(
            "keys must be a list of strings or a DataFrame, got something else; declare the keys to"
            " publish"
        )
    frame = pd.DataFrame({"key": list(dict.fromkeys(keys))}, dtype=object)
    return spark.createDataFrame(frame, "key string")


def _digest(keys: DataFrame) -> str:
    """How many keys are declared, and a digest of them in any order; none at all, and nulls, are
    refused."""
    sums = [sql.expr(f"bit_xor(xxhash64(key, '{salt}'))") for salt in ("one", "two")]
    row = keys.agg(sql.count("*"), sql.count("key"), *sums).first()
    assert row is not None
    if not row[0] or row[0] != row[1]:
        raise ParameterError("keys must not be empty or null; declare the keys to publish by name")
    return f"{row[0]} keys, {row[2] & (1 << 64) - 1:016x}{row[3] & (1 << 64) - 1:016x}"


def _proof(spark: SparkSession, place: str) -> str:
    """The proof of the secret on an executor; a missing or short one is refused."""

    def probe(_: int) -> tuple[str, str]:
        try:
            return proof_of(read_secret(place)), ""
        except FadecountError as error:
            return "", str(error)

    ((proof, problem),) = spark.sparkContext.parallelize([0], 1).map(probe).collect()
    if problem:
        raise ParameterError(problem)
    return str(proof)
