"""Run the service: take events over HTTP, release counts on schedule, show them.

examples:
  fadecount token create --role admin
  fadecount serve
  fadecount serve --state /var/lib/fadecount --allow-host counts.example.org
  fadecount serve --database postgresql://user@host/name --public

The page is at the address that is printed. Reading needs a token unless
--public is given. Put a proxy with TLS in front (see docs/service.md).
Ctrl-C or SIGTERM ends it; nothing that was acknowledged is lost.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from fadecount.cli._options import add_fork_option
from fadecount.errors import bad_parameter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    folder = "folder of the embedded store and of the tokens (default: $XDG_DATA_HOME/fadecount, or ~/.local/share/fadecount)"
    parser.add_argument("--state", type=Path, metavar="DIR", help=folder)
    parser.add_argument("--database", metavar="URL", help="keep the streams in PostgreSQL: postgresql://...")
    parser.add_argument("--fence", metavar="WHERE", help="folder or PostgreSQL URL of the rollback fence, apart from the store")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="key that seals the state (default: FADECOUNT_KEY, if set)")
    add_fork_option(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any (default: %(default)s)")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="host name to answer to; repeatable")
    parser.add_argument("--public", action="store_true", help="let everyone read, without a token")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="lines of the log (default: %(default)s)")
    group = parser.add_argument_group("limits")
    group.add_argument("--max-body", type=int, default=1 << 20, metavar="BYTES", help="largest body, unpacked (default: 1 MiB)")
    group.add_argument("--max-connections", type=int, default=1024, metavar="N", help="open connections (default: %(default)s)")
    group.add_argument("--rate", type=float, default=0.0, metavar="N", help="requests a second per address (default: no limit)")
    group.add_argument(
        "--burst", type=int, default=200, metavar="N", help="requests at once before --rate (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.http import allowed_hosts
    from fadecount.service.limits import Limits
    from fadecount.service.server import configure_logs, serve
    from fadecount.service.settings import Settings, Storage, default_folder

    _check_limits(arguments)
    configure_logs(as_json=arguments.log_format == "json")
    limits = Limits(
        body_bytes=arguments.max_body,
        connections=arguments.max_connections,
        requests_per_second=arguments.rate,
        burst=arguments.burst,
    )
    settings = Settings(
        storage=Storage(
            folder=arguments.state or default_folder(),
            database=arguments.database,
            fence=arguments.fence,
            key_file=arguments.key_file,
        ),
        hosts=allowed_hosts(arguments.host, arguments.port, tuple(arguments.allow_host)),
        public=arguments.public,
        limits=limits,
        other_histories=arguments.other_histories,
    )
    with contextlib.suppress(OSError):  # the store reports these more clearly
        settings.storage.tokens().grants()  # report a damaged file now, not at the first request
    return serve(settings, arguments.host, arguments.port, announce=lambda line: print(line, flush=True))


def _check_limits(arguments: argparse.Namespace) -> None:
    for name, least in (("max_body", 1), ("max_connections", 1), ("rate", 0), ("burst", 1)):
        value = getattr(arguments, name)
        if not value >= least:  # NaN too
            raise bad_parameter(f"--{name.replace('_', '-')}", value, f"at least {least}", "leave it out for the default")
