"""What one client does must not keep the others waiting: large bodies, many reads, many keys, many
streams."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.service import parsing, read_routes, write_routes
from fadecount.service import writer as writer_module
from fadecount.service.reader_pool import MOST_AROUND, PublicStream
from fadecount.service.settings import Limits
from fadecount.service.website import Websites
from fadecount.service.writer import Leader
from fadecount.streams import Description, FileFence, SQLiteStore, Ticks
from fadecount.streams.export import table_rows
from fadecount.streams.sqlite import SQLiteDatabase
from tests.service.harness import EXACT, START, Harness, StillClock, wait_for

EVENTS = "/v1/streams/doors/events"


def test_large_bodies_are_parsed_off_the_loop(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []
    real = parsing.parse_events

    def noted(*arguments: Any, **words: Any) -> Any:
        where.append(threading.current_thread().name)
        return real(*arguments, **words)

    monkeypatch.setattr(write_routes, "parse_events", noted)
    small, large = ({"events": [{"key": "a"}] * count} for count in (1, 5000))
    assert harness.post(EVENTS, small).status == harness.post(EVENTS, large).status == 202
    assert [name.startswith("asyncio_") for name in where] == [False, True]


def test_a_large_count_of_a_person_costs_no_more_than_a_small_one(
    harness: Harness, questions: list[str]
) -> None:
    """One body of 700 kB stands for 20 million events of one person: caps come first, and nobody
    waits for the rest."""
    keys = [f"key{number:05d}" for number in range(20_000)]
    with harness.client() as client:
        client.create(
            "people",
            tick="1m",
            mechanism=EXACT,
            keys=keys,
            unit={"of": "person", "events": 1000, "keys": 2},
        )
    body = {"person": "ann", "events": [{"key": key, "count": 1000} for key in keys]}
    questions.clear()
    tracemalloc.start()
    status = harness.post("/v1/streams/people/events", body).status
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (status, peak < 40e6, len(questions) < 120) == (202, True, True), (peak, len(questions))
    harness.close_tick(name="people")
    with harness.client() as client:
        assert [row.value for row in client.total("people")[:3]] == [1000, 1000, 0]


def test_a_body_of_very_many_events_is_refused(harness: Harness) -> None:
    """The largest body holds seven times as many as are allowed: 20 MB for a moment."""
    bomb = b'{"events":[' + b",".join([b"{}"] * 340_000) + b"]}"
    headers = {"content_type": "application/json"}
    reply = harness.request("POST", EVENTS, bomb, token=harness.admin, **headers)
    assert reply.status == 400 and b"array of length <= 50000" in reply.body


def test_a_bounded_number_of_reads_waits_and_health_checks_do_not(
    shown: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fadecount.service.reader_pool.MOST_WAITING", 6)
    shown.close_tick(3)
    hold = threading.Event()
    real = table_rows
    monkeypatch.setattr(
        read_routes,
        "table_rows",
        lambda *arguments, **words: (hold.wait(20), real(*arguments, **words))[1],
    )
    statuses: list[int] = []

    def ask(since: int) -> None:
        statuses.append(
            shown.request("GET", f"/v1/streams/doors/figures?per=total&since={since}").status
        )

    threads = [threading.Thread(target=ask, args=(since,)) for since in range(10)]
    for thread in threads:
        thread.start()
    wait_for(lambda: statuses.count(503) == 4)
    assert shown.request("GET", "/healthz").status == shown.request("GET", "/readyz").status == 200
    hold.set()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 6 + [503] * 4


def test_visits_of_strangers_take_nothing_that_writers_need(tmp_path: Path) -> None:
    """More visits wait than there is room for, and the events of a writer are accepted."""
    limits, websites = Limits(waiting_bytes=1 << 20), Websites(domains=("example.org",))
    with Harness(tmp_path, limits=limits, websites=websites) as harness:
        harness.create()
        hold = threading.Event()
        writer, loop = harness.service.writer, harness.service._loop
        loop.call_soon_threadsafe(writer.call, lambda _: hold.wait(20))
        sent = {"name": "pageview", "domain": "example.org", "url": "https://example.org/"}
        for number in range(40):
            browser = {"user_agent": f"Firefox/{number}"}
            assert harness.request("POST", "/api/event", json.dumps(sent), **browser).status == 202
        assert writer._bytes[True] > limits.waiting_bytes - (32 << 10)
        statuses: list[int] = []
        body = {"events": [{"key": "a"}]}
        waiting = [
            threading.Thread(target=lambda: statuses.append(harness.post(EVENTS, body).status))
            for _ in range(20)
        ]
        for thread in waiting:
            thread.start()
        wait_for(lambda: bool(statuses) or writer._bytes[False] > 20 * (16 << 10))
        hold.set()
        for thread in waiting:
            thread.join()
        assert statuses == [202] * 20
        wait_for(lambda: not any(writer._bytes.values()))


def test_an_answer_is_made_once_per_closed_tick(
    shown: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(real: Any) -> Any:
        def noted(*arguments: Any, **words: Any) -> Any:
            made.append(1)
            return real(*arguments, **words)

        return noted

    monkeypatch.setattr(read_routes, "table_rows", counted(table_rows))
    for ticks in (1, 2):
        shown.close_tick()
        seen = set()
        for _ in range(5):
            for path in ("/total", "/figures?per=total&key=a"):
                seen.add(shown.request("GET", f"/v1/streams/doors{path}").body)
        assert (len(made), len(seen)) == (2 * ticks, 2)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every statement that is run on an embedded store."""
    asked: list[str] = []
    for name in ("query", "change", "change_many"):
        real = getattr(SQLiteDatabase, name)

        def noted(
            self: SQLiteDatabase, sql: str, values: Any = (), name: str = name, real: Any = real
        ) -> Any:
            asked.extend([sql] * (len(values) if name == "change_many" else 1))
            return real(self, sql, values)

        monkeypatch.setattr(SQLiteDatabase, name, noted)
    yield asked


