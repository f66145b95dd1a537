"""What a stream on Spark is, and its ledger: how many events count in which tick under which key.
The ledger is a directory on any file system that Spark knows.

    counts-N-.../    Parquet: what the N-th append added
    commit-N         JSON: what the stream is, which counts the ledger has, which tick is open
    mark-N-...       empty: a copy of it is not the same file
    checkpoint/      Spark's own, for streams

A commit appears whole or not at all, and never twice. It freezes counts *before* noise is added to
them: every later execution sees the same counts. The noise is a function of the secret, of what the
stream is, and of an epoch that is drawn with the first commit. So the same noise never meets other
counts, as long as there is one directory of its epoch. A commit notes what a copy of its mark does
not preserve: its place and when it was written, on a local file system its inode. The next commit
removes the mark. So a copy, or a backup that was restored, is refused. A clone of a whole disk
preserves all of this and is not detected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fadecount.durations import parse_time
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Discovery, Unit
from fadecount.noise import KeyedNoise, unpredictable
from fadecount.sources import SourceOptions
from fadecount.streams.calendar import BlockCalendar, Midnights, calendar_of
from fadecount.streams.description import Description, checked_keys
from fadecount.streams.discovery import HiddenKeys

COUNTS = "position long, key string, count long"
_MOST_PARTS = 32


@dataclass(frozen=True)
class Stream:
    """Which figures are published, and what they count. It is public, and fixed with the first
    commit of the ledger.

    ``options`` say, as for :func:`fadecount.count`, in which tick and under which key an event
    counts, and how many events of a person. Every block has a figure for every declared key; with
    ``discovery`` others appear by themselves, in tables. The tick of ``start`` is the first one;
    without an offset it is in the zone of the options. ``secret_file`` holds the secret of the
    noise, on the driver and on every executor. ``state`` is a directory of the stream's own.

    ``mechanism`` is the promise for one unit of the options: one event, or what one person does in
    a tick or a day, whose age counts from its start. The person's first events by time count, and
    only the person's own events decide. A mechanism of a plan for persons is used as it is: give
    ``planned``, the plan's unit (``read_planned_unit``).

    Guarantees: the loss of the mechanism for one unit. Assumes: the keys are public; people who
    hold the secret, the state or the events are trusted.
    """

    mechanism: Blocks
    options: SourceOptions
    _: KW_ONLY
    start: str | datetime
    secret_file: str
    state: str
    name: str = "counts"
    discovery: Discovery | None = None
    planned: Unit | None = None

    def __post_init__(self) -> None:
        options = self.options
        if not isinstance(self.mechanism, Blocks):
            remedy = "figures on Spark are those of blocks"
            raise bad_parameter("mechanism", self.mechanism, "fadecount.Blocks", remedy)
        for each in ("amount", "unique", "other", "late"):
            if (value := getattr(options, each)) is not None:
                raise bad_parameter(each, value, "None", "Spark has no such option")
        if options.time is None or options.key is None:
            raise ParameterError("time and key must be given; they are columns of the events")
        if options.discover != (self.discovery is not None):
            raise ParameterError("discovery must be given if keys are to be discovered, only then")
        checked_keys(options.keys, none=options.discover)
        _ = self.first_tick, self.description  # refuses what no calendar has

    @cached_property
    def description(self) -> Description:
        """What the local library calls a stream."""
        unit, discovery = self.options.unit, self.discovery
        return Description(
            name=self.name,
            mechanism=unit.scaled(self.mechanism, self.planned),
            ticks=self.options.ticks,
            unit=unit,
            hidden=None if discovery is None else HiddenKeys(discovery=discovery),
        )

    @property
    def blocks(self) -> Blocks:
        """The mechanism with which the promise holds for the unit."""
        return cast(Blocks, self.description.mechanism)  # scaled, it is of the same kind

    @cached_property
    def first_tick(self) -> int:
        """The tick at position 0: a position says how many ticks were before."""
        start = parse_time(str(self.start), self.options.zone, name="start")
        return self.options.ticks.at(start.timestamp())

    def noise(self, epoch: str, keys: Sequence[str]) -> KeyedNoise:
        """The noise of some keys, from the secret in its file on this machine. The file's name is
        not shown: it might be the secret itself."""
        try:
            secret = Path(self.secret_file).read_bytes().strip()
        except (OSError, TypeError, ValueError):
            raise ParameterError(
                "secret_file must be a file that the driver and every executor can read, got none;"
                " make one with: openssl rand -hex 32"
            ) from None
        about = {"stream": self.name, "mechanism": self.blocks.to_json()}
        return KeyedNoise(secret, epoch=epoch, keys=keys, **about)

    def proof(self) -> str:
        """A value that differs between secrets and does not reveal them. It shows whether all
        executors and all restarts hold the same one."""
        return f"{self.noise('', ['']).tags[0, 0]:x}"

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: there may be many keys."""
        return {**self.__dict__, "options": None}


