"""The audit log of a running service: which token did what, and never a count or a secret."""

from __future__ import annotations

import json

from fadecount.streams.audit_log import FILE_NAME, Act, AuditLog
from tests.service.harness import Harness
from tests.streams.backends import entries_of


def test_the_log_names_the_token_and_holds_no_counts_keys_or_secrets(harness: Harness) -> None:
    token = harness.token("admin", "doors")
    with harness.client(token) as client:
        client.declare("doors", ["hidden-key"])
        client.declare("doors", ["hidden-key"])  # changes nothing, so it is no act
        client.add("doors", {"a": 918_273})
    harness.close_tick()
    log = AuditLog(harness.storage.folder)
    own, other = harness.own, harness.grant_of(token)
    assert own and other
    assert [(each.act, each.actor.partition(" ")[0], each.object) for each in entries_of(log)] == [
        (Act.TOKEN_CREATED, "user", own.id),
        (Act.STREAM_CREATED, "token", "doors"),
        (Act.TOKEN_CREATED, "user", other.id),
        (Act.KEYS_DECLARED, "token", "doors"),
    ]
    assert [each.actor for each in entries_of(log) if each.actor.startswith("token")] == [
        own.shown,
        other.shown,
    ]
    text = (harness.storage.folder / FILE_NAME).read_text()
    assert not any(
        secret in text
        for secret in ("918273", "hidden-key", token, token.split("_", 2)[2], harness.admin)
    )


def test_without_its_log_the_service_refuses_acts_and_still_counts(harness: Harness) -> None:
    path = harness.storage.folder / FILE_NAME
    path.unlink()
    path.mkdir()
    answer = harness.post("/v1/streams/doors/keys", {"keys": ["c"]})
    assert (answer.status, json.loads(answer.body)["code"]) == (
        503,
        "unavailable",
    ) and "audit log" in answer.json()["detail"]
    new = {
        "name": "more",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 0.1, "exponent": 1.0, "delay": 0},
    }
    assert harness.post("/v1/streams", new).status == 503
    assert harness.post("/v1/streams/doors/events", {"events": [{"key": "a"}]}).status == 202
    path.rmdir()
    assert harness.post("/v1/streams/doors/keys", {"keys": ["c"]}).status == 200
    assert harness.post("/v1/streams", new).status == 201
