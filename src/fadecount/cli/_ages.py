"""Ages as people give and read them: in steps, or in human time where the length of a step is
known."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import bad_parameter

if TYPE_CHECKING:
    from fadecount.planning import Person

_OLDEST = 1 << 60
_HUMAN = (UNITS["m"], UNITS["h"], UNITS["d"], UNITS["w"], UNITS["mo"], UNITS["y"], 10 * UNITS["y"])
DEFAULT_STEPS = 10**6
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
        DEFAULT_STEPS
        if tick_seconds is None or tick_seconds > UNITS["y"]
        else UNITS["y"] // tick_seconds
    )


def shown_ages(oldest: int, tick_seconds: int | None) -> list[int]:
    """The ages to list: 0, one step, then powers of ten, or a minute, an hour, a day ... up to the
    oldest."""
    if tick_seconds is None:
        grown = [10**power for power in range(19)]
    else:
        grown = [1, *(seconds // tick_seconds for seconds in _HUMAN if seconds >= tick_seconds)]
    return sorted({age for age in (0, *grown, oldest) if age <= oldest})


def age_name(age: int, tick_seconds: int | None) -> str:
    """An age in human time, if the length of a step is known."""
    if not tick_seconds:
        return ""
    return format_duration(age * tick_seconds) if age else "at once"


def lines_of(rows: list[list[str]], *, tick_seconds: int | None) -> str:
    """Rows as aligned lines, all columns to the right; without a tick the second column, human
    time, is left out."""
    if tick_seconds is None:
        rows = [[row[0], *row[2:]] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
