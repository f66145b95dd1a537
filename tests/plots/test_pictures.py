"""Pictures: what is drawn, that nothing overlaps, and that no global state is left behind."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import fadecount as fc
from fadecount.errors import ParameterError
from fadecount.plots import (
    COLOURS,
    KINDS,
    MARKS,
    Curve,
    draw_curves,
    draw_panels,
    draw_plan,
    draw_publication,
    draw_releases,
    new_figure,
    save_figure,
)


def drawn(horizon: int = 10**6, tick_seconds: float | None = None, width: float = 7.2) -> Figure:
    figure = new_figure(width, 4.8)
    curves = [
        Curve.of(
            fc.Gradual(epsilon=0.1, exponent=power),
            horizon=horizon,
            label=f"{kind} {power}",
            kind=kind,
            group=at,
        )
        for at, power in enumerate((1.0, 2.0, 3.0))
        for kind in ("exact", "paper")
    ]
    draw_curves(figure, curves, tick_seconds=tick_seconds, title="A title")
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("tick_seconds", [None, 1, 60, 3600, 86400])
@pytest.mark.parametrize("horizon", [10, 1000, 10**6, 10**12, 10**18])
def test_marks_on_the_age_axis_do_not_overlap_and_the_legend_is_outside_the_data(
    horizon: int, tick_seconds: int | None
) -> None:
    figure = drawn(horizon, tick_seconds)
    axes = figure.axes[0]
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [
        label.get_window_extent(renderer) for label in axes.get_xticklabels() if label.get_text()
    ]
    assert len(boxes) >= 1
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    legend = figure.legends[0].get_window_extent(renderer)
    assert legend.y1 < axes.get_window_extent(renderer).y0
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.x1


def test_curves_differ_without_colour() -> None:
    lines = drawn().axes[0].get_lines()
    looks = {
        (line.get_marker(), str(line._unscaled_dash_pattern))  # type: ignore[attr-defined]
        for line in lines
        if line.get_marker() != "None"
    }
    assert len(looks) == 3
    assert len(set(MARKS)) == len(set(COLOURS)) == 7
    assert len({(str(look["linestyle"]), look["linewidth"]) for look in KINDS.values()}) == len(
        KINDS
    )


def test_a_loss_of_nothing_is_left_out() -> None:
    figure = new_figure()
    draw_curves(figure, [Curve.of(fc.Linear(epsilon=1.0), horizon=100, label="linear")])
    values = np.asarray(figure.axes[0].get_lines()[0].get_ydata(), dtype=np.float64)
    assert np.isnan(values[0])
    assert values[1] == 1.0


def test_releases_show_the_truth_and_the_band() -> None:
    figure, true = new_figure(), np.arange(50)
    draw_releases(figure, np.arange(50), true + 3, true, error=10.0)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["true", "released", "95 % interval", "released minus true"]


def test_bad_input_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"ends with \.png"):
        save_figure(new_figure(), tmp_path / "picture.gif")
    with pytest.raises(ParameterError, match="a folder that exists"):
        save_figure(new_figure(), tmp_path / "missing" / "picture.png")
    with pytest.raises(ParameterError, match="kind must be one of exact"):
        Curve.of(fc.Linear(epsilon=1.0), horizon=3, label="", kind="wavy")
    with pytest.raises(ParameterError, match="one entry per release"):
        draw_releases(new_figure(), [1, 2], np.zeros(3), np.zeros(3), error=1.0)


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in ("png", "svg", "pdf", "html"):
        first, second = (
            save_figure(drawn(1000), tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab"
        )
        assert first == second
    assert first.count(b"<svg") == 1 and first.endswith(b"</body></html>\n")


def test_pyplot_is_never_imported() -> None:
    code = "import sys, fadecount.plots; print('matplotlib.pyplot' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )


def panels(keys: list[str]) -> Figure:
    """Two days of each key, of which the second is not final."""
    start, size = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()), 2 * len(keys)
    begins = np.repeat([start, start + 86_400], len(keys))
    counts = np.arange(size)
    table = {
        "start": begins,
        "end": begins + 86_400,
        "key": np.tile(np.array(keys, dtype=object), 2),
        "value": counts,
        "low": counts - 1,
        "high": counts + 1,
        "status": np.repeat(np.array(["final", "provisional"], dtype=object), len(keys)),
        "partial": np.zeros(size, dtype=np.bool_),
    }
    figure = new_figure()
    draw_panels(figure, table, keys, bars=True)
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_the_last_panel_of_each_column_has_times(count: int) -> None:
    """Also where the last row has one panel only."""
    figure = panels([f"k{at}" for at in range(count)])
    columns: dict[float, list[tuple[float, bool]]] = {}
    for axes in figure.axes:
        if axes.get_visible():
            box = axes.get_position()
            shown = any(
                label.get_visible() and label.get_text() for label in axes.get_xticklabels()
            )
            columns.setdefault(round(box.x0, 1), []).append((box.y0, shown))
    assert len(columns) == (1 if count < 4 else 2)
    for panels_of_column in columns.values():
        assert next(shown for _, shown in sorted(panels_of_column))


def test_figures_that_are_not_final_look_different() -> None:
    figure = panels(["a"])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"final", "provisional or revised", "95 % interval"} == set(labels)
    hatches = [patch.get_hatch() for patch in figure.axes[0].patches]
    assert hatches == [None, "////"]


@pytest.mark.parametrize("hours", [2, 30, 47, 60, 72, 100, 24 * 45, 24 * 365, 24 * 700])
def test_any_span_of_time_has_marks(tmp_path: Path, hours: int) -> None:
    """matplotlib warns where its list of distances has none that fits; a warning fails a test."""
    start = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp())
    keys = ["a", "b", "c", "d"]
    counts = np.repeat([1, 2], len(keys))
    table = {
        "start": np.repeat(start, 2 * len(keys)),
        "end": np.repeat([start + 3600, start + 3600 * (hours + 1)], len(keys)),
        "key": np.tile(np.array(keys, dtype=object), 2),
        "value": counts,
        "low": counts - 1,
        "high": counts + 1,
        "status": np.repeat(np.array(["final"], dtype=object), 2 * len(keys)),
        "partial": np.zeros(2 * len(keys), dtype=np.bool_),
    }
    figure = new_figure()
    draw_panels(figure, table, keys, bars=False)
    save_figure(figure, tmp_path / "panels.svg")


@pytest.mark.parametrize("option", range(3))
@pytest.mark.parametrize("unit", [fc.Unit(), fc.Unit(of="person", events=2, per="1d")])
def test_a_plan_is_drawn_as_it_is(option: int, unit: fc.Unit, tmp_path: Path) -> None:
    """Each stage of each figure stands at its lag with its half width, and the loss that is drawn
    is that of the plan: at most the limit that is drawn above it."""
    made = fc.plan({"1d": 1.0, "30d": 2.0, "1y": 4.0}, tick="1h", unit=unit)
    figure = new_figure()
    draw_plan(figure, made, made.options[option])
    upper, lower = figure.axes
    published = made.published(made.options[option])
    notes = [(note.xy[0], note.get_text()) for note in lower.texts]  # type: ignore[attr-defined]
    assert notes == [(each.lag, f"± {each.half_width:,}") for each in published]
    ages, losses = (np.asarray(each) for each in upper.get_lines()[0].get_data())
    curve = dict(made.options[option].curve)
    shown = dict(zip(ages.tolist(), losses.tolist(), strict=True))
    for age, most in made.request.limits():
        assert shown[age] == curve[age] <= most
        before = ages <= age
        assert losses[before].max() <= most
    save_figure(figure, tmp_path / "plan.svg")


def test_a_publication_shows_each_figure_its_stages_and_the_promise() -> None:
    rides = fc.Publication(
        name="rides",
        zone="UTC",
        start="2026-03-01",
        unit=fc.Unit(of="person", per="1d"),
        promise={"7d": 2, "ever": 4},
        delta=1e-9,
        measures=(
            fc.Measure(name="rides", per=("1h", "1d"), key=("s",), keys=("n",), overall=True),
            fc.Measure(name="pages", count="persons", key=("page",), discover=True),
        ),
    )
    plan = rides.plan()
    figure = draw_publication(plan)
    upper, lower = figure.axes
    assert [each.get_text() for each in lower.get_yticklabels()] == [
        "rides: hour",
        "rides: day",
        "rides, overall: hour",
        "rides, overall: day",
        "pages: hidden keys",
    ]
    notes = [each.get_text() for each in lower.texts]
    assert notes[:2] == [f"± {each.half_width}" for each in plan.figures[:2]]
    assert notes[-1] == f"from {plan.hidden[-1].persons_95} persons"
    ages, losses = (np.asarray(each, dtype=np.float64) for each in upper.get_lines()[0].get_data())
    assert [*zip(ages * 3600, losses, strict=True)][1:-1] == plan.losses
    assert losses[-1] == plan.loss("ever")
