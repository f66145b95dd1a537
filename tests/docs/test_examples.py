"""No public name without an example: in its docstring, or on a page whose examples are executed."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from tools import docs

from tests.docs.pages import MADE, PAGES, blocks, read


def used(code: str) -> set[str]:
    """The names that a piece of Python mentions."""
    return {
        name
        for node in ast.walk(ast.parse(code))
        for name in (getattr(node, "id", None), getattr(node, "attr", None))
        if name is not None
    }


def shown() -> set[str]:
    """The names that the examples of the pages use."""
    texts = [
        block.text
        for page in PAGES
        if page not in MADE
        for block in blocks(read(page))
        if block.language == "python"
    ]
    return set().union(*map(used, texts))


def without_example(names: Iterator[tuple[str, object]], known: set[str]) -> list[str]:
    return [
        name
        for name, value in names
        if ">>>" not in (inspect.getdoc(value) or "") and name.rpartition(".")[2] not in known
    ]


def public() -> Iterator[tuple[str, object]]:
    for module, _ in docs.public_modules():
        for name in docs.public_names(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value


def test_every_public_name_has_an_example() -> None:
    assert without_example(public(), shown()) == [], (
        "show these in their docstrings (>>>) or in docs/examples.md"
    )


def test_a_name_without_an_example_is_found() -> None:
    def silent() -> None:
        """Says something."""

    def speaking() -> None:
        """Says something.

        >>> speaking()
        """

    names = [("a.silent", silent), ("a.speaking", speaking), ("a.paged", silent)]
    assert without_example(iter(names), used("import paged\nprint(a.paged)\n")) == ["a.silent"]
