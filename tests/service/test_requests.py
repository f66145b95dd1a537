"""Operators delete streams, keep releases for a time and accept histories beside a running service,
which carries it out."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.errors import LockedError
from fadecount.service import leader, write_routes
from fadecount.service.client import ServiceError
from fadecount.streams import Description, SQLiteStore, Ticks, fence_from
from fadecount.streams.audit_log import Act, AuditLog
from fadecount.streams.requests import Action, Request, ask_leader
from fadecount.streams.sqlite import SQLiteDatabase
from tests.service.faulty import LossyProxy
from tests.service.harness import EXACT, Harness, StillClock, wait_for


def where(harness: Harness) -> list[str]:
    return ["--state", str(harness.storage.folder), "--fence", str(harness.storage.fence)]


def test_a_stream_is_deleted_while_others_run(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.create("windows")
    harness.close_tick(2)
    wait_for(lambda: harness.facts("windows").last_tick == harness.facts("doors").last_tick)
    assert main(["streams", "delete", "doors", "--yes", *where(harness)]) == 0
    assert "its name stays taken" in capsys.readouterr().out
    for path in ("", "/releases", "/releases/latest", "/privacy"):
        assert harness.request("GET", f"/v1/streams/doors{path}", token=harness.admin).status == 404
    sent = harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]})
    assert sent.status == 404
    harness.close_tick(3, name="windows")
    assert harness.post("/v1/streams/windows/events", {"events": [{"key": "a"}]}).status == 202
    again = {
        "name": "doors",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 1.0, "exponent": 1.0, "delay": 0},
    }
    assert harness.post("/v1/streams", again).status == 409, "the name stays taken"
    assert main(["streams", "delete", "doors", "--yes", *where(harness)]) == 1
    assert "stream must exist" in capsys.readouterr().err
    (entry,) = [
        each
        for each in AuditLog(harness.storage.folder).entries()
        if each.act == Act.STREAM_DELETED
    ]
    assert entry.object == "doors" and entry.actor.startswith("user ")


def test_retention_is_applied_while_the_service_runs(
    harness: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "UPKEEP_SECONDS", 0.1)
    harness.close_tick(60)
    first = harness.facts("doors").first_tick
    assert first is not None
    page = harness.request("GET", "/v1/streams/doors/releases?limit=2", token=harness.admin).json()
    assert main(["streams", "retain", "doors", "--for", "10m", *where(harness)]) == 0
    assert "releases are kept for 10 minutes" in capsys.readouterr().out
    wait_for(lambda: harness.facts("doors").first_tick == first + 50)
    facts = harness.facts("doors")
    shown = facts.ticks.shown
    stream = harness.request("GET", "/v1/streams/doors", token=harness.admin).json()
    assert stream["first_tick"] == shown(first + 50)
    removed = f"/v1/streams/doors/releases?since={shown(first + 3)}"
    for path in (removed, f"/v1/streams/doors/releases?cursor={page['next']}"):
        answer = harness.request("GET", path, token=harness.admin)
        assert (answer.status, answer.json()["code"]) == (410, "removed")
    for query in ("", f"?since={shown(first + 50)}"):
        rows = harness.request(
            "GET", f"/v1/streams/doors/releases{query}", token=harness.admin
        ).json()["releases"]
        assert (len(rows), rows[0]["tick"]) == (20, shown(first + 50))
    windows = f"/v1/streams/doors/windows?per=5m&until={shown(first + 20)}"
    assert harness.request("GET", windows, token=harness.admin).status == 410
    found = harness.request(
        "GET", "/v1/streams/doors/windows?per=5m&key=a", token=harness.admin
    ).json()["windows"]
    assert found[0]["partial"] is True and len(found) >= 2
    harness.close_tick(30)
    wait_for(lambda: harness.facts("doors").first_tick == first + 80)


def test_streams_are_deleted_over_http(harness: Harness) -> None:
    """With releases the name stays taken; without any it may be used again."""
    harness.create("windows")
    harness.close_tick(name="doors")
    wait_for(lambda: harness.facts("windows").last_tick == harness.facts("doors").last_tick)
    harness.create("fresh")
    with harness.client() as client:
        for name in ("doors", "fresh"):
            client.delete(name)
            assert harness.request("GET", f"/v1/streams/{name}", token=harness.admin).status == 404
            with pytest.raises(ServiceError) as caught:
                client.delete(name)
            assert caught.value.status == 404
        assert [each.name for each in client.streams()] == ["windows"]
        with pytest.raises(ServiceError, match="was used before"):
            client.create("doors", tick="1m", mechanism=EXACT)
        assert client.create("fresh", tick="1h", mechanism=EXACT)
    assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 404
    harness.close_tick(2, name="windows")
    own = harness.tokens.grant_of(harness.admin)
    assert own is not None
    entries = [
        each
        for each in AuditLog(harness.storage.folder).entries()
        if each.act == Act.STREAM_DELETED
    ]
    assert [(each.object, each.actor) for each in entries] == [
        ("doors", own.shown),
        ("fresh", own.shown),
    ]


def test_a_deletion_whose_answer_gets_lost_is_done_once(harness: Harness) -> None:
    with (
        LossyProxy(harness.port, lose_every=1) as proxy,
        fc.Client(proxy.url, harness.admin, attempts=2) as client,
        pytest.raises(ServiceError, match="cannot be reached"),
    ):
        client.delete("doors")
    assert harness.request("GET", "/v1/streams/doors", token=harness.admin).status == 404
    harness.create("windows")
    with (
        LossyProxy(harness.port, lose_every=2) as proxy,
        fc.Client(proxy.url, harness.admin) as client,
    ):
        client.stream("windows")
        client.delete("windows")
        assert proxy.lost == 1
    assert harness.request("GET", "/v1/streams/windows", token=harness.admin).status == 404


def test_retention_is_set_over_http(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "UPKEEP_SECONDS", 0.1)
    harness.close_tick(60)
    first = harness.facts("doors").first_tick
    assert first is not None
    path = "/v1/streams/doors/retention"
    for bad in ("30s", "soon", "99999999y", 90, True):
        body = json.dumps({"retain": bad})
        refused = harness.request(
            "PUT", path, body, token=harness.admin, content_type="application/json"
        )
        assert refused.status == 400
    with harness.client() as client:
        client.retain("doors", "10m")
        wait_for(lambda: harness.facts("doors").first_tick == first + 50)
        client.retain("doors", None)
    assert (
        harness.request("GET", "/v1/streams/doors", token=harness.admin).json()["retain_seconds"]
        is None
    )
    (status,) = harness.request("GET", "/v1/status", token=harness.admin).json()["streams"]
    assert status["retain_seconds"] is None
    own = harness.tokens.grant_of(harness.admin)
    assert own is not None
    entries = [
        each
        for each in AuditLog(harness.storage.folder).entries()
        if each.act == Act.RETENTION_SET
    ]
    assert [(each.actor, each.details["seconds"]) for each in entries] == [
        (own.shown, 600),
        (own.shown, "for ever"),
    ]


def test_what_the_leader_refuses_is_said_and_nothing_is_left(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = harness.storage.folder / "fadecount-audit.jsonl"
    log.unlink()
    log.mkdir()
    assert harness.request("DELETE", "/v1/streams/doors", token=harness.admin).status == 503
    assert "a request about stream doors is refused" in caplog.text
    assert harness.request("GET", "/v1/streams/doors", token=harness.admin).status == 200
    monkeypatch.setattr(leader.Leader, "_carry_out", lambda *_: None)
    monkeypatch.setattr(write_routes, "ANSWER_SECONDS", 0.3)
    assert harness.request("DELETE", "/v1/streams/doors", token=harness.admin).status == 503
    held = harness.service.writer._leader
    assert held is not None and held._store.requests() == []


def test_retention_may_be_set_at_the_creation(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "UPKEEP_SECONDS", 0.1)
    with harness.client() as client:
        assert client.create("brief", tick="1m", mechanism=EXACT, retain="5m")
        assert not client.create("brief", tick="1m", mechanism=EXACT, retain="5m")
    assert (
        harness.request("GET", "/v1/streams/brief", token=harness.admin).json()["retain_seconds"]
        == 300
    )
    first = harness.facts("brief").status.first_tick
    assert first is not None
    harness.close_tick(20, name="brief")
    wait_for(lambda: harness.facts("brief").first_tick == first + 15)
    new = {
        "name": "other",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 1.0, "exponent": 1.0, "delay": 0},
    }
    for bad in ("30s", "soon", "-5m", "99999999y"):
        refused = harness.post("/v1/streams", {**new, "retain": bad})
        assert (refused.status, refused.json()["code"]) == (400, "bad_retention")


def test_a_refused_stream_goes_on_once_its_history_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        harness.close_tick(2)
        clock = harness.clock
    shutil.copytree(tmp_path / "state", tmp_path / "old")
    store = SQLiteStore(tmp_path / "state" / "streams.db", fence=fence_from(tmp_path / "fence"))
    stream = store.open("doors")
    stream.close_through((stream.open_tick or 0) + 3)
    store.close()
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "old").rename(tmp_path / "state")
    with Harness(tmp_path, clock=clock) as harness:
        assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 503
        accept = [
            "streams",
            "accept-history",
            "doors",
            "--yes",
            *where(harness),
            "--other-histories",
        ]
        assert main([*accept, "0"]) == 1
        assert "other_histories must be" in capsys.readouterr().err
        assert main([*accept, "1"]) == 0
        assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 202
        assert (
            harness.request("GET", "/v1/streams/doors", token=harness.admin).json()["histories"]
            == 2
        )
        assert main([*accept, "1"]) == 1, "once"
        harness.close_tick()


def test_a_request_that_nobody_answers_is_withdrawn(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "state" / "streams.db", fence=fence_from(tmp_path / "fence"))
    database = SQLiteDatabase(tmp_path / "state" / "streams.db", writes=True, beside=True)
    with pytest.raises(LockedError, match="answers no requests"):
        ask_leader(database, Request(stream="doors", action="delete"), wait_seconds=0.2)
    assert store.requests() == []
    database.close()
    store.close()


def test_a_command_that_is_interrupted_withdraws_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a run, which answers no requests, holds the store."""

    def interrupt(_: float) -> None:
        assert len(running.requests()) == 1
        raise KeyboardInterrupt

    fence = fence_from(tmp_path / "fence")
    with SQLiteStore(tmp_path / "state" / "streams.db", fence=fence) as running:
        running.create(
            Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), start_tick=1
        ).close_through(2)
        monkeypatch.setattr("fadecount.streams.requests.time.sleep", interrupt)
        store = ["--state", str(tmp_path / "state"), "--fence", str(tmp_path / "fence")]
        for words in (["delete", "doors", "--yes"], ["retain", "doors", "--for", "1d"]):
            assert main(["streams", *words, *store]) == 130
            assert running.requests() == []
        monkeypatch.undo()
        led = leader.Leader(running, StillClock(), on_ticks=lambda _: None)
        led.look_after()
        assert (
            running.names() == ["doors"] and running.reader().status("doors").retain_seconds is None
        )


