"""Routes that write: events, streams, keys. They answer when what they did is durable, and
say nothing about counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
from starlette.requests import Request

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import (
    Blocks,
    Discovery,
    Mechanism,
    planned_unit,
    require_planned_tick,
)
from fadecount.service.answers import (
    Accepted,
    Changed,
    Created,
)
from fadecount.service.http import (
    JSON,
    Answer,
    Call,
    json_answer,
    read_body,
)
from fadecount.service.parsing import (
    LONGEST_ID,
    ONLY_KEY,
    JsonObject,
    NewKeys,
    NewStream,
    checked_text,
    parse,
    parse_events,
)
from fadecount.service.problems import Problem, bad_request, refusing, unavailable
from fadecount.service.settings import Limits
from fadecount.service.writer import Leader, Writer
from fadecount.streams import Description, Group, Ticks, Unit
from fadecount.streams.audit_log import AuditLogError, acting_as
from fadecount.streams.discovery import HiddenKeys
from fadecount.streams.store import check_retention

LONGEST_DELAY = 1_000_000
"""The largest delay in ticks: delayed counts are kept one by one."""

LARGEST_ON_LOOP = 1 << 14
"""Bytes of a body that are parsed at once; a larger one is parsed on a thread, so other requests do
not wait for it."""

_BAD_STREAM = (
    "name, tick, zone and mechanism must be as GET /v1/streams/{name} shows them, with parameters"
    " within their bounds"
)
_BAD_UNIT = (
    "unit must be one event, or one person within a tick or a slot such as 1h, 1d or 1mo with at"
    " most so many events"
)
_WRONG_UNIT = "unit must be the plan's: its tick or slot, and no more events, keys and amounts"
_BAD_DISCOVERY = (
    "discovery must be as a plan file holds it, for the same unit of one person's day or month, and"
    " a mechanism of pure loss; other must be one of the declared keys"
)
_BAD_RETENTION = "retain must be a length of time, such as 90d: a tick or more"
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
    """What writing routes work with."""

    writer: Writer
    limits: Limits

    async def body(self, call: Call, parsed: Callable[[bytes], Parsed]) -> Parsed:
        """The body of a request, parsed."""
        if call.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise Problem(415, "unsupported_type", f"Content-Type must be {JSON}")
        sent = await read_body(call, self.limits.body_bytes)
        if len(sent) <= LARGEST_ON_LOOP:
            return parsed(sent)
        return await asyncio.to_thread(parsed, sent)

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
    batch_id = _batch_id(call)
    sent = await context.body(call, parse_events)
    own = None if batch_id is None or call.grant is None else f"{call.grant.id}/{batch_id}"
    counted = await context.writer.accept(call.stream_name, sent, own)
    return json_answer(Accepted(accepted=True, repeated=not counted), status=202)


async def declare_keys(context: WriteContext, call: Call) -> Answer:
    """Declare more keys; known ones stay as they are."""
    name = call.stream_name
    new = await context.body(call, lambda body: _keys(parse(body, NewKeys).keys))
    await context.administer(call, lambda leader: leader.declare(name, new))
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
        declared = [ONLY_KEY] if new.discovery is None else []
        described, keys = _description(new), declared if new.keys is None else _keys(new.keys)
        if new.other is not None and new.other not in keys:
            raise bad_request("bad_discovery", _BAD_DISCOVERY)
        with refusing("bad_retention", _BAD_RETENTION):
            retain = None if new.retain is None else parse_duration(new.retain)
            check_retention(described, retain)
        return described, keys, retain

    description, keys, retain = await context.body(call, parsed)
    created = await context.administer(
        call, lambda leader: leader.create(description, keys, retain)
    )
    answer = Created(name=description.name, repeated=not created)
    return json_answer(answer, status=201 if created else 200)


def _description(new: NewStream) -> Description:
    with refusing("bad_stream", _BAD_STREAM):
        mechanism = Mechanism.from_json(msgspec.json.encode(_marked(new.mechanism)))
        ticks = Ticks(tick_seconds=parse_duration(new.tick), zone=new.zone)
    if not isinstance(mechanism, Blocks) and mechanism.schedule.delay > LONGEST_DELAY:
        raise bad_request("bad_mechanism", f"delay must be at most {LONGEST_DELAY} ticks")
    with refusing("bad_unit", _BAD_UNIT):
        unit = Unit.from_json(msgspec.to_builtins(new.unit))
    with refusing("wrong_unit", _WRONG_UNIT):
        if (planned := planned_unit(new.mechanism)) is not None:
            unit.scaled(mechanism, planned)
    with refusing("wrong_tick", _WRONG_TICK):
        require_planned_tick(mechanism, ticks.tick_seconds)
    with refusing("bad_stream", _BAD_STREAM):
        described = Description(
            name=new.name, mechanism=mechanism, ticks=ticks, unit=unit, group=_group(new)
        )
    with refusing("bad_discovery", _BAD_DISCOVERY):
        return replace(described, hidden=_hidden(new))


def _hidden(new: NewStream) -> HiddenKeys | None:
    if new.discovery is None:
        if new.other is not None:
            raise ParameterError("other must be given with a discovery")
        return None
    fields = {"fadecount": "discovery", "version": 1, **new.discovery}
    discovery = Discovery.from_json(msgspec.json.encode(fields))
    return HiddenKeys(discovery=discovery, other=new.other)


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
