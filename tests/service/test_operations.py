"""The operator's day: tokens, logs, signals, and why a service is not ready."""

from __future__ import annotations

import asyncio
import http.client
import signal
import threading
import time
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.service.server import allowed_hosts, configure_logs
from fadecount.service.tokens import LONGEST_AGE, Role
from tests.service.harness import EXACT, Harness, wait_for
from tests.service.process import ServeProcess


def test_revoking_a_token_ends_its_live_connections(harness: Harness) -> None:
    token, kept = harness.token("reader"), harness.token("reader")
    held: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
    for each in (token, kept):
        connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=20)
        connection.request(
            "GET", "/v1/streams/doors/live", headers={"Authorization": f"Bearer {each}"}
        )
        held.append((connection, connection.getresponse()))
    wait_for(lambda: harness.live_readers == 2)
    harness.with_tokens(lambda tokens: tokens.revoke(token.split("_")[1]))
    assert held[0][1].read().startswith(b"retry:")  # to its end, without another tick
    wait_for(lambda: harness.live_readers == 1)
    for connection, answer in held:
        answer.close()
        connection.close()


def test_a_service_that_can_notice_no_revoked_tokens_any_more_ends(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    harness.service.writer.on_failure = ended.set
    monkeypatch.setattr(harness.service, "read_tokens", lambda: 1 // 0)
    assert ended.wait(20)
    assert harness.request("GET", "/readyz").status == 503
    assert "ZeroDivisionError" in caplog.text


def test_an_expired_token_is_refused_and_its_live_connections_end(harness: Harness) -> None:
    token, grant = harness.new_token(Role.READER, expires_seconds=2)
    connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=30)
    connection.request(
        "GET", "/v1/streams/doors/live", headers={"Authorization": f"Bearer {token}"}
    )
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.read().startswith(
        b"retry:"
    )  # to its end: neither a tick nor a heartbeat comes before
    connection.close()
    assert grant.has_expired(time.time())
    assert harness.request("GET", "/v1/streams", token=token).status == 401
    assert harness.request("GET", "/v1/streams", token=harness.admin).status == 200


def test_health_checks_wait_for_no_work(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        hold, release = threading.Event(), threading.Event()

        def block(_: object) -> None:
            hold.set()
            release.wait(60)

        loop = harness.service._loop
        loop.call_soon_threadsafe(lambda: harness.service.writer.call(block))
        assert hold.wait(30)
        reads = [
            asyncio.run_coroutine_threadsafe(harness.service.pool.ask(block), loop)
            for _ in range(64)
        ]
        parses = [
            asyncio.run_coroutine_threadsafe(asyncio.to_thread(release.wait, 60), loop)
            for _ in range(64)
        ]
        try:
            for path in ("/healthz", "/readyz"):
                for _ in range(5):
                    assert harness.request("GET", path).status == 200
        finally:
            release.set()
        for read in reads:
            read.result(30)
        assert all(parse.result(30) for parse in parses)


@pytest.mark.parametrize("public", [False, True])
def test_tokens_that_cannot_be_read_let_nobody_in(
    tmp_path: Path, public: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has not answered for long, so a token may have been revoked."""
    with Harness(tmp_path, public=public) as harness:
        known = harness.service.access
        monkeypatch.setattr(known, "replace", lambda _: False)
        known._replaced -= LONGEST_AGE
        assert harness.request("GET", "/v1/streams", token=harness.admin).status == 503
        assert harness.request("GET", "/v1/streams").status == (200 if public else 503)
        unready = harness.request("GET", "/readyz")
        assert unready.status == 503 and b"tokens cannot be read" in unready.body
        assert harness.request("GET", "/healthz").status == 200
        monkeypatch.undo()
        wait_for(lambda: harness.request("GET", "/readyz").status == 200)
        assert harness.request("GET", "/v1/streams", token=harness.admin).status == 200


def test_a_process_ends_in_order_on_sighup_and_logs_a_line(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as service:
        with fc.Client(service.url, service.admin) as client:
            client.create("doors", tick="1m", mechanism=EXACT)
            client.delete("doors")
        service.process.send_signal(signal.SIGHUP)
        assert service.process.wait(20) == 0
        service.stop()
        (line,) = service.log.decode().splitlines()
        assert line.endswith(" WARNING stream doors is deleted")


def test_an_unexpected_error_is_a_line_in_the_log_without_values(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret is 734201")

    monkeypatch.setattr("fadecount.service.read_routes.stream_info", broken)
    reply = harness.request("GET", "/v1/streams/doors", token=harness.admin)
    assert reply.status == 500
    (record,) = (each for each in caplog.records if "RuntimeError" in each.getMessage())
    assert record.getMessage().startswith("failed: RuntimeError in test_operations.py line ")
    assert "734201" not in record.getMessage()


def test_hosts() -> None:
    assert {"[::1]", "[::1]:8000", "localhost"} <= allowed_hosts("::1", 8000)
    every = "0.0.0.0"  # noqa: S104 - not a name that anybody may use
    assert not {"::1", "::1:8000", every, "[::]"} & (
        allowed_hosts("::1", 8000) | allowed_hosts(every, 1) | allowed_hosts("::", 1)
    )
    assert "localhost:8080" in allowed_hosts("127.0.0.1", 8000, ("localhost:8080",))
    assert "localhost:8080" not in allowed_hosts("127.0.0.1", 8000)


def test_logs_are_configured_anew(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    before = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        configure_logs()
        logging.getLogger("fadecount.service").warning("words")
        assert capsys.readouterr().err.rstrip().endswith("WARNING words")
    finally:
        logging.getLogger().handlers[:] = before[0]
        logging.getLogger().setLevel(before[1])
