"""Every route, every role, every stream: who gets in and who does not."""

from __future__ import annotations

import json

import pytest

from tests.service.harness import Harness

NEW = json.dumps(
    {
        "name": "made",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 1.0, "exponent": 1.0, "delay": 0},
    }
)
EVENT = json.dumps({"events": [{"key": "a"}]})
KEYS = json.dumps({"keys": ["a"]})
STREAM_ROUTES = (
    ("GET", "/v1/streams/{}", None, "read"),
    ("GET", "/v1/streams/{}/figures?per=total", None, "read"),
    ("GET", "/v1/streams/{}/total", None, "read"),
    ("GET", "/v1/streams/{}/so-far", None, "read"),
    ("GET", "/v1/streams/{}/privacy", None, "read"),
    ("GET", "/v1/streams/{}/privacy?age=1h", None, "read"),
    ("POST", "/v1/streams/{}/events", EVENT, "write"),
    ("POST", "/v1/streams/{}/keys", KEYS, "manage"),
)
MAY = {"reader": {"read"}, "writer": {"write"}, "admin": {"read", "write", "manage"}, None: set()}
SUCCESS = {"read": 200, "write": 202, "manage": 200}


def call(harness: Harness, method: str, path: str, body: str | None, token: str | None) -> int:
    headers = {"content_type": "application/json"} if body else {}
    return harness.request(method, path, body, token=token, **headers).status


@pytest.mark.parametrize("public", [False, True])
def test_every_route_role_and_stream(harness: Harness, shown: Harness, public: bool) -> None:
    here = shown if public else harness
    here.create("gates")
    here.close_tick(name="doors")
    here.close_tick(name="gates", count=1)
    wrong: list[str] = []
    for role in (None, "reader", "writer", "admin"):
        for scope in (None,) if role is None else (None, "doors", "gates"):
            token = here.token(role, scope) if role else None
            for method, path, body, action in STREAM_ROUTES:
                for stream in ("doors", "gates", "absent"):
                    inside = action in MAY[role] and scope in (None, stream)
                    open_to_all = public and role is None and action == "read"
                    missing = stream == "absent"
                    expected = (
                        (404 if missing else SUCCESS[action])
                        if inside or open_to_all
                        else 403
                        if role
                        else 401
                    )
                    found = call(here, method, path.format(stream), body, token)
                    if found != expected:
                        wrong.append(
                            f"{role} of {scope}: {method} {path.format(stream)} gave {found}, not"
                            f" {expected}"
                        )
    assert wrong == []


def test_live_needs_the_reader_too(harness: Harness) -> None:
    for role, status in (("writer", 403), (None, 401)):
        token = harness.token(role) if role else None
        assert harness.request("GET", "/v1/streams/doors/live", token=token).status == status


def test_creating_streams(harness: Harness) -> None:
    for role, scope, status in (
        ("reader", None, 403),
        ("writer", None, 403),
        ("admin", "other", 403),
        (None, None, 401),
        ("admin", "made", 201),
        ("admin", None, 200),
    ):
        assert (
            call(harness, "POST", "/v1/streams", NEW, harness.token(role, scope) if role else None)
            == status
        )


def test_a_token_of_one_stream_cannot_name_a_group(harness: Harness) -> None:
    """It would use up the promise of others, and learn whether there is such a group."""

    def create(name: str, token: str, **more: object) -> int:
        body = json.dumps({**json.loads(NEW), "name": name, "group": "riders", **more})
        return call(harness, "POST", "/v1/streams", body, token)

    limited, stated = harness.token("admin", "made"), {"group_loss": {"1h": 500.0}}
    assert create("made", limited) == create("made", limited, **stated) == 403
    assert create("rides", harness.admin, **stated) == 201
    assert create("made", limited) == create("made", limited, **stated) == 403
    assert create("made", harness.admin) == 201
    assert create("made", limited) == 403


def test_deleting_streams(harness: Harness) -> None:
    for role, scope, name, status in (
        ("reader", None, "doors", 403),
        ("writer", "doors", "doors", 403),
        ("admin", "other", "doors", 403),
        ("admin", "other", "absent", 403),
        (None, None, "doors", 401),
        ("admin", None, "absent", 404),
        ("admin", None, "doors?sure=yes", 400),
        ("admin", "doors", "doors", 200),
        ("admin", "doors", "doors", 404),
    ):
        token = harness.token(role, scope) if role else None
        assert call(harness, "DELETE", f"/v1/streams/{name}", None, token) == status


def test_lists_show_what_a_token_may_see(harness: Harness) -> None:
    harness.create("gates")

    def names(token: str) -> list[str]:
        return [
            each["name"]
            for each in harness.request("GET", "/v1/streams", token=token).json()["streams"]
        ]

    assert names(harness.token("reader")) == ["doors", "gates"]
    assert names(harness.token("reader", "gates")) == ["gates"]
    assert names(harness.token("reader", "absent")) == []
    assert call(harness, "GET", "/v1/streams", None, harness.token("writer")) == 403
    assert call(harness, "GET", "/v1/streams", None, None) == 401


def test_metrics_are_for_readers_of_everything(harness: Harness) -> None:
    for role, scope, status in (
        ("reader", None, 200),
        ("admin", None, 200),
        ("reader", "doors", 403),
        ("writer", None, 403),
    ):
        assert call(harness, "GET", "/metrics", None, harness.token(role, scope)) == status
    assert call(harness, "GET", "/metrics", None, None) == 401


def test_health_and_page_need_no_token_and_hold_no_data(harness: Harness) -> None:
    for path in ("/", "/healthz", "/readyz", "/static/main.js", "/v1/openapi.json"):
        reply = harness.request("GET", path)
        assert reply.status == 200
        assert b"doors" not in reply.body


def test_a_revoked_token_is_refused_at_once(harness: Harness) -> None:
    token = harness.token("reader")
    assert call(harness, "GET", "/v1/streams", None, token) == 200
    harness.with_tokens(lambda tokens: tokens.revoke(token.split("_")[1]))
    assert call(harness, "GET", "/v1/streams", None, token) == 401


def test_odd_authorization_headers(harness: Harness) -> None:
    for header in ("", "Bearer", "Bearer ", "Basic abc", "Bearer fc_a_b", "Bearer " + "x" * 5000):
        assert harness.request("GET", "/v1/streams", authorization=header).status == 401


def test_no_other_page_can_use_it(harness: Harness) -> None:
    """What a browser sends for a foreign form has no token and no JSON type; the answers allow no
    other origin."""
    evil = "https://evil.example"
    form = harness.request(
        "POST", "/v1/streams", "name=made", content_type="text/plain", origin=evil
    )
    assert form.status == 401 and "access-control-allow-origin" not in form.headers
    typed = harness.request(
        "POST", "/v1/streams", NEW, token=harness.admin, content_type="text/plain"
    )
    assert typed.status == 415
    assert harness.request("OPTIONS", "/v1/streams", origin=evil).status == 405
