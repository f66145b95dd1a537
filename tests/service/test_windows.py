"""Counts of windows over HTTP."""

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
from fadecount.streams.export import COLUMNS
from fadecount.streams.reader import Reader
from tests.service.harness import Harness, wait_for

PATH = "/v1/streams/doors/windows"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Two hours and a half of minutes from 2023-11-14T22:13:00Z on: key a counts 1 in every tenth
    minute, key b 2."""
    with (
        Harness(tmp_path_factory.mktemp("windows"), public=True) as harness,
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
        for _ in range(15):
            client.add("doors", {"a": 1, "b": 2})
            client.add("noisy", {"a": 1, "b": 2})
            harness.close_tick(10)
            harness.close_tick(0, name="noisy")
        wait_for(
            lambda: (harness.stream("vienna").last_tick or 0) * 600 >= harness.clock.now() - 1200
        )
        yield harness


def asked(harness: Harness, query: str, path: str = PATH) -> Any:
    reply = harness.request("GET", f"{path}?{query}")
    assert reply.status == 200, reply.body
    return reply.json()


def test_hours_add_up_to_the_total(filled: Harness) -> None:
    page = asked(filled, "per=1h&key=b")
    assert (page["per"], page["zone"]) == ("1h", "UTC")
    rows = page["windows"]
    assert [row["start"] for row in rows] == [
        f"2023-11-1{at}Z" for at in ("4T22:00:00", "4T23:00:00", "5T00:00:00")
    ]
    assert [row["partial"] for row in rows] == [True, False, True]
    assert rows[0]["end"] == "2023-11-14T23:00:00Z"
    latest = filled.request("GET", "/v1/streams/doors/releases/latest").json()["releases"]
    assert (
        sum(row["value"] for row in rows) == {row["key"]: row["value"] for row in latest}["b"] == 30
    )
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)


def test_windows_that_begin_in_a_range(filled: Harness) -> None:
    rows = asked(filled, "per=1h&key=a&since=2023-11-14T22:40:00Z&until=2023-11-15T00:00:00Z")[
        "windows"
    ]
    assert [(row["start"], row["partial"]) for row in rows] == [("2023-11-14T23:00:00Z", False)]
    assert asked(filled, "per=1h&since=2030-01-01T00:00:00Z")["windows"] == []


def test_the_same_as_the_reader_gives(filled: Harness) -> None:
    rows = asked(filled, "per=1h", "/v1/streams/noisy/windows")["windows"]
    with Reader.of_file(filled.storage.folder / "streams.db") as reader:
        found = reader.stream("noisy").figures("1h")
    assert [row["value"] for row in rows] == found.values.ravel().tolist()
    assert [row["low"] for row in rows] == found.low.ravel().tolist()
    assert [row["high"] for row in rows] == found.high.ravel().tolist()
    assert [row["status"] for row in rows] == np.repeat(found.shown_status, 2).tolist()


def test_as_csv(filled: Harness) -> None:
    reply = filled.request("GET", f"{PATH}?per=1d", accept="text/csv")
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert reply.headers["content-type"].startswith("text/csv")
    assert [(row["key"], row["partial"]) for row in rows] == [("a", "true"), ("b", "true")] * 2
    assert list(rows[0]) == list(COLUMNS)


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
@pytest.mark.parametrize("stream", ["noisy", "vienna"])
def test_the_command_line_writes_the_same_tables(
    filled: Harness, given: dict[str, str], stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for route, query in (
        ("releases", {}),
        ("windows", {"per": "1h"}),
        ("windows", {"per": "1d"}),
    ):
        asked = urllib.parse.urlencode({**query, **given})
        reply = filled.request("GET", f"/v1/streams/{stream}/{route}?{asked}", accept="text/csv")
        words = ["streams", "export", stream, "--state", str(filled.storage.folder)]
        words += [word for name, value in given.items() for word in (f"--{name}", value)]
        words += ["--per", query["per"]] if query else []
        assert main(words) == 0
        assert capsys.readouterr().out == reply.body.decode()
        assert reply.body.count(b"\n") > 1 or given


def test_before_the_first_tick(tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create()
        assert asked(harness, "per=1h")["windows"] == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "per must be the length of a window"),
        ("per=day", "per must be the length of a window"),
        ("per=90s", "per must be made of whole ticks"),
        ("per=1s", "per must be made of whole ticks"),
        ("per=5000y&since=2020-01-01T00:00:00Z", "per must be at most 1,000 years"),
        ("per=51795y", "per must be the length of a window"),
        ("per=1h&since=yesterday", "since must be a time with its zone"),
        ("per=1h&limit=3", ""),
        ("per=1h&per=1d", ""),
        (f"per={'1' * 40}h", "per must be the length of a window"),
    ],
)
def test_bad_queries_in_one_line(filled: Harness, query: str, words: str) -> None:
    reply = filled.request("GET", f"{PATH}?{query}")
    assert reply.status == 400 and words in reply.json()["detail"]


def test_too_many_rows_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with Harness(tmp_path, public=True) as harness:
        harness.create(keys=[f"k{each}" for each in range(4000)])
        harness.close_tick(200)
        reply = harness.request("GET", f"{PATH}?per=1h")
        assert reply.status == 400 and "at most 10,000 windows" in reply.json()["detail"]
        assert len(asked(harness, "per=1h&key=k7")["windows"]) == 4


def test_unknown_keys(filled: Harness) -> None:
    assert filled.request("GET", f"{PATH}?per=1h&key=c").status == 404
