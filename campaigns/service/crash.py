"""Kill the service under load, again and again: nothing acknowledged may be lost or doubled, no
release may change.

``python -m campaigns.service.crash --kills 500 --postgres 200``: one process on SQLite, then two on
one PostgreSQL. About half of the deaths come at a named step of the service's work, the others at
any time. The tests run a short one.
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.service.harness import EXACT
from tests.service.postgres import PostgresServer

import fadecount as fc
from campaigns.service.fleet import Fleet
from fadecount.service.client import ServiceError

KEYS = tuple(f"writer-{number}" for number in range(4))
PATIENCE = 240.0
"""Seconds after which a batch that nobody acknowledges is a failure."""

NOISY = fc.Gradual(epsilon=0.01, exponent=1.0)
"""Noise so wide that a variable drawn again would show: that it comes out the same has probability
below 1 %."""


@dataclass
class Load:
    """Clients that count under a key of their own and repeat every batch, wherever somebody
    listens, until it is acknowledged."""

    urls: list[str]
    token: str
    acknowledged: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    failures: list[ServiceError] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._write, args=(key,)) for key in KEYS]
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        self.stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures

    def _write(self, key: str) -> None:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(fc.Client(url, self.token, attempts=1, timeout_seconds=5))
                for url in self.urls
            ]
            turns = itertools.cycle(clients)
            for number in itertools.count(1):
                if self.stopped.is_set() or self.failures:
                    return
                begun = time.monotonic()
                while (counted := self._sent(next(turns), key, number)) is None:
                    if self.failures or time.monotonic() - begun > PATIENCE:
                        self.failures.append(
                            ServiceError(0, "unanswered", "a batch was not acknowledged in time")
                        )
                        return
                    time.sleep(0.01)
                self.acknowledged[key] = self.acknowledged.get(key, 0) + 1 + number % 3
                self.repeated += not counted

    def _sent(self, client: fc.Client, key: str, number: int) -> bool | None:
        try:
            return client.add("doors", {key: 1 + number % 3}, id=f"{key}/{number}")
        except ServiceError as error:
            if error.status not in (0, 503):
                self.failures.append(error)
            return None


def campaign(
    folder: Path,
    kills: int,
    server: PostgresServer | None = None,
    *,
    seed: int = 1,
    report: bool = False,
) -> dict[str, Any]:
    """Run it; raises an AssertionError at the first thing that is wrong."""
    chance = random.Random(seed)
    released: dict[tuple[str, str, str], int] = {}
    with Fleet(folder, server, chance) as fleet:
        fleet.ask(lambda client: client.create("doors", tick="1s", mechanism=EXACT, keys=KEYS))
        fleet.ask(
            lambda client: client.create("noisy", tick="1s", mechanism=NOISY, keys=("a", "b"))
        )
        load = Load(fleet.urls, fleet.admin)
        load.start()
        try:
            shown = 0
            while fleet.kills < kills:
                _wait_for_a_death(fleet, chance)
                if not fleet.revive():
                    fleet.kill_leader()
                    fleet.revive()
                if fleet.kills >= shown + 10 or fleet.kills >= kills:
                    shown = fleet.kills
                    _compare(fleet, released)
                    if report:
                        print(
                            f"{shown} kills, {sum(load.acknowledged.values())} events acknowledged",
                            flush=True,
                        )
        finally:
            load.stopped.set()
            while load.busy:  # the last batches need somebody who takes them
                fleet.revive(doomed=False)
                time.sleep(0.02)
            load.stop()
        wait = time.monotonic() + 10
        while (latest := _latest(fleet)) != load.acknowledged:
            assert time.monotonic() < wait, f"released {latest}, acknowledged {load.acknowledged}"
            time.sleep(0.2)
        _compare(fleet, released)
        assert b"Traceback" not in fleet.log
        killed, longest = dict(fleet.killed), fleet.longest_without_leader
    events = sum(load.acknowledged.values())
    found = {
        "kills": sum(killed.values()),
        "events": events,
        "releases": len(released),
        "repeated": load.repeated,
    }
    return {
        **found,
        "killed": killed,
        **({"longest_without_leader": round(longest, 2)} if server else {}),
    }


def _wait_for_a_death(fleet: Fleet, chance: random.Random) -> None:
    until = time.monotonic() + chance.random() * (1.5 if fleet.awaits_death else 0.3)
    while time.monotonic() < until and all(
        member.process.poll() is None for member in fleet.members.values()
    ):
        time.sleep(0.01)


def _compare(fleet: Fleet, released: dict[tuple[str, str, str], int]) -> None:
    """Every release that was ever seen is still there and has its value."""
    for stream in ("doors", "noisy"):
        found = {(stream, row.end, str(row.key)): row.value for row in fleet.figures(stream)}
        assert [
            place
            for place in released
            if place[0] == stream and found.get(place) != released[place]
        ] == []
        released.update(found)


def _latest(fleet: Fleet) -> dict[str, int]:
    return fleet.ask(lambda client: {str(row.key): row.value for row in client.total("doors")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="kills on SQLite")
    parser.add_argument("--postgres", type=int, default=200, help="kills on PostgreSQL")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.kills:
            _told("SQLite", Path(folder) / "sqlite", arguments.kills, None, arguments.seed)
        if arguments.postgres:
            with PostgresServer() as server:
                _told(
                    "PostgreSQL",
                    Path(folder) / "postgres",
                    arguments.postgres,
                    server,
                    arguments.seed,
                )


def _told(name: str, folder: Path, kills: int, server: PostgresServer | None, seed: int) -> None:
    begun = time.monotonic()
    found = campaign(folder, kills, server, seed=seed, report=True)
    took = time.monotonic() - begun
    print(
        f"service-crash on {name}: {found} {took:.0f} s: nothing lost, nothing doubled, no release"
        " changed",
        flush=True,
    )


if __name__ == "__main__":
    main()
