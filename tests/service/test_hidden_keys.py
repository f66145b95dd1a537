"""Streams over HTTP whose keys appear by themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

import fadecount as fc
from fadecount.service.client import ServiceError
from fadecount.streams import embargo, inputs
from tests.service.harness import Harness, Reply

DISCOVERY = fc.Discovery("1d", ((0, 4096.0),), 1e-9)
"""Keys of two persons appear, with exact counts."""
DAYS = fc.Blocks(fc.Level(1, 4096.0), fc.Level(24, 4096.0))
PLANNED = {"kind": "blocks", "levels": [{"length": 1, "epsilon": 0.5}]}
UNIT: dict[str, str | int] = {"of": "person", "per": "1d"}


def read(harness: Harness, path: str) -> Reply:
    return harness.request("GET", f"/v1/streams/pages/{path}", token=harness.admin)


def send(harness: Harness, key: str, person: str) -> tuple[int, Any, Any]:
    """Send an event; all that its writer sees."""
    sent = json.dumps({"person": person, "events": [{"key": key}]})
    path, kind = "/v1/streams/pages/events", "application/json"
    reply = harness.request("POST", path, sent, token=harness.admin, content_type=kind)
    shown = {name: text for name, text in reply.headers.items() if name != "date"}
    return reply.status, reply.body, tuple(sorted(shown.items()))


def test_undeclared_keys_are_taken_alike_and_appear(harness: Harness) -> None:
    with harness.client() as client:
        assert client.create(
            "pages", tick="1h", mechanism=DAYS, keys=["/"], unit=UNIT, discovery=DISCOVERY
        )
        answers = {
            send(harness, key, person)
            for key, person in (("/", "a"), ("/new", "b"), ("/new", "c"), ("/secret", "d"))
        }
        assert len(answers) == 1
        unseen = harness.request("GET", "/v1/streams/pages/figures?key=/never", token=harness.admin)
        hidden = harness.request(
            "GET", "/v1/streams/pages/figures?key=/secret", token=harness.admin
        )
        assert (unseen.status, unseen.body) == (hidden.status, hidden.body)
        harness.close_tick(48, name="pages")
        assert b"/secret" not in read(harness, "top").body
        found = client.create(
            "pages", tick="1h", mechanism=DAYS, keys=["/"], unit=UNIT, discovery=DISCOVERY
        )
        assert not found
    rows = read(harness, "figures.csv").body
    assert b"/new,2,2,2," in rows and b"/secret" not in rows


def test_keys_appear_where_none_is_declared(harness: Harness) -> None:
    with harness.client() as client:
        client.create("pages", tick="1h", mechanism=DAYS, unit=UNIT, discovery=DISCOVERY)
        assert client.stream("pages").keys == ()
    for person in "bc":
        send(harness, "/new", person)
    harness.close_tick(48, name="pages")
    top = read(harness, "top?per=1d").json()
    assert top["start"] == "2023-11-15T00:00:00Z" and top["keys"] == []
    rows = read(harness, "figures.csv").body
    assert b"/new,2,2,2," in rows
    empty = ("figures", "so-far", "badge.svg", "badge.json", "chart.svg")
    assert {read(harness, route).status for route in empty} == {200}


def test_too_many_keys_stop_their_stream_only(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "JOIN_ENTRIES", 4)
    monkeypatch.setattr(embargo, "MOST_KEYS", 2)
    with harness.client() as client:
        client.create("pages", tick="1h", mechanism=DAYS, unit=UNIT, discovery=DISCOVERY)
        answers = [send(harness, f"/{each}", f"person {each}")[0] for each in range(20)]
        assert answers == sorted(answers) and {*answers} == {answers[0], 503} and answers[0] < 300
        refused = {send(harness, key, "x") for key in ("/0", "/new")}
        assert [status for status, *_ in refused] == [503]
        assert client.stream("pages").state == "refused"
        harness.close_tick(3)
        client.add("doors", {"a": 1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": {"of": "event"}},
        {"unit": {"of": "person", "per": "1d", "keys": 2}},
        {"discovery": {"per": "1d"}},
        {"discovery": {"per": "1d", "stages": [[0, "1.5"]], "delta": 1e-9, "keys": 1}},
        {"other": "absent"},
        {"discovery": None, "other": "/"},
        {"mechanism": {**PLANNED, "plan": {"request": {"discover": ["1d", 1.0]}}}, "other": "/"},
    ],
)
def test_what_would_break_the_promise_is_refused(
    harness: Harness, wrong: dict[str, object]
) -> None:
    fields = {
        "name": "pages",
        "tick": "1h",
        "mechanism": PLANNED,
        "keys": ["/"],
        "unit": UNIT,
        "discovery": {"per": "1d", "stages": [[0, 1.0]], "delta": 1e-9, "keys": 1},
    }
    body = json.dumps({**fields, **wrong})
    reply = harness.request(
        "POST", "/v1/streams", body, token=harness.admin, content_type="application/json"
    )
    assert reply.status == 400 and reply.json()["code"] == "bad_discovery"
    with harness.client() as client, pytest.raises(ServiceError):
        client.stream("pages")
