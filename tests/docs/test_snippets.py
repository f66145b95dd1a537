"""The examples of the documentation run, and give what the pages say.

Blocks marked ``python`` and ``sh`` are executed, page by page, each page in a folder
of its own that holds a few events. A comment that begins with a number, behind an expression, is
what the expression must give; an expression that is true or false must be true. A ``text`` block
directly behind a ``python`` or ``sh`` block is what the block must print; ``...`` stands for any
lines. Marked ``text varies``, its numbers may be others: noise is fresh. Blocks marked ``python
spark`` run in tests/spark. Other ``text`` blocks are not executed (they install, or need a
cluster), but every command, option and make target in them must exist.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fadecount.cli.main import build_parser
from fadecount.service.settings import Clock
from fadecount.streams import Store
from tests.docs.pages import EXECUTED, PAGES, ROOT, Block, blocks, read
from tests.service.harness import Harness

RUNNABLE = [
    page
    for page in PAGES
    if any(block.language in EXECUTED and block.place != "spark" for block in blocks(read(page)))
]
VISITS = ["at,page,country,visitor"] + [
    f"2026-03-01T{hour:02}:{minute:02}:00Z,"
    f"{('home', 'docs')[minute % 2]},{('at', 'de')[hour % 2]},v{minute % 5}"
    for hour in range(3)
    for minute in range(0, 60, 7)
]


@contextlib.contextmanager
def scene(page: str, folder: Path) -> Iterator[dict[str, str]]:
    """Set up what a page takes for granted, and give the texts to replace in its examples."""
    (folder / "visits.csv").write_text("\n".join(VISITS) + "\n", encoding="utf-8")
    if page == "docs/tutorial.md":
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        try:
            yield {"~/fadecount": str(ROOT), "8000": str(port)}
        finally:
            if (folder / "serve.pid").exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int((folder / "serve.pid").read_text()), signal.SIGKILL)
        return
    if page not in ("docs/service.md", "docs/operations.md"):
        yield {"examples/library": str(ROOT / "examples/library")}
        return
    with Harness(
        folder / "service", clock=Clock()
    ) as harness:  # the real clock: a page waits for a tick
        (folder / "admin.token").touch(mode=0o600)
        (folder / "admin.token").write_text(harness.admin, encoding="utf-8")
        yield {
            "http://127.0.0.1:8000": harness.url,
            "https://counts.example.org": harness.url,
            '"1m"': '"1s"',
            "--tick 1m": "--tick 1s",
            "sudo -u fadecount /opt/fadecount/bin/": "",
            "/var/lib/fadecount-fence": str(harness.storage.fence),
            "/var/lib/fadecount": str(harness.storage.folder),
        }


@pytest.mark.parametrize("page", RUNNABLE)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "curl " in read(page) and shutil.which("curl") is None:
        pytest.skip("no curl here: its examples are not tried")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {"__name__": "__main__"}
    with scene(page, tmp_path) as replacements:
        all_blocks = blocks(read(page))
        for block, behind in zip(all_blocks, [*all_blocks[1:], None], strict=True):
            text = block.text
            for old, new in replacements.items():
                text = text.replace(old, new)
            if block.language == "python" and block.place != "spark":
                printed = run_python(page, block, text, names)
            elif block.language == "sh":
                printed = run_shell(page, block, text)
            else:
                continue
            if behind and behind.is_output_of(block):
                assert shows(behind.text, printed, varies=behind.place == "varies"), (
                    f"{page}, line {behind.line}: the block before it prints\n{printed}"
                )
    for secret in (*tmp_path.glob("*.token"), *tmp_path.glob("*.key")):
        assert secret.stat().st_mode & 0o777 == 0o600, f"{page}: others may read {secret.name}"
    for value in names.values():
        if isinstance(value, Store):
            value.close()  # a store in memory; from Python 3.13 on, SQLite warns otherwise


def shows(shown: str, printed: str, *, varies: bool) -> bool:
    """Whether a page shows what was printed. Where ``varies``, only the places of the numbers
    count, not their values."""
    parts = [
        re.escape(part)
        for part in re.split(r"^\.\.\.\n", _plain(shown, varies), flags=re.MULTILINE)
    ]
    return re.fullmatch(r"(?:[^\n]*\n)*".join(parts), _plain(printed, varies)) is not None


def _plain(text: str, varies: bool) -> str:
    text = "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())
    return re.sub(r"[ ]*-?\d[-\d,.]*(?<=\d)", " #", text) if varies else text


def run_python(page: str, block: Block, text: str, names: dict[str, Any]) -> str:
    """What the block prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _run_statements(page, block, text, names)
    return printed.getvalue()


