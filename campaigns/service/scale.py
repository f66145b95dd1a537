"""Many streams, many keys, many readers: ``python -m campaigns.service.scale`` (part of ``make load``).

Figures stand beside a bare Starlette application that answers with as many bytes, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.service.process import ServeProcess

import fadecount as fc
from campaigns.service.load import CONNECTIONS, drive, getter, high, resident

NOISY = fc.Gradual(epsilon=0.1, exponent=1.0)
BARE = """
import socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
body = b"x" * int(sys.argv[1])
async def answer(request):
    return Response(body, media_type="application/json")
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/", answer)])
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="critical")).run(sockets=[listening])
"""


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def posts(client: fc.Client, names: list[str]) -> list[float]:
    times = []
    for name in names:
        begun = time.perf_counter()
        client.add(name, {"all": 1})
        times.append(time.perf_counter() - begun)
    return sorted(times)


def many_streams(service: ServeProcess, client: fc.Client, streams: int, seconds: float) -> None:
    client.create("s0", tick="1d", mechanism=NOISY)
    alone = posts(client, ["s0"] * 300)
    begun = time.perf_counter()
    for number in range(1, streams):
        client.create(f"s{number}", tick="1d", mechanism=NOISY)
    print(f"{streams:,} streams created in {time.perf_counter() - begun:,.0f} s, {resident(service.process.pid):,.0f} MiB")
    begun = time.perf_counter()
    found = len(client.streams())
    print(f"list of {found:,} streams in pages: {time.perf_counter() - begun:.2f} s")
    time.sleep(1.0)
    before = processor_seconds(service.process.pid)
    time.sleep(seconds)
    print(f"idle processor time: {100 * (processor_seconds(service.process.pid) - before) / seconds:.1f} %")
    names = [f"s{number * streams // 300}" for number in range(300)]
    posts(client, names)  # the first one to each reads its keys
    among = posts(client, names)
    print(f"post, median: {1000 * alone[150]:.2f} ms with one stream, {1000 * among[150]:.2f} ms with {streams:,}")


def many_keys(service: ServeProcess, client: fc.Client, keys: int) -> None:
    client.create("wide", tick="1m", mechanism=NOISY)
    times: list[float] = []
    stopped = threading.Event()

    def post() -> None:
        with fc.Client(service.url, service.admin, timeout_seconds=60) as other:
            while not stopped.wait(0.005):
                times.extend(posts(other, ["s0"]))

    thread = threading.Thread(target=post)
    thread.start()
    time.sleep(1.0)
    before, begun = len(times), time.perf_counter()
    client.declare("wide", [f"k{number:06d}" for number in range(keys)])
    took = time.perf_counter() - begun
    stopped.set()
    thread.join()
    print(f"{keys:,} keys declared in {took:.2f} s; longest post of others: {1000 * max(times[before:]):.0f} ms")
    print(f"longest post of others before: {1000 * max(times[:before]):.0f} ms")


def many_readers(service: ServeProcess, client: fc.Client, seconds: float) -> None:
    client.create("read", tick="1s", mechanism=NOISY, keys=[f"key{number}" for number in range(100)])
    while not list(client.releases("read", key="key0")):
        time.sleep(0.1)
    port = int(service.url.rpartition(":")[2])
    for path, size in (("/v1/streams/read/releases?limit=100", 8000), ("/v1/streams/read/releases/latest", 6000)):
        bare = subprocess.Popen([sys.executable, "-c", BARE, str(size)], stdout=subprocess.PIPE)
        assert bare.stdout
        other = int(bare.stdout.readline())
        try:
            plain = [getter(other, "none", "/")] * CONNECTIONS
            ours = [getter(port, service.admin, path)] * CONNECTIONS
            echo, read = (
                high([each for sender in asyncio.run(drive(where, makers, b"HTTP/1.1 200", seconds)) for each in sender.times])
                for where, makers in ((other, plain), (port, ours))
            )
        finally:
            bare.kill()
            bare.wait()
        print(f"{path}: p99 {1000 * read:.1f} ms, bare Starlette {1000 * echo:.1f} ms: {read / echo:.1f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="per measurement")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        ServeProcess(Path(name), "--max-body", "4000000") as service,
        fc.Client(service.url, service.admin, timeout_seconds=60) as client,
    ):
        many_streams(service, client, arguments.streams, arguments.seconds)
        many_keys(service, client, arguments.keys)
        many_readers(service, client, arguments.seconds)


if __name__ == "__main__":
    main()
