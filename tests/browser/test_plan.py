"""The page of ``fadecount plan --open`` in Chromium: handles by pointer and keyboard, the plan of
the library, its file, and no jumps."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.cli._plan_page import PlanServer
from fadecount.planning import plan_json
from tests.browser.conftest import SCREENSHOTS, Visit
from tests.browser.test_layout import MOST_SHIFT, WATCH

Start = Callable[..., Visit]
PATIENCE = 120_000
QUICK = "#tick=1d&horizon=1y&losses=1d:1,1mo:2,1y:4"
PLANNED = (
    "(losses) => !document.body.matches('.planning, .stale') && location.hash.includes(losses)"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PlanServer]:
    with PlanServer() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def visit(look: Start, server: PlanServer) -> Start:
    """``look`` at the page of the plan."""
    return partial(look, origin=server.address)


def planned(started: Visit, address: str = QUICK) -> Any:
    page = started.page
    page.set_default_timeout(PATIENCE)
    page.goto(started.origin + address)
    page.wait_for_selector("#options input:checked", state="attached")
    return page


def settled(page: Any, losses: str) -> None:
    """Until the plan for these losses is shown."""
    page.wait_for_function(PLANNED, arg=losses.replace(":", "%3A").replace(",", "%2C"))


def test_handles_numbers_and_the_file(visit: Start, tmp_path: Path) -> None:
    page = planned(visit())
    handle = page.get_by_role("slider", name="Loss after a month")
    assert handle.get_attribute("aria-valuenow") == "2"
    assert page.get_by_role("slider").count() == 3, "an hour is shorter than the tick"
    assert page.locator("#loss-1h").is_disabled()
    handle.press("ArrowUp")
    assert handle.get_attribute("aria-valuenow") == "2.2" and page.input_value("#loss-1mo") == "2.2"
    assert (
        page.evaluate("document.activeElement.getAttribute('aria-label')") == "Loss after a month"
    )
    handle.press("PageUp")
    assert page.input_value("#loss-1mo") == "4.4" and page.input_value("#loss-1y") == "4.4", (
        "later limits follow"
    )
    page.fill("#loss-1mo", "1.5")
    page.keyboard.press("Enter")
    settled(page, "1d:1,1mo:1.5,1y:4.4")
    made = fc.plan({1: 1.0, 30: 1.5, 365: 4.4}, tick=86400)
    assert page.locator("#widths .figure").all_inner_texts() == [
        f"± {width.half_width}" for width in made.widths()
    ]
    rows = page.locator("#published tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == [row.per for row in made.published()]
    assert page.locator("#options input").count() == len(made.options)
    page.locator("#options input").nth(1).check()
    page.wait_for_function(
        "(name) => document.querySelector('#file-option').textContent === name",
        arg=made.options[1].name,
    )
    with page.expect_download() as found:
        page.get_by_role("button", name="Download plan.json").click()
    found.value.save_as(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text(encoding="utf-8") == plan_json(made, made.options[1])


def test_a_handle_is_dragged_and_a_person_is_planned_for(visit: Start) -> None:
    page = planned(visit(width=390))
    box = page.locator(".handle").nth(3).locator(".grip").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.locator("#curve-chart").scroll_into_view_if_needed()
    moved = page.locator(".handle").nth(3).locator(".grip").bounding_box()["y"] - box["y"]
    page.mouse.move(x, y + moved)
    page.mouse.down()
    page.mouse.move(x, y + moved - 30, steps=3)
    page.mouse.up()
    loss = page.input_value("#loss-1y")
    assert float(loss) > 4
    settled(page, f"1d:1,1mo:2,1y:{loss}")
    page.get_by_label("Protect").select_option("person")
    page.get_by_label("In which time").select_option("1mo")
    page.wait_for_function(
        "() => location.hash.includes('person=1%2F1mo') && !document.body.matches('.planning,"
        " .stale')"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "one person\u2019s month" in page.inner_text("#curve-caption")


def test_a_refusal_is_shown_and_the_next_plan_follows(visit: Start) -> None:
    started = visit()
    page = started.page
    page.route(
        "**/plan?*",
        lambda route: route.fulfill(
            status=400, body=json.dumps({"detail": "no plan fits; allow more"})
        ),
    )
    page.goto(started.origin + QUICK)
    page.wait_for_selector("#status.problem")
    assert page.inner_text("#status") == "no plan fits; allow more"
    page.get_by_label("The promise").dispatch_event("change")
    assert page.get_by_role("button", name="Download plan.json").is_disabled()
    page.unroute("**/plan?*")
    page.set_default_timeout(PATIENCE)
    page.get_by_role("slider", name="Loss after a year").press("ArrowUp")
    page.wait_for_selector("#options input:checked", state="attached")
    started.trouble[:] = [each for each in started.trouble if "400" not in each]


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (768, "dark"), (1440, "light")])
def test_it_holds_still_and_axe_finds_nothing(visit: Start, width: int, scheme: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="axe is not installed: its rules are not checked",
    )
    started = visit(width=width, scheme=scheme, bypass_csp=True)
    started.page.add_init_script(WATCH)
    page = planned(started)
    assert page.evaluate("window.shift") <= MOST_SHIFT
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"plan-{width}-{scheme}.png", full_page=True)
    found = axe.Axe().run(
        page,
        options={
            "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
        },
    )
    assert [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found.response["violations"]
    ] == []
