"""Options that several commands share, and what they mean: mechanisms, events, times and ages,
windows, visits of a person, and where the store is."""

from __future__ import annotations

import argparse
import math
import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.mechanisms import Mechanism
    from fadecount.planning import Person
    from fadecount.sources import SourceOptions
    from fadecount.streams import Monotone, Reader, Store

_MECHANISMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gradual": (("epsilon",), ("exponent", "delay")),
    "linear": (("epsilon",), ()),
    "refresh": (("window", "epsilon_current", "epsilon_past"), ()),
    "binary": (("epsilon", "steps"), ()),
    "designed": (("budgets",), ("delay",)),
    "gaussian": (("sigma",), ("growth", "delta", "delay")),
}
"""The options that each mechanism needs, and those that it may have."""
KINDS = tuple(_MECHANISMS)
GIVEN = (
    "plan",
    "mechanism",
    *sorted({name for both in _MECHANISMS.values() for names in both for name in names}),
)


def add_options(parser: argparse._ActionsContainer, *options: tuple[str, str, str, Any]) -> None:
    """Add options that take a value: name, what stands for the value, what it means, and either
    its type or its choices."""
    for name, metavar, text, kind in options:
        if isinstance(kind, tuple):
            parser.add_argument(name, choices=kind, help=text)
        else:
            parser.add_argument(name, metavar=metavar, type=kind, help=text)


def add_mechanism_options(parser: argparse.ArgumentParser) -> None:
    """``--plan FILE``, or the options of a mechanism; :func:`mechanism_from` reads them."""
    group = parser.add_argument_group(
        "mechanism", "a plan file, or a mechanism spelt out (default: gradual, exponent 1)"
    )
    add_options(
        group,
        ("--plan", "FILE", "mechanism from a JSON file", str),
        ("--mechanism", "", "which mechanism (default: gradual)", KINDS),
        ("--epsilon", "E", "loss at first sight (all of it for binary)", float),
        ("--exponent", "K", "gradual: how fast the loss grows (default: 1)", float),
        ("--delay", "STEPS", "gradual, designed, gaussian: steps by which outputs lag", int),
        ("--budgets", "E0,E1,...", "designed: level budgets; inf allowed, the last continues", str),
        ("--window", "STEPS", "refresh: steps between two refreshes", int),
        ("--epsilon-current", "E", "refresh: budget of the running round", float),
        ("--epsilon-past", "E", "refresh: budget for all earlier rounds", float),
        ("--sigma", "S", "gaussian: standard deviation of the noise at each step", float),
        ("--growth", "G", "gaussian: how fast the loss grows (default: 0, the best)", float),
        ("--delta", "D", "gaussian: chance that the promise may fail (default: 1e-9)", float),
        ("--steps", "N", "binary: how many steps there will ever be", int),
    )


def mechanism_from(arguments: argparse.Namespace, *, tick_seconds: int | None = None) -> Mechanism:
    """Return the mechanism that the options describe, for steps of this length if it is known.

    An option that the mechanism does not have is refused: the user would expect a loss that differs
    from the real one.
    """
    import fadecount as fc
    from fadecount.mechanisms import read_mechanism

    kind = arguments.mechanism or "gradual"
    needed, optional = _MECHANISMS[kind]
    takes = ("plan",) if arguments.plan else ("mechanism", *needed, *optional)
    what = "a plan" if arguments.plan else kind
    for name in GIVEN:
        if name not in takes and getattr(arguments, name) is not None:
            raise ParameterError(
                f"{_option(name)} is no option of {what}; leave it out, or see --help"
            )
    if arguments.plan:
        return read_mechanism(arguments.plan, tick_seconds=tick_seconds)
    given = {name: getattr(arguments, name) for name in (*needed, *optional)}
    for name in needed:
        if given[name] is None:
            raise ParameterError(
                f"{_option(name)} must be given for {kind}; see --help, or give --plan FILE"
            )
    given = {name: value for name, value in given.items() if value is not None}
    if kind == "binary":
        return fc.Binary(epsilon=given["epsilon"], horizon=given["steps"])
    if kind == "designed":
        given["budgets"] = _budgets(given["budgets"])
    make: dict[str, Any] = {
        "gradual": fc.Gradual,
        "linear": fc.Linear,
        "refresh": fc.Refresh,
        "designed": fc.Designed,
        "gaussian": fc.Gaussian.gradual,
    }
    mechanism: Mechanism = make[kind](**given)
    return mechanism


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _budgets(text: str) -> tuple[float, ...]:
    try:
        return tuple(math.inf if each.strip() == "inf" else float(each) for each in text.split(","))
    except ValueError:
        raise bad_parameter(
            "--budgets", text, "numbers with commas between", "such as 0.1,0.1,0.05 or 0.1,inf"
        ) from None


