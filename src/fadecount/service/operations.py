"""Routes for the operator, and the page: health, metrics, static files.

No metric is derived from events. How often a stream is written to says how much happens there: it
*is* the count that the noise protects. So there is no figure for requests, bytes, commits, queue
lengths, waiting work or memory, because all of them depend on the events. Ticks are closed on
schedule, independent of events, so they may be counted; every reader sees when a tick is released,
so the lag (in whole seconds) shows nothing more.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fadecount.service.http import (
    EMBEDDED_HEADERS,
    Request,
    Response,
    Tagged,
    not_found,
    plain_answer,
    unavailable,
)
from fadecount.service.read_routes import ReadContext

STATES = ("running", "clock ahead", "clock behind", "refused", "ended")
_METRICS = {
    "ready": ("gauge", "1 when streams can be read and written"),
    "tick_lag_seconds": ("gauge", "how late the most overdue tick is"),
    "live_readers": ("gauge", "open live connections"),
    "ticker_failures_total": ("counter", "attempts to close a tick that failed"),
    "ticks_closed_total": ("counter", "ticks closed by this process; several at once count once"),
    "streams": ("gauge", "streams that this process leads, or would lead if they were in order"),
}
SCRIPT_SECONDS = 86_400
"""For how long browsers keep the script that reports visits."""

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


async def get_page(context: ReadContext, request: Request) -> Response:
    """The page."""
    return context.files["index.html"].answer(request, public=True)


async def get_file(context: ReadContext, request: Request) -> Response:
    """A file of the page."""
    if request.name not in context.files:
        raise not_found()
    return context.files[request.name].answer(request, public=True)


async def get_script(context: ReadContext, request: Request) -> Response:
    """The script that a page loads to report its visits."""
    script, seconds = context.files["fadecount.js"], SCRIPT_SECONDS
    return script.answer(request, public=True, seconds=seconds, security=EMBEDDED_HEADERS)


async def get_health(_context: ReadContext, _request: Request) -> Response:
    """Alive."""
    return plain_answer(b"ok\n", _TYPES["txt"])


async def get_readiness(context: ReadContext, _request: Request) -> Response:
    """Ready: streams can be read and written."""
    if reason := context.not_ready_reason():
        raise unavailable(reason)
    return plain_answer(b"ready\n", _TYPES["txt"])


async def get_metrics(context: ReadContext, _request: Request) -> Response:
    """Figures for Prometheus."""
    values, lines = context.metrics(), []
    for name, (kind, about) in _METRICS.items():
        lines += [f"# HELP fadecount_{name} {about}", f"# TYPE fadecount_{name} {kind}"]
        lines += [
            f"fadecount_{each} {value}"
            for each, value in values.items()
            if each.partition("{")[0] == name
        ]
    text = "\n".join([*lines, ""])
    return plain_answer(text.encode(), "text/plain; version=0.0.4; charset=utf-8")
