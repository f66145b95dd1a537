"""The page in Chromium: it loads, moves with the stream, can be worked with, and asks nobody else
for anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.streams.export import COLUMNS, csv_text
from tests.browser.conftest import DAY, HOUR, NOON, Visit
from tests.service.harness import Harness

Start = Callable[..., Visit]
SHOWS = (
    "(value) => document.querySelector('#value').textContent.replaceAll(',', '').replace('\\u2212',"
    " '-') === String(value)"
)


def number(text: str) -> int:
    return int(text.replace(",", "").replace("\u2212", "-").removeprefix("± "))


def rows(harness: Harness, path: str) -> list[dict[str, Any]]:
    """The figures that a route of a stream answers with."""
    found: list[dict[str, Any]] = harness.request("GET", f"/v1/streams/{path}").json()["figures"]
    return found


def shows(page: Any, place: str, row: dict[str, Any]) -> None:
    """That a place of the page has the value of a row, and half the width of its band."""
    assert number(page.inner_text(f"{place} .value")) == row["value"]
    half = (row["high"] - row["low"]) / 2
    assert abs(number(page.inner_text(f"{place} .margin")) - half) <= 1


def test_the_page_opens_on_today(visit: Start, shop: Harness) -> None:
    page = visit().open()
    yesterday, today = rows(shop, "visits/figures?per=1d&together=true")[-2:]
    shows(page, "#first", today)
    shows(page, "#last-part", yesterday)
    shows(page, "#wide-part", rows(shop, "visits/so-far?per=1mo&together=true")[0])
    shows(page, "#total-part", rows(shop, "visits/total?together=true")[0])
    assert page.locator(".headline .label").all_inner_texts() == [
        "Today so far",
        "Yesterday",
        "This month so far",
        "Total",
    ]
    assert "counted until 12:00 UTC" in page.inner_text("#as-of")
    assert page.inner_text("#last-words") == "provisional, revised tomorrow 01:00"


def test_a_live_update_arrives(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.wait_for_selector("#connection[data-state=live]")
    before = page.inner_text("#as-of")
    with shop.client() as client:
        client.add("visits", {"entrance": 5000})
        shop.close_tick(name="visits")
    (expected,) = rows(shop, "visits/so-far?per=1d&together=true")
    page.wait_for_function(SHOWS, arg=expected["value"])
    assert page.inner_text("#as-of") != before
    assert "plus or minus" in page.locator("#announcer").inner_text()


def test_bars_get_sharper_with_age_and_while_one_looks(visit: Start, shop: Harness) -> None:
    page = visit().open()
    since = "2023-10-16T12:00:00Z"
    drawn = f"visits/figures?per=1d&together=true&since={since}"
    kinds = ["partial" if row["partial"] else row["status"] for row in rows(shop, drawn)]
    classes = page.locator("#count-chart rect.column").evaluate_all(
        "(bars) => bars.map((bar) => bar.classList[1])"
    )
    assert classes == kinds and kinds[-2:] == ["provisional", "partial"]
    assert {"revised", "final"} <= set(kinds)
    lengths = page.locator("#count-chart .whisker").evaluate_all(
        "(lines) => lines.map((line) => line.getAttribute('y1') - line.getAttribute('y2'))"
    )
    assert lengths[0] < lengths[-3] < lengths[-2], "older whiskers are shorter"
    page.wait_for_selector("#connection[data-state=live]")
    shop.close_tick(13, name="visits")
    page.wait_for_function(
        "(old) => [...document.querySelectorAll('#count-chart .column')].at(-3).classList[1]"
        " === 'revised'",
        arg=classes,
    )


def test_the_band_of_the_total_narrows_into_the_past(visit: Start, shop: Harness) -> None:
    page = visit().open("/#/streams/visits?per=total")
    page.wait_for_selector("#count-chart path.band", state="attached")
    midnights = ",".join(str(NOON - 12 * HOUR - days * DAY) for days in (40, 30, 20))
    past = rows(shop, f"visits/total?together=true&at={midnights}")
    (now,) = rows(shop, "visits/total?together=true")
    assert len(past) == 3
    assert max(row["high"] - row["low"] for row in past) < now["high"] - now["low"]


def test_the_address_keeps_what_is_shown(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.get_by_label("garden").check()
    page.wait_for_function(SHOWS, arg=rows(shop, "visits/so-far?per=1d&key=garden")[0]["value"])
    page.get_by_role("radio", name="per hour").check()
    page.get_by_role("radio", name="1 week").check()
    page.wait_for_function("() => location.hash.includes('range')")
    assert page.url.endswith("#/streams/visits?key=garden&per=1h&range=7d")
    page.wait_for_function("() => document.querySelectorAll('#count-chart .column').length > 100")
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('#count-chart .column').length > 100")
    for label in ("garden", "per hour", "1 week"):
        assert page.get_by_label(label, exact=True).is_checked()
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('#count-chart .column').length < 100")
    page.goto(page.url.split("#")[0] + "#/streams/visits?key=absent&per=1q&range=9y")
    page.wait_for_function("() => document.querySelector('[name=key]').checked")
    for name in ("per day", "30 days"):
        assert page.get_by_role("radio", name=name).is_checked()


def test_the_list_of_streams_has_numbers(visit: Start, shop: Harness) -> None:
    started = visit()
    page = started.page
    page.goto(started.origin + "/")
    page.wait_for_selector("#streams a")
    assert page.locator("#streams .name").all_inner_texts() == [
        "doors",
        "parcels",
        "rooms",
        "visitors",
        "visits",
    ]
    page.wait_for_function(
        "() => [...document.querySelectorAll('#streams .value')].every((each) =>"
        " /[0-9]/.test(each.textContent))"
    )
    yesterday, today = rows(shop, "visits/figures?per=1d&together=true")[-2:]
    card = page.get_by_role("link", name="visits")
    assert number(card.locator(".value").first.inner_text()) == today["value"]
    assert number(card.locator(".value").last.inner_text()) == yesterday["value"]
    assert "This month so far" in page.get_by_role("link", name="parcels").inner_text()
    card.click()
    page.wait_for_selector("#stream:not([hidden])")
    assert page.inner_text("#stream-name") == "visits"
    assert page.title() == "visits: fadecount"


def test_many_keys_are_searched_and_have_a_total(visit: Start, shop: Harness) -> None:
    page = visit().open("/#/streams/rooms")
    shows(page, "#first", rows(shop, "rooms/so-far?per=1d&together=true")[0])
    page.get_by_role("button", name="Key: all 60 together").click()
    page.keyboard.type("m 4")
    assert page.locator("#keys tbody:not(.together) a").all_inner_texts() == [
        f"room 4{each}" for each in range(10)
    ]
    page.wait_for_function(
        "() => /[0-9]/.test(document.querySelector('#keys tbody:not(.together) .value')"
        ".textContent)"
    )
    page.get_by_role("link", name="room 42").click()
    page.wait_for_function("() => document.querySelector('#key-shown').textContent === 'room 42'")
    (row,) = rows(shop, "rooms/so-far?per=1d&key=room%2042")
    page.wait_for_function(SHOWS, arg=row["value"])
    page.get_by_role("link", name="all together").click()
    page.wait_for_function("() => document.querySelector('#key-shown').textContent.includes('60')")
    page.locator("#key-search").fill("cellar")
    assert page.inner_text("#key-note") == "None has such a name."


def test_the_same_as_a_table_and_as_a_file(visit: Start, shop: Harness) -> None:
    page = visit().open()
    page.get_by_text("The same as a table").click()
    page.wait_for_selector("#figure-table tbody tr")
    latest = rows(shop, "visits/figures?per=1d&together=true")[-1]
    cells = page.locator("#figure-table tbody tr").first.locator("td").all_inner_texts()
    assert [number(each) for each in cells[1:4]] == [
        latest[each] for each in ("value", "low", "high")
    ]
    assert cells[4] == "not over"
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    assert waiting.value.suggested_filename == "visits-1d.csv"
    lines = Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(COLUMNS[1:])
    assert len(lines) == 1 + page.locator("#figure-table tbody tr").count()
    keys = ["=1+1", "'-x", "'tis", '@a"b']
    text = page.evaluate(
        "async keys => (await import('/static/lists.js')).csv(keys.map(key => ({ key, n: -1 })))",
        keys,
    )
    assert text == csv_text([("key", "n"), *((key, -1) for key in keys)])
    page.get_by_role("img", name="Chart of counts per day").focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('#count-chart .tip')")


def test_running_totals_show_what_they_can(visit: Start, shop: Harness) -> None:
    page = visit().open("/#/streams/doors?key=a")
    shows(page, "#first", rows(shop, "doors/so-far?per=1d&key=a")[0])
    shows(page, "#last-part", rows(shop, "doors/figures?per=1d&key=a")[-2])
    assert "difference of two counts" in page.inner_text("#published-words")
    assert page.locator("#ages tbody th").all_inner_texts()[:2] == ["1 hour", "1 day"]
    assert page.locator("#ages tbody tr").nth(1).inner_text().endswith("by now")
    assert page.locator("#ages tbody tr").last.inner_text().endswith("later")
    assert not page.locator("#schedule-part").is_visible()


def test_distinct_persons_are_not_added_up(visit: Start, shop: Harness) -> None:
    page = visit().open("/#/streams/visitors")
    shows(page, "#first", rows(shop, "visitors/so-far?per=1d")[0])
    shows(page, "#last-part", rows(shop, "visitors/figures?per=1d")[-2])
    assert not page.locator("#total-part, #wide-part").locator("visible=true").count()
    assert page.locator("#periods label").all_inner_texts() == ["per hour", "per day"]
    assert "people: at most 3 up to 1 day, 9 later for one" in page.inner_text("#group-promise")
    assert "each person counts once per day" in page.inner_text("#interval-words")


def test_ticks_of_a_day_open_on_the_month(visit: Start, shop: Harness) -> None:
    page = visit().open("/#/streams/parcels")
    shows(page, "#first", rows(shop, "parcels/so-far?per=1mo")[0])
    assert page.locator(".headline .label").all_inner_texts() == [
        "This month so far",
        "Yesterday",
        "This year so far",
        "Total",
    ]


def test_the_next_publication_is_marked_on_the_curve(visit: Start, shop: Harness) -> None:
    page = visit().open()
    levels = shop.request("GET", "/v1/streams/visits").json()["levels"]
    coming = [
        stage["next"]["published"]
        for level in levels
        for stage in level["stages"]
        if stage["lag_seconds"]
    ]
    clock = min(coming)[11:16]
    assert page.inner_text("#next-words").endswith(f"tomorrow {clock}.")
    assert page.locator("#fading-chart circle.next").count() == 1
    assert f"figure, tomorrow {clock}" in page.locator("#fading-chart .tip").text_content()
    assert page.locator("#schedule tbody tr").count() == 5
    assert page.locator("#schedule td:last-child").all_inner_texts() == [
        "0.50",
        "0.50",
        "1.00",
        "2.00",
        "2.00",
    ]


def test_another_clock_is_shown(look: Start, shop: Harness) -> None:
    """The browser's clock is years ahead of the service's: dates, and no word of today."""
    page = look(origin=shop.url).open()
    page.wait_for_selector("#connection[data-state=live]")
    assert "Nov 2023, so far" in page.locator("#first .label").inner_text()
    for _ in range(2):
        before = page.inner_text("#as-of")
        shop.close_tick(name="visits")
        page.wait_for_function(
            "(old) => document.querySelector('#as-of').textContent !== old", arg=before
        )


def test_before_the_first_figure(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create("young")
        page = visit(harness=harness).page
        page.goto(harness.url + "/#/streams/young")
        page.wait_for_selector("#empty:not([hidden])")
        assert "that of the first minute" in page.inner_text("#empty")
        assert page.inner_text("#value") == "\u2013"
        page.wait_for_selector("#connection[data-state=live]")
        harness.close_tick(name="young")
        page.wait_for_function("() => /[0-9]/.test(document.querySelector('#value').textContent)")
        assert not page.locator("#empty").is_visible()
        page.close()  # or it would look for a service that has ended


def test_the_slider_tells_the_loss_at_any_age(visit: Start, shop: Harness) -> None:
    page = visit().open()
    curve = shop.request("GET", "/v1/streams/visits/privacy").json()["curve"]
    slider = page.locator("#age")
    for key, at in (("Home", 0), ("End", len(curve) - 1), ("ArrowLeft", len(curve) - 2)):
        slider.press(key)
        assert page.inner_text("#age-words") == curve[at]["subject"]
        assert page.inner_text("#age-loss") == curve[at]["shown"]
        assert curve[at]["shown"] in slider.get_attribute("aria-valuetext")
        assert page.inner_text("#meaning").lower() == curve[at]["meaning"].lower()


def test_the_curve_as_losses(visit: Start) -> None:
    page = visit().open()
    page.get_by_label("loss", exact=True).check()
    assert page.inner_text("#fading-caption").startswith("Privacy loss (ε)")


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
        page.close()


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
    wanted = {"age", "times"}
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


def test_the_curve_is_read_by_keyboard_too(visit: Start) -> None:
    page = visit().open()
    chart = page.get_by_role("img", name="Chart of the fading curve")
    chart.focus()
    page.keyboard.press("Home")
    page.wait_for_function(
        "() => document.querySelector('#fading-chart .tip')?.textContent.startsWith('1 hour: ε ≤ ')"
    )
    assert "1 hour ago, a privacy loss of at most" in (
        page.locator("#fading-chart svg").get_attribute("aria-label") or ""
    )


def test_a_person_with_several_keys_is_explained(visit: Start, tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness, harness.client() as client:
        unit: dict[str, str | int] = {"of": "person", "events": 3, "keys": 4}
        client.create(
            "people",
            tick="1m",
            mechanism=fc.Gradual(epsilon=0.01),
            keys=["east", "west"],
            unit=unit,
        )
        for _ in range(3):
            client.add("people", {"east": 2, "west": 1}, person="ann")
            harness.close_tick(20, name="people")
        page = visit(harness=harness).open("/#/streams/people")
        words = "one person within a tick, at most 3 events in each of at most 4 keys"
        assert page.inner_text("#unit-promise") == words
        page.locator("#age").press("Home")
        assert page.inner_text("#age-words").startswith("All that one person did within a tick, ")
        shown = harness.request("GET", "/v1/streams/people/privacy").json()["curve"][0]
        assert page.inner_text("#age-loss") == shown["shown"]
        assert "be at most" in page.inner_text("#meaning")
        page.close()
