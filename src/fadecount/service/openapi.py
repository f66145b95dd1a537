"""The interface as data (OpenAPI 3.1), generated from the structs that parse requests and encode
answers."""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from fadecount.service import answers, parsing
from fadecount.service.parsing import LONGEST_ID, MOST_ROWS, MOST_STREAMS

_REFERENCE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-03-01T10:00:00Z"]}
_SINCE = _TIME | {"description": "only ticks that begin at this time or later"}
_UNTIL = _TIME | {"description": "only ticks that begin before this time"}
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
    429: "too many requests; wait as long as Retry-After says",
    503: "not now; send it again after Retry-After seconds",
}
_READ = (400, 401, 403, 404, 410, 421, 429, 503)
_WRITE = (400, 401, 403, 404, 408, 409, 413, 415, 421, 429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route and method: what it takes and what it answers."""

    summary: str
    answers: dict[int, type[Struct] | tuple[type[Struct], ...] | str | None]
    refusals: tuple[int, ...] = _READ
    body: type[Struct] | None = None
    lines: type[Struct] | None = None
    query: dict[str, dict[str, Any]] | None = None
    headers: dict[str, dict[str, Any]] | None = None
    csv: bool = False
    role: str | None = "reader"


_LIMIT = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 1000}
_CURSOR = {"type": "string", "description": "the `next` of the page before"}
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("get", "/v1/streams"): Operation(
        summary="The streams that the token may see, in pages",
        answers={200: answers.StreamList},
        query={
            "limit": {**_LIMIT, "maximum": MOST_STREAMS, "default": MOST_STREAMS},
            "cursor": _CURSOR,
        },
    ),
    ("post", "/v1/streams"): Operation(
        summary="Create a stream; it begins with the present tick. Repeating it changes nothing",
        answers={200: answers.Created, 201: answers.Created},
        refusals=_WRITE,
        body=parsing.NewStream,
        role="admin",
    ),
    ("get", "/v1/streams/{name}"): Operation(
        summary="What is public about a stream", answers={200: answers.StreamDescription}
    ),
    ("delete", "/v1/streams/{name}"): Operation(
        summary=(
            "Delete a stream with all its releases. What observers have seen, they keep, so its"
            " name stays taken"
        ),
        answers={200: answers.Deleted},
        refusals=(400, 401, 403, 404, 421, 429, 503),
        role="admin",
    ),
    ("put", "/v1/streams/{name}/retention"): Operation(
        summary=(
            "Keep releases for a time; older ones are removed, which cannot be undone. No loss"
            " changes"
        ),
        answers={200: answers.Retained},
        refusals=(400, 401, 403, 404, 408, 413, 415, 421, 429, 503),
        body=parsing.NewRetention,
        role="admin",
    ),
    ("post", "/v1/streams/{name}/keys"): Operation(
        summary="Declare more keys; known ones stay as they are",
        answers={200: answers.Declared},
        refusals=_WRITE,
        body=parsing.NewKeys,
        role="admin",
    ),
    ("post", "/v1/streams/{name}/events"): Operation(
        summary="Count events; answered when they are durable",
        answers={202: answers.Accepted},
        refusals=_WRITE,
        body=parsing.Events,
        lines=parsing.Event,
        headers={
            "Idempotency-Key": {
                "type": "string",
                "minLength": 1,
                "maxLength": LONGEST_ID,
                "pattern": "^[ -~]*$",
                "description": "makes a repeated request of the same token count once",
            }
        },
        role="writer",
    ),
    ("get", "/v1/streams/{name}/releases"): Operation(
        summary="Released counts, oldest first, in pages; JSON or CSV",
        answers={200: answers.ReleasePage, 304: None},
        query={"key": _TEXT, "since": _SINCE, "until": _UNTIL, "limit": _LIMIT, "cursor": _CURSOR},
        csv=True,
    ),
    ("get", "/v1/streams/{name}/releases/latest"): Operation(
        summary="The last tick with all its keys", answers={200: answers.ReleasedTick, 304: None}
    ),
    ("get", "/v1/streams/{name}/windows"): Operation(
        summary=(
            "Counts of hours, days, weeks or months, with exact intervals; JSON or CSV. They cost"
            " no privacy"
        ),
        answers={200: answers.WindowPage, 304: None},
        query={
            "per": {
                "type": "string",
                "pattern": "^[1-9][0-9]{0,5}(mo|[smhdwy])$",
                "examples": ["1h", "1d", "1w", "1mo"],
            },
            "key": _TEXT,
            "since": _SINCE,
            "until": _UNTIL,
            "nonnegative": {
                "type": "string",
                "enum": ["true", "false"],
                "description": "a view without negative counts whose windows add up",
            },
        },
        csv=True,
    ),
    ("get", "/v1/streams/{name}/live"): Operation(
        summary="Server-sent events, one per tick; resumes after Last-Event-ID",
        answers={200: "text/event-stream"},
        headers={"Last-Event-ID": {"type": "string", "pattern": "^(-?[0-9]{1,18})?$"}},
    ),
    ("get", "/v1/streams/{name}/privacy"): Operation(
        summary=(
            "The fading curve; with `age`, the loss at an age; with `time` (and `at`), of an event"
            " of that time; with `refresh`, the paper's baseline; with `visits`, `every` and"
            " `during`, someone who came again and again"
        ),
        answers={
            200: (
                answers.PrivacyCurve,
                answers.AgeStatement,
                answers.PrivacyOfEvent,
                answers.ComparisonAnswer,
                answers.PersonAnswer,
            ),
            304: None,
        },
        query={
            "age": {"type": "string", "examples": ["90s", "1h", "30d"]},
            "time": _TIME,
            "at": _TIME,
            "refresh": {"type": "string", "enum": ["1d", "1w", "1mo", "1y"]},
            "visits": {"type": "integer", "minimum": 1, "maximum": 1000},
            "every": {"type": "string", "examples": ["1d", "1w"]},
            "during": {"type": "string", "examples": ["30d", "1y"]},
        },
    ),
    ("get", "/v1/tokens"): Operation(
        summary="Every token, without its secret. For admins of all streams",
        answers={200: answers.TokenList},
        refusals=(401, 403, 421, 429, 503),
        role="admin",
    ),
    ("post", "/v1/tokens"): Operation(
        summary=(
            "Make a token. It is in this answer and never shown again. For admins of all streams"
        ),
        answers={201: answers.NewTokenAnswer},
        refusals=(400, 401, 403, 408, 413, 415, 421, 429, 503),
        body=parsing.NewToken,
        role="admin",
    ),
    ("delete", "/v1/tokens/{id}"): Operation(
        summary="Revoke a token, at once. For admins of all streams",
        answers={200: answers.RevokedToken},
        refusals=(401, 403, 404, 409, 421, 429, 503),
        role="admin",
    ),
    ("get", "/v1/status"): Operation(
        summary=(
            "Where every stream stands: last release, lag, ended, refused, a wrong clock. For"
            " tokens of all streams"
        ),
        answers={200: answers.StatusPage},
        refusals=(400, 401, 403, 421, 429, 503),
        query={
            "limit": {**_LIMIT, "maximum": MOST_STREAMS, "default": MOST_STREAMS},
            "cursor": _CURSOR,
        },
    ),
    ("get", "/metrics"): Operation(
        summary="Figures for Prometheus", answers={200: "text/plain"}, refusals=(401, 403, 421, 429)
    ),
    ("get", "/healthz"): Operation(
        summary="Alive", answers={200: "text/plain"}, refusals=(421,), role=None
    ),
    ("get", "/readyz"): Operation(
        summary="Ready: streams can be read and written",
        answers={200: "text/plain"},
        refusals=(421, 503),
        role=None,
    ),
    ("get", "/v1/openapi.json"): Operation(
        summary="This document", answers={200: "application/json"}, refusals=(421, 429), role=None
    ),
}


@cache
def openapi_document() -> bytes:
    """The whole document."""
    structs = [each for each in _structs() if each is not answers.ProblemAnswer]
    _, components = msgspec.json.schema_components(
        [*structs, answers.ProblemAnswer], ref_template=_REFERENCE
    )
    for component in (
        components.values()
    ):  # from docstrings, which Python keeps with their indentation before 3.13
        component["description"] = inspect.cleandoc(component["description"])
    paths: dict[str, Any] = {}
    for (method, path), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _described(method, path, operation)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "fadecount",
            "version": "1",
            "description": (
                "Running counts with differential privacy that fades on a published schedule."
            ),
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "fc_<id>_<secret>"}
            },
        },
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _structs() -> list[type[Struct]]:
    found: list[type[Struct]] = []
    for operation in OPERATIONS.values():
        for each in (operation.body, operation.lines, *operation.answers.values()):
            members = each if isinstance(each, tuple) else (each,)
            found += [one for one in members if isinstance(one, type) and one not in found]
    return found


def _described(method: str, path: str, operation: Operation) -> dict[str, Any]:
    inside = [name for name in ("name", "id") if f"{{{name}}}" in path]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in inside
    ]
    for where, given in (("query", operation.query), ("header", operation.headers)):
        parameters += [
            {"name": name, "in": where, "schema": schema} for name, schema in (given or {}).items()
        ]
    found: dict[str, Any] = {"summary": operation.summary, "operationId": _identifier(method, path)}
    if operation.role:
        found["security"] = [{"token": []}] if operation.role != "reader" else [{"token": []}, {}]
        role = operation.role if operation.role == "admin" else f"{operation.role}, or admin"
        found["description"] = f"Needs a token of the role {role}" + (
            "; none if the service is public." if operation.role == "reader" else "."
        )
    else:
        found["security"] = []
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body)}}
        if operation.lines is not None:
            lines = f"one {operation.lines.__name__} as JSON per line"
            content["application/x-ndjson"] = {"schema": {"type": "string", "description": lines}}
        found["requestBody"] = {"required": True, "content": content}
    responses = {
        str(status): _answer(each, csv=operation.csv) for status, each in operation.answers.items()
    }
    for status in operation.refusals:
        problem = {"application/problem+json": {"schema": _reference(answers.ProblemAnswer)}}
        responses[str(status)] = {"description": _REFUSALS[status], "content": problem}
    found["responses"] = responses
    return found


def _answer(
    answer: type[Struct] | tuple[type[Struct], ...] | str | None, *, csv: bool
) -> dict[str, Any]:
    if answer is None:
        return {"description": "unchanged since the answer whose entity tag was sent"}
    if isinstance(answer, str):
        schema: dict[str, Any] = {"type": "object"} if answer == "application/json" else _TEXT
        return {"description": "as the summary says", "content": {answer: {"schema": schema}}}
    members = answer if isinstance(answer, tuple) else (answer,)
    schema = (
        {"anyOf": [_reference(each) for each in members]}
        if len(members) > 1
        else _reference(members[0])
    )
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if csv:
        content["text/csv"] = {"schema": _TEXT}
    return {"description": inspect.cleandoc(members[0].__doc__ or ""), "content": content}


def _reference(struct: type[Struct]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=struct.__name__)}


def _identifier(method: str, path: str) -> str:
    words = [
        part.strip("{}").replace(".", "_") for part in path.split("/") if part and part != "v1"
    ]
    return "_".join([method, *words])
