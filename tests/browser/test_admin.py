"""The page of the operator, in Chromium: signing in, streams, keys, tokens that are shown once; by
keyboard and on a phone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.browser.conftest import SCREENSHOTS, Visit
from tests.browser.test_accessibility import violations
from tests.service.harness import Harness

Start = Callable[..., Visit]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A service that is not public, with a running stream, one that has ended, and a few tokens."""
    with Harness(tmp_path_factory.mktemp("office")) as harness:
        harness.create("doors", keys=("north", "south"))
        harness.create("trial", mechanism=fc.Binary(epsilon=1.0, horizon=2))
        harness.close_tick(2, name="trial")
        harness.close_tick(name="doors")
        harness.post(
            "/v1/tokens",
            {"role": "reader", "label": "board in the hall", "expires": "90d", "live_readers": 2},
        )
        harness.post("/v1/tokens", {"role": "writer", "label": "gate 3", "stream": "doors"})
        yield harness


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(fc.Gradual(epsilon=0.05, planned_tick_seconds=60.0).to_json())
    return path


def opened(started: Visit, office: Harness) -> Any:
    """The page after signing in."""
    page = started.page
    page.goto(f"{office.url}/admin")
    page.get_by_label("Admin token").fill(office.admin)
    page.keyboard.press("Enter")
    page.wait_for_selector("#desk:not([hidden]) #tokens tr")
    return page


def test_only_an_admin_gets_in_and_the_token_is_nowhere(visit: Start, office: Harness) -> None:
    started = visit(harness=office)
    page = started.page
    page.goto(f"{office.url}/admin")
    page.get_by_label("Admin token").fill(office.token("reader"))
    page.get_by_role("button", name="Open").click()
    page.wait_for_function(
        "() => document.querySelector('#token-problem').textContent.includes('not the token of an"
        " admin')"
    )
    started.trouble[:] = [each for each in started.trouble if "403" not in each]
    opened(started, office)
    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    assert office.admin.split("_", 2)[2] not in kept + page.content()
    page.get_by_role("button", name="Sign out").click()
    assert page.locator("#desk").is_hidden() and page.locator("#streams tr").count() == 0
    opened(started, office)
    page.reload()
    assert page.locator("#desk").is_hidden()


def test_streams_are_shown_created_and_given_keys(
    visit: Start, office: Harness, plan: Path
) -> None:
    page = opened(visit(harness=office), office)
    shown = page.locator("#streams tr").all_inner_texts()
    assert "in use here" in page.locator("#tokens").inner_text()
    assert (
        "running" in shown[0]
        and "ended" in page.locator("#streams tr", has_text="trial").inner_text()
    )
    page.get_by_label("Plan file").set_input_files(plan)
    page.wait_for_function("() => document.querySelector('#tick').value === '60s'")
    page.get_by_label("Name").fill("visits")
    page.locator("#keys").fill("east\nwest\n\n east ")
    page.locator("#create-form").get_by_role("button", name="Create").click()
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('visits is created')"
    )
    assert (
        page.locator("#streams tr", has_text="visits").count() == 1
        and page.get_by_label("Name").input_value() == ""
    )
    page.locator("#declare-stream").select_option("visits")
    page.locator("#declare-keys").fill("up")
    page.get_by_role("button", name="Declare").click()
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('declared in visits')"
    )
    with office.client() as client:
        assert list(client.stream("visits").keys) == ["east", "west", "up"]
    stored = office.request("GET", "/v1/streams/visits", token=office.admin).json()["mechanism"]
    assert fc.Mechanism.from_json(json.dumps(stored)) == fc.Mechanism.from_json(plan.read_text())


def test_what_is_refused_is_said_and_nothing_is_lost(
    visit: Start, office: Harness, plan: Path, tmp_path: Path
) -> None:
    started = visit(harness=office)
    page = opened(started, office)
    nonsense = tmp_path / "nonsense.json"
    nonsense.write_text(json.dumps({"epsilon": 1}))
    page.get_by_label("Plan file").set_input_files(nonsense)
    page.wait_for_function(
        "() => document.querySelector('#problem').textContent.includes('not a plan')"
    )
    page.get_by_label("Plan file").set_input_files(plan)
    page.wait_for_function("() => document.querySelector('#tick').value === '60s'")
    page.get_by_label("Name").fill("other")
    page.get_by_label("Length of a tick").fill("1h")
    page.locator("#create-form").get_by_role("button", name="Create").click()
    page.wait_for_function(
        "() => document.querySelector('#problem').textContent.includes('the plan was made')"
    )
    assert page.get_by_label("Name").input_value() == "other"
    started.trouble[:] = [each for each in started.trouble if "400" not in each]


