"""Nothing public is undocumented: every name, option and route, and the made pages are as the code
is now."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import docs

from fadecount.cli.main import build_parser
from tests.docs.pages import read
from tests.service.harness import Harness

PAGES = docs.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_made_page_is_up_to_date(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page], (
        f"{page.name} is out of date: run `make docs` and commit it"
    )


def undocumented(names: Iterator[tuple[str, object]]) -> list[str]:
    """The names of objects without a docstring of their own. A dataclass makes one from its fields;
    that is none."""
    return [
        name
        for name, value in names
        if not (inspect.getdoc(value) or "").strip()
        or (value.__doc__ or "").startswith(f"{getattr(value, '__name__', None)}(")
    ]


def public() -> Iterator[tuple[str, object]]:
    for module, _ in docs.public_modules():
        for name in docs.public_names(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                for member, _ in docs.members(value):
                    yield f"{module.__name__}.{name}.{member}", getattr(value, member)


def test_every_public_name_has_a_docstring() -> None:
    assert undocumented(public()) == []


def test_every_public_name_is_on_the_page() -> None:
    page = read("docs/library.md")
    for module, _ in docs.public_modules():
        assert f"\n## {module.__name__}\n" in page
        missing = [
            name
            for name in docs.public_names(module)
            if f"\n### {name}\n" not in page and not inspect.ismodule(getattr(module, name))
        ]
        assert missing == []


def test_a_name_without_a_docstring_is_found() -> None:
    def silent() -> None: ...

    def speaking() -> None:
        """Says something."""

    assert undocumented(iter([("silent", silent), ("speaking", speaking)])) == ["silent"]


def options(
    parser: argparse.ArgumentParser, name: str = "fadecount"
) -> Iterator[tuple[str, str, str]]:
    """(command, option, help) of a parser and all commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, below in action.choices.items():
                yield from options(below, f"{name} {child}")
        elif not isinstance(action, argparse._HelpAction):
            yield (
                name,
                (action.option_strings or [str(action.metavar or action.dest)])[-1],
                action.help or "",
            )


def test_every_option_is_explained() -> None:
    assert [
        f"{command} {option}"
        for command, option, text in options(build_parser())
        if len(text.split()) < 2 and text != "show version"
    ] == []


def test_every_option_is_on_the_page() -> None:
    page = read("docs/cli.md")
    sections = dict(
        re.findall(r"^##+ (fadecount [^\n]+)\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    )
    wanted = [
        (command, option)
        for command, option, _ in options(build_parser())
        if command != "fadecount"
    ]
    assert [each for each in wanted if str(each[1]) not in sections[each[0]]] == []


def test_every_route_is_on_the_page(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        paths = harness.request("GET", "/v1/openapi.json").json()["paths"]
    page = read("docs/service.md")
    missing = [path for path in paths if path not in page]
    assert missing == [], "docs/service.md does not mention these routes"
