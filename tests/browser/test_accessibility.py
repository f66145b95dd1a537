"""Accessibility, by axe-core's rules and by a few of our own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.service.harness import Harness

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright",
    reason="axe is not installed: its rules are not checked",
)
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


def violations(page: Any) -> list[str]:
    found = axe.Axe().run(page, options=RULES).response["violations"]
    return [f"{each['id']}: {each['help']} ({each['nodes'][0]['html'][:120]})" for each in found]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_axe_finds_nothing(visit: Callable[..., Visit], width: int, scheme: str) -> None:
    page = visit(width=width, scheme=scheme, bypass_csp=True).open()
    page.get_by_text("The same as a table").click()
    assert violations(page) == []
    page.get_by_role("radio", name="total").check()
    page.wait_for_selector("#count-chart path.line", state="attached")
    assert violations(page) == []


@pytest.mark.parametrize("name", ["doors", "rooms", "parcels"])
def test_axe_finds_nothing_on_other_streams(visit: Callable[..., Visit], name: str) -> None:
    assert violations(visit(bypass_csp=True).open(f"/#/streams/{name}")) == []


def test_axe_finds_nothing_on_the_list_and_the_sign_in(
    visit: Callable[..., Visit], tmp_path: Path
) -> None:
    started = visit(bypass_csp=True)
    started.page.goto(started.origin + "/")
    started.page.wait_for_selector("#streams a")
    assert violations(started.page) == []
    with Harness(tmp_path) as harness:
        closed = visit(harness=harness, bypass_csp=True)
        closed.page.goto(harness.url)
        closed.page.wait_for_selector("#sign-in:not([hidden])")
        assert violations(closed.page) == []
        closed.trouble[:] = [each for each in closed.trouble if "401" not in each]
        closed.page.close()


def test_axe_would_find_something(visit: Callable[..., Visit]) -> None:
    page = visit(bypass_csp=True).open()
    page.evaluate("() => document.querySelector('#age').removeAttribute('id')")
    page.evaluate("() => document.querySelector('main').append(document.createElement('img'))")
    assert len(violations(page)) >= 2


def test_headings_and_names(visit: Callable[..., Visit]) -> None:
    page = visit().open()
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3')].filter((e) => e.checkVisibility()).map((e) =>"
        " Number(e.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.get_by_role("slider", name="Age").count() == 1
    assert page.get_by_role("group", name="Key").get_by_role("radio").count() == 4
    assert page.get_by_role("region", name="Keys and their numbers").count() == 1
    assert page.locator("[aria-live=polite]").count() == 1
