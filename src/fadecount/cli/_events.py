"""Options that say how events are read: columns, keys, ticks, bad rows."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.sources import SourceOptions


def add_event_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("events")
    group.add_argument("--tick", required=True, metavar="LENGTH", help="length of a tick: 1m, 1h, 1d, ...")
    group.add_argument("--zone", default="UTC", help="time zone of times without an offset, and of ticks of whole days")
    group.add_argument("--time", metavar="COL", help="column of the time (a file needs it; a pipe goes by the clock without it)")
    group.add_argument(
        "--time-unit", choices=("auto", "iso", "s", "ms", "us"), default="auto", help="ISO 8601, or Unix time in a unit"
    )
    group.add_argument("--key", metavar="COL", help="column of the key")
    group.add_argument("--keys", metavar="A,B,...", help="the keys to count, a public list")
    group.add_argument("--keys-file", metavar="FILE", help="the keys to count, one per line")
    group.add_argument("--other", nargs="?", const="other", metavar="NAME", help="count undeclared keys under this one (other)")
    group.add_argument("--amount", metavar="COL", help="column of the amount, a whole number (default: every event counts 1)")
    group.add_argument("--max-amount", type=int, default=1, metavar="N", help="largest amount; the noise grows in proportion")
    group.add_argument("--person", metavar="COL", help="column of a person's id; ids are never stored")
    group.add_argument("--per-person", default="1/tick", metavar="N/tick", help="rows of a person that count in a tick")
    group.add_argument("--format", choices=("csv", "jsonl", "parquet"), help="format of the input (default: by its ending)")
    group.add_argument("--separator", default=",", help="separator of a CSV file: , ; | or a tab")
    group.add_argument("--on-bad", choices=("stop", "skip"), default="stop", help="what to do at a row that cannot be read")
    group.add_argument("--grace", metavar="LENGTH", help="pipes with event times: how long to wait for late events")


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """How to read the events, as the options say."""
    from fadecount.sources import SourceOptions

    return SourceOptions(
        tick_seconds=parse_duration(arguments.tick, name="--tick"),
        time=arguments.time,
        time_unit=arguments.time_unit,
        time_zone=arguments.zone,
        key=arguments.key,
        keys=_keys(arguments),
        other=arguments.other,
        amount=arguments.amount,
        max_amount=arguments.max_amount,
        person=arguments.person,
        per_person=_per_person(arguments.per_person),
        format=arguments.format,
        separator=arguments.separator,
        on_bad=arguments.on_bad,
        grace_seconds=parse_duration(arguments.grace, name="--grace") if arguments.grace else 0,
    )


def _keys(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.keys is not None and arguments.keys_file is not None:
        raise ParameterError("--keys and --keys-file cannot both be given; choose one")
    names: list[str] = []
    if arguments.keys is not None:
        names = [name.strip() for name in arguments.keys.split(",")]
    if arguments.keys_file is not None:
        try:
            names = Path(arguments.keys_file).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise bad_parameter("--keys-file", arguments.keys_file, "a readable text file", reason) from None
    names = [name.rstrip("\r") for name in names if name.strip()]
    if arguments.other is not None and arguments.other not in names:
        names.append(arguments.other)
    return tuple(names)


def _per_person(text: str) -> int:
    found = re.fullmatch(r"(\d{1,7})(/tick)?", text.strip())
    if not found:
        raise bad_parameter("--per-person", text, "a number of rows per tick", "such as 1/tick")
    return int(found[1])
