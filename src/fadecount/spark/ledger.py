"""What a stream on Spark is, and its ledger: how many events count in which tick under which key.
The ledger is a directory on any file system that Spark knows.

    counts-N-.../    Parquet: what the N-th append added
    commit-N         JSON: what the stream is, which counts the ledger has, which tick is open
    checkpoint/      Spark's own, for streams

A commit appears whole or not at all, and never twice. It freezes counts *before* noise is added to
them: every later execution sees the same counts. The noise is a function of the secret, of what the
stream is, and of an epoch that is drawn with the first commit. So the same noise never meets other
counts, as long as the commits of an epoch have one order. The fence, outside the directory, knows
the last one: commit, move the fence, publish. Of two copies of a directory, one moves it; a copy or
a restored backup that does not have the last commit is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fadecount.calendar import Calendar, Midnights, level_calendar
from fadecount.checks import set_fields
from fadecount.durations import parse_time
from fadecount.errors import CheckpointError, ParameterError, bad_parameter
from fadecount.mechanisms import Blocks, Discovery, PlanFile
from fadecount.noise import KeyedNoise, unpredictable
from fadecount.sources import SourceOptions
from fadecount.streams.description import Description, checked_keys
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.fence import FileFence, Mark, fence_from

COUNTS = "position long, key string, count long"
_MOST_PARTS = 32


@dataclass(frozen=True)
class Stream:
    """Which figures are published, and what they count: public, and fixed with the first commit.

    ``options`` are those of :func:`fadecount.count`. Every block has a figure for every declared
    key; with ``discovery`` others appear by themselves, in tables. The tick of ``start`` is the
    first one. ``secret_file`` holds the secret of the noise. ``state`` is a directory of the
    stream's own; ``fence`` is a folder of the driver's machine or a PostgreSQL database that no
    backup holds together with it (None: the user's state folder). ``mechanism`` is the promise for
    one unit of the options: one event, or what one person does in a tick or a day, whose age counts
    from its start. A plan (:class:`fadecount.mechanisms.PlanFile`) is used as it is.

    Guarantees: the loss of the mechanism for one unit. Assumes: the keys are public; people who
    hold the secret, the state or the events are trusted.
    """

    mechanism: Blocks | PlanFile
    options: SourceOptions
    _: KW_ONLY
    start: str | datetime
    secret_file: str
    state: str
    name: str = "counts"
    discovery: Discovery | None = None
    fence: str | None = field(default=None, repr=False)  # an address may hold a password

    def __post_init__(self) -> None:
        options, plan = self.options, PlanFile.of(self.mechanism)
        if not isinstance(plan.mechanism, Blocks):
            remedy = "figures on Spark are those of blocks"
            raise bad_parameter("mechanism", plan.mechanism, "fadecount.Blocks", remedy)
        if options.discover and self.discovery is None:
            set_fields(self, discovery=plan.discovery)
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
        ticks, unit = self.options.ticks, self.options.unit
        hidden = HiddenKeys(discovery=self.discovery) if self.discovery else None
        scaled = PlanFile.of(self.mechanism).mechanism_for(unit, ticks.tick_seconds)
        return Description(name=self.name, mechanism=scaled, ticks=ticks, unit=unit, hidden=hidden)

    @property
    def blocks(self) -> Blocks:
        """The mechanism with which the promise holds for the unit."""
        return cast(Blocks, self.description.mechanism)  # scaled, it is of the same kind

    @cached_property
    def first_tick(self) -> int:
        """The tick at position 0: a position says how many ticks were before."""
        start = parse_time(str(self.start), self.options.zone, name="start")
        return self.options.ticks.at(start.timestamp())

    def calendar(self, midnights: Midnights | None = None) -> Calendar:
        """The blocks of the levels, with the midnights stored for them, or of a new stream."""
        return level_calendar(self.blocks.lengths, self.options.ticks, self.first_tick, midnights)

    def secret(self) -> bytes:
        """The secret of the noise, from its file. The file's name is not shown: it might be the
        secret itself."""
        try:
            return Path(self.secret_file).read_bytes().strip()
        except (OSError, TypeError, ValueError):
            raise ParameterError(
                "secret_file must be a file that the driver can read, got none; make one with:"
                " openssl rand -hex 32"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: not the keys, of which there may be many, and not the fence."""
        return {**self.__dict__, "options": None, "fence": None}


class Directory:
    """A directory on any file system that Spark knows. It need not exist yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._hadoop = session._jvm.org.apache.hadoop.fs
        settings = session._jsparkSession.sessionState().newHadoopConf()
        self._files = self._hadoop.FileContext.getFileContext(settings)
        self._root = self._files.makeQualified(self._hadoop.Path(path))
        rename = getattr(self._hadoop, "Options$Rename")
        self._never_replace = session.sparkContext._gateway.new_array(rename, 0)

    def names(self, *prefixes: str) -> list[str]:
        """What is in the directory and begins with a prefix."""
        util = self._files.util()
        entries = util.listStatus(self._root) if util.exists(self._root) else ()
        names = (str(each.getPath().getName()) for each in entries)
        return [name for name in names if name.startswith(prefixes)]

    def read(self, name: str) -> str:
        """The text of a file."""
        with closing(self._files.open(self._at(name))) as stream:
            return bytes(stream.readAllBytes()).decode()

    def create(self, name: str, text: str) -> None:
        """Write a new file, whole or not at all. One that is there already is not replaced."""
        temporary = self._at(f".{unpredictable(16).hex()}")
        if not self.names(name):  # the rename fails if it is there since
            self._hadoop.FileUtil.write(self._files, temporary, text.encode())
            self._files.rename(temporary, self._at(name), self._never_replace)

    def make(self) -> None:
        """Make the directory, for its owner only. On a local file system others are kept out of one
        that was there, too."""
        permission = self._hadoop.permission.FsPermission
        self._files.setUMask(permission("077"))
        if not self._files.util().exists(self._root):
            self._files.mkdir(self._root, permission("700"), True)
        if self.local is not None:
            self.local.chmod(0o700)

    def protect(self, name: str) -> None:
        """Keep others out of what Spark wrote below a name: locally it asks nobody for a mode."""
        if self.local is not None:
            for path in (place := self.local / name, *place.rglob("*")):
                path.chmod(0o700 if path.is_dir() else 0o600)

    @property
    def local(self) -> Path | None:
        """Where the directory is, if that is on a local file system."""
        place = self._root.toUri()
        return Path(place.getPath()) if place.getScheme() == "file" else None

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The ledger after an append: ``parts`` hold the counts from position ``kept`` on. The ticks
    from position ``after`` to before ``open`` are closed by it. ``clock`` says when the
    micro-batch began that it was. No other commit has its ``name``, also not one of its number;
    the commit before it had the name ``previous``."""

    stream: dict[str, Any]
    epoch: str
    midnights: str
    number: int = -1
    name: str = ""
    previous: str = ""
    clock: int = 0
    after: int = 0
    open: int = 0
    kept: int = 0
    parts: Sequence[str] = ()


class Ledger:
    """The ledger of one stream: made with its first commit, refused if it is another one's.

    ``kind`` is table or stream: one never continues the other, which would count events twice. The
    secret is read once: a file that is replaced meanwhile gives no block a second noise.
    """

    def __init__(self, spark: SparkSession, stream: Stream, kind: str) -> None:
        self.spark, self.stream, self._directory = spark, stream, Directory(spark, stream.state)
        self._secret = stream.secret()
        keys = sorted(stream.options.keys)
        self.keys = spark.createDataFrame(pa.table({"key": pa.array(keys, pa.string())}))
        digest = hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:16]
        identity = {
            "kind": kind,
            "name": stream.name,
            **json.loads(stream.description.to_json()),
            "start": stream.options.ticks.start_seconds(stream.first_tick),
            "keys": f"{len(keys)} with the digest {digest}",
            "secret": f"{self.noise('').of(['']).tags[0, 0]:x}",  # differs, and reveals nothing
        }
        midnights = stream.calendar().midnights.to_json()
        self._new = Commit(stream=identity, epoch=unpredictable(16).hex(), midnights=midnights)
        self._fence = fence = fence_from(stream.fence)
        folder = fence.folder.resolve() if isinstance(fence, FileFence) else None
        if folder and (place := self._directory.local) and folder.is_relative_to(place.resolve()):
            remedy = "a backup must not take both along"
            raise bad_parameter("fence", fence.where, "outside the state", remedy)
        self.last()
        if kind == "stream":
            self._directory.make()  # before Spark does, for its checkpoint

    def last(self) -> Commit:
        """The last commit, or an empty one before the first. Another stream's is refused, and one
        that the fence does not know as the last one: others were published after it or instead of
        it. If the fence shows the commit before, nothing of the last one was published yet, and the
        fence is moved."""
        if not (name := max(self._directory.names("commit-"), default="")):
            return self._new
        last = Commit(**json.loads(self._directory.read(name)))
        for name, now in self._new.stream.items():
            if now != last.stream.get(name):
                raise CheckpointError(
                    f"{name} must be that of the state, {last.stream.get(name)}, got {now}; take a"
                    " new directory for another stream"
                )
        with closing(self._fence) as fence:  # the next use opens it again
            mark = fence.read(last.epoch)
            if mark is None or mark.commit_id not in (last.name, last.previous):
                raise CheckpointError(
                    f"state must have the last commit, {mark and mark.commit_id} by the fence at"
                    f" {fence.where}, got {last.name}; a copy or a restored backup would put the"
                    " same noise on other counts: take the latest state, or a new directory"
                )
            if mark.commit_id != last.name:
                fence.move(last.epoch, last.previous, self._mark(last))
        return last

    def _mark(self, commit: Commit) -> Mark:
        return Mark(commit_id=commit.name, steps=commit.open, name=self.stream.name)

    def append(self, last: Commit, rows: DataFrame, **about: Any) -> Commit:
        """Count rows per position and key and freeze the counts: write them as a part of the
        ledger, commit it, and remove what only earlier commits needed. Now and then the ledger of a
        stream is written anew as one part, without the largest blocks that are wholly public."""
        directory, parts, number = self._directory, last.parts, last.number + 1
        directory.make()
        commit = replace(last, number=number, after=last.open, **about)
        counts = rows.groupBy("position", "key").count()
        if last.stream["kind"] == "stream":
            largest = self.stream.blocks.levels[-1].stages[-1]  # no other lag is longer
            done = self.calendar(last).frontier(-1, max(0, last.open - largest.lag))
            commit = replace(commit, kept=done)
        if commit.kept > last.kept or len(parts) >= _MOST_PARTS:
            both = counts.unionByName(self.counts(last, commit.kept)).groupBy("position", "key")
            counts, parts = both.agg(sql.sum("count").alias("count")), ()
        name = f"{number:010}-{unpredictable(8).hex()}"
        parts = [*parts, f"counts-{name}"]
        counts.write.parquet(f"{self.stream.state}/{parts[-1]}")
        directory.protect(parts[-1])
        midnights = self.calendar(commit).midnights.to_json()
        commit = replace(commit, name=name, previous=last.name, parts=parts, midnights=midnights)
        with closing(self._fence) as fence:  # before a commit: one without a mark lost its fence
            if last.number < 0 and fence.read(commit.epoch) is None:
                fence.move(commit.epoch, None, self._mark(last))
        directory.create(f"commit-{number:010}", json.dumps(asdict(commit)))
        # This moves the fence. Two jobs may have counted the same ticks: the later one finds the
        # commit of the first, or, where that is removed already, one of a higher number.
        if self.last() != commit:
            raise CheckpointError(
                "state must be used by one job at a time, got another one; let one of them run"
            )
        for each in directory.names("commit-", "counts-"):
            needed = each in (f"commit-{number:010}", *parts)
            if not needed and int(each.split("-")[1]) <= number:
                directory.remove(each)
        return commit

    def calendar(self, commit: Commit) -> Calendar:
        """The blocks: those that were open by the rules of that time, later ones as known now."""
        return self.stream.calendar(Midnights.from_json(commit.midnights)).reaching(commit.open)

    def noise(self, epoch: str) -> KeyedNoise:
        """The noise of the stream in an epoch."""
        stream, mechanism = self.stream.name, self.stream.blocks.to_json()
        return KeyedNoise(self._secret, epoch=epoch, stream=stream, mechanism=mechanism)

    def counts(self, commit: Commit, after: int) -> DataFrame:
        """The rows of the ledger from a position on, also those of a time to come."""
        parts = (f"{self.stream.state}/{part}" for part in commit.parts)
        return self.spark.read.schema(COUNTS).parquet(*parts).where(f"position >= {after}L")
