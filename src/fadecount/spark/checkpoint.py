"""The identity of a stream beside its checkpoint, so that the driver can refuse a wrong one before
the query starts.

It is stored in the checkpoint's own directory, as ``fadecount.json``, and written before the first
micro-batch. As long as no micro-batch was committed there, nothing has been released, and every new
start takes a new epoch. So noise is never reused after a checkpoint was lost, emptied or confused
with another.

A copy of a checkpoint that runs beside the original would add the same noise to other counts. So a
second file, ``fadecount.place.json``, records what a copy of the first file does not preserve: its
place and when it was written; on a local file system its inode and when that was made. A copy in
another place, or in the same place on another machine, is refused. A clone of a whole disk
preserves all of this and is not detected.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fadecount.errors import CheckpointError, ParameterError
from fadecount.noise.entropy import unpredictable
from fadecount.spark.job import Identity

_NAME = "fadecount.json"
_ORIGIN = "fadecount.place.json"
_EPOCH = "_fadecount_epoch"


def settle_epoch(
    spark: SparkSession, checkpoint: str, identity: Identity, *, moved: bool = False
) -> tuple[Identity, bool]:
    """The identity with the epoch and the query of the checkpoint, and whether the checkpoint is
    new.

    Refuses another stream's checkpoint, and a copy of one; ``moved`` states that no other copy
    exists.
    """
    directory = Directory(spark, checkpoint)
    if directory.last_batch("commits") < 0:
        begun = replace(identity, epoch=identity.epoch or new_epoch())
        directory.write(_NAME, begun.to_json())
        _note_origin(directory)
        return begun, True
    if not directory.holds(_NAME):
        raise CheckpointError(
            f"checkpoint must hold {_NAME}, got {checkpoint!r} without one; take a new checkpoint"
        )
    stored = Identity.from_json(directory.read(_NAME))
    replace(identity, epoch=identity.epoch or stored.epoch).require_same(stored)
    if moved:
        _note_origin(directory)
    _require_original(directory)
    return replace(stored, query=_query_id(directory)), False


def new_epoch() -> str:
    return unpredictable(16).hex()


def sign(releases: DataFrame, identity: Identity) -> DataFrame:
    """The same releases, marked with the epoch of the checkpoint they were made for."""
    setattr(releases, _EPOCH, identity.epoch)
    return releases


def require_checkpoint_of(releases: DataFrame, directory: Directory) -> None:
    """Refuse to write releases with another checkpoint than the one that was given to ``release``.

    A selection from releases has lost this mark: then the checkpoint must be that of some release.
    """
    known = directory.holds(_NAME)
    epoch = getattr(releases, _EPOCH, None)
    if not known or (
        epoch is not None and epoch != Identity.from_json(directory.read(_NAME)).epoch
    ):
        raise CheckpointError(
            f"checkpoint must be the one that release was given last, got {directory.place}; give"
            " both the same"
        )


def _query_id(directory: Directory) -> str:
    """The id of the query, from the file in which Spark keeps it."""
    try:
        return str(json.loads(directory.read("metadata"))["id"])
    except Exception as error:
        raise CheckpointError(
            "checkpoint must hold Spark's file metadata, got none or a damaged one; restore it"
        ) from error


def _note_origin(directory: Directory) -> None:
    directory.write(_ORIGIN, json.dumps({"place": directory.place, "mark": directory.mark(_NAME)}))


def _require_original(directory: Directory) -> None:
    try:
        noted = json.loads(directory.read(_ORIGIN)) if directory.holds(_ORIGIN) else {}
        place, mark = str(noted["place"]), str(noted["mark"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint must hold a whole {_ORIGIN}, got none or a damaged one; restore it"
        ) from error
    remedy = (
        "a copy would put the same noise on other counts: go on with the first, or say moved if no"
        " copy is left"
    )
    if place != directory.place:
        raise CheckpointError(
            f"checkpoint must be where it began, {place}, got {directory.place}; {remedy}"
        )
    if mark != directory.mark(_NAME):
        raise CheckpointError(
            f"checkpoint must be the first, got a copy of it in {directory.place}; {remedy}"
        )


def require_classic(session: Any) -> None:
    """The driver must reach the file system of the checkpoint, which a session of Spark Connect
    does not let it do."""
    if not hasattr(session, "_jvm"):
        raise ParameterError(
            "session must be of Spark's classic API, got one of Spark Connect; run the job with"
            " spark-submit"
        )


class Directory:
    """A directory, which need not exist yet; ``place`` is its full name, file system included."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        if not isinstance(path, str) or not path:
            raise ParameterError(
                "checkpoint must be given for a stream; name the directory that the query will"
                " start with"
            )
        connection: Any = spark
        self._jvm = connection._jvm
        self._gateway = connection.sparkContext._gateway
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = root.getFileSystem(connection._jsparkSession.sessionState().newHadoopConf())
        self._root = self._files.makeQualified(root)
        self.place = str(self._root.toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def holds(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def last_batch(self, log: str) -> int:
        """The number of the last micro-batch in one of Spark's logs, -1 if there is none. Spark
        forgets old ones."""
        if not self.holds(log):
            return -1
        names = [
            str(entry.getPath().getName()).removesuffix(".compact")
            for entry in self._files.listStatus(self._at(log))
        ]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def mark(self, name: str) -> str:
        """What a copy of a file does not keep: when it was written; on a local file system its
        inode and when that was made."""
        path = self._at(name)
        if str(path.toUri().getScheme()) != "file":
            return f"written {self._files.getFileStatus(path).getModificationTime()}"
        local = str(path.toUri().getPath())
        java: Any = self._jvm.java
        no_options = self._gateway.new_array(java.nio.file.LinkOption, 0)
        made = java.nio.file.Files.getAttribute(
            java.io.File(local).toPath(), "basic:creationTime", no_options
        )
        return f"inode {Path(local).stat().st_ino}, made {made.toString()}"

    def read(self, name: str) -> str:
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write the whole file or nothing: under another name first, then renamed."""
        temporary = self._at(f".{name}.{unpredictable(16).hex()}")
        stream = self._files.create(temporary, True)
        stream.write(text.encode())
        stream.close()
        if self.holds(name):
            self._files.delete(self._at(name), False)
        if not self._files.rename(temporary, self._at(name)):
            raise CheckpointError(
                "checkpoint must be writable, got a directory that is not; check its permissions"
            )
