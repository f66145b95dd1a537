"""Where streams stand: the status route, the gauges, and the dashboard and alert rules that are
made of them."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import fadecount as fc
from fadecount.service import read_routes
from tests.service.harness import Harness, wait_for

DEPLOY = Path(__file__).parents[2] / "deploy"


def gauges(harness: Harness) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples of ``/metrics``, read by the library's own parser: by name, then by
    labels."""
    text = harness.request("GET", "/metrics", token=harness.admin).body.decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, {})
        for sample in family.samples:
            found.setdefault(sample.name, {})[
                tuple(sample.labels[name] for name in sorted(sample.labels, reverse=True))
            ] = sample.value
    return found


def status(harness: Harness) -> dict[str, dict[str, Any]]:
    page = harness.request("GET", "/v1/streams", token=harness.admin).json()
    return {each["name"]: each for each in page["streams"]}


def test_the_status_of_streams(harness: Harness) -> None:
    assert status(harness)["doors"]["published_through"] is None
    harness.create("short", mechanism=fc.Binary(epsilon=1.0, horizon=2))
    harness.close_tick(2)
    wait_for(lambda: status(harness)["short"]["state"] == "ended")
    harness.close_tick()
    doors, short = status(harness)["doors"], status(harness)["short"]
    until = harness.stream("doors").ticks.local(harness.stream("doors").last_tick + 1)
    one = harness.request("GET", "/v1/streams/doors", token=harness.admin).json()
    assert one == {**doors, "keys": ["a", "b"]}, "the list and the single stream say the same"
    fields = ("state", "key_count", "keys", "retain_seconds", "published_through", "open_start")
    assert [doors[each] for each in fields] == ["running", 2, [], None, until, until]
    assert (doors["lag_seconds"], doors["unit_text"]) == (0, "one event")
    assert short["lag_seconds"] == 0 and short["published_through"] < until
    assert gauges(harness)["fadecount_streams"]["ended",] == 1


BLOCKS = fc.Blocks(
    fc.Level(10, 0.25),
    fc.Level(60, 0.5, lag=20),
    fc.Level(1440, 0.75, lag=60, later=((100, 1.0),)),
)


def test_stages_cost_a_day_what_is_lost_since_it_began(harness: Harness) -> None:
    """When the last ten minutes of a day are out, its first ones are a day old."""
    with harness.client() as client:
        for name, zone, unit in (
            ("events", "UTC", None),
            ("days", "UTC", {"of": "person", "per": "1d"}),
            ("local_days", "Europe/Vienna", {"of": "person", "per": "1d"}),
        ):
            client.create(name, tick="1m", zone=zone, mechanism=BLOCKS, keys=["a"], unit=unit)
        events, days, local_days = (
            [stage for level in client.stream(name).levels for stage in level.stages]
            for name in ("events", "days", "local_days")
        )
    assert [each.loss for each in events] == [0.25, 0.75, 1.5, 1.75]
    assert [each.loss for each in days] == 4 * [1.75]
    every = (*events, *days, *local_days)
    hours = [(each.age_seconds - each.lag_seconds) / 3600 for each in every]
    assert hours == [*(4 * [0]), *(4 * [24]), *(4 * [25])], "a local day has up to 25 hours"


def test_levels_say_what_is_published_next_and_what_it_costs(harness: Harness) -> None:
    """The clock begins at 22:13 UTC, which is 23:13 in Vienna, and goes on by minutes."""
    with harness.client() as client:
        client.create("blocks", tick="1m", mechanism=BLOCKS, keys=["a"], zone="Europe/Vienna")
        listed = next(each for each in client.streams() if each.name == "blocks")
        assert [level.per for level in listed.levels] == ["10m", "1h", "1d"]
        assert all(stage.next is None for level in listed.levels for stage in level.stages)
        stages = [stage for level in listed.levels for stage in level.stages]
        assert [(each.status, each.lag_seconds, each.loss) for each in stages] == [
            ("final", 0, 0.25),
            ("final", 1200, 0.75),
            ("provisional", 3600, 1.5),
            ("final", 6000, 1.75),
        ]

        def following() -> list[tuple[str, str, str]]:
            info = client.stream("blocks")
            return [
                (each.next.start[11:16], each.next.end[11:16], each.next.published[11:16])
                for level in info.levels
                for each in level.stages
                if each.next is not None
            ]

        assert following() == [
            ("23:13", "23:20", "23:20"),
            ("23:13", "00:00", "00:20"),
            ("23:13", "00:00", "01:00"),
            ("23:13", "00:00", "01:40"),
        ]
        harness.close_tick(67, name="blocks")  # through 00:20
        assert client.stream("blocks").published_through == "2023-11-15T00:20:00+01:00"
        assert following() == [
            ("00:20", "00:30", "00:30"),
            ("00:00", "01:00", "01:20"),
            ("23:13", "00:00", "01:00"),
            ("23:13", "00:00", "01:40"),
        ]
        assert client.stream("doors").levels == ()


