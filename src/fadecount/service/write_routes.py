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
from fadecount.service.http import (
    JSON,
    Answer,
    Call,
    json_answer,
    media_type,
    read_body,
    unpacked,
)
from fadecount.service.parsing import (
    LONGEST_ID,
    ONLY_KEY,
    JsonObject,
    NewKeys,
    NewRetention,
    NewStream,
    NewToken,
    checked_text,
    parse,
    parse_events,
)
from fadecount.service.problems import Problem, bad_request, not_found, refusing, unavailable
from fadecount.service.settings import Limits
from fadecount.service.tokens import Grant, Role
from fadecount.service.writer import Leader, Writer
from fadecount.streams import Description, Group, Ticks, Unit
from fadecount.streams.audit_log import AuditLogError, acting_as

LONGEST_RETENTION = 10_000 * 366 * 86400
LONGEST_DELAY = 1_000_000
"""The largest delay in ticks: delayed counts are kept one by one."""

LARGEST_ON_LOOP = 1 << 14
"""Bytes of a body that are parsed at once; a larger one is parsed on a thread, so other requests do
not wait for it."""

_LINES = ("application/x-ndjson", "application/jsonl")
_BAD_STREAM = (
    "name, tick, zone and mechanism must be as GET /v1/streams/{name} shows them, with parameters"
    " within their bounds"
)
_BAD_UNIT = "unit must be one event, or one person within a tick or day with at most so many events"
_WRONG_UNIT = (
    "unit must be a person within a tick, with no more events and keys than the plan assumes"
)
_BAD_GROUP = (
    "group must be a name, and group_loss must hold ages such as 30d, or ever, with losses that do"
    " not fall"
)
_WRONG_TICK = "tick must be the one for which the plan was made; plan again for another"
Parsed = TypeVar("Parsed")
Result = TypeVar("Result")
log = logging.getLogger("fadecount.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """What writing routes work with. ``follow_tokens`` lets the service use the tokens as they are
    now."""

    writer: Writer
    limits: Limits
    parsers: Executor
    follow_tokens: Callable[[], Awaitable[None]]

    async def body(
        self, call: Call, parsed: Callable[[bytes], Parsed], kinds: tuple[str, ...] = (JSON,)
    ) -> Parsed:
        """The body of a request, unpacked and parsed."""
        if media_type(call) not in kinds:
            raise Problem(415, "unsupported_type", f"Content-Type must be {' or '.join(kinds)}")
        sent, packed = await read_body(call, self.limits.body_bytes)
        if not packed and len(sent) <= LARGEST_ON_LOOP:
            return parsed(sent)

        def work() -> Parsed:
            return parsed(unpacked(sent, self.limits.body_bytes) if packed else sent)

        return await asyncio.get_running_loop().run_in_executor(self.parsers, work)

    async def administer(self, call: Call, work: Callable[[Leader], Result]) -> Result:
        """Run an administrative act on the writing thread; the audit log names the token."""

        def act(leader: Leader) -> Result:
            with acting_as(call.grant.shown if call.grant else "no token"):
                return work(leader)

        try:
            result: Result = await self.writer.call(act)
        except AuditLogError as error:
            log.error("an administrative act is refused: %s", error)
            detail = "the audit log cannot be written; the operator's log says why"
            raise unavailable(detail) from None
        return result


async def post_events(context: WriteContext, call: Call) -> Answer:
    """Count events; answered when they are durable."""
    batch_id, lines = _batch_id(call), media_type(call) in _LINES
    most = context.limits.events_per_request
    sent = await context.body(
        call, lambda body: parse_events(body, lines=lines, most=most), (JSON, *_LINES)
    )
    own = None if batch_id is None or call.grant is None else f"{call.grant.id}/{batch_id}"
    counted = await context.writer.accept(call.stream_name, sent, own)
    return json_answer(Accepted(accepted=True, repeated=not counted), status=202)


async def declare_keys(context: WriteContext, call: Call) -> Answer:
    """Declare more keys; known ones stay as they are."""
    name = call.stream_name
    new = await context.body(call, lambda body: _keys(parse(body, NewKeys).keys))
    await context.administer(call, lambda leader: leader.declare(name, new))
    return json_answer(Changed(name))


async def set_retention(context: WriteContext, call: Call) -> Answer:
    """Keep releases for a time; older ones are removed, which cannot be undone. No loss changes."""
    name = call.stream_name
    new = await context.body(call, partial(parse, kind=NewRetention))
    described = await context.writer.call(lambda leader: leader.description(name))
    seconds = _retention(new.retain, described)
    await context.administer(call, lambda leader: leader.retain(name, seconds))
    return json_answer(Changed(name))


async def delete_stream(context: WriteContext, call: Call) -> Answer:
    """Delete a stream with all its releases. What observers have seen, they keep, so its name stays
    taken."""
    name = call.stream_name
    await context.administer(call, lambda leader: leader.delete(name))
    return json_answer(Changed(name))


async def create_stream(context: WriteContext, call: Call) -> Answer:
    """Create a stream; it begins with the present tick. Repeating it changes nothing."""

    def parsed(body: bytes) -> tuple[Description, list[str], int | None]:
        new = parse(body, NewStream)
        if call.grant is not None:
            call.grant.require_stream(checked_text(new.name, "name"))
        described, keys = _description(new), [ONLY_KEY] if new.keys is None else _keys(new.keys)
        return described, keys, _retention(new.retain, described)

    description, keys, retain = await context.body(call, parsed)
    created = await context.administer(
        call, lambda leader: leader.create(description, keys, retain)
    )
    answer = Created(name=description.name, repeated=not created)
    return json_answer(answer, status=201 if created else 200)


# Tokens are for admins of all streams, with their token in the Authorization header: there are no
# cookies, so a foreign page cannot make a browser send a token along.


async def list_tokens(context: WriteContext, _: Call) -> Answer:
    """Every token, without its secret. For admins of all streams."""
    grants = await context.writer.call(lambda leader: leader.tokens.grants())
    return json_answer(TokenList(tokens=[_token_answer(each) for each in grants]))


async def create_token(context: WriteContext, call: Call) -> Answer:
    """Make a token. It is in this answer and never shown again. For admins of all streams."""
    new = await context.body(call, partial(parse, kind=NewToken))
    token, made = await context.administer(call, lambda leader: _create_token(leader, new))
    await context.follow_tokens()
    return json_answer(NewTokenAnswer(token=token, about=_token_answer(made)), status=201)


async def revoke_token(context: WriteContext, call: Call) -> Answer:
    """Revoke a token, at once. For admins of all streams."""
    token_id = call.path_params["id"]
    if call.grant is not None and call.grant.id == token_id:
        detail = "this request uses the token itself; revoke it with another one"
        raise Problem(409, "own_token", detail)
    try:
        await context.administer(call, lambda leader: leader.tokens.revoke(token_id))
    except ParameterError:
        raise not_found("there is no such token; GET /v1/tokens lists them") from None
    await context.follow_tokens()
    return json_answer(RevokedToken(id=token_id))


def _create_token(leader: Leader, new: NewToken) -> tuple[str, Grant]:
    detail = "label must be printable text, and expires a duration such as 90d up to 100 years"
    with refusing("bad_token", detail):
        return leader.tokens.create(
            Role(new.role),
            stream=None if new.stream is None else checked_text(new.stream, "stream"),
            label=new.label,
            expires_seconds=None if new.expires is None else parse_duration(new.expires),
        )


def _token_answer(grant: Grant) -> TokenAnswer:
    return TokenAnswer(**grant.description(time.time()))


def _retention(given: str | None, description: Description) -> int | None:
    with refusing("bad_retention", "retain must be a length of time, such as 90d"):
        seconds = None if given is None else parse_duration(given)
    if seconds is not None and not description.ticks.tick_seconds <= seconds <= LONGEST_RETENTION:
        raise bad_request(
            "bad_retention",
            "retain must be at least a tick, and at most 10,000 years; leave it out to keep all",
        )
    return seconds


def _description(new: NewStream) -> Description:
    with refusing("bad_stream", _BAD_STREAM):
        mechanism = Mechanism.from_json(msgspec.json.encode(_marked(new.mechanism)))
        ticks = Ticks(tick_seconds=parse_duration(new.tick), zone=new.zone)
    if not isinstance(mechanism, Blocks) and mechanism.schedule.delay > LONGEST_DELAY:
        raise bad_request("bad_mechanism", f"delay must be at most {LONGEST_DELAY} ticks")
    with refusing("bad_unit", _BAD_UNIT):
        unit = Unit.from_json(msgspec.to_builtins(new.unit))
    person = planned_person(new.mechanism)
    with refusing("wrong_unit", _WRONG_UNIT):
        if person is not None:
            capped = unit.of == "person" and unit.per == "tick"
            require_planned_person(person, unit.events if capped else None, unit.keys)
    with refusing("wrong_tick", _WRONG_TICK):
        require_planned_tick(mechanism, ticks.tick_seconds)
    with refusing("bad_stream", _BAD_STREAM):
        return Description(
            name=new.name, mechanism=mechanism, ticks=ticks, unit=unit, group=_group(new)
        )


def _group(new: NewStream) -> Group | None:
    with refusing("bad_group", _BAD_GROUP):
        if new.group is None:
            if new.group_loss is not None:
                raise ParameterError("group must be given with group_loss")
            return None
        if new.group_loss is None:
            return Group(name=new.group)
        return Group.of(new.group, new.group_loss)


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
