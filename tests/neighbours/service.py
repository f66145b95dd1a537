"""Events posted by several writers to a running service, and everything that other writers and
readers are answered meanwhile.

Several pairs share one service: each has a stream of its own, all streams tick together. The unit
of a pair is one more request, or one more event inside a request of its writer; the answer to that
request is its writer's own.
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
from fadecount.mechanisms import Unit
from tests.neighbours.harness import Published
from tests.service.harness import Harness, StillClock, wait_for

TICK = 60
BEGIN = 1_772_323_200
WRITERS = 3
ROUTES = ("", "/figures?per=total", "/total", "/figures?per=2m", "/so-far?per=2m")
LAST_ROUTES = (*ROUTES, "/privacy?age=1h")
MECHANISMS: dict[str, fc.Mechanism] = {
    "gradual": fc.Gradual(epsilon=1.0, exponent=2.0),
    "delayed": fc.Gradual(epsilon=1.0, delay=2),
    "linear": fc.Linear(epsilon=1.0),
    "refresh": fc.Refresh(window=3, epsilon_current=1.0, epsilon_past=1.0),
    "binary": fc.Binary(epsilon=1.0, horizon=3),
    "blocks": fc.Blocks(
        fc.Level(1, 1.0),
        fc.Level(2, 1.0, later=((1, 2.0),)),
        fc.Level(4, 1.0, lag=1),
        fc.Level(60, 1.0, lag=1),
    ),
}
_OWN = (
    "date",
    "content-length",
    "etag",
)  # the clock, the published values, or chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One request: who sends it, when, under which id, and its body as text (which may be
    nonsense)."""

    at: float
    writer: int
    body: str
    id: str | None = None
    own: bool = False