def made_leader(folder: Path, streams: int) -> Leader:
    store = SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence"))
    leader = Leader(store, StillClock(START))
    for number in range(streams):
        ticks = Ticks(tick_seconds=60 if number % 10 else 3600)
        leader.create(Description(name=f"s{number}", mechanism=EXACT, ticks=ticks), ["all"])
    return leader


def test_declaring_keys_asks_the_store_a_few_times_however_many_they_are(
    tmp_path: Path, questions: list[str]
) -> None:
    leader = made_leader(tmp_path, 1)
    questions.clear()
    leader.declare("s0", [f"key{number}" for number in range(5000)])
    assert len(questions) < 40
    questions.clear()
    leader.declare("s0", [f"key{number}" for number in range(5000)])
    assert len(questions) < 5
    leader.close()


def test_streams_that_are_not_due_cost_nothing(tmp_path: Path, questions: list[str]) -> None:
    leader = made_leader(tmp_path, 50)
    questions.clear()
    for _ in range(100):
        leader.close_due(START + 1)
        assert leader.next_due is not None
    assert questions == []
    due = (START // 60 + 1) * 60
    for _ in range(20):
        leader.close_due(due)
    assert sum(sql.startswith("INSERT INTO figures") for sql in questions) == 45
    leader.close()


def test_lists_come_in_pages(shown: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_routes, "MOST_STREAMS", 3)
    with fc.Client(shown.url, shown.admin) as client:
        for number in range(7):
            client.create(f"s{number}", tick="1m", mechanism=EXACT)
        assert [each.name for each in client.streams()] == [
            "doors",
            *(f"s{number}" for number in range(7)),
        ]
    found, cursor = [], ""
    while cursor is not None:
        page = shown.request("GET", f"/v1/streams{f'?cursor={cursor}' if cursor else ''}").json()
        found += [each["name"] for each in page["streams"]]
        assert len(page["streams"]) <= 3
        cursor = page["next"]
    assert found == ["doors", *(f"s{number}" for number in range(7))]


def test_events_wait_while_their_stream_catches_up_with_many_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticks of one stream are closed at a time; a client of the last one gets a 202 all the
    same."""
    monkeypatch.setattr(writer_module, "MOST_TOGETHER", 1)
    monkeypatch.setattr(writer_module, "LONGEST_DELAY", 60.0)
    with Harness(tmp_path) as harness:
        for number in range(20):
            harness.create(f"s{number:02d}", keys=("a",))
        assert isinstance(harness.clock, StillClock)
        harness.clock.moment += 60
        for number in range(20):
            events = f"/v1/streams/s{19 - number:02d}/events"
            assert harness.post(events, {"events": [{"key": "a", "count": 3}]}).status == 202
        harness.close_tick(name="s19")
        assert (
            harness.request(
                "GET", "/v1/streams/s19/figures?per=total&key=a", token=harness.admin
            ).json()["figures"][-1]["value"]
            == 3
        )


def test_keys_are_read_once_and_not_at_every_tick(shown: Harness, questions: list[str]) -> None:
    for ticks in (1, 2, 3):
        shown.close_tick()
        assert shown.request("GET", "/v1/streams/doors/total").json()["figures"][1]["key"] == "b"
        if ticks == 1:
            questions.clear()
    assert [sql for sql in questions if "FROM key_blocks" in sql] == []
    with shown.client() as client:
        client.declare("doors", ["c"])
        assert client.stream("doors").keys == ("a", "b", "c")


def test_answers_are_kept_within_bytes(shown: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were not asked for longest go first; what nobody may keep is read again."""
    monkeypatch.setattr("fadecount.service.reader_pool.CACHE_BYTES", 40_000)
    shown.close_tick(3)
    pool = shown.service.pool
    for since in range(60):
        path = f"/v1/streams/doors/figures?per=total&since={since}"
        assert shown.request("GET", path).status == 200
        assert pool._bytes <= 40_000
    kept = sum(MOST_AROUND + len(each) for _, each in pool._kept.values())
    assert kept == pool._bytes
    assert 2 <= len(pool._kept) < 30


def test_a_slow_answer_to_an_old_question_is_not_kept_for_the_next_tick(shown: Harness) -> None:
    """A stream that was read before a tick makes no answers after it."""
    shown.close_tick()
    old = shown.stream("doors")
    shown.close_tick()
    new = shown.stream("doors")
    assert (old.last_tick or 0) + 1 == new.last_tick

    def ask(stream: PublicStream) -> Any:
        question = shown.service.pool.read(stream, "which", lambda _: str(stream.last_tick))
        return asyncio.run_coroutine_threadsafe(question, shown.service._loop).result(20)

    assert [ask(each) for each in (old, new, old)] == [
        str(each.last_tick) for each in (old, new, old)
    ]
