"""Routes for tokens: list, create, revoke. Only an admin of all streams may use them, with its
token in the Authorization header.

There are no cookies, so a foreign page cannot make a browser send a token along. A new token is in
one answer and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.access import Action
from fadecount.service.answers import NewTokenAnswer, RevokedToken, TokenAnswer, TokenList
from fadecount.service.http import json_answer
from fadecount.service.parsing import NewToken, checked_text, parse
from fadecount.service.problems import Problem, bad_request, not_found, unavailable
from fadecount.service.tokens import Grant, Role, TokenFile, TokenFileError
from fadecount.service.write_routes import WriteContext
from fadecount.streams.audit_log import AuditLogError, acting_as

log = logging.getLogger("fadecount.service")
Result = TypeVar("Result")


def token_routes(context: WriteContext, tokens: TokenFile) -> Iterator[Route]:
    async def off_loop(grant: Grant | None, work: Callable[[], Result]) -> Result:
        """Do something with the token file on a thread; the audit log names the token of the
        request."""

        def act() -> Result:
            with acting_as(grant.shown if grant else "no token"):
                return work()

        try:
            return await asyncio.get_running_loop().run_in_executor(context.parsers, act)
        except (AuditLogError, TokenFileError, OSError) as error:
            log.error(
                "tokens cannot be changed: %s",
                error if isinstance(error, AuditLogError) else type(error).__name__,
            )
            raise unavailable(
                "the tokens or the audit log cannot be written; the operator's log says why"
            ) from None

    def administrator(request: Request) -> Grant | None:
        return context.access.allow(request.scope, Action.MANAGE, None)

    async def collection(request: Request) -> Response:
        return await (create(request) if request.method == "POST" else listing(request))

    async def listing(request: Request) -> Response:
        grant = administrator(request)
        used = await off_loop(grant, tokens.last_uses)
        shown = [
            _answer(
                each,
                expired=tokens.has_expired(each),
                used=used[each.id].isoformat() if each.id in used else None,
            )
            for each in tokens.grants()
        ]
        return json_answer(TokenList(tokens=shown))

    async def create(request: Request) -> Response:
        grant = administrator(request)
        new = await context.body(request, ("application/json",), lambda body: parse(body, NewToken))
        token, made = await off_loop(grant, lambda: _create(tokens, new))
        return json_answer(
            NewTokenAnswer(token=token, about=_answer(made, expired=False, used=None)), status=201
        )

    async def revoke(request: Request) -> Response:
        grant = administrator(request)
        token_id = request.path_params["id"]
        if grant is not None and grant.id == token_id:
            raise Problem(
                409, "own_token", "this request uses the token itself; revoke it with another one"
            )
        try:
            await off_loop(grant, lambda: tokens.revoke(token_id))
        except ParameterError:
            raise not_found("there is no such token; GET /v1/tokens lists them") from None
        return json_answer(RevokedToken(id=token_id))

    yield Route("/v1/tokens", collection, methods=["GET", "POST"])
    yield Route("/v1/tokens/{id}", revoke, methods=["DELETE"])


def _create(tokens: TokenFile, new: NewToken) -> tuple[str, Grant]:
    try:
        return tokens.create(
            Role(new.role),
            stream=(
                None if isinstance(new.stream, UnsetType) else checked_text(new.stream, "stream")
            ),
            label="" if isinstance(new.label, UnsetType) else new.label,
            expires_seconds=(
                None if isinstance(new.expires, UnsetType) else parse_duration(new.expires)
            ),
            rate=None if new.rate is UNSET else new.rate,
            connections=None if new.connections is UNSET else new.connections,
            live_readers=None if new.live_readers is UNSET else new.live_readers,
        )
    except ParameterError:
        raise bad_request(
            "bad_token",
            "label must be printable text, expires a duration such as 90d up to 100 years, and"
            " limits positive",
        ) from None


def _answer(grant: Grant, *, expired: bool, used: str | None) -> TokenAnswer:
    return TokenAnswer(
        id=grant.id,
        role=str(grant.role),
        stream=grant.stream,
        label=grant.label,
        created=_time(grant.created),
        expires=None if grant.expires is None else _time(grant.expires),
        expired=expired,
        last_used=used,
        rate=grant.rate,
        connections=grant.connections,
        live_readers=grant.live_readers,
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
