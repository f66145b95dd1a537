"""Reproduce the paper: every figure, its table, and what real noise does.

Block counters with the same error are shown beside it.

Writes each figure as PNG, SVG and CSV, the tables as CSV, and one
self-contained report.html that shows them in the paper's order.

examples:
  fadecount paper --out paper
  fadecount paper --out paper --only fig3,table1
  fadecount paper --out paper --runs 1000 --force
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fadecount.cli._options import JSON_OPTION, add_options
from fadecount.cli._output import json_text, progress

_PARTS = "fig1a to fig4b, table1, measured, totals_thousand, totals_million"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "folder for all files; made if missing"
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    add_options(
        parser,
        ("--force", None, "write into a folder that is not empty", bool),
        ("--only", "NAMES", f"only these: {_PARTS}; commas between", ""),
        ("--runs", "N", "runs with real noise over 10^6 steps (default: 200)", 200),
        JSON_OPTION,
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount.paper import reproduce

    only = [name.strip() for name in arguments.only.split(",") if name.strip()]
    how = {"runs": arguments.runs, "force": arguments.force}
    with progress("reproducing", total=1.0) as advance:
        parts = reproduce(arguments.out, only, **how, advance=advance)
    report = arguments.out / "report.html"
    if arguments.json:
        print(json_text({"report": str(report), "parts": parts}))
    else:
        print(f"made {', '.join(parts)}; open {report}")
    return 0
