"""Live readers: that something was published, in order, from where they left off; never what; and
an end when the service ends."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import fadecount as fc
from fadecount.service import read_routes
from fadecount.service.client import Client, ServiceError
from fadecount.service.website import Websites, networks
from tests.service.harness import EXACT, Harness, wait_for


def through(tick: int) -> str:
    """The event after which a tick of a minute was published."""
    return datetime.fromtimestamp(60 * (tick + 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tick_of(event: str) -> int:
    return int(datetime.fromisoformat(event).timestamp()) // 60 - 1


@contextmanager
def following(harness: Harness, name: str = "doors") -> Iterator[Iterator[int]]:
    """The last published tick of each event, as the wire has them."""
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=10)
    headers = {"Authorization": f"Bearer {harness.admin}"}
    connection.request("GET", f"/v1/streams/{name}/live", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")

    def read() -> Iterator[int]:
        while line := answer.readline().decode():
            if line.startswith("id: "):
                moment = line.removeprefix("id: ").rstrip()
                assert answer.readline() == b"event: published\n"
                sent = json.loads(answer.readline().removeprefix(b"data: "))
                assert sent == {"published_through": moment}
                assert answer.readline() == b"\n"
                yield tick_of(moment)

    try:
        yield read()
    finally:
        answer.close()
        connection.close()


def test_one_event_at_once_then_one_for_each_publication(harness: Harness) -> None:
    harness.close_tick(3)
    last = harness.stream("doors").last_tick
    assert last is not None
    with following(harness) as ticks:
        assert next(ticks) == last
        for number in (1, 2):
            harness.close_tick()
            assert next(ticks) == last + number


def test_a_stream_without_figures_waits_for_the_first(harness: Harness) -> None:
    with following(harness) as ticks:
        wait_for(lambda: harness.live_readers == 1)
        harness.close_tick()
        assert next(ticks) == harness.stream("doors").last_tick


def test_a_reader_that_was_away_gets_the_newest_event_alone(harness: Harness) -> None:
    harness.close_tick()
    with following(harness) as ticks:
        seen = next(ticks)
    harness.close_tick(300)
    with following(harness) as ticks:
        assert next(ticks) == seen + 300
        harness.close_tick()
        assert next(ticks) == seen + 301


def test_events_have_one_size_whatever_is_counted(harness: Harness) -> None:
    """Long names of keys, many events and none: the bytes are the same but for the time."""
    name = "x" * 100
    with harness.client() as client, ExitStack() as stack:
        client.create("other", tick="1m", mechanism=EXACT, keys=[name, "y"], zone="Asia/Tokyo")
        answers, seen = [], [set[bytes](), set[bytes]()]
        for stream in ("doors", "other"):
            connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=10)
            stack.callback(connection.close)
            headers = {"Authorization": f"Bearer {harness.admin}"}
            connection.request("GET", f"/v1/streams/{stream}/live", headers=headers)
            answers.append(stack.enter_context(connection.getresponse()))
            assert [answers[-1].readline(), answers[-1].readline()] == [b"retry: 2000\n", b"\n"]
        for count in (0, 1, 999_999):
            client.add("doors", {"a": count})
            client.add("other", {name: count})
            harness.close_tick()
            harness.close_tick(0, name="other")
            moments = [client.stream(each).published_through for each in ("doors", "other")]
            for answer, found, moment in zip(answers, seen, moments, strict=True):
                event = b"".join(answer.readline() for _ in range(4))
                found.add(event.replace((moment or "").encode(), b"T"))
        assert seen == [{b'id: T\nevent: published\ndata: {"published_through":"T"}\n\n'}] * 2


def test_many_readers_hear_of_every_publication(harness: Harness) -> None:
    harness.close_tick()
    results: list[list[int]] = []
    last = harness.stream("doors").last_tick or 0

    def follow() -> None:
        with following(harness) as ticks:
            heard = [next(ticks)]
            while heard[-1] < last + 3:
                heard.append(next(ticks))
            results.append(heard)

    threads = [threading.Thread(target=follow) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_for(lambda: harness.live_readers == 20)
    for _ in range(3):
        harness.close_tick()
    for thread in threads:
        thread.join()
    assert len(results) == 20
    assert all(each == sorted(set(each)) and each[-1] == last + 3 for each in results)
    wait_for(lambda: harness.live_readers == 0)


def test_readers_are_let_go_when_the_service_ends(harness: Harness) -> None:
    harness.close_tick()
    with following(harness) as ticks:
        next(ticks)
        harness.end()
        assert list(ticks) == []


def test_readers_of_a_deleted_stream_are_let_go_and_those_of_others_stay(harness: Harness) -> None:
    harness.create("windows")
    harness.close_tick()
    with (
        following(harness) as ticks,
        following(harness, name="windows") as others,
        harness.client() as client,
    ):
        last = next(ticks)
        next(others)
        client.delete("doors")
        assert list(ticks) == []
        wait_for(lambda: harness.live_readers == 1)
        harness.close_tick(name="windows")
        assert next(others) == last + 1
        with pytest.raises(ServiceError) as caught:
            next(client.live("doors"))
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
        wait_for(lambda: harness.live_readers == 1)
        harness.close_tick()
        assert next(ticks) % 60 == 59, "the end of an hour"


def live(harness: Harness, address: str, stack: ExitStack) -> int:
    """The status that a proxy gets for a live reader, which stays until the stack is closed."""
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=10)
    stack.callback(connection.close)
    connection.request("GET", "/v1/streams/doors/live", headers={"X-Forwarded-For": address})
    answer = stack.enter_context(connection.getresponse())
    return answer.status


@pytest.mark.parametrize(
    ("proxies", "others"),
    [(["127.0.0.1"], 200), ([], 503)],
    ids=["a proxy that is trusted", "one that is not: all its clients are one"],
)
def test_one_client_has_a_share_of_the_live_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: list[str], others: int
) -> None:
    """A quarter of what is left by then, by address, in IPv6 by its network of 64 bits."""
    monkeypatch.setattr(read_routes, "MOST_LIVE_READERS", 20)
    websites = Websites(proxies=networks(proxies))
    with (
        Harness(tmp_path, public=True, websites=websites) as harness,
        ExitStack() as stack,
    ):
        harness.create()
        own = ExitStack()
        stack.push(own)
        ports = [f"203.0.113.9:{port}" for port in range(5)]
        assert [live(harness, each, own) for each in ports] == [200] * 4 + [503]
        network = [f"2001:db8:0:1::{number}" for number in range(5)]
        statuses = [live(harness, each, stack) for each in network]
        assert statuses == ([200] * 4 + [503] if proxies else [503] * 5)
        assert live(harness, "198.51.100.1", stack) == others
        assert live(harness, "2001:db8:0:2::1", stack) == others
        own.close()
        wait_for(lambda: harness.live_readers == (6 if proxies else 0))
        assert live(harness, "203.0.113.9", stack) == 200
        stack.close()
        wait_for(lambda: not harness.live_readers)
        assert not harness.service.reading.live


def test_live_readers_are_counted_when_they_are_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clients that have not read their last answers ask for live events, and then read."""
    monkeypatch.setattr(read_routes, "MOST_LIVE_READERS", 20)
    with Harness(tmp_path, public=True) as harness, ExitStack() as stack:
        harness.create()
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", harness.port), timeout=10))
            for _ in range(12)
        ]
        wait_for(lambda: len(harness.connections) == 12)
        call = harness.service._loop.call_soon_threadsafe
        for each in harness.connections:  # as the transport says it of a full buffer
            call(each.pause_writing)
        for connection in held:
            connection.sendall(b"GET /v1/streams/doors/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for(lambda: all(each._task for each in harness.connections))
        for each in harness.connections:
            call(each.resume_writing)
        statuses = sorted(connection.recv(65536)[9:12] for connection in held)
        assert statuses == [b"200"] * 4 + [b"503"] * 8
        assert harness.live_readers == 4


def test_asking_for_the_head_alone_holds_nothing(harness: Harness) -> None:
    assert harness.request("HEAD", "/v1/streams/doors/live", token=harness.admin).status == 200
    assert harness.live_readers == 0


def test_the_client_goes_on_after_the_last_event(harness: Harness) -> None:
    harness.close_tick(2)
    with harness.client() as client:
        events = client.live("doors")
        first = next(events)
        assert client.stream("doors").published_through == first
        harness.close_tick()
        assert tick_of(next(events)) == tick_of(first) + 1


def test_a_client_may_send_while_it_follows(harness: Harness) -> None:
    harness.close_tick()
    with harness.client() as client:
        followed = client.live("doors")
        first = next(followed)
        for number in (1, 2):
            assert client.add("doors", {"a": number})
            harness.close_tick()
            assert tick_of(next(followed)) == tick_of(first) + number
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
    """An event that was not complete comes again; one that was seen does not."""
    monkeypatch.setattr("fadecount.service.client._LIVE_PAUSE", 0.0)
    events = [
        f"id: {at}\nevent: published\ndata: {json.dumps({'published_through': at})}\n\n"
        for at in ("1", "2", "3")
    ]
    wire = ("retry: 2000\n\n" + events[0] + ": still here\n\n" + "".join(events[1:])).encode()
    asked: list[str] = []
    for size in range(1, len(wire) + 1, 7):
        asked.clear()

        def answer(request: httpx.Request, size: int = size) -> httpx.Response:
            asked.append(request.url.path)
            again = "retry: 2000\n\n" + "".join(events[1:])
            sent = wire[:-1] if len(asked) == 1 else again.encode()
            pieces = (sent[at : at + size] for at in range(0, len(sent), size))
            return httpx.Response(200, content=pieces)

        with Client("http://127.0.0.1:1") as client:
            client._http = httpx.Client(
                base_url="http://127.0.0.1:1", transport=httpx.MockTransport(answer)
            )
            client._http.__enter__()
            ticks = client.live("doors")
            assert [next(ticks) for _ in range(3)] == ["1", "2", "3"]
            assert len(asked) == 2
            ticks.close()
