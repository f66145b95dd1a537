"""A mechanism in a notebook: well-formed, escaped, with losses that are never too small."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import pytest

import fadecount as fc
from tests.mechanisms.examples import EXAMPLES

ALL = [each for found in EXAMPLES.values() for each in found]


@pytest.mark.parametrize("mechanism", ALL, ids=repr)
def test_it_is_one_well_formed_table(mechanism: fc.Mechanism) -> None:
    page = mechanism._repr_html_()
    figure = ElementTree.fromstring(page)  # noqa: S314
    assert figure.tag == "figure"
    assert figure.findtext("figcaption/code") == repr(mechanism)
    rows = [[cell.text or "" for cell in row] for row in figure.iter("tr")][1:]
    assert rows[0][0] == "0 (at once)"
    for age, loss in rows:
        steps = int(age.split()[0].replace(",", ""))
        assert float(loss) >= mechanism.loss(steps) * (1.0 - 2.0**-46)


def test_a_mechanism_that_ends_is_shown_to_its_end() -> None:
    assert "100 steps" in fc.Binary(1.0, 100 + 1)._repr_html_()
    assert "1,000 steps" not in fc.Binary(1.0, 101)._repr_html_()
    assert "at once" in fc.Binary(1.0, 1)._repr_html_()


def test_ages_are_in_human_time_where_the_step_is_known() -> None:
    page = fc.Gradual(0.1, planned_tick_seconds=60)._repr_html_()
    assert "1 step (1 minute)" in page


def test_an_unlimited_loss_is_shown() -> None:
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
