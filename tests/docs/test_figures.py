"""Figures in the text of the pages, which no example prints, are computed here: a page may not
state another one."""

from __future__ import annotations

import math
import re

import pytest

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
    mechanism, planned = fc.Gradual(0.125), fc.plan({24: 0.5, 720: 1.0, 8760: 2.0}, tick=3600)
    plan = next(each.mechanism for each in planned.options if each.name == "gradual 1")
    assert f"right to within {mechanism.window_interval(0, 8760)}." in read("README.md")
    assert f"e^1.75 = {math.ceil(10 * math.exp(mechanism.loss(8760))) / 10}" in read("README.md")
    error, width = plan.mse(8760) ** 0.5, plan.window_interval(0, 336)
    page = read("README.md")
    assert (
        f"a typical error is {error:.0f}." in page
        and f",main,3068,{3068 - width},{3068 + width}" in page
    )
    starts = {hours: range(0, 8760 - hours, hours) for hours in (24, 720)}
    variances = [
        [float(plan.window_variance(start, start + hours)) for start in starts[hours]]
        for hours in starts
    ]
    day, month = (math.sqrt(sum(each) / len(each)) for each in variances)
    assert f"of a day will be {day:.0f} visits ({day / 250:.0%})".replace("%", " %") in read(
        "docs/tutorial.md"
    )
    assert f"that of a month {month:.0f} ({month / 7500:.1%})".replace("%", " %") in read(
        "docs/tutorial.md"
    )


def test_the_certainties_are_rounded_up() -> None:
    found = rows("docs/epsilon.md", "You are counted")
    assert len(found) == 5
    for epsilon, *shown in found:
        odds = math.exp(float(epsilon))
        exact = (odds, 100 * odds / (1 + odds), 100 * odds / (99 + odds))
        for cell, value in zip(shown, exact, strict=True):
            number = cell.removesuffix(" %")
            assert value <= float(number) < value + 10.0 ** -len(number.partition(".")[2])


@pytest.mark.parametrize("number", range(5))
def test_gaussian_and_pure_designs(number: int) -> None:
    promises = [(4096, {4096: 1.0}), (65_536, {65_536: 1.0}), (525_600, {525_600: 1.0})]
    promises += [(525_600, {60: 0.5, 43_200: 2.0, 525_600: 4.0}), (8760, {24: 1.0, 8760: 3.0})]
    horizon, targets = promises[number]
    pure, gaussian = (
        fc.design(targets, horizon=horizon, delta=delta).mse(horizon) ** 0.5
        for delta in (None, 1e-9)
    )
    assert rows("docs/measurements.md", "Gaussian counters")[number][1:] == [
        f"{pure:.1f}",
        f"{gaussian:.1f}",
        f"{gaussian / pure:.2f}",
    ]
