"""Requests of an operator to the process that leads a stream, by way of the store: delete it, keep
releases for a time, accept other histories.

One process writes to a stream. A command on the same machine, or another one with PostgreSQL,
cannot do it instead. It writes a request and waits for the answer. The leader looks for requests
twice a second.

Nobody may carry out what nobody waits for any more. So whoever asks withdraws the request, however
the waiting ends. A process that is killed cannot: its request expires.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Literal

from fadecount.errors import LockedError, StoreError
from fadecount.streams.audit_log import local_user
from fadecount.streams.database import Database

Action = Literal["delete", "retain", "accept-history"]
DONE = "done"
WAIT_SECONDS = 30.0
"""How long an answer is waited for. A request that is older is removed and not carried out."""

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operator asks for: an action on a stream, with a number where it needs one; who asks,
    and when it expires."""

    stream: str
    action: Action
    number: int | None = None
    actor: str = field(default_factory=local_user)
    until: float = field(default_factory=lambda: time.time() + WAIT_SECONDS)
    id: int = 0


def ask_leader(database: Database, request: Request, *, wait_seconds: float = WAIT_SECONDS) -> None:
    """Write a request and wait until it is done. A refusal is raised; a request that is not
    answered is withdrawn."""
    number = write_request(database, request)
    try:
        until = time.monotonic() + wait_seconds
        while answer_to(database, number) is None and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
    finally:
        answer = withdraw(database, number)
    if answer is None:
        raise LockedError(
            f"stream {request.stream!r} is in use by a process that answers no requests; stop that"
            " process first"
        )
    if answer != DONE:
        raise StoreError(answer)


def write_request(database: Database, request: Request) -> int:
    """Write a request for the leader of its stream; the number of the request."""
    details = json.dumps({"number": request.number, "actor": request.actor, "until": request.until})
    ((number,),) = database.query(
        "INSERT INTO requests (stream, action, details) VALUES (?, ?, ?) RETURNING id",
        (request.stream, request.action, details),
    )
    return int(number)


def answer_to(database: Database, number: int) -> str | None:
    """The answer to a request, ``DONE`` if it is done; None while there is none."""
    rows = database.query("SELECT answer FROM requests WHERE id = ?", (number,))
    return None if not rows or rows[0][0] is None else str(rows[0][0])


def withdraw(database: Database, number: int) -> str | None:
    """Remove a request; its answer, if it has got one by now."""
    rows = database.query("DELETE FROM requests WHERE id = ? RETURNING answer", (number,))
    return None if not rows or rows[0][0] is None else str(rows[0][0])


def waiting_requests(database: Database) -> list[Request]:
    """The requests that have no answer yet, oldest first. Those that have expired are removed."""
    rows = database.query(
        "SELECT id, stream, action, details FROM requests WHERE answer IS NULL ORDER BY id"
    )
    found = [
        Request(**{"until": 0.0, **json.loads(details)}, id=at, stream=name, action=do)
        for at, name, do, details in rows
    ]
    now = time.time()
    for each in found:
        if each.until < now:
            withdraw(database, each.id)
    return [each for each in found if each.until >= now]


def answer_request(database: Database, request: Request, answer: str) -> None:
    """Write the answer; the one who asked removes it."""
    database.change("UPDATE requests SET answer = ? WHERE id = ?", (answer, request.id))
