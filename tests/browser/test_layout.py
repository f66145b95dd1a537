"""The page looks alike on every machine and holds still: its fonts are its own, and its sizes are
final when it appears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import SCREENSHOTS, Visit
from tests.service.harness import Harness

Start = Callable[..., Visit]
MOST_SHIFT = 0.02
DIGIT_SHIFT = 0.005
"""A number with another digit moves the words beside it."""
WATCH = (
    "window.shift = 0; new PerformanceObserver((list) => { for (const entry of list.getEntries())"
    " if (!entry.hadRecentInput) window.shift += entry.value; }).observe({type: 'layout-shift',"
    " buffered: true});"
)


@pytest.mark.parametrize("fonts", ["DejaVu", "STIXGeneral"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_nothing_jumps(visit: Start, shop: Harness, width: int, fonts: str) -> None:
    started = visit(width=width, fonts=fonts)
    started.page.add_init_script(WATCH)
    page = started.open()
    page.wait_for_selector("#connection[data-state=live]")
    settled = page.evaluate("window.shift")
    for _ in range(3):
        before = page.inner_text("#as-of")
        shop.close_tick(name="visits")
        page.wait_for_function(
            "(old) => document.querySelector('#as-of').textContent !== old", arg=before
        )
    assert page.evaluate("window.shift") - settled <= DIGIT_SHIFT
    assert settled <= MOST_SHIFT


@pytest.mark.parametrize("fonts", ["DejaVu", "STIXGeneral"])
def test_late_fonts_move_little(visit: Start, fonts: str) -> None:
    """The fonts arrive long after the page is shown: the stand-ins had their sizes."""
    started = visit(fonts=fonts)
    started.page.add_init_script(WATCH)
    held: list[Any] = []
    started.page.route("**/*.woff2", lambda route: held.append(route))
    page = started.open(wait_until="commit")
    assert not page.evaluate("document.fonts.check('1rem \"Fadecount Sans\"')")
    assert held
    for route in held:
        route.continue_()
    started.page.unroute("**/*.woff2")
    page.wait_for_function(
        "() => document.fonts.check('1rem \"Fadecount Sans\"') && document.fonts.check('1rem"
        ' "Fadecount Serif"\')'
    )
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert page.evaluate("window.shift") <= MOST_SHIFT


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1440])
def test_the_same_picture_with_other_system_fonts(visit: Start, width: int, scheme: str) -> None:
    pictures = [
        _picture(visit(width=width, scheme=scheme, fonts=fonts))
        for fonts in ("DejaVu", "STIXGeneral")
    ]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / f"{width}-{scheme}.png").write_bytes(pictures[0])
    assert pictures[0] == pictures[1]


def _picture(started: Visit) -> bytes:
    page = started.open()
    page.wait_for_selector("#connection[data-state=live]")
    page.evaluate(
        "document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() =>"
        " requestAnimationFrame(done))))"
    )
    picture: bytes = page.screenshot(full_page=True, animations="disabled")
    return picture