class Directory:
    """A directory on any file system that Spark knows. It need not exist yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._jvm, self._array = session._jvm, session.sparkContext._gateway.new_array
        self._hadoop = self._jvm.org.apache.hadoop.fs
        settings = session._jsparkSession.sessionState().newHadoopConf()
        self._files = self._hadoop.FileContext.getFileContext(settings)
        self._root = self._files.makeQualified(self._hadoop.Path(path))

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name) if name else self._root

    def has(self, name: str) -> bool:
        """Whether there is a file at a place in the directory."""
        return bool(self._files.util().exists(self._at(name)))

    def names(self, *prefixes: str) -> list[str]:
        """What is in the directory and begins with a prefix."""
        entries = self._files.util().listStatus(self._root) if self.has("") else ()
        names = (str(each.getPath().getName()) for each in entries)
        return [name for name in names if name.startswith(prefixes)]

    def read(self, name: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._at(name))
        text = bytes(stream.readAllBytes()).decode()
        stream.close()
        return text

    def create(self, name: str, text: str) -> None:
        """Write a new file, whole or not at all. One that is there already is not replaced."""
        temporary = self._at(f".{unpredictable(16).hex()}")
        never_replace = self._array(getattr(self._hadoop, "Options$Rename"), 0)
        if not self.has(name):  # the rename fails if there is one since
            self._hadoop.FileUtil.write(self._files, temporary, text.encode())
            self._files.rename(temporary, self._at(name), never_replace)

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._at(name), True)

    def mark(self, name: str) -> str:
        """What a copy of a file does not keep: its place and when it was written; on a local file
        system its inode and when that was made."""
        path, nio = self._at(name), self._jvm.java.nio.file
        if not self.has(name):
            return "nothing"
        if path.toUri().getScheme() != "file":
            return f"{path.toString()}, {self._files.getFileStatus(path).getModificationTime()}"
        place, no_links = nio.Paths.get(path.toUri()), self._array(nio.LinkOption, 0)
        inode = nio.Files.readAttributes(place, "unix:ino,creationTime", no_links)
        return f"{path.toString()}, {inode.toString()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The ledger after an append: ``parts`` hold the counts from position ``kept`` on. The ticks
    from position ``after`` to before ``open`` are closed by it. ``clock`` says when the
    micro-batch began that it was."""

    stream: dict[str, Any]
    epoch: str
    number: int = -1
    clock: int = 0
    after: int = 0
    open: int = 0
    kept: int = 0
    parts: Sequence[str] = ()
    midnights: str = ""
    mark: str = ""

    @property
    def name(self) -> str:
        """A name that no other commit has, also not one with its number."""
        return self.parts[-1].replace("counts", self.epoch)

    @property
    def files(self) -> Sequence[str]:
        """What the ledger consists of: the mark, the commit and the counts."""
        mark = self.parts[-1].replace("counts", "mark")
        return mark, f"commit-{self.number:010}", *self.parts


