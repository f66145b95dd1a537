"""What commands print: JSON, tables, sentences about losses, and progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from fadecount.durations import UNITS, format_duration
from fadecount.rounding import rounded_up

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


def loss_row(age: int, tick_seconds: int | None, **entries: Any) -> dict[str, Any]:
    """Return what is known at an age, as JSON has it."""
    return {"age": age, "seconds": age * tick_seconds if tick_seconds else None, **entries}


def loss_lines(rows: list[dict[str, Any]], titles: dict[str, str]) -> list[str]:
    """Return rows of :func:`loss_row` as aligned lines: the age in steps and, if the length of a
    step is known, as a duration; then the entries that have titles, losses rounded up."""
    known = rows[0]["seconds"] is not None
    table = [["age (steps)", *(["age"] if known else []), *titles.values()]]
    for row in rows:
        ages = [f"{row['age']:,}"]
        if known:
            ages.append(format_duration(row["seconds"]) if row["age"] else "at once")
        cells = (row[name] for name in titles)
        shown = (cell if isinstance(cell, str) else rounded_up(cell, 4) for cell in cells)
        table.append([*ages, *shown])
    sides = "".join("<" if isinstance(rows[0][name], str) else ">" for name in titles)
    return aligned(table, ">>" + sides if known else ">" + sides)


def aligned(rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    """Return rows of cells as lines with columns as wide as they need; ``sides`` says for each
    whether its cells stand to the left (``<``) or to the right (``>``)."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shape = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=False))
    return [shape.format(*row).rstrip() for row in rows]


def shown_ages(oldest: int, tick_seconds: int | None) -> list[int]:
    """Return the ages to list: 0, one step, then powers of ten, or a minute, an hour, a day ... up
    to the oldest."""
    if tick_seconds is None:
        grown = [10**power for power in range(19)]
    else:
        grown = [1, *(seconds // tick_seconds for seconds in _AGES if seconds >= tick_seconds)]
    return sorted({age for age in (0, *grown, oldest) if age <= oldest})


def age_words(age: int, tick_seconds: int | None) -> str:
    """Return an age as a duration, or in steps where their length is not known."""
    return format_duration(age * tick_seconds) if tick_seconds else f"{age:,} steps"


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
