"""Figures over HTTP: pages, ranges, vintages, tags and caching; totals and slots that are not
over; and the losses that go with them."""

from __future__ import annotations

import csv
import io
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.cli.main import main
from fadecount.service import read_routes
from fadecount.streams.export import COLUMNS
from fadecount.streams.reader import Reader
from tests.service.harness import Harness, StillClock, wait_for

COUNTS = (3, 0, 5, 2, 7)
PATH = "/v1/streams/doors/figures"
TOTALS = f"{PATH}?per=total"


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


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Two hours and a half of minutes from 2023-11-14T22:13:00Z on: key a counts 1 in every tenth
    minute, key b 2."""
    with (
        Harness(tmp_path_factory.mktemp("hours"), public=True) as harness,
        harness.client() as client,
    ):
        harness.create()
        harness.create("noisy", mechanism=fc.Gradual(epsilon=0.5))
        client.create(
            "vienna",
            tick="10m",
            mechanism=fc.Gradual(epsilon=0.5),
            keys=['a, "b"', "c"],
            zone="Europe/Vienna",
        )
        client.create(
            "blocks",
            tick="10m",
            mechanism=fc.Blocks(fc.Level(1, 0.5), fc.Level(6, 0.5, lag=2, later=((5, 1.0),))),
            keys=["a", "b"],
            zone="Europe/Vienna",
        )
        for _ in range(15):
            client.add("doors", {"a": 1, "b": 2})
            client.add("noisy", {"a": 1, "b": 2})
            harness.close_tick(10)
            harness.close_tick(0, name="noisy")
        due = harness.clock.now() - 1200
        for name in ("vienna", "blocks"):
            wait_for(lambda name=name: (harness.stream(name).last_tick or 0) * 600 >= due)  # type: ignore[misc]
        yield harness


def asked(harness: Harness, path: str) -> Any:
    reply = harness.request("GET", path)
    assert reply.status == 200, reply.body
    return reply.json()


def rows_of(harness: Harness, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = asked(harness, path)["figures"]
    return rows


def totals(factor: int) -> list[int]:
    return [factor * sum(COUNTS[: at + 1]) for at in range(len(COUNTS))]


# What an answer says of itself
# ------------------------------------------------------------------------------------------------
def test_an_answer_says_what_it_is_about(filled: Harness) -> None:
    page = asked(filled, f"{TOTALS}&key=a")
    assert {name: page[name] for name in page if name not in ("figures", "next")} == {
        "stream": "doors",
        "per": "total",
        "zone": "UTC",
        "unit_text": "one event",
        "published_through": "2023-11-14T22:18:00Z",
    }
    row = page["figures"][0]
    assert list(row) == list(COLUMNS[1:])
    assert (row["start"], row["end"]) == ("2023-11-14T22:13:00Z", "2023-11-14T22:14:00Z")
    assert row["published"] == row["end"] and row["low"] <= 3 <= row["high"]


def test_a_stream_that_has_published_nothing(shown: Harness) -> None:
    for route in ("figures", "figures?per=1h", "total", "so-far"):
        page = asked(shown, f"/v1/streams/doors/{route}")
        assert (page["figures"], page["next"], page["published_through"]) == ([], None, None)
    assert asked(shown, "/v1/streams/doors")["published_through"] is None


def test_what_people_read_first_is_the_default(hours: Harness) -> None:
    assert asked(hours, PATH)["per"] == "total"
    assert asked(hours, "/v1/streams/doors/so-far")["per"] == "1d"
    assert asked(hours, "/v1/streams/blocks/figures")["per"] == "1h"
    assert asked(hours, "/v1/streams/blocks/so-far")["per"] == "1h"
    assert asked(hours, "/v1/streams/blocks")["default_per"] == "1h"


def test_times_are_those_of_the_place(hours: Harness) -> None:
    page = asked(hours, "/v1/streams/vienna/figures?per=1h")
    info = asked(hours, "/v1/streams/vienna")
    times = [page["published_through"], info["published_through"], info["open_start"]]
    times += [page["figures"][0][name] for name in ("start", "end", "published")]
    assert all(each.endswith(":00+01:00") for each in times)
    assert page["published_through"] == info["published_through"]


# Pages
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 100])
def test_every_total_in_pages_of_any_size(
    filled: Harness, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = paged(filled, TOTALS, limit, monkeypatch)
    assert [row["value"] for row in rows if row["key"] == "a"] == totals(1)
    assert [row["value"] for row in rows if row["key"] == "b"] == totals(2)
    assert len({(row["end"], row["key"]) for row in rows}) == 10


def paged(
    harness: Harness, path: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    """All rows, read in pages of so many."""
    monkeypatch.setattr(read_routes, "MOST_ROWS", limit)
    changed, stream = harness.service.pool.changed, path.split("/")[3]
    harness.service._loop.call_soon_threadsafe(changed, [stream])  # what is kept has other pages
    rows: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = asked(harness, f"{path}&cursor={cursor}" if cursor else path)
        slots = {(row["start"], row["end"]) for row in page["figures"]}
        assert len(page["figures"]) <= limit or len(slots) == 1
        rows += page["figures"]
        cursor = page["next"]
    return rows


@pytest.mark.parametrize("stream", ["doors", "vienna", "blocks"])
@pytest.mark.parametrize(
    "query",
    [
        "per=1h",
        "per=30m",
        "per=1d",
        "per=10m&since=2023-11-14T23:00:00Z",
        "per=1h&key={}",
        "per=30m&together=true",
        "per=total&together=true",
        "per=10m&together=true&since=2023-11-14T23:00:00Z",
    ],
)
def test_pages_of_slots_together_are_the_whole(
    hours: Harness, stream: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = urllib.parse.quote(asked(hours, f"/v1/streams/{stream}")["keys"][0])
    path = f"/v1/streams/{stream}/figures?{query.format(key)}"
    whole = rows_of(hours, path)
    assert whole
    for limit in (1, 2, 3, 5):
        assert paged(hours, path, limit, monkeypatch) == whole
    monkeypatch.undo()
    hours.service._loop.call_soon_threadsafe(hours.service.pool.changed, [stream])


def test_pages_of_wide_streams_are_short_and_go_on(
    hours: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request reads few cells, however many rows it asks for."""
    whole = rows_of(hours, f"{PATH}?per=10m&key=a")
    monkeypatch.setattr(read_routes, "MOST_CELLS", 6)
    pages = paged(hours, f"{PATH}?per=10m&key=a", 999, monkeypatch)
    page = asked(hours, f"{PATH}?per=10m&key=a")
    assert len(page["figures"]) == 3 and page["next"] is not None
    assert pages == whole
    monkeypatch.undo()
    hours.service._loop.call_soon_threadsafe(hours.service.pool.changed, ["doors"])


