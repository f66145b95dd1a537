"""Live readers: each tick once, in order, from where they left off; and an end when the service
ends."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx
import pytest

import fadecount as fc
from fadecount.service.client import Client, ServiceError
from tests.service.harness import Harness, wait_for


def start_of(tick: int) -> str:
    """When a tick of a minute begins, as the wire has it."""
    return datetime.fromtimestamp(60 * tick, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tick_of(start: str) -> int:
    return int(datetime.fromisoformat(start).timestamp()) // 60


@contextmanager
def following(
    harness: Harness, after: int | None = None, name: str = "doors"
) -> Iterator[Iterator[tuple[int, list[int]]]]:
    """(tick, values) as the wire has them."""
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=10)
    headers = {"Authorization": f"Bearer {harness.admin}"} | (
        {} if after is None else {"Last-Event-ID": start_of(after)}
    )
    connection.request("GET", f"/v1/streams/{name}/live", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")

    def read() -> Iterator[tuple[int, list[int]]]:
        while line := answer.readline().decode():
            if line.startswith("id: "):
                assert answer.readline() == b"event: tick\n"
                sent = json.loads(answer.readline().removeprefix(b"data: "))
                assert sent["start"] == line.removeprefix("id: ").rstrip()
                assert answer.readline() == b"\n"
                yield tick_of(sent["start"]), [row["value"] for row in sent["releases"]]

    try:
        yield read()
    finally:
        answer.close()
        connection.close()


def test_the_latest_at_once_then_every_new_one(harness: Harness) -> None:
    harness.close_tick(3)
    with following(harness) as ticks, harness.client() as client:
        first, values = next(ticks)
        assert values == [0, 0]
        for count in (4, 5):
            client.add("doors", {"a": count})
            harness.close_tick()
        assert next(ticks) == (first + 1, [4, 0])
        assert next(ticks) == (first + 2, [9, 0])


def test_a_stream_without_releases_waits_for_the_first(harness: Harness) -> None:
    with following(harness) as ticks:
        harness.close_tick()
        assert next(ticks)[1] == [0, 0]


def test_resuming_misses_nothing_and_repeats_nothing(harness: Harness) -> None:
    harness.close_tick()
    with following(harness) as ticks:
        seen = next(ticks)[0]
    harness.close_tick(300)
    with following(harness, after=seen) as ticks:
        assert [tick for tick, _ in itertools.islice(ticks, 300)] == list(
            range(seen + 1, seen + 301)
        )
    assert (
        harness.request(
            "GET", "/v1/streams/doors/live", token=harness.admin, last_event_id="x"
        ).status
        == 400
    )


def test_many_readers_share_one_frame(harness: Harness) -> None:
    harness.close_tick()
    results: list[list[int]] = []

    def follow() -> None:
        with following(harness) as ticks:
            results.append([tick for tick, _ in itertools.islice(ticks, 4)])

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_for(lambda: harness.live_readers == 20)
    for _ in range(3):
        harness.close_tick()
    for thread in threads:
        thread.join()
    assert len(results) == 20 and all(each == results[0] for each in results)
    wait_for(lambda: harness.live_readers == 0)


def test_readers_are_let_go_when_the_service_ends(harness: Harness) -> None:
    harness.close_tick()
    with following(harness) as ticks:
        next(ticks)
        harness._server.should_exit = True
        assert list(ticks) == []


def test_readers_of_a_deleted_stream_are_let_go_and_those_of_others_stay(harness: Harness) -> None:
    harness.create("windows")
    harness.close_tick()
    with (
        following(harness) as ticks,
        following(harness, name="windows") as others,
        harness.client() as client,
    ):
        last = next(ticks)[0]
        next(others)
        client.delete("doors")
        assert list(ticks) == []
        wait_for(lambda: harness.live_readers == 1)
        harness.close_tick(name="windows")
        assert next(others)[0] == last + 1
        with pytest.raises(ServiceError) as caught:
            next(client.live("doors", after=start_of(last)))
        assert caught.value.status == 404


def test_a_stream_that_takes_the_name_of_a_deleted_one_is_another_one(harness: Harness) -> None:
    """Its ticks are longer, so their numbers are lower; a reader of the first one does not see
    them."""
    with following(harness) as ticks, harness.client() as client:
        wait_for(lambda: harness.live_readers == 1)
        client.delete("doors")
        harness.create(tick="1h")
        assert list(ticks) == []
    with following(harness) as ticks:
        harness.close_tick()
        assert next(ticks)[1] == [0, 0]


def test_asking_for_the_head_alone_holds_nothing(harness: Harness) -> None:
    assert harness.request("HEAD", "/v1/streams/doors/live", token=harness.admin).status == 200
    assert harness.live_readers == 0


def test_the_client_goes_on_after_the_last_tick(harness: Harness) -> None:
    harness.close_tick(2)
    with harness.client() as client:
        ticks = client.live("doors")
        first, counts = next(ticks)
        harness.close_tick(2)
        assert [tick_of(next(ticks)[0]) - tick_of(first) for _ in range(2)] == [1, 2]
        assert [each.key for each in counts] == ["a", "b"]


def test_a_client_may_send_while_it_follows(harness: Harness) -> None:
    harness.close_tick()
    with harness.client() as client:
        followed = client.live("doors")
        first, _ = next(followed)
        for number in (1, 2):
            assert client.add("doors", {"a": number})
            harness.close_tick()
            assert tick_of(next(followed)[0]) == tick_of(first) + number
        followed.close()
        assert client.streams()


@pytest.mark.parametrize(
    ("token", "name", "status"), [("wrong", "doors", 401), (None, "nowhere", 404)]
)
def test_a_client_that_may_not_follow_is_told(
    harness: Harness, token: str | None, name: str, status: int
) -> None:
    with (
        fc.Client(f"http://127.0.0.1:{harness.port}", token or harness.admin) as client,
        pytest.raises(ServiceError) as caught,
    ):
        next(client.live(name))
    assert caught.value.status == status


def test_events_survive_any_cut_and_the_end_of_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tick whose event was not complete is asked for again."""
    monkeypatch.setattr("fadecount.service.client._LIVE_PAUSE", 0.0)
    rows = [{"key": "ä", "value": 3, "low": 1, "high": 5}]
    events = [
        f"id: {at}\nevent: tick\ndata: {json.dumps({'start': at, 'releases': rows})}\n\n"
        for at in ("1", "2", "3")
    ]
    wire = ("retry: 2000\n\n" + events[0] + ": still here\n\n" + "".join(events[1:])).encode()
    asked: list[str | None] = []
    for size in range(1, len(wire) + 1, 7):
        asked.clear()

        def answer(request: httpx.Request, size: int = size) -> httpx.Response:
            asked.append(request.headers.get("last-event-id"))
            sent = wire[:-1] if len(asked) == 1 else b"retry: 2000\n\n" + events[2].encode()
            pieces = (sent[at : at + size] for at in range(0, len(sent), size))
            return httpx.Response(200, content=pieces)

        with Client("http://127.0.0.1:1") as client:
            client._http = httpx.Client(
                base_url="http://127.0.0.1:1", transport=httpx.MockTransport(answer)
            )
            client._http.__enter__()
            ticks = client.live("doors")
            assert [next(ticks)[0] for _ in range(3)] == ["1", "2", "3"]
            assert asked == [None, "2"]
            ticks.close()
