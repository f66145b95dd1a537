"""The identity of a stream beside its checkpoint, so that the driver can refuse a wrong one before the query starts.

It lies in the checkpoint's own directory, as ``fadecount.json``, and is written before the first micro-batch. As long as no
micro-batch was committed there, nothing has been released, and every new start takes a new epoch. So noise is never
used again by a checkpoint that was lost, emptied or confused with another. The note names its own place too: a copy of a
checkpoint that went on beside the first would put the same noise on other counts.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from pyspark.sql import SparkSession

from fadecount.errors import CheckpointError, ParameterError
from fadecount.noise.entropy import unpredictable
from fadecount.spark.job import Identity

_NAME = "fadecount.json"


def settle_epoch(spark: SparkSession, checkpoint: str, identity: Identity) -> tuple[Identity, bool]:
    """The identity with the epoch of the checkpoint, and whether the checkpoint is new; refuses another stream's checkpoint."""
    directory = Directory(spark, checkpoint)
    if directory.last_batch("commits") < 0:
        begun = replace(identity, epoch=identity.epoch or new_epoch())
        directory.write(_NAME, json.dumps({**asdict(begun), "place": directory.place}))
        return begun, True
    if not directory.holds(_NAME):
        raise CheckpointError(f"checkpoint must hold {_NAME}, got {checkpoint!r} without one; take a new checkpoint")
    stored, place = _parted(directory.read(_NAME))
    replace(identity, epoch=identity.epoch or stored.epoch).require_same(stored)
    if place != directory.place:
        raise CheckpointError(
            f"checkpoint must be where it began, {place}, got {directory.place}; a copy would put the same noise on other "
            f"counts: go on with the first, or, if it was moved and no copy is left, write its new place into {_NAME}"
        )
    return stored, False


def new_epoch() -> str:
    return unpredictable(16).hex()


def _parted(note: str) -> tuple[Identity, str]:
    """The identity in a note, and the place."""
    try:
        fields = json.loads(note)
        place = str(fields.pop("place"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint must hold a whole {_NAME}, got a damaged one; restore it") from error
    return Identity.from_json(json.dumps(fields)), place


def require_classic(session: Any) -> None:
    """The driver must reach the file system of the checkpoint, which a session of Spark Connect does not let it do."""
    if not hasattr(session, "_jvm"):
        raise ParameterError("session must be of Spark's classic API, got one of Spark Connect; run the job with spark-submit")


class Directory:
    """A directory, which need not exist as yet; ``place`` is its whole name, file system included."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        if not isinstance(path, str) or not path:
            raise ParameterError("checkpoint must be given for a stream; name the directory that the query will start with")
        connection: Any = spark
        self._jvm = connection._jvm
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = root.getFileSystem(connection._jsparkSession.sessionState().newHadoopConf())
        self._root = self._files.makeQualified(root)
        self.place = str(self._root.toString())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def holds(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def last_batch(self, log: str) -> int:
        """The number of the last micro-batch in one of Spark's logs, -1 if there is none. Spark forgets old ones."""
        if not self.holds(log):
            return -1
        names = [str(entry.getPath().getName()).removesuffix(".compact") for entry in self._files.listStatus(self._at(log))]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def read(self, name: str) -> str:
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """All of it or nothing: under another name first."""
        temporary = self._at(f".{name}.{unpredictable(16).hex()}")
        stream = self._files.create(temporary, True)
        stream.write(text.encode())
        stream.close()
        if self.holds(name):
            self._files.delete(self._at(name), False)
        if not self._files.rename(temporary, self._at(name)):
            raise CheckpointError("checkpoint must be writable, got a directory that is not; check its permissions")