# Ranges, keys, vintages
# ------------------------------------------------------------------------------------------------
def test_key_and_range_of_totals(filled: Harness) -> None:
    path = f"{TOTALS}&key=b&since=2023-11-14T22:14:00Z&until=2023-11-14T22:17:00%2B00:00"
    assert [row["value"] for row in rows_of(filled, path)] == totals(2)[1:4]
    between = f"{TOTALS}&key=a&since=2023-11-14T22:14:01Z&until=2023-11-14T23:16:01%2B01:00"
    assert [row["end"][14:16] for row in rows_of(filled, between)] == ["16", "17"]
    assert rows_of(filled, f"{TOTALS}&since=2030-01-01T00:00:00Z") == []
    for route in ("figures?", "total?", "so-far?"):
        assert filled.request("GET", f"/v1/streams/doors/{route}key=c").status == 404


def test_slots_that_begin_in_a_range(hours: Harness) -> None:
    query = "per=1h&key=a&since=2023-11-14T22:40:00Z&until=2023-11-15T00:00:00Z"
    rows = rows_of(hours, f"{PATH}?{query}")
    assert [(row["start"], row["partial"]) for row in rows] == [("2023-11-14T23:00:00Z", False)]
    assert rows_of(hours, f"{PATH}?per=1h&since=2030-01-01T00:00:00Z") == []


