"""Every route as data: what it takes, what it answers, who may use it. From this table follow the
application, which finds the route of a request, checks it and answers, and the description of the
interface (OpenAPI 3.1). What a route is for is the first paragraph of its handler's docstring.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Struct

from fadecount.service import answers, embedding, operations, parsing, website
from fadecount.service import read_routes as read
from fadecount.service import write_routes as write
from fadecount.service.http import (
    JSON,
    Answer,
    Problem,
    Refusal,
    Request,
    Tagged,
    not_found,
    unavailable,
)
from fadecount.service.parsing import LONGEST_ID, Query, parameter_schemas, parse_query
from fadecount.service.tokens import Access, Role
from fadecount.streams.info import StreamInfo

log = logging.getLogger("fadecount.service")
Handler = Callable[[Request], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: its handler, what it answers (a type, the media type of a text, or
    nothing), who may use it, what it takes.

    A token must be for the stream that the path names, and for all streams where it names none,
    unless the route is for ``some_stream``: then the handler decides. A ``query`` of None is not
    looked at.
    """

    method: str
    path: str
    handler: Callable[[Any, Request], Awaitable[Answer]]
    answer: type[Any] | str | None
    role: Role | None = Role.READER
    _: KW_ONLY
    query: type[Query] | None = Query
    body: type[Struct] | None = None
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    some_stream: bool = False

    @property
    def name(self) -> str:
        """The name of the operation."""
        return str(getattr(self.handler, "__name__", ""))


async def get_openapi(_context: read.ReadContext, request: Request) -> Answer:
    """This document."""
    return openapi_document().answer(request, public=True)


WRITER, ADMIN = Role.WRITER, Role.ADMIN
STREAM, TEXT, HTML, SVG = "/v1/streams/{name}", "text/plain", "text/html", embedding.SVG
IDEMPOTENCY_KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_ID,
    "pattern": "^[ -~]*$",
    "description": "makes a repeated request of the same token count once",
}
page, shown = read.from_published, partial(read.from_published, embedded=True)
# fmt: off
READING = (
    Route("GET", "/v1/streams", read.list_streams, answers.StreamPage, some_stream=True,
          query=parsing.StreamsQuery),
    Route("GET", STREAM, read.get_stream, StreamInfo),
    Route("GET", f"{STREAM}/figures", page(read.get_figures), answers.FigurePage,
          query=parsing.FiguresQuery),
    Route("GET", f"{STREAM}/total", page(read.get_total), answers.FigurePage,
          query=parsing.TotalQuery),
    Route("GET", f"{STREAM}/so-far", page(read.get_so_far), answers.FigurePage,
          query=parsing.SoFarQuery),
    Route("GET", f"{STREAM}/live", read.follow_live, read.EVENT_STREAM),
    Route("GET", f"{STREAM}/privacy", read.get_privacy, answers.Privacy,
          query=parsing.PrivacyQuery),
    Route("GET", f"{STREAM}/badge.svg", shown(embedding.get_badge), SVG, query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/badge.json", shown(embedding.get_badge_text), answers.Badge,
          query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/chart.svg", shown(embedding.get_chart), SVG, query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/top", shown(embedding.get_top), answers.TopList,
          query=parsing.TopQuery),
    Route("GET", f"{STREAM}/datapackage.json", shown(embedding.get_package), JSON),
    Route("GET", f"{STREAM}/figures.csv", shown(embedding.get_package_figures), "text/csv"),
    Route("GET", f"{STREAM}/promise.json", shown(embedding.get_package_promise), JSON),
    Route("GET", "/metrics", operations.get_metrics, TEXT, query=None),
    Route("GET", "/healthz", operations.get_health, TEXT, None, query=None),
    Route("GET", "/readyz", operations.get_readiness, TEXT, None, query=None),
    Route("GET", "/v1/openapi.json", get_openapi, JSON, None, query=None),
    Route("GET", "/fadecount.js", operations.get_script, "text/javascript", None, query=None),
)
WRITING = (
    Route("POST", "/v1/streams", write.create_stream, answers.Done, ADMIN, some_stream=True,
          body=parsing.NewStream, statuses=(200, 201)),
    Route("DELETE", STREAM, write.delete_stream, answers.Done, ADMIN),
    Route("POST", f"{STREAM}/keys", write.declare_keys, answers.Done, ADMIN, body=parsing.NewKeys),
    Route("POST", f"{STREAM}/events", write.post_events, answers.Done, WRITER, body=parsing.Events,
          statuses=(202,), headers={"Idempotency-Key": IDEMPOTENCY_KEY}),
)
VISITS = (
    Route("POST", "/api/event", website.post_visit, TEXT, None, query=None, body=parsing.Visit,
          statuses=(202,)),
    Route("OPTIONS", "/api/event", website.allow_visit, None, None, query=None, statuses=(204,)),
)
PAGES = (
    Route("GET", "/", operations.get_page, HTML, None, query=None),
    Route("GET", "/static/{name}", operations.get_file, HTML, None, query=None),
)
# fmt: on
_NAMED = re.compile(r"(/v1/streams|/static)/([^/]+)(.*)", re.DOTALL)


