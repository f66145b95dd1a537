"""Every command with --json prints one JSON value, without JSON hidden in its strings and without
infinities."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.cli.main import build_parser, main
from tests.cli.test_run import STORED, folder

__all__ = ["folder"]

EXAMPLES = {
    ("audit",): ["--epsilon", "1", "--ages", "0", "--samples", "5000"],
    ("compare",): ["--window", "7", "--epsilon", "1"],
    ("curve",): ["--plan", "designed.json", "--until", "100"],
    ("paper",): ["--out", "paper", "--only", "table1"],
    ("plan",): ["--horizon", "1000", "--loss", "1000=3"],
    ("streams", "list"): ["--state", "state"],
    ("streams", "show"): ["pages", "--state", "state"],
    ("streams", "curve"): ["pages", "--state", "state"],
}


def with_json(
    parser: argparse.ArgumentParser, name: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The commands that have the option."""
    for action in parser._actions:
        if "--json" in action.option_strings:
            yield name
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                yield from with_json(child, (*name, word))


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def refuse_constant(name: str) -> object:
    raise AssertionError(f"{name} is no JSON")


def test_every_example_is_a_command_with_json() -> None:
    assert set(EXAMPLES) <= set(with_json(build_parser()))


@pytest.mark.parametrize("command", EXAMPLES, ids=" ".join)
def test_no_json_inside_strings(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "designed.json").write_text(fc.Intervals.levels([0.5] * 7).to_json())
    if "state" in EXAMPLES[command]:
        assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
        capsys.readouterr()
    assert main([*command, *EXAMPLES[command], "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse_constant)
    assert [text for text in strings(found) if text.lstrip().startswith(("{", "["))] == []


def test_the_mechanism_of_a_stream_is_an_object(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "first.csv", *STORED, "--output", "one.csv"]) == 0
    capsys.readouterr()
    assert main(["streams", "show", "pages", "--state", "state", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["mechanism"]
    assert fc.Mechanism.from_json(json.dumps(found)) == fc.Gradual(4.0)
    assert main(["streams", "show", "pages", "--state", "state"]) == 0
    assert "mechanism: Gradual(epsilon=4.0, " in capsys.readouterr().out
