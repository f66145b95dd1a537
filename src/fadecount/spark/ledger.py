"""The ledger of a stream: how many events count in which tick under which key. It is a directory on
any file system that Spark knows.

    counts-N-.../    Parquet: what the N-th append added; the first has a row for every key
    commit-N         JSON: what the stream is, which counts the ledger has, which tick is open
    mark-N-...       empty: a copy of it is not the same file
    checkpoint/      Spark's own, for streams

A commit is one file that appears whole or not at all, and never twice. It freezes counts *before*
noise is added to them: every later execution sees the same counts. The noise is a function of the
secret, of what the stream is, and of an epoch that is drawn with the first commit. So the same
noise never meets other counts, as long as there is one directory of its epoch. A commit notes what
a copy of its mark does not preserve: its place and when it was written, on a local file system its
inode. So a copy, or a backup that was restored, is refused. A clone of a whole disk preserves all
of this and is not detected.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from fadecount.errors import CheckpointError, ParameterError
from fadecount.noise.entropy import unpredictable
from fadecount.spark.stream import Stream
from fadecount.streams.calendar import BlockCalendar, Midnights, calendar_of

COUNTS = "position long, key string, events long"
_MOST_PARTS = 32


class Directory:
    """A directory, which need not exist yet."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._jvm, self._array = session._jvm, session.sparkContext._gateway.new_array
        self._hadoop = self._jvm.org.apache.hadoop.fs
        settings = session._jsparkSession.sessionState().newHadoopConf()
        self._files = self._hadoop.FileContext.getFileContext(settings)
        self._root = self._files.makeQualified(self._hadoop.Path(path))
        self.path = str(self._root.toString())

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name)

    def names(self) -> list[str]:
        """What is in the directory."""
        files = self._files.util()
        entries = files.listStatus(self._root) if files.exists(self._root) else ()
        return [str(each.getPath().getName()) for each in entries]

    def read(self, name: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._at(name))
        text = bytes(stream.readAllBytes()).decode()
        stream.close()
        return text

    def create(self, name: str, text: str) -> bool:
        """Write a new file, whole or not at all; False if it is there already."""
        temporary = self._at(f".{unpredictable(16).hex()}")
        self._hadoop.FileUtil.write(self._files, temporary, text.encode())
        never_replace = self._array(getattr(self._hadoop, "Options$Rename"), 0)
        try:
            self._files.rename(temporary, self._at(name), never_replace)
        except Exception:
            if name not in self.names():
                raise
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._at(name), True)

    def mark(self, name: str) -> str:
        """What a copy of a file does not keep: its place and when it was written; on a local file
        system its inode and when that was made."""
        path, nio = self._at(name), self._jvm.java.nio.file
        if str(path.toUri().getScheme()) != "file":
            written = self._files.getFileStatus(path).getModificationTime()
            return f"{path.toString()}, written {written}"
        found = nio.Files.readAttributes(
            nio.Paths.get(path.toUri()), "unix:ino,creationTime", self._array(nio.LinkOption, 0)
        )
        return f"{path.toString()}, inode {found.get('ino')}, made {found.get('creationTime')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The ledger after an append: ``parts`` hold the counts from position ``kept`` on. The ticks
    from position ``after`` to before ``open`` are closed by it. ``query`` and ``clock`` say which
    micro-batch it was."""

    stream: dict[str, Any]
    epoch: str
    number: int = -1
    query: str = ""
    clock: int = 0
    after: int = 0
    open: int = 0
    kept: int = 0
    parts: Sequence[str] = ()
    midnights: str = ""
    token: str = ""
    mark: str = ""

    @property
    def name(self) -> str:
        """A name that no other commit has, also not one with its number."""
        return f"{self.epoch}-{self.number:010}-{self.token}"


class Ledger:
    """The ledger of one stream: made with its first commit, refused if it is another one's.

    ``kind`` is table or stream: one never continues the other, which would count events twice.
    """

    def __init__(self, spark: SparkSession, stream: Stream, kind: str) -> None:
        self.spark, self.stream, self.directory = spark, stream, Directory(spark, stream.state)
        keys: Any = stream.keys
        if not isinstance(keys, DataFrame):
            keys = spark.createDataFrame([(key,) for key in keys], "key string")
        keys = keys.select(keys[keys.columns[0]].cast("string").alias("key"))
        self.keys = keys.replace("", None).dropna().distinct()
        both = self.keys.agg(sql.count("*"), sql.expr("bit_xor(xxhash64(key))"))
        self.number_of_keys, digest = both.collect()[0]
        if not self.number_of_keys and stream.discovery is None:
            raise ParameterError("keys must not be empty; declare the keys to publish by name")
        described = f"{self.number_of_keys} with the digest {digest}"
        identity = {"kind": kind, **stream.identity(), "keys": described}
        self._new = Commit(epoch=unpredictable(16).hex(), stream=identity)
        self.last()

    def last(self) -> Commit:
        """The last commit, or an empty one before the first; another stream's and a copied or
        restored one are refused."""
        names = self.directory.names()
        number = max((_number(name) for name in names if name.startswith("commit-")), default=-1)
        if number < 0:
            return self._new
        last = Commit(**json.loads(self.directory.read(f"commit-{number}")))
        for name, now in self._new.stream.items():
            if now != last.stream.get(name):
                raise CheckpointError(
                    f"{name} must be that of the state, {last.stream.get(name)}, got {now}; a"
                    " stream keeps what it began with: take a new directory for another one"
                )
        mark = f"mark-{last.number}-{last.token}"
        if mark not in names or last.mark != self.directory.mark(mark):
            raise CheckpointError(
                f"state must be the first one, {last.mark}, got a copy or a restored backup in"
                f" {self.stream.state}; it would put the same noise on other counts: go on with the"
                " first, or take a new directory"
            )
        return last

    def append(self, last: Commit, counts: DataFrame, **changes: Any) -> Commit:
        """Freeze more counts: write them as a part of the ledger, which counts for nothing before
        it is committed. Now and then the ledger is written anew as one part, without the positions
        that need not be ``kept``."""
        commit = replace(last, number=last.number + 1, after=last.open, **changes)
        if not last.parts:
            keys = self.keys.selectExpr("cast(null as long) as position", "key", "0L as events")
            counts = counts.unionByName(keys)
        elif commit.kept > last.kept or len(last.parts) >= _MOST_PARTS:
            older = self.counts(last).where(f"position is null or position >= {commit.kept}L")
            both = counts.unionByName(older).groupBy("position", "key")
            counts, commit = both.agg(sql.sum("events").alias("events")), replace(commit, parts=())
        part = f"counts-{commit.number}-{unpredictable(8).hex()}"
        counts.write.parquet(f"{self.directory.path}/{part}")
        return self.commit(replace(commit, parts=(*commit.parts, part)))

    def commit(self, commit: Commit) -> Commit:
        """Freeze the ledger, and remove what only earlier commits needed."""
        token, midnights = unpredictable(4).hex(), self.calendar(commit).midnights.to_json()
        file, mark = f"commit-{commit.number}", f"mark-{commit.number}-{token}"
        self.directory.create(mark, "")
        commit = replace(commit, midnights=midnights, token=token, mark=self.directory.mark(mark))
        created = self.directory.create(file, json.dumps(asdict(commit)))
        names = self.directory.names()
        ours = {name for name in names if name.startswith(("counts-", "commit-", "mark-"))}
        # Two jobs may have counted the same ticks. The later one finds the file of the first, or,
        # where that is removed already, the file of a higher number.
        later = {name for name in ours if _number(name) > commit.number}
        if not created or any(name.startswith("commit-") for name in later):
            raise CheckpointError(
                f"state must be used by one job at a time, got another one in {self.stream.state};"
                " let one of them run"
            )
        for name in ours - {*later, file, mark, *commit.parts}:
            self.directory.remove(name)
        return commit

    def calendar(self, commit: Commit) -> BlockCalendar:
        """The blocks: those that were open by the rules of that time, later ones as known now."""
        known = Midnights.from_json(commit.midnights) if commit.midnights else None
        ticks, first = self.stream.description.ticks, self.stream.first_tick
        return calendar_of(self.stream.blocks, ticks, first, known).reaching(commit.open)

    def done(self, commit: Commit) -> int:
        """The position before which everything is public: the last end of a largest block."""
        top = len(self.stream.blocks.levels) - 1
        lag = self.stream.blocks.levels[top].stages[-1].lag  # no other one is longer
        return int(self.calendar(commit).frontier(top, max(0, commit.open - lag)))

    def counts(self, commit: Commit) -> DataFrame:
        """The rows of the ledger. Those without a position are the declared keys."""
        parts = (f"{self.directory.path}/{part}" for part in commit.parts)
        return self.spark.read.schema(COUNTS).parquet(*parts)


def _number(name: str) -> int:
    return int(name.split("-")[1])
