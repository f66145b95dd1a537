"""The service from Python: send events that count once, read figures, follow what is published."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Self
from urllib.parse import quote, urlsplit

from fadecount.errors import FadecountError, bad_parameter, missing_extra
from fadecount.mechanisms import Discovery, Mechanism, PlanFile
from fadecount.noise import unpredictable
from fadecount.service.answers import PublishedFigure
from fadecount.streams.info import StreamInfo

try:
    import httpx
    import msgspec
except ImportError as error:
    raise missing_extra("the client", str(error.name), "client") from error

__all__ = ["Client", "PublishedFigure", "ServiceError", "StreamInfo"]

_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_LONGEST_PAUSE = 5.0
_LIVE_SECONDS = 60.0
_LIVE_PAUSE = 0.5


class ServiceError(FadecountError):
    """The service refused a request, or could not be reached. ``status`` is 0 in the latter
    case."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code = status, code


class Client:
    """A client of the service at a URL, with a token if the service needs one.

    Guarantees: :meth:`add` returns when the events are durable, and counts them once however often
    the network fails in between: every attempt carries the same idempotency key. May be used from
    several threads.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 10.0,
        attempts: int = 8,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise bad_parameter(
                "url", url, "an http or https address", "such as http://127.0.0.1:8000"
            )
        self._attempts = attempts
        self._open = functools.partial(
            httpx.Client,
            base_url=url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=timeout_seconds,
            # loading the authorities takes long, and http has nothing to verify
            verify=httpx.create_ssl_context() if parts.scheme == "https" else False,
            trust_env=False,  # the token goes to the given address only
        )
        self._http = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._http.close()

    def streams(self) -> list[StreamInfo]:
        """The streams that this token may see, without their keys."""
        return msgspec.convert(self._pages("/v1/streams", {}, "streams"), list[StreamInfo])

    def stream(self, name: str) -> StreamInfo:
        """What is public about a stream."""
        return msgspec.convert(self._exchange("GET", _path(name)), StreamInfo)

    def create(
        self,
        name: str,
        *,
        tick: str,
        mechanism: Mechanism | PlanFile | Mapping[str, Any],
        keys: Iterable[str] | None = None,
        zone: str = "UTC",
        unit: Mapping[str, str | int] | None = None,
        group: str | None = None,
        group_loss: Mapping[str, float] | None = None,
        discovery: Discovery | None = None,
        other: str | None = None,
    ) -> bool:
        """Create a stream that begins with the current tick; False if it exists already with this
        description and these keys.

        ``mechanism`` may be a plan or its JSON; its tick must be the stream's. ``unit`` says who is
        protected, such as ``{"of": "person", "events": 3}``; by default one event. ``group`` names
        the streams that count the same people; the first one states their promise, such as
        ``group_loss={"1h": 0.5, "1y": 4}``. ``discovery`` says how undeclared keys appear by
        themselves; with ``other``, they count under that declared key too.
        """
        if isinstance(mechanism, PlanFile):
            mechanism = mechanism.fields
        body = {
            "name": name,
            "tick": tick,
            "zone": zone,
            "mechanism": json.loads(mechanism.to_json())
            if isinstance(mechanism, Mechanism)
            else mechanism,
            "keys": None if keys is None else list(keys),
            "unit": unit,
            "group": group,
            "group_loss": None if group_loss is None else dict(group_loss),
            "discovery": None if discovery is None else json.loads(discovery.to_json()),
            "other": other,
        }
        return not self._exchange("POST", "/v1/streams", body=_given(body))["repeated"]

    def declare(self, name: str, keys: Iterable[str]) -> None:
        """Declare more keys; known ones stay as they are."""
        self._exchange("POST", f"{_path(name)}/keys", body={"keys": list(keys)})

    def delete(self, name: str) -> None:
        """Delete a stream with all its figures, for good. Observers keep what they have seen, so
        its name stays taken."""
        self._exchange("DELETE", _path(name))

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

        A count is a number of events, and ``amount`` is the amount of each of them; more
        than that of the stream's unit counts as that. ``person`` says whose events these are; a
        stream that protects persons needs it.
        """
        if id is not None and not (id and id.isascii() and id.isprintable()):
            raise bad_parameter(
                "id", id, "printable ASCII characters", "leave it out for a random one"
            )
        each = {} if amount == 1 else {"amount": amount}
        events = [{"key": key, "count": count, **each} for key, count in counts.items()]
        answer = self._exchange(
            "POST",
            f"{_path(name)}/events",
            body=_given({"events": events, "person": person}),
            headers={"Idempotency-Key": id or unpredictable(24).hex()},
        )
        return not answer["repeated"]

    def figures(
        self,
        name: str,
        per: str | None = None,
        *,
        key: str | None = None,
        together: bool = False,
        since: str | None = None,
        until: str | None = None,
        as_of: str | None = None,
    ) -> list[PublishedFigure]:
        """The counts of the slots of the length ``per`` (``1h``, ``1d``, ``1w``, ``1mo``) that
        begin in [``since``, ``until``), oldest first; or with ``total`` the total after each tick,
        as it was published then. By default what people read first.

        Times are ISO 8601 with a zone. ``together`` gives the sums over all keys, ``as_of`` what
        was public at a time.
        """
        query = {"per": per, "key": key, "since": since, "until": until, "as_of": as_of}
        return self._figures(name, "figures", query, together)

    def total(
        self,
        name: str,
        *,
        key: str | None = None,
        together: bool = False,
        at: str | None = None,
        as_of: str | None = None,
    ) -> list[PublishedFigure]:
        """The total of each key since the stream began, up to a time (by default now), or to each
        of several with commas between. See :meth:`figures`."""
        return self._figures(name, "total", {"key": key, "at": at, "as_of": as_of}, together)

    def so_far(
        self,
        name: str,
        per: str | None = None,
        *,
        key: str | None = None,
        together: bool = False,
        as_of: str | None = None,
    ) -> list[PublishedFigure]:
        """The count of each key in the slot that is not over: so far today, for ``1d``. See
        :meth:`figures`."""
        return self._figures(name, "so-far", {"per": per, "key": key, "as_of": as_of}, together)

    def _figures(
        self, name: str, route: str, query: Mapping[str, str | None], together: bool
    ) -> list[PublishedFigure]:
        parameters = {**query, "together": "true" if together else None}
        rows = self._pages(f"{_path(name)}/{route}", parameters, "figures")
        return msgspec.convert(rows, list[PublishedFigure])

    def _pages(self, path: str, query: Mapping[str, str | None], rows: str) -> list[Any]:
        """The rows of all pages of a list."""
        every: list[Any] = []
        cursor: str | None = None
        while True:
            page = self._exchange("GET", path, {**query, "cursor": cursor})
            every += page[rows]
            cursor = page["next"]
            if cursor is None:
                return every

    def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | None] | None = None,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One request, repeated while that may help; returns the JSON of the answer.

        Repeating is safe: adding sends its key; the others are idempotent. If the answer to a
        deletion gets lost, the repeated one finds nothing: it is deleted.
        """
        request = self._http.build_request(
            method, path, params=_given(query or {}), json=body, headers=headers
        )
        for attempt in range(self._attempts):
            failure = ServiceError(
                0, "unreachable", "the service cannot be reached; check its address"
            )
            pause = min(_LONGEST_PAUSE, 0.05 * 2**attempt)
            # After a pause the connection is a new one: it may reach another process, which can.
            http = self._open() if attempt else nullcontext(self._http)
            response = None
            with suppress(httpx.TransportError), http as sender:
                response = sender.send(request)
            if response is not None:
                if response.is_success:
                    return response.json()
                if response.status_code == 404 and method == "DELETE" and attempt:
                    return {}
                failure = _failure(response)
                if response.status_code not in _AGAIN:
                    raise failure
                with suppress(ValueError):
                    wanted = float(response.headers.get("retry-after", pause))
                    pause = max(0.0, min(_LONGEST_PAUSE, wanted))
            if attempt + 1 < self._attempts:
                time.sleep(pause * (0.5 + int.from_bytes(unpredictable(2)) / 65536))
        raise failure

    def live(self, name: str) -> Generator[str]:
        """The time through which a stream is published, after each publication, without end; goes
        on when the connection breaks. Ask for figures then."""
        path, timeout = f"{_path(name)}/live", httpx.Timeout(_LIVE_SECONDS)
        seen = ""
        while True:
            through = ""
            with (
                suppress(httpx.TransportError),
                self._http.stream("GET", path, timeout=timeout) as response,
            ):
                if response.status_code not in _AGAIN and not response.is_success:
                    response.read()
                    raise _failure(response)
                for line in response.iter_lines() if response.is_success else ():
                    if line.startswith("id: "):
                        through = line.removeprefix("id: ")
                    elif not line and through not in ("", seen):  # the event is complete, and new
                        seen = through
                        yield seen
            time.sleep(_LIVE_PAUSE)


def _failure(response: httpx.Response) -> ServiceError:
    status = response.status_code
    try:
        fields = response.json()
        return ServiceError(status, str(fields["code"]), str(fields["detail"]))
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unknown", f"the service answered with status {status}")


def _path(name: str) -> str:
    return f"/v1/streams/{quote(name, safe='')}"


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}
