"""No value shows before its time, in no answer, size, header or event: every door is asked within
seconds of what happens, about a stream that counts something and about its twin that counts
nothing."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

import fadecount as fc
from tests.service.harness import START, Harness, StillClock, wait_for

COUNT = 734_201
NEEDLE = str(COUNT).encode()
LOUD, IDLE = "counted", "nothing"
"""Names of one length."""
BUDGET = 1000.0
"""A noise variable differs from 0 with probability below exp(-999)."""

MECHANISMS: dict[str, fc.Mechanism] = {
    "blocks": fc.Blocks(fc.Level(5, BUDGET, lag=3)),
    "stages": fc.Blocks(fc.Level(5, BUDGET, lag=3, later=((6, 2 * BUDGET),))),
    "delay": fc.Gradual(epsilon=BUDGET, delay=7),
}
BLOCK = START - START % 300 + 300
"""When a block of five minutes begins; the events are in its first minute."""
MOMENTS = {
    "just after the events": BLOCK + 59,
    "when their tick is over": BLOCK + 61,
    "before the block ends": BLOCK + 299,
    "when the block is over": BLOCK + 301,
    "a second early": BLOCK + 479,
}
PUBLIC = BLOCK + 481
READS = (
    "figures",
    "figures?per=5m",
    "figures?per=5m&key=a",
    "figures?per=total",
    "figures?per=1h",
    "figures?per=5m&together=true",
    "total",
    "so-far?per=5m",
    "so-far?per=1h",
    "so-far?per=1h&together=true",
    "privacy",
    "",
)
DOORS = (
    *READS,
    *(f"{path} head" for path in READS),
    "list",
    "metrics",
    "live",
)
Seen = dict[str, dict[str, dict[str, tuple[int, dict[str, str], bytes]]]]
"""What each door showed, by moment, door and stream."""


def live(harness: Harness, name: str) -> bytes:
    """What a live reader gets at once."""
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=20)
    headers = {"Authorization": f"Bearer {harness.admin}"}
    connection.request("GET", f"/v1/streams/{name}/live", headers=headers)
    seen, held = b"", connection.sock
    with closing(connection), connection.getresponse() as answer, suppress(TimeoutError):
        while line := answer.readline():
            seen += line
            if line.startswith(b"data:"):  # nothing may follow but the end of this event
                held.settimeout(0.2)
    return seen


def look(harness: Harness) -> dict[str, dict[str, tuple[int, dict[str, str], bytes]]]:
    """Every door, of both streams. The name of the stream, the day's clock and chance are taken
    off."""
    found: dict[str, dict[str, tuple[int, dict[str, str], bytes]]] = {door: {} for door in DOORS}
    for name in (LOUD, IDLE):
        for door in DOORS[:-3]:
            path, _, kind = door.partition(" ")
            query = f"/v1/streams/{name}/{path}".rstrip("/")
            method = "HEAD" if kind == "head" else "GET"
            reply = harness.request(method, query, token=harness.admin)
            own = ("date", "etag")
            headers = {key: value for key, value in reply.headers.items() if key not in own}
            found[door][name] = reply.status, headers, reply.body.replace(name.encode(), b"S")
        listed = harness.request("GET", "/v1/streams", token=harness.admin).json()["streams"]
        only = str({**next(each for each in listed if each["name"] == name), "name": "S"})
        found["list"][name] = 200, {}, only.encode()
        text = harness.request("GET", "/metrics", token=harness.admin).body.decode()
        lines = [line.replace(name, "S") for line in text.splitlines() if name in line]
        found["metrics"][name] = 200, {}, "\n".join(lines).encode()
        found["live"][name] = 200, {}, live(harness, name)
    return found


@pytest.fixture(scope="module", params=list(MECHANISMS))
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seen]:
    """What every door showed at every moment."""
    clock = StillClock(BLOCK - 1)
    with ExitStack() as stack:
        harness = stack.enter_context(Harness(tmp_path_factory.mktemp("embargo"), clock=clock))
        client = stack.enter_context(harness.client())
        for name in (LOUD, IDLE):
            harness.create(name, mechanism=MECHANISMS[request.param])
        clock.moment = BLOCK + 1
        client.add(LOUD, {"a": COUNT})
        seen: Seen = {}
        for moment, seconds in {**MOMENTS, "public": PUBLIC}.items():
            clock.moment = seconds
            last = int(seconds // 60) - 1
            for name in (LOUD, IDLE):
                wait_for(lambda name=name, last=last: harness.stream(name).last_tick == last)  # type: ignore[misc]
            seen[moment] = look(harness)
        yield seen


@pytest.mark.parametrize("door", DOORS)
def test_a_door_says_the_same_before_the_time(watched: Seen, door: str) -> None:
    for moment in MOMENTS:
        loud, idle = watched[moment][door][LOUD], watched[moment][door][IDLE]
        assert loud == idle and loud[0] == 200, moment
        assert NEEDLE not in loud[2]


@pytest.mark.parametrize("door", [each for each in DOORS if each.startswith(("figures", "total"))])
def test_the_scan_finds_the_value_when_it_is_public(watched: Seen, door: str) -> None:
    loud, idle = watched["public"][door][LOUD][2], watched["public"][door][IDLE][2]
    assert (NEEDLE in loud) == ("head" not in door)
    assert NEEDLE not in idle


def test_live_events_stay_the_same_when_it_is_public(watched: Seen) -> None:
    events = watched["public"]["live"]
    assert events[LOUD] == events[IDLE] and b"event: published" in events[LOUD][2]
