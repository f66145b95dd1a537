"""Make a backup of an SQLite store in one file, also while a service runs on it.

The file holds the store as it is at one moment. It holds true counts: keep it
as secret as the store. The audit log and the fence are not in it. Never keep
the fence together with backups.

Use pg_dump for a store in PostgreSQL:
  pg_dump --format=custom --file=FILE --dbname=postgresql://user@host/name

examples:
  fadecount backup counts-2026-03-01.db
  fadecount backup /backups/counts.db --state /var/lib/fadecount
  fadecount backup counts.db --check
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fadecount.cli._options import add_options, add_store_options, storage_from
from fadecount.errors import ParameterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the backup; it must not exist")
    check = "make nothing: read the backup that is there, and check it"
    add_options(parser, ("--check", None, check, bool))
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.backup import check_backup, make_backup

    storage = storage_from(arguments)
    if arguments.check:
        names = check_backup(arguments.file)
    else:
        if storage.database is not None:
            raise ParameterError(
                "--database must not be given to backup; PostgreSQL makes its own: pg_dump"
                " --format=custom --file=FILE --dbname=ADDRESS"
            )
        names = make_backup(storage.store_path, arguments.file, audit_log=storage.audit_log())
    size = Path(arguments.file).stat().st_size
    streams = "1 stream" if len(names) == 1 else f"{len(names)} streams"
    print(f"{arguments.file}: {streams}, {size:,} bytes")
    return 0
