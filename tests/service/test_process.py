"""The service as a process: it ends when asked without losing anything, and comes back when
killed."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from campaigns.service.crash import campaign

import fadecount as fc
from fadecount.cli.main import main
from fadecount.service.client import ServiceError
from tests.service.harness import EXACT, Harness, last_value, wait_for
from tests.service.process import ServeProcess


def test_sigkill_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found = campaign(tmp_path, 4)
    assert found["kills"] >= 4 and found["events"] > 0 and found["releases"] > 0


def test_sigterm_ends_it_quickly_and_loses_nothing(tmp_path: Path) -> None:
    with ServeProcess(tmp_path) as service:
        with fc.Client(service.url, service.admin) as client:
            client.create("doors", tick="1s", mechanism=EXACT)
        acknowledged = 0
        stopped = threading.Event()

        def write() -> None:
            nonlocal acknowledged
            with fc.Client(service.url, service.admin, attempts=1) as client:
                while not stopped.is_set():
                    try:
                        client.add("doors", {"all": 1})
                        acknowledged += 1
                    except ServiceError:
                        return

        live = http.client.HTTPConnection(
            "127.0.0.1", int(service.url.rpartition(":")[2]), timeout=10
        )
        live.request(
            "GET", "/v1/streams/doors/live", headers={"Authorization": f"Bearer {service.admin}"}
        )
        answer = live.getresponse()
        thread = threading.Thread(target=write)
        thread.start()
        stopped.wait(0.5)
        status = service.stop()
        stopped.set()
        thread.join()
        answer.close()
        live.close()
        assert status == 0
        assert service.log == b""
        service.start()
        with fc.Client(service.url, service.admin) as client:
            wait_for(lambda: (last_value(client) or 0) >= acknowledged)
            # one more may have been made durable whose answer was cut off
            assert 0 < acknowledged <= client.total("doors")[0].value <= acknowledged + 1


@pytest.mark.parametrize("most", [290, 2000])
def test_connections_do_not_take_the_files_that_the_store_needs(tmp_path: Path, most: int) -> None:
    """With as many connections as it allows, and then some, the service goes on; it allows no more
    than there are files for."""
    service = ServeProcess(tmp_path)
    service.files = (200, most)
    with service, ExitStack() as held:
        with fc.Client(service.url, service.admin) as client:
            client.create("doors", tick="1s", mechanism=EXACT)
        address = ("127.0.0.1", int(service.url.rpartition(":")[2]))
        for _ in range(500):
            held.enter_context(socket.create_connection(address, timeout=5))
        time.sleep(1.5)
        assert service.process.poll() is None
        held.close()
        with fc.Client(service.url, service.admin) as client:
            assert client.add("doors", {"all": 3})
            wait_for(lambda: last_value(client) == 3)
        service.stop()
        assert (b"at most 34 connections" in service.log) == (most == 290)


def test_it_listens_on_an_ipv6_address_and_answers_to_that_name(tmp_path: Path) -> None:
    words = [
        "--state",
        str(tmp_path / "state"),
        "--fence",
        str(tmp_path / "fence"),
        "--host",
        "::1",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "fadecount", "serve", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stderr
        found = re.search(r"http://\[::1\]:(\d+)/", process.stdout.readline().decode())
        assert found
        port, statuses = int(found[1]), []
        for host in (f"[::1]:{port}", "[::1]", "localhost", "::1", f"[::2]:{port}"):
            with socket.create_connection(("::1", port), timeout=20) as connection:
                connection.sendall(
                    f"GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
                )
                statuses.append(int(connection.recv(65536).split(b" ")[1]))
        process.terminate()
        assert (statuses, process.wait(20), process.stderr.read()) == (
            [200, 200, 200, 421, 421],
            0,
            b"",
        )


def test_what_cannot_be_served_is_said_in_one_line(harness: Harness) -> None:
    fence = ["--fence", str(harness.storage.fence)]
    (harness.storage.folder / "damaged").mkdir()
    (harness.storage.folder / "damaged" / "streams.db").write_text("{}")
    for words, expected in (
        (
            ["--state", str(harness.storage.folder / "damaged"), "--port", "0"],
            "file is not a database",
        ),
        (["--state", str(harness.storage.folder), "--port", "0"], "another writer"),
        (
            ["--state", str(harness.storage.folder / "other"), "--port", str(harness.port)],
            "choose another with --port",
        ),
        (["--state", str(harness.storage.folder / "other"), "--port", "99999"], "from 0 to 65535"),
        (["--state", __file__, "--port", "0"], "File exists"),
    ):
        command = [sys.executable, "-m", "fadecount", "serve", *words, *fence]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 1
        assert expected in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_tokens_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ["--state", str(tmp_path)]
    assert main(["token", "create", "--role", "writer", "--stream", "doors", *state]) == 0
    token = capsys.readouterr().out.strip()
    assert main(["token", "list", *state]) == 0
    listed = capsys.readouterr().out
    token_id = token.split("_")[1]
    assert token_id in listed and "writer" in listed and "doors" in listed
    assert token not in listed and token.split("_", 2)[2] not in listed
    for words in (["list"], ["revoke", "x"], ["create", "--role", "admin"]):
        assert main(["token", *words, "--state", __file__]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    for words in (["list"], ["revoke", "x"]):
        assert main(["token", *words, "--state", str(tmp_path / "none")]) == 1
        assert "fadecount: --state must be there, got" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    more = ["--label", "gate 3", "--expires", "90d"]
    assert main(["token", "create", "--role", "reader", *more, *state]) == 0
    assert main(["token", "list", *state]) == 0
    last = next(
        line for line in capsys.readouterr().out.splitlines() if "gate 3" in line
    )  # two tokens of one second
    assert "  until 2" in last and last.endswith("  gate 3")
    for bad in (
        ["--expires", "soon"],
        ["--expires", "200y"],
        ["--label", "\n"],
        ["--stream", "a b"],
    ):
        assert main(["token", "create", "--role", "reader", *bad, *state]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["token", "revoke", token_id, *state]) == 0
    assert main(["token", "revoke", token_id, *state]) == 1
    assert main(["token", "list", *state]) == 0


def test_a_service_without_tokens_says_how_to_make_one(tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state")]
    words = [
        sys.executable,
        "-m",
        "fadecount",
        "serve",
        "--port",
        "0",
        *state,
        "--fence",
        str(tmp_path / "fence"),
    ]
    command = f"fadecount token create --role admin --state {tmp_path / 'state'}"
    for hint in (f"there is no token yet; in another terminal: {command}\n", ""):
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.terminate()
            assert (
                first.startswith("fadecount serves http://127.0.0.1:")
                and process.stdout.read() == hint
            )
        main(["token", "create", "--role", "admin", *state])
