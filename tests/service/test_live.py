"""Live readers: each tick once, in order, from where they left off; and an end when the service ends."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import fadecount as fc
from fadecount.service.client import ServiceError
from fadecount.service.sse import Frames, frame
from tests.service.house import House, wait_for


@contextmanager
def following(house: House, after: int | None = None) -> Iterator[Iterator[tuple[int, list[int]]]]:
    """(tick, values) as the wire has them."""
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=10)
    headers = {"Authorization": f"Bearer {house.admin}"} | ({} if after is None else {"Last-Event-ID": str(after)})
    connection.request("GET", "/v1/streams/doors/live", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")

    def read() -> Iterator[tuple[int, list[int]]]:
        frames = Frames()
        while piece := answer.read1(65536):
            for id_, event, data in frames.feed(piece):
                found = json.loads(data)
                assert event == "tick" and int(id_ or "") == found["tick"]
                yield found["tick"], [row["value"] for row in found["releases"]]

    try:
        yield read()
    finally:
        answer.close()
        connection.close()


def test_the_latest_at_once_then_every_new_one(house: House) -> None:
    house.close_tick(3)
    with following(house) as ticks, house.client() as client:
        first, values = next(ticks)
        assert values == [0, 0]
        for count in (4, 5):
            client.add("doors", {"a": count})
            house.close_tick()
        assert next(ticks) == (first + 1, [4, 0])
        assert next(ticks) == (first + 2, [9, 0])


def test_a_stream_without_releases_waits_for_the_first(house: House) -> None:
    with following(house) as ticks:
        house.close_tick()
        assert next(ticks)[1] == [0, 0]


def test_resuming_misses_nothing_and_repeats_nothing(house: House) -> None:
    house.close_tick()
    with following(house) as ticks:
        seen = next(ticks)[0]
    house.close_tick(300)
    with following(house, after=seen) as ticks:
        assert [tick for tick, _ in itertools.islice(ticks, 300)] == list(range(seen + 1, seen + 301))
    assert house.request("GET", "/v1/streams/doors/live", token=house.admin, last_event_id="x").status == 400


def test_many_readers_share_one_frame(house: House) -> None:
    house.close_tick()
    results: list[list[int]] = []

    def follow() -> None:
        with following(house) as ticks:
            results.append([tick for tick, _ in itertools.islice(ticks, 4)])

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_for(lambda: house.service.metrics.live_readers == 20)
    for _ in range(3):
        house.close_tick()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and all(each == results[0] for each in results)
    wait_for(lambda: house.service.metrics.live_readers == 0)


def test_readers_are_let_go_when_the_service_ends(house: House) -> None:
    house.close_tick()
    with following(house) as ticks:
        next(ticks)
        house._server.should_exit = True
        assert list(ticks) == []


def test_asking_for_the_head_alone_holds_nothing(house: House) -> None:
    assert house.request("HEAD", "/v1/streams/doors/live", token=house.admin).status == 200
    assert house.service.metrics.live_readers == 0


def test_the_client_goes_on_after_the_last_tick(house: House) -> None:
    house.close_tick(2)
    with house.client() as client:
        ticks = client.live("doors")
        first, counts = next(ticks)
        house.close_tick(2)
        assert [next(ticks)[0] for _ in range(2)] == [first + 1, first + 2]
        assert [each.key for each in counts] == ["a", "b"]


def test_a_client_may_send_while_it_follows(house: House) -> None:
    house.close_tick()
    with house.client() as client:
        followed = client.live("doors")
        first, _ = next(followed)
        for number in (1, 2):
            assert client.add("doors", {"a": number})
            house.close_tick()
            assert next(followed)[0] == first + number
        followed.close()
        assert client.streams()


@pytest.mark.parametrize(("token", "name", "status"), [("wrong", "doors", 401), (None, "nowhere", 404)])
def test_a_client_that_may_not_follow_is_told(house: House, token: str | None, name: str, status: int) -> None:
    with fc.Client(f"http://127.0.0.1:{house.port}", token or house.admin) as client, pytest.raises(ServiceError) as caught:
        next(client.live(name))
    assert caught.value.status == status


def test_frames_survive_any_cut() -> None:
    wire = frame("one\ntwo", event="tick", number=1) + b": still here\n\n" + frame("three", event="tick", number=-2)
    for size in range(1, len(wire)):
        frames = Frames()
        found = [each for at in range(0, len(wire), size) for each in frames.feed(wire[at : at + size])]
        assert found == [("1", "tick", "one\ntwo"), ("-2", "tick", "three")]