def test_hours_add_up_to_the_total(hours: Harness) -> None:
    rows = rows_of(hours, f"{PATH}?per=1h&key=b")
    assert [row["start"] for row in rows] == [
        f"2023-11-1{at}Z" for at in ("4T22:00:00", "4T23:00:00", "5T00:00:00")
    ]
    assert [row["partial"] for row in rows] == [True, False, True]
    assert rows[0]["end"] == "2023-11-14T23:00:00Z"
    total = rows_of(hours, "/v1/streams/doors/total?key=b")[0]
    assert sum(row["value"] for row in rows) == total["value"] == 30
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


def test_the_total_and_the_slot_that_is_not_over(hours: Harness) -> None:
    page = asked(hours, "/v1/streams/doors/total")
    assert [(row["key"], row["value"]) for row in page["figures"]] == [("a", 15), ("b", 30)]
    assert {row["end"] for row in page["figures"]} == {page["published_through"]}
    early = rows_of(hours, "/v1/streams/doors/total?at=2023-11-14T23:00:30Z&key=a")
    assert [(row["end"], row["value"]) for row in early] == [("2023-11-14T23:00:00Z", 5)]
    (row,) = rows_of(hours, "/v1/streams/doors/so-far?per=1h&key=a")
    assert (row["start"], row["end"]) == ("2023-11-15T00:00:00Z", "2023-11-15T01:00:00Z")
    assert row["partial"] is True and row["value"] == 4
    late = hours.request("GET", "/v1/streams/doors/total?at=2023-11-14T22:12:59Z")
    assert late.status == 400 and "2023-11-14T22:13:00Z or later" in late.json()["detail"]


def test_what_was_public_at_a_time(filled: Harness) -> None:
    now = asked(filled, TOTALS)
    then = "as_of=2023-11-14T22:15:40Z"
    page = asked(filled, f"{TOTALS}&{then}")
    assert page["published_through"] == "2023-11-14T22:15:00Z"
    assert page["figures"] == now["figures"][:4]
    page = asked(filled, f"/v1/streams/doors/total?{then}&key=a")
    assert [row["value"] for row in page["figures"]] == [3]
    page = asked(filled, f"/v1/streams/doors/so-far?per=1h&{then}&key=b")
    assert [row["value"] for row in page["figures"]] == [6]
    page = asked(filled, f"{PATH}?per=1m&{then}&key=b")
    assert [row["value"] for row in page["figures"]] == [6, 0]
    for moment in ("2023-11-14T22:19:00Z", "2030-01-01T00:00:00Z", "2023-11-14T22:12:59Z"):
        for route in ("figures", "total", "so-far"):
            reply = filled.request("GET", f"/v1/streams/doors/{route}?as_of={moment}")
            assert reply.status == 400
            bound = "as_of must be from 2023-11-14T22:13:00Z to 2023-11-14T22:18:00Z"
            assert reply.json()["detail"].startswith(bound)


@pytest.mark.parametrize("stream", ["doors", "vienna", "blocks"])
@pytest.mark.parametrize(
    "route", ["figures?per=1h", "figures?per=total", "total?", "so-far?per=1d"]
)
def test_all_keys_together(hours: Harness, stream: str, route: str) -> None:
    """Their sum, with an interval that is narrower than the sum of theirs."""
    keys = rows_of(hours, f"/v1/streams/{stream}/{route}")
    whole = rows_of(hours, f"/v1/streams/{stream}/{route}&together=true")
    assert [row["key"] for row in whole] == [None] * len(whole) and 2 * len(whole) == len(keys)
    for row, one, other in zip(whole, keys[::2], keys[1::2], strict=True):
        assert abs(row["value"] - one["value"] - other["value"]) <= 1
        assert row["high"] - row["low"] <= one["high"] - one["low"] + other["high"] - other["low"]
        same = ("start", "end", "status", "partial", "published")
        assert [row[name] for name in same] == [one[name] for name in same]


