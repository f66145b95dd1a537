"""Routes that write: events, streams, keys. They answer when what they did is durable, and
say nothing about counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar

import msgspec

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError, StoreError
from fadecount.mechanisms import (
    Discovery,
    PlanFile,
    Unit,
    require_planned_tick,
)
from fadecount.service.answers import Done
from fadecount.service.http import (
    NOT_IN_ORDER,
    Request,
    Response,
    bad_request,
    json_answer,
    refusing,
    unavailable,
)
from fadecount.service.parsing import (
    LONGEST_ID,
    NewKeys,
    NewStream,
    checked_text,
    parse,
    parse_events,
)
from fadecount.service.writer import Leader, Writer
from fadecount.streams import Description, Group, Ticks
from fadecount.streams.audit_log import AuditLogError, acting_as
from fadecount.streams.description import ONLY_KEY
from fadecount.streams.discovery import HiddenKeys

LARGEST_ON_LOOP = 1 << 14
"""Bytes of a body that are parsed at once; a larger one is parsed on a thread, so other requests do
not wait for it."""

_WRONG = {
    "bad_stream": "name must be 1 to 100 letters, digits, dots, hyphens or underscores, beginning"
    " with a letter or digit; blocks must be whole ticks, and days of the zone begin with a tick",
    "bad_mechanism": "mechanism must be as fadecount plan --save writes it, with parameters within"
    " their bounds",
    "bad_tick": "tick must be a duration from 1s on, such as 1m or 1h, and zone a time zone of the"
    " IANA database, such as UTC or Europe/Zurich",
    "bad_unit": "unit must be one event, or one person within a tick or a slot such as 1h, 1d or"
    " 1mo with at most so many events",
    "wrong_unit": "unit must be the plan's: its tick or slot, and no more events, keys and amounts",
    "wrong_tick": "tick must be the one for which the plan was made; plan again for another",
    "bad_discovery": "discovery must be as a plan file holds it, for the same unit of one person's"
    " day or month; other must be one of the declared keys, and needs a plan that gives discovery a"
    " part of every loss, such as 1d=0.5",
    "bad_group": "group must be a name, and group_loss must hold ages such as 30d, or ever, with"
    " losses that do not fall",
}
Parsed = TypeVar("Parsed")
Result = TypeVar("Result")
log = logging.getLogger("fadecount.service")


async def post_events(writer: Writer, request: Request) -> Response:
    """Count events; answered when they are durable."""
    batch_id = _batch_id(request)
    sent = await _parsed(request, parse_events)
    own = None if batch_id is None or request.grant is None else f"{request.grant.id}/{batch_id}"
    counted = await writer.accept(request.name, sent, own)
    return json_answer(Done(not counted), status=202)


async def declare_keys(writer: Writer, request: Request) -> Response:
    """Declare more keys; known ones stay as they are."""
    new = await _parsed(request, lambda body: _keys(parse(body, NewKeys).keys))
    await _administer(writer, request, lambda leader: leader.declare(request.name, new))
    return json_answer(Done())


async def delete_stream(writer: Writer, request: Request) -> Response:
    """Delete a stream with all its figures. What observers have seen, they keep, so its name stays
    taken."""
    await _administer(writer, request, lambda leader: leader.delete(request.name))
    return json_answer(Done())


async def create_stream(writer: Writer, request: Request) -> Response:
    """Create a stream; it begins with the present tick. Repeating it changes nothing."""

    def parsed(body: bytes) -> tuple[Description, list[str]]:
        new = parse(body, NewStream)
        if request.grant is not None:
            request.grant.require_stream(checked_text(new.name, "name"))
            if new.group is not None:  # its promise belongs to all of its streams
                request.grant.require_stream(None)
        declared = [ONLY_KEY] if new.discovery is None else []
        described, keys = _description(new), declared if new.keys is None else _keys(new.keys)
        if new.other is not None and new.other not in keys:
            raise bad_request("bad_discovery", _WRONG["bad_discovery"])
        return described, keys

    new = await _parsed(request, parsed)
    created = await _administer(writer, request, lambda leader: leader.create(*new))
    return json_answer(Done(not created), status=201 if created else 200)


async def _parsed(request: Request, parse: Callable[[bytes], Parsed]) -> Parsed:
    """The body of a request, parsed."""
    if len(request.body) <= LARGEST_ON_LOOP:
        return parse(request.body)
    return await asyncio.to_thread(parse, request.body)


async def _administer(writer: Writer, request: Request, work: Callable[[Leader], Result]) -> Result:
    """Run an administrative act on the writing thread; the audit log names the token."""

    def act(leader: Leader) -> Result:
        with acting_as(request.grant.shown if request.grant else "no token"):
            return work(leader)

    try:
        result: Result = await writer.call(act)
    except (AuditLogError, StoreError) as error:
        log.error("an administrative act is refused: %s", error)
        damaged = isinstance(error, StoreError)
        detail = "the audit log cannot be written; the operator's log says why"
        raise unavailable(NOT_IN_ORDER if damaged else detail) from None
    return result


def _checking(code: str) -> AbstractContextManager[None]:
    return refusing(code, _WRONG[code])


def _description(new: NewStream) -> Description:
    with _checking("bad_mechanism"):  # the marker and the version may be left out
        fields = {"fadecount": "mechanism", "version": 1, **new.mechanism}
        plan = PlanFile.from_json(msgspec.json.encode(fields))
    with _checking("bad_tick"):
        ticks = Ticks(tick_seconds=parse_duration(new.tick), zone=new.zone)
    with _checking("bad_unit"):
        unit = Unit.from_json(msgspec.to_builtins(new.unit))
    with _checking("wrong_unit"):
        if plan.unit is not None:
            unit.scaled(plan.mechanism, plan.unit)
    with _checking("wrong_tick"):
        require_planned_tick(plan.mechanism, ticks.tick_seconds)
    with _checking("bad_group"):
        group = None if new.group is None else Group(name=new.group)
        if new.group_loss is not None:
            group = Group.of(new.group or "", new.group_loss)
    with _checking("bad_stream"):
        described = Description(
            name=new.name, mechanism=plan.mechanism, ticks=ticks, unit=unit, group=group
        )
    with _checking("bad_discovery"):
        if new.discovery is None and new.other is not None:
            raise ParameterError("other must be given with a discovery")
        if new.discovery is None:
            return described
        plan.require_room(new.other)
        fields = {"fadecount": "discovery", "version": 1, **new.discovery}
        discovery = Discovery.from_json(msgspec.json.encode(fields))
        return replace(described, hidden=HiddenKeys(discovery=discovery, other=new.other))


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
