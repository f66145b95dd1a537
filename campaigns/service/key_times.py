"""Do answers take longer for one kind of key than for another? ``python -m
campaigns.service.key_times`` (``make key-times``).

A service in a process of its own has a stream in which keys appear by themselves. In each round it
gets, in random order, one event under a declared key, a published one, a hidden one that others
brought today, and two that nobody ever brought; each of another person, and of the same size. Then
it is asked for the figures of a hidden key, and of two that nobody brought.
Wilcoxon's signed-rank test (scipy) compares the times within the rounds: their order is random, so
a difference is as likely as its opposite where kinds are treated alike. Whoever sends events must
not learn from them which keys others brought: published, hidden and new keys must not be told
apart. Which keys are declared is public.

The control: one of the new keys, as if it had been answered some microseconds later. It must be
told apart, or the test says nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon
from tests.service.process import ServeProcess

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.streams import Batch, Description, FileFence, SQLiteStore, Ticks
from fadecount.streams.discovery import HiddenKeys

FALSE_ALARM = 1e-4
"""The chance that one of the comparisons finds a difference where there is none."""
DECLARED, PUBLISHED, HIDDEN = "/page/declared.", "/page/published", "/page/.hidden.."
ABSENT = {"new": "/page/.absent..", "new again": "/page/..absent."}
"""In questions. The same ones each time, as the hidden one: what was asked before is faster."""
KINDS = ("declared", "published", "hidden", "new", "new again")
SECRET = KINDS[1:]
"""What must not be told apart."""
HOUR, DAY = 3600, 24


def prepare(folder: Path) -> None:
    """A stream with a key that appeared yesterday, and one that is hidden today."""
    stages = ((0, 1.0), (720, 3.0))
    described = Description(
        name="pages",
        mechanism=fc.Blocks(fc.Level(1, 0.3), fc.Level(24, 0.7)),
        ticks=Ticks(tick_seconds=HOUR),
        unit=Unit(of="person", per="1d"),
        hidden=HiddenKeys(discovery=fc.Discovery("1d", stages, 1e-9)),
    )
    now = int(time.time()) // HOUR
    today = now - now % DAY
    fence = FileFence(folder / "fence")
    with SQLiteStore(folder / "state" / "streams.db", fence=fence) as store:
        stream = store.create(described, keys=(DECLARED,), start_tick=today - DAY)
        for first, key in ((today - 2, PUBLISHED), (now - 1, HIDDEN)):
            stream.close_through(first)
            persons = (f"{key}{number}" for number in range(60))
            stream.add_many([Batch(counts={key: 1}, person=person) for person in persons])
        appeared = store.reader().stream("pages").discovered()["key"].tolist()
    assert appeared == [PUBLISHED]


class Sender:
    """One connection that waits for each answer."""

    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
        self.answers: set[tuple[bytes, int]] = set()
        """The statuses and sizes that were seen."""

    def close(self) -> None:
        self._socket.close()

    def post(self, key: str, person: str) -> float:
        body = json.dumps({"person": person, "events": [{"key": key}]})
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return self._timed(
            f"POST /v1/streams/pages/events HTTP/1.1\r\n{self._host}{kind}\r\n{body}"
        )

    def get(self, key: str, _: str) -> float:
        return self._timed(f"GET /v1/streams/pages/figures?key={key} HTTP/1.1\r\n{self._host}\r\n")

    def _timed(self, request: str) -> float:
        sent = request.encode()
        begun = time.perf_counter_ns()
        self._socket.sendall(sent)
        answer = self._socket.recv(1 << 16)
        took = time.perf_counter_ns() - begun
        head, _, body = answer.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += self._socket.recv(1 << 16)
        self.answers.add((head.split(b"\r\n")[0], length))
        return took / 1000


def measured(sender: Sender, ask: str, kinds: tuple[str, ...], rounds: int) -> NDArray[np.float64]:
    """Microseconds until the answer, a row for each round and a column for each kind."""
    keys = {"declared": DECLARED, "published": PUBLISHED, "hidden": HIDDEN}
    keys |= ABSENT if ask == "get" else {}
    numbers = itertools.count()
    times = np.zeros((rounds, len(kinds)))
    for row in times:
        for at in random.sample(range(len(kinds)), len(kinds)):
            number = next(numbers)
            row[at] = getattr(sender, ask)(
                keys.get(kinds[at], f"/page/{number:09d}"), f"person {number:09d}"
            )
    return times[rounds // 20 :]


def compared(times: NDArray[np.float64], kinds: tuple[str, ...], delay: float) -> bool:
    """Print what the test says of each pair of kinds; whether it is as it must be."""
    controlled = np.column_stack([times, times[:, kinds.index("new again")] + delay])
    names = (*kinds, f"{delay:g} µs later")
    pairs = [
        (first, second)
        for first, second in itertools.combinations(range(len(names)), 2)
        if (names[first], names[second]) != (kinds[-1], names[-1])  # they are the same requests
    ]
    good = True
    for first, second in pairs:
        differences = controlled[:, second] - controlled[:, first]
        chance = float(wilcoxon(differences).pvalue)
        apart = chance < FALSE_ALARM / len(pairs)
        wanted = {names[first], names[second]}
        verdict = "told apart" if apart else "not told apart"
        if wanted <= {*SECRET} and apart:
            good, verdict = False, "TOLD APART"
        if wanted == {"new", names[-1]} and not apart:
            good, verdict = False, "NOT TOLD APART: the control fails, use more rounds"
        print(
            f"  {names[first]:>10} {np.median(controlled[:, first]):7.1f} µs, {names[second]:>11}"
            f" {np.median(differences):+7.2f} µs: p = {chance:.2g}, {verdict}"
        )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--delay", type=float, default=10.0, help="of the control (µs)")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 - a disk would hide small differences
    good = True
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        (folder / "state").mkdir()
        prepare(folder)
        with ServeProcess(folder) as service:
            for ask, kinds in (("post", KINDS), ("get", ("hidden", "new", "new again"))):
                sender = Sender(int(service.url.rpartition(":")[2]), service.admin)
                times = measured(sender, ask, kinds, arguments.rounds)
                sender.close()
                print(f"{ask.upper()}: {len(times):,} rounds, answers {sorted(sender.answers)}")
                good &= len(sender.answers) == 1
                good &= compared(times, kinds, arguments.delay)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
