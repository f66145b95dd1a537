"""The reference pages, made from the code: ``make site`` builds them with the other pages.

``cli.md`` comes from the parsers that ``--help`` shows, ``library.md`` from the docstrings of all
public names, ``openapi.json`` and ``http.md`` from the description of the HTTP interface, and
``modules.md`` from the first line of every module. None of them is in the repository.
"""

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from fadecount.cli.main import build_parser
from fadecount.service.routes import openapi_document
from tools.http_page import http_page

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fadecount"

PUBLIC = (
    ("fadecount", "The front door. `import fadecount as fc` gives all of it."),
    ("fadecount.planning", "From wanted losses and errors to a mechanism."),
    ("fadecount.streams", "Durable streams, their stores and readers."),
    (
        "fadecount.sources",
        (
            "Files and pipes to counts per tick and key. Needs the extra `files` for Parquet and"
            " fast CSV."
        ),
    ),
    ("fadecount.runs", "What `fadecount run` does, as a call."),
    ("fadecount.service.server", "The HTTP service. Needs the extra `service`."),
    ("fadecount.service.settings", "What an operator chooses for a service."),
    ("fadecount.spark", "The same figures on Spark. Needs the extra `spark`."),
    ("fadecount.plots", "Pictures. Needs the extra `plots`."),
    ("fadecount.audit", "What an outsider can show about the loss."),
    ("fadecount.errors", "Every exception. All have one base class."),
)
"""The modules whose public names are a contract, in the order of the reference."""

_CLI_HEAD = """# Commands

Every command has `--help`. The exit status is 0 on success, 1 when the command refuses something
(one line says what, and what to do), and 2 when the command line itself is wrong.
"""
_LIBRARY_HEAD = """# Library reference

Every public name, with its signature. Names that are not on this page are internal and may change
at any time.
"""
_MODULES_HEAD = """# Modules

Every file of the package in one line. [Architecture](architecture.md) says what belongs where.
"""


def public_modules() -> Iterator[tuple[ModuleType, str]]:
    """The public modules with one line about each."""
    for name, about in PUBLIC:
        yield importlib.import_module(name), about


def public_names(module: ModuleType) -> list[str]:
    """``__all__``, or for a module without one what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


def members(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that a class states itself, rather than inherits."""
    for name, value in vars(cls).items():
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, value


def commands_page() -> str:
    """``cli.md``: one section for each command, with its options and examples."""
    return "\n".join([_CLI_HEAD, *_commands(build_parser(), level=2)]).rstrip("\n") + "\n"


def library_page() -> str:
    """``library.md``: every public name with its signature and docstring."""
    parts = [_LIBRARY_HEAD]
    seen: dict[int, str] = {}
    for module, about in public_modules():
        parts.append(f"## {module.__name__}\n\n{about}\n")
        for name in public_names(module):
            value = getattr(module, name)
            if inspect.ismodule(value):
                continue
            if id(value) in seen:
                parts.append(f"### {name}\n\nThe same as `{seen[id(value)]}`.\n")
                continue
            seen[id(value)] = f"{module.__name__}.{name}"
            parts.extend(_entry(name, value))
    return "\n".join(parts).rstrip("\n") + "\n"


def modules_page() -> str:
    """``modules.md``: the modules with the first sentence of each, room by room."""
    paths = sorted(
        SOURCE.rglob("*.py"),
        key=lambda path: (path.parent != SOURCE, path.parent, path.name != "__init__.py", path),
    )
    lines = []
    for path in paths:
        place = path.relative_to(SOURCE)
        sentence = (_docstring(path).splitlines() or [""])[0]
        if path.name == "__init__.py":
            room = "fadecount" if path.parent == SOURCE else place.parent.as_posix()
            lines.append(f"{room + '/':<26}{sentence}")
        elif path.name != "__main__.py":
            lines.append(f"{'    ' * (len(place.parts) - 1) + path.name:<26}{sentence}")
    return "\n".join([_MODULES_HEAD, "```text", *map(str.rstrip, lines), "```"]) + "\n"


def pages() -> dict[str, str]:
    """The text of every page that is made from the code, by its name in ``docs/``."""
    description = openapi_document().body.decode()
    return {
        "cli.md": commands_page(),
        "library.md": library_page(),
        "openapi.json": description,
        "http.md": http_page(json.loads(description)),
        "modules.md": modules_page(),
    }


def _commands(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in sorted(action.choices.items()):
                yield from _section(name, child, level)


def _section(name: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield f"{'#' * level} {parser.prog if level > 2 else 'fadecount ' + name}\n"
    yield f"{(parser.description or '').strip()}\n"
    options = [line for action in parser._actions for line in _option(parser, action)]
    if options:
        yield "\n".join(["| option | meaning |", "|---|---|", *options]) + "\n"
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```\n"
    yield from _commands(parser, level + 1)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
        return
    metavar = (
        action.metavar
        if isinstance(action.metavar, str)
        else "/".join(map(str, action.choices or ())) or action.dest.upper()
    )
    value = "" if action.nargs == 0 else f" {metavar}"
    names = ", ".join(action.option_strings) + value if action.option_strings else metavar
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    needed = " **Required.**" if action.required and action.option_strings else ""
    yield f"| `{names}` | {text.replace('|', chr(92) + '|')}{needed} |"


def _entry(name: str, value: object) -> Iterator[str]:
    yield f"### {name}\n"
    if inspect.isclass(value):
        if not issubclass(value, BaseException):
            yield f"```text\n{_signature(name, value)}\n```\n"
        yield _text(value)
        for each, member in members(value):
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            title = f"{name}.{each}" + ("" if isinstance(plain, property) else _arguments(plain))
            yield f"**`{title}`**\n"
            yield _text(plain)
    elif callable(value):
        yield f"```text\n{_signature(name, value)}\n```\n"
        yield _text(value)
    else:
        yield (
            f"A constant: `{value!r}`.\n"
            if isinstance(value, int | str | tuple)
            else f"Of type `{type(value).__name__}`.\n"
        )


def _signature(name: str, value: object) -> str:
    whole = name + _arguments(value)
    if len(whole) <= 110:
        return whole
    return (
        whole.replace("(", "(\n    ", 1).replace(", ", ",\n    ")
        if whole.count("[") == 0
        else whole
    )


def _arguments(value: object) -> str:
    try:
        if isinstance(value, type) and issubclass(
            value, enum.Enum
        ):  # its signature differs between versions of Python
            return "(value)"
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "(...)"
    kept = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    if any(
        "<" in str(each.default) and each.default is not each.empty for each in kept
    ):  # an object without a readable form
        kept = [
            (
                each.replace(default=...)
                if "<" in str(each.default) and each.default is not each.empty
                else each
            )
            for each in kept
        ]
    return str(signature.replace(parameters=kept)).replace("'", "")


def _text(value: object) -> str:
    """The docstring as Markdown: examples become code blocks."""
    lines: list[str] = []
    inside = False
    for line in (inspect.getdoc(value) or "").splitlines():
        example = line.startswith((">>>", "...")) or (inside and line.strip() != "")
        if example and not inside:
            lines.append("```pycon")
        elif inside and not example:
            lines.append("```")
        inside = example
        lines.append(line)
    return "\n".join([*lines, *(["```"] if inside else [])]).strip() + "\n"


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
