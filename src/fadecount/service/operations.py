"""Routes for the operator, and the page: health, metrics, the description of the interface, static
files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fadecount.service.access import Access, Action
from fadecount.service.metrics import MEDIA_TYPE, Metrics
from fadecount.service.openapi import openapi_document
from fadecount.service.problems import not_found, unavailable
from fadecount.service.stream_status import StreamGauges

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}


@cache
def static_files() -> dict[str, tuple[bytes, str, str]]:
    """Every file of the page, by its name: bytes, media type, entity tag. Read once, served from
    memory. No other file on the disk can be requested."""
    found = {}
    for file in files("fadecount.service").joinpath("static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            body = file.read_bytes()
            found[file.name] = (body, _TYPES[ending], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


def static_answer(request: Request, name: str) -> Response:
    """A file of the page; 304 if the client has it."""
    static = static_files()
    if name not in static:
        raise not_found()
    body, media_type, tag = static[name]
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


def page_route(path: str, name: str) -> Route:
    """A page at a path of its own."""

    async def page(request: Request) -> Response:
        return static_answer(request, name)

    return Route(path, page, methods=["GET"])


def file_route() -> Route:
    """The files that the pages need."""

    async def file(request: Request) -> Response:
        return static_answer(request, request.path_params["file"])

    return Route("/static/{file}", file, methods=["GET"])


def operation_routes(
    access: Access, metrics: Metrics, gauges: StreamGauges, trouble: Callable[[], str | None]
) -> Iterator[Route]:
    """``trouble`` says why the service is not ready, or None."""
    static_files()  # read them now
    document = openapi_document()

    async def openapi(_: Request) -> Response:
        return Response(
            document, headers={"Cache-Control": "no-cache"}, media_type="application/json"
        )

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})

    async def readyz(_: Request) -> Response:
        if reason := trouble():
            raise unavailable(reason)
        return PlainTextResponse("ready\n", headers={"Cache-Control": "no-store"})

    async def figures(request: Request) -> Response:
        access.allow(request.scope, Action.READ, None)
        return Response(
            metrics.text(await gauges.families()),
            headers={"Cache-Control": "no-store"},
            media_type=MEDIA_TYPE,
        )

    yield page_route("/", "index.html")
    yield page_route("/admin", "admin.html")
    yield file_route()
    yield Route("/v1/openapi.json", openapi, methods=["GET"])
    yield Route("/healthz", healthz, methods=["GET"])
    yield Route("/readyz", readyz, methods=["GET"])
    yield Route("/metrics", figures, methods=["GET"])
