"""Create, list and revoke the tokens of the service.

examples:
  fadecount token create --role admin
  fadecount token create --role writer --stream visits
  fadecount token list
  fadecount token revoke 3f2a9c01d4e7

A token is shown once, when it is created; only its hash is kept. A running
service follows at once.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadecount.service.tokens import Grant


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token and print it", description="make a token and print it")
    create.add_argument("--role", choices=("writer", "reader", "admin"), required=True, help="what it is for")
    create.add_argument("--stream", metavar="NAME", help="only for this stream (default: for all)")
    listing = actions.add_parser(
        "list", help="show the valid tokens, without their secrets", description="show the valid tokens, without their secrets"
    )
    listing.add_argument("--json", action="store_true", help="as JSON")
    revoke = actions.add_parser("revoke", help="make a token useless", description="make a token useless")
    revoke.add_argument("id", help="the id that list shows")
    for each in (create, listing, revoke):
        each.add_argument("--state", type=Path, metavar="DIR", help="folder of the service (default: as for serve)")


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.settings import Storage, default_folder
    from fadecount.service.tokens import Role

    storage = Storage(folder=arguments.state or default_folder())
    tokens = storage.tokens()
    if arguments.action == "create" or storage.folder.exists():
        storage.prepare()
    if arguments.action == "create":
        token, _ = tokens.create(Role(arguments.role), stream=arguments.stream)
        print(token)
    elif arguments.action == "revoke":
        tokens.revoke(arguments.id)
        print("revoked")
    else:
        _show(tokens.grants(), as_json=arguments.json)
    return 0


def _show(grants: list[Grant], *, as_json: bool) -> None:
    rows = [{"id": each.id, "role": str(each.role), "stream": each.stream, "created": _moment(each.created)} for each in grants]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['id']}  {row['role']:<6}  {row['stream'] or 'all streams':<24}  {row['created']}")


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
