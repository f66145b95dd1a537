"""Routes for whoever runs the service, and the page: health, metrics, static files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fadecount.service.access import Action
from fadecount.service.metrics import MEDIA_TYPE, Metrics
from fadecount.service.problems import not_found, unavailable
from fadecount.service.read_routes import ReadContext

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
}


def static_files() -> dict[str, tuple[bytes, str]]:
    """Every file of the page, by its name: read once, served from memory. Nothing else of the disk can be asked for."""
    found = {}
    for file in files("fadecount.service").joinpath("static").iterdir():
        ending = file.name.rpartition(".")[2]
        if ending in _TYPES:
            found[file.name] = (file.read_bytes(), _TYPES[ending])
    return found


def operation_routes(
    reading: ReadContext, metrics: Metrics, ready: Callable[[], bool], lag_seconds: Callable[[], float]
) -> list[Route]:
    static = static_files()

    def serve(request: Request, name: str) -> Response:
        if name not in static:
            raise not_found()
        body, media_type = static[name]
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=media_type)

    async def page(request: Request) -> Response:
        return serve(request, "index.html")

    async def file(request: Request) -> Response:
        return serve(request, request.path_params["file"])

    async def openapi(request: Request) -> Response:
        return serve(request, "openapi.json")

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n", headers={"Cache-Control": "no-store"})

    async def readyz(_: Request) -> Response:
        if not ready():
            raise unavailable("the streams cannot be written; the operator's log says why")
        return PlainTextResponse("ready\n", headers={"Cache-Control": "no-store"})

    async def figures(request: Request) -> Response:
        reading.access.allow(request.headers.get("authorization"), Action.READ, None)
        streams = len(await reading.ask(reading.releases.names))
        text = metrics.text(streams=streams, ready=ready(), lag_seconds=lag_seconds())
        return Response(text, headers={"Cache-Control": "no-store"}, media_type=MEDIA_TYPE)

    return [
        Route("/", page, methods=["GET"]),
        Route("/static/{file}", file, methods=["GET"]),
        Route("/v1/openapi.json", openapi, methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", figures, methods=["GET"]),
    ]
