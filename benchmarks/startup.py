"""How long commands take to start: medians of interleaved repeats, each in a fresh process.

``python -m benchmarks.startup`` measures this checkout; with ``--beside FOLDER`` (the ``src`` of
another checkout) both take turns, so that other load on the machine meets both alike.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
VISITS = "at\n2026-03-01T10:10\n2026-03-01T10:50\n2026-03-01T12:30\n"
RUN = ["-m", "fadecount", "run", "visits.csv", "--tick", "1h", "--time", "at", "--epsilon", "0.1"]
CASES = {
    "python -c pass": ["-c", "pass"],
    "import fadecount": ["-c", "import fadecount"],
    "fadecount --help": ["-m", "fadecount", "--help"],
    "fadecount run, three rows": RUN,
}


def seconds(words: list[str], source: Path, folder: str) -> float:
    """Return how long a fresh process takes."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--beside", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    sources = [ROOT / "src", *([arguments.beside] if arguments.beside else [])]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "visits.csv").write_text(VISITS, encoding="utf-8")
        for name, words in CASES.items():
            taken: list[list[float]] = [[] for _ in sources]
            for _ in range(arguments.repeats):
                for at, source in enumerate(sources):
                    taken[at].append(seconds(words, source, folder))
            shown = "  beside ".join(f"{1000 * statistics.median(each):5.0f} ms" for each in taken)
            print(f"{name:28}{shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
