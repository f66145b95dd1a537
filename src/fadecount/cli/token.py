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
import time
from typing import TYPE_CHECKING

from fadecount.cli._options import (
    add_options,
    add_store_options,
    storage_from,
)
from fadecount.cli._output import aligned
from fadecount.durations import parse_duration
from fadecount.errors import bad_parameter

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
    revoke.add_argument("id", help="the id that list shows")
    for each in (create, listing, revoke):
        add_store_options(each)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.settings import open_tokens
    from fadecount.service.tokens import Role

    storage = storage_from(arguments)
    there = storage.database is not None or storage.store_path.exists()
    if arguments.action != "create" and not there:
        path, remedy = str(storage.store_path), "token create, run or serve creates it"
        raise bad_parameter("store", path, "there", remedy)
    with open_tokens(storage) as tokens:
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
            _show(tokens)
    return 0


def _show(tokens: Tokens) -> None:
    from fadecount.calendar import iso_time

    rows = []
    for grant in tokens.grants():
        until = "no expiry" if grant.expires is None else f"until {iso_time(grant.expires)}"
        state = "expired" if grant.has_expired(time.time()) else until
        about = grant.id, grant.role, grant.stream or "all streams", iso_time(grant.created)
        rows.append((*about, state, grant.label))
    for line in aligned(rows, "<" * 6):
        print(line)
