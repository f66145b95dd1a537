"""Routes that write: events, streams, keys. They answer when what they did is durable, and say nothing about counts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.mechanisms import Mechanism, require_planned_tick
from fadecount.service.access import Access, Action
from fadecount.service.http import Receive, Scope, Send, as_json, read_body, send_bytes
from fadecount.service.limits import Limits
from fadecount.service.parsing import a_list, a_text, an_event, an_object, events_of, parse, parse_lines
from fadecount.service.problems import Problem, bad_request
from fadecount.service.writer import Writer
from fadecount.streams import Batch, Description, Ticks

MOST_KEYS = 100_000
LONGEST_ID = 200
LONGEST_DELAY = 1_000_000
"""Ticks whose counts wait to be shown are kept one by one."""

_CREATE = frozenset({"name", "tick", "keys", "mechanism", "plan", "zone"})
ACCEPTED = as_json({"accepted": True, "repeated": False})
REPEATED = as_json({"accepted": True, "repeated": True})
_NO_STORE = ((b"cache-control", b"no-store"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """What writing routes work with; each route is an ASGI application of its own, as little as possible around it."""

    writer: Writer
    access: Access
    limits: Limits

    async def events(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """``POST /v1/streams/{name}/events``: 202 when the events are durable."""
        headers = dict(scope["headers"])
        self.may_write(headers, name)
        if scope["query_string"]:
            raise bad_request("bad_query", "this route takes no parameters")
        counted = await self.accept(headers, name, await read_body(receive, headers, self.limits))
        await send_bytes(send, 202, ACCEPTED if counted else REPEATED, "application/json", _NO_STORE)

    def may_write(self, headers: dict[bytes, bytes], name: str) -> None:
        self.access.allow(_text(headers, b"authorization"), Action.WRITE, name)

    def accept(self, headers: dict[bytes, bytes], name: str, body: bytes) -> asyncio.Future[bool]:
        """Check a body and hand it to the writer."""
        batch_id, media_type = _batch_id(headers), _media_type(headers)
        most = self.limits.events_per_request
        if media_type == b"application/json":
            events = events_of(parse(body), most=most)
        elif media_type in (b"application/x-ndjson", b"application/jsonl"):
            events = [an_event(each) for each in a_list(parse_lines(body), "the body", most=most)]
        else:
            raise Problem(415, "unsupported_type", "Content-Type must be application/json or application/x-ndjson")
        counts: dict[str, int] = {}
        for key, count in events:
            counts[key] = counts.get(key, 0) + count
        return self.writer.accept(name, Batch(counts=counts, id=batch_id))

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """``POST /v1/streams``: a new stream, which begins with the present tick; repeating it changes nothing."""
        headers = dict(scope["headers"])
        authorization = _text(headers, b"authorization")
        self.access.allow_some(authorization, Action.MANAGE)
        fields = an_object(await self._json(receive, headers), "the body", _CREATE, frozenset({"name", "tick"}))
        name = a_text(fields["name"], "name")
        self.access.allow(authorization, Action.MANAGE, name)
        description = _description(name, fields)
        keys = _keys(fields["keys"]) if "keys" in fields else ["all"]
        created = await self.writer.call(lambda leader: leader.create(description, keys))
        answer = as_json({"name": name, "repeated": not created})
        await send_bytes(send, 201 if created else 200, answer, "application/json", _NO_STORE)

    async def keys(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """``POST /v1/streams/{name}/keys``: declare more keys; known ones are left as they are."""
        headers = dict(scope["headers"])
        self.access.allow(_text(headers, b"authorization"), Action.MANAGE, name)
        fields = an_object(await self._json(receive, headers), "the body", frozenset({"keys"}), frozenset({"keys"}))
        keys = _keys(fields["keys"])
        await self.writer.call(lambda leader: leader.declare(name, keys))
        await send_bytes(send, 200, as_json({"name": name}), "application/json", _NO_STORE)

    async def _json(self, receive: Receive, headers: dict[bytes, bytes]) -> Any:
        if _media_type(headers) != b"application/json":
            raise Problem(415, "unsupported_type", "Content-Type must be application/json")
        return parse(await read_body(receive, headers, self.limits))


def _description(name: str, fields: dict[str, Any]) -> Description:
    if ("mechanism" in fields) == ("plan" in fields):
        raise bad_request("bad_mechanism", "give mechanism, or plan")
    tick = a_text(fields["tick"], "tick")
    zone = a_text(fields.get("zone", "UTC"), "zone")
    given = fields.get("mechanism", fields.get("plan"))
    try:
        mechanism = Mechanism.from_json(as_json(_marked(given)))
        if mechanism.schedule.delay > LONGEST_DELAY:
            raise bad_request("bad_mechanism", f"delay must be at most {LONGEST_DELAY} ticks")
        ticks = Ticks(tick_seconds=parse_duration(tick), zone=zone)
        _check_planned(mechanism, ticks)
        return Description(name=name, mechanism=mechanism, ticks=ticks)
    except (ParameterError, TypeError, ValueError, OverflowError):
        detail = (
            "name, tick, zone and mechanism must be as GET /v1/streams/{name} shows them, with parameters within their bounds"
        )
        raise bad_request("bad_stream", detail) from None


def _check_planned(mechanism: Mechanism, ticks: Ticks) -> None:
    try:
        require_planned_tick(mechanism, ticks.tick_seconds)
    except ParameterError:
        raise bad_request("wrong_tick", "tick must be the one for which the plan was made; plan again for another") from None


def _marked(given: Any) -> dict[str, Any]:
    """A mechanism as :meth:`Mechanism.to_json` writes it; the marker and the version may be left out."""
    if not isinstance(given, dict):
        raise bad_request("wrong_type", "mechanism must be an object, such as {kind: gradual, epsilon: 0.1, exponent: 1}")
    if any(isinstance(value, bool) for value in given.values()):
        raise bad_request("wrong_number", "parameters of a mechanism must be numbers")
    return {"fadecount": "mechanism", "version": 1, **given}


def _keys(value: Any) -> list[str]:
    keys = [a_text(each, "a key") for each in a_list(value, "keys", most=MOST_KEYS)]
    if len(set(keys)) != len(keys):
        raise bad_request("duplicate_key", "keys must be different from each other")
    return keys


def _text(headers: dict[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _media_type(headers: dict[bytes, bytes]) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _batch_id(headers: dict[bytes, bytes]) -> str | None:
    value = headers.get(b"idempotency-key")
    if value is None:
        return None
    text = value.decode("latin-1")
    if not 1 <= len(text) <= LONGEST_ID or not (text.isascii() and text.isprintable()):
        raise bad_request("bad_idempotency_key", f"Idempotency-Key must be 1 to {LONGEST_ID} printable ASCII characters")
    return text
