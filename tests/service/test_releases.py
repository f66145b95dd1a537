"""Reading: pages, CSV, ranges, tags and caching, and the losses that go with them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import fadecount as fc
from tests.service.harness import Harness, StillClock, wait_for

COUNTS = (3, 0, 5, 2, 7)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Harness]:
    """Five ticks of a minute from 2023-11-14T22:13:00Z on; key a counts COUNTS, key b twice as
    many."""
    with Harness(tmp_path, public=True) as harness, harness.client() as client:
        harness.create()
        for count in COUNTS:
            client.add("doors", {"a": count, "b": 2 * count})
            harness.close_tick()
        yield harness


def totals(factor: int) -> list[int]:
    return [factor * sum(COUNTS[: at + 1]) for at in range(len(COUNTS))]


def test_before_the_first_tick_has_ended(tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create()
        reply = harness.request("GET", "/v1/streams/doors/releases/latest")
        assert reply.status == 404 and b"no tick of this stream has ended yet" in reply.body


def test_every_release_in_pages_of_any_size(filled: Harness) -> None:
    for limit in (1, 2, 3, 7, 10, 100):
        rows: list[tuple[str, str, int]] = []
        cursor = ""
        while cursor is not None:
            suffix = f"&cursor={cursor}" if cursor else ""
            page = filled.request("GET", f"/v1/streams/doors/releases?limit={limit}{suffix}").json()
            assert len(page["releases"]) <= limit
            rows += [(row["start"], row["key"], row["value"]) for row in page["releases"]]
            cursor = page["next"]
        assert [value for _, key, value in rows if key == "a"] == totals(1)
        assert [value for _, key, value in rows if key == "b"] == totals(2)
        assert len({(tick, key) for tick, key, _ in rows}) == 10


def test_key_and_range(filled: Harness) -> None:
    stream = "/v1/streams/doors/releases"
    path = f"{stream}?key=b&since=2023-11-14T22:14:00Z&until=2023-11-14T22:17:00%2B00:00"
    assert [row["value"] for row in filled.request("GET", path).json()["releases"]] == totals(2)[
        1:4
    ]
    between = f"{stream}?key=a&since=2023-11-14T22:14:01Z&until=2023-11-14T23:16:01%2B01:00"
    assert [row["start"][14:16] for row in filled.request("GET", between).json()["releases"]] == [
        "15",
        "16",
    ]
    assert filled.request("GET", "/v1/streams/doors/releases?key=c").status == 404
    later = filled.request("GET", "/v1/streams/doors/releases?since=2030-01-01T00:00:00Z")
    assert later.json() == {"releases": [], "next": None}


def test_csv(filled: Harness) -> None:
    reply = filled.request("GET", "/v1/streams/doors/releases?key=a", accept="text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert reply.headers["content-type"].startswith("text/csv")
    assert [int(row["value"]) for row in rows] == totals(1)
    assert rows[0]["start"] == "2023-11-14T22:13:00Z" and rows[0]["stream"] == "doors"
    part = filled.request("GET", "/v1/streams/doors/releases?key=a&limit=2", accept="text/csv")
    assert part.headers["link"].startswith("<?key=a&limit=2&cursor=")
    link = part.headers["link"].split(">")[0].lstrip("<")
    rest = filled.request("GET", f"/v1/streams/doors/releases{link}", accept="text/csv")
    assert [int(row["value"]) for row in csv.DictReader(io.StringIO(rest.body.decode()))] == totals(
        1
    )[2:4]
    both = filled.request("GET", "/v1/streams/doors/releases", accept="application/json, text/csv")
    assert both.headers["content-type"] == "application/json"


def test_closed_ranges_may_be_kept_for_ever_and_open_ones_not(filled: Harness) -> None:
    closed = "/v1/streams/doors/releases?until=2023-11-14T22:16:00Z"
    reply = filled.request("GET", closed)
    assert (
        "immutable" in reply.headers["cache-control"] and "public" in reply.headers["cache-control"]
    )
    assert filled.request("GET", closed, if_none_match=reply.headers["etag"]).status == 304
    for path in (
        "/v1/streams/doors/releases",
        "/v1/streams/doors/releases?until=2030-01-01T00:00:00Z",
    ):
        fresh = filled.request("GET", path)
        assert "no-cache" in fresh.headers["cache-control"]
        assert filled.request("GET", path, if_none_match=fresh.headers["etag"]).status == 304
    filled.close_tick()
    assert filled.request("GET", closed).body == reply.body
    assert filled.request("GET", path, if_none_match=fresh.headers["etag"]).status == 200


def test_what_needs_a_token_is_kept_privately(harness: Harness) -> None:
    harness.close_tick(3)
    reply = harness.request(
        "GET", "/v1/streams/doors/releases?limit=1", token=harness.token("reader")
    )
    assert "private" in reply.headers["cache-control"] and "Authorization" in reply.headers["vary"]


def test_latest(filled: Harness) -> None:
    found = filled.request("GET", "/v1/streams/doors/releases/latest").json()
    assert found["start"] == "2023-11-14T22:17:00Z"
    assert [(row["key"], row["value"]) for row in found["releases"]] == [("a", 17), ("b", 34)]


def test_a_stream_without_releases(shown: Harness) -> None:
    assert shown.request("GET", "/v1/streams/doors/releases").json() == {
        "releases": [],
        "next": None,
    }
    assert shown.request("GET", "/v1/streams/doors/releases/latest").status == 404
    assert shown.request("GET", "/v1/streams/doors").json()["last_start"] is None


def test_keys_declared_later_begin_later(filled: Harness) -> None:
    with filled.client() as client:
        client.declare("doors", ["a", "c"])
        client.add("doors", {"c": 4})
        filled.close_tick()
        assert [row.value for row in client.releases("doors", key="c")] == [4]
        assert [row.value for row in client.latest("doors")] == [17, 34, 4]


def test_losses_are_those_of_the_mechanism(tmp_path: Path) -> None:
    mechanism = fc.Gradual(epsilon=0.125, exponent=1.0)
    with Harness(tmp_path, public=True) as harness:
        harness.create(mechanism=mechanism)
        harness.close_tick(10)
        one = harness.request("GET", "/v1/streams/doors/privacy?age=1h").json()["losses"]
        assert [each["loss"] for each in one] == [mechanism.loss(60)]
        assert one[0]["subject"] == "An event from 1 hour ago" and one[0]["shown"] == "0.75"
        whole = harness.request("GET", "/v1/streams/doors/privacy").json()
        assert all(
            point["loss"] == mechanism.loss(-(-point["age_seconds"] // 60))
            for point in whole["curve"]
        )


def test_releases_ahead_of_the_clock_count(tmp_path: Path) -> None:
    """After a jump ahead that nobody noticed, and the clock set right, an event has lost what was
    released meanwhile too."""
    mechanism = fc.Gradual(epsilon=0.125, exponent=1.0)
    with Harness(tmp_path, public=True) as harness:
        harness.create(mechanism=mechanism)
        begun = harness.clock.now()
        harness.close_tick(5000)
        assert isinstance(harness.clock, StillClock)
        harness.clock.moment = begun + 60
        released = 5000
        aged = harness.request("GET", "/v1/streams/doors/privacy?age=1m").json()["losses"][0][
            "loss"
        ]
        assert aged >= mechanism.loss(released - 1)
        curve = harness.request("GET", "/v1/streams/doors/privacy").json()["curve"]
        assert curve[0]["loss"] >= mechanism.loss(released - 1)
        wait_for(lambda: harness.request("GET", "/readyz").status == 503)
        assert harness.request("GET", "/v1/streams/doors").json()["state"] == "clock behind"
