"""A run on events as they happen: a pipe, or a file that grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from fadecount.errors import ClockError
from fadecount.runs.base import Run, StoredStream
from fadecount.sources import SourceOptions, SourceReport, live
from fadecount.sources.live import LiveRow
from fadecount.streams.clock import ClockState, read_clock
from fadecount.streams.figures import Closed
from fadecount.streams.inputs import Events, ReadPosition


class LiveRun(Run):
    """Ticks are released as they pass by the clock.

    Events of ticks that are not open yet wait in the stored position, so that nothing is lost or
    counted twice by a restart.
    """

    live = True

    def __init__(
        self,
        source: Path | BinaryIO,
        options: SourceOptions,
        stream: StoredStream,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(options, stream)
        self._clock, self._writer = clock, stream.writer
        path = source if isinstance(source, Path) else None
        self._source = "-" if path is None else str(path.resolve())
        self._waiting: dict[int, list[LiveRow]] = {}
        self._unstored = False
        self._position, inode = self._restore()
        self._file = (
            None if path is None else live.GrowingFile(path, options, self._position, inode)
        )
        self._reading = live.LiveReading(
            self._file or cast("BinaryIO", source),
            options,
            clock=clock,
            open_tick=stream.open_tick,
            backlog=0 if self._file is None else self._file.size,
            person_key=stream.writer.person_key,
            source="standard input" if path is None else self._source,
        )

    @property
    def report(self) -> SourceReport:
        return self._reading.report

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _published(self) -> Iterator[Closed]:
        end = self.options.end_tick
        try:
            for batch in self._reading:
                self._check_clock()
                for row in batch.rows:
                    self._waiting.setdefault(row[0], []).append(row)
                    self._unstored = True
                target = batch.open_tick if end is None else min(end, batch.open_tick)
                yield from self._pass_to(target, batch.position)
                self._writer.scrub()  # what is owed since two ticks closed within a minute
                if self.stopped or target == end:
                    return
        finally:
            self.close()

    def _check_clock(self) -> None:
        """End the run if the clock has jumped ahead, before anything is counted by it. A requested
        start is not a jump."""
        now = self._clock() - self.options.grace_seconds
        reading = read_clock(self.options.ticks, self._writer.open_tick, now)
        if reading.state is ClockState.AHEAD and self.stream.loss.steps:
            raise ClockError(reading.text)

    def _pass_to(self, target: int, position: int) -> Iterator[Closed]:
        """Store the events of the open tick, and close ticks up to ``target``.

        Each tick has its own transaction, whether events wait for it or not, so the grouping of
        ticks reveals nothing.
        """
        while True:
            begin = self._writer.open_tick
            self._count([tick for tick in self._waiting if tick <= begin], position)
            if begin >= target:
                return
            yield from self._writer.close_through(begin)
            if self.stopped:
                return

    def _count(self, ticks: list[int], position: int) -> None:
        """Count what waits for these ticks in the open one, together with how far the source has
        been read, and what waits for others."""
        rows = [row for tick in ticks for row in self._waiting.pop(tick)]
        if not rows and position == self._position and not self._unstored:
            return
        self._position, self._unstored = position, False
        waiting = [
            [tick, key, amount, person.hex()]
            for each in self._waiting.values()
            for tick, key, amount, person in each
        ]
        offset, inode = (position, None) if self._file is None else self._file.place(position)
        body = json.dumps({"position": offset, "inode": inode, "waiting": waiting}).encode()
        persons = [person for *_, person in rows]
        if self.stream.description.unit.of == "person":
            persons = self._writer.hashes(persons)
        counts = ((key, 1, amount) for _, key, amount, _ in rows)
        entries = [(*count, person) for count, person in zip(counts, persons, strict=True)]
        where = ReadPosition(source=self._source, body=body)
        accepted = self._writer.accept([Events(entries)], position=where)
        self.report.rows_dropped += len(rows) - accepted.counted

    def _restore(self) -> tuple[int, int | None]:
        """Restore the read position of an earlier run, in which file it is, and the events that it
        has read but not counted yet."""
        body = self._writer.position(self._source)
        if body is None:
            return 0, None
        stored = json.loads(body)
        for tick, key, amount, person in stored["waiting"]:
            self._waiting.setdefault(tick, []).append((tick, key, amount, bytes.fromhex(person)))
        return int(stored["position"]), stored["inode"]
