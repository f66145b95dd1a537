"""Every route as data: what it takes, what it answers, who may use it. The router and the
description of the interface (OpenAPI) are made from this table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.types import Scope

from fadecount.service import answers, parsing
from fadecount.service.parsing import LONGEST_ID, MOST_ROWS, MOST_STREAMS, PARAMETERS
from fadecount.service.problems import not_found, wrong_method
from fadecount.service.stream_info import StreamInfo

TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-03-01T10:00:00Z"]}
_SINCE = _TIME | {"description": "only ticks that begin at this time or later"}
_UNTIL = _TIME | {"description": "only ticks that begin before this time"}
Handler = Callable[[Request], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path: what it takes, what it answers, who may use it.

    ``refusals`` are statuses beside those that follow from the rest (:attr:`refused`).
    """

    name: str
    method: str
    path: str
    _: KW_ONLY
    summary: str
    answers: Mapping[int, type[Any] | tuple[type[Any], ...] | str | None]
    refusals: tuple[int, ...] = ()
    body: type[Struct] | None = None
    lines: type[Struct] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    csv: bool = False
    role: str | None = "reader"

    @property
    def refused(self) -> list[int]:
        """Every status of a refusal."""
        by_token = (401, 403) if self.role else ()
        by_name = (404,) if "{" in self.path else ()
        by_body = (408, 413, 415) if self.body else ()
        return sorted({400, 421, 503, *by_token, *by_name, *by_body, *self.refusals})


