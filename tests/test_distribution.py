"""What users download: the wheel and the source distribution are complete, and work bare and with
each extra."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests import linked

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return linked.build(tmp_path_factory.mktemp("dist"))


def members(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return set(wheel.namelist())
    with tarfile.open(archive) as source:
        return {name.partition("/")[2] for name in source.getnames()}


def test_the_wheel_holds_every_file_of_the_package(built: tuple[Path, Path]) -> None:
    found = members(built[0])
    for path in (ROOT / "src" / "fadecount").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT / "src").as_posix() in found
    assert "fadecount/py.typed" in found
    assert all(name.startswith("fadecount") for name in found)
    assert any(name.endswith("licenses/LICENSE") for name in found)


def test_the_source_distribution_holds_everything(built: tuple[Path, Path]) -> None:
    found = members(built[1])
    for folder in (
        "src",
        "tests",
        "docs",
        "campaigns",
        "benchmarks",
        "examples",
        "tools",
        "deploy",
        ".ci",
        ".github",
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not {"__pycache__", ".schemathesis", ".hypothesis"} & set(
                path.parts
            ):
                assert path.relative_to(ROOT).as_posix() in found
    assert {
        "Makefile",
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    } <= found
    assert not [name for name in found if name.startswith(("out/", ".venv/", ".git/"))]


def test_what_the_index_shows(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith("/METADATA"))
        about = HeaderParser().parsestr(wheel.read(name).decode("utf-8"))
        entry = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert "fadecount = fadecount.cli.main:main" in entry
    assert about["Requires-Python"] == ">=3.11"
    listed = about.get_all("Classifier") or []
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(listed)
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert all(
        f'"{found}"' in workflow
        for each in listed
        if (found := each.rpartition(" :: ")[2]).startswith("3.")
    )
    assert about["Description-Content-Type"] == "text/markdown"
    text = about.get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith(("http://", "https://", "#"))] == []
    assert "# fadecount" in text


def test_a_test_of_the_source_distribution_runs_from_it(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[1]) as source:
        source.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-cov",
    ]
    chosen = [
        "tests/test_durations.py",
        "tests/mechanisms/test_intervals.py",
        "tests/mechanisms/test_golden.py",
    ]
    where = "import fadecount; print(fadecount.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [sys.executable, "-c", where],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(root))
    run = subprocess.run(
        [*words, *chosen], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:]


@pytest.mark.parametrize("extra", linked.EXTRAS, ids=lambda extra: extra or "bare")
def test_it_works_with_nothing_but_what_it_declares(
    extra: str, built: tuple[Path, Path], tmp_path: Path
) -> None:
    assert list(linked.faults(linked.linked(built[0], extra, tmp_path), extra)) == []
