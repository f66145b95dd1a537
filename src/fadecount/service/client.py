"""The service from Python: send events that count once, read releases, follow them live. Standard
library only.

:class:`Client` blocks, :class:`AsyncClient` is awaited. They differ only in how they wait: both use
the same code to build requests, to read answers and to decide on retries (:func:`_exchange`).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from fadecount.durations import parse_duration
from fadecount.errors import FadecountError, bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.mechanisms.plan_file import (
    planned_person,
    require_planned_person,
    require_planned_tick,
)
from fadecount.noise import unpredictable
from fadecount.service.sse import Frames

__all__ = ["AsyncClient", "Client", "PublishedCount", "ServiceError", "StreamInfo", "StreamSummary"]

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 5.0
_LIVE_SECONDS = 60.0
_LIVE_PAUSE = 0.5
_LONGEST_LINE = 1 << 16
_MOST_HEADERS = 200


class ServiceError(FadecountError):
    """The service refused a request, or could not be reached. ``status`` is 0 in the latter
    case."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSummary:
    """A stream in a list."""

    name: str
    tick_seconds: int
    key_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is public about a stream; ``unit`` is the protected unit of the stated losses."""

    name: str
    tick_seconds: int
    keys: tuple[str, ...]
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCount:
    """A released count of the tick that starts at ``tick``: 95 % of the time the true one lies from
    ``low`` to ``high``."""

    tick: str
    key: str
    value: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


Steps = Generator[_Request | _Pause, _Answer | None, Any]
"""Yields what to send or wait for; receives the answer, or None if the connection failed."""


def _exchange(request: _Request, attempts: int) -> Steps:
    """One request, repeated while that may help. Repeating is safe: adding sends its key; the
    others are idempotent. If the first request to delete something got lost on its way back, the
    repeated one finds nothing: it is deleted."""
    for attempt in range(attempts):
        failure = ServiceError(0, "unreachable", "the service cannot be reached; check its address")
        pause = min(_LONGEST_PAUSE, 0.05 * 2**attempt)
        answer = yield request
        if answer is not None:
            if answer.status < 400:
                return json.loads(answer.body)
            if answer.status == 404 and request.method == "DELETE" and attempt:
                return {}
            failure = _failure(answer.status, answer.body)
            if answer.status not in _AGAIN:
                raise failure
            with suppress(ValueError):
                pause = min(_LONGEST_PAUSE, float(answer.headers.get("retry-after", pause)))
        if attempt + 1 < attempts:
            yield _Pause(pause * (0.5 + int.from_bytes(unpredictable(2)) / 65536))
    raise failure


def _failure(status: int, content: bytes) -> ServiceError:
    try:
        fields = json.loads(content)
        return ServiceError(status, str(fields["code"]), str(fields["detail"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unknown", f"the service answered with status {status}")


def _get(path: str, **query: str | None) -> _Request:
    given = {name: value for name, value in query.items() if value is not None}
    return _Request(method="GET", path=f"{path}?{urlencode(given)}" if given else path)


def _post(path: str, value: object, *, method: str = "POST", **headers: str) -> _Request:
    sent = {
        "Content-Type": "application/json",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    return _Request(method=method, path=path, body=json.dumps(value).encode(), headers=sent)


def _path(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"


def _create(
    name: str,
    tick: str,
    mechanism: Mechanism | None,
    plan: Mapping[str, Any] | None,
    keys: Iterable[str] | None,
    zone: str,
    unit: Mapping[str, str | int] | None,
    retain: str | None,
) -> _Request:
    if (mechanism is None) == (plan is None):
        raise bad_parameter(
            "mechanism", "both" if plan else None, "given, or a plan", "one of them, not both"
        )
    require_planned_tick(mechanism or Mechanism.from_json(json.dumps(plan)), parse_duration(tick))
    person, given = planned_person(plan), {} if unit is None else unit
    if person is not None:
        events = int(given.get("events", 1)) if given.get("of") == "person" else None
        require_planned_person(person, events, int(given.get("keys", 1)))
    body: dict[str, Any] = {"name": name, "tick": tick, "zone": zone}
    body |= {"plan": plan} if mechanism is None else {"mechanism": json.loads(mechanism.to_json())}
    body |= {} if keys is None else {"keys": list(keys)}
    body |= {} if unit is None else {"unit": dict(unit)}
    body |= {} if retain is None else {"retain": retain}
    return _post("/v1/streams", body)


def _add(
    name: str, counts: Mapping[str, int], batch_id: str | None, person: str | None, amount: int
) -> _Request:
    each = {} if amount == 1 else {"amount": amount}
    body: dict[str, Any] = {
        "events": [{"key": key, "count": count, **each} for key, count in counts.items()]
    }
    body |= {} if person is None else {"person": person}
    return _post(f"{_path(name)}/events", body, Idempotency_Key=batch_id or unpredictable(24).hex())


def _retain(name: str, length: str | None) -> _Request:
    return _post(f"{_path(name)}/retention", {"retain": length}, method="PUT")


def _delete(name: str) -> _Request:
    return _Request(method="DELETE", path=_path(name))


def _live(name: str, after: int | None) -> _Request:
    headers = {
        "Accept": "text/event-stream",
        **({} if after is None else {"Last-Event-ID": str(after)}),
    }
    return _Request(method="GET", path=f"{_path(name)}/live", headers=headers)


def _info(fields: Mapping[str, Any]) -> StreamInfo:
    unit = fields["unit"]["text"]
    return StreamInfo(
        name=fields["name"],
        tick_seconds=fields["tick_seconds"],
        keys=tuple(fields["keys"]),
        unit=unit,
    )


def _counts(fields: Mapping[str, Any]) -> list[PublishedCount]:
    return [PublishedCount(tick=fields["tick"], **each) for each in fields["releases"]]


def _ticks_of(frames: Frames, piece: bytes) -> Iterator[tuple[int, list[PublishedCount]]]:
    for id_, event, data in frames.feed(piece):
        if event == "tick" and id_ is not None:
            yield int(id_), _counts(json.loads(data))


class _Settings:
    """The settings of both clients."""

    def __init__(self, url: str, token: str | None, timeout_seconds: float, attempts: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise bad_parameter(
                "url", url, "an http or https address", "such as http://127.0.0.1:8000"
            )
        self._parts: SplitResult = parts
        self._timeout, self._attempts = timeout_seconds, attempts
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._parts.scheme}://{self._parts.netloc})"

    def _target(self, request: _Request) -> str:
        return self._parts.path.rstrip("/") + request.path


class Client(_Settings):
    """A client of the service at a URL, with a token if the service needs one.

    Guarantees: :meth:`add` returns when the events are durable, and counts them once however often
    the network fails in between: every attempt carries the same idempotency key. May be used from
    several threads; each has its own connection.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 10.0,
        attempts: int = 8,
    ) -> None:
        super().__init__(url, token, timeout_seconds, attempts)
        self._local = threading.local()
        self._open: set[http.client.HTTPConnection] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection. The client may be used again; it then opens new ones."""
        while self._open:
            self._open.pop().close()

    def streams(self) -> list[StreamSummary]:
        """The streams that this token may see."""
        found: list[StreamSummary] = []
        cursor: str | None = None
        while True:
            page = self._do(_get("/v1/streams", cursor=cursor))
            found += [StreamSummary(**each) for each in page["streams"]]
            cursor = page["next"]
            if cursor is None:
                return found

    def stream(self, name: str) -> StreamInfo:
        """What is public about a stream."""
        return _info(self._do(_get(_path(name))))

    def create(
        self,
        name: str,
        *,
        tick: str,
        mechanism: Mechanism | None = None,
        plan: Mapping[str, Any] | None = None,
        keys: Iterable[str] | None = None,
        zone: str = "UTC",
        unit: Mapping[str, str | int] | None = None,
        retain: str | None = None,
    ) -> bool:
        """Create a stream that begins with the current tick; False if it exists already with this
        description and these keys.

        ``plan`` is a plan's JSON; its tick must be the stream's. ``unit`` says who is protected,
        such as ``{"of": "person", "events": 3}``; by default one event. ``retain`` is how long
        releases are kept, such as ``90d``; by default for ever.
        """
        return not self._do(_create(name, tick, mechanism, plan, keys, zone, unit, retain))[
            "repeated"
        ]

    def declare(self, name: str, keys: Iterable[str]) -> None:
        """Declare more keys; known ones stay as they are."""
        self._do(_post(f"{_path(name)}/keys", {"keys": list(keys)}))

    def retain(self, name: str, length: str | None) -> None:
        """Keep releases for a time, such as ``90d``, or for ever (None). Older ones are removed,
        for good; no loss changes."""
        self._do(_retain(name, length))

    def delete(self, name: str) -> None:
        """Delete a stream with all its releases, for good. Observers keep what they have seen, so
        its name stays taken."""
        self._do(_delete(name))

    def add(
        self,
        name: str,
        counts: Mapping[str, int],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        person: str | None = None,
        amount: int = 1,
    ) -> bool:
        """Count events by key; True when they are durable, False if this token has sent this id
        before.

        A count is a number of events, and ``amount`` is the amount of each of them, at most that of
        the stream's unit. ``person`` says whose events these are; a stream that protects persons
        needs it.
        """
        return not self._do(_add(name, counts, id, person, amount))["repeated"]

    def releases(
        self,
        name: str,
        *,
        key: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[PublishedCount]:
        """Published counts of the ticks that begin in [``since``, ``until``), oldest first; times
        are ISO 8601 with a zone."""
        cursor: str | None = None
        while True:
            page = self._do(
                _get(
                    f"{_path(name)}/releases",
                    key=key,
                    since=since,
                    until=until,
                    limit="5000",
                    cursor=cursor,
                )
            )
            yield from (PublishedCount(**each) for each in page["releases"])
            cursor = page["next"]
            if cursor is None:
                return

    def latest(self, name: str) -> list[PublishedCount]:
        """The counts of the last tick."""
        return _counts(self._do(_get(f"{_path(name)}/releases/latest")))

    def loss(self, name: str, age: str) -> float:
        """The privacy loss of an event of an age, such as ``1h``: exact or an upper bound."""
        return float(self._do(_get(f"{_path(name)}/privacy", age=age))["loss"])

    def live(
        self, name: str, *, after: int | None = None
    ) -> Generator[tuple[int, list[PublishedCount]]]:
        """(tick, counts) as ticks are released, without end; resumes after the last one when the
        connection breaks.

        It has its own connection, so the client may be used for other requests meanwhile.
        """
        while True:
            connection = self._connection(_LIVE_SECONDS)
            try:
                answer = self._ask(connection, _live(name, after))
                if answer.status >= 400 and answer.status not in _AGAIN:
                    raise _failure(answer.status, answer.read())
                frames = Frames()
                while answer.status < 400 and (piece := answer.read1(65536)):
                    for tick, counts in _ticks_of(frames, piece):
                        after = tick
                        yield tick, counts
            except (OSError, http.client.HTTPException):
                pass  # the connection broke: the next one goes on from there
            finally:
                self._close_connection(connection)
            time.sleep(_LIVE_PAUSE)

    def _do(self, request: _Request) -> Any:
        steps = _exchange(request, self._attempts)
        answer: _Answer | None = None
        try:
            while True:
                step = steps.send(answer)
                answer = None
                if isinstance(step, _Pause):
                    self._forget()  # a new connection may reach another process, which can do it
                    time.sleep(step.seconds)
                    continue
                with suppress(OSError, http.client.HTTPException):
                    found = self._ask(self._own_connection(), step)
                    headers = {name.lower(): value for name, value in found.getheaders()}
                    answer = _Answer(status=found.status, headers=headers, body=found.read())
                if answer is None:
                    self._forget()
        except StopIteration as end:
            return end.value

    def _ask(
        self, connection: http.client.HTTPConnection, request: _Request
    ) -> http.client.HTTPResponse:
        self._open.add(connection)  # also a closed one: it reopens automatically
        connection.request(
            request.method,
            self._target(request),
            request.body,
            {**self._headers, **request.headers},
        )
        return connection.getresponse()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _own_connection(self) -> http.client.HTTPConnection:
        """The connection of this thread."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connection(self._timeout)
        return connection

    def _forget(self) -> None:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            self._close_connection(connection)
            self._local.connection = None

    def _close_connection(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._open.discard(connection)


class AsyncClient(_Settings):
    """:class:`Client` for asyncio: the same calls and guarantees, awaited. Every request has its
    own connection."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 10.0,
        attempts: int = 8,
    ) -> None:
        super().__init__(url, token, timeout_seconds, attempts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing stays open between requests."""

    async def streams(self) -> list[StreamSummary]:
        """The streams that this token may see."""
        found: list[StreamSummary] = []
        cursor: str | None = None
        while True:
            page = await self._do(_get("/v1/streams", cursor=cursor))
            found += [StreamSummary(**each) for each in page["streams"]]
            cursor = page["next"]
            if cursor is None:
                return found

    async def stream(self, name: str) -> StreamInfo:
        """What is public about a stream."""
        return _info(await self._do(_get(_path(name))))

    async def create(
        self,
        name: str,
        *,
        tick: str,
        mechanism: Mechanism | None = None,
        plan: Mapping[str, Any] | None = None,
        keys: Iterable[str] | None = None,
        zone: str = "UTC",
        unit: Mapping[str, str | int] | None = None,
        retain: str | None = None,
    ) -> bool:
        """See :meth:`Client.create`."""
        return not (await self._do(_create(name, tick, mechanism, plan, keys, zone, unit, retain)))[
            "repeated"
        ]

    async def declare(self, name: str, keys: Iterable[str]) -> None:
        """Declare more keys; known ones stay as they are."""
        await self._do(_post(f"{_path(name)}/keys", {"keys": list(keys)}))

    async def retain(self, name: str, length: str | None) -> None:
        """See :meth:`Client.retain`."""
        await self._do(_retain(name, length))

    async def delete(self, name: str) -> None:
        """See :meth:`Client.delete`."""
        await self._do(_delete(name))

    async def add(
        self,
        name: str,
        counts: Mapping[str, int],
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        person: str | None = None,
        amount: int = 1,
    ) -> bool:
        """See :meth:`Client.add`."""
        return not (await self._do(_add(name, counts, id, person, amount)))["repeated"]

    async def releases(
        self,
        name: str,
        *,
        key: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> AsyncIterator[PublishedCount]:
        """Published counts of the ticks that begin in [``since``, ``until``), oldest first; times
        are ISO 8601 with a zone."""
        cursor: str | None = None
        while True:
            asked = _get(
                f"{_path(name)}/releases",
                key=key,
                since=since,
                until=until,
                limit="5000",
                cursor=cursor,
            )
            page = await self._do(asked)
            for each in page["releases"]:
                yield PublishedCount(**each)
            cursor = page["next"]
            if cursor is None:
                return

    async def latest(self, name: str) -> list[PublishedCount]:
        """The counts of the last tick."""
        return _counts(await self._do(_get(f"{_path(name)}/releases/latest")))

    async def loss(self, name: str, age: str) -> float:
        """The privacy loss of an event of an age, such as ``1h``: exact or an upper bound."""
        return float((await self._do(_get(f"{_path(name)}/privacy", age=age)))["loss"])

    async def live(
        self, name: str, *, after: int | None = None
    ) -> AsyncGenerator[tuple[int, list[PublishedCount]]]:
        """(tick, counts) as ticks are released, without end; resumes after the last one when the
        connection breaks."""
        while True:
            connection = None
            try:
                connection = await self._send(_live(name, after))
                if connection.status >= 400 and connection.status not in _AGAIN:
                    raise _failure(connection.status, await connection.whole(self._timeout))
                frames = Frames()
                async for piece in connection.pieces(_LIVE_SECONDS):
                    for tick, counts in _ticks_of(frames, piece) if connection.status < 400 else ():
                        after = tick
                        yield tick, counts
            except (OSError, ValueError, EOFError, TimeoutError):
                pass  # the connection broke: the next one goes on from there
            finally:
                if connection:
                    connection.close()
            await asyncio.sleep(_LIVE_PAUSE)

    async def _do(self, request: _Request) -> Any:
        steps = _exchange(request, self._attempts)
        answer: _Answer | None = None
        try:
            while True:
                step = steps.send(answer)
                answer = None
                if isinstance(step, _Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                with suppress(OSError, ValueError, EOFError, TimeoutError):
                    connection = await self._send(step)
                    try:
                        body = await connection.whole(self._timeout)
                    finally:
                        connection.close()
                    answer = _Answer(
                        status=connection.status, headers=connection.headers, body=body
                    )
        except StopIteration as end:
            return end.value

    async def _send(self, request: _Request) -> _AsyncAnswer:
        host, secure = self._parts.hostname or "", self._parts.scheme == "https"
        port = self._parts.port or (443 if secure else 80)
        async with asyncio.timeout(self._timeout):
            reader, writer = await asyncio.open_connection(
                host,
                port,
                ssl=ssl.create_default_context() if secure else None,
                limit=_LONGEST_LINE,
            )
            try:
                length = {} if request.body is None else {"Content-Length": str(len(request.body))}
                headers = {
                    "Host": self._parts.netloc.rpartition("@")[2],
                    **self._headers,
                    **request.headers,
                    **length,
                }
                lines = [
                    f"{request.method} {self._target(request)} HTTP/1.1",
                    *(f"{name}: {text}" for name, text in headers.items()),
                ]
                if any("\r" in line or "\n" in line for line in lines):
                    raise bad_parameter(
                        "id",
                        "a line break",
                        "printable ASCII characters",
                        "leave it out for a random one",
                    )
                writer.write(
                    "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
                    + (request.body or b"")
                )
                await writer.drain()
                return await _AsyncAnswer.begun(reader, writer)
            except BaseException:
                writer.close()
                raise


class _AsyncAnswer:
    """An answer as it arrives: its head first, then its body in pieces."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        status: int,
        headers: dict[str, str],
    ) -> None:
        self._reader, self._writer, self.status, self.headers = reader, writer, status, headers

    @classmethod
    async def begun(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _AsyncAnswer:
        """The answer with its head; an interim answer (100) is skipped."""
        while True:
            first = (await reader.readline()).split(None, 2)
            if len(first) < 2 or not first[0].startswith(b"HTTP/1."):
                raise ConnectionError("no answer")
            headers: dict[str, str] = {}
            while (line := await reader.readline()) not in (b"\r\n", b"\n", b"") and len(
                headers
            ) < _MOST_HEADERS:
                name, _, text = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = text.strip()
            if first[1] != b"100":
                return cls(reader, writer, int(first[1]), headers)

    async def pieces(self, timeout: float) -> AsyncIterator[bytes]:
        """The body as it arrives; ``timeout`` is the longest wait for a piece."""
        chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        left = int(self.headers.get("content-length", -1))
        while left:
            async with asyncio.timeout(timeout):
                if chunked:
                    size = int((await self._reader.readline()).split(b";")[0], 16)
                    piece = await self._reader.readexactly(size)
                    await self._reader.readline()
                else:
                    piece = await self._reader.read(65536 if left < 0 else min(left, 65536))
            if not piece:
                if left > 0:
                    raise EOFError
                return
            left -= 0 if left < 0 else len(piece)
            yield piece

    async def whole(self, timeout: float) -> bytes:
        return b"".join([piece async for piece in self.pieces(timeout)])

    def close(self) -> None:
        self._writer.close()
