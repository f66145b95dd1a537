"""A PostgreSQL server of our own for a test, in a directory, on a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _program(name: str) -> str:
    places = [
        shutil.which(name),
        *sorted(str(path) for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}")),
    ]
    for place in places:
        if place:
            return place
    pytest.skip(f"needs PostgreSQL ({name})")


@contextmanager
def postgres(root: Path) -> Iterator[str]:
    """Runs a server and gives the words to connect with. PostgreSQL refuses to run as root: then it
    runs as ``nobody``."""
    initdb, server = _program("initdb"), _program("pg_ctl")
    data = root / "data"
    data.mkdir(parents=True)
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:
        shutil.chown(root, "nobody")
        shutil.chown(data, "nobody")
        for parent in root.parents:
            if (
                parent.owner() == "root"
                and parent != Path("/")
                and parent.stat().st_mode & 0o001 == 0
            ):
                parent.chmod(parent.stat().st_mode | 0o011)
        as_user = {"user": "nobody"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": root}
    common = ["--pgdata", str(data)]
    subprocess.run(
        [initdb, *common, "--username=tester", "--auth=trust", "--no-sync", "--encoding=UTF8"],
        check=True,
        **quiet,
        **as_user,
    )  # type: ignore[call-overload]
    options = f"-k {root} -c listen_addresses='' -c fsync=off"
    subprocess.run(
        [server, *common, "--wait", "--options", options, "start"], check=True, **quiet, **as_user
    )  # type: ignore[call-overload]
    try:
        yield f"host={root} user=tester dbname=postgres"
    finally:
        subprocess.run(
            [server, *common, "--mode=immediate", "stop"], check=True, **quiet, **as_user
        )  # type: ignore[call-overload]
