"""Operators delete streams and keep releases for a time over HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.service import writer
from fadecount.service.client import ServiceError
from fadecount.streams import fence_from
from fadecount.streams.audit_log import Act, AuditLog
from tests.service.faulty import LossyProxy
from tests.service.harness import EXACT, Harness, wait_for
from tests.streams.backends import entries_of


def where(harness: Harness) -> list[str]:
    return ["--state", str(harness.storage.folder), "--fence", str(harness.storage.fence)]


@pytest.mark.parametrize(
    "words",
    [
        ["delete", "doors", "--yes"],
        ["retain", "doors", "--for", "10m"],
    ],
)
def test_a_command_beside_a_service_says_what_to_do(
    harness: Harness, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = harness.stream("doors").status
    assert main(["streams", *words, *where(harness)]) == 1
    said = capsys.readouterr().err
    assert "stop it first, or ask a service over HTTP" in said and said.count("\n") == 1
    assert harness.stream("doors").status == before


def test_old_releases_are_removed_while_the_service_runs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "UPKEEP_SECONDS", 0.1)
    harness.close_tick(60)
    first = harness.stream("doors").status.shown_from
    assert first is not None
    harness.retain("doors", 600)
    wait_for(lambda: harness.stream("doors").status.shown_from == first + 50)
    stream = harness.stream("doors")
    shown = stream.ticks.local
    stream = harness.request("GET", "/v1/streams/doors", token=harness.admin).json()
    assert stream["first_start"] == shown(first + 50)
    removed = f"/v1/streams/doors/figures?per=total&since={shown(first + 3)}"
    for path in (removed, f"/v1/streams/doors/figures?per=total&cursor={first + 2}"):
        answer = harness.request("GET", path, token=harness.admin)
        assert (answer.status, answer.json()["code"]) == (410, "removed")
    for query in ("", f"&since={shown(first + 50)}"):
        rows = harness.request(
            "GET", f"/v1/streams/doors/figures?per=total{query}", token=harness.admin
        ).json()["figures"]
        assert (len(rows), rows[0]["end"]) == (20, shown(first + 51))
    for query in (f"figures?per=5m&since={shown(first + 20)}", f"total?as_of={shown(first + 20)}"):
        path = f"/v1/streams/doors/{query}"
        assert harness.request("GET", path, token=harness.admin).status == 410
    found = harness.request(
        "GET", "/v1/streams/doors/figures?per=5m&key=a", token=harness.admin
    ).json()["figures"]
    assert found[0]["partial"] is False and len(found) >= 2
    harness.close_tick(30)
    wait_for(lambda: harness.stream("doors").status.shown_from == first + 80)


def test_streams_are_deleted_over_http(harness: Harness) -> None:
    """With releases the name stays taken; without any it may be used again."""
    harness.create("windows")
    harness.close_tick(name="doors")
    wait_for(lambda: harness.stream("windows").last_tick == harness.stream("doors").last_tick)
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
    own = harness.own
    entries = [
        each
        for each in entries_of(AuditLog(harness.storage.folder))
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


def test_what_cannot_be_recorded_is_refused(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    log = harness.storage.folder / "fadecount-audit.jsonl"
    log.unlink()
    log.mkdir()
    assert harness.request("DELETE", "/v1/streams/doors", token=harness.admin).status == 503
    assert "an administrative act is refused" in caplog.text
    assert harness.request("GET", "/v1/streams/doors", token=harness.admin).status == 200


def test_old_figures_of_a_stream_that_has_ended_are_removed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "UPKEEP_SECONDS", 0.1)
    harness.create("short", mechanism=fc.Binary(epsilon=1.0, horizon=30))
    first = harness.stream("short").status.first_tick
    assert first is not None
    harness.close_tick(31)
    wait_for(lambda: harness.stream("short").last_tick == first + 29)
    harness.retain("short", 600)
    wait_for(lambda: harness.stream("short").status.shown_from == first + 20)
    sent = harness.post("/v1/streams/short/events", {"events": [{"key": "a"}]})
    keys = harness.post("/v1/streams/short/keys", {"keys": ["c"]})
    assert {(each.status, each.json()["code"]) for each in (sent, keys)} == {(409, "ended")}


def test_a_refused_stream_may_be_deleted(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        harness.close_tick(2)
        clock = harness.clock
    fence_from(tmp_path / "fence")
    shutil.rmtree(tmp_path / "fence")
    with Harness(tmp_path, clock=clock) as harness:
        assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 503
        keys = harness.post("/v1/streams/doors/keys", {"keys": ["c"]})
        assert keys.status == 503 and b"not in order" in keys.body
        assert harness.request("DELETE", "/v1/streams/doors", token=harness.admin).status == 200
        assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 404


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


def test_streams_of_a_group_keep_its_promise_over_http(harness: Harness) -> None:
    small = fc.Blocks(fc.Level(1, 0.4))
    with harness.client() as client:
        limits = {"1h": 0.8, "ever": 1.0}
        first: dict[str, Any] = {
            "tick": "1m",
            "mechanism": small,
            "group": "riders",
            "group_loss": limits,
        }
        assert client.create("rides", **first)
        assert not client.create("rides", **first)
        assert client.create("trips", tick="1m", mechanism=small, group="riders")
        curve = [{"age_seconds": 3600, "loss": 0.8}, {"age_seconds": None, "loss": 1.0}]
        about = {"name": "riders", "unit": "one event", "curve": curve, "delta": None}
        about["text"] = (
            "riders: at most 0.8 up to 1 hour, 1 later for one event, by all streams of the group"
            " together"
        )
        assert client.stream("trips").group == about
        assert client.stream("doors").group is None
        wrong: dict[str, Any]
        for name, wrong in (
            ("stops", {"group": "riders"}),
            ("stops", {"group": "riders", "group_loss": {"ever": 2.0}}),
            ("stops", {"group": "nobody"}),
            ("trips", {"group": "nobody", "group_loss": {"ever": 2.0}}),
        ):
            with pytest.raises(ServiceError) as caught:
                client.create(name, tick="1m", mechanism=small, **wrong)
            assert caught.value.status == 409
        for wrong in ({"group_loss": {"ever": 2.0}}, {"group": "x", "group_loss": {"soon": 1.0}}):
            with pytest.raises(ServiceError) as caught:
                client.create("stops", tick="1m", mechanism=small, **wrong)
            assert (caught.value.status, caught.value.code) == (400, "bad_group")
