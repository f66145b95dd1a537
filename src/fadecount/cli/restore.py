"""Make a backup a store again, and say what that means for rollback protection.

Nothing is ever replaced: the store must not exist. The fence is left as it is.
A stream of which something was published after the backup does not go on by
itself: its noise would be drawn again for published ticks. The output says so
for each stream, and what to do.

examples:
  fadecount restore counts-2026-03-01.fadecount --state /var/lib/fadecount \\
      --fence /var/lib/fadecount-fence
  fadecount restore counts.fadecount --database postgresql://user@host/new
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fadecount.cli._options import FILE_NAME, add_store_options, open_reader, place_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that fadecount backup made")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.backup import (
        lost_streams,
        restore_file,
        restore_server,
        restored_streams,
    )
    from fadecount.streams.fence import default_folder, fence_from
    from fadecount.streams.migration import migrate
    from fadecount.streams.sqlite import SQLiteDatabase

    place_store(arguments, keep=True)
    log = AuditLog.in_folder(arguments.state or default_folder())
    if arguments.database is not None:
        from fadecount.streams.postgres import PostgresDatabase

        database = PostgresDatabase(arguments.database, writes=True)
        try:
            found = restore_server(
                arguments.file,
                database,
                folder=Path(arguments.file).resolve().parent,
                audit_log=log,
            )
        finally:
            database.close()
    else:
        target = Path(arguments.state) / FILE_NAME
        found = restore_file(arguments.file, target, audit_log=log)
        store = SQLiteDatabase(target, writes=True)
        try:
            migrate(store, log)
        finally:
            store.close()
    fence = fence_from(arguments.fence)
    print(
        f"{len(found.streams)} streams restored. The fence at {fence.where} is unchanged: rollback"
        " protection still holds."
    )
    with open_reader(arguments) as reader:
        streams, lost = (
            restored_streams(reader.database, fence),
            lost_streams(reader.database, fence),
        )
    for stream in streams:
        print(stream.text)
    for name in lost:
        print(
            f"{name}: was published here, and is not in the backup. Its name cannot be used again"
            " at this place"
        )
    if any(not stream.may_go_on for stream in streams):
        print("Where a newer store exists, use that one instead: it costs no extra loss.")
    return 0
