"""Make a backup a store again, and say what that means for rollback protection.

Nothing is ever replaced: the store must not exist. The fence is left as it is.
A stream of which something was published after the backup does not go on by
itself: its noise would be drawn again for published ticks. The output says so
for each stream, and what to do.

Without FILE, it only says so for the store that is there: after pg_restore, or
after the files of a stopped store were put back.

examples:
  fadecount restore counts-2026-03-01.db --state /var/lib/fadecount \\
      --fence /var/lib/fadecount-fence
  pg_restore --dbname=postgresql://user@host/new counts.dump
  fadecount restore --database postgresql://user@host/new
"""

from __future__ import annotations

import argparse

from fadecount.cli._options import add_store_options, storage_from
from fadecount.errors import ParameterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a file that fadecount backup made")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.backup import protection_of, restore_backup
    from fadecount.streams.fence import fence_from
    from fadecount.streams.storage import open_reader

    storage = storage_from(arguments)
    if arguments.file is not None:
        if storage.database is not None:
            raise ParameterError(
                "FILE must be left out with --database; run pg_restore --dbname=ADDRESS FILE first"
            )
        restore_backup(arguments.file, storage.store_path, audit_log=storage.audit_log())
    fence = fence_from(storage.fence)
    with open_reader(storage) as reader:
        lines = protection_of(reader.database, fence)
    print(f"The fence at {fence.where} is unchanged: rollback protection still holds.")
    for line in lines:
        print(line)
    return 0
