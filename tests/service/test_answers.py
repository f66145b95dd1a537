"""What every answer carries, and what hostile requests get: 4xx, nothing of what was sent, never a
traceback."""

from __future__ import annotations

import socket

from fadecount.service.http import CONTENT_POLICY, SECURITY_HEADERS
from tests.service.harness import Harness
from tests.service.hostile import CANARY, HOSTILE_BODIES

PATHS = (
    "/",
    "/static/main.js",
    "/healthz",
    "/v1/streams",
    "/v1/streams/doors",
    "/v1/streams/doors/figures?per=total",
    "/nothing",
    "/metrics",
)
ODD_QUERIES = (
    "limit=1",
    "cursor=%D9%A1",
    "cursor=1&cursor=2",
    "key=%ff",
    "since=2026-01-01",
    "since=9999999-01-01T00:00:00Z",
    "since=0001-01-01T00:00:00Z",
    "until=9999-12-31T23:59:59Z",
    "cursor=1.1",
    "cursor=9999999999999999999",
    "a=" + "x" * 3000,
    "&".join(f"a{at}=1" for at in range(40)),
    f"since={CANARY}",
    f"cursor={CANARY}",
    f"{CANARY}=1",
)
ODD_PRIVACY = (
    "age=",
    "age=x",
    "age=0s",
    "age=1h&age=1h",
    "time=2026-01-01T00:00:00Z",
    "age=" + "9" * 50 + "y",
    f"age={CANARY}",
)
ODD_PATHS = (
    "/v1/streams/",
    "/v1/streams/a/b/c",
    "/v1/streams/%2e%2e%2f",
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/",
    "/v1/streams/" + "x" * 3000,
    "/v1/streams/%00",
    "/v1/streams/%ff",
    "//",
    "/v1/streams/doors/",
    "/V1/streams",
    f"/{CANARY}",
    f"/v1/streams/doors/figures?per=total&key={CANARY}",
    f"/v1/streams/{CANARY}",
)
GRADUAL = {"kind": "gradual", "exponent": 1, "delay": 0}
ODD_STREAMS: tuple[dict[str, object], ...] = (
    {"tick": "0s"},
    {"tick": "x"},
    {"tick": 60},
    {"tick": True},
    {"name": "a/b"},
    {"name": ""},
    {"name": ["a"]},
    {"zone": "Mars"},
    {"keys": []},
    {"keys": ["a", "a"]},
    {"keys": [1]},
    {"keys": "a"},
    {"keys": ["\u0000"]},
    {"keys": ["x" * 500]},
    {"mechanism": 1},
    {"mechanism": {"kind": "none"}},
    {"mechanism": {"kind": "gradual"}},
    {"mechanism": {**GRADUAL, "epsilon": -1}},
    {"mechanism": {**GRADUAL, "epsilon": True}},
    {"other": 1},
    {"mechanism": {"kind": "designed", "budgets": [[[1]]]}},
    {"mechanism": {"kind": ["gradual"]}},
)


def test_security_headers_are_on_every_answer(shown: Harness) -> None:
    for path in PATHS:
        for method in ("GET", "POST", "OPTIONS", "DELETE"):
            reply = shown.request(method, path)
            for name, value in SECURITY_HEADERS:
                assert reply.headers[name.decode()] == value.decode(), (method, path)
            assert "server" not in reply.headers
            # any page may read what is public, and nothing else
            shared = [name for name in reply.headers if name.startswith("access-control")]
            is_read = method == "GET" and reply.status == 200 and "etag" in reply.headers
            assert shared == ["access-control-allow-origin"] * is_read, (method, path)


def test_the_content_policy_lets_nothing_foreign_in() -> None:
    assert "default-src 'none'" in CONTENT_POLICY
    assert (
        "unsafe" not in CONTENT_POLICY
        and "http" not in CONTENT_POLICY
        and "*" not in CONTENT_POLICY
    )


def test_foreign_hosts_are_not_answered(shown: Harness) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1:1", ""):
        reply = shown.request("GET", "/v1/streams", host=host)
        assert reply.status in (400, 421), host
        assert b"doors" not in reply.body


