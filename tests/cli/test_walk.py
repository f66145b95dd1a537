"""How many modules one run passes through, and how many calls: a new reader must be able to follow
an event from file to file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MOST_MODULES, MOST_CALLS = 48, 1880

# Only functions with a source: the bodies of modules and classes are not the way of an event, nor
# is what they call while they are imported, or what makes a dataclass.
PROGRAM = """
import inspect, sys, threading
from fadecount.cli.main import main
seen, calls = {}, 0
def is_import(frame):
    while frame is not None and frame.f_code is not main.__code__:
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False
def watch(frame, event, _):
    global calls
    name = frame.f_globals.get("__name__", "")
    code = frame.f_code
    function = code.co_flags & inspect.CO_OPTIMIZED and code.co_filename != "<string>"
    if event == "call" and name.startswith("fadecount.") and function and not is_import(frame):
        seen.setdefault(name)
        calls += 1
threading.setprofile(watch)
sys.setprofile(watch)
status = main(sys.argv[1:])
sys.setprofile(None)
assert status == 0
print(calls, *seen, sep="\\n")
"""


def test_a_run_on_a_small_file_passes_few_modules(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("at\n2026-03-01T10:00\n2026-03-01T12:00\n")
    words = [
        "run",
        "visits.csv",
        "--tick",
        "1h",
        "--time",
        "at",
        "--epsilon",
        "0.1",
        "--output",
        "out.csv",
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    calls, *modules = done.stdout.split()
    assert len(modules) > 10
    assert "fadecount.streams.store" in modules, "a one-off run takes the way of every stream"
    assert len(modules) <= MOST_MODULES, f"{len(modules)}: {modules}"
    assert int(calls) <= MOST_CALLS
