"""Curves and counts as pictures, with matplotlib (the extra ``plots``). Nothing here uses pyplot or
its global state.

Curves differ in colour, and also in their marks and dashes. The colours are those of Okabe and Ito
(2008), chosen to stay distinct for every common kind of colour blindness.

>>> import fadecount as fc
>>> from fadecount.plots import Curve, draw_curves, new_figure
>>> fading = fc.Gradual(epsilon=0.1)
>>> figure = new_figure()
>>> draw_curves(figure, [Curve.of(fading, horizon=10**6, label="gradual")], tick_seconds=60)
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fadecount.calendar import Length
from fadecount.durations import UNITS
from fadecount.errors import ParameterError, bad_parameter, missing_extra
from fadecount.mechanisms import Mechanism
from fadecount.planning.published import lost

if TYPE_CHECKING:
    from fadecount.planning import Option, Plan, PublicationPlan
    from fadecount.planning.publication import Series
    from fadecount.planning.publication_plan import PlannedFigure
    from fadecount.planning.published import PublishedFigure

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
except ImportError as _error:
    raise missing_extra("plots", "matplotlib", "plots") from _error

__all__ = [
    "Curve",
    "check_picture",
    "draw_curves",
    "draw_panels",
    "draw_plan",
    "draw_publication",
    "draw_releases",
    "new_figure",
    "save_figure",
    "spread_ages",
]

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
RC: Final[Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "svg.hashsalt": "fadecount",
    "svg.fonttype": "path",
}
SUFFIXES = (".png", ".svg", ".pdf", ".html")
_DPI = 160


def plain_numbers(axes: Axes) -> None:
    """Write the numbers of the vertical axis out, with commas."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))


