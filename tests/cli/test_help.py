"""Every command explains itself."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

import pytest

from fadecount.cli.main import FIRST_STEPS, build_parser, commands


def test_every_command_explains_itself() -> None:
    for name, module in commands().items():
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        assert summary.endswith("."), name
        assert f"fadecount {name} " in details, f"{name} shows no example"
        assert max(map(len, details.splitlines())) <= 80, name


def examples() -> Iterator[list[str]]:
    """The words of every example in the help texts. Words behind a pipe are a command of their
    own."""
    for shown in (FIRST_STEPS, *(module.__doc__ or "" for module in commands().values())):
        text = shown.partition(":\n")[2].replace("\\\n", " ")
        for line in text.splitlines():
            for part in line.split(" | "):
                if (
                    line.startswith("  ")
                    and part.strip().startswith("fadecount ")
                    and "COMMAND" not in part
                ):
                    yield shlex.split(part.partition(" > ")[0])[1:]


@pytest.mark.parametrize("words", list(examples()), ids=" ".join)
def test_every_example_can_be_typed(words: list[str]) -> None:
    build_parser(words).parse_args(words)


def test_the_default_of_state_is_the_same_in_every_command() -> None:
    """Except in ``run``, which keeps nothing unless it is told where."""
    found = dict(states(build_parser(), ""))
    assert len(found) > 15
    assert "FADECOUNT_STATE, else none" in found.pop(" run")
    assert "~/.local/share/fadecount" in found.pop(
        " serve"
    )  # it explains the variables of all its settings at once
    assert {text.partition("(")[2] for text in found.values()} == {
        "default: FADECOUNT_STATE, else ~/.local/share/fadecount)"
    }


def states(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, below in action.choices.items():
                yield from states(below, f"{name} {child}")
        elif "--state" in action.option_strings:
            yield name, action.help or ""
