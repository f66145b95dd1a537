"""Variables of the environment, as a shell or a cluster exports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def command(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    surroundings = {
        name: value for name, value in os.environ.items() if not name.startswith("FADECOUNT_")
    }
    surroundings |= {
        "XDG_STATE_HOME": str(folder / "fences"),
        "FADECOUNT_STATE": str(folder / "state"),
        **variables,
    }
    return subprocess.run(
        [sys.executable, "-m", "fadecount", *words],
        env=surroundings,
        capture_output=True,
        text=True,
        cwd=folder,
    )


def test_variables_of_others_break_no_command(tmp_path: Path) -> None:
    """Kubernetes sets variables for a service of the name fadecount; a command that needs the store
    takes its place and leaves the rest alone."""
    (tmp_path / "visits.csv").write_text("at\n2026-03-01T10:10\n", encoding="utf-8")
    others = {
        "FADECOUNT_NAME": "counts.example.org",
        "FADECOUNT_PORT": "tcp://10.0.0.1:8000",
        "FADECOUNT_SERVICE_HOST": "10.0.0.1",
        "FADECOUNT_MAX_BODY": "large",
    }
    for words in (
        [
            "run",
            "visits.csv",
            "--tick",
            "1h",
            "--time",
            "at",
            "--epsilon",
            "1",
            "--start",
            "2026-03-01",
            "--output",
            "out.csv",
        ],
        ["streams", "list"],
        ["streams", "export", "visits"],
        ["token", "create", "--role", "reader"],
        ["token", "list"],
        ["backup", "copy.backup"],
    ):
        done = command(tmp_path, *words, **others)
        assert (done.returncode, "FADECOUNT" in done.stderr) == (0, False), (
            words,
            done.stdout,
            done.stderr,
        )
    assert (tmp_path / "state" / "streams.db").exists()
