"""The interface as it is written down is the interface that is served."""

from __future__ import annotations

import json

from fadecount.service.routes import READING, WRITING, openapi_document
from tests.service.harness import Harness

DOCUMENT = json.loads(openapi_document().body)


def test_every_route_answers_as_it_is_described(shown: Harness) -> None:
    shown.close_tick()
    for route in (*READING, *WRITING):
        if route.path.endswith("/live"):
            continue
        reply = shown.request(route.method, route.path.replace("{name}", "doors"))
        described = DOCUMENT["paths"][route.path][route.method.lower()]
        assert str(reply.status) in described["responses"], (route.name, reply.status)
        assert reply.status != 404
        needs_token = route.role not in (None, "reader")
        assert (reply.status == 401) == needs_token, route.name


def test_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in DOCUMENT["components"]["schemas"]


def test_an_answer_without_a_body_has_no_media_type() -> None:
    for path in DOCUMENT["paths"].values():
        for described in path.values():
            for status, answer in described["responses"].items():
                assert ("content" in answer) == (status not in ("204", "304")), (path, status)
