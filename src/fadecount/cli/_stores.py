"""Options that commands on stored streams share: where the store is, its fence and its key."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.streams import Monotone, Reader, Store

FILE_NAME = "streams.db"


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """``--state DIR`` or ``--database URL``, ``--fence``, ``--key-file``."""
    group = parser.add_argument_group("store")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--state", metavar="DIR", help="folder of the store (SQLite)")
    where.add_argument("--database", metavar="URL", help="PostgreSQL store: postgresql://user@host/name")
    group.add_argument(
        "--fence", metavar="WHERE", help="folder or PostgreSQL URL of the rollback fence (default: the user's state folder)"
    )
    group.add_argument("--key-file", metavar="FILE", help="key that seals the state (default: FADECOUNT_KEY, else not sealed)")


def add_fork_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-extra-loss",
        action="store_true",
        help="open a store older than what was published; the extra loss is part of every loss shown from then on",
    )


def add_monotone_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--monotone",
        nargs="?",
        const="",
        metavar="N",
        help="a view that never falls (and, with N, never rises by more than N in a tick), computed from the releases alone",
    )


def monotone_view(largest_step: str) -> Monotone:
    from fadecount.streams import Monotone

    if not largest_step:
        return Monotone()
    if not largest_step.isdecimal() or not 0 < int(largest_step) < 1 << 40:
        raise bad_parameter("--monotone", largest_step, "a positive whole number, or left out", "it bounds the rise in one tick")
    return Monotone(largest_step=int(largest_step))


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
    if arguments.state is None:
        raise ParameterError("--state or --database must be given; it says where the streams are")
    return Reader.of_file(Path(arguments.state) / FILE_NAME)


def parse_time(text: str, zone: str, *, name: str) -> float:
    """A moment as Unix seconds; without an offset it is in the given zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_parameter(name, text, "a time in ISO 8601", "such as 2026-03-01T10:00 or 2026-03-01T10:00:00+01:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()
