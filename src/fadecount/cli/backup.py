"""Make a backup of a store in one file, also while a service runs on it.

The file holds everything in the store, as it is at one moment, with a checksum.
It holds true counts: keep it as secret as the store. Tokens, the audit log and
the fence are not in it. Never keep the fence together with backups.

examples:
  fadecount backup counts-2026-03-01.fadecount
  fadecount backup /backups/counts.fadecount --state /var/lib/fadecount
  fadecount backup counts.fadecount --database postgresql://user@host/name
  fadecount backup counts.fadecount --check
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fadecount.cli._options import FILE_NAME, add_store_options, place_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the backup; it must not exist")
    parser.add_argument(
        "--check",
        action="store_true",
        help="make nothing: read the backup that is there, and check it",
    )
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.backup import check_backup, make_backup
    from fadecount.streams.database import Database
    from fadecount.streams.fence import default_folder
    from fadecount.streams.migration import require_current
    from fadecount.streams.sqlite import SQLiteDatabase

    if arguments.check:
        found = check_backup(arguments.file)
    else:
        place_store(arguments, keep=True)
        source: Database
        if arguments.database is not None:
            from fadecount.streams.postgres import PostgresDatabase

            source = PostgresDatabase(arguments.database, writes=False)
            require_current(source)
        else:
            source = SQLiteDatabase(Path(arguments.state) / FILE_NAME, writes=False)
        try:
            found = make_backup(
                source,
                arguments.file,
                audit_log=AuditLog.in_folder(arguments.state or default_folder()),
            )
        finally:
            source.close()
    names = (
        f"{len(found.streams)} streams, {found.content_bytes:,} bytes, format {found.store_format}"
    )
    print(f"{found.path}: {names}, sha256 {found.sha256}")
    return 0
