"""The results as tables on the screen, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.leaks import Correlation
from benchmarks.measure import Result
from fadecount.cli._output import aligned


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A figure, the bound it must keep and the one it should reach (both upper bounds, unless
    ``at_least``)."""

    name: str
    value: float
    must: float
    goal: float | None = None
    unit: str = ""
    at_least: bool = False

    def keeps(self, bound: float) -> bool:
        return self.value >= bound if self.at_least else self.value <= bound

    @property
    def verdict(self) -> str:
        if not self.keeps(self.must):
            return "MISSED"
        return "goal" if self.goal is not None and self.keeps(self.goal) else "kept"


def show(results: Sequence[Result], checks: Sequence[Check], leaks: Sequence[Correlation]) -> str:
    """The tables that go to the screen."""
    rows = [("what, per item", "median ns", "fastest", "slowest", "floors")]
    rows += [
        (r.name, f"{r.median:,.2f}", f"{r.fastest:,.2f}", f"{r.slowest:,.2f}", f"{r.floors:,.3g}")
        for r in results
    ]
    sign = {True: ">=", False: "<="}
    bounds = [("bound", "measured", "must", "goal", "")]
    for check in checks:
        goal = "" if check.goal is None else f"{sign[check.at_least]} {check.goal:,g}"
        must = f"{sign[check.at_least]} {check.must:,g}"
        bounds.append((check.name, f"{check.value:,.3g}{check.unit}", must, goal, check.verdict))
    times = [("time of a draw against |noise|", "samples", "rank correlation", "chance (99 %)")]
    times += [
        (each.name, f"{each.samples:,}", f"{each.correlation:+.4f}", f"{each.chance:.4f}")
        for each in leaks
    ]
    return "\n\n".join(_table(each) for each in (rows, bounds, times))


def save(folder: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, default=dataclasses.asdict)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head, *lines = aligned(rows, "<" + ">" * (len(rows[0]) - 1))
    return "\n".join([head, "-" * len(head), *lines])
