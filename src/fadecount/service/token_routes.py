"""Routes for tokens: list, create, revoke. Only an admin of all streams may use them, with its
token in the Authorization header.

There are no cookies, so a foreign page cannot make a browser send a token along. A new token is in
one answer and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator

from msgspec import UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.access import Action
from fadecount.service.answers import NewTokenAnswer, RevokedToken, TokenAnswer, TokenList
from fadecount.service.http import json_answer
from fadecount.service.parsing import NewToken, checked_text, parse
from fadecount.service.problems import Problem, bad_request, not_found
from fadecount.service.tokens import Grant, Role, Tokens
from fadecount.service.write_routes import WriteContext


def token_routes(context: WriteContext, follow: Callable[[], Awaitable[None]]) -> Iterator[Route]:
    """``follow`` lets the service use the tokens as they are now."""

    def administrator(request: Request) -> Grant | None:
        return context.access.allow(request.scope, Action.MANAGE, None)

    async def collection(request: Request) -> Response:
        return await (create(request) if request.method == "POST" else listing(request))

    async def listing(request: Request) -> Response:
        administrator(request)
        grants = await context.writer.call(lambda leader: leader.tokens.grants())
        return json_answer(TokenList(tokens=[_answer(each) for each in grants]))

    async def create(request: Request) -> Response:
        grant = administrator(request)
        new = await context.body(request, ("application/json",), lambda body: parse(body, NewToken))
        token, made = await context.administer(grant, lambda leader: _create(leader.tokens, new))
        await follow()
        return json_answer(NewTokenAnswer(token=token, about=_answer(made)), status=201)

    async def revoke(request: Request) -> Response:
        grant = administrator(request)
        token_id = request.path_params["id"]
        if grant is not None and grant.id == token_id:
            detail = "this request uses the token itself; revoke it with another one"
            raise Problem(409, "own_token", detail)
        try:
            await context.administer(grant, lambda leader: leader.tokens.revoke(token_id))
        except ParameterError:
            raise not_found("there is no such token; GET /v1/tokens lists them") from None
        await follow()
        return json_answer(RevokedToken(id=token_id))

    yield Route("/v1/tokens", collection, methods=["GET", "POST"])
    yield Route("/v1/tokens/{id}", revoke, methods=["DELETE"])


def _create(tokens: Tokens, new: NewToken) -> tuple[str, Grant]:
    stream, label, expires = new.stream, new.label, new.expires
    try:
        return tokens.create(
            Role(new.role),
            stream=None if isinstance(stream, UnsetType) else checked_text(stream, "stream"),
            label="" if isinstance(label, UnsetType) else label,
            expires_seconds=None if isinstance(expires, UnsetType) else parse_duration(expires),
        )
    except ParameterError:
        detail = "label must be printable text, and expires a duration such as 90d up to 100 years"
        raise bad_request("bad_token", detail) from None


def _answer(grant: Grant) -> TokenAnswer:
    return TokenAnswer(**grant.description(time.time()))
