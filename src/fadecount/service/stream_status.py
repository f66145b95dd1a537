"""Where each stream stands: for operators as JSON (``/v1/status``), and as gauges for Prometheus.

Everything here is public: what a stream is, which ticks are released, what the clock and the fence
say, and the released values themselves. Nothing depends on events that are not released. When a
tick is released can be seen by every reader, so the lag (in whole seconds) shows nothing more.
There is no figure about accepted events, requests of writers or waiting work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.service.access import Action
from fadecount.service.answers import ReleasedValue, StatusPage, StreamStatus
from fadecount.service.http import NEVER, json_answer
from fadecount.service.parsing import LONGEST_NAME, MOST_STREAMS, Query
from fadecount.service.problems import Problem, bad_request
from fadecount.service.read_routes import ReadContext, released_tick
from fadecount.service.reader_pool import read_facts
from fadecount.streams.reader import Reader
from fadecount.streams.status import Status

ANSWER_SECONDS = 2.0
"""Seconds that ``/metrics`` waits for the store; after that it shows where the streams were when
the store last answered."""

Values = dict[str, tuple[int, list[ReleasedValue]]]
_ENDS: tuple[tuple[str, str, Callable[[ReleasedValue], int]], ...] = (
    ("count", "last released count of a key: the true count with noise", lambda row: row.value),
    ("low", "the true count is at least this, 97.5 % of the time", lambda row: row.low),
    ("high", "the true count is at most this, 97.5 % of the time", lambda row: row.high),
)


def stream_status(status: Status, state: str, now: float) -> StreamStatus:
    """The status of one stream. ``state`` is what the process that writes says of it."""
    ticks, last = status.description.ticks, status.published_tick
    horizon = status.description.mechanism.schedule.horizon
    ended = horizon is not None and status.published_steps >= horizon
    due = None if last is None or ended else ticks.start_seconds(last + 2)
    return StreamStatus(
        name=status.description.name,
        state="ended" if ended else state,
        tick_seconds=ticks.tick_seconds,
        key_count=status.width,
        retain_seconds=status.retain_seconds,
        released_until=ticks.shown(last + 1)
        if last is not None and status.published_steps
        else None,
        lag_seconds=0 if due is None else max(0, int(now - due)),
        histories=status.loss.histories,
    )


def status_route(context: ReadContext, state_of: Callable[[str], str]) -> Route:
    """``GET /v1/status``, for readers of all streams."""

    async def answer(request: Request) -> Response:
        context.access.allow(request.scope, Action.READ, None)
        query = Query(request.scope["query_string"], frozenset({"limit", "cursor"}))
        limit, after = (
            query.integer("limit", MOST_STREAMS, minimum=1, maximum=MOST_STREAMS),
            query.text("cursor") or "",
        )
        if len(after) > LONGEST_NAME:
            raise bad_request("bad_cursor", "cursor must be one that this service returned")
        found = await context.pool.ask(
            lambda reader: reader.statuses(after=after, limit=limit + 1), request
        )
        now = context.clock.now()
        shown = [
            stream_status(each, state_of(each.description.name), now) for each in found[:limit]
        ]
        return json_answer(
            StatusPage(streams=shown, next=shown[-1].name if len(found) > limit else None),
            cache=NEVER,
        )

    return Route("/v1/status", answer, methods=["GET"])


@dataclass(slots=True, kw_only=True)
class StreamGauges:
    """The gauges of each stream, for at most ``MOST_STREAMS`` streams and ``most_values`` released
    values.

    A stream whose keys would exceed ``most_values`` has no values here. Which streams those are
    depends on public facts only.
    """

    context: ReadContext
    state_of: Callable[[str], str]
    most_values: int
    _statuses: list[Status] = field(default_factory=list)
    _values: Values = field(default_factory=dict)

    async def families(self) -> list[GaugeMetricFamily]:
        """All gauges, as they are now; from the last answer of the store if it does not answer."""
        before = self._values
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self._statuses, self._values = await self.context.pool.ask(
                    lambda reader: self._read(reader, before)
                )
        except (Problem, TimeoutError):
            pass
        now = self.context.clock.now()
        shown = [
            stream_status(each, self.state_of(each.description.name), now)
            for each in self._statuses[:MOST_STREAMS]
        ]
        released = {each.description.name: each for each in self._statuses if each.published_steps}
        return [
            *_of_streams(shown, released, complete=len(self._statuses) <= MOST_STREAMS),
            *self._of_values(),
        ]

    def _read(
        self, reader: Reader, before: Mapping[str, tuple[int, list[ReleasedValue]]]
    ) -> tuple[list[Status], Values]:
        """The status of the first streams, and the values of those that fit; values of the same
        tick are not read again."""
        statuses = reader.statuses(limit=MOST_STREAMS + 1)
        room, values = self.most_values, Values()
        for status in statuses[:MOST_STREAMS]:
            name, tick = status.description.name, status.published_tick
            if tick is None or not status.published_steps or status.width > room:
                continue
            room -= status.width
            known = before.get(status.uid)
            facts = None if known is not None and known[0] == tick else read_facts(reader, name)
            if facts is not None and facts.last_tick is not None:
                values[status.uid] = (
                    facts.last_tick,
                    released_tick(reader, facts, facts.last_tick).releases,
                )
            elif known is not None:
                values[status.uid] = known
        return statuses, values

    def _of_values(self) -> Iterator[GaugeMetricFamily]:
        if not self.most_values:
            return
        names = {each.uid: each.description.name for each in self._statuses}
        left_out = sum(
            1 for each in self._statuses if each.published_steps and each.uid not in self._values
        )
        yield _single(
            "fadecount_released_left_out",
            "streams whose released counts are not shown: too many keys",
            left_out,
        )
        for ending, about, value in _ENDS:
            family = GaugeMetricFamily(
                f"fadecount_released_{ending}", about, labels=["stream", "key"]
            )
            for uid, (_, rows) in self._values.items():
                for row in rows:
                    family.add_metric([names[uid], row.key], value(row))
            yield family


def _of_streams(
    shown: list[StreamStatus], released: Mapping[str, Status], *, complete: bool
) -> Iterator[GaugeMetricFamily]:
    def family(
        name: str, about: str, value: Callable[[StreamStatus], float | None]
    ) -> GaugeMetricFamily:
        made = GaugeMetricFamily(f"fadecount_stream_{name}", about, labels=["stream"])
        for each in shown:
            number = value(each)
            if number is not None:
                made.add_metric([each.name], number)
        return made

    def last_release(each: StreamStatus) -> float | None:
        status = released.get(each.name)
        if status is None or status.published_tick is None:
            return None
        return status.description.ticks.start_seconds(status.published_tick + 1)

    yield _single(
        "fadecount_streams_left_out",
        "1 if there are more streams than are shown one by one",
        not complete,
    )
    yield family(
        "last_release_timestamp_seconds",
        "when the last released tick ended (Unix seconds)",
        last_release,
    )
    yield family("lag_seconds", "how late the next release is", lambda each: each.lag_seconds)
    yield family("tick_seconds", "length of a tick", lambda each: each.tick_seconds)
    yield family(
        "refused",
        "1 if the stream cannot be written; the log says why",
        lambda each: each.state == "refused",
    )
    yield family(
        "ended",
        "1 if the stream has had all the ticks of its mechanism",
        lambda each: each.state == "ended",
    )
    yield family(
        "clock_wrong",
        "1 if the clock is too far ahead or behind",
        lambda each: each.state.startswith("clock"),
    )


def _single(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, value=float(value))