def test_releases_are_kept_for_a_time_and_a_stream_is_deleted_after_its_name(
    visit: Start, office: Harness
) -> None:
    office.create("old")
    page = opened(visit(harness=office), office)
    page.locator("#retain-stream").select_option("old")
    page.get_by_label("Keep them for").fill("45d")
    page.get_by_role("button", name="Set").click()
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('old are kept for 45d')"
    )
    assert "45 days" in page.locator("#streams tr", has_text="old").inner_text()
    page.get_by_label("Keep them for").fill("")
    page.get_by_role("button", name="Set").click()
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('kept for ever')"
    )
    delete = page.get_by_role("button", name="Delete")
    page.locator("#delete-stream").select_option("old")
    assert delete.is_disabled()
    page.locator("#delete-name").fill("doors")
    assert delete.is_disabled()
    page.keyboard.press("Enter")
    page.locator("#delete-name").fill("old")
    delete.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('old is deleted')"
    )
    assert page.locator("#streams tr", has_text="old").count() == 0
    assert delete.is_disabled() and page.locator("#delete-name").input_value() == ""
    assert office.request("GET", "/v1/streams/old", token=office.admin).status == 404
    assert office.request("GET", "/v1/streams/doors", token=office.admin).status == 200


def test_a_token_is_shown_once_and_revoked_with_two_presses(visit: Start, office: Harness) -> None:
    page = opened(visit(harness=office), office)
    page.locator("#role").select_option("reader")
    page.locator("#token-stream").select_option("doors")
    page.get_by_label("Label", exact=True).fill("kiosk")
    page.locator("#token-form").get_by_role("button", name="Create").press("Enter")
    page.wait_for_selector("#made:not([hidden])")
    made = page.inner_text("#made-token")
    assert office.request("GET", "/v1/streams/doors", token=made).status == 200
    assert page.evaluate("document.activeElement.id") == "made"
    page.get_by_role("button", name="Done").click()
    assert made.split("_", 2)[2] not in page.content()
    page.get_by_role("button", name="Revoke kiosk").press("Enter")
    assert office.request("GET", "/v1/streams/doors", token=made).status == 200
    page.get_by_role("button", name="Really revoke kiosk?").press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#said').textContent.includes('kiosk is revoked')"
    )
    assert page.locator("#tokens tr", has_text="kiosk").count() == 0
    assert office.request("GET", "/v1/streams/doors", token=made).status == 401


def test_a_revoked_admin_is_signed_out(visit: Start, office: Harness) -> None:
    started = visit(harness=office)
    page = started.page
    other = office.token("admin")
    page.goto(f"{office.url}/admin")
    page.get_by_label("Admin token").fill(other)
    page.keyboard.press("Enter")
    page.wait_for_selector("#desk:not([hidden])")
    office.with_tokens(lambda tokens: tokens.revoke(other.split("_")[1]))
    page.get_by_role("button", name="Refresh").click()
    page.wait_for_selector("#sign-in:not([hidden])")
    assert "not valid any more" in page.inner_text("#token-problem")
    started.trouble[:] = [each for each in started.trouble if "401" not in each]


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_axe_finds_nothing_and_nothing_overflows(
    visit: Start, office: Harness, width: int, scheme: str
) -> None:
    started = visit(harness=office, width=width, scheme=scheme, bypass_csp=True)
    started.page.goto(f"{office.url}/admin")
    assert violations(started.page) == []
    page = opened(started, office)
    page.locator("#unit").select_option("person")
    page.evaluate("document.querySelector('#made').hidden = false")
    page.evaluate(
        "document.querySelector('#made-token').textContent = 'fc_example_' + 'x'.repeat(43)"
    )
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = page.evaluate(
        "[...document.querySelectorAll('button, select, input, textarea')].filter((each) =>"
        " each.checkVisibility()).map((each) => each.getBoundingClientRect().height)"
    )
    assert min(heights) >= 24
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(
        path=SCREENSHOTS / f"admin-{width}-{scheme}.png", full_page=True, animations="disabled"
    )


def test_everything_is_reached_with_the_keyboard(visit: Start, office: Harness) -> None:
    page = opened(visit(harness=office), office)
    wanted = {
        "refresh",
        "plan",
        "name",
        "tick",
        "unit",
        "keys",
        "declare-stream",
        "declare-keys",
        "retain-stream",
        "retain",
        "delete-stream",
        "delete-name",
        "role",
        "token-stream",
        "label",
        "expires",
    }
    seen: set[str] = set()
    for _ in range(70):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert wanted <= seen and any(each == "Revoke" for each in seen)
