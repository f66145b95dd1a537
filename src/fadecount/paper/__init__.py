"""The evaluation of the paper, reproduced with the public library: its figures, its table, and
measurements with real noise, in one folder with a report.

*The paper* is Andersson, Henzinger, Pagh, Steiner and Upadhyay, "Continual Counting with Gradual
Privacy Expiration", NeurIPS 2024.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fadecount.checks import require_integer
from fadecount.errors import ParameterError, bad_parameter
from fadecount.paper.figures import BESIDE, FIGURES, empirical_losses
from fadecount.paper.measured import measure, measured_section, trials
from fadecount.paper.report import Section, page
from fadecount.paper.table import TABLE, TableRow, table_section

__all__ = ["PARTS", "TABLE", "TableRow", "empirical_losses", "reproduce"]

ALIASES = {"fig1a": "fig2a", "fig1b": "fig3"}
PARTS = (*FIGURES, "table1", "measured", *BESIDE)
"""Everything there is to make: in the paper's order, and then what is not in the paper."""
_FIGURE_WORK = 5e7  # a figure takes about as long as so many steps of noise


def reproduce(
    out: Path,
    only: Sequence[str] = (),
    *,
    runs: int = 200,
    force: bool = False,
    advance: Callable[[float], object] = lambda _share: None,
) -> tuple[str, ...]:
    """Make the parts that are named, by default all, and ``report.html`` in a folder; return their
    names, in order.

    ``runs`` is the number of runs with real noise over 10**6 steps; streams of 10**3 steps get ten
    times as many. ``advance`` is called with the share of all work that was done. A folder that is
    not empty is refused, unless with ``force``.
    """
    parts = wanted_parts(only)
    # One run has no spread.
    remedy = "it is how often each mechanism runs with real noise; 200 give a fair interval"
    require_integer("runs", runs, minimum=2, maximum=10**6, remedy=remedy)
    _prepare(out, force=force)
    tried = trials(runs) if "measured" in parts else []
    work = _FIGURE_WORK * len(parts) + sum(trial.runs * trial.row.horizon for trial in tried)

    def done(steps: float) -> None:
        advance(steps / work)

    make: dict[str, Callable[[], Section]] = {
        **FIGURES,
        **BESIDE,
        "table1": table_section,
        "measured": lambda: measured_section([measure(trial, done) for trial in tried]),
    }
    sections = []
    for part in parts:
        sections.append(make[part]())
        sections[-1].write(out)
        done(_FIGURE_WORK)
    (out / "report.html").write_text(page(sections, out), encoding="utf-8")
    return parts


def wanted_parts(names: Sequence[str]) -> tuple[str, ...]:
    """The named parts, in order; all of them if none is named."""
    for name in names:
        if name not in (*ALIASES, *PARTS):
            bound = f"one of {', '.join((*ALIASES, *PARTS))}"
            raise bad_parameter("only", name, bound, "separate several with commas")
    chosen = {ALIASES.get(name, name) for name in names}
    return tuple(part for part in PARTS if part in chosen or not names)


def _prepare(folder: Path, *, force: bool) -> None:
    """Make the folder, or refuse: one that cannot be written to, or one with something in it,
    unless forced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = None if os.access(folder, os.W_OK) else "no permission"
    except OSError as error:
        reason = error.strerror
    if reason:
        raise bad_parameter("out", str(folder), "a writable folder", reason)
    if not force and any(folder.iterdir()):
        raise ParameterError(
            f"out must be an empty folder, got {str(folder)!r}; choose another, or write"
            " into it with force=True"
        )
