"""The service from Python: send events that count once, read releases, follow them live. Standard library only."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from fadecount.errors import FadecountError, bad_parameter
from fadecount.mechanisms import Mechanism
from fadecount.noise.entropy import unpredictable
from fadecount.service.sse import Frames


class ServiceError(FadecountError):
    """The service refused a request, or could not be reached. ``status`` is 0 in the latter case."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """What is public about a stream."""

    name: str
    tick_seconds: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCount:
    """A released count: 95 % of the time the true one lies from ``low`` to ``high``."""

    start: str
    key: str
    value: int
    low: int
    high: int


def stream_info(fields: Mapping[str, Any]) -> StreamInfo:
    return StreamInfo(name=fields["name"], tick_seconds=fields["tick_seconds"], keys=tuple(fields["keys"]))


def counts_of(fields: Mapping[str, Any]) -> list[PublishedCount]:
    return [PublishedCount(start=fields["start"], **each) for each in fields["releases"]]


def failure_of(status: int, content: bytes) -> ServiceError:
    try:
        fields = json.loads(content)
        return ServiceError(status, str(fields["code"]), str(fields["detail"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unknown", f"the service answered with status {status}")


__all__ = ["Client", "PublishedCount", "ServiceError", "StreamInfo"]

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 5.0
_LIVE_SECONDS = 60.0


class Client:
    """A service at a URL, with a token if it wants one.

    Guarantees: :meth:`add` returns when the events are durable, and counts them once however often the network fails in
    between: every attempt carries the same idempotency key. May be used from several threads; each has its own connection.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout_seconds: float = 10.0, attempts: int = 8) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise bad_parameter("url", url, "an http or https address", "such as http://127.0.0.1:8000")
        self._parts, self._timeout, self._attempts = parts, timeout_seconds, attempts
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
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

    def __repr__(self) -> str:
        return f"Client({self._parts.scheme}://{self._parts.netloc})"

    def streams(self) -> list[StreamInfo]:
        """The streams that this token may see."""
        return [stream_info(each) for each in self._json("GET", "/v1/streams")["streams"]]

    def stream(self, name: str) -> StreamInfo:
        """What is public about one stream."""
        return stream_info(self._json("GET", _path(name)))

    def create(self, name: str, *, tick: str, mechanism: Mechanism, keys: Iterable[str] | None = None, zone: str = "UTC") -> bool:
        """A new stream that begins with the present tick; False if there is one already, of this description and these keys."""
        body: dict[str, Any] = {"name": name, "tick": tick, "zone": zone, "mechanism": json.loads(mechanism.to_json())}
        answer = self._json("POST", "/v1/streams", body if keys is None else {**body, "keys": list(keys)})
        return not answer["repeated"]

    def declare(self, name: str, keys: Iterable[str]) -> None:
        """Declare more keys; known ones stay as they are."""
        self._json("POST", f"{_path(name)}/keys", {"keys": list(keys)})

    def add(self, name: str, counts: Mapping[str, int], *, id: str | None = None) -> bool:  # noqa: A002 - the word for it
        """Count events by key; True when they are durable, False if this id has been counted before."""
        body = {"events": [{"key": key, "count": count} for key, count in counts.items()]}
        headers = {"Idempotency-Key": id or unpredictable(24).hex()}
        answer: bool = not self._json("POST", f"{_path(name)}/events", body, headers)["repeated"]
        return answer

    def releases(
        self, name: str, *, key: str | None = None, since: str | None = None, until: str | None = None
    ) -> Iterator[PublishedCount]:
        """Published counts, oldest first; times are ISO 8601 with a zone."""
        given = {"key": key, "since": since, "until": until, "limit": "5000"}
        words = {word: value for word, value in given.items() if value is not None}
        cursor: str | None = None
        while True:
            page = self._json("GET", f"{_path(name)}/releases?{urlencode({**words, **({'cursor': cursor} if cursor else {})})}")
            yield from (PublishedCount(**each) for each in page["releases"])
            cursor = page["next"]
            if cursor is None:
                return

    def latest(self, name: str) -> list[PublishedCount]:
        """The counts of the last tick."""
        return counts_of(self._json("GET", f"{_path(name)}/releases/latest"))

    def live(self, name: str, *, after: int | None = None) -> Generator[tuple[int, list[PublishedCount]]]:
        """(tick, counts) as ticks are released, without end; goes on after the last one when the connection breaks.

        It has a connection of its own, so that the client may be used for other things meanwhile.
        """
        while True:
            headers = {"Accept": "text/event-stream", **({} if after is None else {"Last-Event-ID": str(after)})}
            connection = self._connection(_LIVE_SECONDS)
            try:
                answer = self._ask(connection, "GET", f"{_path(name)}/live", None, headers)
                if answer.status >= 400 and answer.status not in _AGAIN:
                    raise failure_of(answer.status, answer.read())
                frames = Frames()
                while answer.status < 400 and (piece := answer.read1(65536)):
                    for id_, event, data in frames.feed(piece):
                        if event == "tick" and id_ is not None:
                            after = int(id_)
                            yield after, counts_of(json.loads(data))
            except (OSError, http.client.HTTPException):
                pass  # the connection broke: the next one goes on from there
            finally:
                self._let_go(connection)
            time.sleep(0.5)

    def loss(self, name: str, age: str) -> float:
        """The privacy loss of an event of an age, such as ``1h``: exact or an upper bound."""
        answer: float = self._json("GET", f"{_path(name)}/privacy?{urlencode({'age': age})}")["loss"]
        return answer

    def _json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """One request, repeated while it may help. Repeating is safe: adding carries its key, the others change nothing twice."""
        packed = None if body is None else json.dumps(body).encode()
        more = dict(headers or {}) | ({"Content-Type": "application/json"} if body is not None else {})
        for attempt in range(self._attempts):
            failure = ServiceError(0, "unreachable", "the service cannot be reached; check its address")
            pause = min(_LONGEST_PAUSE, 0.05 * 2**attempt)
            try:
                answer = self._ask(self._own_connection(), method, path, packed, more)
                content = answer.read()
                if answer.status < 400:
                    return json.loads(content)
                failure = failure_of(answer.status, content)
                pause = min(_LONGEST_PAUSE, float(answer.headers.get("Retry-After", pause)))
            except (OSError, http.client.HTTPException):
                pass
            if failure.status and failure.status not in _AGAIN:
                raise failure
            self._forget()  # a new connection may lead to another process, which can do it
            if attempt + 1 < self._attempts:
                time.sleep(pause * (0.5 + int.from_bytes(unpredictable(2)) / 65536))
        raise failure

    def _ask(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        self._open.add(connection)  # also one that was closed: it opens again by itself
        connection.request(method, self._parts.path.rstrip("/") + path, body, {**self._headers, **headers})
        return connection.getresponse()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
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
            self._let_go(connection)
            self._local.connection = None

    def _let_go(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        self._open.discard(connection)


def _path(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"
