"""Routes for tokens: list, create, revoke. Only an admin of all streams may use them, with its
token in the Authorization header.

There are no cookies, so a foreign page cannot make a browser send a token along. A new token is in
one answer and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.access import Action
from fadecount.service.answers import NewTokenAnswer, RevokedToken, TokenAnswer, TokenList
from fadecount.service.http import Answer, json_answer
from fadecount.service.parsing import NewToken, checked_text, parse
from fadecount.service.problems import Problem, bad_request, not_found
from fadecount.service.routes import Handler
from fadecount.service.tokens import Grant, Role, Tokens
from fadecount.service.write_routes import WriteContext


def token_handlers(
    context: WriteContext, follow: Callable[[], Awaitable[None]]
) -> dict[str, Handler]:
    """``follow`` lets the service use the tokens as they are now."""

    def administrator(request: Request) -> Grant | None:
        return context.access.allow(request.scope, Action.MANAGE, None)

    async def listing(request: Request) -> Answer:
        administrator(request)
        grants = await context.writer.call(lambda leader: leader.tokens.grants())
        return json_answer(TokenList(tokens=[_answer(each) for each in grants]))

    async def create(request: Request) -> Answer:
        grant = administrator(request)
        new = await context.body(request, ("application/json",), lambda body: parse(body, NewToken))
        token, made = await context.administer(grant, lambda leader: _create(leader.tokens, new))
        await follow()
        return json_answer(NewTokenAnswer(token=token, about=_answer(made)), status=201)

    async def revoke(request: Request) -> Answer:
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

    return {"list_tokens": listing, "create_token": create, "revoke_token": revoke}


def _create(tokens: Tokens, new: NewToken) -> tuple[str, Grant]:
    try:
        return tokens.create(
            Role(new.role),
            stream=None if new.stream is None else checked_text(new.stream, "stream"),
            label=new.label,
            expires_seconds=None if new.expires is None else parse_duration(new.expires),
        )
    except ParameterError:
        detail = "label must be printable text, and expires a duration such as 90d up to 100 years"
        raise bad_request("bad_token", detail) from None


def _answer(grant: Grant) -> TokenAnswer:
    return TokenAnswer(**grant.description(time.time()))
