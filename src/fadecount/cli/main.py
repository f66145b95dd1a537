"""``fadecount COMMAND``: finds the commands, runs one, and turns errors into one clear line.

A command is a module of this folder whose name has no leading underscore. It has a docstring (its first line is the
summary, the rest the examples), ``add_arguments(parser)`` and ``run(arguments) -> int``, the exit status. It imports
what is heavy only when it runs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from types import ModuleType

import fadecount
from fadecount import cli
from fadecount.errors import FadecountError

FAILED = 1
INTERRUPTED = 130


def commands() -> dict[str, ModuleType]:
    """Every command by its name, in alphabetical order."""
    names = sorted(found.name for found in pkgutil.iter_modules(cli.__path__))
    return {
        name.replace("_", "-"): importlib.import_module(f"{cli.__name__}.{name}")
        for name in names
        if name != "main" and not name.startswith("_")
    }


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fadecount", description="Running counts with differential privacy that fades on a published schedule."
    )
    parser.add_argument("--version", action="version", version=f"fadecount {fadecount.__version__}")
    choices = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for name, module in commands().items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        one = choices.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=details.strip("\n"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return parser


def main(words: list[str] | None = None) -> int:
    """Run one command; 0 when it succeeded, 1 when it was refused, 2 when its words were wrong."""
    arguments = build_parser().parse_args(words)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except FadecountError as error:
        print(f"fadecount: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # whoever read the output has gone, as in `fadecount curve … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("fadecount: stopped", file=sys.stderr)
        return INTERRUPTED
    return status
