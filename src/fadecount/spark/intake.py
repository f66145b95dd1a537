"""What the entry point reads: events from files, a table or a topic, and the declared keys.

Nothing is guessed about the columns of CSV files: all are text, for a key such as 007 must not become 7. Times are read by
the cast that every time goes through, in UTC unless they say otherwise.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from fadecount.errors import ParameterError, bad_parameter

_WITH_SCHEMA = ("parquet", "csv", "json", "orc")
_OPTIONS = {
    "header": "true",
    "maxFileAge": "36500d",  # Spark would pass over files that are a week older than the newest, without a word
}


def read_events(session: Any, wanted: Namespace) -> Any:
    """The events as a stream with the columns ``time`` and ``key``."""
    options = {**_OPTIONS, **dict(map(_option, wanted.option))}
    reader = session.readStream
    if wanted.format == "table":
        events = reader.options(**dict(map(_option, wanted.option))).table(wanted.events)
    elif wanted.format in _WITH_SCHEMA:
        known = wanted.schema or session.read.format(wanted.format).options(**options).load(wanted.events).schema
        events = reader.format(wanted.format).options(**options).schema(known).load(wanted.events)
    else:
        reader = reader.format(wanted.format).options(**dict(map(_option, wanted.option)))
        events = reader.load(wanted.events) if wanted.events else reader.load()
    if wanted.where:
        events = events.where(wanted.where)
    return events.selectExpr(f"({wanted.time}) as time", f"({wanted.key}) as key")


def read_keys(session: Any, path: str) -> Any:
    """The declared keys: the lines of a text file that the driver has, or the first column of Parquet anywhere."""
    if path.endswith(".parquet") or not Path(path).is_file():
        return session.read.parquet(path)
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
            return [line.removesuffix("\n") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ParameterError(f"keys must be a readable file, got {path!r} ({reason}); check it") from error


def _option(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise bad_parameter("--option", text, "NAME=VALUE", "such as maxFilesPerTrigger=10")
    return name, value