def new_figure(width: float = 7.2, height: float = 4.8) -> Figure:
    """An empty figure with its size in inches and automatic layout; no global state refers to
    it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_picture(path: str | Path) -> Path:
    """The file of a picture; refused if its ending names no format or its folder does not exist.
    Writes nothing."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        bound = f"a file that ends with {', '.join(SUFFIXES)}"
        raise bad_parameter("plot", str(path), bound, "the ending chooses the format")
    if not target.parent.is_dir():
        bound = "a file in a folder that exists"
        raise bad_parameter("plot", str(path), bound, "make the folder first")
    return target


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write the figure as PNG, SVG, PDF or an HTML page, by the end of its name. The same figure
    gives the same bytes."""
    target = check_picture(path)
    kind = target.suffix.lower()[1:]
    undated: dict[str, Any] = {"png": {}, "pdf": {"CreationDate": None}}.get(kind, {"Date": None})
    buffer = io.BytesIO()
    with matplotlib.rc_context(RC):
        drawn = "svg" if kind == "html" else kind
        figure.savefig(buffer, format=drawn, dpi=_DPI, metadata=undated)
    content = buffer.getvalue()
    if kind == "html":
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>fadecount</title>'
        style = "<style>svg{max-width:100%;height:auto}</style>"
        svg = content[content.index(b"<svg") :]
        content = f"{head}{style}<body>".encode() + svg + b"</body></html>\n"
    try:
        target.write_bytes(content)
    except OSError as error:
        raise ParameterError(
            f"plot must be a writable file, got {str(path)!r} ({error.strerror}); choose another"
            " place"
        ) from error
    return target


# Loss curves
# ------------------------------------------------------------------------------------------------
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X")
KINDS: Final[dict[str, dict[str, Any]]] = {
    "exact": {"linestyle": "-", "linewidth": 2.0},
    "paper": {"linestyle": (0, (5, 2)), "linewidth": 1.3},
    "bound": {"linestyle": (0, (1, 1.4)), "linewidth": 1.4},
    "empirical": {"linestyle": "-", "linewidth": 0.7, "alpha": 0.75},
    "baseline": {"linestyle": (0, (7, 2, 1.5, 2)), "linewidth": 1.8},
}
MARKED: Final = ("exact", "baseline")
"""Kinds that carry the mark of their group; the others have the same colour and run close by."""
_PER_OCTAVE = 32
_SINGLES = 4
"""Columns of a legend in which every line has a colour of its own."""


def spread_ages(horizon: int) -> NDArray[np.int64]:
    """The ages ``0 .. horizon - 1`` that a curve on a logarithmic axis needs: all small ones, then
    32 per doubling.

    On top of these, both sides of every power of two: where the loss of a mechanism with dyadic
    intervals jumps.

    >>> spread_ages(10).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    >>> len(spread_ages(10**18)) < 2500
    True
    """
    octaves = max(1, horizon).bit_length()
    fractions = 1.0 + np.arange(_PER_OCTAVE) / _PER_OCTAVE
    grown = [np.rint(np.ldexp(fractions, octave)).astype(np.int64) for octave in range(octaves)]
    powers = np.int64(1) << np.arange(octaves, dtype=np.int64)
    ages = np.unique(np.concatenate([[0, horizon - 1], *grown, powers - 1, powers, powers - 2]))
    result: NDArray[np.int64] = ages[(ages >= 0) & (ages < horizon)]
    return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """One line of a picture: ``kind`` is its dashes (exact, paper, bound, empirical, baseline),
    ``group`` its colour and mark, such as those of one mechanism."""

    label: str
    ages: NDArray[np.int64]
    losses: NDArray[np.float64]
    kind: str = "exact"
    group: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            bound, remedy = f"one of {', '.join(KINDS)}", "it chooses how the line is drawn"
            raise bad_parameter("kind", self.kind, bound, remedy)

    @classmethod
    def of(
        cls, mechanism: Mechanism, *, horizon: int, label: str, kind: str = "exact", group: int = 0
    ) -> Self:
        """The curve of a mechanism over the ages below a horizon: its exact loss, or the published
        one for ``kind="paper"``."""
        ages = spread_ages(horizon)
        losses = mechanism.paper_loss(ages) if kind in ("paper", "bound") else mechanism.loss(ages)
        return cls(label=label, ages=ages, losses=np.asarray(losses), kind=kind, group=group)


def draw_curves(
    figure: Figure | SubFigure,
    curves: Sequence[Curve],
    *,
    tick_seconds: float | None = None,
    title: str = "",
    logarithmic: bool = True,
    subject: str = "event",
) -> None:
    """Draw loss curves over a logarithmic axis of ages, with the legend below the data: a column
    for each group. With ``tick_seconds``, the length of one step, ages are in human time."""
    with matplotlib.rc_context(RC):
        axes = figure.subplots()
        for curve in curves:
            _draw(axes, curve)
        _age_axis(axes, max(int(curve.ages[-1]) for curve in curves), tick_seconds, subject)
        axes.set_ylabel("privacy loss (epsilon)")
        if logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            low, high = axes.get_ylim()
            if high < 200.0 * low:
                axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        else:
            axes.set_ylim(bottom=0.0)
        plain_numbers(axes)
        axes.set_title(title)
        columns = _by_group(axes, curves)
        count = len(columns) if len(columns[0]) > 1 else min(_SINGLES, len(columns))
        room: dict[str, Any] = {"handlelength": 3.6 if count < 5 else 2.8, "columnspacing": 1.4}
        handles = [line for column in columns for line in column]
        figure.legend(handles=handles, loc="outside lower center", ncols=count, **room)


def _by_group(axes: Axes, curves: Sequence[Curve]) -> list[list[Line2D]]:
    """The lines of each group, with gaps where one has fewer than another."""
    columns: dict[int, list[Line2D]] = {}
    for line, curve in zip(axes.get_lines(), curves, strict=True):
        columns.setdefault(curve.group, []).append(line)
    deepest = max(len(column) for column in columns.values())
    gap = Line2D([], [], linestyle="none", label=" ")
    return [[*column, *[gap] * (deepest - len(column))] for column in columns.values()]


def _draw(axes: Axes, curve: Curve) -> None:
    look: dict[str, Any] = {**KINDS[curve.kind], "zorder": 2.5}
    if curve.kind in MARKED:
        places = _mark_places(curve.ages, curve.group)
        look |= {"marker": MARKS[curve.group % len(MARKS)], "markersize": 5.5, "markevery": places}
        look["zorder"] = 3
    # A loss of 0 cannot be drawn on a logarithmic axis.
    shown = np.where(curve.losses > 0, curve.losses, np.nan)
    look |= {"color": COLOURS[curve.group % len(COLOURS)], "label": curve.label}
    # between two ages the loss of the later one: never below the truth
    axes.plot(curve.ages, shown, drawstyle="steps-pre", **look)


def _mark_places(ages: NDArray[np.int64], group: int) -> list[int]:
    """Places for about six marks, evenly on the logarithmic axis and shifted by group so that marks
    do not hide each other."""
    logs = np.log2(ages + 1.0)
    wanted = (np.arange(6) + 0.25 + 0.12 * (group % 6)) / 6.0 * logs[-1]
    places: list[int] = np.unique(np.searchsorted(logs, wanted).clip(max=len(ages) - 1)).tolist()
    return places


# Plans
# ------------------------------------------------------------------------------------------------
_PLAN_AGES = 96
_MOST_STEPS = 40
_ROOM = 0.42


def draw_plan(figure: Figure | SubFigure, made: Plan, option: Option) -> None:
    """Draw what an option of a plan promises, and what it publishes when, over one axis of time:
    above, the loss of one unit by its age, below the limits that were asked for; below, the figures
    of each length, how long after their end they appear, and how far they may then be from the true
    count (95 %)."""
    request, mechanism = made.request, option.mechanism
    figures, limits = made.published(option), request.limits()
    grid = np.rint(np.geomspace(1, request.horizon, _PLAN_AGES)).astype(np.int64).tolist()
    ages = sorted({0, *grid, *(age for age, _ in limits), *(figure.lag for figure in figures)})
    losses = [lost(mechanism, age, request) for age in ages]
    lengths = list(dict.fromkeys(figure.per for figure in figures))
    with matplotlib.rc_context(RC):
        ratios = (3.0, 0.9 + _ROOM * len(lengths))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
        upper.plot(ages, losses, drawstyle="steps-pre", color=COLOURS[0], linewidth=2.0)
        upper.fill_between(ages, losses, step="pre", color=_BAND, alpha=0.45, linewidth=0)
        begin = 0
        for age, most in sorted(limits):
            upper.hlines(most, begin, age, color=COLOURS[1], linewidth=1.6, linestyle=(0, (4, 2)))
            begin = age
        upper.set_ylim(0.0, 1.12 * max(losses[-1], *(most for _, most in limits)))
        upper.set_ylabel("privacy loss (epsilon)")
        upper.set_title(f"What is lost about one {request.unit.subject}, by its age")
        plain_numbers(upper)
        for place, per in enumerate(lengths):
            stages = [(each.lag, _width(each)) for each in figures if each.per == per]
            _draw_stages(lower, place, stages, _RELEASED)
        lower.set_yticks(range(len(lengths)), lengths)
        lower.set_ylim(len(lengths) - 0.5, -0.7)
        lower.grid(axis="y", visible=False)
        lower.set_title("Figures: when they appear after their end, and how exact they are (95 %)")
        _age_axis(lower, request.horizon, request.tick_seconds, request.unit.subject)
        lower.set_xlabel(
            "age, or time after the end" + ("" if request.tick_seconds else " (steps)")
        )
        handles = [
            Line2D([], [], color=COLOURS[0], linewidth=2.0, label="loss, exact"),
            Line2D([], [], color=COLOURS[1], linestyle=(0, (4, 2)), label="limit asked for"),
        ]
        upper.legend(handles=handles, loc="upper left")


def _draw_stages(axes: Axes, place: int, stages: Sequence[tuple[float, str]], colour: str) -> None:
    """A length of figures with lags and how exact they are: a line from its first stage on, which
    becomes thicker with each."""
    ends = [*(lag for lag, _ in stages[1:]), axes.get_xlim()[1] * 1e12]
    for number, ((lag, exact), end) in enumerate(zip(stages, ends, strict=True)):
        look: dict[str, Any] = {"color": colour, "zorder": 2, "clip_on": True}
        axes.hlines(place, lag, end, linewidth=2.0 + 2.5 * number, **look)
        axes.plot([lag], [place], marker="o", markersize=6, color=colour, zorder=3)
        note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
        axes.annotate(exact, (lag, place), (2, 6), **note)


def _width(figure: PublishedFigure | PlannedFigure) -> str:
    return f"± {figure.half_width:,}"


def draw_publication(plan: PublicationPlan) -> Figure:
    """A picture of the plan of a publication, over one axis of time: above, what everything reveals
    about one unit by its age, below the promise; below, the figures of each measure, how long after
    their end they appear, and how far they may then be from the true count (95 %)."""
    publication = plan.publication
    tick, subject = publication.tick_seconds, publication.unit.subject
    steps = [(seconds / tick, loss) for seconds, loss in plan.losses]
    limits = [(seconds, float(most)) for seconds, most in publication.limits]
    rows = {
        f"{part.measure.name}{', overall' * (part.part == 'overall')}: {per}": (colour, stages)
        for part, series in zip(publication.parts, plan.series, strict=True)
        for colour in [COLOURS[publication.measures.index(part.measure) % len(COLOURS)]]
        for per, stages in _stages_of(plan, series).items()
    }
    lags = [lag for _, stages in rows.values() for lag, _ in stages]
    known = [age for age, _ in steps[:_MOST_STEPS]] + [(age or 0) / tick for age, _ in limits]
    oldest = max(4.0 * max(known + lags), UNITS["w"] / tick)
    figure = new_figure(8.2, 3.6 + _ROOM * len(rows))
    with matplotlib.rc_context(RC):
        ratios = (3.0, 0.9 + _ROOM * len(rows))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=ratios)
        ages = [0.0, *(age for age, _ in steps), oldest * 2]
        losses = [0.0, *(loss for _, loss in steps), steps[-1][1]]
        look: dict[str, Any] = {"color": COLOURS[0], "linewidth": 2.0, "zorder": 3}
        upper.plot(ages, losses, drawstyle="steps-post", **look)
        upper.fill_between(ages, losses, step="post", color=_BAND, alpha=0.45, linewidth=0)
        begin = 0.0
        for age, most in limits:
            end = oldest * 2 if age is None else age / tick
            look = {"color": COLOURS[1], "linewidth": 1.6, "linestyle": (0, (4, 2)), "zorder": 4}
            upper.hlines(most, begin, end, **look)
            begin = end
        upper.set_ylim(0.0, 1.15 * limits[-1][1])
        upper.set_ylabel("privacy loss (epsilon)")
        name = publication.title or publication.name
        upper.set_title(f"{name}: what is lost about one {subject}, by its age")
        plain_numbers(upper)
        handles = [
            Line2D([], [], color=COLOURS[0], linewidth=2.0, label="loss, exact"),
            Line2D([], [], color=COLOURS[1], linestyle=(0, (4, 2)), label="promise"),
        ]
        upper.legend(handles=handles, loc="upper left")
        _age_axis(lower, math.ceil(oldest), tick, subject)
        for place, (colour, stages) in enumerate(rows.values()):
            _draw_stages(lower, place, stages, colour)
        lower.set_yticks(range(len(rows)), [*rows])
        lower.set_ylim(len(rows) - 0.5, -0.8)
        lower.grid(axis="y", visible=False)
        lower.set_title("Figures: when they appear after their end, and how exact they are (95 %)")
        lower.set_xlabel(f"age of the {subject}, or time after a figure's end")
    return figure


def _stages_of(plan: PublicationPlan, series: Series) -> dict[str, list[tuple[float, str]]]:
    """For each length of a series, and for its hidden keys, the lags in ticks and what is exact
    then."""
    tick, stages = plan.publication.tick_seconds, dict[str, list[tuple[float, str]]]()
    for each in plan.figures_of(series):
        length = Length.named(each.per)
        words = each.per if length is None else length.words
        stages.setdefault(words, []).append((each.lag_seconds / tick, _width(each)))
    for shown in plan.hidden_of(series):
        note = f"from {shown.persons_95:,} persons"
        stages.setdefault("hidden keys", []).append((shown.lag_seconds / tick, note))
    return stages


# The axis of ages
# ------------------------------------------------------------------------------------------------
_YEAR = 365 * 86400
_HUMAN = (
    *((1, "1 s"), (60, "1 min"), (3600, "1 hour"), (86400, "1 day"), (30 * 86400, "1 month")),
    *((_YEAR, "1 year"), (10 * _YEAR, "10 years"), (100 * _YEAR, "100 years")),
    *((10**power * _YEAR, f"$10^{{{power}}}$ years") for power in (4, 7, 10, 13)),
)
_LINEAR = 0.6  # decades of room for the step from age 0 to age 1
_APART = 0.12  # of the axis: nearer marks would run into each other


def _age_axis(axes: Axes, oldest: int, tick_seconds: float | None, subject: str) -> None:
    """A logarithmic axis that has room for age 0."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=_LINEAR)
    axes.set_xlim(-0.02, max(2.0, oldest * 1.15))
    marks = _human_marks(oldest, tick_seconds) if tick_seconds else _plain_marks(oldest)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([0.0, *(place for place, _ in marks)], ["0", *(name for _, name in marks)])
    axes.set_xlabel(f"age of the {subject}" if tick_seconds else f"age of the {subject} (steps)")