@pytest.mark.parametrize("action", ["delete", "retain", "accept-history"])
def test_a_request_of_a_command_that_was_killed_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    with SQLiteStore(
        tmp_path / "state" / "streams.db", fence=fence_from(tmp_path / "fence")
    ) as store:
        store.create(
            Description(name="doors", mechanism=EXACT, ticks=Ticks(tick_seconds=60)), start_tick=1
        ).close_through(2)
        before = store.reader().status("doors")
        store.ask(Request(stream="doors", action=action, number=86400 if action == "retain" else 1))
        assert len(store.requests()) == 1
        later = time.time() + 60.0
        monkeypatch.setattr("fadecount.streams.requests.time.time", lambda: later)
        led = leader.Leader(store, StillClock(), on_ticks=lambda _: None)
        led.look_after()
        assert store.reader().status("doors") == before
        assert store._database.query("SELECT * FROM requests") == []


def test_a_service_in_the_place_of_a_lost_store_creates_no_stream_that_was_published(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        harness.close_tick(2)
        clock = harness.clock
    shutil.rmtree(tmp_path / "state")
    body = {
        "name": "doors",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 1.0, "exponent": 1.0, "delay": 0},
    }
    with Harness(tmp_path, clock=clock) as harness:
        for _ in range(2):
            refused = harness.post("/v1/streams", body)
            assert (refused.status, refused.json()["code"]) == (409, "refused")
        assert "stream doors is refused: stream name 'doors' was used at this place" in caplog.text
        assert harness.post("/v1/streams", {**body, "name": "others"}).status == 201, (
            "the service goes on"
        )
