"""Routes that write: events, streams, keys, tokens. They answer when what they did is durable, and
say nothing about counts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec
from starlette.requests import Request

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import (
    Blocks,
    Mechanism,
    planned_person,
    require_planned_person,
    require_planned_tick,
)
from fadecount.service.answers import (
    Accepted,
    Changed,
    Created,
    NewTokenAnswer,
    RevokedToken,
    TokenAnswer,
    TokenList,
)
from fadecount.service.http import Answer, is_packed, json_answer, read_body, unpacked
from fadecount.service.parsing import (
    LONGEST_ID,
    ONLY_KEY,
    JsonObject,
    NewKeys,
    NewRetention,
    NewStream,
    NewToken,
    NewUnit,
    Query,
    checked_text,
    parse,
    parse_events,
)
from fadecount.service.problems import Problem, bad_request, not_found, unavailable
from fadecount.service.routes import Handler
from fadecount.service.settings import Limits
from fadecount.service.tokens import Access, Action, Grant, Role, Tokens
from fadecount.service.writer import Leader, Writer
from fadecount.streams import Description, Ticks, Unit
from fadecount.streams.audit_log import AuditLogError, acting_as

LONGEST_RETENTION = 10_000 * 366 * 86400
LONGEST_DELAY = 1_000_000
"""The largest delay in ticks: delayed counts are kept one by one."""

LARGEST_ON_LOOP = 1 << 14
"""Bytes of a body that are parsed at once; a larger one is parsed on a thread, so other requests do
not wait for it."""

_JSON = ("application/json",)
_LINES = ("application/x-ndjson", "application/jsonl")
_ONLY_TOTALS = (
    "mechanism must publish running totals only, got blocks; choose another option of the plan"
)
_BAD_STREAM = (
    "name, tick, zone and mechanism must be as GET /v1/streams/{name} shows them, with parameters"
    " within their bounds"
)
Parsed = TypeVar("Parsed")
Result = TypeVar("Result")
log = logging.getLogger("fadecount.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """What writing routes work with."""

    writer: Writer
    access: Access
    limits: Limits
    parsers: Executor

    async def body(
        self, request: Request, kinds: tuple[str, ...], parsed: Callable[[bytes], Parsed]
    ) -> Parsed:
        """The body of a request, unpacked and parsed."""
        if media_type(request) not in kinds:
            raise Problem(415, "unsupported_type", f"Content-Type must be {' or '.join(kinds)}")
        sent, packed = await read_body(request, self.limits), is_packed(request)
        if not packed and len(sent) <= LARGEST_ON_LOOP:
            return parsed(sent)

        def work() -> Parsed:
            return parsed(unpacked(sent, self.limits.body_bytes) if packed else sent)

        return await asyncio.get_running_loop().run_in_executor(self.parsers, work)

    async def administer(self, grant: Grant | None, work: Callable[[Leader], Result]) -> Result:
        """Run an administrative act on the writing thread; the audit log names the token."""

        def act(leader: Leader) -> Result:
            with acting_as(grant.shown if grant else "no token"):
                return work(leader)

        try:
            result: Result = await self.writer.call(act)
        except AuditLogError as error:
            log.error("an administrative act is refused: %s", error)
            detail = "the audit log cannot be written; the operator's log says why"
            raise unavailable(detail) from None
        return result


def write_handlers(context: WriteContext) -> dict[str, Handler]:
    """The handlers of the routes that write, by the names of the routes."""
    handlers = (post_events, create_stream, declare_keys, set_retention, delete_stream)
    return {each.__name__: partial(each, context) for each in handlers}


async def post_events(context: WriteContext, request: Request) -> Answer:
    """Count events; 202 when they are durable."""
    name = request.path_params["name"]
    grant = context.access.allow(request.scope, Action.WRITE, name)
    Query.of(request)
    batch_id, lines = _batch_id(request), media_type(request) in _LINES
    most = context.limits.events_per_request
    sent = await context.body(
        request,
        ("application/json", *_LINES),
        lambda body: parse_events(body, lines=lines, most=most),
    )
    own = None if batch_id is None or grant is None else f"{grant.id}/{batch_id}"
    counted = await context.writer.accept(name, sent, own)
    return json_answer(Accepted(accepted=True, repeated=not counted), status=202)


async def declare_keys(context: WriteContext, request: Request) -> Answer:
    """Declare more keys; known ones stay as they are."""
    name = request.path_params["name"]
    grant = context.access.allow(request.scope, Action.MANAGE, name)
    new = await context.body(request, _JSON, lambda body: _keys(parse(body, NewKeys).keys))
    await context.administer(grant, lambda leader: leader.declare(name, new))
    return json_answer(Changed(name))


async def set_retention(context: WriteContext, request: Request) -> Answer:
    """Keep releases for another time; older ones are removed, a few at a time."""
    name = request.path_params["name"]
    grant = context.access.allow(request.scope, Action.MANAGE, name)
    new = await context.body(request, _JSON, lambda body: parse(body, NewRetention))
    described = await context.writer.call(lambda leader: leader.description(name))
    seconds = _retention(new.retain, described)
    await context.administer(grant, lambda leader: leader.retain(name, seconds))
    return json_answer(Changed(name))


async def delete_stream(context: WriteContext, request: Request) -> Answer:
    """Remove a stream with all its releases. Its name stays taken if it had any."""
    name = request.path_params["name"]
    grant = context.access.allow(request.scope, Action.MANAGE, name)
    Query.of(request)
    await context.administer(grant, lambda leader: leader.delete(name))
    return json_answer(Changed(name))


async def create_stream(context: WriteContext, request: Request) -> Answer:
    """Create a stream that begins with the current tick; repeating the request changes nothing."""
    grant = context.access.allow_some(request.scope, Action.MANAGE)

    def parsed(body: bytes) -> tuple[Description, list[str], int | None]:
        new = parse(body, NewStream)
        context.access.require(grant, Action.MANAGE, checked_text(new.name, "name"))
        described = _description(new)
        return (
            described,
            [ONLY_KEY] if new.keys is None else _keys(new.keys),
            _retention(new.retain, described),
        )

    description, keys, retain = await context.body(request, _JSON, parsed)
    created = await context.administer(
        grant, lambda leader: leader.create(description, keys, retain)
    )
    return json_answer(
        Created(name=description.name, repeated=not created), status=201 if created else 200
    )


def _retention(given: str | None, description: Description) -> int | None:
    try:
        seconds = None if given is None else parse_duration(given)
    except (ParameterError, ValueError, OverflowError):
        raise bad_request("bad_retention", "retain must be a length of time, such as 90d") from None
    if seconds is not None and not description.ticks.tick_seconds <= seconds <= LONGEST_RETENTION:
        raise bad_request(
            "bad_retention",
            "retain must be at least a tick, and at most 10,000 years; leave it out to keep all",
        )
    return seconds


def _description(new: NewStream) -> Description:
    try:
        mechanism = Mechanism.from_json(msgspec.json.encode(_marked(new.mechanism)))
        if isinstance(mechanism, Blocks):
            raise bad_request("bad_mechanism", _ONLY_TOTALS)
        if mechanism.schedule.delay > LONGEST_DELAY:
            raise bad_request("bad_mechanism", f"delay must be at most {LONGEST_DELAY} ticks")
        ticks = Ticks(tick_seconds=parse_duration(new.tick), zone=new.zone)
        unit = _unit(new.unit)
        _check_planned(new.mechanism, mechanism, ticks, unit)
        return Description(name=new.name, mechanism=mechanism, ticks=ticks, unit=unit)
    except (ParameterError, TypeError, ValueError, OverflowError):
        raise bad_request("bad_stream", _BAD_STREAM) from None


def _check_planned(given: JsonObject, mechanism: Mechanism, ticks: Ticks, unit: Unit) -> None:
    person = planned_person(given)
    try:
        if person is not None:
            require_planned_person(person, unit.events if unit.of == "person" else None, unit.keys)
    except ParameterError:
        raise bad_request(
            "wrong_unit",
            "unit must be a person within a tick, with no more events and keys than the plan"
            " assumes",
        ) from None
    try:
        require_planned_tick(mechanism, ticks.tick_seconds)
    except ParameterError:
        raise bad_request(
            "wrong_tick", "tick must be the one for which the plan was made; plan again for another"
        ) from None


def _unit(new: NewUnit) -> Unit:
    try:
        return Unit.from_json(msgspec.to_builtins(new))
    except ParameterError:
        raise bad_request(
            "bad_unit",
            "unit must be one event, or one person within a tick with at most so many events",
        ) from None


def _marked(given: JsonObject) -> JsonObject:
    """A mechanism as :meth:`Mechanism.to_json` writes it; the marker and the version may be left
    out."""
    if any(isinstance(value, bool) for value in given.values()):
        raise bad_request("wrong_number", "parameters of a mechanism must be numbers")
    return {"fadecount": "mechanism", "version": 1, **given}


def _keys(keys: list[str]) -> list[str]:
    checked_text("".join(keys), "a key")
    if len(set(keys)) != len(keys):
        raise bad_request("duplicate_key", "keys must be different from each other")
    return keys


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _batch_id(request: Request) -> str | None:
    text = request.headers.get("idempotency-key")
    if text is not None and (
        not 1 <= len(text) <= LONGEST_ID or not (text.isascii() and text.isprintable())
    ):
        raise bad_request(
            "bad_idempotency_key",
            f"Idempotency-Key must be 1 to {LONGEST_ID} printable ASCII characters",
        )
    return text


def token_handlers(
    context: WriteContext, follow: Callable[[], Awaitable[None]]
) -> dict[str, Handler]:
    """The handlers of the routes for tokens. Only an admin of all streams may use them, with its
    token in the Authorization header: there are no cookies, so a foreign page cannot make a browser
    send a token along. ``follow`` lets the service use the tokens as they are now."""

    def administrator(request: Request) -> Grant | None:
        return context.access.allow(request.scope, Action.MANAGE, None)

    async def listing(request: Request) -> Answer:
        administrator(request)
        grants = await context.writer.call(lambda leader: leader.tokens.grants())
        return json_answer(TokenList(tokens=[_token_answer(each) for each in grants]))

    async def create(request: Request) -> Answer:
        grant = administrator(request)
        new = await context.body(request, _JSON, lambda body: parse(body, NewToken))
        token, made = await context.administer(
            grant, lambda leader: _create_token(leader.tokens, new)
        )
        await follow()
        return json_answer(NewTokenAnswer(token=token, about=_token_answer(made)), status=201)

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


def _create_token(tokens: Tokens, new: NewToken) -> tuple[str, Grant]:
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


def _token_answer(grant: Grant) -> TokenAnswer:
    return TokenAnswer(**grant.description(time.time()))
