"""Print a script that completes commands and options in bash, zsh or fish.

examples:
  fadecount completion bash > fadecount.bash   # then: source fadecount.bash
  fadecount completion zsh > ~/.zfunc/_fadecount
  fadecount completion fish > ~/.config/fish/completions/fadecount.fish
  eval "$(fadecount completion bash)"

The script holds the commands and options of this version: print it again
after an upgrade.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What may follow one command: its words, its options, and what may follow an option."""

    path: tuple[str, ...]
    words: dict[str, str]
    options: dict[str, str]
    values: dict[str, tuple[str, ...]]
    """The choices of an option; empty if its value is free (a file is completed)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), help="the shell that the script is for")


def run(arguments: argparse.Namespace) -> int:
    from fadecount.cli.main import build_parser

    print(SHELLS[arguments.shell](list(levels(build_parser()))))
    return 0


def levels(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Level]:
    """This parser and all below it."""
    words: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            about = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words |= {name: about.get(name, "") for name in action.choices}
            below += action.choices.items()
        elif not action.option_strings:
            words |= {str(choice): "" for choice in action.choices or ()}
        for option in action.option_strings:
            options[option] = (action.help or "") % {**vars(action), "prog": parser.prog}
            if action.nargs != 0:
                values[option] = tuple(str(choice) for choice in action.choices or ())
    yield Level(path=path, words=words, options=options, values=values)
    for name, child in below:
        yield from levels(child, (*path, name))


def bash(found: list[Level]) -> str:
    """A function that looks at the words so far, and picks what may come next."""
    lines = [
        "# bash completion for fadecount",
        "_fadecount() {",
        (
            "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=''"
            " word words='' options=''"
        ),
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "$path/$word" in',
        (
            f"            {'|'.join('/' + '/'.join(level.path) for level in found[1:])})"
            " path=$path/$word ;;"
        ),
        "        esac",
        "    done",
        "    COMPREPLY=()",
        '    case "$path $before" in',
    ]
    for level in found:
        place = "".join(f"/{word}" for word in level.path)
        for option, choices in level.values.items():
            if choices:
                words = shlex.quote(" ".join(choices))
                lines.append(
                    f"        '{place} {option}') COMPREPLY=($(compgen -W {words} --"
                    ' "$current")); return ;;'
                )
        free = [f"'{place} {option}'" for option, choices in level.values.items() if not choices]
        if free:
            lines.append(f"        {'|'.join(free)}) compopt -o default; return ;;")
    lines += ["    esac", '    case "$path" in']
    for level in found:
        place = "".join(f"/{word}" for word in level.path)
        words, options = shlex.quote(" ".join(level.words)), shlex.quote(" ".join(level.options))
        lines.append(f"        '{place}') words={words} options={options} ;;")
    lines += [
        "    esac",
        (
            "    if [[ $current == -* ]]; then words=$options; elif [[ -z $words ]]; then compopt"
            " -o default; return; fi"
        ),
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -F _fadecount fadecount",
    ]
    return "\n".join(lines)


def zsh(found: list[Level]) -> str:
    """The same for zsh, which shows what each word is for."""
    lines = [
        "#compdef fadecount",
        "_fadecount() {",
        "    local place='' word before=${words[CURRENT-1]}",
        "    local -a actions flags",
        "    for word in ${words[2,CURRENT-1]}; do",
        '        case "$place/$word" in',
        (
            f"            {'|'.join('/' + '/'.join(level.path) for level in found[1:])})"
            " place=$place/$word ;;"
        ),
        "        esac",
        "    done",
        '    case "$place $before" in',
    ]
    for level in found:
        place = "".join(f"/{word}" for word in level.path)
        for option, choices in level.values.items():
            what = f"compadd -- {shlex.join(choices)}" if choices else "_files"
            lines.append(f"        '{place} {option}') {what}; return ;;")
    lines += ["    esac", '    case "$place" in']
    for level in found:
        place = "".join(f"/{word}" for word in level.path)
        commands = " ".join(shlex.quote(_described(*each)) for each in level.words.items())
        options = " ".join(shlex.quote(_described(*each)) for each in level.options.items())
        lines.append(f"        '{place}') actions=({commands}) flags=({options}) ;;")
    lines += [
        "    esac",
        "    if [[ ${words[CURRENT]} == -* ]]; then _describe option flags",
        "    elif (( $#actions )); then _describe command actions",
        "    else _files; fi",
        "}",
        "compdef _fadecount fadecount",
    ]
    return "\n".join(lines)


def _described(name: str, about: str) -> str:
    return f"{name.replace(':', chr(92) + ':')}:{' '.join(about.split())}"


def fish(found: list[Level]) -> str:
    """One line for each word and option, with the condition under which it may come."""
    lines = ["# fish completion for fadecount", "complete -c fadecount -f"]
    for level in found:
        groups = sorted({each.path[0] for each in found if len(each.path) > 1} - set(level.path))
        seen = [f"__fish_seen_subcommand_from {word}" for word in level.path]
        if len(level.path) == 1:  # streams curve is not curve
            seen.append(f"not __fish_seen_subcommand_from {' '.join(groups)}")
        unseen = [f"not __fish_seen_subcommand_from {' '.join(level.words)}"] if level.words else []
        condition = shlex.quote("; and ".join([*seen, *unseen]))
        for word, about in level.words.items():
            lines.append(
                f"complete -c fadecount -n {condition} -a {shlex.quote(word)} -d"
                f" {shlex.quote(about)}"
            )
        for option, about in level.options.items():
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            value = ""
            if option in level.values:
                choices = level.values[option]
                value = f" -x -a {shlex.quote(' '.join(choices))}" if choices else " -r -F"
            lines.append(
                f"complete -c fadecount -n {condition} {kind}{value} -d {shlex.quote(about)}"
            )
        if level.path and not level.words:
            lines.append(f"complete -c fadecount -n {shlex.quote('; and '.join(seen))} -F")
    return "\n".join(lines)


SHELLS: dict[str, Callable[[list[Level]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