def _plain_marks(oldest: int) -> list[tuple[float, str]]:
    powers = len(str(oldest * 115 // 100))
    shown = range(0, powers, 1 + powers // 10)
    return [(10.0**n, f"{10**n:,}" if n <= 3 else f"$10^{{{n}}}$") for n in shown]


def _human_marks(oldest: int, tick_seconds: float) -> list[tuple[float, str]]:
    """The marks of human time within the axis, leaving out those too close to the one before."""
    kept: list[tuple[float, str]] = []
    room, last = _APART * (math.log10(oldest + 1.0) + _LINEAR), 0.0
    for seconds, name in _HUMAN:
        age = seconds / tick_seconds
        if 1.0 <= age <= oldest * 1.15 and math.log10(age) + _LINEAR - last >= room:
            kept.append((age, name))
            last = math.log10(age) + _LINEAR
    return kept


# Published counts
# ------------------------------------------------------------------------------------------------
MOST_BARS = 400
MOST_POINTS = 4000
_TRUE, _RELEASED, _BAND = "#000000", COLOURS[0], "#9BC4DF"


def _band(axes: Axes, times: Any, low: Any, high: Any) -> None:
    axes.fill_between(times, low, high, color=_BAND, linewidth=0, label="95 % interval", zorder=1)


def draw_releases(
    figure: Figure | SubFigure,
    times: Sequence[Any] | NDArray[Any],
    released: NDArray[Any],
    true: NDArray[Any],
    *,
    error: NDArray[np.float64] | float,
    title: str = "",
    unit: str = "events",
    label: str = "running count",
) -> None:
    """Draw released and true counts, and below them how far they are apart, in the band that
    ``error`` bounds at each time with probability 95 %. True counts are secret: only their owner
    may see this picture; for others see :func:`draw_panels`."""
    if not len(times) == len(released) == len(true):
        raise ParameterError(
            f"times and true must have one entry per release, {len(released)}; cut them to one"
            " length"
        )
    margin = np.broadcast_to(np.asarray(error, dtype=np.float64), (len(released),))
    with matplotlib.rc_context(RC):
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        upper.plot(times, true, color=_TRUE, linewidth=3.2, label="true", zorder=2)
        look: dict[str, Any] = {"color": COLOURS[4], "linewidth": 1.3, "zorder": 3}
        upper.plot(times, released, label="released", **look)
        _band(lower, times, -margin, margin)
        look = {"color": _RELEASED, "linewidth": 0.6, "zorder": 3}
        lower.plot(times, released - true, label="released minus true", **look)
        lower.axhline(0.0, color=_TRUE, linewidth=1.0, zorder=2)
        for axes, name in ((upper, label), (lower, "error")):
            plain_numbers(axes)
            axes.set_ylabel(f"{name} ({unit})")
        upper.set_title(title)
        figure.legend(loc="outside lower center", ncols=4)


def draw_panels(
    figure: Figure | SubFigure,
    table: Mapping[str, NDArray[Any]],
    keys: Sequence[str],
    *,
    bars: bool,
    zone: str = "UTC",
    title: str = "",
    unit: str = "events",
) -> None:
    """Draw one small picture per key, on one axis of time: running totals with a band, or figures
    as ``bars`` with whiskers.

    ``table`` has the columns of :data:`fadecount.streams.published.Table`. Figures that are
    not final are hatched, and slots that are not over are pale. If there are more points than can
    be seen, an even selection is drawn. More than a few hundred figures become a line with a band.
    """
    columns = 1 if len(keys) < 4 else 2
    panels = [{name: each[table["key"] == key] for name, each in table.items()} for key in keys]
    few = len(panels[0]["start"]) <= MOST_BARS
    with matplotlib.rc_context(RC):
        grid = figure.subplots(-(-len(keys) // columns), columns, sharex=True, squeeze=False)
        for axes, key, panel in zip(grid.flat, keys, panels, strict=False):
            # days since 1970, as matplotlib counts them
            starts, ends = (panel[name] / 86_400 for name in ("start", "end"))
            if bars and few:
                _draw_bars(axes, panel, starts, ends)
            else:
                some = slice(None, None, max(1, -(-len(starts) // MOST_POINTS)))
                times = (starts if bars else ends)[some]
                _band(axes, times, panel["low"][some], panel["high"][some])
                look: dict[str, Any] = {"color": _RELEASED, "linewidth": 1.3, "zorder": 3}
                axes.plot(times, panel["value"][some], label="published", **look)
            axes.xaxis_date()
            # Two marks are enough: with five, three days would need marks between hours and days,
            # and there are none.
            most = 6 if columns > 1 else 9
            locator = AutoDateLocator(minticks=2, maxticks=most, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator, tz=ZoneInfo(zone))  # type: ignore[no-untyped-call]
            axes.xaxis.set_major_formatter(formatter)
            plain_numbers(axes)
            if len(keys) > 1:
                axes.set_title(key, fontsize=9)
        if len(keys) % columns:  # the panel above a hidden one is the last of its column
            grid[-1, -1].set_visible(False)
            grid[-2, -1].tick_params(labelbottom=True)
            grid[-2, -1].xaxis.offsetText.set_visible(True)
        figure.supylabel(unit, fontsize=10)
        if title:
            figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)


def _draw_bars(axes: Axes, panel: Mapping[str, NDArray[Any]], starts: Any, ends: Any) -> None:
    widths, cut, final = 0.8 * (ends - starts), panel["partial"], panel["status"] == "final"
    for chosen, label, look in (
        (~cut & final, "final", {}),
        (~cut & ~final, "provisional or revised", {"hatch": "////", "edgecolor": "white"}),
        (cut, "so far, or not from its beginning", {"alpha": 0.45}),
    ):
        if chosen.any():
            columns = starts[chosen], panel["value"][chosen], widths[chosen]
            axes.bar(*columns, align="edge", color=_RELEASED, label=label, zorder=2, **look)
    whiskers: dict[str, Any] = {"color": _TRUE, "linewidth": 1.0, "zorder": 3}
    middle = starts + widths / 2
    axes.vlines(middle, panel["low"], panel["high"], label="95 % interval", **whiskers)
    axes.axhline(0.0, color=_TRUE, linewidth=0.7, zorder=1)