def add_event_options(parser: argparse.ArgumentParser) -> None:
    """How events are read; :func:`source_options` reads these options."""
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
        "--other",
        nargs="?",
        const="other",
        metavar="NAME",
        help="count undeclared keys under this one (other)",
    )
    group.add_argument("--separator", default=",", help="separator of a CSV file: , ; | or a tab")
    add_options(
        group,
        (
            "--time",
            "COL",
            "column of the time (a file needs it; without it, rows of a pipe count as they arrive)",
            str,
        ),
        ("--time-unit", "", "ISO 8601, or Unix time in a unit", ("auto", "iso", "s", "ms", "us")),
        ("--key", "COL", "column of the key", str),
        ("--keys", "A,B,...", "the keys to count, a public list", str),
        ("--keys-file", "FILE", "the keys to count, one per line", str),
        ("--amount", "COL", "column of the amount, a whole number (default: counts 1)", str),
        ("--max-amount", "N", "largest amount; the noise grows in proportion", int),
        ("--person", "COL", "column of a person's id; ids are never stored", str),
        ("--per-person", "N/tick", "rows of a person that count in a tick (default: 1/tick)", str),
        ("--keys-per-person", "K", "count up to N rows under each of up to K keys (1)", int),
        ("--format", "", "format of the input (a pipe needs it)", ("csv", "jsonl", "parquet")),
        ("--grace", "LENGTH", "live sources: how long to wait for late events", str),
    )


