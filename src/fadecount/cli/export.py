"""Write the figures of a publication, a CSV file for each measure and length.

Files such as rides.1d.csv and rides.overall.1d.csv (all keys together) are
replaced as a whole.

examples:
  fadecount export rides public/
  fadecount export rides public/ --state ~/counts
"""

from __future__ import annotations

import argparse

from fadecount.cli._options import add_store_options, storage_from


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the publication")
    parser.add_argument("folder", metavar="DIR", help="folder of the files; it is made")
    add_store_options(parser)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.export import export_publication
    from fadecount.streams.storage import open_reader

    with open_reader(storage_from(arguments)) as reader:
        files = export_publication(reader, arguments.name, arguments.folder)
    print(f"{arguments.name}: {len(files)} files in {arguments.folder}")
    return 0
