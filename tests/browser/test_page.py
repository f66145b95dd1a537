"""The page in Chromium: it loads, moves with the stream, can be worked with, and asks nobody else
for anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.streams.export import COLUMNS
from tests.browser.conftest import HISTORY, SCREENSHOTS, Visit
from tests.service.harness import Harness

Start = Callable[..., Visit]
SHOWS = (
    "(value) => document.querySelector('#value').textContent.replaceAll(',', '').replace('\\u2212',"
    " '-') === String(value)"
)


def number(text: str) -> int:
    return int(text.replace(",", "").replace("\u2212", "-"))


def test_the_page_shows_the_latest_release(visit: Start, shop: Harness) -> None:
    page = visit().open()
    with shop.client() as client:
        latest = {each.key: each for each in client.total("visits")}
    assert number(page.inner_text("#value")) == latest["entrance"].value
    half = (latest["entrance"].high - latest["entrance"].low) / 2
    assert abs(number(page.inner_text("#margin").removeprefix("± ")) - half) <= 1
    page.get_by_label("garden").check()
    page.wait_for_function(SHOWS, arg=latest["garden"].value)
    assert page.locator("#count-chart path.band").get_attribute("d")


def test_a_live_update_arrives(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.wait_for_selector("#connection[data-state=live]")
    before = page.inner_text("#as-of")
    with shop.client() as client:
        client.add("visits", {"entrance": 5000})
        shop.close_tick(name="visits")
        expected = {each.key: each.value for each in client.total("visits")}["entrance"]
    page.wait_for_function(SHOWS, arg=expected)
    assert page.inner_text("#as-of") != before
    assert "plus or minus" in page.locator("#announcer").inner_text()


def test_the_slider_tells_the_loss_at_any_age(visit: Start, shop: Harness) -> None:
    page = visit().open()
    curve = shop.request("GET", "/v1/streams/visits/privacy").json()["curve"]
    slider = page.locator("#age")
    for key, at in (("Home", 0), ("End", len(curve) - 1), ("ArrowLeft", len(curve) - 2)):
        slider.press(key)
        assert page.inner_text("#age-words") == curve[at]["age"]
        assert page.inner_text("#age-loss") == curve[at]["shown"]
        assert curve[at]["shown"] in slider.get_attribute("aria-valuetext")
        assert page.inner_text("#meaning").lower() == curve[at]["meaning"].lower()


def test_the_curve_as_losses(visit: Start) -> None:
    page = visit().open()
    page.get_by_label("loss", exact=True).check()
    assert page.inner_text("#fading-caption").startswith("Privacy loss (ε)")


def test_the_list_of_streams(visit: Start) -> None:
    started = visit()
    page = started.page
    page.goto(started.origin + "/")
    page.wait_for_selector("#streams a")
    assert page.locator("#streams .name").all_inner_texts() == ["doors", "visits"]
    page.get_by_role("link", name="visits").click()
    page.wait_for_selector("#stream:not([hidden])")
    assert page.inner_text("#stream-name") == "visits"
    assert page.title() == "visits: fadecount"


def test_ranges_and_table(visit: Start) -> None:
    page = visit().open()
    page.get_by_label("all", exact=True).check()
    page.get_by_text("The same as a table").click()
    page.wait_for_selector("#release-table tbody tr")
    assert page.locator("#release-table tbody tr").count() == 50
    chart = page.get_by_role("img", name="Chart of the published count")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#count-chart .cross", state="attached")


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_width_in_both_colour_schemes(visit: Start, width: int, scheme: str) -> None:
    page = visit(width=width, scheme=scheme).open()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shade = sum(
        int(part) for part in background.removeprefix("rgb(").removesuffix(")").split(",")[:3]
    )
    assert (shade > 600) == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_theme_can_be_chosen_and_is_remembered(visit: Start) -> None:
    page = visit().open()
    for expected in ("light", "dark"):
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == expected
    page.reload()
    page.wait_for_selector("#stream:not([hidden])")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_counter_that_is_not_public_asks_for_a_token(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        harness.close_tick(3)
        started = visit(harness=harness)
        page = started.page
        page.goto(harness.url + "/")
        page.wait_for_selector("#sign-in:not([hidden])")
        assert "doors" not in page.inner_text("main")
        page.get_by_label("Token").fill("fc_wrong_token")
        page.get_by_role("button", name="Open").click()
        page.wait_for_function(
            "() => document.querySelector('#token-problem').textContent.includes('does not open')"
        )
        page.get_by_label("Token").fill(harness.token("reader"))
        page.get_by_role("button", name="Open").click()
        page.wait_for_selector("#connection[data-state=live]")
        assert page.inner_text("#stream-name") == "doors"
        started.trouble[:] = [each for each in started.trouble if "401" not in each]


def test_the_page_finds_back_when_the_service_was_away(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create()
        harness.close_tick(3)
        started = visit(harness=harness)
        started.open("/#/streams/doors")
        page = started.page
        page.wait_for_selector("#connection[data-state=live]")
        page.evaluate(
            "history.replaceState(null, '', '#/streams/absent'); dispatchEvent(new"
            " HashChangeEvent('hashchange'))"
        )
        page.wait_for_selector("#trouble:not([hidden])")
        assert "no such stream" in page.inner_text("#trouble")
    started.trouble.clear()


def test_worked_with_the_keyboard_alone(visit: Start) -> None:
    page = visit().open()
    wanted = {"age", "times", "theme"}
    reached: set[str] = set()
    rings: list[Any] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.name ||"
                " document.activeElement.tagName"
            )
        )
        rings.append(page.evaluate("document.activeElement.matches(':focus-visible')"))
    assert wanted <= reached and {"key", "range", "scale"} <= reached
    assert all(rings[:10])


def test_still_for_those_who_want_it_still(visit: Start) -> None:
    page = visit(reduced_motion="reduce").open()
    assert (
        page.evaluate("getComputedStyle(document.querySelector('#guess-ours')).transitionDuration")
        == "0s"
    )


def test_every_key_at_once(visit: Start) -> None:
    page = visit().open()
    page.get_by_label("all keys").check()
    page.wait_for_selector("#multiples .chart svg path.line", state="attached")
    assert page.locator("#multiples .multiple-title span:first-child").all_inner_texts() == [
        "entrance",
        "garden",
        "shop",
    ]
    assert page.inner_text("#value") == "3 keys"
    assert page.locator("#multiples path.band").count() == 3
    page.get_by_role("button", name="garden").click()
    page.wait_for_selector("#count-chart:not([hidden]) path.line", state="attached")
    assert page.get_by_label("garden").is_checked()


def test_what_is_shown_can_be_downloaded(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.get_by_label("all keys").check()
    page.wait_for_selector("#multiples path.line", state="attached")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    assert waiting.value.suggested_filename == "visits-totals.csv"
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "stream,start,key,value,low,high"
    with shop.client() as client:
        latest = {each.key: each for each in client.total("visits")}["shop"]
    assert lines[-1].endswith(f",shop,{latest.value},{latest.low},{latest.high}")
    assert len(lines) > 3 * HISTORY and len(lines) % 3 == 1


def test_before_the_first_tick(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create("young")
        page = visit(harness=harness).page
        page.goto(harness.url + "/#/streams/young")
        page.wait_for_selector("#empty:not([hidden])")
        assert "when the first minute ends" in page.inner_text("#empty")
        assert page.inner_text("#value") == "\u2013"
        page.wait_for_selector("#connection[data-state=live]")
        harness.close_tick(name="young")
        page.wait_for_function("() => /[0-9]/.test(document.querySelector('#value').textContent)")
        assert not page.locator("#empty").is_visible()


def test_the_band_can_be_read_where_it_is_thin(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness, harness.client() as client:
        harness.create("busy", mechanism=fc.Gradual(epsilon=0.5))
        for _ in range(3):
            client.add("busy", {"a": 50_000})
            harness.close_tick(5, name="busy")
        page = visit(harness=harness).open("/#/streams/busy")
        page.wait_for_selector("#count-chart .note", state="attached")
        assert page.locator("#count-chart path.band").count() == 2


def test_someone_who_came_again_and_again(visit: Start, shop: Harness) -> None:
    page = visit().open()
    for times, each, during in (("1", "1d", "30d"), ("5", "1w", "1y")):
        page.get_by_label("How often").select_option(times)
        page.get_by_label("In which time").select_option(each)
        page.get_by_label("For how long").select_option(during)
        path = f"/v1/streams/visits/privacy?visits={times}&every={each}&during={during}"
        (stated,) = shop.request("GET", path).json()["losses"]
        page.wait_for_function(
            "(shown) => document.querySelector('#person-loss').textContent === shown",
            arg=stated["shown"],
        )
        assert page.inner_text("#person-meaning") == stated["meaning"]


def test_losses_of_ages_that_the_stream_has_not_reached_come_later(visit: Start) -> None:
    page = visit().open()
    assert page.locator("#lost tbody th").all_inner_texts() == ["1 minute", "1 hour"]
    assert page.locator("#to-be-lost tbody th").all_inner_texts()[0] == "1 day"


def test_the_interface_as_a_page(visit: Start) -> None:
    started = visit()
    page = started.page
    page.goto(started.origin + "/#/interface")
    page.wait_for_selector("#interface:not([hidden]) .operation")
    titles = page.locator(".operation h2").all_inner_texts()
    assert (
        "GET /v1/streams/{name}/releases" in titles and "POST /v1/streams/{name}/events" in titles
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_the_curve_is_read_by_keyboard_too(visit: Start) -> None:
    page = visit().open()
    chart = page.get_by_role("img", name="Chart of the fading curve")
    chart.focus()
    page.keyboard.press("Home")
    page.wait_for_function(
        "() => document.querySelector('#fading-chart .tip')?.textContent.startsWith('1 minute: ε"
        " ≤ ')"
    )
    assert "1 minute ago, a privacy loss of at most" in (
        page.locator("#fading-chart svg").get_attribute("aria-label") or ""
    )


def test_counts_of_windows(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.get_by_label("per hour").check()
    page.wait_for_selector("#count-chart rect.column", state="attached")
    rows = shop.request("GET", "/v1/streams/visits/windows?per=1h&key=entrance").json()["windows"]
    page.wait_for_function(
        "(count) => document.querySelectorAll('#count-chart rect.column').length === count",
        arg=len(rows),
    )
    assert page.locator("#count-chart .whisker").count() == len(rows)
    assert number(page.inner_text("#value")) == rows[-1]["value"]
    assert "so far" in page.inner_text("#as-of")
    page.get_by_role("img", name="Chart of the count of each window").focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('#count-chart .tip')")
    page.get_by_text("The same as a table").click()
    page.wait_for_selector("#release-table tbody tr")
    assert page.locator("#release-table tbody tr").count() == len(rows)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    assert waiting.value.suggested_filename == "visits-1h.csv"
    header = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(COLUMNS)
    page.get_by_label("all keys").check()
    page.wait_for_selector("#multiples rect.column", state="attached")
    before = page.locator("#multiples rect.column").count()
    page.get_by_label("per day").check()
    page.wait_for_function(
        "(old) => document.querySelectorAll('#multiples rect.column').length < old", arg=before
    )


def test_windows_follow_the_stream(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.wait_for_selector("#connection[data-state=live]")
    page.get_by_label("per hour").check()
    page.wait_for_selector("#count-chart rect.column", state="attached")
    before = page.inner_text("#value")
    with shop.client() as client:
        client.add("visits", {"entrance": 3000})
        shop.close_tick(name="visits")
    page.wait_for_function(
        "(old) => document.querySelector('#value').textContent !== old", arg=before
    )


def test_gaussian_noise_is_explained(visit: Start, tmp_path: Path) -> None:
    """A promise with a delta, for a person with several keys."""
    with Harness(tmp_path, public=True) as harness, harness.client() as client:
        unit: dict[str, str | int] = {"of": "person", "events": 3, "keys": 4}
        client.create(
            "people",
            tick="1m",
            mechanism=fc.Gaussian.gradual(40.0),
            keys=["east", "west"],
            unit=unit,
        )
        for _ in range(3):
            client.add("people", {"east": 2, "west": 1}, person="ann")
            harness.close_tick(20, name="people")
        page = visit(harness=harness).open("/#/streams/people")
        words = "one person within a tick, at most 3 events in each of at most 4 keys"
        assert page.inner_text("#unit-promise") == words
        assert page.inner_text("#unit-words").lower() == words
        page.locator("#age").press("Home")
        shown = harness.request("GET", "/v1/streams/people/privacy").json()["curve"][0]
        assert page.inner_text("#age-loss") == shown["shown"]
        said = page.inner_text("#meaning")
        assert "right in at most" in said and "except with a chance of 1e-09" in said
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / "gaussian.png", full_page=True)
