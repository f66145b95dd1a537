"""Every route as data: what it takes, what it answers, who may use it; and the application that
finds the route of a request, checks it, and answers.

The description of the interface (OpenAPI) is made from the same table. What a route is for is the
first paragraph of its handler's docstring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from fadecount.noise.entropy import unpredictable
from fadecount.service import answers, embedding, live, operations, parsing, website
from fadecount.service import read_routes as read
from fadecount.service import write_routes as write
from fadecount.service.http import (
    SECURITY_HEADERS,
    WRITE,
    Answer,
    Call,
    problem_answer,
)
from fadecount.service.parsing import LONGEST_ID, Query, parse_query
from fadecount.service.problems import (
    Problem,
    bad_request,
    internal,
    not_found,
    unavailable,
    wrong_host,
    wrong_method,
)
from fadecount.service.stream_info import FigurePage, StreamInfo
from fadecount.service.tokens import Access, Role

_ONCE = frozenset(
    {b"host", b"authorization", b"content-type", b"content-encoding", b"idempotency-key"}
)
"""Headers that may occur only once: programs disagree on which of two they use."""


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path: its handler, what it answers (types, or the media type of a text),
    who may use it, what it takes.

    A token must be for the stream that the path names, and for all streams where it names none,
    unless the route is for ``some_stream``: then the handler decides. A ``query`` of None is not
    looked at.
    """

    method: str
    path: str
    handler: Callable[[Any, Call], Awaitable[Any]]
    answer: type[Any] | tuple[type[Any], ...] | str
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

    @property
    def variables(self) -> list[str]:
        """The parts of the path that take any text."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


WRITER, ADMIN = Role.WRITER, Role.ADMIN
STREAM, TEXT, HTML, JSON = "/v1/streams/{name}", "text/plain", "text/html", "application/json"
SVG = embedding.SVG
CURVE = (answers.PrivacyCurve, answers.PrivacyLosses)
IDEMPOTENCY_KEY = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_ID,
    "pattern": "^[ -~]*$",
    "description": "makes a repeated request of the same token count once",
}
# fmt: off
READING = (
    Route("GET", "/v1/streams", read.list_streams, answers.StreamPage, some_stream=True,
          query=parsing.StreamsQuery),
    Route("GET", STREAM, read.get_stream, StreamInfo),
    Route("GET", f"{STREAM}/figures", read.get_figures, FigurePage, query=parsing.FiguresQuery),
    Route("GET", f"{STREAM}/total", read.get_total, FigurePage, query=parsing.TotalQuery),
    Route("GET", f"{STREAM}/so-far", read.get_so_far, FigurePage, query=parsing.SoFarQuery),
    Route("GET", f"{STREAM}/live", live.follow_live, live.MEDIA_TYPE),
    Route("GET", f"{STREAM}/privacy", read.get_privacy, CURVE, query=parsing.PrivacyQuery),
    Route("GET", f"{STREAM}/badge.svg", embedding.get_badge, SVG, query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/badge.json", embedding.get_badge_text, answers.Badge,
          query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/chart.svg", embedding.get_chart, SVG, query=parsing.ShownQuery),
    Route("GET", f"{STREAM}/top", embedding.get_top, answers.TopList, query=parsing.TopQuery),
    Route("GET", f"{STREAM}/datapackage.json", embedding.get_package, JSON),
    Route("GET", f"{STREAM}/figures.csv", embedding.get_package_figures, "text/csv"),
    Route("GET", f"{STREAM}/promise.json", embedding.get_package_promise, JSON),
    Route("GET", "/metrics", operations.get_metrics, TEXT, query=None),
    Route("GET", "/healthz", operations.get_health, TEXT, None, query=None),
    Route("GET", "/readyz", operations.get_readiness, TEXT, None, query=None),
    Route("GET", "/v1/openapi.json", operations.get_openapi, JSON, None, query=None),
)
WRITING = (
    Route("POST", "/v1/streams", write.create_stream, answers.Created, ADMIN, some_stream=True,
          body=parsing.NewStream, statuses=(200, 201)),
    Route("DELETE", STREAM, write.delete_stream, answers.Changed, ADMIN),
    Route("POST", f"{STREAM}/keys", write.declare_keys, answers.Changed, ADMIN,
          body=parsing.NewKeys),
    Route("POST", f"{STREAM}/events", write.post_events, answers.Accepted, WRITER,
          body=parsing.Events, statuses=(202,),
          headers={"Idempotency-Key": IDEMPOTENCY_KEY}),
)
VISITS = (
    Route("POST", "/api/event", website.post_visit, TEXT, None, query=None, body=parsing.Visit,
          statuses=(202,)),
    Route("OPTIONS", "/api/event", website.allow_visit, TEXT, None, query=None, statuses=(204,)),
    Route("GET", "/fadecount.js", website.get_script, "text/javascript", None, query=None),
)
PAGES = (
    Route("GET", "/", operations.get_page, HTML, None, query=None),
    Route("GET", "/static/{file}", operations.get_file, HTML, None, query=None),
)
# fmt: on


class Router:
    """Finds the route of a method and a path. A part of a path in braces takes any text."""

    def __init__(self, routes: Iterable[tuple[Route, Any]]) -> None:
        """Each route, and what its handler works with."""
        self._root: dict[Any, Any] = {}
        for route, context in routes:
            node = self._root
            for part in route.path.split("/"):
                node = node.setdefault("{}" if part.startswith("{") else part, {})
            methods = node.setdefault(None, {})
            methods[route.method] = route, partial(route.handler, context), route.variables
            if route.method == "GET":
                methods["HEAD"] = methods["GET"]

    def find(self, scope: Scope) -> tuple[Route, Callable[[Call], Awaitable[Any]]]:
        """The route and its handler; raises a Problem if there is none."""
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
        route, handler, variables = methods[scope["method"]]
        scope["path_params"] = dict(zip(variables, values, strict=True))
        return route, handler


class Application:
    """The ASGI application: refuses foreign host names, finds the route of a request, checks its
    token and its query, adds the security headers, and turns every failure into an answer.

    An attacker can make a browser send requests to any address under a host name that the attacker
    chose (DNS rebinding), but not with another Host header. So a host name that was not allowed
    gets status 421 before any other check. An unexpected error becomes a status 500 and a line in
    the log, both without values, and both with the random id of the request. The ids are no
    numbers in a row, which would show how much others send.
    """

    def __init__(self, router: Router, access: Access, *, hosts: Iterable[str]) -> None:
        self._router, self._access = router, access
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._ids = _request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id, write = next(self._ids), scope.pop(WRITE)

        async def send_headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = (*SECURITY_HEADERS, (b"x-request-id", request_id))
                message["headers"] = [*message["headers"], *own]
            await send(message)

        try:
            authorization = self._check(scope)
            route, handler = self._router.find(scope)
            call = Call(scope, receive)
            self._allow(call, route, authorization)
            answer: Any = await handler(call)
            if isinstance(answer, Answer):
                await write(answer, request_id)
            else:
                await answer(scope, receive, send_headed)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:  # the service stops before the answer is ready
            problem = unavailable("the service is ending; send it again")
            await write(problem_answer(problem), request_id)
        except Exception as error:
            problem = error if isinstance(error, Problem) else internal(error, request_id)
            # it refers to this call, and so would keep the request until the next garbage
            # collection
            error.__traceback__ = None
            await write(problem_answer(problem), request_id)

    def _check(self, scope: Scope) -> bytes | None:
        """Refuse what other programs may read otherwise; returns the Authorization header."""
        once = [each for each in scope["headers"] if each[0] in _ONCE]
        sent = dict(once)
        repeated = len(once) != len(sent)
        if sent.get(b"host", b"").lower() not in self._hosts or (
            repeated and [name for name, _ in once].count(b"host") > 1
        ):
            raise wrong_host()
        if repeated:
            detail = "Authorization, Content-Type and Idempotency-Key may be sent once"
            raise bad_request("repeated_header", detail)
        # no name has a slash or a zero; PostgreSQL takes no zero
        if b"%2f" in scope["raw_path"].lower() or "\0" in scope["path"]:
            raise not_found()
        authorization: bytes | None = sent.get(b"authorization")
        return authorization

    def _allow(self, call: Call, route: Route, authorization: bytes | None) -> None:
        if route.role is not None:
            call.grant = self._access.allow(authorization, route.role)
            if call.grant is not None and not route.some_stream:
                call.grant.require_stream(call.path_params.get("name"))
        if route.query is not None:
            call.query = parse_query(call.scope["query_string"], route.query)


def _request_ids() -> Iterator[bytes]:
    """Random ids, with one call to the system for many of them."""
    while True:
        pool = unpredictable(8 * 512).hex().encode()
        yield from (pool[at : at + 16] for at in range(0, len(pool), 16))