def test_hostile_bodies_get_a_4xx_and_no_echo(harness: Harness) -> None:
    for body in HOSTILE_BODIES:
        for path in ("/v1/streams/doors/events", "/v1/streams", "/v1/streams/doors/keys"):
            reply = harness.request(
                "POST", path, body, token=harness.admin, content_type="application/json"
            )
            assert 400 <= reply.status < 500, (path, body[:40])
            assert CANARY.encode() not in reply.body + str(reply.headers).encode()
    harness.close_tick()
    with harness.client() as client:
        assert [each.value for each in client.total("doors")] == [0, 0]


def test_odd_queries_and_paths_get_a_4xx_and_no_echo(shown: Harness) -> None:
    shown.close_tick()
    cases = [(f"/v1/streams/doors/figures?per=total&{query}", 400) for query in ODD_QUERIES]
    cases += [(f"/v1/streams/doors/privacy?{query}", 400) for query in ODD_PRIVACY]
    cases += [(path, 404) for path in ODD_PATHS]
    for path, status in cases:
        reply = shown.request("GET", path)
        assert reply.status == status, path[:80]
        assert CANARY.encode() not in reply.body + str(reply.headers).encode()


def test_wrong_methods(shown: Harness) -> None:
    for method, path, allowed in (
        ("PUT", "/v1/streams/doors", "GET"),
        ("POST", "/v1/streams/doors", "DELETE"),
        ("PUT", "/v1/streams", "POST"),
        ("GET", "/v1/streams/doors/events", "POST"),
        ("POST", "/healthz", "GET"),
    ):
        reply = shown.request(method, path)
        assert reply.status == 405
        assert allowed in reply.headers["allow"]


def test_wrong_content_types_and_idempotency_keys(harness: Harness) -> None:
    for media_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ):
        reply = harness.request(
            "POST", "/v1/streams/doors/events", b"{}", token=harness.admin, content_type=media_type
        )
        assert reply.status == 415
    for key in ("", "a\tb", "x" * 201, "é"):
        reply = harness.post(
            "/v1/streams/doors/events", {"events": [{"key": "a"}]}, idempotency_key=key
        )
        assert reply.status == 400, key


def test_streams_that_cannot_be(harness: Harness) -> None:
    good: dict[str, object] = {
        "name": "new",
        "tick": "1m",
        "mechanism": {"kind": "linear", "epsilon": 1.0},
    }
    for change in ODD_STREAMS:
        assert harness.post("/v1/streams", {**good, **change}).status == 400, change
    assert harness.post("/v1/streams", good).status == 201


def test_what_two_programs_could_read_differently_is_refused(harness: Harness) -> None:
    """Two headers where one is meant, and a slash that is one only after decoding."""
    good = f"Authorization: Bearer {harness.admin}"
    for lines in (
        (good, "Authorization: Bearer fc_a_b"),
        ("Authorization: Bearer fc_a_b", good),
        (good, good),
    ):
        assert status_of(harness, "GET /v1/streams HTTP/1.1", *lines) == 400
    assert status_of(harness, "GET /v1/streams HTTP/1.1", good) == 200
    assert status_of(harness, "GET /v1/streams%2Fdoors HTTP/1.1", good) == 404
    here = f"127.0.0.1:{harness.port}"
    for other in (
        here,
        "evil.example",
        "127.0.0.1",
        f"evil@{here}",
        f"{here}@evil.example",
        f"{here}:80",
        "evil.example:80",
    ):
        assert status_of(harness, f"GET http://{other}/v1/streams HTTP/1.1", good) == 400, other
    for target in (
        "*",
        "evil.example:443",
        "?v1/streams",
        "v1/streams",
        "//evil.example/v1/streams",
        f"ftp://{here}/v1/streams",
    ):
        assert status_of(harness, f"GET {target} HTTP/1.1", good) in (400, 404), target
    assert status_of(harness, "GET /v1/streams#/v1/streams/doors HTTP/1.1", good) == 400


def status_of(harness: Harness, *lines: str) -> int:
    with socket.create_connection(("127.0.0.1", harness.port), timeout=10) as connection:
        whole = [*lines, f"Host: 127.0.0.1:{harness.port}", "Connection: close", "", ""]
        connection.sendall("\r\n".join(whole).encode())
        return int(connection.recv(65536).split(b" ")[1])