@pytest.mark.parametrize("stream", ["doors", "vienna", "blocks"])
def test_totals_at_several_times_as_they_are_known_now(
    hours: Harness, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/streams/{stream}"
    ends = [row["end"] for row in rows_of(hours, f"{path}/figures?per=1h&together=true")]
    times = [urllib.parse.quote(end) for end in ends]
    rows = rows_of(hours, f"{path}/total?at={','.join(times)}&together=true")
    info = asked(hours, path)
    assert [row["end"] for row in rows] == [*ends[:-1], info["published_through"]]
    assert {row["start"] for row in rows} == {info["first_start"]}
    for row, time in zip(rows, times, strict=True):
        assert rows_of(hours, f"{path}/total?at={time}&together=true") == [row]
    assert hours.request("GET", f"{path}/total?at={times[0]},x").status == 400
    key = urllib.parse.quote(info["keys"][0])
    assert len(info["keys"]) == 2 and len(times) >= 3
    two, three = (f"{path}/total?at={','.join(times[:count])}" for count in (2, 3))
    for bound in ("MOST_CELLS", "MOST_ROWS"):  # whole slots: two of two keys
        with monkeypatch.context() as patched:
            patched.setattr(read_routes, bound, 5)
            assert len(rows_of(hours, two)) == 4
            refused = hours.request("GET", three)
            assert refused.status == 400 and b"at most 2 times" in refused.body
            status = hours.request("GET", f"{three}&key={key}").status
            assert status == (200 if bound == "MOST_ROWS" else 400)
            patched.setattr(read_routes, bound, 1)
            assert len(rows_of(hours, f"{path}/total?at={times[1]}")) == 2


def test_the_same_as_the_reader_gives(hours: Harness) -> None:
    for stream in ("noisy", "blocks"):
        rows = rows_of(hours, f"/v1/streams/{stream}/figures?per=1h")
        with Reader.of_file(hours.storage.folder / "streams.db") as reader:
            found = reader.stream(stream).figures("1h")
        assert [row["value"] for row in rows] == found.values.ravel().tolist()
        assert [row["low"] for row in rows] == found.low.ravel().tolist()
        assert [row["high"] for row in rows] == found.high.ravel().tolist()
        assert [row["status"] for row in rows] == np.repeat(found.shown_status, 2).tolist()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"since": "2023-11-14T23:00:00Z"},
        {"until": "2023-11-15T00:00:00Z"},
        {"since": "2023-11-14T22:40:00Z", "until": "2023-11-14T23:10:00Z"},
        {"since": "2023-11-14T22:40:01Z", "until": "2023-11-14T23:09:59Z"},
        {"since": "2023-11-14T23:30:00Z", "until": "2023-11-14T23:30:00Z"},
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", ["noisy", "vienna", "blocks"])
def test_the_command_line_writes_the_same_tables(
    hours: Harness, given: dict[str, str], stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for query in ({}, {"per": "total"}, {"per": "1h"}, {"per": "1d"}):
        asked = urllib.parse.urlencode({**query, **given})
        rows = rows_of(hours, f"/v1/streams/{stream}/figures?{asked}")
        words = ["streams", "export", stream, "--state", str(hours.storage.folder)]
        words += [word for name, value in given.items() for word in (f"--{name}", value)]
        words += ["--per", query["per"]] if query else []
        assert main(words) == 0
        written = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        told = [
            {
                name: str(each).replace("True", "true").replace("False", "false")
                for name, each in row.items()
            }
            for row in rows
        ]
        assert written == [{"stream": stream, **row} for row in told]
        assert rows or given


# Tags, caching
# ------------------------------------------------------------------------------------------------
def test_answers_have_a_tag_until_the_next_publication(filled: Harness) -> None:
    for path in (TOTALS, f"{PATH}?per=1h", "/v1/streams/doors/total", "/v1/streams/doors/so-far"):
        for method in ("GET", "HEAD"):
            fresh = filled.request(method, path)
            assert "public" in fresh.headers["cache-control"]
            again = filled.request(method, path, if_none_match=fresh.headers["etag"])
            assert (again.status, again.body) == (304, b"")
        filled.close_tick()
        changed = filled.request("GET", path, if_none_match=fresh.headers["etag"])
        assert changed.status == 200 and changed.headers["etag"] != fresh.headers["etag"]


def test_readers_may_keep_figures_until_they_can_change(filled: Harness) -> None:
    """By the public clock, a second less, and a minute at most."""
    filled.clock.until = lambda moment: moment - filled.clock.now()  # type: ignore[method-assign]
    due = 1_700_000_340.0  # the end of the open tick
    for left, shown in ((59.5, 58), (10.0, 9), (2.5, 1), (1.5, 0), (0.0, 0), (-5.0, 0)):
        filled.clock.moment = due - left  # type: ignore[attr-defined]
        if left > 0:
            kept = filled.request("GET", TOTALS).headers["cache-control"]
            assert kept == (f"public, max-age={shown}" if shown else "public, no-cache")
    filled.create("days", tick="1d")
    filled.clock.moment += 86400 * 2 - 40_000  # type: ignore[attr-defined]
    wait_for(lambda: bool(asked(filled, "/v1/streams/days/total")["figures"]))
    kept = filled.request("GET", "/v1/streams/days/total").headers["cache-control"]
    assert kept == "public, max-age=60"


def test_what_needs_a_token_is_kept_privately(harness: Harness) -> None:
    harness.close_tick(3)
    reply = harness.request("GET", TOTALS, token=harness.token("reader"))
    assert "private" in reply.headers["cache-control"] and "Authorization" in reply.headers["vary"]


# Refusals, and keys that come later
# ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("per=day", "per must be the length of a slot"),
        ("per=90s", "per must be made of whole ticks of 1 minute"),
        ("per=1s", "per must be made of whole ticks of 1 minute"),
        ("per=5000y&since=2020-01-01T00:00:00Z", "up to 1,000 years"),
        ("per=51795y", "up to 1,000 years"),
        ("per=1h&since=yesterday", "since must be a time with its zone"),
        ("per=1h&as_of=yesterday", "as_of must be a time with its zone"),
        ("per=1h&limit=1", "the query may have these parameters, each once"),
        ("per=1h&cursor=x", "cursor must be the `next` of a page"),
        ("per=1h&per=1d", ""),
        ("per=1h&zone=UTC", ""),
        ("key=a&together=true", "together must be false where there is a key"),
        (f"per={'1' * 40}h", "per must be the length of a slot"),
    ],
)
def test_bad_queries_in_one_line(hours: Harness, query: str, words: str) -> None:
    reply = hours.request("GET", f"{PATH}?{query}")
    assert reply.status == 400 and words in reply.json()["detail"]


def test_a_length_that_blocks_cannot_give_is_refused_with_those_that_they_can(
    hours: Harness,
) -> None:
    for route in ("figures?per=5m", "figures?per=25m", "so-far?per=5m", "so-far?per=total"):
        reply = hours.request("GET", f"/v1/streams/blocks/{route}")
        assert reply.status == 400
        assert reply.json()["detail"].startswith("per must be one of 10m, 1h, or made of whole")


def test_a_cursor_that_nobody_gave_is_harmless(hours: Harness) -> None:
    for cursor in ("0", "-999999999999999", "999999999999999", "28333333"):
        for per in ("total", "1h"):
            assert asked(hours, f"{PATH}?per={per}&cursor={cursor}")["per"] == per


def test_keys_declared_later_begin_later(filled: Harness) -> None:
    with filled.client() as client:
        client.declare("doors", ["a", "c"])
        client.add("doors", {"c": 4})
        filled.close_tick()
        assert [row.value for row in client.figures("doors", "total", key="c")] == [4]
        assert [row.value for row in client.total("doors")] == [17, 34, 4]


# Losses
# ------------------------------------------------------------------------------------------------
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
