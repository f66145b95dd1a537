"""The plan route: from a wanted curve to mechanisms, a simulated stream and a plan file. It knows
no stream and needs no token.

A plan takes up to seconds of pure Python. On a thread it would hold the interpreter lock that
intake and reading need, so it is made in a process of its own, at low priority: on a busy machine
the service comes first. One plan is made at a time, few may wait, and each is kept in memory by its
parameters.
"""

from __future__ import annotations

import math
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fadecount.durations import UNITS, parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import Planned, Wish
from fadecount.service.http import Tagged
from fadecount.service.limits import RateLimit
from fadecount.service.parsing import MOST_DAILY, MOST_OPTIONS, Query
from fadecount.service.problems import Problem, bad_request, unavailable
from fadecount.service.reader_pool import Shared, unless_gone

MOST_WAITING = 4
"""Plans that may wait behind the one that is being made."""

MOST_KEPT = 128
PLAN_SECONDS = 60.0
"""A plan that takes longer is given up."""

PLANS_PER_SECOND, PLAN_BURST = 1.0, 20
"""For one client. Plans that are kept in memory are not counted."""

PARAMETERS = frozenset({"tick", "horizon", "losses", "person", "delta", "daily", "option"})
_MOST_LOSSES = 8
_LEAST_LOSS, _MOST_LOSS = 0.001, 1000.0
_MOST_VISITS = 1000
_LONGEST_TICK, _LONGEST_HORIZON = UNITS["y"], 100 * UNITS["y"]
_SHORTEST_DELTA, _LONGEST_DELTA = 1e-15, 1e-3
_PERSON = re.compile(r"([1-9]\d{0,3})/(.{1,20})")
_NEEDED = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "TZ")
"""What the planning process gets of the environment. The rest may hold keys and passwords, which it
does not need."""


