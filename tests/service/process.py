"""The service as people run it: a process of its own, that can be stopped, killed and started
again."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

from fadecount.service.settings import open_tokens
from fadecount.service.tokens import Role
from fadecount.streams.storage import Storage


class ServeProcess:
    """``python -m fadecount serve`` on a free port; ``kill`` is SIGKILL, ``stop`` is SIGTERM."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.folder, self._options, self._port = folder, options, port
        database = options[options.index("--database") + 1] if "--database" in options else None
        with open_tokens(Storage(folder=folder / "state", database=database)) as tokens:
            self.admin, _ = tokens.create(Role.ADMIN)
        self.log = b""
        self.doom: tuple[str, int] | None = None
        """The step at which the next process kills itself, and at which passing of it."""
        self.files: tuple[int, int] | None = None
        """How many files it may open: by default, and when it asks for more."""

        self.environment: dict[str, str] = {}
        """What else is in its environment."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, *, tries: int = 100) -> None:
        """Start and wait until it says where it serves; the port stays the same from the first
        start on.

        A doomed process may be gone before that; then one that is not doomed is started.
        """
        words = ["--fence", str(self.folder / "fence"), "--port", str(self._port)]
        place = {"FADECOUNT_STATE": str(self.folder / "state")}
        for _ in range(tries):
            program = (
                ["fadecount"]
                if self.doom is None
                else ["campaigns.service.doomed", self.doom[0], str(self.doom[1])]
            )
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program, "serve", *words, *self._options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **place, **self.environment},
                preexec_fn=self._allow_files,
            )
            assert self.process.stdout
            line = self.process.stdout.readline().decode()
            if found := re.search(r"http://[^:]+:(\d+)/", line):
                self._port = int(found[1])
                self.url = f"http://127.0.0.1:{self._port}"
                self._reader = threading.Thread(
                    target=self._drain, args=(self.process,), daemon=True
                )
                self._reader.start()
                return
            self.kill()
            self.doom = None
            time.sleep(0.02)
        raise AssertionError(f"the service does not start: {self.log[-500:].decode()}")

    def _allow_files(self) -> None:
        if self.files:
            resource.setrlimit(resource.RLIMIT_NOFILE, self.files)

    def _drain(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr
        self.log += process.stderr.read()

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def stop(self) -> int:
        """Ask it to end, which it does within seconds, whoever holds on; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        self._end()
        return status

    def _end(self) -> None:
        self.process.wait()
        if hasattr(self, "_reader") and self._reader.is_alive():
            self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
