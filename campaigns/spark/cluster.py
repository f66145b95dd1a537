"""A stand-alone Spark cluster on loopback, each part in a process group of its own: it can be
killed with all its children."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark


class Group:
    """A process and its children."""

    def __init__(self, command: list[str], log: Path, surroundings: dict[str, str]) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env=surroundings, start_new_session=True
            )
        self._ours = True

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """``kill -9`` of the whole group, once: later its number may belong to others."""
        if not self._ours:
            return
        self._ours = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """One master and some workers with one core each."""

    def __init__(self, root: Path, *, workers: int = 2) -> None:
        self._root = root
        home = Path(pyspark.__file__).parent
        self._program = str(home / "bin" / "spark-class")
        self._surroundings = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            # lives are short: do not compile much
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=false",
        }
        port = _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        place = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        self._groups = [self._start("org.apache.spark.deploy.master.Master", place, "master")]
        _wait_for(port)
        self._workers = [self._worker(number) for number in range(workers)]

    def _start(self, kind: str, words: list[str], name: str) -> Group:
        return Group([self._program, kind, *words], self._root / f"{name}.log", self._surroundings)

    def _worker(self, number: int) -> Group:
        place = [
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--work-dir",
            str(self._root / f"work-{number}"),
        ]
        size = ["--cores", "1", "--memory", "1g"]
        return self._start(
            "org.apache.spark.deploy.worker.Worker",
            [*place, *size, self.master],
            f"worker-{number}",
        )

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executors; another one takes its place."""
        self._workers[number].kill()
        self._workers[number] = self._worker(number)

    def start_driver(self, words: list[str]) -> Group:
        """A driver of ours; it ends with the cluster at the latest."""
        driver = Group([sys.executable, *words], self._root / "driver.log", self._surroundings)
        self._groups.append(driver)
        return driver

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for group in [*self._workers, *self._groups]:
            group.kill()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the master did not start")
