"""The description of the interface (OpenAPI 3.1), made from the routes and from the types that
parse and answer."""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import Any

import msgspec

from fadecount.service.answers import Refusal
from fadecount.service.parsing import FigureQuery, parameter_schemas
from fadecount.service.routes import READING, VISITS, WRITING, Route
from fadecount.service.tokens import Role

_TEXT = {"type": "string"}
_REFERENCE = "#/components/schemas/{name}"
_REFUSALS = {
    400: "something in the request is wrong; nothing was done",
    401: "no valid token",
    403: "the token does not allow this",
    404: "there is no such stream, key or path",
    408: "the request took too long to arrive",
    409: "the stream exists with another meaning, has ended, or its name was used",
    410: "the figures asked for were removed",
    413: "the body is too large",
    415: "the media type or encoding is not one of those listed",
    421: "the host name is not served here",
    503: "not now; send it again after Retry-After seconds",
}


@cache
def openapi_document() -> bytes:
    """The whole document."""
    routes = (*READING, *WRITING, *VISITS)
    taken = [each for route in routes for each in (route.body, route.answer)]
    types = dict.fromkeys(each for each in (*taken, Refusal) if isinstance(each, type))
    _, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for component in components.values():
        # from docstrings, which Python keeps with their indentation before 3.13
        component["description"] = inspect.cleandoc(component["description"])
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _described(route)
    about = "Running counts with differential privacy that fades on a published schedule."
    token = {"type": "http", "scheme": "bearer", "description": "fc_<id>_<secret>"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "fadecount", "version": "1", "description": about},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": token}},
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _described(route: Route) -> dict[str, Any]:
    queries = {} if route.query is None else parameter_schemas(route.query)
    parameters: list[dict[str, Any]] = [
        {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    ] * ("{name}" in route.path)
    for where, schemas in (("query", queries), ("header", route.headers)):
        parameters += [
            {"name": name, "in": where, "schema": each} for name, each in schemas.items()
        ]
    described: dict[str, Any] = {
        "summary": inspect.cleandoc(route.handler.__doc__ or "").replace("\n", " ").rstrip("."),
        "operationId": route.name,
        "security": [],
        "parameters": parameters,
        "responses": {str(status): _answer(route) for status in route.statuses},
    }
    if route.role is Role.READER and not isinstance(route.answer, str):
        unchanged = "unchanged since the answer whose entity tag was sent"
        described["responses"]["304"] = {"description": unchanged}
    if route.role:
        reading = route.role is Role.READER
        role = str(route.role) if route.role is Role.ADMIN else f"{route.role}, or admin"
        public = "; none if the service is public" if reading else ""
        described["description"] = f"Needs a token of the role {role}{public}."
        described["security"] = [{"token": []}, {}] if reading else [{"token": []}]
    if route.body is not None:
        content = {"application/json": {"schema": _reference(route.body)}}
        described["requestBody"] = {"required": True, "content": content}
    problem = {"application/problem+json": {"schema": _reference(Refusal)}}
    for status, text in _REFUSALS.items():
        described["responses"][str(status)] = {"description": text, "content": problem}
    return described


def _answer(route: Route) -> dict[str, Any]:
    if isinstance(route.answer, str):
        schema = {"type": "object"} if route.answer == "application/json" else _TEXT
        return {"description": "as the summary says", "content": {route.answer: {"schema": schema}}}
    content: dict[str, Any] = {"application/json": {"schema": _reference(route.answer)}}
    if route.query is not None and issubclass(route.query, FigureQuery):
        content["text/csv"] = {"schema": _TEXT}
    return {"description": inspect.cleandoc(route.answer.__doc__ or ""), "content": content}


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
