"""Completion in real shells: the words that bash, zsh and fish offer are the commands and options
of the parser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fadecount.cli.completion import SHELLS, levels
from fadecount.cli.main import build_parser, commands, main

LEVELS = {level.path: level for level in levels(build_parser())}


def offered(
    shell: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """What a shell offers after these words; the last one is unfinished."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    if shell == "fish":
        ask = [
            program,
            "--no-config",
            "-c",
            f"source {script}; complete -C 'fadecount {' '.join(words)}'",
        ]
    else:
        line = (
            "COMP_WORDS=(fadecount "
            + " ".join(f"'{word}'" for word in words)
            + f"); COMP_CWORD={len(words)}"
        )
        code = (
            f"compopt() {{ echo files; }}; source {script}; {line}; _fadecount; printf '%s\\n'"
            ' "${COMPREPLY[@]}"'
        )
        ask = [program, "--norc", "--noprofile", "-c", code]
    home = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    done = subprocess.run(ask, capture_output=True, text=True, check=True, env=home, cwd=tmp_path)
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_commands_actions_options_and_choices(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, expected in (
        ([""], set(commands())),
        (["str"], {"streams"}),
        (["streams", ""], set(LEVELS["streams",].words)),
        (["streams", "exp"], {"export"}),
        (["plan", "--dela"], {"--delay"}),
        (["token", "create", "--role", "r"], {"reader"}),
        (["completion", "b"], {"bash"}),
    ):
        assert expected == set(offered(shell, words, tmp_path, capsys)) - {
            "--help",
            "--version",
            "-h",
        }, words
    found = set(offered(shell, ["run", "--"], tmp_path, capsys))
    assert {option for option in LEVELS["run",].options if option.startswith("--")} == found


def test_a_free_value_is_a_file_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offered("bash", ["run", "--plan", ""], tmp_path, capsys) == ["files"]
    assert offered("bash", ["run", ""], tmp_path, capsys) == ["files"]


def test_options_of_one_command_are_not_those_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``streams curve`` and ``curve`` share a word."""
    for shell in ("bash", "fish"):
        if shutil.which(shell):
            found = set(offered(shell, ["streams", "curve", "--"], tmp_path, capsys))
            assert found == {
                option for option in LEVELS["streams", "curve"].options if option.startswith("--")
            }


@pytest.mark.parametrize("shell", SHELLS)
def test_every_word_is_in_every_script_and_the_shell_reads_it(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for level in LEVELS.values():
        assert all(
            word in script
            for word in (*level.words, *(option.lstrip("-") for option in level.options))
        )
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(script, encoding="utf-8")
        subprocess.run(
            [program, "-n", "script"],
            check=True,
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "choose from" in capsys.readouterr().err
