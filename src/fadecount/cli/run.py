"""Count the events of a file or pipe privately, and release the running counts.

examples:
  fadecount run visits.csv --tick 1h --time at --epsilon 0.1
  fadecount run visits.csv --tick 1d --time at --key page --keys home,help \\
      --other --epsilon 0.1 --exponent 2 --state ~/counts --output out.csv
  fadecount run newer.csv --tick 1d --time at --key page --keys home,help \\
      --other --state ~/counts --name visits --output newer-out.csv
  tail -f log.jsonl | fadecount run - --tick 1m --epsilon 0.1 --state ~/counts
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from fadecount.cli._inputs import is_pipe, measured, open_reading
from fadecount.cli._options import (
    add_event_options,
    add_fork_option,
    add_mechanism_options,
    add_monotone_option,
    add_store_options,
    is_stored,
    monotone_view,
    open_store,
    parse_time,
    source_options,
)

if TYPE_CHECKING:
    from fadecount.sources import Reading, SourceOptions, TickBatch
    from fadecount.streams import Monotone, Store, Stream


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help="a .csv, .jsonl or .parquet file, or - for standard input, line by line")
    parser.add_argument("--follow", action="store_true", help="go on reading as the file grows, until interrupted")
    add_event_options(parser)
    add_mechanism_options(parser)
    add_store_options(parser)
    add_fork_option(parser)
    group = parser.add_argument_group("releases")
    group.add_argument("--name", metavar="STREAM", help="name of the stream (default: from the name of the file)")
    group.add_argument(
        "--output", metavar="FILE", default="-", help=".csv, .jsonl or .parquet (default: -, CSV on standard output)"
    )
    group.add_argument(
        "--start", metavar="TIME", help="when a new stream begins (default: with its first event, which this reveals)"
    )
    group.add_argument("--until", metavar="TIME", help="release empty ticks up to this time too (default: up to the last event)")
    group.add_argument("--skip-released", action="store_true", help="leave out events of ticks that are released already")
    add_monotone_option(group)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.cli._streams import open_or_create

    options = source_options(arguments)
    _check_releases(arguments, options)
    name = arguments.name or _default_name(arguments.input)
    with open_store(arguments) as store:
        reading = open_reading(arguments, options)
        stream = open_or_create(store, name, options, arguments)
        return _Run(arguments, store, stream).all(reading)


def _check_releases(arguments: argparse.Namespace, options: SourceOptions) -> None:
    """Refuse what would fail after the first release: a release cannot be taken back."""
    from fadecount.streams import Ticks
    from fadecount.streams.export import check_output

    check_output(arguments.output, source=None if is_pipe(arguments) else arguments.input)
    if arguments.monotone is not None:
        monotone_view(arguments.monotone)
    if arguments.until is not None:
        Ticks(tick_seconds=options.tick_seconds, zone=options.zone).at(parse_time(arguments.until, options.zone, name="--until"))


class _Run:
    """One run: from batches to committed ticks to lines of output."""

    def __init__(self, arguments: argparse.Namespace, store: Store, stream: Stream) -> None:
        from fadecount.streams import Feed, LiveFeed

        self._arguments, self._stream = arguments, stream
        self._reader = store.reader()
        skip = arguments.skip_released or arguments.follow
        self._feed = LiveFeed(stream) if is_pipe(arguments) else Feed(stream, skip_released=skip)
        self._ends = not (is_pipe(arguments) and is_stored(arguments))
        self._stopped = self._waiting = False
        self._monotone: Monotone | None = None

    def all(self, reading: Reading) -> int:
        from fadecount.cli._progress import Progress, waiting
        from fadecount.streams.export import ReleaseWriter

        description = self._stream.description
        live, kept = is_pipe(self._arguments) or self._arguments.follow, is_stored(self._arguments)
        if live:
            batches, ticks = iter(reading), None
        else:
            with waiting("reading"):
                batches, ticks = measured(reading)
        before = signal.signal(signal.SIGINT, self._stop)
        try:
            with (
                ReleaseWriter(self._arguments.output, description.name, description.ticks, kept=kept) as writer,
                Progress("releasing", total=ticks) as bar,
            ):
                for first, last in self._released(batches):
                    self._write(writer, first, last)
                    bar.advance(last - first + 1, note=f"{self._stream.status.steps:,} ticks")
        finally:
            signal.signal(signal.SIGINT, before)
        self._report(reading.report.lines())
        return 130 if self._stopped else 0

    def _released(self, batches: Iterator[TickBatch]) -> Iterator[tuple[int, int]]:
        """The first and last tick of each committed and published chunk, until told to stop."""
        for batch in self._arriving(batches):
            for chunk in self._feed.add(batch.ticks, batch.keys, batch.counts):
                yield chunk.first_tick, chunk.last_tick
                if self._stopped:
                    return
        if self._stopped:
            return
        for chunk in self._feed.finish() if self._ends and not self._arguments.follow else ():
            yield chunk.first_tick, chunk.last_tick
        if self._arguments.until is not None and not self._stopped:
            ticks = self._stream.description.ticks
            end = ticks.at(parse_time(self._arguments.until, ticks.zone, name="--until")) - 1
            for chunk in self._stream.close_through(end):
                yield chunk.first_tick, chunk.last_tick

    def _arriving(self, batches: Iterator[TickBatch]) -> Iterator[TickBatch]:
        """The batches; while waiting for one, nothing is under way, so that an interruption ends the wait at once."""
        while not self._stopped:
            self._waiting = True
            try:
                batch = next(batches, None)
            except KeyboardInterrupt:
                self._stopped = True
                return
            finally:
                self._waiting = False
            if batch is None:
                return
            yield batch

    def _write(self, writer: Any, first: int, last: int) -> None:
        name = self._stream.description.name
        pieces = self._reader.releases(name, since=first, until=last)
        if self._arguments.monotone is not None:
            pieces = (replace(piece, values=self._view(first).through(piece.values)) for piece in pieces)
        writer.write(pieces, self._reader.keys(name))

    def _view(self, first: int) -> Monotone:
        """The view of everything before this run, to be continued."""
        if self._monotone is None:
            self._monotone = monotone_view(self._arguments.monotone)
            for piece in self._reader.releases(self._stream.description.name, until=first - 1):
                self._monotone.through(piece.values)
        return self._monotone

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopped or self._waiting:
            raise KeyboardInterrupt
        self._stopped = True

    def _report(self, lines: list[str]) -> None:
        for line in lines:
            print(f"fadecount: {line}", file=sys.stderr)
        if getattr(self._feed, "skipped", 0) and not self._arguments.follow:
            print("fadecount: events of ticks released before were left out", file=sys.stderr)
        status = self._stream.status
        if self._stopped and status.published_tick is not None:
            end = status.description.ticks.shown(status.published_tick + 1)
            kept = "; all of it is committed" if is_stored(self._arguments) else ""
            print(f"fadecount: stopped; released up to {end}{kept}", file=sys.stderr)


def _default_name(place: str) -> str:
    stem = "" if place == "-" else re.sub(r"[^A-Za-z0-9._-]", "-", Path(place).stem).strip("-._")
    return stem[:100] or "stream"
