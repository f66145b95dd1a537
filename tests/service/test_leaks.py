"""Canaries: counts, keys, tokens and names that must show nowhere but where they belong."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.service.operations import static_files
from tests.service.harness import Harness

COUNTS = (734_201, 918_273, 655_357)
UNDECLARED = "canary-key-nobody-declared"
HIDDEN = fc.Gradual(epsilon=2.0**-30, exponent=1.0)
"""Noise of scale 2**30: that a release shows a given number by chance has probability below
1e-9."""

FALSE_ALARM = 1e-6
READS = (
    "/v1/streams",
    "/v1/streams/doors",
    "/v1/streams/doors/figures?per=total",
    "/v1/streams/doors/total",
    "/v1/streams/doors/so-far?per=1h",
    "/v1/streams/doors/figures?per=1h",
    "/metrics",
    "/healthz",
    "/readyz",
    "/",
    "/v1/streams/doors/privacy",
    "/v1/streams/doors/privacy?age=1h",
    "/v1/openapi.json",
    "/nothing",
)


def test_canaries_show_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    before = set(Path(tempfile.gettempdir()).iterdir())
    seen: list[bytes] = []
    secrets: list[str] = []
    with Harness(tmp_path) as harness:
        harness.create(mechanism=HIDDEN)
        writer, reader = harness.token("writer"), harness.token("reader")
        secrets = [each.split("_", 2)[2] for each in (writer, reader, harness.admin)]
        path = "/v1/streams/doors/events"
        for count in COUNTS:
            for body in (
                {"events": [{"key": "a", "count": count}]},
                {"events": [{"key": UNDECLARED, "count": count}]},
                {"events": [{"key": "a", "count": count, UNDECLARED: count}]},
                {"events": [{"key": "a", "count": -count}]},
            ):
                reply = harness.post(
                    path, body, token=writer, idempotency_key=f"id-{count}-{UNDECLARED}-{len(seen)}"
                )
                seen.append(reply.body + json.dumps(dict(reply.headers)).encode())
            harness.close_tick()
        for read in READS:
            for token in (reader, None, "fc_x_" + secrets[0]):
                reply = harness.request("GET", read, token=token)
                seen.append(reply.body + json.dumps(dict(reply.headers)).encode())
        seen.append(
            harness.request(
                "GET", f"/v1/streams/doors/figures?per=total&key={UNDECLARED}", token=reader
            ).body
        )
    seen += [file.body for file in static_files().values()]
    captured = capfd.readouterr()
    logs = "\n".join(record.getMessage() for record in caplog.records)
    seen += [logs.encode(), captured.out.encode(), captured.err.encode()]
    needles = (
        [str(count) for count in COUNTS]
        + [str(sum(COUNTS[: at + 1])) for at in range(3)]
        + [UNDECLARED, *secrets]
    )
    everything = b"\n".join(seen)
    assert [needle for needle in needles if needle.encode() in everything] == []
    new = [path for path in set(Path(tempfile.gettempdir()).iterdir()) - before if path.is_file()]
    assert [
        path for path in new for needle in needles if needle.encode() in path.read_bytes()
    ] == []


def test_the_scan_finds_what_is_there(tmp_path: Path) -> None:
    """With hardly any noise the releases do show the counts: the needles are the right ones."""
    with Harness(tmp_path) as harness, harness.client() as client:
        harness.create()
        client.add("doors", {"a": COUNTS[0]})
        harness.close_tick()
        reply = harness.request("GET", "/v1/streams/doors/total", token=harness.admin)
        assert str(COUNTS[0]).encode() in reply.body


def test_metrics_do_not_move_with_events(harness: Harness) -> None:
    reader = harness.token("reader")

    def figures() -> str:
        return harness.request("GET", "/metrics", token=reader).body.decode()

    before = figures()
    for _ in range(20):
        assert (
            harness.post("/v1/streams/doors/events", {"events": [{"key": "a", "count": 9}]}).status
            == 202
        )
    assert figures() == before


def test_a_fault_inside_shows_nothing_of_itself(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret is 734201")

    monkeypatch.setattr("fadecount.service.read_routes.stream_info", broken)
    reply = harness.request("GET", "/v1/streams/doors", token=harness.admin)
    assert reply.status == 500
    assert b"734201" not in reply.body and b"Traceback" not in reply.body
    assert "RuntimeError" in caplog.text and "734201" not in caplog.text


def test_accepting_says_the_same_whatever_was_counted(harness: Harness) -> None:
    path = "/v1/streams/doors/events"
    bodies = {
        harness.post(path, {"events": [{"key": "a", "count": count}]}).body
        for count in (0, 1, 999_999)
    }
    assert len(bodies) == 1
