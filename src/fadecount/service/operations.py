"""Routes for the operator, and the page: health, metrics, the description of the interface, static
files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fadecount.service.http import Answer, Call, Tagged, plain_answer
from fadecount.service.metrics import MEDIA_TYPE
from fadecount.service.problems import not_found, unavailable
from fadecount.service.read_routes import ReadContext

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
        file.name: Tagged(file.read_bytes(), _TYPES[ending])
        for file in folder.iterdir()
        if (ending := file.name.rpartition(".")[2]) in _TYPES
    }


def _file(context: ReadContext, call: Call, name: str) -> Answer:
    if name not in context.files:
        raise not_found()
    return context.files[name].answer(call, public=True)


async def get_page(context: ReadContext, call: Call) -> Answer:
    """The page."""
    return _file(context, call, "index.html")


async def get_file(context: ReadContext, call: Call) -> Answer:
    """A file of the page."""
    return _file(context, call, call.path_params["file"])


async def get_openapi(context: ReadContext, call: Call) -> Answer:
    """This document."""
    return _file(context, call, "openapi.json")


async def get_health(_context: ReadContext, _call: Call) -> Answer:
    """Alive."""
    return plain_answer(b"ok\n", _TYPES["txt"])


async def get_readiness(context: ReadContext, _call: Call) -> Answer:
    """Ready: streams can be read and written."""
    if reason := context.trouble():
        raise unavailable(reason)
    return plain_answer(b"ready\n", _TYPES["txt"])


async def get_metrics(context: ReadContext, _call: Call) -> Answer:
    """Figures for Prometheus."""
    return plain_answer(context.metrics.text(), MEDIA_TYPE)
