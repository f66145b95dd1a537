"""The reference of all commands as Markdown, from the same parsers that ``--help`` shows.

``python -m fadecount.cli._reference docs/cli.md`` writes it (``make docs`` does that); a test compares the file with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from fadecount.cli.main import build_parser

_HEAD = """# Commands

<!-- Made from the help of the commands: `make docs` writes this file anew. -->

Every command has `--help`. The exit status is 0 on success, 1 when something was refused (one line says what, and what to do), 2
when the words of the command were wrong.
"""


def reference() -> str:
    """The whole reference: one section for each command, with its options and examples."""
    return "\n".join([_HEAD, *_commands(build_parser(), level=2)]).rstrip("\n") + "\n"


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
        action.metavar if isinstance(action.metavar, str) else "/".join(map(str, action.choices or ())) or action.dest.upper()
    )
    value = "" if action.nargs == 0 else f" {metavar}"
    names = ", ".join(action.option_strings) + value if action.option_strings else metavar
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    needed = " **Required.**" if action.required and action.option_strings else ""
    yield f"| `{names}` | {text.replace('|', chr(92) + '|')}{needed} |"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