class Application:
    """Finds the route of a request, checks its token and its query, and turns every failure into an
    answer.

    An attacker can make a browser send requests to any address under a host name that the attacker
    chose (DNS rebinding), but not with another Host header. So a host name that was not allowed
    gets status 421 before any other check.
    """

    def __init__(
        self,
        routes: Iterable[tuple[Route, Any]],
        access: Access,
        *,
        hosts: Iterable[str],
        body_bytes: int,
    ) -> None:
        """Each route, and what its handler works with."""
        self._access, self._body_bytes = access, body_bytes
        self._hosts = frozenset(host.lower() for host in hosts)
        self._routes: dict[str, dict[str, tuple[Route, Handler]]] = {}
        for route, context in routes:
            methods = self._routes.setdefault(route.path, {})
            methods[route.method] = route, partial(route.handler, context)
            if route.method == "GET":
                methods["HEAD"] = methods["GET"]

    def begin(self, request: Request) -> tuple[Handler, int]:
        """Check the head of a request: what will answer it, and the most bytes that its body may
        have. Raises a Problem."""
        headers = request.headers
        if headers.get("host", "").lower() not in self._hosts:
            detail = "this host name is not served here; the operator allows it with --allow-host"
            raise Problem(421, "wrong_host", detail)
        path = request.path
        if named := _NAMED.fullmatch(path):
            request.name, path = named[2], f"{named[1]}/{{name}}{named[3]}"
        methods = self._routes.get(path)
        if methods is None:
            raise not_found()
        if request.method not in methods:
            allowed = ", ".join(sorted(methods))
            detail = f"this route takes {allowed}"
            raise Problem(405, "wrong_method", detail, (b"allow", allowed.encode()))
        route, handler = methods[request.method]
        if route.role is not None:
            request.grant = self._access.allow(headers.get("authorization"), route.role)
            if request.grant is not None and not route.some_stream:
                request.grant.require_stream(request.name or None)
        if route.query is not None:
            request.query = parse_query(request.query_string, route.query)
        if route.body is None:
            return handler, 0
        if route.body is parsing.Visit:  # of any type: another would need a question before it
            return handler, website.LARGEST_VISIT
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise Problem(415, "unsupported_type", f"Content-Type must be {JSON}")
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise Problem(415, "unsupported_encoding", "Content-Encoding must be absent")
        return handler, self._body_bytes

    async def answer(self, handler: Handler, request: Request) -> Answer:
        """The answer to a whole request, whatever happens. An unexpected error becomes a status 500
        and a line in the log, both without values."""
        try:
            return await handler(request)
        except asyncio.CancelledError:  # the service stops before the answer is ready
            return unavailable("the service is ending; send it again").answer()
        except Exception as error:
            problem = error if isinstance(error, Problem) else _internal(error)
            # it refers to this call, and so would keep the request until the next garbage
            # collection
            error.__traceback__ = None
            return problem.answer()


def _internal(error: Exception) -> Problem:
    """Logs what failed and where, without values, and returns the answer to send."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    what, file = type(error).__name__, where.filename.rpartition("/")[2]
    log.error("failed: %s in %s line %s", what, file, where.lineno)
    return Problem(500, "internal", "something went wrong here; the operator's log names it")


# The description of the interface
# ------------------------------------------------------------------------------------------------
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
def openapi_document() -> Tagged:
    """The description of the interface."""
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
    return Tagged((json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())


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
    if route.answer is None:
        return {"description": "as the summary says; no body"}
    if isinstance(route.answer, str):
        schema = {"type": "object"} if route.answer == "application/json" else _TEXT
        return {"description": "as the summary says", "content": {route.answer: {"schema": schema}}}
    content = {"application/json": {"schema": _reference(route.answer)}}
    return {"description": inspect.cleandoc(route.answer.__doc__ or ""), "content": content}


def _reference(kind: type[Any]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