UNITS = (
    Unit(),
    Unit(),
    Unit(amount=5),
    Unit(of="person", events=2),
    Unit(of="person", events=2, keys=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The requests to one stream, without and with the unit, in the order of their arrival."""

    seed: int
    keys: tuple[str, ...]
    unit: Unit
    mechanism: str
    without: tuple[Post, ...]
    with_unit: tuple[Post, ...]


def play(seed: int) -> Play:
    chance = random.Random(seed)
    keys = chance.choice((("all",), ("a",), ("a", "b", "c")))
    unit = chance.choice(UNITS)
    posts = [_post(chance, keys, unit) for _ in range(chance.choice((0, 1, 4, 9)))]
    inside = [at for at, post in enumerate(posts) if post.body not in _NONSENSE]
    changed = list(posts)
    if unit.of == "person":  # all that one person did in one tick
        tick = chance.randrange(4)
        posts = changed = [
            post for post in posts if '"ann"' not in post.body or post.at // TICK != tick
        ]
        more = [_post(chance, keys, unit, person="ann") for _ in range(chance.randint(1, 5))]
        changed = [
            *posts,
            *(replace(post, at=tick * TICK + post.at % TICK, id=None, own=True) for post in more),
        ]
    elif inside and chance.random() < 0.4:  # one more event in a request
        at = chance.choice(inside)
        events = json.loads(posts[at].body)["events"]
        events.insert(
            chance.randint(0, len(events)),
            {"key": chance.choice(keys), "amount": chance.choice((1, unit.amount))},
        )
        changed[at] = replace(posts[at], body=json.dumps({"events": events}))
    else:  # one more request; its id may be one that another writer uses
        taken = (
            {post.id for post in posts if post.writer == changed[0].writer} if changed else set()
        )
        writer = changed[0].writer if changed else 0
        others = [
            post.id for post in posts if post.id and post.writer != writer and post.id not in taken
        ]
        events = [{"key": chance.choice(keys), "amount": chance.choice((1, unit.amount))}]
        body = json.dumps({"events": events}) if chance.random() < 0.7 else chance.choice(_NONSENSE)
        batch_id = chance.choice(others) if others and chance.random() < 0.6 else None
        changed.append(
            replace(_post(chance, keys, unit), writer=writer, body=body, id=batch_id, own=True)
        )
    return Play(
        seed=seed,
        keys=keys,
        unit=unit,
        mechanism=chance.choice(sorted(MECHANISMS)),
        without=tuple(sorted(posts, key=lambda post: post.at)),
        with_unit=tuple(sorted(changed, key=lambda post: post.at)),
    )


_NONSENSE = (
    "",
    "{",
    "[]",
    '{"events": [{"key": "nobody"}]}',
    '{"events": [{"count": -1}]}',
    '{"events": [{"amount": 99}]}',
    '{"events": 1}',
    '{"events": [{"when": 1}]}',
    '{"events": [{"key": "a"}], "person": ""}',
)


def _post(
    chance: random.Random, keys: tuple[str, ...], unit: Unit, person: str | None = None
) -> Post:
    names = (
        chance.sample(keys, chance.randint(1, len(keys)))
        if unit.of == "person"
        else chance.choices(keys, k=chance.choice((1, 1, 3)))
    )
    events: list[dict[str, object]] = [
        {"key": key, "amount": chance.choice((0, 1, unit.amount))} for key in names
    ]
    if unit.amount == 1:
        events = [{"key": key, "count": chance.choice((0, 1, 1, 3))} for key in names]
    body: dict[str, object] = {"events": events}
    if unit.of == "person" and chance.random() < 0.95:
        body["person"] = person or chance.choice(("ann", "bob"))
    return Post(
        at=round(chance.uniform(0, 4 * TICK), 2),
        writer=chance.randrange(WRITERS),
        body=chance.choice(_NONSENSE) if chance.random() < 0.1 else json.dumps(body),
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
    plays: Sequence[Play],
    folder: Path,
    *,
    with_unit: bool,
    ticks: int = 5,
    restart: int | None = None,
) -> list[Published]:
    """What others see of every play, all of them in one service; it is restarted before the tick
    ``restart``."""
    folder.mkdir(parents=True)
    clock = StillClock(BEGIN + 0.5)
    harness = Harness(folder, clock=clock)
    side = _Side(
        harness, [harness.token("writer") for _ in range(WRITERS)], harness.token("reader")
    )
    names = {f"s{play.seed}": play for play in plays}
    timeline = sorted(
        (
            (post.at, name, post)
            for name, play in names.items()
            for post in (play.with_unit if with_unit else play.without)
        ),
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
                        assert (
                            ask("POST", "/v1/streams", _created(name, play), harness.admin, None)[0]
                            == 201
                        )
                for at, name, post in timeline:
                    if low <= at < high:
                        clock.moment = max(clock.moment, BEGIN + at)
                        answer = ask(
                            "POST",
                            f"/v1/streams/{name}/events",
                            post.body,
                            side.tokens[post.writer],
                            post.id,
                        )
                        if not post.own:
                            side.answers.setdefault(name, []).append(answer)
                clock.moment = BEGIN + high + 0.5
                wait_for(partial(_closed, side, names, number))
                _look(side, ask, names, LAST_ROUTES if number == ticks - 1 else ROUTES)
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


def _created(name: str, play: Play) -> str:
    unit = play.unit.to_json()
    mechanism = json.loads(MECHANISMS[play.mechanism].to_json())
    return json.dumps(
        {"name": name, "tick": "1m", "keys": play.keys, "unit": unit, "mechanism": mechanism}
    )


def _closed(side: _Side, names: dict[str, Play], number: int) -> bool:
    """Whether every stream has released the tick of this number, or all the ticks that its
    mechanism has."""
    for name, play in names.items():
        horizon = MECHANISMS[play.mechanism].last_step
        last = side.harness.stream(name).last_tick
        if last is None or last - BEGIN // TICK < (
            number if horizon is None else min(number, horizon - 1)
        ):
            return False
    return True


def _look(side: _Side, ask: Any, names: dict[str, Play], routes: Sequence[str]) -> None:
    """Ask every reading route; keep the values apart from everything else."""
    for name in names:
        for route in routes:
            status, headers, body = ask(
                "GET", f"/v1/streams/{name}{route}", None, side.reader, None
            )
            if route == "/figures?per=total":
                rows = body["figures"]
                side.moments.setdefault(name, []).append([(row["end"], row["key"]) for row in rows])
                _keep(side, name, rows)
                body = len(rows)
            elif isinstance(body, dict) and "figures" in body:
                for row in body["figures"]:
                    row["high"] -= row["low"]
                    del row["value"], row["low"]
            side.answers.setdefault(name, []).append((route, status, headers, body))
    for route in ("/v1/streams", "/metrics", "/readyz", "/healthz"):
        side.answers.setdefault("", []).append((route, ask("GET", route, None, side.reader, None)))


def _keep(side: _Side, name: str, rows: list[dict[str, Any]]) -> None:
    values: dict[str, list[int]] = {}
    widths: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        values.setdefault(row["end"], []).append(row["value"])
        widths.setdefault(row["end"], []).append(
            (row["value"] - row["low"], row["high"] - row["value"])
        )
    side.values[name] = {at: tuple(each) for at, each in enumerate(values.values())}
    side.widths[name] = {at: tuple(each) for at, each in enumerate(widths.values())}


@contextmanager
def _connected(side: _Side) -> Iterator[Any]:
    connection = http.client.HTTPConnection("127.0.0.1", side.harness.port, timeout=20)

    def ask(
        method: str, path: str, body: str | None, token: str, id_: str | None
    ) -> tuple[int, Any, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if id_ is not None:
            headers["Idempotency-Key"] = id_
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        kept = sorted(
            (name.lower(), value) for name, value in answer.getheaders() if name.lower() not in _OWN
        )
        return answer.status, kept, json.loads(text) if text.startswith("{") else _figures(text)

    try:
        yield ask
    finally:
        connection.close()


def _figures(text: str) -> list[str]:
    """Metrics without those that follow the machine's own time."""
    return [line for line in text.splitlines() if "lag_seconds" not in line]
