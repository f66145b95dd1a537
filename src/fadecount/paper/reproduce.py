"""Writes everything into one folder: figures, tables, measurements, report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fadecount.checks import require_integer
from fadecount.errors import ParameterError, bad_parameter
from fadecount.paper.beside import BESIDE
from fadecount.paper.figures import FIGURES
from fadecount.paper.measured import measure, measured_section, trials
from fadecount.paper.report import Section, page
from fadecount.paper.table import table_section

ALIASES = {"fig1a": "fig2a", "fig1b": "fig3"}
PARTS = (*FIGURES, "table1", "measured", *BESIDE)
"""Everything there is to make: in the paper's order, and then what is not in the paper."""
_FIGURE_WORK = 5e7  # a figure takes about as long as so many steps of noise


def wanted_parts(names: Sequence[str]) -> tuple[str, ...]:
    """The requested parts, in order; all of them if none is named."""
    for name in names:
        if name not in (*ALIASES, *PARTS):
            bound = f"one of {', '.join((*ALIASES, *PARTS))}"
            raise bad_parameter("only", name, bound, "separate several with commas")
    chosen = {ALIASES.get(name, name) for name in names}
    return tuple(part for part in PARTS if part in chosen or not names)


def fair_runs(runs: int) -> int:
    """The number of runs, or a clear refusal: one run has no spread."""
    remedy = "it is how often each mechanism runs with real noise; 200 give a fair interval"
    return require_integer("runs", runs, minimum=2, maximum=10**6, remedy=remedy)


def work(parts: Sequence[str], runs: int) -> float:
    """How much there is to do, in steps of noise, for a progress bar."""
    steps = sum(trial.runs * trial.row.horizon for trial in trials(runs))
    return steps * ("measured" in parts) + _FIGURE_WORK * len(parts)


def prepare_folder(path: Path, *, force: bool) -> None:
    """Make the folder, or refuse: one that cannot be written to, or one with something in it,
    unless forced."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    else:
        reason = "" if os.access(path, os.W_OK) else "no permission"
    if reason:
        raise bad_parameter("out", str(path), "a writable folder", reason)
    if not force and any(path.iterdir()):
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
    make: dict[str, Callable[[], Section]] = {
        **FIGURES,
        **BESIDE,
        "table1": table_section,
        "measured": lambda: measured_section([measure(trial, advance) for trial in trials(runs)]),
    }
    sections = []
    for part in parts:
        sections.append(make[part]())
        sections[-1].write(folder)
        advance(_FIGURE_WORK)
    report = folder / "report.html"
    report.write_text(page(sections, folder), encoding="utf-8")
    return report
