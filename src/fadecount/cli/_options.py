"""Options that several commands share: how a mechanism is given, how events are read, where the
store is."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from fadecount import Binary, Designed, Gaussian, Gradual, Linear, Mechanism, Refresh
from fadecount.durations import parse_duration
from fadecount.errors import ParameterError, bad_parameter
from fadecount.mechanisms import read_mechanism

if TYPE_CHECKING:
    from fadecount.sources import SourceOptions
    from fadecount.streams import Monotone, Reader, Store


_TAKES = {
    "gradual": ("epsilon", "exponent", "delay"),
    "linear": ("epsilon",),
    "refresh": ("window", "epsilon_current", "epsilon_past"),
    "binary": ("epsilon", "steps"),
    "designed": ("budgets", "delay"),
    "gaussian": ("sigma", "growth", "delta", "delay"),
}
KINDS = tuple(_TAKES)
GIVEN = ("plan", "mechanism", *sorted({name for names in _TAKES.values() for name in names}))


def add_mechanism_options(parser: argparse.ArgumentParser) -> None:
    """``--plan FILE``, or the options of a mechanism; :func:`mechanism_from` reads them."""
    group = parser.add_argument_group(
        "mechanism", "a plan file, or a mechanism spelt out (default: gradual, exponent 1)"
    )
    group.add_argument("--plan", metavar="FILE", help="mechanism from a JSON file")
    group.add_argument("--mechanism", choices=KINDS, help="which mechanism (default: gradual)")
    group.add_argument(
        "--epsilon", type=float, metavar="E", help="loss at first sight (all of it for binary)"
    )
    group.add_argument(
        "--exponent", type=float, metavar="K", help="gradual: how fast the loss grows (default: 1)"
    )
    group.add_argument(
        "--delay",
        type=int,
        metavar="STEPS",
        help="gradual, designed, gaussian: steps by which outputs lag",
    )
    group.add_argument(
        "--budgets",
        metavar="E0,E1,...",
        help="designed: level budgets; inf allowed, the last one continues",
    )
    group.add_argument(
        "--window", type=int, metavar="STEPS", help="refresh: steps between two refreshes"
    )
    group.add_argument(
        "--epsilon-current", type=float, metavar="E", help="refresh: budget of the running round"
    )
    group.add_argument(
        "--epsilon-past", type=float, metavar="E", help="refresh: budget for all earlier rounds"
    )
    group.add_argument(
        "--sigma",
        type=float,
        metavar="S",
        help="gaussian: standard deviation of the noise at each step",
    )
    group.add_argument(
        "--growth",
        type=float,
        metavar="G",
        help="gaussian: how fast the loss grows (default: 0, the best balance)",
    )
    group.add_argument(
        "--delta",
        type=float,
        metavar="D",
        help="gaussian: chance that the promise may fail (default: 1e-9)",
    )
    group.add_argument(
        "--steps", type=int, metavar="N", help="binary: how many steps there will ever be"
    )


def mechanism_from(arguments: argparse.Namespace, *, tick_seconds: int | None = None) -> Mechanism:
    """The mechanism that the options describe, for steps of this length if it is known.

    An option that the mechanism does not have is refused: the user would expect a loss that differs
    from the real one.
    """
    kind = arguments.mechanism or "gradual"
    _check_given(arguments, kind)
    if arguments.plan:
        return read_mechanism(arguments.plan, tick_seconds=tick_seconds)
    delay = arguments.delay or 0
    if kind == "gradual":
        exponent = 1.0 if arguments.exponent is None else arguments.exponent
        return Gradual(epsilon=_needed(arguments, "epsilon"), exponent=exponent, delay=delay)
    if kind == "gaussian":
        return Gaussian.gradual(
            _needed(arguments, "sigma"),
            growth=0.0 if arguments.growth is None else arguments.growth,
            delta=1e-9 if arguments.delta is None else arguments.delta,
            delay=delay,
        )
    if kind == "linear":
        return Linear(epsilon=_needed(arguments, "epsilon"))
    if kind == "binary":
        return Binary(epsilon=_needed(arguments, "epsilon"), horizon=_needed(arguments, "steps"))
    if kind == "refresh":
        return Refresh(
            window=_needed(arguments, "window"),
            epsilon_current=_needed(arguments, "epsilon_current"),
            epsilon_past=_needed(arguments, "epsilon_past"),
        )
    return Designed(budgets=_budgets(_needed(arguments, "budgets")), delay=delay)


def _check_given(arguments: argparse.Namespace, kind: str) -> None:
    takes, what = (("plan",), "a plan") if arguments.plan else (("mechanism", *_TAKES[kind]), kind)
    for name in GIVEN:
        if name not in takes and getattr(arguments, name) is not None:
            raise ParameterError(
                f"{_option(name)} is no option of {what}; leave it out, or see --help"
            )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _needed(arguments: argparse.Namespace, name: str) -> Any:
    value = getattr(arguments, name)
    if value is None:
        kind = arguments.mechanism or "gradual"
        raise ParameterError(
            f"{_option(name)} must be given for {kind}; see --help, or give --plan FILE"
        )
    return value


def _budgets(text: str | float) -> tuple[float, ...]:
    try:
        return tuple(
            math.inf if each.strip() == "inf" else float(each) for each in str(text).split(",")
        )
    except ValueError:
        raise bad_parameter(
            "--budgets", text, "numbers with commas between", "such as 0.1,0.1,0.05 or 0.1,inf"
        ) from None


def add_event_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("events")
    group.add_argument(
        "--tick", required=True, metavar="LENGTH", help="length of a tick: 1m, 1h, 1d, ..."
    )
    group.add_argument(
        "--zone",
        default="UTC",
        help="time zone of times without an offset, and of ticks of whole days",
    )
    group.add_argument(
        "--time",
        metavar="COL",
        help=(
            "column of the time (a file needs it; without it, rows of a pipe count as they arrive)"
        ),
    )
    group.add_argument(
        "--time-unit",
        choices=("auto", "iso", "s", "ms", "us"),
        default="auto",
        help="ISO 8601, or Unix time in a unit",
    )
    group.add_argument("--key", metavar="COL", help="column of the key")
    group.add_argument("--keys", metavar="A,B,...", help="the keys to count, a public list")
    group.add_argument("--keys-file", metavar="FILE", help="the keys to count, one per line")
    group.add_argument(
        "--other",
        nargs="?",
        const="other",
        metavar="NAME",
        help="count undeclared keys under this one (other)",
    )
    group.add_argument(
        "--amount",
        metavar="COL",
        help="column of the amount, a whole number (default: every event counts 1)",
    )
    group.add_argument(
        "--max-amount",
        type=int,
        default=1,
        metavar="N",
        help="largest amount; the noise grows in proportion",
    )
    group.add_argument(
        "--person", metavar="COL", help="column of a person's id; ids are never stored"
    )
    group.add_argument(
        "--per-person",
        metavar="N/tick",
        help="rows of a person that count in a tick (default: 1/tick)",
    )
    group.add_argument(
        "--keys-per-person",
        type=int,
        metavar="K",
        help="count up to N rows of a person under each of up to K keys (default: 1)",
    )
    group.add_argument(
        "--format",
        choices=("csv", "jsonl", "parquet"),
        help="format of the input (a pipe needs it)",
    )
    group.add_argument("--separator", default=",", help="separator of a CSV file: , ; | or a tab")
    group.add_argument(
        "--grace",
        metavar="LENGTH",
        help="live sources: how long to wait for late events by the clock",
    )


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """How to read the events, as the options say."""
    from fadecount.sources import SourceOptions

    return SourceOptions(
        tick_seconds=parse_duration(arguments.tick, name="--tick"),
        time=arguments.time,
        time_unit=arguments.time_unit,
        zone=arguments.zone,
        key=arguments.key,
        keys=_keys(arguments),
        other=arguments.other,
        amount=arguments.amount,
        max_amount=arguments.max_amount,
        person=arguments.person,
        per_person=_per_person(arguments),
        keys_per_person=_keys_per_person(arguments),
        format=arguments.format,
        separator=arguments.separator,
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
            raise bad_parameter(
                "--keys-file", arguments.keys_file, "a readable text file", reason
            ) from None
    names = [name.rstrip("\r") for name in names if name.strip()]
    if arguments.other is not None and arguments.other not in names:
        names.append(arguments.other)
    return tuple(names)


def _per_person(arguments: argparse.Namespace) -> int:
    text = arguments.per_person
    if text is None:
        return 1
    if arguments.person is None:
        raise ParameterError(
            "--person must be given with --per-person; it names the column of a person's id"
        )
    found = re.fullmatch(r"(\d{1,7})(/tick)?", text.strip())
    if not found:
        raise bad_parameter("--per-person", text, "a number of rows per tick", "such as 1/tick")
    return int(found[1])


def _keys_per_person(arguments: argparse.Namespace) -> int:
    if arguments.keys_per_person is None:
        return 1
    if arguments.person is None:
        raise ParameterError(
            "--person must be given with --keys-per-person; it names the column of a person's id"
        )
    return int(arguments.keys_per_person)


def json_text(value: object) -> str:
    """A result as JSON. A number without bound is written as ``"inf"``, as in plan files: JSON has
    no infinity."""
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


FILE_NAME = "streams.db"


STATE_DEFAULT = "FADECOUNT_STATE, else ~/.local/share/fadecount"
"""Where every command looks for a store that is not named, except a run: see
:func:`place_store`."""


def add_store_options(parser: argparse.ArgumentParser, *, default: str = STATE_DEFAULT) -> None:
    """``--state DIR`` or ``--database URL``, ``--fence``, ``--key-file``; :func:`place_store` fills
    in what is not given."""
    group = parser.add_argument_group("store")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--state", metavar="DIR", help=f"folder of the store (default: {default})")
    where.add_argument(
        "--database", metavar="URL", help="PostgreSQL store: postgresql://user@host/name"
    )
    group.add_argument(
        "--fence",
        metavar="WHERE",
        help="folder or PostgreSQL URL of the rollback fence (default: the user's state folder)",
    )
    group.add_argument(
        "--key-file",
        metavar="FILE",
        help="key that seals the state (default: FADECOUNT_KEY, else not sealed)",
    )


def add_monotone_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--monotone",
        nargs="?",
        const="",
        metavar="N",
        help=(
            "a view that never falls (and, with N, never rises by more than N in a tick), computed"
            " from the releases alone"
        ),
    )


def add_window_options(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--per",
        metavar="LENGTH",
        help=(
            "counts of windows instead of totals: 1h, 1d, 1w, 1mo, ... (may be negative: noise is)"
        ),
    )
    parser.add_argument(
        "--nonnegative",
        action="store_true",
        help="with --per: the nearest view in which no window is negative",
    )


def check_window_options(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if arguments.nonnegative and arguments.per is None:
        raise ParameterError("--per must be given with --nonnegative; a total has --monotone")
    if arguments.per is not None and arguments.monotone is not None:
        raise ParameterError("--monotone is no option of --per; windows have --nonnegative")


def monotone_view(largest_step: str) -> Monotone:
    from fadecount.streams import Monotone

    if not largest_step:
        return Monotone()
    if not largest_step.isdecimal() or not 0 < int(largest_step) < 1 << 40:
        raise bad_parameter(
            "--monotone",
            largest_step,
            "a positive whole number, or left out",
            "it bounds the rise in one tick",
        )
    return Monotone(largest_step=int(largest_step))


def place_store(arguments: argparse.Namespace, *, keep: bool) -> None:
    """Fill in where the store, the fence and the key are, as the environment and the settings file
    of the service say.

    With ``keep``, the folder of the service is the last resort. Without it, a run that names no
    store keeps nothing: the service closes the ticks of every stream in its folder by the clock, so
    a file must not be counted there unasked.
    """
    from fadecount.service.configuration import STORE_SETTINGS, configuration, default_folder

    chosen = configuration({}, os.environ, only=STORE_SETTINGS)
    if not is_stored(arguments):
        arguments.database = chosen["database"]
        arguments.state = (
            None if arguments.database else chosen["state"] or (default_folder() if keep else None)
        )
    if not is_stored(arguments):
        for option in ("fence", "key_file"):
            if getattr(arguments, option) is not None:
                raise ParameterError(
                    f"--state or --database must be given with {_option(option)}; without them"
                    " nothing is kept"
                )
    arguments.fence = arguments.fence or chosen["fence"]
    arguments.key_file = arguments.key_file or chosen["key_file"]


def is_stored(arguments: argparse.Namespace) -> bool:
    return arguments.state is not None or arguments.database is not None


def open_store(arguments: argparse.Namespace) -> Store:
    """The store for writing; one in memory if none was named."""
    from fadecount.streams import PostgresStore, SQLiteStore, fence_from, seal_from

    if not is_stored(arguments):
        return SQLiteStore.in_memory()
    seal, fence = seal_from(arguments.key_file), fence_from(arguments.fence)
    if arguments.database is not None:
        return PostgresStore(arguments.database, fence=fence, seal=seal)
    return SQLiteStore(Path(arguments.state) / FILE_NAME, fence=fence, seal=seal)


def open_reader(arguments: argparse.Namespace) -> Reader:
    """The published releases of the store."""
    from fadecount.streams import Reader

    if arguments.database is not None:
        return Reader.of_server(arguments.database)
    return Reader.of_file(Path(arguments.state) / FILE_NAME)


def parse_time(text: str, zone: str, *, name: str) -> datetime:
    """A time; without an offset it is in the given zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_parameter(
            name,
            text,
            "a time in ISO 8601",
            "such as 2026-03-01T10:00 or 2026-03-01T10:00:00+01:00",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
