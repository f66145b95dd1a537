"""The operator's day: tokens, logs, signals, and why a service is not ready."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from fadecount.service.http import allowed_hosts
from fadecount.service.limits import Limits
from fadecount.service.server import configure_logs
from fadecount.service.tokens import Role, TokenFile
from tests.service.harness import Harness, wait_for
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
    harness.tokens.revoke(token.split("_")[1])
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
    monkeypatch.setattr(harness.service, "_token_version", lambda: 1 // 0)
    assert ended.wait(20)
    assert harness.request("GET", "/readyz").status == 503
    assert "ZeroDivisionError" in caplog.text


def test_an_expired_token_is_refused_and_its_live_connections_end(harness: Harness) -> None:
    token, grant = harness.tokens.create(Role.READER, expires_seconds=2)
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
    assert harness.tokens.has_expired(grant)
    assert harness.request("GET", "/v1/streams", token=token).status == 401
    assert harness.request("GET", "/v1/streams", token=harness.admin).status == 200


def test_a_token_is_held_to_its_own_limits(harness: Harness) -> None:
    def live(token: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=30)
        connection.request(
            "GET", "/v1/streams/doors/live", headers={"Authorization": f"Bearer {token}"}
        )
        return connection, connection.getresponse()

    def status(token: str) -> int:
        return harness.request("GET", "/v1/streams/doors", token=token).status

    slow, _ = harness.tokens.create(Role.READER, rate=0.001)
    assert [status(slow) for _ in range(3)] == [200, 429, 429]
    narrow, _ = harness.tokens.create(Role.READER, connections=2, live_readers=1)
    first = live(narrow)
    assert first[1].status == 200
    second = live(narrow)
    assert second[1].status == 429 and second[1].getheader("Retry-After") == "1"
    assert status(narrow) == 200
    two, _ = harness.tokens.create(Role.READER, connections=2)
    held = [live(two), live(two)]
    assert [each.status for _, each in held] == [200, 200] and status(two) == 429
    assert status(harness.admin) == 200
    forged = f"{two.rpartition('_')[0]}_wrong"
    assert status(forged) == 401  # a stranger who knows the id takes nothing from its owner
    for connection, answer in (first, second, *held):
        answer.close()
        connection.close()
    wait_for(lambda: harness.live_readers == 0)
    wait_for(lambda: status(two) == 200)


def test_the_last_use_is_saved_when_the_service_ends(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        unused = harness.tokens.create(Role.READER)[1]
        assert harness.tokens.last_uses() == {}
    assert [each.id in harness.tokens.last_uses() for each in harness.tokens.grants()] == [
        each != unused for each in harness.tokens.grants()
    ]


def test_health_checks_wait_for_no_work_and_no_limit(tmp_path: Path) -> None:
    with Harness(tmp_path, limits=Limits(requests_per_second=0.001, burst=3)) as harness:
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
        parses = [harness.service._parsers.submit(release.wait, 60) for _ in range(64)]
        try:
            while (
                harness.request("GET", "/v1/streams").status != 429
            ):  # the address has used up its rate
                pass
            for path in ("/healthz", "/readyz"):
                for _ in range(5):
                    assert harness.request("GET", path).status == 200
        finally:
            release.set()
        for read in reads:
            read.result(30)
        assert all(parse.result(30) for parse in parses)


def test_what_root_writes_belongs_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: nothing belongs to anybody else")
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12346)
    TokenFile(folder / "tokens.json").create(Role.READER)
    for file in folder.iterdir():
        assert (file.stat().st_uid, file.stat().st_gid, file.stat().st_mode & 0o777) == (
            12345,
            12346,
            0o600,
        )


@pytest.mark.parametrize("public", [False, True])
def test_tokens_that_cannot_be_read_let_nobody_in(
    tmp_path: Path, public: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Harness(tmp_path, public=public) as harness:
        harness.create()
        path = harness.storage.folder / "tokens.json"
        kept = path.read_bytes()
        for damaged in (True, False):
            if damaged:
                path.write_text("{}")
            else:  # a folder: root may read any file
                path.unlink()
                path.mkdir()
            assert harness.request("GET", "/v1/streams", token=harness.admin).status == 503
            assert harness.request("GET", "/v1/streams").status == (200 if public else 401)
            unready = harness.request("GET", "/readyz")
            assert unready.status == 503 and b"tokens cannot be read" in unready.body
            assert harness.request("GET", "/healthz").status == 200
        assert caplog.text.count("nobody gets in") == 2
        path.rmdir()
        path.write_bytes(kept)
        assert harness.request("GET", "/v1/streams", token=harness.admin).status == 200
        assert harness.request("GET", "/readyz").status == 200


def test_a_process_reloads_on_sighup_and_logs_json(tmp_path: Path) -> None:
    with ServeProcess(tmp_path, "--log-format", "json") as service:
        service.process.send_signal(signal.SIGHUP)
        connection = http.client.HTTPConnection(
            "127.0.0.1", int(service.url.rpartition(":")[2]), timeout=10
        )
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == 200
        connection.close()
        status, _ = service.stop()
        assert status == 0
        (line,) = service.log.decode().splitlines()
        assert json.loads(line)["message"] == "reloaded: everything is in order"


def test_an_answer_and_its_line_in_the_log_have_one_id(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the secret is 734201")

    monkeypatch.setattr("fadecount.service.read_routes.description", broken)
    reply = harness.request("GET", "/v1/streams/doors", token=harness.admin)
    assert reply.status == 500
    (record,) = (each for each in caplog.records if "RuntimeError" in each.getMessage())
    assert record.request_id == reply.headers["x-request-id"]  # type: ignore[attr-defined]
    assert (
        harness.request("GET", "/healthz").headers["x-request-id"] != reply.headers["x-request-id"]
    )


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
    import sys

    before = logging.getLogger().handlers[:], logging.getLogger().level
    try:
        configure_logs(sys.stdout)
        logging.getLogger("fadecount.service").warning("words", extra={"request_id": "ab"})
        assert capsys.readouterr().out.rstrip().endswith("WARNING words (request ab)")
    finally:
        logging.getLogger().handlers[:] = before[0]
        logging.getLogger().setLevel(before[1])