def test_what_is_next_comes_then(harness: Harness) -> None:
    """A figure that is announced for a time is there then, and not a tick before."""
    with harness.client() as client:
        client.create("blocks", tick="1m", mechanism=BLOCKS, keys=["a"], zone="Europe/Vienna")
        for _ in range(4):
            stage = client.stream("blocks").levels[1].stages[0].next
            assert stage is not None
            due = int(datetime.fromisoformat(stage.published).timestamp()) // 60 - 1
            last = harness.stream("blocks").last_tick
            assert last is not None
            harness.close_tick(due - last - 1, name="blocks")
            assert stage.published not in [row.published for row in client.figures("blocks", "1h")]
            harness.close_tick(name="blocks")
            row = next(
                row for row in client.figures("blocks", "1h") if row.published == stage.published
            )
            assert (row.start, row.end) == (stage.start, stage.end)


def test_the_curve_has_the_age_of_each_step(harness: Harness) -> None:
    harness.create("blocks", mechanism=BLOCKS)
    path = "/v1/streams/blocks/privacy"
    curve = harness.request("GET", path, token=harness.admin).json()["curve"]
    losses = [each["loss"] for each in curve]
    grown = [now["age_seconds"] for was, now in pairwise(curve) if now["loss"] > was["loss"]]
    assert losses == sorted(losses) and grown == [1200, 3600, 6000]


def test_a_late_stream_and_a_wrong_clock_show(harness: Harness) -> None:
    harness.close_tick()
    harness.clock.moment += 30 * 86400  # type: ignore[attr-defined]
    wait_for(lambda: status(harness)["doors"]["state"] == "clock ahead")
    assert 30 * 86400 - 60 <= status(harness)["doors"]["lag_seconds"] <= 30 * 86400
    found = gauges(harness)["fadecount_streams"]
    assert (found["clock ahead",], found["running",], found["refused",]) == (1, 0, 0)


def test_pages_and_who_may_see_them(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_routes, "MOST_STREAMS", 1)
    harness.create("gates")
    first = harness.request("GET", "/v1/streams", token=harness.admin).json()
    assert [each["name"] for each in first["streams"]] == ["doors"] and first["next"] == "doors"
    second = harness.request(
        "GET", "/v1/streams?cursor=doors", token=harness.token("reader")
    ).json()
    assert [each["name"] for each in second["streams"]] == ["gates"] and second["next"] is None
    odd = harness.request("GET", f"/v1/streams?cursor={'x' * 201}", token=harness.admin)
    assert odd.status == 400
    own = harness.request("GET", "/v1/streams", token=harness.token("reader", "gates")).json()
    assert [each["name"] for each in own["streams"]] == ["gates"] and own["next"] is None
    assert harness.request("GET", "/v1/streams", token=harness.token("writer")).status == 403
    assert harness.request("GET", "/v1/streams").status == 401


def expressions() -> list[str]:
    """Every query of the alert rules and of the dashboard."""
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))
    found = []
    for group in rules["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert (
                {"alert", "expr", "labels", "annotations"}
                <= set(rule)
                <= {"alert", "expr", "for", "labels", "annotations"}
            )
            assert rule["annotations"]["summary"] and rule["labels"]["severity"] in (
                "page",
                "ticket",
                "info",
            )
            found.append(rule["expr"])
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    return found + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_dashboard_and_alerts_name_metrics_that_exist(harness: Harness) -> None:
    """Parsed by a parser of PromQL that is not ours; every metric named must be one that the
    service shows."""
    promql = pytest.importorskip(
        "promql_parser", reason="promql-parser is not installed: the rules are not parsed"
    )
    harness.close_tick()
    assert harness.request("GET", "/v1/streams", token=harness.admin).status == 200
    known = set(gauges(harness)) | {"up"}
    named: set[str] = set()

    def collect(node: Any) -> None:
        if isinstance(node, promql.VectorSelector):
            named.add(node.name)
        for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
            if getattr(node, name, None) is not None:
                collect(getattr(node, name))
        for each in getattr(node, "args", None) or ():
            collect(each)

    for text in expressions():
        collect(promql.parse(text.replace("$job", "fadecount")))
    assert named <= known, sorted(named - known)
    with pytest.raises(ValueError, match="parenthesis"):
        promql.parse("sum by (fadecount_ready")
