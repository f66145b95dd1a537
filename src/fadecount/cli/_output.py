"""What commands print: JSON, tables, sentences about losses, and progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fadecount.durations import UNITS, format_duration

if TYPE_CHECKING:
    from fadecount.mechanisms import Mechanism

_AGES = (UNITS["m"], UNITS["h"], UNITS["d"], UNITS["w"], UNITS["mo"], UNITS["y"], 10 * UNITS["y"])


def json_text(value: object) -> str:
    """Return a result as JSON. A number without bound is written as ``"inf"``, as in plan files:
    JSON has no infinity."""
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def lines_of(rows: list[list[str]], *, tick_seconds: int | None) -> str:
    """Return rows as aligned lines, all columns to the right; without a tick the second column,
    the age as a duration, is left out."""
    if tick_seconds is None:
        rows = [[row[0], *row[2:]] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def shown_ages(oldest: int, tick_seconds: int | None) -> list[int]:
    """Return the ages to list: 0, one step, then powers of ten, or a minute, an hour, a day ... up
    to the oldest."""
    if tick_seconds is None:
        grown = [10**power for power in range(19)]
    else:
        grown = [1, *(seconds // tick_seconds for seconds in _AGES if seconds >= tick_seconds)]
    return sorted({age for age in (0, *grown, oldest) if age <= oldest})


def age_name(age: int, tick_seconds: int | None) -> str:
    """Return an age as a duration, if the length of a step is known."""
    if not tick_seconds:
        return ""
    return format_duration(age * tick_seconds) if age else "at once"


def exception_of(mechanism: Mechanism) -> str:
    """Return the end of a sentence about a loss: the chance with which a promise may fail."""
    delta = getattr(mechanism, "delta", None)
    return "" if delta is None else f", except with a chance of {delta:g}"


@contextmanager
def progress(label: str, *, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes how much more work is done. After half a second a bar on the
    terminal shows it; without a terminal nothing does."""
    if not sys.stderr.isatty():
        yield lambda _amount: None
        return
    from tqdm import tqdm

    shape = None if total else "{desc} {elapsed}"
    with tqdm(desc=label, total=total, delay=0.5, bar_format=shape, unit_scale=True) as bar:

        def advance(amount: float) -> None:
            bar.update(amount)

        yield advance


def waiting(label: str) -> AbstractContextManager[object]:
    """Say on the terminal that work without a measure of progress goes on."""
    if not sys.stderr.isatty():
        return nullcontext()
    from tqdm import tqdm

    return tqdm(desc=label, bar_format="{desc} ...")
