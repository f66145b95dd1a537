"""The interface as it is written down is the interface that is served."""

from __future__ import annotations

import json
from pathlib import Path

from fadecount.service.openapi import OPERATIONS, openapi_document
from tests.service.harness import Harness

DOCUMENT = json.loads(openapi_document())
UNLISTED = {"/", "/admin", "/static/{file}"}


def test_every_route_is_documented_and_every_documented_route_exists(shown: Harness) -> None:
    served = {
        (method.lower(), route.path)
        for route in shown.service.routes
        for method in route.methods or ()
        if method != "HEAD" and route.path not in UNLISTED
    }
    assert set(OPERATIONS) == served
    shown.close_tick()
    for method, path in OPERATIONS:
        if path.endswith("/live"):
            continue
        reply = shown.request(method.upper(), path.replace("{name}", "doors"))
        known = set(DOCUMENT["paths"][path][method]["responses"])
        assert str(reply.status) in known, (method, path, reply.status)
        assert reply.status != 404


def test_the_file_in_docs_is_the_generated_one() -> None:
    written = (Path(__file__).parents[2] / "docs" / "openapi.json").read_bytes()
    assert written == openapi_document(), "run make docs"


def test_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in DOCUMENT["components"]["schemas"]
