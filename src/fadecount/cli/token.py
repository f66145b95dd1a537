"""Create, list and revoke the tokens of the service.

examples:
  fadecount token create --role admin
  fadecount token create --role writer --stream visits --expires 90d
  fadecount token create --role reader --label board --live-readers 2
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
from typing import TYPE_CHECKING, Any

from fadecount.cli._options import STATE_DEFAULT
from fadecount.durations import parse_duration

if TYPE_CHECKING:
    from fadecount.service.tokens import Grant, TokenFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser(
        "create", help="make a token and print it", description="make a token and print it"
    )
    create.add_argument(
        "--role", choices=("writer", "reader", "admin"), required=True, help="what it is for"
    )
    create.add_argument("--stream", metavar="NAME", help="only for this stream (default: for all)")
    create.add_argument(
        "--label",
        metavar="TEXT",
        default="",
        help="what it is for, in your words; the audit log names it",
    )
    create.add_argument(
        "--expires", metavar="LENGTH", help="refused after this time, such as 90d (default: never)"
    )
    group = create.add_argument_group("limits of this token")
    group.add_argument(
        "--rate", type=float, metavar="N", help="requests a second (default: no limit)"
    )
    group.add_argument(
        "--connections",
        type=int,
        metavar="N",
        help="connections in use at once (default: no limit)",
    )
    group.add_argument(
        "--live-readers", type=int, metavar="N", help="live readers at once (default: no limit)"
    )
    text = "show the tokens, without their secrets"
    listing = actions.add_parser("list", help=text, description=text)
    listing.add_argument("--json", action="store_true", help="as JSON")
    revoke = actions.add_parser(
        "revoke", help="make a token useless", description="make a token useless"
    )
    revoke.add_argument("id", help="the id that list shows")
    for each in (create, listing, revoke):
        each.add_argument(
            "--state",
            type=Path,
            metavar="DIR",
            help=f"folder of the service (default: {STATE_DEFAULT})",
        )


def run(arguments: argparse.Namespace) -> int:
    from fadecount.service.settings import Storage, default_folder
    from fadecount.service.tokens import Role

    expires = (
        None
        if getattr(arguments, "expires", None) is None
        else parse_duration(arguments.expires, name="--expires")
    )
    storage = Storage(folder=arguments.state or default_folder())
    tokens = storage.tokens()
    if arguments.action == "create" or storage.folder.exists():
        storage.prepare()
    if arguments.action == "create":
        token, _ = tokens.create(
            Role(arguments.role),
            stream=arguments.stream,
            label=arguments.label,
            expires_seconds=expires,
            rate=arguments.rate,
            connections=arguments.connections,
            live_readers=arguments.live_readers,
        )
        print(token)
    elif arguments.action == "revoke":
        tokens.revoke(arguments.id)
        print("revoked")
    else:
        _show(tokens, as_json=arguments.json)
    return 0


def _show(tokens: TokenFile, *, as_json: bool) -> None:
    used = tokens.last_uses()
    rows = [
        _row(each, tokens.has_expired(each), used[each.id].isoformat() if each.id in used else None)
        for each in tokens.grants()
    ]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        until = (
            "expired"
            if row["expired"]
            else "until " + row["expires"]
            if row["expires"]
            else "no expiry"
        )
        limits = ", ".join(
            f"{name.replace('_', ' ')} {row[name]:g}" for name in _LIMITS if row[name] is not None
        )
        last = f"last used {row['last_used']}" if row["last_used"] else "not used yet"
        words = [
            (
                f"{row['id']}  {row['role']:<6}  {row['stream'] or 'all streams':<24} "
                f" {row['created']}"
            ),
            until,
            last,
        ]
        print(
            "  ".join(
                [*words, *([limits] if limits else []), *([row["label"]] if row["label"] else [])]
            )
        )


_LIMITS = ("rate", "connections", "live_readers")


def _row(grant: Grant, expired: bool, last_used: str | None) -> dict[str, Any]:
    return {
        "id": grant.id,
        "role": str(grant.role),
        "stream": grant.stream,
        "label": grant.label,
        "created": _moment(grant.created),
        "expires": None if grant.expires is None else _moment(grant.expires),
        "expired": expired,
        "last_used": last_used,
        **{name: getattr(grant, name) for name in _LIMITS},
    }


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
