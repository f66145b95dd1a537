"""Run the service: take events over HTTP, release counts on schedule, show them.

examples:
  fadecount token create --role admin
  fadecount serve
  fadecount serve --state /var/lib/fadecount --allow-host counts.example.org
  fadecount serve --database postgresql://user@host/name --public
  fadecount serve --config /etc/fadecount.toml

The page is at the address that is printed. Reading needs a token unless
--public is given. A setting may also stand in the file (max-body = 2097152) or
in the environment (FADECOUNT_MAX_BODY=2097152). The command line comes first,
then the environment, then the file. Put a proxy with TLS in front (see
docs/service.md).
Ctrl-C or SIGTERM ends it; nothing that was acknowledged is lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from typing import Any

from fadecount.service.configuration import FILE_VARIABLE, SETTINGS, Setting, configuration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings in TOML (default: {FILE_VARIABLE}, if set)"
    )
    for setting in SETTINGS:
        add_setting(parser, setting)


def add_setting(parser: argparse.ArgumentParser, setting: Setting) -> None:
    """The option of a setting. Without it, the environment, the file or the default decides."""
    words: dict[str, Any] = {"help": _help(setting), "default": None}
    if setting.kind == "true or false":
        words["action"] = argparse.BooleanOptionalAction
    else:
        words["metavar"] = setting.metavar
        if setting.kind == "texts":
            words["action"] = "append"
        if setting.choices:
            words["choices"] = setting.choices
    parser.add_argument(setting.option, **words)


def _help(setting: Setting) -> str:
    shown = setting.shown_default or (
        None if setting.default in (None, (), False) else str(setting.default)
    )
    return setting.about if shown is None else f"{setting.about} (default: {shown})"


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.http import allowed_hosts
    from fadecount.service.limits import Limits
    from fadecount.service.server import configure_logs, serve
    from fadecount.service.settings import Settings, Storage, default_folder

    given = {setting.attribute: getattr(arguments, setting.attribute) for setting in SETTINGS}
    chosen: Any = argparse.Namespace(**configuration(given, os.environ, arguments.config))
    configure_logs(as_json=chosen.log_format == "json")
    limits = Limits(
        body_bytes=chosen.max_body,
        connections=chosen.max_connections,
        requests_per_second=chosen.rate,
        burst=chosen.burst,
    )
    settings = Settings(
        storage=Storage(
            folder=chosen.state or default_folder(),
            database=chosen.database,
            fence=chosen.fence,
            key_file=chosen.key_file,
        ),
        hosts=allowed_hosts(chosen.host, chosen.port, tuple(chosen.allow_host)),
        public=chosen.public,
        metrics_values=chosen.metrics_values,
        limits=limits,
    )
    hint = ""
    with contextlib.suppress(OSError):  # the store reports these more clearly
        if (
            not settings.storage.tokens().grants()
        ):  # a damaged file is reported now, not at the first request
            state = "" if arguments.state is None else f" --state {arguments.state}"
            hint = (
                "\nthere is no token yet; in another terminal: fadecount token create --role"
                f" admin{state}"
            )
    return serve(
        settings, chosen.host, chosen.port, announce=lambda line: print(line + hint, flush=True)
    )
