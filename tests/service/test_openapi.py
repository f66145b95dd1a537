"""The interface as it is written down is the interface that is served."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request

from fadecount.service.openapi import openapi_document
from fadecount.service.routes import OPERATIONS, PAGES, Router
from tests.service.harness import Harness

DOCUMENT = json.loads(openapi_document())


def test_every_route_answers_as_it_is_described(shown: Harness) -> None:
    shown.close_tick()
    for operation in OPERATIONS:
        if operation.path.endswith("/live"):
            continue
        reply = shown.request(operation.method, operation.path.replace("{name}", "doors"))
        described = DOCUMENT["paths"][operation.path][operation.method.lower()]
        assert str(reply.status) in described["responses"], (operation.name, reply.status)
        assert reply.status != 404
        needs_token = operation.role not in (None, "reader")
        assert (reply.status == 401) == needs_token, operation.name


def test_every_route_has_a_handler_and_every_handler_a_route() -> None:
    async def answer(_: Request) -> None: ...

    names = [*(each.name for each in OPERATIONS), *(name for name, _, _ in PAGES)]
    assert len(set(names)) == len(names)
    handlers = dict.fromkeys(names, answer)
    Router(handlers)
    with pytest.raises(KeyError, match="handlers of no route: other"):
        Router({**handlers, "other": answer})
    with pytest.raises(KeyError, match="get_page"):
        Router({name: answer for name in names if name != "get_page"})


def test_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in DOCUMENT["components"]["schemas"]
