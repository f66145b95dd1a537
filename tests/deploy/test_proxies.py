"""A real proxy in front of a real service, with the files of deploy/: answers, live events, and
what stays inside."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from glob import glob
from pathlib import Path
from typing import IO, Any, Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.docs.pages import ROOT

NAME = "counts.example.org"
UNPACKED = ROOT / "out" / "debian" / "usr"
PATH = (
    f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:{UNPACKED / 'sbin'}:{UNPACKED / 'bin'}"
)
LONG_SECONDS = 120.0
VISITOR, AGENT, REFERER = "127.7.0.41", "Curious/41", "https://example.org/diagnosis"
EVENT = '{"n": "pageview", "u": "https://example.org/therapy"}'
MOST_OPEN = 64


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(
    words: list[str],
    folder: Path,
    variables: Mapping[str, str],
    output: int | IO[bytes] = subprocess.PIPE,
) -> Iterator[subprocess.Popen[str]]:
    environment = {"PATH": PATH, "HOME": str(folder), **variables}
    child = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.communicate(timeout=LONG_SECONDS)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """The port of a service that is set up as in the container, and the token of an
    administrator."""
    places = {
        "FADECOUNT_STATE": str(tmp_path / "state"),
        "FADECOUNT_FENCE": str(tmp_path / "fence"),
    }
    program = [sys.executable, "-m", "fadecount"]
    made = subprocess.run(
        [*program, "token", "create", "--role", "admin"],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    chosen = {
        **places,
        "FADECOUNT_HOST": "0.0.0.0",  # noqa: S104
        "FADECOUNT_PORT": "0",
        "FADECOUNT_ALLOW_HOST": f"{NAME},localhost",
    }
    with running([*program, "serve"], tmp_path, chosen) as child:
        assert child.stdout is not None
        found = next(
            found for line in child.stdout if (found := re.search(r"http://[^:]+:(\d+)", line))
        )
        yield int(found[1]), made.stdout.strip()


def certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "privkey.pem").write_bytes(secret)


class Connect(Protocol):
    def __call__(
        self, *, tls: bool = True, address: str = VISITOR
    ) -> http.client.HTTPConnection: ...


def program_of(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"{name} is not installed: the service is not tested behind it")
    return found


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[Connect]:
    """With the logs that packages of nginx turn on for every site."""
    program = program_of("nginx")
    certificate(folder)
    plain, secure = free_port(), free_port()
    site = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    for before, after in (
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{secure} ssl"),
        (f"/etc/letsencrypt/live/{NAME}", str(folder)),
        ("http://127.0.0.1:8000", f"http://127.0.0.1:{upstream}"),
    ):
        assert before in site
        site = site.replace(before, after)
    (folder / "site.conf").write_text(site, encoding="utf-8")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""  # a folder of a test is only its user's
    logs = f"access_log {folder}/access.log; error_log {folder}/error.log info;"
    (folder / "nginx.conf").write_text(
        f"daemon off; {user} pid {folder}/pid; error_log stderr; events {{}}"
        f" http {{ {logs} {temporary} include {folder}/site.conf; }}",
        encoding="utf-8",
    )
    words = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    subprocess.run([*words, "-t"], check=True, capture_output=True)
    unverified = ssl._create_unverified_context()  # noqa: S323 - a certificate of a minute ago

    def connect(*, tls: bool = True, address: str = VISITOR) -> http.client.HTTPConnection:
        where: dict[str, Any] = {"timeout": LONG_SECONDS, "source_address": (address, 0)}
        if not tls:
            return http.client.HTTPConnection("127.0.0.1", plain, **where)
        return http.client.HTTPSConnection("127.0.0.1", secure, context=unverified, **where)

    with (folder / "output").open("wb") as output, running(words, folder, {}, output):
        yield connect


@contextmanager
def caddy(folder: Path, upstream: int) -> Iterator[Connect]:
    """Without TLS: it would ask for a real certificate."""
    program, port = program_of("caddy"), free_port()
    site = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    assert site.count("\n{\n") == 1
    site = site.replace("\n{\n", "\n{\n\tadmin off\n")
    (folder / "Caddyfile").write_text(site, encoding="utf-8")
    words = [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    chosen = {
        "FADECOUNT_NAME": f"http://{NAME}:{port}",
        "FADECOUNT_UPSTREAM": f"127.0.0.1:{upstream}",
    }
    chosen |= {"XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (folder / "output").open("wb") as output, running(words, folder, chosen, output):
        yield lambda tls=True, address=VISITOR: http.client.HTTPConnection(
            "127.0.0.1", port, timeout=LONG_SECONDS, source_address=(address, 0)
        )


def ask(
    connect: Connect, path: str, token: str | None = None, body: object = None
) -> tuple[int, bytes]:
    connection = connect()
    headers = {"Host": NAME, **({"Authorization": f"Bearer {token}"} if token else {})}
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection.request(
        "GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers
    )
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def wait_for(connect: Connect, path: str = "/readyz", status: int = 200) -> None:
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        try:
            if ask(connect, path)[0] == status:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the proxy did not answer")


Proxy = Callable[[Path, int], AbstractContextManager[Connect]]


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_the_service_behind_a_proxy(proxy: Proxy, service: tuple[int, str], tmp_path: Path) -> None:
    port, token = service
    with proxy(tmp_path, port) as connect:
        wait_for(connect)
        status, page = ask(connect, "/")
        assert (status, b"<html" in page) == (200, True)
        assert ask(connect, "/metrics", token)[0] == 404
        assert ask(connect, "/v1/streams")[0] == 401
        stream = {
            "name": "visits",
            "tick": "1s",
            "keys": ["all"],
            "mechanism": {"kind": "gradual", "epsilon": 1.0},
        }
        assert ask(connect, "/v1/streams", token, stream)[0] == 201
        connection = connect()
        connection.request(
            "GET",
            "/v1/streams/visits/live",
            headers={"Host": NAME, "Authorization": f"Bearer {token}"},
        )
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        while line := answer.readline():
            if line.startswith(b"data:"):
                break
        connection.close()
        assert line, "the connection ended without a live event"


# What a proxy keeps
# ------------------------------------------------------------------------------------------------
def kept(folder: Path) -> list[str]:
    """What the files below a folder hold of the visits: logs, and what waits on disk, also in files
    that have no name any more."""
    secrets = [VISITOR, AGENT, REFERER, "therapy", "/api/event"]
    texts = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert str(folder / "output") in texts
    for opened in map(Path, glob("/proc/[0-9]*/fd/*")):  # noqa: PTH207 - processes end meanwhile
        with suppress(OSError):
            name = str(opened.readlink())
            if name.startswith(str(folder)):
                texts[name] = opened.read_bytes()
    return [f"{name}: {each}" for name in texts for each in secrets if each.encode() in texts[name]]


def visit(connection: http.client.HTTPConnection, body: bytes | list[bytes]) -> int:
    headers = {"Host": NAME, "User-Agent": AGENT, "Referer": REFERER}
    connection.request("POST", "/api/event", body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize("proxy", [nginx, caddy])
def test_a_proxy_keeps_nothing_of_a_visit(proxy: Proxy, tmp_path: Path) -> None:
    """Neither address, agent and referer nor the event: not when the service fails, not beyond a
    limit, not over plain HTTP, and not while a large body waits."""
    event, batch, most = (EVENT.encode() * times for times in (1, 1500, 2**20 // len(EVENT)))
    parts = [most[at : at + 999] for at in range(0, len(most), 999)]  # of a length not said before
    with (
        socket.create_server(("127.0.0.1", 0)) as upstream,
        proxy(tmp_path, upstream.getsockname()[1]) as connect,
        ThreadPoolExecutor(1) as visitor,
    ):
        wait_for(connect, "/metrics", 404)
        upstream.settimeout(LONG_SECONDS)
        for body in (event, batch, most, parts):
            with closing(connect()) as connection:
                answered = visitor.submit(visit, connection, body)
                with upstream.accept()[0] as forwarded:
                    left = len(most if body is parts else body)
                    while left > 0:
                        left -= len(received := forwarded.recv(1 << 16))
                        assert received
                    assert kept(tmp_path) == [], "while the service has not answered"
                assert answered.result(LONG_SECONDS) == 502, "it ended instead"
        upstream.close()
        large = b"x" * (1 << 20) + event
        for body, status, tls in ((event, 502, True), (large, 413, True), (event, 301, False)):
            if proxy is nginx or (body is event and tls):
                with closing(connect(tls=tls)) as connection:
                    assert visit(connection, body) == status
        if proxy is nginx:
            with closing(connect()) as connection:
                assert 503 in [visit(connection, event) for _ in range(1000)], "the limit"
    assert kept(tmp_path) == []


def test_nginx_limits_how_much_one_address_keeps_open(tmp_path: Path) -> None:
    """Others still get through: nobody alone can take all the readers of live events."""
    live = "/v1/streams/visits/live"
    with (
        socket.create_server(("127.0.0.1", 0)) as upstream,
        nginx(tmp_path, upstream.getsockname()[1]) as connect,
        ExitStack() as reading,
    ):
        wait_for(connect, "/metrics", 404)
        upstream.settimeout(LONG_SECONDS)
        for _ in range(MOST_OPEN):
            connection = reading.enter_context(closing(connect()))
            connection.request("GET", live, headers={"Host": NAME})
            reading.enter_context(upstream.accept()[0])
        assert ask(connect, live)[0] == 503
        connection = reading.enter_context(closing(connect(address="127.7.0.42")))
        connection.request("GET", live, headers={"Host": NAME})
        reading.enter_context(upstream.accept()[0])
