"""``python -m campaigns.mutants``: break a copy of the source in every way of the catalogue, and
show which test noticed.

Each mutant is a copy of the tree of its own, on which tests run until one fails. In the end the
tests that failed run on a copy that is whole, and must pass there. The exit status is 1 if a mutant
survives.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from campaigns.mutants.catalogue import MUTANTS, ROOT, Mutant

COPIED = ("src", "tests", "campaigns", "docs", "pyproject.toml")
PASSED, FAILED, BROKEN = 0, 1, 2
LIMIT_SECONDS = 900


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.mutants",
        description=__doc__.partition("\n")[0] if __doc__ else "",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only mutants whose name holds one of these"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/mutants"),
        metavar="FOLDER",
        help="where the list goes (%(default)s)",
    )
    arguments = parser.parse_args(words)
    chosen = [
        one
        for one in MUTANTS
        if not arguments.names or any(name in one.name for name in arguments.names)
    ]
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        _copy(ROOT, whole)
        results = [_killed(one, whole, Path(folder) / "broken") for one in chosen]
        killers = tuple(dict.fromkeys(one["killed_by"] for one in results if one["killed_by"]))
        status, told = _tests(whole, killers) if killers else (PASSED, "")
        if status != PASSED:
            print(f"a test fails without any mutant, so it killed none: {told}")
            return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "mutants.json").write_text(
        json.dumps(results, indent=1) + "\n", encoding="utf-8"
    )
    survivors = [one["mutant"] for one in results if not one["killed_by"]]
    print(
        f"{len(results) - len(survivors)} of {len(results)} mutants killed"
        + "".join(f"\nSURVIVED: {one}" for one in survivors)
    )
    return 1 if survivors else 0


def _killed(mutant: Mutant, whole: Path, folder: Path) -> dict[str, str]:
    """Break a copy, run the tests, and say which one failed first (nothing, if all passed)."""
    shutil.rmtree(folder, ignore_errors=True)
    _copy(whole, folder)
    mutant.apply(folder)
    started = time.monotonic()
    status, told = _tests(folder, mutant.tests)
    killer = "" if status == PASSED else told
    print(
        f"{mutant.name:45} {'killed by ' + killer if killer else 'SURVIVED'} "
        f" ({time.monotonic() - started:.0f} s)",
        flush=True,
    )
    return {"mutant": mutant.name, "file": mutant.path, "killed_by": killer}


def _copy(tree: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in COPIED:
        if (tree / name).is_dir():
            shutil.copytree(
                tree / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(tree / name, folder / name)


def _tests(folder: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests in a copy, with the copy's source, until the first failure: pytest's status, and
    the test that failed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "--show-capture=no",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return BROKEN, "time limit"
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return done.returncode, failed.group(1) if failed else done.stdout.strip()[-300:]


if __name__ == "__main__":
    sys.exit(main())
