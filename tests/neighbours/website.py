"""Visits of websites, and what every visitor and reader is answered meanwhile: the unit of a pair
is all that one visitor did on one day.

Several pairs share one service: each has a website of its own. In some of them one address names
many agents, all of which bring the same pages. The noise is so large that every page appears that
anybody brought: the true counts of hidden pages are known then.
"""

from __future__ import annotations

import asyncio
import csv
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fadecount.service.website import STREAMS, Websites, networks, stream_name
from tests.neighbours import silence
from tests.service.harness import Harness, Reply, StillClock
from tests.streams.hidden_keys import ScriptedNoise

BEGIN = 1_772_323_200
HOURS = (0, 13, 23, 24, 30)
"""When visits arrive: on two days."""
PAGES: tuple[str, ...] = ("/", "/about", "/shop/", "/new", "/new/2", "/%FF", "/x" * 90)
AGENTS: tuple[str, ...] = ("Firefox/1", "Firefox/2", "Safari/7", "Googlebot/2.1")
CROWD = (AGENTS[0], *(f"Opera/{number}" for number in range(9)))
DECLARED = ("/", "/about", "/shop", "all")
LARGE = 10**6
Told = dict[str, Any]
"""What others are told: answers to visitors, and figures by stream, slot and key."""


@dataclass(frozen=True, slots=True)
class Visit:
    hour: int
    address: str
    agent: str
    body: str


@dataclass(frozen=True, slots=True)
class Play:
    """The visits to a website, in the order of their arrival; ``gone`` says whose visits of which
    day are the unit."""

    seed: int
    domain: str
    visits: tuple[Visit, ...]
    gone: tuple[str, str, int]

    def is_own(self, visit: Visit) -> bool:
        return (visit.address, visit.agent, visit.hour // 24) == self.gone


def play(seed: int) -> Play:
    chance, domain = random.Random(seed), f"site{seed}.example"
    addresses = [f"192.0.2.{at}" for at in range(chance.randint(1, 4))]
    agents, pages, length = AGENTS, PAGES, chance.choice((1, 5, 30, 60))
    if chance.random() < 0.5:
        agents, pages, length = CROWD, ("/new", "/new/2", "/shop/"), 40
        addresses = addresses[: chance.randint(1, 2)]
    visits = []
    for _ in range(length):
        url = f"https://{domain}{chance.choice(pages)}"
        sent: Any = {"name": "pageview", "url": url, "domain": domain}
        sent = chance.choice((sent, sent, sent, sent, {**sent, "name": "x"}, "nonsense", ["a"]))
        visits.append(
            Visit(
                chance.choice(HOURS),
                chance.choice(addresses),
                chance.choice(agents),
                json.dumps(sent),
            )
        )
    visits.sort(key=lambda visit: visit.hour)
    gone = (addresses[0], AGENTS[0], chance.randrange(2))
    return Play(seed, domain, tuple(visits), gone)


def publish(plays: Sequence[Play], folder: Path, *, with_unit: bool) -> list[Told]:
    websites = Websites(
        domains=[each.domain for each in plays],
        pages=("/about", "/shop"),
        proxies=networks(["127.0.0.1"]),
    )
    told: list[Told] = [{"answers": []} for _ in plays]
    clock = StillClock(BEGIN + 0.5)
    noise = patch.object(silence, "Silence", partial(ScriptedNoise, [LARGE]))
    with noise, Harness(folder, public=True, websites=websites, clock=clock) as harness:
        for hour in HOURS:
            clock.moment = BEGIN + 3600 * hour + 0.5
            _settle(harness, websites)
            for each, known in zip(plays, told, strict=True):
                for visit in each.visits:
                    own = each.is_own(visit)
                    if visit.hour == hour and (with_unit or not own):
                        reply = _send(harness, visit)
                        known["answers"] += [] if own else [reply]
            _settle(harness, websites)
        clock.moment = BEGIN + 48 * 3600 + 0.5
        _settle(harness, websites)
        for each, known in zip(plays, told, strict=True):
            known["figures"] = {
                (kind, row["start"], row["key"]): int(row["value"])
                - LARGE * bool(row.get("appeared"))
                for kind in STREAMS
                for row in _rows(harness, stream_name(each.domain, kind))
            }
    return told


def _send(harness: Harness, visit: Visit) -> tuple[object, ...]:
    reply: Reply = harness.request(
        "POST",
        "/api/event",
        visit.body,
        x_forwarded_for=visit.address,
        user_agent=visit.agent,
        content_type="text/plain",
    )
    headers = {name: text for name, text in reply.headers.items() if name != "date"}
    return reply.status, reply.body, headers


def _rows(harness: Harness, name: str) -> Iterator[dict[str, str]]:
    """The figures of days, also of pages that appeared by themselves."""
    body = harness.request("GET", f"/v1/streams/{name}/figures.csv").body.decode()
    return csv.DictReader(body.splitlines())


def _settle(harness: Harness, websites: Websites) -> None:
    """Until everything is written, and every tick closed that is over."""
    service = harness.service

    async def written() -> None:
        await service.writer.call(lambda leader: None)

    asyncio.run_coroutine_threadsafe(written(), service._loop).result(20)
    for domain in websites.domains:
        for kind in STREAMS:
            harness.wait_closed(stream_name(domain, kind))


def violations(play: Play, without: Told, with_unit: Told) -> list[str]:
    """In which ways two outcomes differ by more than the unit."""
    wrong = []
    if without["answers"] != with_unit["answers"]:
        wrong.append("another visitor is answered otherwise")
    left, right = without["figures"], with_unit["figures"]
    if any(key in DECLARED for _, _, key in left.keys() ^ right.keys()):
        return [*wrong, "other figures are published"]
    moved = {name: right.get(name, 0) - left.get(name, 0) for name in {*left, *right}}
    moved = {name: change for name, change in moved.items() if change}
    if len({start for _, start, _ in moved}) > 1:
        wrong.append("another day moves")
    for kind, counting in STREAMS.items():
        own = [change for (of, _, _), change in moved.items() if of == kind]
        unit = counting.unit
        if len(own) > unit.keys or not all(0 < change <= unit.per_key for change in own):
            wrong.append(f"{kind}: more than the unit moves")
    return wrong


def differs(without: Told, with_unit: Told) -> bool:
    """Whether the unit shows at all."""
    return bool(without["figures"] != with_unit["figures"])
