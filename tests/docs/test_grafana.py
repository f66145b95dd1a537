"""The panel of the page on Grafana fits what the service answers: selectors, types, times."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from tests.docs.pages import ROOT
from tests.service.harness import Harness

PAGE = (ROOT / "docs" / "grafana.md").read_text(encoding="utf-8")
KINDS: dict[str, tuple[type, ...]] = {"number": (int, float), "string": (str, type(None))}
BLOCKS = fc.Blocks(fc.Level(1, 0.5), fc.Level(24, 0.5, lag=1))


def panel() -> Any:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    return json.loads(text)


def iso(seconds: float) -> str:
    """As Grafana writes ``${__from:date:iso}``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.fixture
def visits(tmp_path: Path) -> Any:
    with Harness(tmp_path, public=True) as harness:
        harness.create("visits", mechanism=BLOCKS, tick="1h")
        harness.close_tick(50, name="visits")
        yield harness


def test_the_panel_reads_a_real_answer(visits: Harness) -> None:
    (target,) = panel()["targets"]
    now = visits.clock.now()
    path = target["url"].replace("${__from:date:iso}", iso(now - 7 * 86400))
    answer = visits.request("GET", path.replace("${__to:date:iso}", iso(now))).json()
    rows = answer[target["root_selector"]]
    assert len(rows) == 3
    for row in rows:
        for column in target["columns"]:
            value = row[column["selector"]]
            if column["type"] == "timestamp":  # the plugin reads RFC 3339 by itself
                assert datetime.fromisoformat(value).tzinfo is not None
            else:
                assert isinstance(value, KINDS[column["type"]])
    names = {column["text"] for column in target["columns"]}
    changed = {each["matcher"]["options"] for each in panel()["fieldConfig"]["overrides"]}
    assert changed <= names


def test_the_other_queries_of_the_page_are_answered(visits: Harness) -> None:
    base = panel()["targets"][0]["url"].split("&since")[0]
    one = base.replace("together=true", "key=a")
    paths = [one, *re.findall(r"`(/v1/[^`]*)`", PAGE), f"{base}&as_of={iso(visits.clock.now())}"]
    assert len(paths) == 3
    for path in paths:
        rows = visits.request("GET", path).json()["figures"]
        assert rows and {"start", "value", "low", "high", "key"} <= set(rows[0])
