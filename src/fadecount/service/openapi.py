"""The description of the interface (OpenAPI 3.1), made from the routes and from the types that
parse and answer."""

from __future__ import annotations

import inspect
import json
from functools import cache
from typing import Any

import msgspec

from fadecount.service.answers import ProblemAnswer
from fadecount.service.routes import OPERATIONS, TEXT, Operation

_REFERENCE = "#/components/schemas/{name}"
_REFUSALS = {
    400: "something in the request is wrong; nothing was done",
    401: "no valid token",
    403: "the token does not allow this",
    404: "there is no such stream, key, token or path",
    408: "the request took too long to arrive",
    409: (
        "the stream exists with another meaning, has ended, or its name was used; or the token is"
        " the request's own"
    ),
    410: "the releases asked for were removed",
    413: "the body is too large",
    415: "the media type or encoding is not one of those listed",
    421: "the host name is not served here",
    503: "not now; send it again after Retry-After seconds",
}


@cache
def openapi_document() -> bytes:
    """The whole document."""
    types = dict.fromkeys(each for operation in OPERATIONS for each in _types(operation))
    _, components = msgspec.json.schema_components([*types, ProblemAnswer], ref_template=_REFERENCE)
    for component in components.values():
        # from docstrings, which Python keeps with their indentation before 3.13
        component["description"] = inspect.cleandoc(component["description"])
    paths: dict[str, Any] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    about = "Running counts with differential privacy that fades on a published schedule."
    token = {"type": "http", "scheme": "bearer", "description": "fc_<id>_<secret>"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "fadecount", "version": "1", "description": about},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": token}},
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _types(operation: Operation) -> list[type[Any]]:
    """The types that an operation takes and answers."""
    given = (operation.body, operation.lines, *operation.answers.values())
    members = (each if isinstance(each, tuple) else (each,) for each in given)
    return [each for group in members for each in group if isinstance(each, type)]


def _described(operation: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": TEXT}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    for where, schemas in (("query", operation.query), ("header", operation.headers)):
        parameters += [
            {"name": name, "in": where, "schema": schema} for name, schema in schemas.items()
        ]
    described: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.name,
        "security": [],
        "parameters": parameters,
        "responses": {
            str(status): _answer(each, csv=operation.csv)
            for status, each in operation.answers.items()
        },
    }
    if operation.role:
        reading = operation.role == "reader"
        role = operation.role if operation.role == "admin" else f"{operation.role}, or admin"
        public = "; none if the service is public" if reading else ""
        described["description"] = f"Needs a token of the role {role}{public}."
        described["security"] = [{"token": []}, {}] if reading else [{"token": []}]
    if operation.body is not None:
        content: dict[str, Any] = {"application/json": {"schema": _reference(operation.body)}}
        if operation.lines is not None:
            lines = f"one {operation.lines.__name__} as JSON per line"
            content["application/x-ndjson"] = {"schema": {**TEXT, "description": lines}}
        described["requestBody"] = {"required": True, "content": content}
    for status in operation.refused:
        problem = {"application/problem+json": {"schema": _reference(ProblemAnswer)}}
        described["responses"][str(status)] = {
            "description": _REFUSALS[status],
            "content": problem,
        }
    return described


def _answer(answer: type[Any] | tuple[type[Any], ...] | str | None, *, csv: bool) -> dict[str, Any]:
    if answer is None:
        return {"description": "unchanged since the answer whose entity tag was sent"}
    if isinstance(answer, str):
        schema = {"type": "object"} if answer == "application/json" else TEXT
        return {"description": "as the summary says", "content": {answer: {"schema": schema}}}
    members = answer if isinstance(answer, tuple) else (answer,)
    references = [_reference(each) for each in members]
    content = {
        "application/json": {"schema": {"anyOf": references} if members[1:] else references[0]}
    }
    if csv:
        content["text/csv"] = {"schema": TEXT}
    return {"description": inspect.cleandoc(members[0].__doc__ or ""), "content": content}


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
