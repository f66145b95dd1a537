"""Count the events of a file or pipe privately, and publish figures of them.

With the file of a publication first (.toml), rows count in all its measures,
and its figures are in its store up to --until, by default the last midnight.

Without one, a file, or a pipe with --time, is read to its end. With --follow,
or a pipe without --time, ticks are released as they pass by the clock; this
needs a --state. Rows that cannot be read are left out one by one; if more than
half of them cannot, nothing is released. --check only says what would happen.

Without --state this is a one-off run: its figures are printed and nothing is
kept. With --state the stream is kept, and the next file continues it.

examples:
  fadecount run rides.toml rides-*.csv
  fadecount run visits.csv --tick 1h --time at --epsilon 0.1
  fadecount run visits.csv --tick 1d --time at --key page --keys home,help \\
      --other --epsilon 0.1 --exponent 2 --state ~/counts \\
      --start 2026-03-01 --until 2026-04-01 --output out.csv
  fadecount run newer.csv --tick 1d --time at --key page --keys home,help \\
      --other --state ~/counts --name visits --output newer-out.csv
  fadecount run visits.csv --tick 1d --time at --key page --discover \\
      --person visitor --count persons --plan plan.json
  fadecount run log.jsonl --follow --tick 1m --time at --epsilon 0.1 \\
      --state ~/counts
  fadecount run access.log access.log.1.gz --format log --tick 1d --time time \\
      --key page --keys /,/about --other --person visitor --count persons \\
      --epsilon 0.1
  tail -f log.jsonl | fadecount run - --format jsonl --tick 1m --epsilon 0.1 \\
      --state ~/counts
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fadecount.cli._options import (
    GIVEN,
    add_event_options,
    add_mechanism_options,
    add_options,
    add_per_option,
    add_store_options,
    group_from,
    named_storage,
    plan_from,
    source_options,
    storage_from,
)
from fadecount.cli._output import progress, waiting
from fadecount.durations import parse_time
from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.runs import Run
    from fadecount.sources import Gate, SourceOptions
    from fadecount.streams import Store
    from fadecount.streams.status import Status
    from fadecount.streams.storage import Storage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = (
        ".csv, .jsonl or .parquet files, access logs, or - for standard input; before them the"
        " .toml file of a publication"
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help=text)
    follow = "count events as they come, by the clock, until interrupted; a restart goes on"
    start = "when a new stream begins (a one-off run: with the first event, which this reveals)"
    until = "release ticks that end by then (default: up to the last event, which this reveals)"
    add_options(
        parser,
        ("--follow", None, follow, bool),
        ("--check", None, "release nothing: say what would be released, or refused, and why", bool),
    )
    add_event_options(parser)
    add_mechanism_options(parser)
    add_store_options(parser, default="FADECOUNT_STATE, else none: a one-off run, nothing is kept")
    group = parser.add_argument_group("figures")
    add_options(
        group,
        ("--name", "STREAM", "name of the stream (default: from the name of the file)", str),
        ("--output", "FILE", ".csv, .jsonl or .parquet (default: -, CSV on standard output)", "-"),
        ("--force", None, "replace the file of figures that is there", bool),
        ("--append", None, "write behind what the file of figures (.csv, .jsonl) holds", bool),
        ("--start", "TIME", start, str),
        ("--until", "TIME", until, str),
        ("--max-left-out", "PART", "refuse if more rows cannot be read (default: 50%%)", str),
        ("--allow-gap", None, "release a day without events behind what is published", bool),
        ("--export", "DIR", "with a publication: write all its figures into this folder", str),
        ("--verbose", None, "with a publication: say why which rows do not count", bool),
        ("--quiet", None, "with a publication: say nothing but errors", bool),
        ("--group", "NAME", "a new stream joins the streams that count the same people", str),
        ("--group-loss", "AGE=LOSS", "the promise of a new group, all together; repeat it", list),
    )
    add_per_option(group)


def run(arguments: argparse.Namespace) -> int:
    from fadecount.streams.description import TOTAL
    from fadecount.streams.export import check_output

    if arguments.inputs[0].lower().endswith(".toml"):
        return _run_publication(arguments)
    options, files = source_options(arguments), arguments.inputs
    if len(files) > 1 and "-" in files:
        raise ParameterError("INPUT must be files, or - alone; give a pipe a run of its own")
    arguments.name = arguments.name or _default_name(files[0])
    for option in ("start", "until"):
        if (text := getattr(arguments, option)) is not None:
            setattr(arguments, option, parse_time(text, options.zone, name=f"--{option}"))
    storage = named_storage(arguments)
    if arguments.check:
        return _check(arguments, options, storage)
    how = {"force": arguments.force, "append": arguments.append}
    for file in files:
        check_output(arguments.output, source=None if file == "-" else file, **how)
    if arguments.per not in (None, TOTAL):
        from fadecount.calendar import Length

        Length.of(arguments.per)
    opened: AbstractContextManager[Store | None] = nullcontext()
    if storage is not None:
        from fadecount.streams.storage import open_store

        opened = open_store(storage, lock_wait_seconds=5.0)
    with opened as store, closing(_begun(arguments, options, store)) as under_way:
        return _release(arguments, under_way, how, kept=store is not None)


_OF_PUBLICATIONS = {
    "inputs",
    "until",
    "state",
    "database",
    "fence",
    "key_file",
    "max_left_out",
    "allow_gap",
    "export",
    "verbose",
    "quiet",
}
"""The options of a run of a publication."""


def _run_publication(arguments: argparse.Namespace) -> int:
    """Count rows into a publication of a store, and say so in one line."""
    from fadecount import publication_runs
    from fadecount.cli._publication import promise_of, read_file, require_created
    from fadecount.streams.export import export_publication
    from fadecount.streams.storage import open_store

    path, *files = arguments.inputs
    publication = read_file(path, arguments, _OF_PUBLICATIONS)
    if not files or (len(files) > 1 and "-" in files):
        raise ParameterError(f"INPUT must be files of rows behind {path}, or - alone")
    storage = storage_from(arguments)
    require_created(storage, publication.name, path)
    with waiting("counting"), open_store(storage, lock_wait_seconds=5.0) as store:
        done = publication_runs.run(
            _source(files), publication, store, until=arguments.until, gate=_gate(arguments)
        )
        if arguments.export is not None:  # also if nothing was left to do but that
            export_publication(store.reader(), publication.name, arguments.export)
    ticks, report = done.description.ticks, done.report
    if arguments.verbose:
        for line in (f"{report.rows_read:,} rows read", *report.lines()):
            _say(line)
    if arguments.quiet:
        return 0
    until = ticks.local(done.released.stop)
    if not done.released:
        print(f"{publication.name}: nothing to do, everything is published up to {until}")
        return 0
    left_out = report.rows_skipped + report.rows_dropped
    rows = f"{left_out:,} of {report.rows_read:,} rows left out"
    print(f"{publication.name}: published up to {until}; {rows}; {promise_of(done.description)}")
    return 0


def _begun(arguments: argparse.Namespace, options: SourceOptions, store: Store | None) -> Run:
    """Open or create the stream, and return the run."""
    from fadecount import runs

    name, plan = arguments.name, None
    given = any(getattr(arguments, each) is not None for each in GIVEN)
    names = [] if store is None else store.names()
    if name not in names and not given and names:
        known = ", ".join(sorted(names)[:5]) + ", ..." * (len(names) > 5)
        raise ParameterError(
            f"--name must name a stream of this store ({known}), got {name!r}; to begin"
            f" {name!r}, give --epsilon or --plan"
        )
    if given or name not in names:
        plan = plan_from(arguments)
    if arguments.discover and plan is not None and plan.discovery is None:
        raise ParameterError(
            "--plan must say how keys appear with --discover; make one with: fadecount plan"
            " --discover"
        )
    return runs.run(
        _source(arguments.inputs),
        options,
        store=store,
        name=name,
        mechanism=plan,
        start=arguments.start,
        until=arguments.until,
        follow=arguments.follow,
        group=group_from(arguments),
        gate=_gate(arguments),
    )


def _gate(arguments: argparse.Namespace) -> Gate | None:
    """Return what a history must meet; None if the options do not say it."""
    from fadecount.sources import Gate

    text = arguments.max_left_out
    if text is None and not arguments.allow_gap:
        return None
    written = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)\s*", text or "50%")
    if written is None:
        bound, remedy = "a part of the rows", "such as 5% or 0.05"
        raise bad_parameter("--max-left-out", text, bound, remedy)
    part = float(written[1]) / (100 if written[2] else 1)
    return Gate(max_left_out=part, allow_gap=arguments.allow_gap)


def _check(arguments: argparse.Namespace, options: SourceOptions, storage: Storage | None) -> int:
    """Say what a run would do. The store, if there is one, is only read."""
    from fadecount import runs
    from fadecount.sources import first_bad_row

    if "-" in arguments.inputs or arguments.follow:
        raise ParameterError("--check must be given with a file; a pipe can be read once only")
    status = None if storage is None else _status(storage, arguments.name)
    if storage is not None and status is None and arguments.start is None:
        raise ParameterError(f"--start must be given to create the stream {arguments.name!r}")
    report, released, refusal = runs.check(
        arguments.inputs,
        options,
        status=status,
        start=arguments.start,
        until=arguments.until,
        gate=_gate(arguments),
    )
    lines = report.lines()
    if released or refusal is not None:
        lines += report.consequences(options.unit)
    lines += [bad for file in arguments.inputs if (bad := first_bad_row(file, options)) is not None]
    if refusal is None:
        would = "nothing"
        if released:
            begin, end = (options.ticks.local(tick) for tick in (released.start, released.stop))
            would = f"{len(released):,} ticks, from {begin} to {end}"
        lines.append(f"{report.rows_read:,} rows; a run would release {would}")
    for line in lines:
        print(line)
    if refusal is not None:
        _say(f"a run would be refused: {refusal}")
        return 1
    return 0


def _status(storage: Storage, name: str) -> Status | None:
    """Return where the stream is in time, if there is one."""
    from fadecount.streams.storage import open_reader

    if storage.database is None and not storage.store_path.exists():
        return None
    with open_reader(storage) as reader:
        return reader.status(name) if reader.has(name) else None


def _release(
    arguments: argparse.Namespace, under_way: Run, how: dict[str, Any], *, kept: bool
) -> int:
    """Write what is released, until the source ends or the user interrupts, and report."""
    from fadecount.streams.description import TOTAL
    from fadecount.streams.export import FigureWriter, published_tables

    description, published = under_way.description, None
    live = under_way.live
    per, hidden = arguments.per or description.default_per, description.hidden
    if live and per != TOTAL and (hidden is None or per != hidden.discovery.per):
        description.require_level(per)
    at_once = live or per == TOTAL
    with waiting("reading"):
        expected = under_way.ticks_expected
        under_way.check_per(per)
    with (
        _interruptible(under_way),
        FigureWriter(arguments.output, description, group=under_way.group, **how) as writer,
        progress("releasing", total=expected) as advance,
    ):
        for closed in under_way:
            first, last = closed.first_tick, closed.last_tick
            published = range(published.start if published else first, last + 1)
            if at_once:
                news = published_tables(
                    under_way.published, per=per, as_of=last + 1, news_since=first, whole=live
                )
                for table in news:
                    writer.write(table)
            advance(last + 1 - first)
        if published and not at_once:
            news = published_tables(under_way.published, per=per, news_since=published.start)
            for table in news:
                writer.write(table)
    lines = under_way.report.lines()
    if live or published:
        lines += under_way.report.consequences(under_way.options.unit)
    else:
        lines.append("nothing was released, and no published figure changes")
    if under_way.shows_range:
        lines.append(
            "the first and last tick show when the first and last events were; --start and --until"
            " decide that instead"
        )
    if under_way.stopped and published:
        committed = "; all of it is committed" if kept else ""
        until = description.ticks.local(published.stop)
        lines.append(f"stopped; released up to {until}{committed}")
    if not kept:
        lines.append(
            "a one-off run, nothing is kept: another run on the same data has new noise, and losses"
            " add up; --state DIR keeps it"
        )
    for line in (*lines, under_way.summary()):
        _say(line)
    return 130 if under_way.stopped else 0


@contextmanager
def _interruptible(under_way: Run) -> Iterator[None]:
    """Ctrl-C ends the run between two ticks; a second one, at once."""

    def stop(_number: int, _frame: object) -> None:
        if under_way.stopped:
            raise KeyboardInterrupt
        under_way.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _say(line: str) -> None:
    print(f"fadecount: {line}", file=sys.stderr)


def _source(inputs: list[str]) -> str | list[str] | BinaryIO:
    """Return what is read: a file, several, or standard input.

    Standard input gets its own buffer: a thread may still be reading when Python closes the buffer
    of ``sys.stdin``.
    """
    if inputs != ["-"]:
        return inputs if len(inputs) > 1 else inputs[0]
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # a replacement that is not a file
        return sys.stdin.buffer


def _default_name(place: str) -> str:
    stem = "" if place == "-" else re.sub(r"[^A-Za-z0-9._-]", "-", Path(place).stem).strip("-._")
    return stem[:100] or "stream"