_LIMIT = {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 1000}
_CURSOR = {"type": "string", "description": "the `next` of the page before"}
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "list_streams",
        "GET",
        "/v1/streams",
        summary="The streams that the token may see, in pages",
        answers={200: answers.StreamPage, 304: None},
        query={
            "limit": {**_LIMIT, "maximum": MOST_STREAMS, "default": MOST_STREAMS},
            "cursor": _CURSOR,
        },
    ),
    Operation(
        "create_stream",
        "POST",
        "/v1/streams",
        summary="Create a stream; it begins with the present tick. Repeating it changes nothing",
        answers={200: answers.Created, 201: answers.Created},
        refusals=(409,),
        body=parsing.NewStream,
        role="admin",
    ),
    Operation(
        "get_stream",
        "GET",
        "/v1/streams/{name}",
        summary="What is public about a stream",
        answers={200: StreamInfo, 304: None},
    ),
    Operation(
        "delete_stream",
        "DELETE",
        "/v1/streams/{name}",
        summary=(
            "Delete a stream with all its releases. What observers have seen, they keep, so its"
            " name stays taken"
        ),
        answers={200: answers.Changed},
        role="admin",
    ),
    Operation(
        "set_retention",
        "PUT",
        "/v1/streams/{name}/retention",
        summary=(
            "Keep releases for a time; older ones are removed, which cannot be undone. No loss"
            " changes"
        ),
        answers={200: answers.Changed},
        body=parsing.NewRetention,
        role="admin",
    ),
    Operation(
        "declare_keys",
        "POST",
        "/v1/streams/{name}/keys",
        summary="Declare more keys; known ones stay as they are",
        answers={200: answers.Changed},
        refusals=(409,),
        body=parsing.NewKeys,
        role="admin",
    ),
    Operation(
        "post_events",
        "POST",
        "/v1/streams/{name}/events",
        summary="Count events; answered when they are durable",
        answers={202: answers.Accepted},
        refusals=(409,),
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
    Operation(
        "get_releases",
        "GET",
        "/v1/streams/{name}/releases",
        summary="Released counts, oldest first, in pages; JSON or CSV",
        answers={200: answers.ReleasePage, 304: None},
        refusals=(410,),
        query={"key": TEXT, "since": _SINCE, "until": _UNTIL, "limit": _LIMIT, "cursor": _CURSOR},
        csv=True,
    ),
    Operation(
        "get_latest",
        "GET",
        "/v1/streams/{name}/releases/latest",
        summary="The last tick with all its keys",
        answers={200: answers.ReleasedTick, 304: None},
    ),
    Operation(
        "get_windows",
        "GET",
        "/v1/streams/{name}/windows",
        summary=(
            "Counts of hours, days, weeks or months, with exact intervals; JSON or CSV. They cost"
            " no privacy"
        ),
        answers={200: answers.WindowPage, 304: None},
        refusals=(410,),
        query={
            "per": {
                "type": "string",
                "pattern": "^[1-9][0-9]{0,5}(mo|[smhdwy])$",
                "examples": ["1h", "1d", "1w", "1mo"],
            },
            "key": TEXT,
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
    Operation(
        "follow_live",
        "GET",
        "/v1/streams/{name}/live",
        summary="Server-sent events, one per tick; resumes after Last-Event-ID",
        answers={200: "text/event-stream"},
        headers={
            "Last-Event-ID": {
                "type": "string",
                "description": "the start of the last tick that was seen",
            }
        },
    ),
    Operation(
        "get_privacy",
        "GET",
        "/v1/streams/{name}/privacy",
        summary=(
            "The fading curve. Or single losses: with `age`, at an age; with `visits`, `every` and"
            " `during`, of someone who came again and again"
        ),
        answers={200: (answers.PrivacyCurve, answers.PrivacyLosses), 304: None},
        query={
            "age": {"type": "string", "examples": ["90s", "1h", "30d"]},
            "visits": {"type": "integer", "minimum": 1, "maximum": 1000},
            "every": {"type": "string", "examples": ["1d", "1w"]},
            "during": {"type": "string", "examples": ["30d", "1y"]},
        },
    ),
    Operation(
        "list_tokens",
        "GET",
        "/v1/tokens",
        summary="Every token, without its secret. For admins of all streams",
        answers={200: answers.TokenList},
        role="admin",
    ),
    Operation(
        "create_token",
        "POST",
        "/v1/tokens",
        summary=(
            "Make a token. It is in this answer and never shown again. For admins of all streams"
        ),
        answers={201: answers.NewTokenAnswer},
        body=parsing.NewToken,
        role="admin",
    ),
    Operation(
        "revoke_token",
        "DELETE",
        "/v1/tokens/{id}",
        summary="Revoke a token, at once. For admins of all streams",
        answers={200: answers.RevokedToken},
        refusals=(409,),
        role="admin",
    ),
    Operation(
        "get_metrics",
        "GET",
        "/metrics",
        summary="Figures for Prometheus",
        answers={200: "text/plain"},
    ),
    Operation(
        "get_health",
        "GET",
        "/healthz",
        summary="Alive",
        answers={200: "text/plain"},
        role=None,
    ),
    Operation(
        "get_readiness",
        "GET",
        "/readyz",
        summary="Ready: streams can be read and written",
        answers={200: "text/plain"},
        role=None,
    ),
    Operation(
        "get_openapi",
        "GET",
        "/v1/openapi.json",
        summary="This document",
        answers={200: "application/json"},
        role=None,
    ),
)
"""Every route but those of the pages."""

PAGES = (
    ("get_page", "GET", "/"),
    ("get_admin_page", "GET", "/admin"),
    ("get_file", "GET", "/static/{file}"),
)


class Router:
    """Finds the handler of a method and a path. A part of a path in braces takes any text."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        """``handlers`` has one for each name in the table, no more and no less."""
        described = (
            (each.name, each.method, each.path, frozenset(each.query)) for each in OPERATIONS
        )
        pages = ((*each, frozenset[str]()) for each in PAGES)
        left, self._root = dict(handlers), dict[Any, Any]()
        for name, method, path, parameters in (*described, *pages):
            node, names = self._root, []
            for part in path.split("/"):
                if part.startswith("{"):
                    names.append(part[1:-1])
                node = node.setdefault("{}" if part.startswith("{") else part, {})
            methods = node.setdefault(None, {})
            methods[method] = path, left.pop(name), names, parameters
            if method == "GET":
                methods["HEAD"] = methods["GET"]
        if left:
            raise KeyError(f"handlers of no route: {', '.join(left)}")

    def find(self, scope: Scope) -> tuple[str, Handler]:
        """The path of a route as the table has it, and its handler; raises a Problem if there is
        none."""
        node, values = self._root, []
        for part in scope["path"].split("/"):
            if part in node:
                node = node[part]
            elif part and "{}" in node:
                values.append(part)
                node = node["{}"]
            else:
                raise not_found()
        methods = node.get(None)
        if methods is None:
            raise not_found()
        if scope["method"] not in methods:
            raise wrong_method(sorted(methods))
        path, handler, names, scope[PARAMETERS] = methods[scope["method"]]
        scope["path_params"] = dict(zip(names, values, strict=True))
        return path, handler
