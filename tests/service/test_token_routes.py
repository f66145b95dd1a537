"""Tokens over HTTP: for admins of all streams, shown once, recorded in the audit log."""

from __future__ import annotations

import pytest

from fadecount.service.tokens import Role
from fadecount.streams.audit_log import Act, AuditLog
from tests.service.harness import Harness
from tests.streams.backends import entries_of


def test_a_token_is_made_listed_used_and_revoked(harness: Harness) -> None:
    wanted = {
        "role": "reader",
        "stream": "doors",
        "label": "board",
        "expires": "90d",
    }
    made = harness.post("/v1/tokens", wanted)
    assert made.status == 201 and made.headers["cache-control"] == "no-store"
    token, about = made.json()["token"], made.json()["about"]
    listed = harness.request("GET", "/v1/tokens", token=harness.admin)
    assert about in listed.json()["tokens"] and token.split("_", 2)[2].encode() not in listed.body
    assert harness.request("GET", "/v1/streams/doors", token=token).status == 200
    assert (about["role"], about["stream"], about["label"]) == ("reader", "doors", "board")
    grant = harness.grant_of(token)
    assert grant.expires == grant.created + 90 * 86400
    assert harness.request("DELETE", f"/v1/tokens/{about['id']}", token=harness.admin).json() == {
        "id": about["id"]
    }
    assert harness.request("GET", "/v1/streams/doors", token=token).status == 401
    assert harness.request("DELETE", f"/v1/tokens/{about['id']}", token=harness.admin).status == 404
    own = harness.own
    acts = [
        (each.act, each.actor, each.object) for each in entries_of(AuditLog(harness.storage.folder))
    ]
    assert (Act.TOKEN_CREATED, own.shown, about["id"]) in acts and acts[-1] == (
        Act.TOKEN_REVOKED,
        own.shown,
        about["id"],
    )


def test_only_an_admin_of_all_streams_may(harness: Harness) -> None:
    for role, stream in (("reader", None), ("writer", None), ("admin", "doors"), (None, None)):
        token = harness.token(role, stream) if role else None
        expected = 403 if role else 401
        body = '{"role": "reader"}'
        assert harness.request("GET", "/v1/tokens", token=token).status == expected
        assert (
            harness.request(
                "POST", "/v1/tokens", body, token=token, content_type="application/json"
            ).status
            == expected
        )
        assert harness.request("DELETE", "/v1/tokens/x", token=token).status == expected


def test_no_other_page_can_use_it(harness: Harness) -> None:
    """What a browser sends for a foreign form has no token and no JSON type; the answers allow no
    other origin."""
    form = harness.request(
        "POST", "/v1/tokens", "role=admin", content_type="text/plain", origin="https://evil.example"
    )
    assert form.status == 401 and "access-control-allow-origin" not in form.headers
    typed = harness.request(
        "POST", "/v1/tokens", '{"role": "admin"}', token=harness.admin, content_type="text/plain"
    )
    assert typed.status == 415
    assert harness.request("OPTIONS", "/v1/tokens", origin="https://evil.example").status == 405
    assert len(harness.grants()) == 1


def test_the_token_of_the_request_is_not_revoked(harness: Harness) -> None:
    own = harness.admin.split("_")[1]
    assert harness.request("DELETE", f"/v1/tokens/{own}", token=harness.admin).status == 409
    other, _ = harness.new_token(Role.ADMIN)
    assert harness.request("DELETE", f"/v1/tokens/{own}", token=other).status == 200


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"role": "root"},
        {"role": "reader", "label": "x" * 101},
        {"role": "reader", "label": "two\nlines"},
        {"role": "reader", "expires": "soon"},
        {"role": "reader", "expires": "200y"},
        {"role": "reader", "rate": 0},
        {"role": "reader", "stream": "a\nb"},
        {"role": "reader", "secret": "mine"},
    ],
)
def test_bad_wishes_are_refused_without_a_trace(
    harness: Harness, wanted: dict[str, object]
) -> None:
    reply = harness.post("/v1/tokens", wanted)
    assert reply.status == 400 and b"200y" not in reply.body and b"lines" not in reply.body
    assert len(harness.grants()) == 1


def test_a_file_that_cannot_be_written_refuses(harness: Harness) -> None:
    log = harness.storage.folder / "fadecount-audit.jsonl"
    log.unlink()
    log.mkdir()
    assert harness.post("/v1/tokens", {"role": "reader"}).status == 503
    assert len(harness.grants()) == 1
