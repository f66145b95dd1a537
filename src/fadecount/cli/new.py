"""Write the file of a publication for a sample of rows, to be edited.

It reads the names of the sample's columns and nothing else: no key, count or
date of it is in the file. Look at every line of it, then plan.

examples:
  fadecount new rides.csv
  fadecount new rides.csv --output city.toml
  fadecount plan rides.toml
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fadecount.cli._options import add_options
from fadecount.errors import ParameterError, bad_parameter

_TIMES = ("time", "timestamp", "at", "date", "datetime", "start", "started_at", "created_at")
_PERSONS = ("person", "card", "user", "visitor", "customer", "member", "device", "client")
_IDS = ("id", "uuid", "event_id", "row_id")
_COLUMN = re.compile(r"[^\W\d][\w .:/()-]{0,63}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(
        parser,
        ("sample", "SAMPLE", "rows as CSV (its first line names the columns) or JSON lines", str),
        ("--output", "FILE", "the file to write (default: the sample's name, in this folder)", str),
        ("--force", None, "overwrite the file", bool),
    )


def run(arguments: argparse.Namespace) -> int:
    sample = Path(arguments.sample)
    columns, separator = _columns(sample)
    begin = re.match(r"[a-z]*", sample.name.lower())  # what follows may be a date
    name = begin[0] if begin and begin[0] else "publication"
    target = Path(arguments.output or f"{name}.toml")
    if target.exists() and not arguments.force:
        raise bad_parameter("--output", str(target), "a new file", "or add --force")
    text = "\n".join(_lines(name, columns, separator)) + "\n"
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise bad_parameter(
            "--output", str(target), f"a file that can be written ({error.strerror})", "choose one"
        ) from error
    print(f"{target}: look at every line, then: fadecount plan {target}")
    return 0


def _columns(sample: Path) -> tuple[list[str], str]:
    """The names of a sample's columns, and what is between them; nothing else of it is kept."""
    opened = gzip.open if sample.suffix == ".gz" else open
    try:
        with opened(sample, "rt", encoding="utf-8-sig", newline="") as file:
            first = file.readline(1 << 20).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        bound = f"a file of CSV or JSON lines that can be read ({reason})"
        raise bad_parameter("sample", str(sample), bound, "check the path") from error
    separator = max(",;\t|", key=first.count)
    if first.startswith("{"):
        try:
            names = [*json.loads(first)]
        except ValueError:
            names = []
    else:
        names = next(csv.reader([first], delimiter=separator), [])
    if not names or len({*names}) < len(names) or not all(map(_COLUMN.fullmatch, names)):
        raise ParameterError(
            f"sample must begin with a line that names its columns, got {str(sample)!r} without"
            " one; add it"
        )
    return names, separator


def _lines(name: str, columns: Sequence[str], separator: str) -> Iterator[str]:
    """The file, with what can be guessed from the names of columns."""
    time = _guessed(columns, _TIMES) or columns[0]
    person = _guessed([each for each in columns if each != time], _PERSONS)
    row = _guessed([each for each in columns if each not in (time, person)], _IDS)
    known = {"time": time, "person": person, "id": row}
    others = [each for each in columns if each not in known.values()]
    yield f"# The columns of the sample: {', '.join(columns)}"
    yield 'title = ""'
    yield 'zone = "UTC"             # where days begin, such as "Europe/Vienna"'
    yield f"start = {datetime.now(UTC).date()}       # the first day that is published"
    yield 'tick = "1h"              # the smallest slot of time'
    yield "# Who is protected: one event, or all that one person does on a day, so many rows of it."
    if person:
        yield 'unit = { of = "person", each = "1d", max_events = 2 }'
    else:
        yield 'unit = { of = "event" }  # or { of = "person", each = "1d", max_events = 2 }'
    given = ", ".join(f"{what} = {json.dumps(each)}" for what, each in known.items() if each)
    yield f"columns = {{ {given} }}"
    yield ""
    yield "[loss]                   # of one unit, before these ages, everything below together"
    yield "7d = 1"
    yield "ever = 2"
    if separator != ",":
        yield from ("", "[input]", f"separator = {json.dumps(separator)}")
    yield from ("", f"[measures.{name}]", 'per = ["1d"]             # such as ["1h", "1d", "1mo"]')
    for each in others[:8]:
        yield f"# key = {json.dumps(each, ensure_ascii=False)}"
    yield '# keys = "keys.txt"      # a public list, one key a line; never made from the rows'
    if person:
        yield from ("", "[measures.persons]", 'count = "persons"        # each once a day')


def _guessed(columns: Sequence[str], usual: Sequence[str]) -> str | None:
    """The first column with a usual name, or with one that contains it."""
    words = {each: re.split(r"[^a-z]+", each.lower()) for each in columns}
    exact = (each for wanted in usual for each in columns if each.lower() == wanted)
    inside = (each for wanted in usual for each in columns if wanted in words[each])
    return next(exact, None) or next(inside, None)
