"""A real browser on a real service. Skipped, saying why, where there is no Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.streams import Description, Group, Ticks
from fadecount.streams.storage import open_store
from tests.browser.fonts import font_configuration
from tests.service.harness import Harness, StillClock

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = Path("out/screenshots")
DAY, HOUR = 86400, 3600
NOON = 1_700_049_600
"""A Wednesday, 12:00 UTC: so far the shop has counted."""
SHOP_DAYS = 60
SHOP = fc.Blocks(
    fc.Level(1, 0.27),
    fc.Level(24, 0.23, later=((25, 0.73), (169, 0.99))),
    fc.Level(720, 0.74, lag=169),
)
"""Hours; days that are published at their end, a day and a week later; months."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """``chromium("DejaVu")`` starts a browser that sees the fonts of that name only, and nothing
    else of the machine.

    For one module: while Playwright runs, an event loop runs in this thread, and no other test
    could start one of its own.
    """
    if CHROMIUM is None:
        pytest.skip(
            "no Chromium found: the page is not tested in a browser (apt-get install chromium)"
        )
    playwright = pytest.importorskip(
        "playwright.sync_api",
        reason="playwright is not installed: the page is not tested in a browser",
    )
    started: dict[str, Any] = {}
    with playwright.sync_playwright() as runner:

        def start(fonts: str) -> Any:
            if fonts not in started:
                folder = tmp_path_factory.mktemp("chromium")
                surroundings = {
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder),
                    "LC_ALL": "C.UTF-8",
                    "TZ": "UTC",
                    "FONTCONFIG_FILE": str(font_configuration(folder, fonts)),
                }
                started[fonts] = runner.chromium.launch(
                    executable_path=CHROMIUM, args=list(FLAGS), env=surroundings
                )
            return started[fonts]

        yield start
        for each in started.values():
            each.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A public service with sixty days of hours behind it, a stream of running totals, one of days,
    and one with many keys."""
    folder = tmp_path_factory.mktemp("shop")
    harness = Harness(folder, public=True, clock=StillClock(NOON + 0.5))
    hourly = np.tile(np.array([[40, 12, 9]]), (SHOP_DAYS * 24, 1))
    past(harness, "visits", SHOP, hourly, keys=("entrance", "garden", "shop"))
    past(harness, "doors", fc.Gradual(epsilon=0.1), hourly[: 20 * 24, :2], keys=("a", "b"))
    rooms = np.ones((72, 60), dtype=np.int64)
    past(harness, "rooms", SHOP, rooms, keys=[f"room {each:02}" for each in range(60)])
    daily = fc.Blocks(fc.Level(1, 0.5, later=((8, 1.0),)), fc.Level(30, 0.5, lag=8))
    past(harness, "parcels", daily, np.full((100, 1), 700), tick=DAY)
    once: dict[str, Any] = {
        "unit": Unit(of="person", per="1d"),
        "group": Group.of("people", {"1d": 3, "1y": 9}),
    }
    past(harness, "visitors", SHOP, hourly[:, :1], **once)
    with harness:
        yield harness


def past(
    harness: Harness,
    name: str,
    mechanism: fc.Mechanism,
    counts: NDArray[np.int64],
    *,
    keys: Sequence[str] = ("all",),
    tick: int = HOUR,
    zone: str = "UTC",
    **more: Any,
) -> None:
    """Give a service that has not begun a stream with these counts, up to its clock."""
    ticks = Ticks(tick_seconds=tick, zone=zone)
    first = ticks.at(harness.clock.now()) - len(counts)
    with open_store(harness.storage) as store:
        description = Description(name=name, mechanism=mechanism, ticks=ticks, **more)
        stream = store.create(description, keys=keys, start_tick=first)
        for _ in stream.release(first, counts):
            pass


class Visit:
    """A page that is being looked at, and everything it did that it should not."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page, self.origin = page, origin
        self.trouble: list[str] = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("request", lambda request: self._request(request.url))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"console: {message.text}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.origin, "data:")):
            self.trouble.append(f"foreign request: {url}")

    def open(self, path: str = "/#/streams/visits", *, wait_until: str = "load") -> Any:
        self.page.goto(self.origin + path, wait_until=wait_until)
        self.page.wait_for_selector(
            "#stream:not([hidden]) #fading-chart svg path.line", state="attached"
        )
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('#first .value, #last-part .value, #total-part"
            " .value')].some((each) => /[0-9]/.test(each.textContent))"
        )
        return self.page


@pytest.fixture
def visit(look: Callable[..., Visit], shop: Harness) -> Callable[..., Visit]:
    """``visit(width=390, scheme="dark")``: ``look`` at the shop, or at another ``harness``, with a
    browser whose clock is that of the service."""

    def start(*, harness: Harness = shop, **options: Any) -> Visit:
        started = look(origin=harness.url, **options)
        started.page.clock.set_fixed_time(harness.clock.now())
        return started

    return start


@pytest.fixture
def look(chromium: Callable[[str], Any]) -> Iterator[Callable[..., Visit]]:
    """``look(origin=..., width=390, scheme="dark")``: a fresh profile. Fails at the end if the page
    did something it should not."""
    contexts: list[Any] = []
    visits: list[Visit] = []

    def start(
        *,
        origin: str,
        width: int = 1440,
        scheme: str = "light",
        fonts: str = "DejaVu",
        **options: Any,
    ) -> Visit:
        height = 844 if width < 500 else 900
        context = chromium(fonts).new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        contexts.append(context)
        visits.append(Visit(context.new_page(), origin))
        return visits[-1]

    yield start
    for context in contexts:
        context.close()
    assert [trouble for each in visits for trouble in each.trouble] == []
