"""Kill the service under load, again and again: nothing acknowledged may be lost or doubled, no release may change.

``python -m tests.service.crash --kills 500`` runs the campaign; the tests run a short one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import fadecount as fc
from fadecount.service.client import ServiceError
from tests.service.house import EXACT
from tests.service.process import ServeProcess

KEYS = tuple(f"writer-{number}" for number in range(4))


@dataclass
class Load:
    """Clients that count under a key of their own and repeat every batch until it is acknowledged."""

    url: str
    token: str
    acknowledged: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._write, args=(key,)) for key in KEYS]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self, key: str) -> None:
        number = 0
        with fc.Client(self.url, self.token, attempts=1, timeout_seconds=5) as client:
            while not self.stopped.is_set():
                number += 1
                counted = self._until_acknowledged(client, key, number)
                self.acknowledged[key] = self.acknowledged.get(key, 0) + 1 + number % 3
                self.repeated += not counted

    def _until_acknowledged(self, client: fc.Client, key: str, number: int) -> bool:
        while True:
            try:
                return client.add("doors", {key: 1 + number % 3}, id=f"{key}/{number}")
            except ServiceError as error:
                assert error.status in (0, 503), error
                time.sleep(0.01)


def campaign(folder: Path, kills: int, *, seed: int = 1, report: bool = False) -> dict[str, int]:
    """Run it; raises an AssertionError at the first thing that is wrong."""
    chance = random.Random(seed)
    released: dict[tuple[str, str], int] = {}
    with ServeProcess(folder) as service:
        with fc.Client(service.url, service.admin) as admin:
            admin.create("doors", tick="1s", mechanism=EXACT, keys=KEYS)
        load = Load(service.url, service.admin)
        load.start()
        try:
            for number in range(kills):
                time.sleep(chance.random() * 0.3)
                service.kill()
                service.start()
                if number % 10 == 9 or number == kills - 1:
                    _compare(service, released)
                    if report:
                        print(f"{number + 1} kills, {sum(load.acknowledged.values())} events acknowledged", flush=True)
        finally:
            load.stop()
        wait = time.monotonic() + 10
        while _latest(service) != load.acknowledged:
            assert time.monotonic() < wait, f"released {_latest(service)}, acknowledged {load.acknowledged}"
            time.sleep(0.2)
        _compare(service, released)
        assert b"Traceback" not in service.log
    return {"kills": kills, "events": sum(load.acknowledged.values()), "releases": len(released), "repeated": load.repeated}


def _compare(service: ServeProcess, released: dict[tuple[str, str], int]) -> None:
    """Every release that was ever seen still has its value."""
    with fc.Client(service.url, service.admin) as client:
        for row in client.releases("doors"):
            assert released.setdefault((row.start, row.key), row.value) == row.value, (row.start, row.key)


def _latest(service: ServeProcess) -> dict[str, int]:
    with fc.Client(service.url, service.admin) as client:
        return {row.key: row.value for row in client.latest("doors")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        found = campaign(Path(folder), arguments.kills, seed=arguments.seed, report=True)
        print(found, f"{time.monotonic() - begun:.0f} s: nothing lost, nothing doubled, no release changed")


if __name__ == "__main__":
    main()