def _run_statements(page: str, block: Block, text: str, names: dict[str, Any]) -> None:
    lines = text.splitlines()
    for statement in ast.parse(text).body:
        code = ast.Module([statement], type_ignores=[])
        where = f"{page}, line {block.line + statement.lineno - 1}"
        comment = re.search(
            r"#\s*(-?[\d,]*\.?\d+)(?=[\s:;,]|$)", lines[(statement.end_lineno or 1) - 1]
        )
        if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Await):
            value = eval(compile(ast.Expression(statement.value), where, "eval"), names)  # noqa: S307 - our own pages
            if comment and "print" not in ast.unparse(statement):
                assert agrees(value, comment[1]), f"{where}: gives {value}, not {comment[1]}"
            if isinstance(statement.value, ast.Compare | ast.BoolOp):
                assert value, f"{where}: is not true"
        else:
            exec(compile(code, where, "exec"), names)  # noqa: S102 - our own pages


def run_shell(page: str, block: Block, text: str) -> str:
    """What the block shows on a terminal: output and messages."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{page}, line {block.line}: {done.stdout}"
    return str(done.stdout)


def agrees(value: float, shown: str) -> bool:
    """Whether a number is what is shown, to the digits shown (rounded to nearest or up)."""
    shown = shown.replace(",", "")
    unit = 10.0 ** -len(shown.partition(".")[2])
    return float(shown) - 0.999 * unit < float(value) < float(shown) + 0.5000001 * unit


def test_a_wrong_comment_is_found() -> None:
    block = Block(language="python", text="", line=1)
    run_python("page", block, "1 / 8  # 0.125\n1 / 3  # 0.33 or so\n", {})
    with pytest.raises(AssertionError, match=r"page, line 2: gives 0.2, not 0.3"):
        run_python("page", block, "1 / 4  # 0.25\n1 / 5  # 0.3\n", {})
    with pytest.raises(AssertionError, match="page, line 1: is not true"):
        run_python("page", block, "1 > 2\n", {})
    with pytest.raises(AssertionError, match="page, line 1"):
        run_shell("page", block, "false\n")


def test_another_output_is_found() -> None:
    assert shows("a 1\n...\nb 2\n", "a 1\nx\ny\nb 2\n", varies=False)
    assert shows("a 1\n...\nb 2\n", "a 1\nb 2\n", varies=False)
    assert not shows("a 1\n...\nb 2\n", "a 1\nx\nb 3\n", varies=False)
    assert not shows("a 1\nb 2\n", "a 1\nx\nb 2\n", varies=False)
    assert shows("[ 12  3]\nx,-1.5\n", "[  9 -14]\nx,20\n", varies=True)
    assert not shows("[ 12  3]\n", "[ 12  3  4]\n", varies=True)
    assert not shows("main 12\n", "garden 12\n", varies=True)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language_that_says_whether_it_runs(page: str) -> None:
    languages = {block.language for block in blocks(read(page))}
    assert languages <= {*EXECUTED, "text", "yaml", "json"}


@pytest.mark.parametrize("page", PAGES)
def test_commands_that_are_not_executed_exist(page: str) -> None:
    all_blocks = blocks(read(page))
    for before, block in zip([None, *all_blocks], all_blocks, strict=False):
        if block.language == "text" and not block.is_output_of(before):
            for line in block.text.replace("\\\n", " ").splitlines():
                require_known(line)


def require_known(line: str) -> None:
    """Refuse a line with a make target, a file in deploy or an own command that does not exist, or
    that makes a secret file for everybody."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z][\w-]*)", line):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for file in re.findall(r"\bdeploy/[\w.-]+", line):
        assert (ROOT / file).is_file(), file
    assert not re.search(r">\S+\.(token|key)", line) or "(umask 077; " in line, line
    command = re.search(r"(?:^|exec fadecount |umask 077; )fadecount ([a-z][^#$|)>]*)", line)
    if command:
        arguments = shlex.split(command[1])
        build_parser(arguments).parse_args(arguments)


@pytest.mark.parametrize(
    "line",
    [
        "make gold",
        "cp deploy/gold /etc",
        "fadecount serve --gold",
        "(umask 077; fadecount token gold >admin.token)",
        "fadecount token create --role admin >admin.token",
    ],
)
def test_what_does_not_exist_is_refused(line: str) -> None:
    with pytest.raises((AssertionError, SystemExit)):
        require_known(line)
