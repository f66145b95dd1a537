"""Run the service: take events over HTTP, release counts on schedule, show them.

examples:
  fadecount token create --role admin
  fadecount serve
  fadecount serve --state /var/lib/fadecount --allow-host counts.example.org
  fadecount serve --database postgresql://user@host/name --public
  fadecount serve --website example.org --public

The page is at the address that is printed. Reading needs a token unless
--public is given. An option may also stand in the environment
(FADECOUNT_PORT=8080); the command line comes first. Put a proxy with
TLS in front (see docs/service.md).
With --website, it counts the visits of a website, and prints the tag for its
pages (see docs/website.md).
Ctrl-C or SIGTERM ends it; nothing that was acknowledged is lost.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from fadecount.cli._options import add_store_options, storage_from
from fadecount.errors import ParameterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_store_options(parser)
    group = parser.add_argument_group("service")

    def add(name: str, metavar: str, text: str, kind: Any, default: object, **more: Any) -> None:
        given = os.environ.get("FADECOUNT_" + name.upper().replace("-", "_"), "tcp://")
        # Kubernetes sets FADECOUNT_PORT=tcp://... for a service of the name fadecount
        value = default if given.startswith("tcp://") else given
        text = f"{text} (default: {default})" if default else text
        group.add_argument(
            f"--{name}", metavar=metavar, type=kind, default=value, help=text, **more
        )

    add("host", "HOST", "address to listen on", str, "127.0.0.1")
    add("port", "PORT", "port to listen on, 0 for any", _port, 8000)
    text = "host names to answer to, with commas between them"
    add("allow-host", "NAMES", text, _names, ())
    text = "let everyone read, without a token"
    add("public", "true", text, _truth, False, nargs="?", const=True)
    group = parser.add_argument_group("websites")
    add(
        "website",
        "DOMAINS",
        "count the visits of these websites, with commas between them",
        _names,
        (),
    )
    text = "pages that are always shown, such as /about; others appear when enough people saw them"
    add("pages", "PATHS", text, _names, ())
    text = "other hosts whose pages may report visits"
    add("website-hosts", "NAMES", text, _names, ())
    text = "addresses or networks of proxies that say in X-Forwarded-For whom they serve"
    add("trust-proxy", "NETWORKS", text, _names, ())
    text = "part of all other pages that can appear, drawn anew each day; less bounds floods"
    text = f"{text}; fixed when a website begins (default then: 1)"
    add("page-sample", "PART", text, float, None)
    text = "time zone in which days begin; fixed when a website begins (default then: UTC)"
    add("zone", "NAME", text, str, None)


def _port(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be at least 0, got {text!r}")
    return int(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {text!r}")
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.server import configure_logs, serve
    from fadecount.service.settings import Settings, open_tokens
    from fadecount.service.website import Websites, networks

    configure_logs()
    storage = storage_from(arguments)
    for name in ("pages", "website_hosts", "page_sample", "zone"):
        if getattr(arguments, name) and not arguments.website:
            option = name.replace("_", "-")
            raise ParameterError(f"--website must be given with --{option}; such as example.org")
    websites = Websites(
        domains=arguments.website,
        pages=arguments.pages,
        hosts=arguments.website_hosts,
        proxies=networks(arguments.trust_proxy),
        zone=arguments.zone,
        sample=arguments.page_sample,
    )
    settings = Settings(
        storage=storage,
        hosts=frozenset(arguments.allow_host),
        public=arguments.public,
        websites=websites,
    )

    def announce(line: str) -> None:
        print(line, flush=True)
        address = (
            f"https://{arguments.allow_host[0]}/" if arguments.allow_host else line.split()[-1]
        )
        for domain in websites.domains:
            print(f"put this tag into the pages of {domain}:\n  {websites.tag(domain, address)}")
        if websites.domains:
            print(websites.promise, flush=True)
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

    return serve(settings, arguments.host, arguments.port, announce=announce)
