"""No block of code in the documentation stays untried: it is executed, or it is in the list below,
with the reason.

What is in the list is at least read: its commands must be commands with options that exist.
"""

from __future__ import annotations

import importlib.util
import re
import shlex

import pytest
import yaml

from fadecount.cli.main import build_parser
from fadecount.spark.__main__ import build_parser as spark_parser
from tests.docs.pages import EXECUTED, MADE, PAGES, ROOT, Block, blocks, read

CONTRIBUTING = "CONTRIBUTING.md"
"""Its blocks are marked ``py``; tests/docs/test_contributing.py executes all of them."""

NOT_EXECUTED = {
    (
        "README.md",
        "python3 -m venv",
    ): "needs a package index; `make smoke` installs the package, bare and with each extra",
    (
        "README.md",
        "make demo",
    ): "sets up an environment; tests/examples/test_live_flights.py runs the demo",
    ("docs/architecture.md", "files and pipes"): "a drawing",
    ("docs/architecture.md", "cli"): "the order of the rooms; import-linter checks it",
    (
        "docs/architecture.md",
        "fadecount/",
    ): "the tree; tests/docs/test_reference.py compares it with the source",
    (
        "docs/deployment.md",
        "sudo python3 -m venv",
    ): "needs root and a package index; `make smoke` does the same in a folder",
    ("docs/deployment.md", "sudo useradd"): "adds a user to the machine",
    (
        "docs/deployment.md",
        "sudo install",
    ): "writes to /etc and needs systemd; tests/deploy reads both files",
    (
        "docs/deployment.md",
        "sudo systemctl enable",
    ): "needs systemd as the first process of the machine",
    (
        "docs/deployment.md",
        "FADECOUNT_NAME=",
    ): "needs a Docker daemon; tests/deploy reads what it builds and starts",
    (
        "docs/deployment.md",
        "docker compose",
    ): "needs a Docker daemon; systemd's step has the same command, executed",
    (
        "docs/notebooks.md",
        "jupyter lab",
    ): "opens a browser; tests/examples/test_notebooks.py runs every notebook",
    (
        "docs/paper.md",
        "fadecount paper",
    ): "takes several minutes; tests/paper/test_reproduce.py runs the command on parts",
    ("docs/scale.md", "make spark-bench"): "a measurement of many minutes",
    (
        "docs/service.md",
        "fadecount token create",
    ): "runs until Ctrl-C; docs/tutorial.md does the same in the background",
    (
        "docs/spark.md",
        "spark-submit",
    ): "needs a cluster; tests/spark/test_submit.py submits a job to a local one",
    ("docs/spark.md", "--format kafka"): "a part of a command, and needs Kafka",
    (
        "docs/tutorial.md",
        "cd ~/fadecount",
    ): "needs a package index; `make smoke` installs the package, bare and with each extra",
    ("docs/tutorial.md", "15 0 * * *"): "needs cron; the script that it calls is executed",
}
"""The beginnings of blocks that are not executed here, by page, each with its reason."""


def untried(page: str, found: list[Block]) -> list[Block]:
    """The blocks of a page that no test executes or compares."""
    before = [None, *found][: len(found)]
    return [
        block
        for block, behind in zip(found, before, strict=True)
        if not (
            block.language in EXECUTED
            or block.is_output_of(behind)
            or (block.language == "py" and page == CONTRIBUTING)
            or block.language == "yaml"
        )
    ]


def listed(page: str, block: Block) -> bool:
    return any(page == of and block.text.lstrip().startswith(begins) for of, begins in NOT_EXECUTED)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in MADE])
def test_every_block_is_executed_or_listed(page: str) -> None:
    lines = [block.line for block in untried(page, blocks(read(page))) if not listed(page, block)]
    assert lines == [], (
        f"{page}: mark the blocks at these lines sh, python or console, or state here why they"
        " cannot run"
    )


def test_every_reason_has_its_block() -> None:
    found = {
        (page, begins)
        for page, begins in NOT_EXECUTED
        for block in untried(page, blocks(read(page)))
        if block.text.lstrip().startswith(begins)
    }
    assert set(NOT_EXECUTED) - found == set()


def test_an_untried_block_is_found() -> None:
    page = (
        "```sh\na\n```\n```text\nb\n```\n\n```text\nc\n```\n1. item\n\n   ```\n   d\n  "
        " ```\n```py\ne\n```\n"
    )
    assert [block.text for block in untried("README.md", blocks(page))] == ["c\n", "d\n", "e\n"]
    assert [block.text for block in untried(CONTRIBUTING, blocks(page))] == ["c\n", "d\n"]


def require_known(line: str) -> None:
    """Refuse a line whose command, option, target or module does not exist. What is not ours is not
    looked at."""
    for target in re.findall(r"\bmake ([a-z][\w-]*)", line):
        assert re.search(
            rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        ), target
    for module in re.findall(r"\bpython -m ([\w.]+)", line):
        assert importlib.util.find_spec(module) is not None, module
    for script in re.findall(r"\bdeploy/[\w.-]+", line):
        assert (ROOT / script).is_file(), script
    if "spark/__main__.py" in line or "--format kafka" in line:
        words = shlex.split(line.rpartition("__main__.py")[2].lstrip('"'))
        needed = (
            "--keys k --plan p --tick 1h --start 2026-01-01 --shards 1 --checkpoint c --to"
            " parquet:p"
        )
        spark_parser().parse_args([*(needed.split() if "kafka" in line else []), *words])
        return
    found = re.search(r"\bfadecount ((?!fadecount\b)[a-z-]+ [^#$|)>]*|serve)", line)
    if found and "compose" not in line.partition(" ")[0]:
        words = shlex.split(found[1])
        if words[0] in (
            "serve",
            "token",
            "paper",
            "run",
            "plan",
            "curve",
            "streams",
            "doctor",
            "backup",
            "restore",
            "compare",
        ):
            build_parser(words).parse_args(words)


@pytest.mark.parametrize("page", sorted({page for page, _ in NOT_EXECUTED}))
def test_what_is_not_executed_names_what_exists(page: str) -> None:
    for block in untried(page, blocks(read(page))):
        for line in block.text.replace("\\\n", " ").splitlines():
            require_known(line)


@pytest.mark.parametrize(
    "line",
    [
        "make gold",
        "python -m benchmarks.gold",
        "X=$(fadecount token create --rule admin)",
        "sudo install deploy/gold.toml /etc",
    ],
)
def test_what_does_not_exist_is_found(line: str) -> None:
    with pytest.raises((AssertionError, SystemExit)):
        require_known(line)


def test_settings_in_yaml_can_be_read() -> None:
    texts = [
        block.text for page in PAGES for block in blocks(read(page)) if block.language == "yaml"
    ]
    assert texts and all(isinstance(yaml.safe_load(text), dict) for text in texts)
