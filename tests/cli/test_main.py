"""The command line as a whole: commands are found, errors are one line, exit codes tell what
happened."""

from __future__ import annotations

import argparse
import subprocess
import sys
from types import ModuleType

import pytest

import fadecount
from fadecount import errors
from fadecount.cli import main as program
from fadecount.cli.main import FAILED, INTERRUPTED, build_parser, commands, main


class Command(ModuleType):
    """A command that ends as its option says."""

    def __init__(self) -> None:
        super().__init__(
            "pretend", "Pretend to work.\n\nexample:\n  fadecount pretend --end well\n"
        )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--end", default="well")

    def run(self, arguments: argparse.Namespace) -> int:
        if arguments.end == "refused":
            raise errors.ParameterError("epsilon must be positive, got -1; take another")
        if arguments.end == "stopped":
            raise KeyboardInterrupt
        return 0 if arguments.end == "well" else 7


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "commands", lambda: {"pretend": Command()})


@pytest.mark.usefixtures("pretend")
def test_a_command_runs_and_its_status_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretend"]) == 0
    assert main(["pretend", "--end", "badly"]) == 7
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("pretend")
def test_an_error_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretend", "--end", "refused"]) == FAILED == 1
    assert capsys.readouterr() == (
        "",
        "fadecount: epsilon must be positive, got -1; take another\n",
    )


@pytest.mark.usefixtures("pretend")
def test_an_interruption_is_no_traceback_either(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretend", "--end", "stopped"]) == INTERRUPTED == 130
    assert capsys.readouterr() == ("", "fadecount: stopped\n")


@pytest.mark.usefixtures("pretend")
def test_help_shows_summary_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["pretend", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "Pretend to work." in shown
    assert "  fadecount pretend --end well" in shown
    assert "--end" in shown


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["--no-such-option"]])
def test_wrong_words_exit_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert (
        said.startswith("fadecount: ")
        and said.endswith("; see fadecount --help\n")
        and said.count("\n") == 1
    )


def test_a_misspelt_option_is_answered_with_the_one_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "x.csv", "--tick", "1h", "--epsilom", "0.1"])
    assert (
        capsys.readouterr().err
        == "fadecount run: unrecognized arguments: --epsilom 0.1 (did you mean --epsilon?); see"
        " fadecount run --help\n"
    )
    with pytest.raises(SystemExit):
        main(["streams", "list", "--jason"])
    assert "unrecognized arguments: --jason (did you mean --json?)" in capsys.readouterr().err


def test_the_version_is_shown() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fadecount", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"fadecount {fadecount.__version__}\n"


def test_every_command_has_a_summary_examples_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    build_parser()
    for name, module in commands().items():
        assert not name.startswith("_")
        assert name != "main"
        summary, _, details = (module.__doc__ or "").strip().partition("\n")
        assert summary.endswith("."), f"{name} needs a summary of one sentence"
        assert f"fadecount {name}" in details, f"{name} needs an example"
        with pytest.raises(SystemExit) as left:
            main([name, "--help"])
        assert left.value.code == 0
        assert summary.split()[0] in capsys.readouterr().out


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    words = [sys.executable, "-m", "fadecount", "curve", "--epsilon", "1", "--json"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.wait(timeout=120) == 1
    assert child.stderr.read() == ""
    child.stderr.close()


def test_options_are_taken_by_their_full_names_only(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["run", "x.csv", "--tic", "1h"],
        ["streams", "export", "x", "--key", "main"],
        ["token", "create", "--rol", "admin"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert "unrecognized arguments" in (error := capsys.readouterr().err) or "required" in error


@pytest.mark.parametrize(
    ("package", "extra", "words"),
    [("httptools", "service", ["serve"]), ("matplotlib", "plots", ["paper", "--out", "out"])],
)
def test_a_missing_extra_is_one_line(package: str, extra: str, words: list[str]) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from fadecount.cli.main import main;"
        f" sys.exit(main({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert done.stderr.count("\n") == 1
    assert f"[{extra}]" in done.stderr


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("epsilon must be > 0, got 0; take 1", "--epsilon must be > 0, got 0; take 1"),
        ("tick_seconds must be 1; or so", "--tick must be 1; or so"),
        (
            "persons must be few; give per_person=3, or",
            "persons must be few; give --per-person 3, or",
        ),
        ("a must be late; give force=True, or", "a must be late; give --force, or"),
        ("x must be y; such as time_unit='s'", "x must be y; such as --time-unit 's'"),
        ("a must be Gradual(epsilon=1); b", "a must be Gradual(epsilon=1); b"),
        ("nothing of this; x=3", "nothing of this; x=3"),
    ],
)
def test_parameters_of_the_library_are_shown_as_options(message: str, shown: str) -> None:
    words = ["run", "x.csv", "--tick", "1h"]
    parser = build_parser(words).parse_args(words).parser
    assert program._named_option(message, parser) == shown
