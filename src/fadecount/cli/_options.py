"""Options that several commands share, and what they mean: mechanisms, events, times and ages,
windows, and where the store is."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.mechanisms import PlanFile
    from fadecount.sources import SourceOptions
    from fadecount.streams import Group
    from fadecount.streams.storage import Storage

GIVEN = ("plan", "epsilon", "exponent", "delay")
"""The options that give a mechanism."""


def add_options(
    parser: argparse._ActionsContainer,
    *options: tuple[str, str | None, str, Any],
    required: bool = False,
) -> None:
    """Add options, each of which is a name, what stands for its value, what it means, and its type
    (``bool`` for a flag without a value, ``list`` for one that may be repeated), its choices, or
    its default."""
    for name, metavar, text, kind in options:
        settings: dict[str, Any] = {"default": kind, "type": type(kind)}
        if kind is bool:
            settings = {"action": "store_true"}
        elif kind is list:
            settings = {"action": "append", "default": []}
        elif isinstance(kind, tuple):
            settings = {"choices": kind}
        elif isinstance(kind, type):
            settings = {"type": kind}
        if metavar is not None:
            settings["metavar"] = metavar
        if required:
            settings["required"] = True
        parser.add_argument(name, help=text, **settings)


JSON_OPTION = ("--json", None, "print the result as JSON", bool)
TICK_OPTION = (
    "--tick",
    "LENGTH",
    "length of one step, such as 1m or 1d: ages are then durations too",
    str,
)


def add_mechanism_options(parser: argparse.ArgumentParser) -> None:
    """``--plan FILE``, or the options of :class:`~fadecount.Gradual`; :func:`plan_from` reads
    them."""
    group = parser.add_argument_group("mechanism", "a plan file, or gradual expiration spelt out")
    add_options(
        group,
        ("--plan", "FILE", "any mechanism, from a JSON file: fadecount plan --save", str),
        ("--epsilon", "E", "gradual: loss at first sight", float),
        ("--exponent", "K", "gradual: how fast the loss grows (default: 1)", float),
        ("--delay", "STEPS", "gradual: steps by which outputs lag (default: 0)", int),
    )


def plan_from(arguments: argparse.Namespace, *, tick_seconds: int | None = None) -> PlanFile:
    """Return the mechanism that the options describe, for steps of this length if it is known, and
    what else a plan file says.

    An option beside a plan is refused: the user would expect a loss that differs from the real one.
    """
    from fadecount.mechanisms import Gradual, PlanFile, require_planned_tick

    given = {name: getattr(arguments, name) for name in GIVEN}
    given = {name: value for name, value in given.items() if value is not None}
    if "plan" in given:
        for name in list(given)[1:]:
            raise ParameterError(f"{_option(name)} is no option of a plan; leave it out")
        plan = PlanFile.read(arguments.plan)
        if tick_seconds is not None:
            require_planned_tick(plan.mechanism, tick_seconds)
        return plan
    if "epsilon" not in given:
        raise ParameterError("--epsilon or --plan must be given; see --help")
    return PlanFile(Gradual(**given))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def add_event_options(parser: argparse.ArgumentParser) -> None:
    """How events are read; :func:`source_options` reads these options."""
    group = parser.add_argument_group("events")
    add_options(group, ("--tick", "LENGTH", "length of a tick: 1m, 1h, 1d, ...", str))
    time = "a file needs it; without it, rows of a pipe count as they arrive"
    once = "each once a day (and key), by the first row (as --per-person 1/day)"
    late = "count in the open one (live default), or not (files; next must see no row twice)"
    text = "count undeclared keys under this one (other)"
    group.add_argument("--other", nargs="?", const="other", metavar="NAME", help=text)
    discover = "undeclared keys appear by themselves, from a number of persons on (--plan says it)"
    add_options(
        group,
        ("--discover", None, discover, bool),
        ("--zone", None, "zone of times without an offset, and of days and months", "UTC"),
        ("--separator", None, "separator of a CSV file: , ; | or a tab", ","),
        ("--time", "COL", f"column of the time ({time})", str),
        ("--time-unit", None, "ISO 8601, or Unix time in a unit", ("auto", "iso", "s", "ms", "us")),
        ("--key", "COL", "column of the key", str),
        ("--keys", "A,B,...", "the keys to count, a public list", str),
        ("--keys-file", "FILE", "the keys to count, one per line", str),
        ("--amount", "COL", "column of the amount, a whole number (default: counts 1)", str),
        ("--max-amount", "N", "largest amount: more is cut to it; noise grows in proportion", int),
        ("--person", "COL", "column of a person's id; ids are never stored", str),
        (
            "--per-person",
            "N/TIME",
            "rows of a person that count in a tick, hour, day or month (1/tick)",
            str,
        ),
        ("--count", None, f"persons: {once}", ("persons",)),
        ("--keys-per-person", "K", "count up to N rows under each of up to K keys (1)", int),
        ("--unique", "COL", "column of a row's id; in a tick each id counts once (files)", str),
        ("--late", None, f"rows of closed ticks: {late}", ("next", "drop")),
        (
            "--format",
            None,
            "format of the input (a pipe needs it)",
            ("csv", "jsonl", "log", "parquet"),
        ),
        ("--grace", "LENGTH", "live sources: how long to wait for late events", str),
    )


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """Return how to read the events, as the options say."""
    from fadecount.sources import SourceOptions

    if arguments.tick is None:
        raise ParameterError("--tick must be given, such as 1h, or the .toml file of a publication")
    for name in ("per_person", "keys_per_person", "count"):
        if getattr(arguments, name) is not None and arguments.person is None:
            raise ParameterError(
                f"--person must be given with {_option(name)}; it names the column of a person's id"
            )
    if arguments.count is not None:
        if arguments.per_person is not None:
            raise ParameterError("--per-person must be left out with --count persons: it is 1/day")
        arguments.per_person = "1/day"
    events, slot = per_person(arguments.per_person or "1/tick")
    names = {field.name for field in fields(SourceOptions) if field.init}
    given = {
        name: value
        for name, value in vars(arguments).items()
        if name in names and value is not None
    }
    given |= {"keys": _keys(arguments), "per_person": events, "person_per": slot}
    if arguments.grace is not None:
        given["grace_seconds"] = parse_duration(arguments.grace, name="--grace")
    return SourceOptions(**given)


def _keys(arguments: argparse.Namespace) -> tuple[str, ...]:
    names = [] if arguments.keys is None else arguments.keys.split(",")
    if arguments.keys_file is not None:
        if names:
            raise ParameterError("--keys must be left out with --keys-file; choose one of them")
        try:
            names = Path(arguments.keys_file).read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            remedy = getattr(error, "strerror", None) or "it is not UTF-8"
            file = arguments.keys_file
            raise bad_parameter("--keys-file", file, "a readable text file", remedy) from None
    names = [name.strip(" " if arguments.keys else "\r") for name in names if name.strip()]
    if arguments.other is not None and arguments.other not in names:
        names.append(arguments.other)
    return tuple(names)


def per_person(text: str) -> tuple[int, str]:
    """Return how many events of a person count, and in which slot: ``tick`` or a length of the
    calendar."""
    from fadecount.calendar import Length

    written = re.fullmatch(r"\s*(\d{1,7})(?:/(\w+))?\s*", text)
    slot = _PERIODS.get(written[2], written[2]) if written and written[2] else "tick"
    if written is None or (slot != "tick" and Length.named(slot) is None):
        bound = "a number of events per tick, hour, day or month"
        raise bad_parameter("--per-person", text, bound, "such as 1/tick or 4/day")
    return int(written[1]), slot


def group_from(arguments: argparse.Namespace) -> Group | None:
    """Return the group that ``--group`` names, with the promise that ``--group-loss`` gives."""
    from fadecount.streams.loss import Group

    limits = limits_from(arguments.group_loss, name="--group-loss")
    if arguments.group is not None:
        return Group.of(arguments.group, limits) if limits else Group(name=arguments.group)
    if limits:
        raise ParameterError("--group must be given with --group-loss; it names the group")
    return None


def limits_from(texts: list[str], *, name: str, shape: str = "AGE=LOSS") -> dict[str, float]:
    """Return the largest loss up to each age, as AGE=LOSS gives them; ages stay as written."""
    limits = {}
    for text in texts:
        age, _, loss = text.partition("=")
        if age in limits:
            raise ParameterError(f"{name} must name each age once; remove the duplicate")
        try:
            limits[age] = float(loss)
        except ValueError:
            raise bad_parameter(name, text, shape, "such as 30d=2") from None
    return limits


_OLDEST = 1 << 60
_PERIODS = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w"} | {
    "month": "1mo",
    "year": "1y",
}


def tick_seconds_from(arguments: argparse.Namespace) -> int | None:
    return None if arguments.tick is None else parse_duration(arguments.tick, name="--tick")


def steps_from(text: str, tick_seconds: int | None, *, name: str, minimum: int = 0) -> int:
    """A number of steps: written as one, or (with a tick) as a duration, which is cut to whole
    steps and has at least one."""
    if text.strip().isascii() and text.strip().isdigit():
        steps = int(text)
    elif tick_seconds is None:
        remedy = "give --tick to use durations such as 1d"
        raise bad_parameter(name, text, "a number of steps", remedy)
    else:
        steps, minimum = parse_duration(text, name=name) // tick_seconds, max(minimum, 1)
    if not minimum <= steps < _OLDEST:
        bound = f"from {minimum} to 2**60 - 1 steps"
        raise bad_parameter(name, text, bound, "a step is as long as --tick says")
    return steps


def default_horizon(tick_seconds: int | None) -> int:
    """A year, or a million steps where the length of a step is not known or longer than a year."""
    year = UNITS["y"]
    return year // tick_seconds if tick_seconds and tick_seconds <= year else 10**6


def add_per_option(parser: argparse._ActionsContainer) -> None:
    """``--per``: the slots that figures are about."""
    text = "figures per 1h, 1d, 1w, 1mo, ..., or total (default: days of blocks, else totals)"
    add_options(parser, ("--per", "LENGTH", text, str))


STATE_DEFAULT = "FADECOUNT_STATE, else ~/.local/share/fadecount"
"""Where every command looks for a store that is not named, except a run: see
:func:`named_storage`."""


def add_store_options(parser: argparse.ArgumentParser, *, default: str = STATE_DEFAULT) -> None:
    """``--state DIR`` or ``--database URL``, ``--fence``, ``--key-file``; :func:`storage_from`
    reads them."""
    group = parser.add_argument_group("store")
    text = f"folder of the store (default: {default})"
    fence = "folder or PostgreSQL URL of the rollback fence (default: the user's state folder)"
    add_options(
        group.add_mutually_exclusive_group(),
        ("--state", "DIR", text, str),
        ("--database", "URL", "PostgreSQL store: postgresql://user@host/name", str),
    )
    add_options(
        group,
        ("--fence", "WHERE", fence, str),
        ("--key-file", "FILE", "key that seals the state (default: FADECOUNT_KEY, or none)", str),
    )


def storage_from(arguments: argparse.Namespace) -> Storage:
    """Return where the store, the fence and the key are: as the options say, else the environment.
    The folder of the service is the last resort."""
    from fadecount.streams.storage import Storage, default_folder

    database = arguments.database or (None if arguments.state else _variable("database"))
    return Storage(
        folder=Path(arguments.state) if arguments.state else default_folder(),
        database=database,
        fence=arguments.fence or _variable("fence"),
        key_file=arguments.key_file or _variable("key_file"),
    )


def named_storage(arguments: argparse.Namespace) -> Storage | None:
    """Return where the store is that the options or the environment name; None if they name none.

    A run that names no store keeps nothing: the service closes the ticks of every stream in its
    folder by the clock, so a file must not be counted there unasked.
    """
    places = arguments.state, arguments.database, _variable("state"), _variable("database")
    if any(places):
        return storage_from(arguments)
    for name in ("fence", "key_file"):
        if getattr(arguments, name) is not None:
            raise ParameterError(
                f"--state or --database must be given with {_option(name)}; without them nothing"
                " is kept"
            )
    return None


def _variable(name: str) -> str | None:
    return os.environ.get(f"FADECOUNT_{name.upper()}") or None
