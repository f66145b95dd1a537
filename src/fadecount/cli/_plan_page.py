"""The page "Choose your curve" of ``fadecount plan --open``: served to this machine only, until
Ctrl-C.

It knows no store, no stream and no token. The page shares style sheets, fonts and charts with the
service's pages.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from fadecount.cli._options import per_person
from fadecount.cli.plan import published_rows, width_rows
from fadecount.durations import parse_duration
from fadecount.errors import FadecountError
from fadecount.mechanisms import ONE_EVENT, Unit
from fadecount.planning import Option, Plan, plan, plan_json
from fadecount.rounding import shown_loss

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_FOLDERS = ("cli/plan_page", "service/static")
_POLICY = "default-src 'self'; frame-ancestors 'none'"

_AGES = 96


def serve_plan_page(announce: Callable[[str], None]) -> int:
    """Serve the page until Ctrl-C. ``announce`` gets its address once the server listens."""
    with PlanServer() as server, contextlib.suppress(KeyboardInterrupt):
        announce(server.address)
        server.serve_forever()
    return 0


class PlanServer(ThreadingHTTPServer):
    """Listens on a free port of this machine only, and makes one plan at a time."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        port = self.server_address[1]
        self.address = f"http://127.0.0.1:{port}/"
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.planning = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: PlanServer

    def do_GET(self) -> None:
        """Answer with the page, one of its files, or a plan.

        A request for another host is refused: a web page elsewhere whose name was made to point to
        this machine (DNS rebinding) reads nothing.
        """
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if self.headers.get("Host") not in self.server.hosts:
            self._answer(421, "text/plain", b"this page is served to this machine only\n")
        elif path == "/plan":
            self._plan(query)
        elif (name := "plan.html" if path == "/" else path.removeprefix("/static/")) in _pages():
            file = _pages()[name]
            self._answer(200, _TYPES[file.suffix], file.read_bytes())
        else:
            self._answer(404, "text/plain", b"not found\n")

    def _plan(self, query: str) -> None:
        try:
            with self.server.planning:
                body = json.dumps(answer_to(query))
            self._answer(200, "application/json", body.encode())
        except (FadecountError, ValueError) as error:
            refusal = json.dumps({"detail": str(error)})
            self._answer(400, "application/json", refusal.encode())

    def _answer(self, status: int, media_type: str, body: bytes) -> None:
        self.send_response(status)
        headers = {"Content-Type": media_type, "Content-Length": str(len(body))}
        headers |= {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
        for name, value in (headers | {"Cache-Control": "no-store"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal belongs to the command."""


@lru_cache(maxsize=1)
def _pages() -> dict[str, Path]:
    """Every file of the page by its name. No other file on the disk can be requested."""
    folders = [Path(str(files("fadecount"))) / folder for folder in _FOLDERS]
    every = (file for folder in folders for file in folder.iterdir())
    return {file.name: file for file in every if file.suffix in _TYPES}


def answer_to(query: str) -> list[dict[str, Any]]:
    """Return the options of the plan for a query of the page: each with its plan file, and in words
    and as a curve what stands in it. What is asked are options of ``fadecount plan``."""
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    tick = parse_duration(given.get("tick", "1m"), name="tick")
    limits = [pair.partition(":") for pair in given.get("losses", "").split(",") if pair]
    events, slot = per_person(given.get("person", "1/tick"), name="person")
    made = plan(
        {age: float(loss) for age, _, loss in limits} or None,
        tick=tick,
        horizon=given.get("horizon"),
        unit=Unit(of="person", events=events, per=slot) if "person" in given else ONE_EVENT,
        delta=float(given["delta"]) if "delta" in given else None,
    )
    return [
        {
            "name": option.name,
            "reason": option.reason,
            "final_loss": shown_loss(option.final_loss),
            "published": published_rows(made, option),
            "widths": width_rows(made, option),
            "losses": _losses(made, option),
            "file": plan_json(made, option),
        }
        for option in made.options
    ]


def _losses(made: Plan, option: Option) -> list[tuple[float, float]]:
    """The curve of an option, ages in seconds and losses: from one tick to the horizon,
    evenly on a logarithmic axis, and at every limit."""
    request, mechanism = made.request, option.mechanism
    grid = np.rint(np.geomspace(1, request.horizon, _AGES)).astype(np.int64).tolist()
    ages, tick = sorted({*grid, *dict(request.targets)}), request.tick_seconds or 1
    return [(age * tick, request.unit.loss(mechanism, age).epsilon) for age in ages]
