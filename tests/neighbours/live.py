"""Live intakes: a pipe without times, and a file that is followed, with restarts. The clock and the
waiting are simulated.

The reader of a live intake waits in a queue that a thread fills. Here one object is that queue,
that thread and the clock: time moves only while the reader waits, and a line arrives when its
moment has come. Everything else is the product.
"""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import fadecount as fc
from fadecount.errors import FadecountError
from fadecount.runs import run
from fadecount.sources import SourceOptions, live
from fadecount.streams import FileFence, SQLiteStore
from tests.neighbours.figures import blocks_for, seen, shape_of
from tests.neighbours.files import as_csv, as_jsonl
from tests.neighbours.harness import Published, Row, Scene
from tests.neighbours.library import MECHANISMS

KINDS = ("follow csv", "follow jsonl", "live pipe", "live jsonl pipe")


class Killed(BaseException):
    """The process ends here, wherever it is."""


class Simulation:
    """Time, the rows still to come, and the moment at which the process is killed."""

    def __init__(self, kind: str, scene: Scene, path: Path) -> None:
        self._follow, self._kind, self._path = kind.startswith("follow"), kind, path
        self._coming = sorted(scene.rows, key=lambda row: row.arrival)
        self.now = float(scene.start_of(scene.first))
        self.killed_at = self.now
        self._pipe: list[bytes] = []
        if self._follow:
            path.write_bytes(b"" if "jsonl" in kind else as_csv(()))

    def clock(self) -> float:
        return self.now

    def advance(self, moment: float) -> None:
        """Let time pass; rows that arrive meanwhile are appended to the file (or lost, if nobody
        reads the pipe)."""
        while self._coming and self._coming[0].arrival <= moment:
            row = self._coming.pop(0)
            self.now = max(self.now, row.arrival)
            self._write(row)
        self.now = max(self.now, moment)

    def next_arrival(self) -> float:
        return self._coming[0].arrival if self._coming else float("inf")

    def _write(self, row: Row) -> None:
        line = as_jsonl((row,)) if "jsonl" in self._kind else as_csv((row,)).split(b"\n", 1)[1]
        if self._follow:
            with self._path.open("ab") as file:
                file.write(line)
        else:
            self._pipe.append(line)

    def readline(self, size: int = -1, /) -> bytes:
        return self._pipe.pop(0) if self._pipe else b""

    def open_pipe(self) -> None:
        """A new process gets a new pipe, with its header."""
        self._pipe = [] if "jsonl" in self._kind else [as_csv(())]


class SimulatedQueue:
    """What the reader waits in: hands out lines when they come, raises ``Empty`` when the wait is
    over, ends with the process."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.reading: live.LiveReading | None = None
        self._arriving: Iterator[object] | None = None

    def get(self, timeout: float) -> object:
        simulation, reading = self._simulation, self.reading
        assert reading is not None
        stream = reading._stream
        if self._arriving is None:
            self._arriving = reading._arriving()
        end = min(simulation.now + timeout, simulation.killed_at)
        while not _readable(simulation, stream):
            if simulation.next_arrival() <= end:
                simulation.advance(simulation.next_arrival())
            else:
                simulation.advance(end)
                if simulation.now >= simulation.killed_at:
                    raise Killed
                raise queue.Empty
        return next(self._arriving)


def _readable(simulation: Simulation, stream: object) -> bool:
    if isinstance(stream, live.GrowingFile):
        return bool(stream._header) or stream.position < simulation._path.stat().st_size
    return bool(simulation._pipe)


def publish(kind: str, scene: Scene, folder: Path) -> Published:
    """What readers see of the scene when a process reads it live, is killed at each cut and started
    again a while later."""
    folder.mkdir(parents=True)
    simulation = Simulation(kind, scene, folder / ("rows.jsonl" if "jsonl" in kind else "rows.csv"))
    moments: list[object] = []
    messages: list[object] = []
    ends = [
        *(scene.start_of(tick) for tick in scene.cuts),
        scene.start_of(scene.end) + 4 * scene.tick_seconds,
    ]
    for number, end in enumerate(ends):
        simulation.killed_at = (
            max(simulation.now, end + number * 7 % 5) + 0.25
        )  # never just as a tick ends
        simulation.open_pipe()
        with (
            SQLiteStore(
                folder / "state" / "streams.db", fence=FileFence(folder / "fence")
            ) as store,
            _simulated(simulation),
        ):
            pieces = run(
                folder / simulation._path.name if kind.startswith("follow") else simulation,
                _options(kind, scene, scene.graces[number % len(scene.graces)]),
                store=store,
                name="s",
                mechanism=_mechanism(scene) if number == 0 else None,
                until=datetime.fromtimestamp(scene.start_of(scene.end), UTC),
                follow=kind.startswith("follow"),
                clock=simulation.clock,
            )
            try:
                moments.extend((simulation.now, shape_of(piece)) for piece in pieces)
                messages.append("ended")
            except Killed:
                messages.append("killed")
            except FadecountError as error:
                messages.append(f"{type(error).__name__}: {error}")
        simulation.advance(
            simulation.now + (scene.downtimes[number] if number < len(scene.cuts) else 0)
        )
    with SQLiteStore(folder / "state" / "streams.db", fence=FileFence(folder / "fence")) as store:
        return seen(store.reader(), "s", moments=tuple(moments), messages=tuple(messages))


def _mechanism(scene: Scene) -> fc.Mechanism:
    if scene.mechanism == "blocks":
        return blocks_for(scene.tick_seconds)
    return MECHANISMS[scene.mechanism]


@contextlib.contextmanager
def _simulated(simulation: Simulation) -> Iterator[None]:
    waiting = SimulatedQueue(simulation)

    class Thread:
        """Remembers what the listening thread would read; the queue reads it."""

        def __init__(self, *, target: Any, daemon: bool) -> None:
            waiting.reading = target.__self__

        def start(self) -> None:
            pass

    queues = SimpleNamespace(Queue=lambda *_: waiting, Empty=queue.Empty)
    with (
        patch.object(live, "queue", queues),
        patch.object(live, "threading", SimpleNamespace(Thread=Thread)),
    ):
        yield


def _options(kind: str, scene: Scene, grace: int) -> SourceOptions:
    return SourceOptions(
        tick=scene.tick_seconds,
        time="time" if kind.startswith("follow") else None,
        key="key" if scene.keys else None,
        keys=scene.keys,
        other=scene.other,
        amount="amount" if scene.max_amount else None,
        max_amount=scene.max_amount or 1,
        person="person" if scene.per_person else None,
        per_person=scene.per_person or 1,
        keys_per_person=scene.keys_per_person,
        format="jsonl" if "jsonl" in kind else "csv",
        grace_seconds=grace,
    )
