"""The service as one process on SQLite or as two on one PostgreSQL, whose processes die and are
started again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

from tests.service.postgres import PostgresServer
from tests.service.process import ServeProcess

import fadecount as fc
from campaigns.crash.worker import STEPS
from fadecount.service.client import PublishedFigure, ServiceError

ROLES = ("one", "two")
DOOMS = tuple(step for step in STEPS if step != "declare written")
Response = TypeVar("Response")


class Fleet:
    """Members of which some are doomed to die at a step of their work; the others are killed at any
    time."""

    def __init__(self, folder: Path, server: PostgresServer | None, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        if server is None:
            self.members = {"only": ServeProcess(folder)}
        else:
            self.members = {
                role: ServeProcess(folder, "--database", server.url_of(role)) for role in ROLES
            }
        self.admin = next(iter(self.members.values())).admin
        self.killed: Counter[str] = Counter()
        self.longest_without_leader = 0.0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for member in self.members.values():
                stack.enter_context(member)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def urls(self) -> list[str]:
        return [member.url for member in self.members.values()]

    @property
    def kills(self) -> int:
        return sum(self.killed.values())

    @property
    def log(self) -> bytes:
        return b"".join(member.log for member in self.members.values())

    def revive(self, *, doomed: bool = True) -> int:
        """Start what has died, half of it with the next death in store; how many there were."""
        dead = [member for member in self.members.values() if member.process.poll() is not None]
        for member in dead:
            assert member.process.returncode == -9, member.log[-500:]
            self.killed[member.doom[0] if member.doom else "any time"] += 1
            member.kill()
            fate = (self._chance.choice(DOOMS), self._chance.choice((1, 1, 2, 3)))
            member.doom = fate if doomed and self._chance.random() < 0.5 else None
            awaited = member.doom
            member.start()
            if awaited != member.doom:
                self.killed[fate[0]] += 1
        return len(dead)

    def kill_leader(self) -> None:
        """SIGKILL for the process that closes the ticks; with two, wait until the other does."""
        if self._server is None:
            next(iter(self.members.values())).process.kill()
            return
        leaders = self._server.leaders()
        victim = leaders[0] if leaders else self._chance.choice(ROLES)
        survivors = [
            role
            for role, member in self.members.items()
            if role != victim and member.process.poll() is None
        ]
        self.members[victim].process.kill()
        self.members[victim].process.wait()
        begun = time.monotonic()
        while survivors and all(self.members[role].process.poll() is None for role in survivors):
            waited = time.monotonic() - begun
            if set(self._server.leaders()) & set(survivors):
                self.longest_without_leader = max(self.longest_without_leader, waited)
                return
            assert waited < 20, "nobody has taken over"
            time.sleep(0.02)

    @property
    def awaits_death(self) -> bool:
        return any(member.doom for member in self.members.values())

    def figures(self, stream: str) -> list[PublishedFigure]:
        """The total after each tick."""
        return self.ask(lambda client: client.figures(stream, "total"))

    def ask(self, question: Callable[[fc.Client], Response]) -> Response:
        """Ask whoever answers, starting the dead if nobody does."""
        until = time.monotonic() + 60
        while True:
            for url in self.urls:
                try:
                    with fc.Client(url, self.admin, attempts=2, timeout_seconds=5) as client:
                        return question(client)
                except ServiceError as error:
                    assert error.status in (0, 503) and time.monotonic() < until, error
            self.revive(doomed=False)
