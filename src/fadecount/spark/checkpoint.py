"""The identity of a stream beside its checkpoint, so that the driver can refuse a wrong one before the query starts.

It lies in the checkpoint's own directory, as ``fadecount.json``, and is written before the first micro-batch. As long as no
micro-batch was committed there, nothing has been released, and every new start takes a new epoch. So noise is never
used again by a checkpoint that was lost, emptied or confused with another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from fadecount.errors import CheckpointError, ParameterError
from fadecount.noise.names import unpredictable
from fadecount.spark.identity import Identity

_NAME = "fadecount.json"


def settle_epoch(spark: SparkSession, checkpoint: str, identity: Identity) -> tuple[Identity, bool]:
    """The identity with the epoch of the checkpoint, and whether the checkpoint is new; refuses another stream's checkpoint."""
    directory = _Directory(spark, checkpoint)
    if not directory.committed():
        begun = replace(identity, epoch=identity.epoch or new_epoch())
        directory.write(_NAME, begun.to_json())
        return begun, True
    if not directory.holds(_NAME):
        raise CheckpointError(f"checkpoint must hold {_NAME}, got {checkpoint!r} without one; take a new checkpoint")
    stored = Identity.from_json(directory.read(_NAME))
    replace(identity, epoch=identity.epoch or stored.epoch).require_same(stored)
    return stored, False


def new_epoch() -> str:
    return unpredictable(16).hex()


class _Directory:
    """A directory on any file system that Spark reads."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        if not isinstance(path, str) or not path:
            raise ParameterError("checkpoint must be given for a stream; name the directory that the query will start with")
        connection: Any = spark
        self._jvm = connection._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._root.getFileSystem(connection._jsparkSession.sessionState().newHadoopConf())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def holds(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def committed(self) -> bool:
        """Whether some micro-batch was committed here. Spark forgets old ones, so any number will do."""
        if not self.holds("commits"):
            return False
        return any(entry.getPath().getName().isdigit() for entry in self._files.listStatus(self._at("commits")))

    def read(self, name: str) -> str:
        stream = self._files.open(self._at(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """All of it or nothing: under another name first."""
        temporary = self._at(f".{name}.{new_epoch()}")
        stream = self._files.create(temporary, True)
        stream.write(text.encode())
        stream.close()
        if self.holds(name):
            self._files.delete(self._at(name), False)
        if not self._files.rename(temporary, self._at(name)):
            raise CheckpointError("checkpoint must be writable, got a directory that is not; check its permissions")
