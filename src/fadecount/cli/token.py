"""Create, list and revoke the tokens of the service.

examples:
  fadecount token create --role admin
  fadecount token create --role writer --stream visits --expires 90d
  fadecount token create --role reader --label board
  fadecount token list
  fadecount token revoke 3f2a9c01d4e7

A token is shown once, when it is created; only its hash is kept, in the
database of the store. A running service follows within a second.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

from fadecount.cli._options import (
    JSON_OPTION,
    add_options,
    add_store_options,
    place_store,
    storage_from,
)
from fadecount.durations import parse_duration

if TYPE_CHECKING:
    from fadecount.service.tokens import Tokens


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create, listing, revoke = (
        actions.add_parser(name, help=text, description=text)
        for name, text in (
            ("create", "make a token and print it"),
            ("list", "show the tokens, without their secrets"),
            ("revoke", "make a token useless"),
        )
    )
    role = ("--role", None, "what it is for", ("writer", "reader", "admin"))
    add_options(create, role, required=True)
    add_options(
        create,
        ("--stream", "NAME", "only for this stream (default: for all)", str),
        ("--label", "TEXT", "what it is for, in your words; the audit log names it", ""),
        ("--expires", "LENGTH", "refused after this time, such as 90d (default: never)", str),
    )
    add_options(listing, JSON_OPTION)
    revoke.add_argument("id", help="the id that list shows")
    for each in (create, listing, revoke):
        add_store_options(each)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.settings import open_tokens
    from fadecount.service.tokens import Role

    place_store(arguments, keep=True)
    with open_tokens(storage_from(arguments)) as tokens:
        if arguments.action == "create":
            expires = arguments.expires
            token, _ = tokens.create(
                Role(arguments.role),
                stream=arguments.stream,
                label=arguments.label,
                expires_seconds=expires and parse_duration(expires, name="--expires"),
            )
            print(token)
        elif arguments.action == "revoke":
            tokens.revoke(arguments.id)
            print("revoked")
        else:
            _show(tokens, as_json=arguments.json)
    return 0


def _show(tokens: Tokens, *, as_json: bool) -> None:
    now = time.time()
    rows = [grant.description(now) for grant in tokens.grants()]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        until = f"until {row['expires']}" if row["expires"] else "no expiry"
        stream = row["stream"] or "all streams"
        parts = [
            f"{row['id']}  {row['role']:<6}  {stream:<24}  {row['created']}",
            "expired" if row["expired"] else until,
            row["label"],
        ]
        print("  ".join(part for part in parts if part))
