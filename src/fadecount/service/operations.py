"""Routes for the operator, and the page: health, metrics, the description of the interface, static
files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files

from prometheus_client import Metric
from starlette.requests import Request

from fadecount.service.http import Answer, Tagged, plain_answer
from fadecount.service.metrics import MEDIA_TYPE, Metrics
from fadecount.service.openapi import openapi_document
from fadecount.service.problems import not_found, unavailable
from fadecount.service.routes import Handler
from fadecount.service.tokens import Access, Action

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
def static_files() -> dict[str, Tagged]:
    """Every file of the page, by its name. Read once, served from memory. No other file on the disk
    can be requested."""
    folder = files("fadecount.service").joinpath("static")
    return {
        file.name: Tagged.of(file.read_bytes(), _TYPES[ending])
        for file in folder.iterdir()
        if (ending := file.name.rpartition(".")[2]) in _TYPES
    }


def operation_handlers(
    access: Access,
    metrics: Metrics,
    gauges: Callable[[], Awaitable[Sequence[Metric]]],
    trouble: Callable[[], str | None],
) -> dict[str, Handler]:
    """``gauges`` are those of single streams; ``trouble`` says why the service is not ready, or
    None."""
    static = static_files()
    document = Tagged.of(openapi_document())

    def file(request: Request, name: str) -> Answer:
        if name not in static:
            raise not_found()
        return static[name].answer(request, public=True)

    async def get_page(request: Request) -> Answer:
        return file(request, "index.html")

    async def get_admin_page(request: Request) -> Answer:
        return file(request, "admin.html")

    async def get_file(request: Request) -> Answer:
        return file(request, request.path_params["file"])

    async def get_openapi(request: Request) -> Answer:
        return document.answer(request, public=True)

    async def get_health(_: Request) -> Answer:
        return plain_answer(b"ok\n", _TYPES["txt"])

    async def get_readiness(_: Request) -> Answer:
        if reason := trouble():
            raise unavailable(reason)
        return plain_answer(b"ready\n", _TYPES["txt"])

    async def get_metrics(request: Request) -> Answer:
        access.allow(request.scope, Action.READ, None)
        return plain_answer(metrics.text(await gauges()), MEDIA_TYPE)

    pages = (get_page, get_admin_page, get_file)
    handlers = (*pages, get_openapi, get_health, get_readiness, get_metrics)
    return {each.__name__: each for each in handlers}
