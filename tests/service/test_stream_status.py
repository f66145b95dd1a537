"""Where streams stand: the status route, the gauges, and the dashboard and alert rules that are
made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

import fadecount as fc
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
    until = harness.stream("doors").ticks.shown(harness.stream("doors").last_tick + 1)  # type: ignore[operator]
    one = harness.request("GET", "/v1/streams/doors", token=harness.admin).json()
    assert one == {**doors, "keys": ["a", "b"]}, "the list and the single stream say the same"
    fields = ("state", "key_count", "keys", "retain_seconds", "published_through", "open_start")
    assert [doors[each] for each in fields] == ["running", 2, [], None, until, until]
    assert (doors["lag_seconds"], doors["histories"], doors["unit_text"]) == (0, 1, "one event")
    assert short["lag_seconds"] == 0 and short["published_through"] < until
    assert gauges(harness)["fadecount_streams"]["ended",] == 1


def test_a_late_stream_and_a_wrong_clock_show(harness: Harness) -> None:
    harness.close_tick()
    harness.clock.moment += 30 * 86400  # type: ignore[attr-defined]
    wait_for(lambda: status(harness)["doors"]["state"] == "clock ahead")
    assert 30 * 86400 - 60 <= status(harness)["doors"]["lag_seconds"] <= 30 * 86400
    found = gauges(harness)["fadecount_streams"]
    assert (found["clock ahead",], found["running",], found["refused",]) == (1, 0, 0)


def test_pages_and_who_may_see_them(harness: Harness) -> None:
    harness.create("gates")
    first = harness.request("GET", "/v1/streams?limit=1", token=harness.admin).json()
    assert [each["name"] for each in first["streams"]] == ["doors"] and first["next"] == "doors"
    second = harness.request(
        "GET", "/v1/streams?limit=1&cursor=doors", token=harness.token("reader")
    ).json()
    assert [each["name"] for each in second["streams"]] == ["gates"] and second["next"] is None
    odd = harness.request("GET", f"/v1/streams?cursor={'x' * 129}", token=harness.admin)
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
