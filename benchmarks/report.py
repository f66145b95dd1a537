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
    """A figure, and the bound that it must keep: an upper one, unless ``at_least``."""

    name: str
    value: float
    must: float
    unit: str = ""
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.must if self.at_least else self.value <= self.must


def show(results: Sequence[Result], checks: Sequence[Check], leaks: Sequence[Correlation]) -> str:
    """The tables that go to the screen."""
    rows = [("what, per item", "median ns", "fastest", "slowest", "floors")]
    rows += [
        (r.name, f"{r.median:,.2f}", f"{r.fastest:,.2f}", f"{r.slowest:,.2f}", f"{r.floors:,.3g}")
        for r in results
    ]
    bounds = [("bound", "measured", "must", "")]
    for check in checks:
        must = f"{'>=' if check.at_least else '<='} {check.must:,g}"
        measured = f"{check.value:,.3g}{check.unit}"
        bounds.append((check.name, measured, must, "kept" if check.kept else "MISSED"))
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
