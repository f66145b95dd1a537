"""The figures: the lines, the ages drawn, and that what the sentences claim is so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadecount.paper.figures import FIGURES, thinned
from fadecount.paper.report import Section
from fadecount.paper.table import LONG, SHORT, rows


@pytest.fixture(scope="module")
def figures() -> dict[str, Section]:
    return {name: make() for name, make in FIGURES.items()}


def losses(figure: Section, label: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found = [np.asarray(curve.losses) for curve in figure.curves if curve.label == label]
    assert len(found) == 1, label
    return found[0]


def test_every_figure_is_whole(figures: dict[str, Section]) -> None:
    assert list(figures) == ["fig2a", "fig2b", "fig2c", "fig3", "fig4a", "fig4b"]
    assert [len(figure.curves) for figure in figures.values()] == [4, 9, 6, 10, 9, 12]
    for name, figure in figures.items():
        ages, horizon = figure.curves[0].ages, LONG if name in ("fig3", "fig4b") else SHORT
        assert (ages[0], ages[-1]) == (0, horizon - 1)
        assert len(ages) == SHORT or horizon == LONG
        labels = [curve.label for curve in figure.curves]
        assert len(set(labels)) == len(labels), name
        assert "{" not in figure.text[0] + figure.parameters
        for curve in figure.curves:
            assert np.all(curve.losses > 0)
            if "empirical" not in curve.label:
                assert np.all(np.diff(curve.losses) >= -1e-12), (name, curve.label)


def test_the_exact_loss_is_nowhere_above_the_others(figures: dict[str, Section]) -> None:
    for figure in figures.values():
        by_label = {curve.label: curve.losses for curve in figure.curves}
        for label, values in by_label.items():
            name, _, kind = label.rpartition(", ")
            if kind in ("empirical", "theorem", "paper"):
                assert np.all(by_label[f"{name}, exact"] <= values * (1.0 + 1e-12)), (
                    figure.name,
                    label,
                )


def test_what_figure_2a_says(figures: dict[str, Section]) -> None:
    figure = figures["fig2a"]
    exact, closed, theorem, empirical = (
        losses(figure, f"λ = 2, {what}")
        for what in ("exact", "closed form", "theorem", "empirical")
    )
    assert np.all((exact / theorem >= 0.3) & (exact / theorem <= 0.5))
    assert np.all(exact <= empirical * (1.0 + 1e-12))
    assert np.all(empirical <= theorem)
    assert np.any(closed < theorem)
    assert np.all(closed >= exact)
    assert np.any(np.diff(empirical) < 0)


def test_what_figures_3_and_4b_say(figures: dict[str, Section]) -> None:
    fading = rows(LONG, fading=True)[0].computed
    assert (
        "3.90 (λ = 1), 11.9 (λ = 2), 133 (λ = 3), 583 (W = 127), 109 (W = 1023)"
        in figures["fig3"].text[0]
    )
    # The fading loss of exponent 1 rises only at these ages, and no loss ever falls: what holds
    # here holds at every age.
    ages = (1 << np.arange(LONG.bit_length())) - 1
    lost = np.asarray(fading.loss(ages))
    assert np.array_equal(fading.loss(2 * ages[:-1]), lost[:-1])
    for row in rows(LONG, optimal=True):
        assert np.all(lost < np.asarray(row.printed_mechanism.loss(ages)))
        assert np.all(lost < np.asarray(row.computed.loss(ages)))


def assert_room(section: Section) -> None:
    """The legend is outside the data, and no marks overlap."""
    picture = section.drawn()
    picture.draw_without_rendering()
    renderer = picture.canvas.get_renderer()  # type: ignore[attr-defined]
    axes = picture.axes[0]
    legend = picture.legends[0].get_window_extent(renderer)
    assert 0 <= legend.x0 < legend.x1 <= picture.bbox.x1, section.name
    assert legend.y1 < axes.get_window_extent(renderer).y0, section.name
    assert axes.get_window_extent(renderer).height > 0.5 * picture.bbox.height, section.name
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        boxes = [label.get_window_extent(renderer) for label in labels if label.get_text()]
        pairs = ((one, other) for at, one in enumerate(boxes) for other in boxes[:at])
        assert not any(one.overlaps(other) for one, other in pairs), section.name


def test_legends_and_marks_have_room(figures: dict[str, Section]) -> None:
    for section in figures.values():
        assert_room(section)


@given(st.integers(1, 5000), st.integers(5, 60), st.integers(0, 2**32 - 1))
def test_thinned_keeps_the_extremes_of_every_cell(count: int, cells: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    ages = np.arange(count)
    columns = [generator.normal(size=count) for _ in range(2)]
    kept = thinned(ages, columns, cells=cells)
    cell = np.floor(np.log2(ages + 1.0) * (cells / np.log2(ages[-1] + 2.0)))
    assert np.all(np.diff(kept) > 0)
    assert {0, count - 1} <= set(kept.tolist())
    for values in columns:
        for one in np.unique(cell):
            inside = values[cell == one]
            shown = values[kept[cell[kept] == one]]
            assert shown.min() == inside.min()
            assert shown.max() == inside.max()
    assert len(kept) <= (2 + 2 * len(columns)) * (cells + 1)