class Ledger:
    """The ledger of one stream: made with its first commit, refused if it is another one's.

    ``kind`` is table or stream: one never continues the other, which would count events twice.
    """

    def __init__(self, spark: SparkSession, stream: Stream, kind: str) -> None:
        self.spark, self.stream, self._directory = spark, stream, Directory(spark, stream.state)
        keys = sorted(stream.options.keys)
        self.keys = spark.createDataFrame(pa.table({"key": pa.array(keys, pa.string())}))
        digest = hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]
        identity = {
            "kind": kind,
            "name": stream.name,
            **json.loads(stream.description.to_json()),
            "start": stream.options.ticks.start_seconds(stream.first_tick),
            "keys": f"{len(keys)} with the digest {digest}",
            "secret": stream.proof(),
        }
        self._new = Commit(epoch=unpredictable(16).hex(), stream=identity)
        self.last()

    def last(self) -> Commit:
        """The last commit, or an empty one before the first; another stream's and a copied or
        restored one are refused."""
        if not (name := max(self._directory.names("commit-"), default="")):
            return self._new
        last = Commit(**json.loads(self._directory.read(name)))
        for name, now in self._new.stream.items():
            if now != last.stream.get(name):
                raise CheckpointError(
                    f"{name} must be that of the state, {last.stream.get(name)}, got {now}; take a"
                    " new directory for another stream"
                )
        if last.mark != self._directory.mark(last.files[0]):
            raise CheckpointError(
                f"state must be the first one, {last.mark}, got a copy or a restored backup; it"
                " would put the same noise on other counts: take a new directory"
            )
        return last

    def append(self, last: Commit, counts: DataFrame, **about: Any) -> Commit:
        """Freeze more counts: write them as a part of the ledger, commit it, and remove what only
        earlier commits needed. Now and then the ledger of a stream is written anew as one part,
        without the largest blocks about which everything is public."""
        directory, number, parts = self._directory, f"{last.number + 1:010}", last.parts
        commit = replace(last, number=last.number + 1, after=last.open, **about)
        if last.stream["kind"] == "stream":
            largest = self.stream.blocks.levels[-1].stages[-1]  # no other lag is longer
            done = self.calendar(last).frontier(-1, max(0, last.open - largest.lag))
            commit = replace(commit, kept=done)
        if commit.kept > last.kept or len(parts) >= _MOST_PARTS:
            both = counts.unionByName(self.counts(last, commit.kept)).groupBy("position", "key")
            counts, parts = both.agg(sql.sum("count").alias("count")), ()
        commit = replace(commit, parts=[*parts, f"counts-{number}-{unpredictable(8).hex()}"])
        mark, name, *_, part = commit.files
        counts.write.parquet(f"{self.stream.state}/{part}")
        directory.create(mark, "")
        midnights = self.calendar(commit).midnights.to_json()
        commit = replace(commit, midnights=midnights, mark=directory.mark(mark))
        directory.create(name, json.dumps(asdict(commit)))
        # Two jobs may have counted the same ticks. The later one finds the commit of the first, or,
        # where that is removed already, one of a higher number.
        if self.last() != commit:
            raise CheckpointError(
                "state must be used by one job at a time, got another one; let one of them run"
            )
        for each in directory.names("commit-", "counts-", "mark-"):
            if each not in commit.files and each.split("-")[1] <= number:
                directory.remove(each)
        return commit

    def calendar(self, commit: Commit) -> BlockCalendar:
        """The blocks: those that were open by the rules of that time, later ones as known now."""
        known = Midnights.from_json(commit.midnights) if commit.midnights else None
        ticks, first = self.stream.options.ticks, self.stream.first_tick
        calendar = calendar_of(self.stream.blocks, ticks, first, known)
        assert calendar is not None
        return calendar.reaching(commit.open)

    def counts(self, commit: Commit, after: int) -> DataFrame:
        """The rows of the ledger from a position on, also those of a time to come."""
        parts = (f"{self.stream.state}/{part}" for part in commit.parts)
        return self.spark.read.schema(COUNTS).parquet(*parts).where(f"position >= {after}L")
