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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

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


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(words: list[str], folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = {"PATH": PATH, "HOME": str(folder), **variables}
    child = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
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
    with running([*program, "serve"], tmp_path, **chosen) as child:
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


Connect = Callable[[], http.client.HTTPConnection]


@contextmanager
def nginx(program: str, folder: Path, upstream: int) -> Iterator[Connect]:
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
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}"
        f" http {{ access_log off; {temporary} include {folder}/site.conf; }}",
        encoding="utf-8",
    )
    words = [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    subprocess.run([*words, "-t"], check=True, capture_output=True)
    unverified = ssl._create_unverified_context()  # noqa: S323 - a certificate of a minute ago
    with running(words, folder):
        yield lambda: http.client.HTTPSConnection(
            "127.0.0.1", secure, timeout=LONG_SECONDS, context=unverified
        )


@contextmanager
def caddy(program: str, folder: Path, upstream: int) -> Iterator[Connect]:
    port = free_port()
    site = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site, encoding="utf-8")
    words = [program, "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    chosen = {
        "FADECOUNT_NAME": f"http://{NAME}:{port}",
        "FADECOUNT_UPSTREAM": f"127.0.0.1:{upstream}",
    }
    with running(words, folder, XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder), **chosen):
        yield lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_SECONDS)


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


def wait_for(connect: Connect) -> None:
    end = time.monotonic() + LONG_SECONDS
    while time.monotonic() < end:
        try:
            if ask(connect, "/readyz")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the proxy did not answer")


@pytest.mark.parametrize("proxy", [nginx, caddy], ids=["nginx", "caddy"])
def test_the_service_behind_a_proxy(
    proxy: object, service: tuple[int, str], tmp_path: Path
) -> None:
    name = "nginx" if proxy is nginx else "caddy"
    program = shutil.which(name, path=PATH)
    if program is None:
        pytest.skip(f"{name} is not installed: the service is not tested behind it")
    port, token = service
    with (nginx if proxy is nginx else caddy)(program, tmp_path, port) as connect:
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
