"""Figures in the text of the pages, which no example prints, are computed here: a page may not
state another one."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from benchmarks import promise

import fadecount as fc
from tests.docs.pages import read

RIVALS = re.compile(r"OpenDP|jax-privacy|TF Privacy|diffprivlib|Opacus")


def rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table behind a heading, without its head."""
    table = read(page).partition(f"## {heading}\n")[2].partition("\n|")[2].partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]
    ]


def test_the_readme_has_no_figures_of_other_tools() -> None:
    lines = [line for line in read("README.md").splitlines() if RIVALS.search(line)]
    assert lines and [line for line in lines if re.search(r"\d", RIVALS.sub("", line))] == []


def test_the_noise_of_the_readme() -> None:
    plan = fc.plan({24: 0.5, 720: 1.0, 8760: 2.0}, tick=3600)
    blocks = plan.mechanism
    assert isinstance(blocks, fc.Blocks)
    gradual = next(each.mechanism for each in plan.options if each.name == "gradual 1")
    days = [gradual.window_interval(start, start + 24) for start in range(0, 8736, 24)]
    page = read("README.md")
    hour, day = blocks.figure_interval(0), blocks.figure_interval(1, 1)
    assert f"right to within {hour} in 95 of 100 cases, and a day's count to within {day}," in page
    ends, later, last = (blocks.figure_interval(1, stage) for stage in range(3))
    assert f"± {ends} when the day ends, ± {later} a day later, ± {last} a month later" in page
    assert f"right to within ± {day}," in page and f"drowns in ± {day}." in page
    assert f"give about ± {round(sum(days) / len(days), -1):.0f}." in page
    assert f"e^2 = {math.ceil(10 * math.exp(blocks.loss(8760))) / 10}" in page
    assert f",main,228,{228 - day},{228 + day},revised" in page


def test_the_tables_of_one_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert promise.main(["--out", str(tmp_path)]) == 0
    made = json.loads((tmp_path / "promise.json").read_text(encoding="utf-8"))["rows"]
    columns = ("total", "so_far", "hour", "day", "month", "final_month")

    def shown(value: float | None) -> str:
        return "\N{EN DASH}" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}"

    figures = {row["name"]: [shown(row[each]) for each in columns] for row in made}
    table = read("docs/measurements.md").partition("| construction | total |")[2].splitlines()[2:]
    for line in table[: table.index("")]:
        name, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        if "jax-privacy" not in name:  # a library that is not installed for the tests
            assert cells == figures[name.replace("(δ)", "(delta)")]
    refreshed = next(name for name in figures if name.startswith("refresh ("))
    minutes = int(re.sub(r"\D", "", refreshed.partition("minutes")[0]))
    beside = rows("README.md", "Beside what people do instead")
    assert f"refreshed every {minutes / 1440:.0f} days" in beside[4][0]
    (figures["BLT"],) = (
        [cell.strip() for cell in line.strip("| ").split("|")][1:]
        for line in table
        if "jax-privacy" in line
    )
    renewed = [("day", 15), ("month", 18)]
    names = [
        "blocks, for all",
        "one draw a day (an hour late; total of whole days)",
        *(f"refresh by {each}, one draw each (arity {arity})" for each, arity in renewed),
        refreshed,
        "tree, totals only (arity 8)",
        *(f"tree, negative digits (arity 16{late})" for late in ("", ", an hour late")),
        next(name for name in figures if name.startswith("the paper")),
        "Gaussian, square root (delta)",
        "BLT",
    ]
    for (_, *cells), name in zip(beside, names, strict=True):
        plain = [cell.replace("*", "").partition(",")[0] for cell in cells]
        assert plain == figures[name][:5]
    assert beside[0][-1].endswith(f"then {figures[names[0]][-1]}")
    for column in range(5):  # the best is bold
        values = {name: figures[name][column] for name in names}
        best = min(float(each) for each in values.values() if each != "\N{EN DASH}")
        (bold,) = (row[1 + column] for row in beside if row[1 + column].startswith("**"))
        assert float(bold.strip("*").partition("*")[0]) == best


@pytest.mark.parametrize(("arity", "height"), [(2, 6), (3, 4), (5, 3)])
def test_the_loss_of_the_totals_of_a_tree(arity: int, height: int) -> None:
    """A node is in all totals from its end until its parent ends."""
    steps, variables = arity**height - 1, []
    for size in (arity**level for level in range(height)):
        for end in range(size, steps + 1, size):
            parent = -(-end // (arity * size)) * arity * size
            variables += [(end, min(parent - 1, steps), 1.0)] if end < parent else []
    tree = fc.Intervals(tuple(variables))
    for age in range(steps):
        assert tree.loss(age) == promise.nodes_lost(arity, age, height)


def test_the_figures_of_a_plan() -> None:
    blocks = fc.plan({24: 0.5, 720: 1.0, 8760: 2.0}, tick=3600).mechanism
    assert isinstance(blocks, fc.Blocks)
    stages = [
        (f"± {blocks.figure_interval(level, stage)}", f"{blocks.loss(each.lag):g}")
        for level, size in enumerate(blocks.levels)
        for stage, each in enumerate(size.stages)
    ]
    assert [tuple(row[-2:]) for row in rows("docs/tutorial.md", "2. The plan")] == stages
    end, later, last = (each for each, _ in stages[1:4])
    page = read("docs/figures.md")
    assert f"a day is {end} when it ends, {later} a day later and {last} a month later" in page


def test_the_certainties_are_rounded_up() -> None:
    found = rows("docs/epsilon.md", "You are counted")
    assert len(found) == 5
    for epsilon, *shown in found:
        odds = math.exp(float(epsilon))
        exact = (odds, 100 * odds / (1 + odds), 100 * odds / (99 + odds))
        for cell, value in zip(shown, exact, strict=True):
            number = cell.removesuffix(" %")
            assert value <= float(number) < value + 10.0 ** -len(number.partition(".")[2])
