"""Many streams, ticks, keys, readers, a slow disk, a bad writer: ``python -m
campaigns.service.scale`` (part of ``make load``).

Figures stand beside those of a bare Starlette application that answers with as many bytes. Both are
measured in turns, several rounds each; the figures are medians over the rounds. The last line sums
up, with the target of each figure.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.service.process import ServeProcess

import fadecount as fc
from campaigns.service.load import (
    CONNECTIONS,
    LIVE_READERS,
    drive,
    getter,
    high,
    live,
    poster,
    resident,
)

NOISY = fc.Gradual(epsilon=0.1, exponent=1.0)
PARTS = ("streams", "ticks", "keys", "readers", "writers", "slow-disk")
ROUNDS = 3
TURNS = 12
"""Shorter rounds of what is compared with itself: a disk that others use has good and bad
seconds."""

POSTS = 300
KEYS_SECONDS = 2.0
"""How long a declaration may take."""
BARE = """
import socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
body = b"x" * int(sys.argv[1])
async def answer(request):
    await request.body()
    return Response(body, 202 if request.method == "POST" else 200, media_type="application/json")
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/{rest:path}", answer, methods=["GET", "POST"])])
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="critical")).run(sockets=[listening])
"""


@dataclass
class Findings:
    """Figures with their targets."""

    lines: list[str] = field(default_factory=list)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        target = (
            ""
            if most is None
            else f" (at most {most:g})"
            if value <= most
            else f" (MISSED: at most {most:g})"
        )
        if least is not None:
            target = (
                f" (at least {least:g})" if value >= least else f" (MISSED: at least {least:g})"
            )
        self.lines.append(f"{name} {value:.3g} {unit}{target}")
        print(self.lines[-1], flush=True)


@contextmanager
def served(
    *options: str, environment: dict[str, str] | None = None
) -> Iterator[tuple[ServeProcess, fc.Client]]:
    with tempfile.TemporaryDirectory() as name:
        service = ServeProcess(Path(name), *options)
        service.environment = environment or {}
        with service, fc.Client(service.url, service.admin, timeout_seconds=60) as client:
            yield service, client


@contextmanager
def bare(size: int) -> Iterator[tuple[int, int]]:
    """The port and the process of a Starlette application that answers with ``size`` bytes and does
    nothing else."""
    process = subprocess.Popen([sys.executable, "-c", BARE, str(size)], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


def port_of(service: ServeProcess) -> int:
    return int(service.url.rpartition(":")[2])


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(client: fc.Client, name: str) -> float:
    answer = client._http.get("/metrics").text
    rows = [line.split() for line in answer.splitlines() if line.startswith(name)]
    return sum(float(row[-1]) for row in rows)


def posts(client: fc.Client, names: list[str]) -> list[float]:
    times = []
    for name in names:
        begun = time.perf_counter()
        client.add(name, {"all": 1})
        times.append(time.perf_counter() - begun)
    return times


class Posting:
    """Posts to one stream again and again, in a thread, and notes how long each took."""

    def __init__(self, service: ServeProcess, stream: str) -> None:
        self.times: list[float] = []
        self._service, self._stream, self._stopped = service, stream, threading.Event()
        self._thread = threading.Thread(target=self._post)

    def _post(self) -> None:
        with fc.Client(self._service.url, self._service.admin, timeout_seconds=60) as client:
            while not self._stopped.wait(0.002):
                self.times += posts(client, [self._stream])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


def many_streams(found: Findings, streams: int, seconds: float) -> None:
    with served() as (service, client):
        client.create("s0", tick="1d", mechanism=NOISY)
        alone = [statistics.median(posts(client, ["s0"] * POSTS)) for _ in range(ROUNDS)]
        begun = time.perf_counter()
        for number in range(1, streams):
            client.create(f"s{number}", tick="1d", mechanism=NOISY)
        print(
            f"{streams:,} streams created in {time.perf_counter() - begun:,.0f} s,"
            f" {resident(service.process.pid):,.0f} MiB"
        )
        begun = time.perf_counter()
        assert len(client.streams()) == streams
        found.add(f"list of {streams:,} streams in pages:", time.perf_counter() - begun, "s")
        time.sleep(1.0)
        before = processor_seconds(service.process.pid)
        time.sleep(seconds)
        idle = 100 * (processor_seconds(service.process.pid) - before) / seconds
        found.add(f"idle processor time with {streams:,} streams:", idle, "%", most=5)
        names = [f"s{number * streams // POSTS}" for number in range(POSTS)]
        among = [statistics.median(posts(client, names)) for _ in range(ROUNDS)]
        times = statistics.median(among) / statistics.median(alone)
        found.add(f"post among {streams:,} streams, median:", times, "x that with one", most=1.5)
        service.kill()
        begun = time.perf_counter()
        service.start()
        found.add(
            f"started again with {streams:,} streams, after a kill, in",
            time.perf_counter() - begun,
            "s",
        )


def many_ticks(found: Findings, ticks: int, seconds: float) -> None:
    """Streams that all release every second."""
    with served() as (service, client):
        client.create("other", tick="1d", mechanism=NOISY)
        with Posting(service, "other") as idle:
            time.sleep(seconds)
        for number in range(ticks):
            client.create(f"s{number}", tick="1s", mechanism=NOISY)
        time.sleep(2.0)
        counted, used, begun = (
            metric(client, "fadecount_ticks_closed_total"),
            processor_seconds(service.process.pid),
            time.time(),
        )
        lags = []
        with Posting(service, "other") as busy:
            while time.time() - begun < seconds:
                time.sleep(1.0)
                lags.append(metric(client, "fadecount_tick_lag_seconds"))
        took = time.time() - begun
        closed = metric(client, "fadecount_ticks_closed_total") - counted
        found.add(
            f"ticks closed, of {ticks:,} due a second:",
            closed / took,
            "a second",
            least=0.95 * ticks,
        )
        found.add(
            "processor time meanwhile:",
            100 * (processor_seconds(service.process.pid) - used) / took,
            "%",
        )
        found.add("largest lag behind the clock:", max(lags), "s")
        found.add(
            "posts to another stream meanwhile, p99:", high(busy.times) / high(idle.times), "x idle"
        )


def many_keys(found: Findings, keys: int) -> None:
    """Keys in no order. Posts of others are timed from the beginning of the declaration for as long
    as it may take."""
    names = [f"k{each:06d}" for each in range(keys)]
    random.Random(1).shuffle(names)
    with served() as (service, client):
        client.create("other", tick="1d", mechanism=NOISY)
        took, ratios, longest = [], [], 0.0
        for number in range(ROUNDS):
            client.create(f"wide{number}", tick="1h", mechanism=NOISY)
            with Posting(service, "other") as idle:
                time.sleep(KEYS_SECONDS)
            body = json.dumps({"keys": names}, separators=(",", ":")).encode()
            sent = {
                "Authorization": f"Bearer {service.admin}",
                "Content-Type": "application/json",
            }
            connection = http.client.HTTPConnection("127.0.0.1", port_of(service), timeout=60)
            with Posting(service, "other") as busy:
                begun = time.perf_counter()
                connection.request("POST", f"/v1/streams/wide{number}/keys", body, sent)
                assert connection.getresponse().status == 200
                took.append(time.perf_counter() - begun)
                time.sleep(max(0.0, KEYS_SECONDS - took[-1]))
            connection.close()
            ratios.append(high(busy.times) / high(idle.times))
            longest = max(longest, *busy.times)
        found.add(f"{keys:,} keys declared in", statistics.median(took), "s", most=KEYS_SECONDS)
        found.add("posts of others meanwhile, p99:", statistics.median(ratios), "x idle", most=3)
        found.add("the longest of them:", 1000 * longest, "ms")


@dataclass(frozen=True)
class Served:
    """An application that answers: its process, and how to ask it."""

    pid: int
    port: int
    makers: list[Callable[[int], bytes]]

    def asked(self, seconds: float) -> tuple[list[float], float]:
        """How long each answer took, and how many there were in a second of the processor."""
        before = processor_seconds(self.pid)
        times = times_of(self.port, self.makers, b"HTTP/1.1 200", seconds)
        return times, len(times) / (processor_seconds(self.pid) - before)


def in_turns(found: Findings, name: str, ours: Served, theirs: Served, seconds: float) -> None:
    """Answers of a service and of a bare application, by turns."""
    rounds = [(ours.asked(seconds), theirs.asked(seconds)) for _ in range(ROUNDS)]
    own, other = (statistics.median(high(pair[at][0]) for pair in rounds) for at in (0, 1))
    rate = statistics.median(one / two for (_, one), (_, two) in rounds)
    found.add(f"{name}: answers per second of processor", rate, "x bare Starlette", least=0.6)
    found.add(
        f"{name}: p99 {1000 * own:.1f} ms, bare Starlette {1000 * other:.1f} ms:",
        own / other,
        "x",
        most=5.0,
    )


def times_of(
    port: int, makers: list[Callable[[int], bytes]], status: bytes, seconds: float
) -> list[float]:
    return [
        each
        for sender in asyncio.run(drive(port, makers, status, seconds))
        for each in sender.times
    ]


FIGURES = fc.Blocks(fc.Level(1, 0.1), fc.Level(60, 0.2, lag=1), fc.Level(3600, 0.5, lag=1))


def many_readers(found: Findings, seconds: float) -> None:
    """Figures that change every second, over some connections; a bare application answers with as
    many bytes."""
    with served() as (service, client):
        client.create(
            "load", tick="1s", mechanism=FIGURES, keys=[f"key{number}" for number in range(100)]
        )
        port = port_of(service)
        while len(seconds_before := client.figures("load", "1s", together=True)) < 60:
            time.sleep(0.5)
        until = quote(seconds_before[59].end)
        for path in (
            f"figures?per=1s&together=true&until={until}",
            f"figures?per=1m&until={until}",
            "total?together=true",
            "so-far?per=1h",
        ):
            address = f"/v1/streams/load/{path}"
            ours = [getter(port, service.admin, address)] * CONNECTIONS
            with bare(body_size(port, service.admin, address)) as (other, pid):
                theirs = [getter(other, "none", "/")] * CONNECTIONS
                in_turns(
                    found,
                    f"{path} over {CONNECTIONS} connections",
                    Served(service.process.pid, port, ours),
                    Served(pid, other, theirs),
                    seconds,
                )
        heard = asyncio.run(live(port, service.admin, LIVE_READERS, 3 * seconds))
        name = f"publications that each of {LIVE_READERS} live readers heard of, fewest"
        found.add(name, min(heard) / (3 * seconds), "per tick", least=0.6)


def body_size(port: int, token: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    size = len(connection.getresponse().read())
    connection.close()
    return size


def one_bad_writer(
    found: Findings, seconds: float, *, what: str, environment: dict[str, str] | None = None
) -> None:
    """Posts of 32 connections, alone and beside one whose batches are refused, and a bare
    application that echoes."""
    good, bad = (
        json.dumps({"events": [{"key": key, "count": 1}]}).encode() for key in ("all", "unknown")
    )
    with (
        served(environment=environment) as (service, client),
        bare(len('{"repeated":false}')) as (other, _),
    ):
        client.create("load", tick="1s", mechanism=NOISY)
        port, rates, seconds = port_of(service), dict[str, list[float]](), seconds * ROUNDS / TURNS

        async def writing(turn: str, beside: bool) -> int:
            makers = [
                poster(port, service.admin, good, f"{turn}-{at}") for at in range(CONNECTIONS)
            ]
            refused = [poster(port, service.admin, bad, f"{turn}-bad")] if beside else []
            both = (
                drive(port, makers, b"HTTP/1.1 202", seconds),
                drive(port, refused, b"HTTP/1.1 400", seconds),
            )
            senders, _ = await asyncio.gather(*both)
            return sum(len(sender.times) for sender in senders)

        for turn in range(TURNS):
            for name in ("alone", "beside") if turn % 2 else ("beside", "alone"):
                rates.setdefault(name, []).append(
                    asyncio.run(writing(f"{name}{turn}", name == "beside")) / seconds
                )
            makers = [poster(other, "none", good, f"{at}") for at in range(CONNECTIONS)]
            rates.setdefault("bare", []).append(
                len(times_of(other, makers, b"HTTP/1.1 202", seconds)) / seconds
            )
    alone, beside, echo = (statistics.median(rates[name]) for name in ("alone", "beside", "bare"))
    found.add(
        f"{what}: posts",
        alone,
        f"a second, {alone / echo:.2g} x a bare Starlette echo ({echo:,.0f} a second)",
    )
    found.add(f"{what}: posts beside one bad writer:", beside / alone, "x", least=0.9)


def slow_disk(found: Findings, seconds: float, delay: int) -> None:
    """Every sync of a file takes ``delay`` milliseconds longer."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        print("not measured: a slow disk (no C compiler for the delay of syncs)")
        return
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "sync_delay.so"
        source = Path(__file__).with_name("sync_delay.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
        )
        environment = {"LD_PRELOAD": str(library), "SYNC_DELAY_MS": str(delay)}
        one_bad_writer(found, seconds, what=f"syncs of {delay} ms", environment=environment)


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts (all)")
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--ticks", type=int, default=1000, help="streams that release every second")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument(
        "--sync-delay",
        type=int,
        default=20,
        help="milliseconds that a sync takes longer on the slow disk",
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="per measurement")
    arguments = parser.parse_args(words)
    arguments.parts = arguments.parts or list(PARTS)
    return arguments


def main() -> None:
    arguments = parsed()
    found, seconds = Findings(), arguments.seconds
    runs: dict[str, Callable[[], None]] = {
        "streams": lambda: many_streams(found, arguments.streams, seconds),
        "ticks": lambda: many_ticks(found, arguments.ticks, seconds),
        "keys": lambda: many_keys(found, arguments.keys),
        "readers": lambda: many_readers(found, seconds),
        "writers": lambda: one_bad_writer(found, seconds, what="this disk"),
        "slow-disk": lambda: slow_disk(found, seconds, arguments.sync_delay),
    }
    for part in arguments.parts:
        runs[part]()
    missed, busy = (
        sum("MISSED" in line for line in found.lines),
        ", ".join(f"{each:.1f}" for each in os.getloadavg()),
    )
    print(
        f"scale: {len(found.lines)} figures, {missed} targets missed, load average {busy}: "
        + "; ".join(found.lines)
    )


if __name__ == "__main__":
    main()
