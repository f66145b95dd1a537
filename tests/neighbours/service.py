"""Events posted by several writers to a running service, and everything that other writers and readers are answered meanwhile.

Several pairs share one service: each has a stream of its own, all streams tick together. The unit of a pair is one more request,
or one more event inside a request of its writer; the answer to that request is its writer's own.
"""

from __future__ import annotations

import http.client
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import fadecount as fc
from tests.neighbours.harness import Published
from tests.service.harness import Harness, StillClock, wait_for

TICK = 60
BEGIN = 1_772_323_200
WRITERS = 3
ROUTES = ("", "/releases", "/releases/latest", "/privacy", "/privacy?age=1h", "/privacy?time=2026-03-01T00:00:30Z")
MECHANISMS: dict[str, fc.Mechanism] = {
    "gradual": fc.Gradual(epsilon=1.0, exponent=2.0),
    "delayed": fc.Gradual(epsilon=1.0, delay=2),
    "linear": fc.Linear(epsilon=1.0),
    "refresh": fc.Refresh(window=3, epsilon_current=1.0, epsilon_past=1.0),
    "binary": fc.Binary(epsilon=1.0, horizon=3),
}
_OWN = ("date", "content-length", "etag")  # follow the clock of the machine, or the published values themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One request: who sends it, when, under which id, and its body as text (which may be nonsense)."""

    at: float
    writer: int
    body: str
    id: str | None = None
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The requests to one stream, without and with the unit, in the order of their arrival."""

    seed: int
    keys: tuple[str, ...]
    mechanism: str
    without: tuple[Post, ...]
    with_unit: tuple[Post, ...]


def play(seed: int) -> Play:
    chance = random.Random(seed)
    keys = chance.choice((("all",), ("a",), ("a", "b", "c")))
    posts = [_post(chance, keys) for _ in range(chance.choice((0, 1, 4, 9)))]
    posts.sort(key=lambda post: post.at)
    inside = [at for at, post in enumerate(posts) if post.body.startswith('{"events": [')]
    changed = list(posts)
    if inside and chance.random() < 0.4:
        at = chance.choice(inside)
        events = json.loads(posts[at].body)["events"]
        events.insert(chance.randint(0, len(events)), {"key": chance.choice(keys), "count": 1})
        changed[at] = replace(posts[at], body=json.dumps({"events": events}))
    else:
        count = {} if chance.random() < 0.5 else {"count": 1}
        body = json.dumps({"events": [{"key": chance.choice(keys), **count}]})
        unit = replace(_post(chance, keys), own=True)
        unit = replace(unit, body=body if chance.random() < 0.7 else chance.choice(_NONSENSE))
        taken = {post.id for post in posts if post.writer == unit.writer}
        others = [post.id for post in posts if post.id and post.writer != unit.writer and post.id not in taken]
        unit = replace(unit, id=chance.choice(others) if others and chance.random() < 0.6 else None)
        changed.append(unit)
        changed.sort(key=lambda post: post.at)
    return Play(seed=seed, keys=keys, mechanism=chance.choice(sorted(MECHANISMS)), without=tuple(posts), with_unit=tuple(changed))


_NONSENSE = (
    "",
    "{",
    "[]",
    '{"events": [{"key": "nobody"}]}',
    '{"events": [{"count": -1}]}',
    '{"events": 1}',
    '{"events": [{"when": 1}]}',
)


def _post(chance: random.Random, keys: tuple[str, ...]) -> Post:
    events = [{"key": chance.choice(keys), "count": chance.choice((0, 1, 1, 3))} for _ in range(chance.choice((1, 1, 3)))]
    return Post(
        at=round(chance.uniform(0, 4 * TICK), 2),
        writer=chance.randrange(WRITERS),
        body=chance.choice(_NONSENSE) if chance.random() < 0.1 else json.dumps({"events": events}),
        id=chance.choice((None, "1", "2", "3", "4")),
    )


@dataclass(slots=True)
class _Side:
    """One of the two services: what it was asked and what it answered."""

    harness: Harness
    tokens: list[str]
    reader: str
    answers: dict[str, list[object]] = field(default_factory=dict)
    values: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)
    widths: dict[str, dict[int, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    moments: dict[str, list[object]] = field(default_factory=dict)


def publish(
    plays: Sequence[Play], folder: Path, *, with_unit: bool, ticks: int = 5, restart: int | None = None
) -> list[Published]:
    """What others see of every play, all of them in one service; it is restarted before the tick ``restart``."""
    folder.mkdir(parents=True)
    clock = StillClock(BEGIN + 0.5)
    harness = Harness(folder, clock=clock)
    side = _Side(harness, [harness.token("writer") for _ in range(WRITERS)], harness.token("reader"))
    names = {f"s{play.seed}": play for play in plays}
    timeline = sorted(
        ((post.at, name, post) for name, play in names.items() for post in (play.with_unit if with_unit else play.without)),
        key=lambda each: each[0],
    )
    for number in range(ticks):
        low, high = number * TICK, (number + 1) * TICK
        if number == 0 or number == restart:
            if number:
                harness.__exit__()
            harness.__enter__()
        try:
            with _connected(side) as ask:
                if number == 0:
                    for name, play in names.items():
                        harness.create(name, play.keys, MECHANISMS[play.mechanism], "1m")
                for at, name, post in timeline:
                    if low <= at < high:
                        clock.moment = max(clock.moment, BEGIN + at)
                        answer = ask("POST", f"/v1/streams/{name}/events", post.body, side.tokens[post.writer], post.id)
                        if not post.own:
                            side.answers.setdefault(name, []).append(answer)
                clock.moment = BEGIN + high + 0.5
                wait_for(partial(_closed, side, names, number))
                _look(side, ask, names)
        except BaseException:
            harness.__exit__()
            raise
    harness.__exit__()
    shared = tuple(side.answers.pop("", ()))
    return [
        Published(
            keys=play.keys,
            values=side.values.get(name, {}),
            widths=side.widths.get(name, {}),
            moments=tuple(side.moments.get(name, ())),
            messages=(*side.answers.get(name, ()), *shared),
        )
        for name, play in names.items()
    ]


def _closed(side: _Side, names: dict[str, Play], number: int) -> bool:
    """Whether every stream has released the tick of this number, or all the ticks that its mechanism has."""
    for name, play in names.items():
        horizon = MECHANISMS[play.mechanism].schedule.horizon
        last = side.harness.facts(name).last_tick
        if last is None or last - BEGIN // TICK < (number if horizon is None else min(number, horizon - 1)):
            return False
    return True


def _look(side: _Side, ask: Any, names: dict[str, Play]) -> None:
    """Ask every reading route; keep the values apart from everything else."""
    for name in names:
        for route in ROUTES:
            status, headers, body = ask("GET", f"/v1/streams/{name}{route}", None, side.reader, None)
            if route == "/releases":
                rows = body["releases"]
                side.moments.setdefault(name, []).append([(row["tick"], row["key"]) for row in rows])
                _keep(side, name, rows)
                body = len(rows)
            elif route == "/releases/latest" and status == 200:
                body = [(body["tick"], row["key"]) for row in body["releases"]]
            side.answers.setdefault(name, []).append((route, status, headers, body))
    for route in ("/v1/streams", "/metrics", "/readyz", "/healthz"):
        side.answers.setdefault("", []).append((route, ask("GET", route, None, side.reader, None)))


def _keep(side: _Side, name: str, rows: list[dict[str, Any]]) -> None:
    values: dict[str, list[int]] = {}
    widths: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        values.setdefault(row["tick"], []).append(row["value"])
        widths.setdefault(row["tick"], []).append((row["value"] - row["low"], row["high"] - row["value"]))
    side.values[name] = {at: tuple(each) for at, each in enumerate(values.values())}
    side.widths[name] = {at: tuple(each) for at, each in enumerate(widths.values())}


@contextmanager
def _connected(side: _Side) -> Iterator[Any]:
    connection = http.client.HTTPConnection("127.0.0.1", side.harness.port, timeout=20)

    def ask(method: str, path: str, body: str | None, token: str, id_: str | None) -> tuple[int, Any, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if id_ is not None:
            headers["Idempotency-Key"] = id_
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        kept = sorted((name.lower(), value) for name, value in answer.getheaders() if name.lower() not in _OWN)
        return answer.status, kept, json.loads(text) if text.startswith("{") else _figures(text)

    try:
        yield ask
    finally:
        connection.close()


def _figures(text: str) -> list[str]:
    """Metrics without those that follow the machine's own time."""
    return [line for line in text.splitlines() if "lag_seconds" not in line]
