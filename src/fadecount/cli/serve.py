"""Run the service: take events over HTTP, release counts on schedule, show them.

examples:
  fadecount token create --role admin
  fadecount serve
  fadecount serve --state /var/lib/fadecount --allow-host counts.example.org
  fadecount serve --database postgresql://user@host/name --public

The page is at the address that is printed. Reading needs a token unless
--public is given. A setting may also stand in the environment
(FADECOUNT_MAX_BODY=2097152); the command line comes first. Put a proxy with
TLS in front (see docs/service.md).
Ctrl-C or SIGTERM ends it; nothing that was acknowledged is lost.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fadecount.service.settings import Setting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from fadecount.service.settings import SETTINGS

    for setting in SETTINGS:
        add_setting(parser, setting)


def add_setting(parser: argparse.ArgumentParser, setting: Setting) -> None:
    """Add the option of a setting. Without it, the environment or the default decides."""
    options: dict[str, Any] = {"help": _help(setting), "default": None}
    if setting.type is bool:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["metavar"] = setting.metavar
        if setting.type is tuple:
            options["action"] = "append"
        if setting.choices:
            options["choices"] = setting.choices
    parser.add_argument(setting.option, **options)


def _help(setting: Setting) -> str:
    default = None if setting.default in (None, (), False) else str(setting.default)
    shown = setting.shown_default or default
    return setting.about if shown is None else f"{setting.about} (default: {shown})"


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.server import configure_logs, serve
    from fadecount.service.settings import (
        Limits,
        Settings,
        Storage,
        default_folder,
        open_tokens,
        read_settings,
    )

    chosen: Any = argparse.Namespace(**read_settings(vars(arguments), os.environ))
    configure_logs(as_json=chosen.log_format == "json")
    storage = Storage(
        folder=chosen.state or default_folder(),
        database=chosen.database,
        fence=chosen.fence,
        key_file=chosen.key_file,
    )
    settings = Settings(
        storage=storage,
        hosts=frozenset(chosen.allow_host),
        public=chosen.public,
        limits=Limits(body_bytes=chosen.max_body, connections=chosen.max_connections),
    )

    def announce(line: str) -> None:
        print(line, flush=True)
        with open_tokens(storage) as tokens:
            if tokens.grants():
                return
        named = {"--state": arguments.state, "--database": arguments.database}
        where = "".join(f" {name} {value}" for name, value in named.items() if value)
        print(
            "there is no token yet; in another terminal: fadecount token create --role"
            f" admin{where}",
            flush=True,
        )

    return serve(settings, chosen.host, chosen.port, announce=announce)