def wish_from(query: Query) -> Wish:
    """The checked wish of a request, or a Problem with status 400 that repeats nothing."""
    tick = _time(query, "tick", UNITS["m"], _LONGEST_TICK)
    horizon = -(-_time(query, "horizon", UNITS["y"], _LONGEST_HORIZON) // tick)
    if horizon < 2:
        raise bad_request(
            "bad_query",
            "horizon must be at least two ticks; choose a longer one, or a shorter tick",
        )
    events, every = _person(query.text("person"))
    return Wish(
        tick_seconds=tick,
        horizon=horizon,
        losses=_losses(query.text("losses") or "", tick, horizon),
        events=events,
        every_seconds=every,
        delta=_number(
            query.text("delta"),
            _SHORTEST_DELTA,
            _LONGEST_DELTA,
            "delta must be a number from 1e-15 to 0.001",
        ),
        daily=query.integer("daily", 1000, minimum=1, maximum=MOST_DAILY),
        option=query.integer("option", 1, minimum=1, maximum=MOST_OPTIONS),
    )


def _time(query: Query, name: str, default: int, most: int) -> int:
    found = query.age(name) or default
    if found > most:
        raise bad_request(
            "bad_query", f"{name} must be at most {most // UNITS['y']} y; choose a shorter one"
        )
    return found


def _losses(text: str, tick: int, horizon: int) -> tuple[tuple[int, float], ...]:
    """The limits in ticks. An age is rounded up, and of two limits at one age the lower holds: both
    are the stricter reading."""
    rule = (
        f"losses must be 1 to {_MOST_LOSSES} of AGE:LOSS with commas, each loss from {_LEAST_LOSS}"
        f" to {_MOST_LOSS:g}"
    )
    wrong = bad_request("bad_query", f"{rule}, such as 1h:0.5,1y:4")
    pairs = [each.partition(":") for each in text.split(",")]
    if len(pairs) > _MOST_LOSSES:
        raise wrong
    found: dict[int, float] = {}
    for age, _, written in pairs:
        loss = _number(written, _LEAST_LOSS, _MOST_LOSS, wrong.detail)
        try:
            ticks = -(-parse_duration(age) // tick)
        except ParameterError:
            raise wrong from None
        if loss is None:
            raise wrong
        if ticks > horizon:
            raise bad_request(
                "bad_query", "losses must have ages up to the horizon; leave the others out"
            )
        found[ticks] = min(loss, found.get(ticks, loss))
    limits = sorted(found.items())
    if any(later < sooner for (_, sooner), (_, later) in pairwise(limits)):
        raise bad_request(
            "bad_query", "losses must not fall with age: what has been lost stays lost"
        )
    return tuple(limits)


def _person(text: str | None) -> tuple[int | None, int]:
    if text is None:
        return None, UNITS["d"]
    found = _PERSON.fullmatch(text)
    try:
        if found is not None and int(found[1]) <= _MOST_VISITS:
            return int(found[1]), parse_duration(found[2])
    except ParameterError:
        pass
    raise bad_request(
        "bad_query", f"person must be N/TIME with N from 1 to {_MOST_VISITS}, such as 1/1d or 24/1w"
    )


def _number(text: str | None, low: float, high: float, refusal: str) -> float | None:
    if text is None:
        return None
    try:
        found = float(text) if len(text) <= 30 else math.nan
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        raise bad_request("bad_query", refusal)
    return found


class Planner:
    """Makes plans in one process, one after the other.

    Guarantees: at most ``MOST_WAITING`` plans wait, a plan takes at most ``PLAN_SECONDS``, equal
    wishes are planned once, and a plan that no client waits for any more is not begun. The process
    is started by the first wish and ends by itself when there is nothing to do.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fadecount planner")
        self._pending: dict[Wish, Shared[Tagged]] = {}
        self._kept: OrderedDict[Wish, Tagged] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._closed = False

    def kept(self, wish: Wish) -> Tagged | None:
        """The answer to a wish, if it is in memory."""
        found = self._kept.get(wish)
        if found is not None:
            self._kept.move_to_end(wish)
        return found

    async def ask(self, wish: Wish, request: Request | None = None) -> Tagged:
        """The answer to a wish, or a Problem with status 503 while too many others wait."""
        shared = self._pending.get(wish)
        if shared is None:
            if len(self._pending) > MOST_WAITING:
                raise unavailable("other plans are being made; try again", seconds=2)
            shared = self._pending[wish] = Shared(self._thread.submit(self._plan, wish))
            shared.future.add_done_callback(lambda _: self._pending.pop(wish, None))
        shared.readers += 1
        try:
            found = await unless_gone(shared.future, request)
        finally:
            shared.readers -= 1
            if not shared.readers:
                shared.work.cancel()
        self._kept[wish] = found
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found

    def close(self) -> None:
        """End the process at once: a plan that is being made is not needed."""
        with self._guard:
            self._closed = True
            if self._process is not None:
                self._process.kill()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._end()

    def _plan(self, wish: Wish) -> Tagged:
        """On the thread: send the wish, wait for the line that answers it. If the process has
        ended, once more to a new one."""
        line = msgspec.json.encode(wish) + b"\n"
        end = time.monotonic() + PLAN_SECONDS
        found = self._sent(line, end) or self._sent(line, end)
        if not found:
            raise unavailable(
                "this plan takes too long or cannot be made now; try another", seconds=5
            )
        planned = msgspec.json.decode(found, type=Planned)
        if planned.answer is None:
            raise Problem(
                400,
                "no_plan",
                "no mechanism keeps these losses; allow more, or choose a shorter horizon",
            )
        return Tagged.of(msgspec.json.encode(planned.answer), "application/json")

    def _sent(self, line: bytes, end: float) -> bytes:
        with self._guard:
            if self._closed or time.monotonic() >= end:
                return b""
            process = self._process = self._process or _started()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            found = _line(process.stdout.fileno(), end)
        except BrokenPipeError:
            found = b""
        if not found:
            self._end()
        return found

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _started() -> subprocess.Popen[bytes]:
    """The planning process: one thread of arithmetic, and nothing of the environment that it does
    not need."""
    surroundings = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    surroundings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "fadecount.service.planner"]
    return subprocess.Popen(  # noqa: S603 - our own module
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=surroundings,
        start_new_session=True,
    )


def _line(descriptor: int, end: float) -> bytes:
    """The next line, or nothing if it is not complete in time, or the process ends."""
    found = b""
    while not found.endswith(b"\n"):
        if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
            return b""
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return b""
        found += piece
    return found


def plan_route(planner: Planner) -> Route:
    """``GET /v1/plan``."""
    rate = RateLimit(PLANS_PER_SECOND, PLAN_BURST)

    async def plan(request: Request) -> Response:
        wish = wish_from(Query(request.scope["query_string"], PARAMETERS))
        found = planner.kept(wish)
        if found is None:
            rate.take(request.client.host if request.client else "local")
            found = await planner.ask(wish, request)
        return found.answer(request, public=True)

    return Route("/v1/plan", plan, methods=["GET"])