def source_options(arguments: argparse.Namespace) -> SourceOptions:
    """Return how to read the events, as the options say."""
    from fadecount.sources import SourceOptions

    for name in ("per_person", "keys_per_person"):
        if getattr(arguments, name) is not None and arguments.person is None:
            raise ParameterError(
                f"--person must be given with {_option(name)}; it names the column of a person's id"
            )
    names = ("time", "time_unit", "zone", "key", "other", "amount", "max_amount", "person")
    given = {
        name: getattr(arguments, name)
        for name in (*names, "keys_per_person", "format", "separator")
        if getattr(arguments, name) is not None
    }
    return SourceOptions(
        tick_seconds=parse_duration(arguments.tick, name="--tick"),
        keys=_keys(arguments),
        per_person=_per_person(arguments.per_person),
        grace_seconds=parse_duration(arguments.grace, name="--grace") if arguments.grace else 0,
        **given,
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


def _per_person(text: str | None) -> int:
    written = re.fullmatch(r"(\d{1,7})(/tick)?", (text or "1").strip())
    if not written:
        raise bad_parameter("--per-person", text, "a number of rows per tick", "such as 1/tick")
    return int(written[1])


def parse_time(text: str, zone: str, *, name: str) -> datetime:
    """Return a time; without an offset it is in the given zone."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))
        if not 6 < moment.year < 9987:
            raise ValueError("no ticks")
    except ValueError:
        raise bad_parameter(
            name,
            text,
            "a time in ISO 8601, in the years 7 to 9986",
            "such as 2026-03-01T10:00 or 2026-03-01T10:00:00+01:00",
        ) from None
    return moment


_OLDEST = 1 << 60
PERIODS = {
    "second": "1s",
    "minute": "1m",
    "hour": "1h",
    "day": "1d",
    "week": "1w",
    "month": "1mo",
    "year": "1y",
}


def add_tick_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tick",
        metavar="DURATION",
        help="length of one step, such as 1m or 1d: ages are then in human time too",
    )


def tick_seconds_from(arguments: argparse.Namespace) -> int | None:
    return None if arguments.tick is None else parse_duration(arguments.tick, name="--tick")


def steps_from(
    text: str,
    tick_seconds: int | None,
    *,
    name: str,
    minimum: int = 0,
    rounding: Literal["up", "down"] = "down",
) -> int:
    """A number of steps: written as one, or (with a tick) as a duration, which is rounded to whole
    steps.

    ``rounding="down"`` is for ages to look up and for windows: it needs at least one whole step.
    ``rounding="up"`` is for limits: a limit at a later age is the stricter one.
    """
    if text.strip().isascii() and text.strip().isdigit():
        steps = int(text)
    elif tick_seconds is None:
        raise bad_parameter(
            name, text, "a number of steps", "give --tick to use durations such as 1d"
        )
    else:
        seconds = parse_duration(text, name=name)
        steps = seconds // tick_seconds if rounding == "down" else -(-seconds // tick_seconds)
        minimum = max(minimum, 1)
    if not minimum <= steps < _OLDEST:
        raise bad_parameter(
            name, text, f"from {minimum} to 2**60 - 1 steps", "a step is as long as --tick says"
        )
    return steps


def person_from(text: str | None, tick_seconds: int | None, *, name: str) -> Person | None:
    """How often a person contributes: ``24`` (ever), or ``24/day`` (in any day, in whole steps,
    rounded to the stricter side).

    ``3/tick`` is what a person does in one step: the unit of a stream.
    """
    from fadecount.planning import Person

    if text is None:
        return None
    events, slash, period = (part.strip() for part in text.partition("/"))
    if not events.isdecimal() or len(events) > 18 or (slash and not period):
        raise bad_parameter(
            name, text, "a number of events, or such a number per time", "such as 24 or 24/day"
        )
    if not slash:
        return Person(events=int(events))
    if period == "tick":
        return Person(events=int(events), per_step=True)
    written = PERIODS.get(period, period)
    if tick_seconds is None or written.isdecimal():
        return Person(events=int(events), steps=steps_from(written, tick_seconds, name=name))
    seconds = parse_duration(written, name=name)
    return Person.in_time(int(events), seconds, tick_seconds)


def default_horizon(tick_seconds: int | None) -> int:
    """A year, or a million steps where the length of a step is not known or longer than a year."""
    return (
        10**6 if tick_seconds is None or tick_seconds > UNITS["y"] else UNITS["y"] // tick_seconds
    )


MOST_VISITS = 1_000_000


def add_visit_options(parser: argparse._ActionsContainer, text: str) -> None:
    """``--visits 1/day --for 30d``; :func:`visits_from` reads them."""
    parser.add_argument(
        "--visits", metavar="N/TIME", help=f"someone who comes so often, such as 1/day: {text}"
    )
    parser.add_argument(
        "--for",
        dest="span",
        metavar="LENGTH",
        default="30d",
        help="with --visits: for so long (30d)",
    )


def visits_from(
    arguments: argparse.Namespace, tick_seconds: int | None
) -> tuple[int, int, int, int]:
    """Return the visits as at most so many events, in every so many steps, for so many steps, of
    so many seconds."""
    if tick_seconds is None:
        raise ParameterError("--tick must be given with --visits; visits are a matter of days")
    person = person_from(arguments.visits, tick_seconds, name="--visits")
    length = steps_from(arguments.span, tick_seconds, name="--for", minimum=1, rounding="up")
    assert person is not None
    every = 1 if person.per_step else person.steps or length
    if person.events * -(-length // every) > MOST_VISITS:
        raise bad_parameter(
            "--visits",
            arguments.visits,
            f"at most {MOST_VISITS:,} visits in all",
            "choose fewer, or a shorter --for",
        )
    return person.events, every, length, tick_seconds


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
    if arguments.per is not None and getattr(arguments, "monotone", None) is not None:
        raise ParameterError("--monotone is no option of --per; windows have --nonnegative")


def monotone_view(largest_step: str) -> Monotone:
    from fadecount.streams.releases import Monotone

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


def place_store(arguments: argparse.Namespace, *, keep: bool) -> None:
    """Fill in where the store, the fence and the key are, as the environment says.

    With ``keep``, the folder of the service is the last resort. Without it, a run that names no
    store keeps nothing: the service closes the ticks of every stream in its folder by the clock, so
    a file must not be counted there unasked.
    """
    if not is_stored(arguments):
        arguments.database = _variable("database")
        arguments.state = None if arguments.database else _variable("state")
    if not is_stored(arguments) and keep:
        from fadecount.service.settings import default_folder

        arguments.state = default_folder()
    if not is_stored(arguments):
        for option in ("fence", "key_file"):
            if getattr(arguments, option) is not None:
                raise ParameterError(
                    f"--state or --database must be given with {_option(option)}; without them"
                    " nothing is kept"
                )
    arguments.fence = arguments.fence or _variable("fence")
    arguments.key_file = arguments.key_file or _variable("key_file")


def _variable(name: str) -> str | None:
    return os.environ.get(f"FADECOUNT_{name.upper()}") or None


def is_stored(arguments: argparse.Namespace) -> bool:
    """Return whether the options or the environment name a store."""
    return arguments.state is not None or arguments.database is not None


def open_store(arguments: argparse.Namespace) -> Store:
    """Return the store for writing."""
    from fadecount.streams import PostgresStore, SQLiteStore, fence_from, seal_from

    seal, fence = seal_from(arguments.key_file), fence_from(arguments.fence)
    if arguments.database is not None:
        return PostgresStore(arguments.database, fence=fence, seal=seal)
    return SQLiteStore(Path(arguments.state) / FILE_NAME, fence=fence, seal=seal)


def open_reader(arguments: argparse.Namespace) -> Reader:
    """Return the reader of the published releases of the store."""
    from fadecount.streams import Reader

    if arguments.database is not None:
        return Reader.of_server(arguments.database)
    return Reader.of_file(Path(arguments.state) / FILE_NAME)
