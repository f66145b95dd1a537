"""Writes everything into one folder: figures, tables, measurements, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fadecount.checks import require_integer
from fadecount.errors import ParameterError, bad_parameter
from fadecount.paper.beside import BESIDE, TABLE_TEXT, loss_rows
from fadecount.paper.figures import ALIASES, FIGURES, drawn, write_csv, write_figure
from fadecount.paper.measured import measure, trials
from fadecount.paper.report import Section, measured_section, page, table_section
from fadecount.plots import svg_text

PARTS = (*FIGURES, "table1", "measured", *BESIDE)
"""Everything there is to make: in the paper's order, and then what is not in the paper."""
FEWEST_RUNS = 2
_FIGURE_WORK = 5e7  # a figure takes about as long as so many steps of noise


def wanted_parts(names: Sequence[str]) -> tuple[str, ...]:
    """The requested parts, in order; all of them if none is named. Figures 1a and 1b are 2a and
    3."""
    chosen = {ALIASES.get(name, name) for name in names}
    for name in names:
        if ALIASES.get(name, name) not in PARTS:
            raise bad_parameter(
                "only",
                name,
                f"one of {', '.join((*ALIASES, *PARTS))}",
                "separate several with commas",
            )
    return tuple(part for part in PARTS if part in chosen or not names)


def fair_runs(runs: int) -> int:
    """The number of runs, or a clear refusal: one run has no spread."""
    remedy = (
        "it is how often each mechanism is run with real noise, at least 200 for a fair interval"
    )
    return require_integer("runs", runs, minimum=FEWEST_RUNS, maximum=10**6, remedy=remedy)


def work(parts: Sequence[str], runs: int) -> float:
    """How much there is to do, in steps of noise, for a progress bar."""
    steps = sum(trial.items for trial in trials(runs)) if "measured" in parts else 0
    return steps + _FIGURE_WORK * len(parts)


def prepare_folder(path: Path, *, force: bool) -> None:
    """Make the folder, or refuse: one that cannot be written to, or one with something in it,
    unless forced."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".fadecount-probe"
        probe.touch()
        probe.unlink()
        occupied = any(path.iterdir())
    except OSError as error:
        raise ParameterError(
            f"out must be a writable folder, got {str(path)!r} ({error.strerror}); choose another"
        ) from error
    if occupied and not force:
        raise ParameterError(
            f"out must be an empty folder, got {str(path)!r}; choose another, or give force to"
            " write into it"
        )


def reproduce(
    folder: Path, parts: Sequence[str], *, runs: int, advance: Callable[[float], None]
) -> Path:
    """Make the parts and the report in an existing folder; returns the path of the report.

    ``runs`` is the number of runs with real noise over 10**6 steps; streams of 10**3 steps get ten
    times as many. ``advance`` is called with the work done, of :func:`work` in all.
    """
    sections = []
    for part in parts:
        if part == "measured":
            section = measured_section([measure(trial, advance) for trial in trials(runs)])
        else:
            section = table_section() if part == "table1" else _figure_section(folder, part)
        if part in ("table1", "measured"):
            write_csv(folder / section.files[0], section.table)
        sections.append(section)
        advance(_FIGURE_WORK)
    report = folder / "report.html"
    report.write_text(page(sections), encoding="utf-8")
    return report


def _figure_section(folder: Path, name: str) -> Section:
    figure = (FIGURES | BESIDE)[name]()
    write_figure(folder, figure)
    return Section(
        name=name,
        heading=f"{figure.number}: {figure.title}",
        text=[figure.sentence, *([TABLE_TEXT] if name in BESIDE else [])],
        table=loss_rows(figure) if name in BESIDE else [],
        picture=svg_text(drawn(figure)),
        parameters=figure.parameters,
        files=[f"{name}.{suffix}" for suffix in ("png", "svg", "csv")],
    )
