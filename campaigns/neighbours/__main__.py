"""``python -m campaigns.neighbours [--pairs 2000] [--first SEED] [--folder DIR] [INTAKE ...]``;
exits 1 if any pair violates.

Prints one line per intake, and of each violation the seed with which ``--first SEED --pairs 1``
makes it again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.neighbours.intakes import INTAKES
from tests.neighbours.silence import silence

BLOCK = 20
MOST_SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("intakes", nargs="*", metavar="INTAKE", help=", ".join(INTAKES))
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.intakes if name not in INTAKES]
    if unknown:
        parser.error(f"INTAKE must be one of {', '.join(INTAKES)}, got {unknown[0]}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with silence():
        return int(sum(campaign(name, arguments) for name in arguments.intakes or INTAKES) > 0)


def campaign(name: str, arguments: argparse.Namespace) -> int:
    """Run the pairs of one intake; how many violate."""
    begun, violating, done, counted = time.monotonic(), 0, 0, 0
    last = arguments.first + arguments.pairs
    for start in range(arguments.first, last, BLOCK):
        folder = Path(tempfile.mkdtemp(dir=arguments.folder, prefix="neighbours-"))
        try:
            for verdict in INTAKES[name](range(start, min(last, start + BLOCK)), folder / "pairs"):
                done, counted = done + 1, counted + verdict.counted
                if verdict.violations:
                    violating += 1
                    if violating <= MOST_SHOWN:
                        print(
                            f"\r{name}, seed {verdict.seed}: {'; '.join(verdict.violations)}",
                            flush=True,
                        )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if sys.stderr.isatty():
            print(f"\r{name}: {done:,} of {arguments.pairs:,}", end="", file=sys.stderr, flush=True)
    seconds = time.monotonic() - begun
    print(
        f"\r{name}: {done:,} pairs ({counted:,} with a unit that counts), {violating:,} violations,"
        f" {seconds:.0f} s",
        flush=True,
    )
    return violating


if __name__ == "__main__":
    sys.exit(main())
