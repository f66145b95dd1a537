"""A directory on any file system that Spark reads: what the driver looks up in a checkpoint and in a sink."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from fadecount.errors import CheckpointError, ParameterError
from fadecount.noise.entropy import unpredictable


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
