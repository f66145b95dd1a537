"""The stream of a run: the one that exists, if it fits, or a new one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Literal

from fadecount.cli._options import GIVEN, mechanism_from, parse_time
from fadecount.errors import ParameterError, bad_parameter
from fadecount.streams import Description, Store, Stream, Ticks, Unit
from fadecount.streams.description import ONLY_KEY

if TYPE_CHECKING:
    from fadecount.sources import SourceOptions


def open_or_create(store: Store, name: str, options: SourceOptions, arguments: argparse.Namespace) -> Stream:
    """The stream of that name. An existing one goes on with its own mechanism and must fit; new keys are declared."""
    keys = options.keys or (ONLY_KEY,)
    ticks = Ticks(tick_seconds=options.tick_seconds, zone=options.zone)
    if name not in store.names():
        description = Description(
            name=name,
            mechanism=mechanism_from(arguments, tick_seconds=ticks.tick_seconds).for_sensitivity(options.sensitivity),
            ticks=ticks,
            unit=_unit(options),
        )
        start = None if arguments.start is None else ticks.at(parse_time(arguments.start, ticks.zone, name="--start"))
        return store.create(description, keys=keys, start_tick=start)
    stream = store.open(name, accept_extra_loss=arguments.accept_extra_loss)
    _check_fit(stream, ticks, options, arguments)
    known = stream.keys
    if keys[: len(known)] != known:
        raise ParameterError(f"keys of stream {name!r} must begin with those declared so far; add new ones at the end")
    if len(keys) > len(known):
        stream.declare(keys[len(known) :])
    return stream


def _unit(options: SourceOptions) -> Unit:
    """Whom the options protect: one event, or one person within a tick."""
    of: Literal["event", "person"] = "event" if options.person is None else "person"
    return Unit(of=of, amount=options.max_amount, events=1 if options.person is None else options.per_person)


def _check_fit(stream: Stream, ticks: Ticks, options: SourceOptions, arguments: argparse.Namespace) -> None:
    description = stream.description
    if ticks != description.ticks:
        wanted = f"{description.ticks.tick_seconds} s in {description.ticks.zone}, as the stream was created"
        raise bad_parameter("--tick", f"{ticks.tick_seconds} s in {ticks.zone}", wanted, "choose another --name for another tick")
    if _unit(options) != description.unit:
        remedy = "count the same way as before, or choose another --name"
        raise bad_parameter("protected unit", _unit(options).text, f"{description.unit.text}, as the stream was created", remedy)
    if options.person is not None and stream.holds_events:
        raise ParameterError(
            f"open tick of stream {description.name!r} holds events of an earlier run, and who they were of was not kept, so "
            "--person cannot be held to; release that tick first: run an empty file with --until its end, without --person"
        )
    if all(getattr(arguments, each) is None for each in GIVEN):
        return
    given = mechanism_from(arguments, tick_seconds=ticks.tick_seconds)
    if given.for_sensitivity(description.sensitivity) != description.mechanism:
        raise ParameterError(
            f"mechanism of stream {description.name!r} is fixed, got another one; leave the options out, or choose another --name"
        )
