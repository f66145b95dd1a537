"""The site is built without a warning and without a network. It holds every page, and the reference
holds every command, option, public name and route."""

from __future__ import annotations

import argparse
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import docs
from tools.build_site import navigation, with_navigation

from fadecount.cli.main import build_parser
from tests.docs.pages import MADE, PAGES, ROOT

FOREIGN = re.compile(
    r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*|url\(\s*['\"]?(?:https?:)?//[^)]*"
)


def built(
    out: Path, code: str = "sys.exit(main(['--out', sys.argv[1]]))"
) -> subprocess.CompletedProcess[str]:
    """Sphinx keeps state for a whole process, so it gets one of its own."""
    program = f"import sys; from tools.build_site import *; {code}"
    return subprocess.run(
        [sys.executable, "-c", program, str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_the_site_has_every_page_and_asks_no_other_host(tmp_path: Path) -> None:
    done = built(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pages = [*PAGES, *(f"docs/{name}" for name in MADE if name.endswith(".md"))]
    missing = [page for page in pages if not (tmp_path / page).with_suffix(".html").is_file()]
    assert missing == []
    assert (tmp_path / "index.html").is_file() and (tmp_path / "search.html").is_file()
    files = [each for each in tmp_path.rglob("*") if each.suffix in (".html", ".css")]
    foreign = [FOREIGN.findall(each.read_text(encoding="utf-8")) for each in files]
    assert [links for links in foreign if links] == []


def test_a_page_outside_the_navigation_and_a_broken_link_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# All\n\n- [one](one.md)\n", encoding="utf-8")
    (tmp_path / "docs" / "one.md").write_text("# One\n\n[two](two.md#nowhere)\n", encoding="utf-8")
    (tmp_path / "docs" / "two.md").write_text("# Two\n", encoding="utf-8")
    done = built(tmp_path, "root = Path(sys.argv[1]); sys.exit(not build(root / 'site', root, {}))")
    assert done.returncode == 1
    assert "two.md: WARNING: document isn't included in any toctree" in done.stderr
    assert "WARNING: local id not found in doc 'docs/two': 'nowhere'" in done.stderr


def test_the_lists_of_the_index_are_the_navigation() -> None:
    page = (
        "# All\n\n- [a](a.md): first\n\n## More\n\nText with [z](z.md).\n\n- [b](../b.md)\n"
        "- [c](https://example.org/c.md)\n"
    )
    assert list(navigation(page)) == [("", ["a <a.md>"]), ("More", ["b <../b.md>"])]
    assert with_navigation(page).endswith(
        "```{toctree}\n:hidden:\n:caption: More\n\nb <../b.md>\n```\n"
    )


def options(
    parser: argparse.ArgumentParser, name: str = "fadecount"
) -> Iterator[tuple[str, str, str]]:
    """(command, option, help) of a parser and all commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, below in action.choices.items():
                yield from options(below, f"{name} {child}")
        elif not isinstance(action, argparse._HelpAction) and name != "fadecount":
            option = (action.option_strings or [str(action.metavar or action.dest)])[-1]
            yield name, option, action.help or ""


def test_the_reference_holds_every_command_option_and_route() -> None:
    pages = docs.pages()
    assert set(pages) == set(MADE)
    sections = dict(
        re.findall(
            r"^##+ (fadecount [^\n]+)\n(.*?)(?=^##|\Z)", pages["cli.md"], re.DOTALL | re.MULTILINE
        )
    )
    for command, option, text in options(build_parser()):
        assert option in sections[command] and len(text.split()) > 1, (command, option)
    for path in json.loads(pages["openapi.json"])["paths"]:
        assert f" {path}\n" in pages["http.md"]


def test_every_public_name_has_a_docstring_and_is_in_the_reference() -> None:
    page = docs.library_page()
    silent = []
    for module, _ in docs.public_modules():
        assert f"\n## {module.__name__}\n" in page
        for name in docs.public_names(module):
            value = getattr(module, name)
            assert f"\n### {name}\n" in page or inspect.ismodule(value), name
            if inspect.isclass(value) or inspect.isfunction(value):
                silent += [name] * (not has_docstring(value))
            if inspect.isclass(value):
                silent += [
                    f"{name}.{member}"
                    for member, _ in docs.members(value)
                    if not has_docstring(getattr(value, member))
                ]
    assert silent == []


def has_docstring(value: object) -> bool:
    """Whether an object has a docstring of its own. A dataclass makes one from its fields: that is
    none."""
    text = (value.__doc__ or inspect.getdoc(value) or "").strip()
    return bool(text) and not text.startswith(f"{getattr(value, '__name__', None)}(")
