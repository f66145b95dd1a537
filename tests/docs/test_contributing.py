"""The worked examples of CONTRIBUTING.md, run against the contracts that hold for the real
mechanisms and sources."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fadecount.sources import SourceOptions, SourceReport, TickBatch
from fadecount.sources.files import read_plain
from tests.docs.pages import ROOT, blocks, read

MECHANISM, EXAMPLES, SOURCE = (
    block.text for block in blocks(read("CONTRIBUTING.md")) if block.language == "py"
)

CONTRACTS = """
from tests.mechanisms.examples import *
from tests.mechanisms.examples import ALL, SLOTTED
{mechanism}
{examples}
ALL.extend(EXAMPLES["two_rates"])
SLOTTED.extend(EXAMPLES["two_rates"])
from tests.mechanisms.test_every_mechanism import *
from tests.mechanisms.test_sensitivity import *
from tests.mechanisms.test_windows import *
"""


def test_the_new_mechanism_keeps_the_contracts(tmp_path: Path) -> None:
    """In a process of its own: a new kind must not become known to the other tests."""
    (tmp_path / "test_two_rates.py").write_text(
        CONTRACTS.format(mechanism=MECHANISM, examples=EXAMPLES), encoding="utf-8"
    )
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-cov",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    words += [
        f"--rootdir={ROOT}",
        f"--basetemp={tmp_path / 'pytest'}",
        "-k",
        "TwoRates or every_kind",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path / "test_two_rates.py")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) >= 20


ROWS = [
    ("2026-03-01T10:00", "home", "1", "anna"),
    ("2026-03-01T10:59", "help", "2", "ben"),
    ("2026-03-01T08:00", "home", "1", "anna"),
    ("2026-03-01T08:30", "home", "1", "anna"),
    ("yesterday", "home", "1", "anna"),
    ("2026-03-01T11:00", "nowhere", "1", "carl"),
    ("2026-03-01T11:00", "home", "9", "carl"),
    ("2026-03-01T11:00", "home", "-1", "carl"),
    ("2026-03-01T11:00", "home", "1", ""),
    ("1772362800", "home", "1", "dora"),
]


def listed(batches: list[TickBatch]) -> list[list[int]]:
    found: list[list[int]] = np.concatenate(
        [np.stack([each.ticks, each.keys, each.counts], axis=1) for each in batches]
    ).tolist()
    return found


def test_the_new_source_counts_like_the_plain_reader(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(SOURCE, "CONTRIBUTING.md", "exec"), names)  # noqa: S102
    options = SourceOptions(
        tick_seconds=3600,
        time="at",
        key="page",
        keys=("home", "help"),
        amount="n",
        max_amount=3,
        person="who",
        per_person=1,
    )
    text = "\n".join(["at,page,n,who", *(",".join(row) for row in ROWS)])
    (tmp_path / "events.csv").write_text(text + "\n", encoding="utf-8")
    with sqlite3.connect(tmp_path / "events.db") as database:
        database.execute("CREATE TABLE visits (at TEXT, page TEXT, n TEXT, who TEXT)")
        database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", ROWS)
    database.close()
    reference = SourceReport()
    expected = listed(list(read_plain(tmp_path / "events.csv", "csv", options, reference)))
    reading = names["read_table"](tmp_path / "events.db", "visits", options)
    assert listed(list(reading)) == expected
    assert reading.report == reference
    assert len(expected) == 4 and reference.rows_skipped == 5 and reference.rows_dropped == 1
