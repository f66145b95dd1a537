"""A mechanism in a notebook: well-formed, escaped, with losses that are never too small."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from itertools import pairwise

import pytest

import fadecount as fc
from tests.mechanisms.examples import EXAMPLES

ALL = [each for found in EXAMPLES.values() for each in found]


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_it_is_one_well_formed_figure(mechanism: fc.Mechanism) -> None:
    page = mechanism._repr_html_()
    figure = ElementTree.fromstring(page)  # noqa: S314
    assert figure.tag == "figure"
    assert figure.findtext("figcaption/code") == repr(mechanism)
    rows = [[cell.text or "" for cell in row] for row in figure.iter("tr")][1:]
    assert rows[0][0] == "0 (at once)"
    for age, loss in rows:
        steps = int(age.split()[0].replace(",", ""))
        assert float(loss) >= mechanism.loss(steps) * (1.0 - 2.0**-46)


@pytest.mark.parametrize("mechanism", [fc.Gradual(0.1, 2.0), fc.Refresh(7, 0.9, 0.2)], ids=repr)
def test_the_line_rises_from_left_to_right(mechanism: fc.Mechanism) -> None:
    paths = re.findall(r'<path d="([^"]+)"', mechanism._repr_html_())
    points = [tuple(map(float, each.split())) for each in re.split("[ML]", paths[1])[1:]]
    assert len(points) > 50
    assert all(one[0] <= other[0] and one[1] >= other[1] for one, other in pairwise(points))


def test_a_mechanism_that_ends_is_drawn_to_its_end() -> None:
    assert "100 steps" in fc.Binary(1.0, 100 + 1)._repr_html_()
    assert "1,000 steps" not in fc.Binary(1.0, 101)._repr_html_()
    assert "at once" in fc.Binary(1.0, 1)._repr_html_()


def test_ages_are_in_human_time_where_the_step_is_known() -> None:
    page = fc.Gradual(0.1, planned_tick_seconds=60)._repr_html_()
    assert "1 step (1 minute)" in page


def test_an_unlimited_loss_has_no_line() -> None:
    page = fc.Designed((math.inf, 1.0))._repr_html_()
    ElementTree.fromstring(page)  # noqa: S314
    assert "<td>inf</td>" in page
    assert "nan" not in page


def test_markup_in_a_parameter_stays_text() -> None:
    @dataclass(frozen=True, slots=True)
    class Loud(fc.Gradual):
        def __repr__(self) -> str:
            return "<script>alert(1)</script>"

    assert "<script" not in Loud(0.1)._repr_html_()


def test_no_mark_of_the_axis_is_cut_off() -> None:
    page = fc.Gradual(0.1)._repr_html_()
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', page)[0])
    place, words = re.findall(
        r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">(10\^\d)<', page
    )[-1]
    assert words == "10^6"
    assert float(place) + len(words) * 5.5 <= width  # half of the widest letters of 11 px
