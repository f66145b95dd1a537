"""The tag in pages of another origin, and what comes back to them: badge and chart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from tests.browser.conftest import NOON, SCREENSHOTS, past
from tests.service.harness import Harness, StillClock
from tests.service.test_website import counts, exact_site
from tests.service.test_website import visit as send

DOMAIN = "localhost"
BLOCKED = "".join(
    f"Object.defineProperty({where}, '{name}', {{get() {{ throw new Error('blocked'); }}}});"
    for where, name in (
        ("window", "localStorage"),
        ("window", "sessionStorage"),
        ("window", "indexedDB"),
        ("document", "cookie"),
    )
)


class Site:
    """A website on a port of its own: every path is a page with this body."""

    def __init__(self, body: str) -> None:
        site = self
        self.body = body

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = not self.path.endswith(".ico")
                self.send_response(200 if found else 204)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(site.body.encode() if found else b"")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://{DOMAIN}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Harness, Site]]:
    """A service, and a website with its tag."""
    with exact_site(tmp_path, monkeypatch) as harness:
        tag = f'<script defer data-domain="{DOMAIN}" src="{harness.url}/fadecount.js"></script>'
        site = Site(f'<!doctype html><title>shop</title>{tag}<p><a href="/about?a=1#b">about</a>')
        yield harness, site
        site.close()


def visitor(chromium: Callable[[str], Any], number: int, *scripts: str) -> tuple[Any, list[str]]:
    """A page of a visitor with an agent of their own, and everything that it said went wrong."""
    context = chromium("DejaVu").new_context(user_agent=f"Mozilla/5.0 Firefox/{number}")
    page, trouble = context.new_page(), list[str]()
    for script in scripts:
        page.add_init_script(script)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda said: trouble.extend([said.text] if said.type == "error" else []))
    return page, trouble


def go(page: Any, act: Callable[[], object], reports: int = 1) -> None:
    """Do something that makes the page report, and wait until the service has answered. No report
    says in a header, which a proxy may log, where the visitor is."""
    answers: list[Any] = []

    def answered(response: Any) -> None:
        if response.url.endswith("/api/event"):
            answers.append(response)

    page.on("response", answered)
    act()
    for _ in range(200):
        if len(answers) == reports:
            break
        page.wait_for_timeout(10)
    page.remove_listener("response", answered)
    assert [answer.status for answer in answers] == [202] * reports
    assert not any("referer" in answer.request.all_headers() for answer in answers)


def test_ten_visitors(counted: tuple[Harness, Site], chromium: Callable[[str], Any]) -> None:
    harness, site = counted
    for number in range(10):
        page, trouble = visitor(chromium, number)
        go(page, partial(page.goto, f"{site.origin}/"))
        if number == 0:
            go(page, page.reload)
            go(page, partial(page.click, "a"))
            go(page, page.go_back)
        assert trouble == [] and page.context.cookies() == []
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
        page.context.close()
    assert counts(harness, DOMAIN) == {"visits": 13, "visitors": 10, "/": 10, "/about": 1}


def test_programs_that_change_the_address(
    counted: tuple[Harness, Site], chromium: Callable[[str], Any]
) -> None:
    harness, site = counted
    page, trouble = visitor(chromium, 1)
    go(page, lambda: page.goto(f"{site.origin}/?secret=1"))
    go(page, lambda: page.evaluate("history.pushState({}, '', '/about')"))
    go(page, lambda: page.evaluate("history.pushState({}, '', '/about?sort=up#x')"), reports=0)
    go(page, page.go_back, reports=0)
    go(page, page.go_back)
    assert trouble == []
    page.context.close()
    assert counts(harness, DOMAIN) == {"visits": 3, "visitors": 1, "/": 1, "/about": 1}


def test_blocked_storage_changes_nothing(
    counted: tuple[Harness, Site], chromium: Callable[[str], Any]
) -> None:
    harness, site = counted
    page, trouble = visitor(chromium, 1, BLOCKED)
    go(page, lambda: page.goto(f"{site.origin}/about"))
    assert trouble == []
    page.context.close()
    assert counts(harness, DOMAIN) == {"visits": 1, "visitors": 1, "/about": 1}


@pytest.mark.parametrize("wish", ["doNotTrack", "globalPrivacyControl"])
def test_who_asks_for_it_is_left_alone(
    counted: tuple[Harness, Site], chromium: Callable[[str], Any], wish: str
) -> None:
    harness, site = counted
    page, trouble = visitor(
        chromium, 1, f"Object.defineProperty(navigator, '{wish}', {{value: '1'}})"
    )
    go(page, lambda: page.goto(f"{site.origin}/"), reports=0)
    assert trouble == []
    page.context.close()
    assert counts(harness, DOMAIN) == {}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A public service with sixty days of visits."""
    folder = tmp_path_factory.mktemp("published")
    harness = Harness(folder, public=True, clock=StillClock(NOON + 0.5))
    days = 40 + 12 * np.sin(np.arange(60)) + 10 * (np.arange(60) % 7 < 5)
    hours = np.repeat(days.astype(np.int64), 24)[:, np.newaxis]
    levels = fc.Blocks(fc.Level(1, 0.02), fc.Level(24, 0.05, later=((169, 0.12),)))
    past(harness, "example.org_visits", levels, hours)
    with harness:
        yield harness


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_badge_and_chart_in_a_page(
    published: Harness, chromium: Callable[[str], Any], width: int, scheme: str
) -> None:
    """As pictures and in a frame, in a page of another origin; look at out/screenshots."""
    stream = f"{published.url}/v1/streams/example.org_visits"
    background = "#fff" if scheme == "light" else "#15191e"
    site = Site(
        f"<!doctype html><meta name=viewport content='width=device-width'><title>embedded</title>"
        f"<style>body{{background:{background};color-scheme:{scheme}}} *{{max-width:100%}}</style>"
        f'<p><img id=badge alt="" src="{stream}/badge.svg">'
        f'<p><img id=chart alt="" src="{stream}/chart.svg" style="width:100%;max-width:720px">'
        f'<p><iframe src="{stream}/chart.svg?per=1h" title="visits" width=480 height=230'
        ' style="border:0"></iframe>'
    )
    context = chromium("DejaVu").new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    page, trouble = context.new_page(), list[str]()
    page.on("console", lambda said: trouble.extend([said.text] if said.type == "error" else []))
    page.goto(site.origin)
    for picture in ("#badge", "#chart"):
        assert page.eval_on_selector(picture, "(img) => img.complete && img.naturalWidth > 0")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.eval_on_selector("#chart", "(img) => img.width") == min(720, width - 16)
    bars = page.frames[1].locator("rect.b")
    colour = bars.first.evaluate("(bar) => getComputedStyle(bar).fill")
    assert colour == {"light": "rgb(26, 111, 176)", "dark": "rgb(90, 169, 230)"}[scheme]
    assert trouble == []
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"embedded-{width}-{scheme}.png")
    context.close()
    site.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_live_page_lists_pages_that_appeared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chromium: Callable[[str], Any], width: int
) -> None:
    with exact_site(tmp_path, monkeypatch) as harness:
        for number in range(3):
            send(harness, "/appeared", address=f"192.0.2.{number}")
        counts(harness)
        harness.close_tick(24, name="example.org_visits")
        harness.wait_closed("example.org_pages")
        page, _ = visitor(chromium, 1)  # a loss without noise cannot be drawn
        page.set_viewport_size({"width": width, "height": 844})
        page.clock.set_fixed_time(harness.clock.now())
        page.goto(f"{harness.url}/#/streams/example.org_pages")
        page.wait_for_selector("#top tbody tr")
        assert page.inner_text("#top tbody tr").split("\t")[:2] == ["/appeared", "3"]
        assert "hidden until about 2 people" in page.inner_text("#top-note")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"appeared-{width}.png", full_page=True)
        page.context.close()
