"""What other websites and tools show: badge, chart, top list, data package."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms import Unit
from fadecount.service import embedding
from fadecount.streams import Reader
from fadecount.streams.export import published_tables
from fadecount.streams.published import Figures, Published, Table
from fadecount.streams.storage import open_store
from tests.browser.conftest import NOON, past
from tests.service.harness import Harness, StillClock

DAYS = fc.Blocks(fc.Level(1, 0.1), fc.Level(24, 0.5, later=((25, 4.0),)))
STREAM = "/v1/streams/example.org_visits"
PER_DAY = np.array([960, 480, 24, 24])
SVG = "{http://www.w3.org/2000/svg}"


class Standing(StillClock):
    """A clock that stands still and says how long it would take."""

    def until(self, moment: float) -> float:
        return max(0.0, moment - self.moment)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A public service: forty days, and a stream that has just begun."""
    folder = tmp_path_factory.mktemp("shown")
    harness = Harness(folder, public=True, clock=Standing(NOON + 0.5))
    hours = np.tile(PER_DAY // 24, (40 * 24 + 12, 1))
    past(harness, "example.org_visits", DAYS, hours, keys=("/", "/a & b", "/c", "/d"))
    past(harness, "new", DAYS, hours[:0, :1])
    past(harness, "totals", fc.Gradual(epsilon=0.5), hours[:100, :2], keys=("a", "b"))
    past(harness, "east", DAYS, hours[: 3 * 24, :1], zone="Asia/Dhaka")
    gradual, unit = fc.Gradual(epsilon=0.5), Unit(of="person", per="1d")
    past(harness, "people", gradual, hours[:40, :1], tick=24 * 3600, unit=unit)
    with open_store(harness.storage) as store:
        store.retain("people", 20 * 24 * 3600)
        assert store.upkeep("people")
    with harness:
        yield harness


def parsed(body: bytes) -> Any:
    return ElementTree.fromstring(body)  # noqa: S314 - we made it


def oracle(harness: Harness) -> tuple[Figures, Figures]:
    """The figures of days as the library reads them: of each key, and of all together."""
    with Reader.of_file(harness.storage.store_path) as reader:
        published = reader.stream("example.org_visits")
        return published.figures("1d"), published.together().figures("1d")


def test_the_badge_says_what_yesterday_was(shown: Harness) -> None:
    each, together = oracle(shown)
    day = np.flatnonzero(~together.partial)[-1]
    value, around = int(together.values[day, 0]), int(together.half_widths[day, 0])
    badge = shown.request("GET", f"{STREAM}/badge.json").json()
    assert badge == {
        "schemaVersion": 1,
        "label": "visits yesterday",
        "message": f"{value:,} ± {around:,}",
        "color": "1a6fb0",
    }
    one = shown.request("GET", f"{STREAM}/badge.json?key=/c").json()
    assert one["message"] == f"{each.values[day, 2]:,} ± {each.half_widths[day, 2]:,}"
    hour = shown.request("GET", f"{STREAM}/badge.json?per=1h").json()
    assert hour["label"] == "visits from 2023-11-15 11:00, 1h"
    month = shown.request("GET", f"{STREAM}/badge.json?per=1mo").json()
    assert month["label"] == "visits in 2023-10" or month["message"] == "soon"


def test_the_pictures_hold_the_same(shown: Harness) -> None:
    badge = shown.request("GET", f"{STREAM}/badge.json").json()
    picture = shown.request("GET", f"{STREAM}/badge.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert parsed(picture.body).findtext(f"{SVG}title") == (f"{badge['label']}: {badge['message']}")
    chart = parsed(shown.request("GET", f"{STREAM}/chart.svg").body)
    assert len(chart.findall(f"{SVG}rect")) == 31
    assert badge["message"] in (chart.findtext(f"{SVG}title") or "")
    hours = parsed(shown.request("GET", f"{STREAM}/chart.svg?per=1h").body)
    assert len(hours.findall(f"{SVG}rect")) == 31


@pytest.mark.parametrize(("per", "last"), [("1d", "2023-11-14"), ("1h", "2023-11-15 17:00")])
def test_a_chart_names_days_and_hours_of_the_place(shown: Harness, per: str, last: str) -> None:
    # noon in UTC is 18:00 in Dhaka, where days begin at 18:00 of the day before in UTC
    chart = parsed(shown.request("GET", f"/v1/streams/east/chart.svg?per={per}").body)
    assert last in [text.text for text in chart.findall(f"{SVG}text")]


def test_nothing_published_yet(shown: Harness) -> None:
    assert shown.request("GET", "/v1/streams/new/badge.json").json()["message"] == "soon"
    assert b"nothing published yet" in shown.request("GET", "/v1/streams/new/chart.svg").body
    top = shown.request("GET", "/v1/streams/new/top").json()
    assert (top["start"], top["keys"]) == (None, [])
    assert shown.request("GET", "/v1/streams/new/figures.csv").body.count(b"\n") == 1


def test_the_top_list_says_what_cannot_be_told_apart(shown: Harness) -> None:
    each, _ = oracle(shown)
    day = np.flatnonzero(~each.partial)[-1]
    top = shown.request("GET", f"{STREAM}/top").json()
    assert (top["start"], top["end"]) == ("2023-11-14T00:00:00Z", "2023-11-15T00:00:00Z")
    values = [row["value"] for row in top["keys"]]
    assert values == sorted(each.values[day].tolist(), reverse=True)
    first, second, third, last = top["keys"]
    assert (first["key"], second["key"]) == ("/", "/a & b")
    assert first["apart"] and second["apart"] and last["apart"]
    assert third["apart"] == (third["low"] > last["high"])
    assert len(shown.request("GET", f"{STREAM}/top?limit=2").json()["keys"]) == 2


def test_the_data_package_describes_its_files(shown: Harness) -> None:
    package = shown.request("GET", f"{STREAM}/datapackage.json").json()
    figures, promise = package["resources"]
    assert package["profile"] == "data-package"  # a tabular one may hold nothing but tables
    text = shown.request("GET", f"{STREAM}/{figures['path']}").body.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [field["name"] for field in figures["schema"]["fields"]] == list(rows[0])
    each, _ = oracle(shown)
    assert [int(row["value"]) for row in rows] == each.values.ravel().tolist()
    said = shown.request("GET", f"{STREAM}/{promise['path']}").json()
    assert said["unit"] == "one event" and said["curve"][-1]["loss"] == pytest.approx(4.1)


@pytest.mark.parametrize("stream", ["example.org_visits", "totals", "east"])
def test_a_data_package_reads_no_more_than_its_newest_rows(
    shown: Harness, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = f"/v1/streams/{stream}/figures.csv", []
    service = shown.service
    whole = shown.request("GET", path).body.splitlines()[1:]

    def noted(published: Published, *, since: int | None) -> Iterator[Table]:
        for table in published_tables(published, since=since):
            asked.append(len(table["start"]))
            yield table

    monkeypatch.setattr(embedding, "published_tables", noted)
    monkeypatch.setattr(embedding, "MOST_ROWS", 8)
    service._loop.call_soon_threadsafe(service.pool.changed, [stream])
    found = shown.request("GET", path).body.splitlines()[1:]
    keys = len(shown.stream(stream).keys)
    assert found == whole[-8:] and sum(asked) <= 8 + 4 * keys
    service._loop.call_soon_threadsafe(service.pool.changed, [stream])


def test_a_data_package_begins_with_what_is_left(shown: Harness) -> None:
    """The first day that is left has no figure of its own: the total before it was removed."""
    reply = shown.request("GET", "/v1/streams/people/figures.csv")
    assert reply.status == 200
    assert len(reply.body.splitlines()) == 1 + 19


@pytest.mark.parametrize("name", ["badge.svg", "badge.json", "chart.svg", "top", "figures.csv"])
def test_other_sites_may_show_it(shown: Harness, name: str) -> None:
    reply = shown.request("GET", f"{STREAM}/{name}")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "x-frame-options" not in reply.headers
    assert "script" not in reply.headers["content-security-policy"]
    seconds = int(reply.headers["cache-control"].removeprefix("public, max-age="))
    assert seconds == 3598, "until the open hour is over"
    again = shown.request("GET", f"{STREAM}/{name}", if_none_match=reply.headers["etag"])
    assert again.status == 304


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("badge.svg?key=unknown", 404),
        ("badge.svg?per=7m", 400),
        ("badge.svg?per=total", 400),
        ("badge.svg?label=readers", 400),
        ("top?limit=0", 400),
        ("datapackage.json?per=1d", 400),
    ],
)
def test_bad_questions(shown: Harness, path: str, status: int) -> None:
    assert shown.request("GET", f"{STREAM}/{path}").status == status


def test_a_private_stream_shows_nothing(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.create()
        for name in ("badge.svg", "badge.json", "chart.svg", "top", "datapackage.json"):
            assert harness.request("GET", f"/v1/streams/doors/{name}").status == 401
            own = harness.request("GET", f"/v1/streams/doors/{name}", token=harness.admin)
            assert own.status == 200 and own.headers["x-frame-options"] == "DENY"
            assert own.headers["cache-control"].startswith("private")
