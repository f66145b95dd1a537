"""Begin the publication of a file in its store.

It is planned here, once: what is planned is stored with it and never changes.
Rows are counted into it with: fadecount run FILE.toml ROWS

examples:
  fadecount create rides.toml
  fadecount create rides.toml --state ~/counts
"""

from __future__ import annotations

import argparse

from fadecount.cli._options import add_store_options, storage_from
from fadecount.cli._output import waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a publication, such as rides.toml")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.cli._publication import promise_of, read_file, where
    from fadecount.streams.storage import open_store
    from fadecount.streams.store import planned

    own = {"file", "state", "database", "fence", "key_file"}
    publication = read_file(arguments.file, arguments, own)
    storage = storage_from(arguments)
    with waiting("planning"):
        description = planned(publication)  # before a store is made: it may be refused
    with open_store(storage, lock_wait_seconds=5.0) as store:
        begin = description.ticks.local(store.create(description).open_tick)
    place, promise = where(storage), promise_of(description)
    print(f"{publication.name}: created in {place}, begins {begin}; {promise}")
    return 0
