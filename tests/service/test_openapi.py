"""The interface as it is written down is the interface that is served."""

from __future__ import annotations

import json

from fadecount.service.limits import Limits
from fadecount.service.operations import static_files
from fadecount.service.read_routes import MOST_ROWS
from fadecount.service.write_routes import LONGEST_ID, MOST_KEYS
from tests.service.harness import Harness

DOCUMENT = json.loads(static_files()["openapi.json"][0])
UNLISTED = {"/", "/static/{file}"}
WRITING = {("post", "/v1/streams"), ("post", "/v1/streams/{name}/keys"), ("post", "/v1/streams/{name}/events")}


def documented() -> set[tuple[str, str]]:
    return {(method, path) for path, item in DOCUMENT["paths"].items() for method in item if method in ("get", "post")}


def test_every_route_is_documented_and_every_documented_route_exists(shown: Harness) -> None:
    served = {("get", route.path) for route in shown.service.routes if route.path not in UNLISTED}
    assert documented() == served | WRITING
    shown.close_tick()
    for method, path in documented():
        if path.endswith("/live"):
            continue
        reply = shown.request(method.upper(), path.replace("{name}", "doors"))
        known = set(DOCUMENT["paths"][path][method]["responses"])
        assert str(reply.status) in known, (method, path, reply.status)
        assert reply.status != 404


def test_bounds_are_those_of_the_code() -> None:
    events = DOCUMENT["paths"]["/v1/streams/{name}/events"]["post"]
    assert (
        events["requestBody"]["content"]["application/json"]["schema"]["properties"]["events"]["maxItems"]
        == Limits().events_per_request
    )
    assert events["parameters"][0]["schema"]["maxLength"] == LONGEST_ID
    assert DOCUMENT["components"]["schemas"]["Keys"]["maxItems"] == MOST_KEYS
    limit = next(
        each for each in DOCUMENT["paths"]["/v1/streams/{name}/releases"]["get"]["parameters"] if each["name"] == "limit"
    )
    assert limit["schema"]["maximum"] == MOST_ROWS


def test_references_lead_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in DOCUMENT["components"]["schemas"]
