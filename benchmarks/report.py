"""The results as a table on the screen, as JSON and as a picture."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.leaks import Correlation
from benchmarks.measure import Result


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


def plot(folder: Path, results: Sequence[Result], growth: Sequence[dict[str, Any]]) -> None:
    """Two pictures in one: what an item costs everywhere, and what it costs as the stream grows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (bars, line) = pyplot.subplots(
        1, 2, figsize=(12, 4.8), width_ratios=(3, 2), layout="constrained"
    )
    ordered = sorted(results, key=lambda each: each.median, reverse=True)
    colours = ["tab:blue" if each.ours else "tab:gray" for each in ordered]
    bars.barh([each.name for each in ordered], [each.median for each in ordered], color=colours)
    bars.set_xscale("log")
    bars.set_xlim(0.5, 12.0 * ordered[0].median)
    for at, each in enumerate(ordered):
        bars.text(
            each.median * 1.12,
            at,
            f"{each.median:,.3g} ns" if each.median < 100 else f"{each.median:,.0f} ns",
            va="center",
            fontsize=8,
        )
    bars.set_xlabel("processor time per item, nanoseconds (logarithmic)")
    bars.set_title("fadecount (blue) beside the floor and other libraries")
    line.plot(
        [each["items"] for each in growth], [each["ns_per_item"] for each in growth], marker="o"
    )
    line.set_xscale("log")
    line.set_ylim(bottom=0)
    line.set_xlabel("items in the stream")
    line.set_ylabel("nanoseconds per item")
    line.set_title("cost does not grow with the stream")
    figure.savefig(folder / "speed.png", dpi=120)
    pyplot.close(figure)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(each.rjust(width) for each, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join(
        [lines[0].rstrip(), "-" * len(lines[0]), *(each.rstrip() for each in lines[1:])]
    )
