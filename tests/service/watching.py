"""Those who look on while a service is in trouble: what they see must be whole, and their requests
answered."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from campaigns.service.crash import KEYS, NOISY, Load

import fadecount as fc
from tests.service.harness import EXACT, wait_for
from tests.service.process import ServeProcess


class Watch:
    """Asks a service for what needs the database and for what does not, all the time, and keeps
    every status."""

    PATHS = ("/readyz", "/v1/streams/doors/total", "/healthz", "/metrics")

    def __init__(self, service: ServeProcess) -> None:
        self._port, self._token = int(service.url.rpartition(":")[2]), service.admin
        self.seen: set[tuple[str, int, bool]] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def ask(self, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        self.seen.add((path, answer.status, answer.headers["Retry-After"] is not None))
        return answer.status

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            for path in self.PATHS:
                self.ask(path)


class Follower:
    """A live reader that goes on after the last event whenever its connection breaks."""

    def __init__(self, service: ServeProcess) -> None:
        self._service, self._stopped = service, False
        self._seen: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with fc.Client(self._service.url, self._service.admin) as client:
            for through in client.live("noisy"):
                self._seen.append(through)
                if self._stopped:
                    return

    def seen(self) -> list[str]:
        """All that it saw, up to the next event."""
        self._stopped = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "no tick any more"
        return self._seen


@contextmanager
def under_load(folder: Path, database: str, *options: str) -> Iterator[tuple[ServeProcess, Watch]]:
    """A service with writing clients, a live reader and a watch on it: at the end everything
    acknowledged must have been counted once, and the live reader must have gone on in order.
    """
    with (
        ServeProcess(folder, "--database", database, *options) as service,
        fc.Client(service.url, service.admin) as client,
    ):
        client.create("doors", tick="1s", mechanism=EXACT, keys=KEYS)
        client.create("noisy", tick="1s", mechanism=NOISY)
        load, follower = Load([service.url], service.admin), Follower(service)
        with Watch(service) as watch:
            load.start()
            try:
                wait_for(
                    lambda: bool(load.acknowledged) and len(client.figures("noisy", "total")) > 1
                )
                before = client.figures("noisy", "total")
                yield service, watch
                wait_for(lambda: watch.ask("/readyz") == 200)
            finally:
                load.stop()
        wait_for(lambda: {row.key: row.value for row in client.total("doors")} == load.acknowledged)
        seen = follower.seen()
        rows = client.figures("noisy", "total")
        assert rows[: len(before)] == before
        ends = [row.end for row in rows]
        assert len(ends) > len(before) and ends == sorted(set(ends))
        assert seen == sorted(set(seen)) and set(seen) <= set(ends) and len(seen) > 1
        assert {status for _, status, _ in watch.seen} <= {200, 404, 503}
        assert all(retry for _, status, retry in watch.seen if status == 503)
        assert {status for path, status, _ in watch.seen if path == "/healthz"} == {200}
        assert b"Traceback" not in service.log
