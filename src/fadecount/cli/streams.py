"""Look at stored streams: what they are, what they have released, and what is lost by which age.

examples:
  fadecount streams list --state ~/counts
  fadecount streams show visits --state ~/counts
  fadecount streams curve visits --state ~/counts
  fadecount streams export visits --state ~/counts --since 2026-03-01
  fadecount streams top visits --state ~/counts --since 2026-03-01
  fadecount streams plot visits --state ~/counts --per 1d -o days.svg
  fadecount streams catch-up visits --state ~/counts --yes
  fadecount streams retain visits --state ~/counts --for 90d
  fadecount streams delete visits --state ~/counts --yes
  fadecount streams rotate --state ~/counts --key-file old --new-key-file new
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from fadecount.cli._options import (
    JSON_OPTION,
    add_options,
    add_per_option,
    add_store_options,
    storage_from,
)
from fadecount.cli._output import aligned, json_text, loss_lines, loss_row
from fadecount.durations import format_duration, parse_duration, parse_time
from fadecount.errors import ParameterError, bad_parameter

if TYPE_CHECKING:
    from fadecount.streams import Reader, Store, Ticks
    from fadecount.streams.published import Table
    from fadecount.streams.status import Status

MOST_PANELS = 24
_CONFIRMED = {
    "catch-up": "the clock of this machine is right; released ticks cannot be taken back",
    "delete": "the releases of the stream are removed, its name stays taken",
}
"""What ``--yes`` says."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    made = {}
    for name, action in _ACTIONS.items():
        text = action.__doc__
        one = made[name] = actions.add_parser(name, help=text, description=text)
        if name not in ("list", "rotate"):
            one.add_argument("name", metavar="NAME", help="name of the stream")
        add_store_options(one)
        if name in ("list", "show", "curve", "top"):
            add_options(one, JSON_OPTION)
        if name in _CONFIRMED:
            add_options(one, ("--yes", None, _CONFIRMED[name], bool))
    for name in ("export", "plot", "top"):
        add_options(
            made[name],
            ("--since", "TIME", "only what begins at this time or later", str),
            ("--until", "TIME", "only what begins before this time", str),
        )
    for name in ("export", "plot"):
        add_options(
            made[name],
            ("--as-of", "TIME", "as it was published at that time (default: as known now)", str),
        )
        add_per_option(made[name])
    picture = "the picture: .png, .svg, .pdf or .html, by its ending"
    add_options(
        made["plot"], ("--key", None, "only this key; repeatable (default: up to 24 keys)", list)
    )
    made["plot"].add_argument("-o", "--output", metavar="FILE", required=True, help=picture)
    add_options(
        made["export"],
        ("--output", "FILE", ".csv, .jsonl or .parquet (default: -)", "-"),
        ("--force", None, "replace the file that is there", bool),
    )
    text = "how long releases are kept: 90d, 1y, ..., or ever"
    made["retain"].add_argument("--for", dest="span", metavar="LENGTH", required=True, help=text)
    new = "the new key (default: no key, state is not sealed)"
    add_options(made["rotate"], ("--new-key-file", "FILE", new, str))


def run(arguments: argparse.Namespace) -> int:
    if arguments.action in _CONFIRMED and not arguments.yes:
        raise ParameterError(f"--yes must be given: {_CONFIRMED[arguments.action]}")
    from fadecount.streams.storage import open_reader

    with open_reader(storage_from(arguments)) as reader:
        _ACTIONS[arguments.action](arguments, reader)
    return 0


def _list(arguments: argparse.Namespace, reader: Reader) -> None:
    """List the streams of a store."""
    statuses = [reader.status(name) for name in reader.names()]
    if arguments.json:
        print(json_text([_public_info(status) for status in statuses]))
        return
    for status in statuses:
        end = _released_until(status)
        until = "nothing released yet" if end is None else f"released up to {end}"
        tick, steps = status.description.ticks.tick_seconds, status.published_steps
        several = "" if steps == 1 else "s"
        name = status.description.name
        print(f"{name}: {steps:,} tick{several} of {format_duration(tick)}, {until}")
    for name, steps, moment in reader.deleted():
        day = datetime.fromtimestamp(moment, UTC).date()
        print(f"{name}: deleted on {day}, after {steps:,} ticks; its name stays taken")


def _show(arguments: argparse.Namespace, reader: Reader) -> None:
    """Show one stream."""
    from fadecount.streams.fence import fence_from
    from fadecount.streams.loss import NO_GROUP

    status, keys = reader.status(arguments.name), reader.keys(arguments.name)
    protection = f"fence at {fence_from(storage_from(arguments).fence).where}"
    if arguments.json:
        print(json_text({**_public_info(status, keys), "rollback_protection": protection}))
        return
    described, kept = status.description, status.retain_seconds
    shown = {
        "name": described.name,
        "tick": format_duration(described.ticks.tick_seconds),
        "zone": described.ticks.zone,
        "mechanism": repr(described.mechanism),
        "figures per": ", ".join(described.levels),
        "unit": described.unit.text,
        "group": NO_GROUP if status.group is None else status.group.text,
        "undeclared keys of a day or month appear by themselves": _appearing(status),
        "released until": _released_until(status),
        "figures are kept for": "ever" if kept is None else format_duration(kept),
        "keys": ", ".join(keys),
        "rollback protection": protection,
    }
    for label, text in shown.items():
        if text:
            print(f"{label}: {text}")


def _public_info(status: Status, keys: tuple[str, ...] | None = None) -> dict[str, Any]:
    """What is public about a stream, in the same form as over HTTP."""
    from dataclasses import asdict

    from fadecount.streams.info import stream_info

    return asdict(stream_info(status, "unknown", time.time(), keys))


def _released_until(status: Status) -> str | None:
    ticks = status.description.ticks
    return ticks.local(status.published_tick + 1) if status.published_steps else None


def _appearing(status: Status) -> str | None:
    """How keys appear by themselves, if they do."""
    hidden, seconds = status.description.hidden, status.description.ticks.tick_seconds
    if hidden is None:
        return None
    stages = zip(hidden.discovery.stages, hidden.discovery.thresholds, strict=True)
    appear = [
        f"from a noisy {least} persons on {format_duration(lag * seconds) if lag else 'at once'}"
        for (lag, _), least in stages
    ]
    return f"{', '.join(appear)} after its end{hidden.covers}{status.description.loss.exception}"


def _curve(arguments: argparse.Namespace, reader: Reader) -> None:
    """Show what is lost about an event, by its age, and what causes each step."""
    status = reader.status(arguments.name)
    description, ahead = status.description, status.ahead(time.time())
    loss, tick = description.loss, description.ticks.tick_seconds
    rows = [
        loss_row(age, tick, loss=loss.at_age(age + ahead).epsilon, cause=cause)
        for age, cause in description.loss_steps()
    ]
    if arguments.json:
        print(json_text(rows))
        return
    titles = {"loss": "loss (ε), at most", "cause": "published then"}
    print(*loss_lines(rows, titles), sep="\n")
    unit = description.unit
    begin = "" if unit.per == "tick" else f"; ages count from the {unit.slot}'s start"
    print(f"for {unit.text}{loss.exception}{begin}")


def _export(arguments: argparse.Namespace, reader: Reader) -> None:
    """Write published figures to a file."""
    from fadecount.streams.export import FigureWriter

    status, tables = reader.status(arguments.name), _tables(reader, arguments)
    first = list(islice(tables, 2))  # what is refused makes no file
    with FigureWriter(
        arguments.output,
        status.description,
        group=status.group,
        force=arguments.force,
    ) as writer:
        for table in chain(first, tables):
            writer.write(table)


def _tables(reader: Reader, arguments: argparse.Namespace) -> Iterator[Table]:
    """The figures that the options ask for."""
    from fadecount.streams.export import published_tables

    published = reader.stream(arguments.name)
    ticks = published.description.ticks
    since, until = _span(arguments, ticks)
    as_of = arguments.as_of
    if as_of is not None:
        as_of = ticks.at(parse_time(as_of, ticks.zone, name="--as-of").timestamp())
    return published_tables(published, per=arguments.per, since=since, until=until, as_of=as_of)


def _span(arguments: argparse.Namespace, ticks: Ticks) -> tuple[int | None, int | None]:
    """The first tick that --since names, and the one before which --until ends."""
    since, until = (
        None
        if text is None
        else ticks.first_from(parse_time(text, ticks.zone, name=option).timestamp())
        for text, option in ((arguments.since, "--since"), (arguments.until, "--until"))
    )
    return since, until


def _top(arguments: argparse.Namespace, reader: Reader) -> None:
    """List the keys with the largest counts, with intervals of 95 percent."""
    published = reader.stream(arguments.name)
    since, until = _span(arguments, published.description.ticks)
    ranked = published.top(since=since, until=until)
    if arguments.json:
        fields = ("key", "value", "low", "high", "days", "close")
        print(json_text([{name: getattr(each, name) for name in fields} for each in ranked]))
        return
    rows = [
        (
            f"{each.value:,}",
            f"± {each.around:,}",
            each.key,
            "" if each.days is None else f"on {each.days:,} day{'s' * (each.days != 1)}",
            "(the next may be larger)" if each.close else "",
        )
        for each in ranked
    ]
    for line in aligned(rows, "><<<<"):
        print(line)


def _plot(arguments: argparse.Namespace, reader: Reader) -> None:
    """Draw the totals, or the counts per hour, day, ..., with intervals of 95 percent."""
    from fadecount.plots import draw_panels, new_figure, save_figure
    from fadecount.streams.description import TOTAL
    from fadecount.streams.published import joined_table

    description, keys = reader.status(arguments.name).description, reader.keys(arguments.name)
    table = joined_table(_tables(reader, arguments))
    per, drawn = arguments.per or description.default_per, {*table["key"]}
    appeared = sorted(drawn - {*keys})
    known = [*keys, *appeared]
    wanted = arguments.key or known
    for key in wanted:
        if key not in known:
            remedy = "fadecount streams show lists them, and top those that appeared"
            bound = f"a key of stream {arguments.name!r} that was shown then"
            raise bad_parameter("--key", key, bound, remedy)
    if len(wanted) > MOST_PANELS:
        raise ParameterError(
            f"--key must choose at most {MOST_PANELS} keys to draw, the stream has {len(known)};"
            " repeat --key"
        )
    if not {*wanted} & drawn:
        raise ParameterError(
            f"stream {arguments.name!r} has released nothing in that time; there is nothing to draw"
        )
    figure = new_figure(7.2, max(3.6, 2.2 * -(-len(wanted) // (1 if len(wanted) < 4 else 2))))
    what = "running total" if per == TOTAL else f"per {per}"
    if {*wanted} & {*appeared}:
        what += " in which a key appeared"
    zone, title = description.ticks.zone, f"{arguments.name}: {what}"
    draw_panels(figure, table, wanted, bars=per != TOTAL, zone=zone, title=title)
    save_figure(figure, arguments.output)


def _writing(arguments: argparse.Namespace) -> Store:
    """Open a store that exists, to change it."""
    from fadecount.streams.storage import open_store

    return open_store(storage_from(arguments), lock_wait_seconds=5.0)


def _catch_up(arguments: argparse.Namespace, _reader: Reader) -> None:
    """Release all ticks that are over, after the clock seemed to be too far ahead."""
    with _writing(arguments) as store:
        closed = store.open(arguments.name).catch_up(time.time())
    print(f"{arguments.name}: {closed:,} ticks released")


def _retain(arguments: argparse.Namespace, reader: Reader) -> None:
    """Keep releases for a time and remove older ones; observers keep what they saw."""
    seconds = None if arguments.span == "ever" else parse_duration(arguments.span, name="--for")
    with _writing(arguments) as store:
        store.retain(arguments.name, seconds)
        while store.upkeep(arguments.name):
            pass
        status = reader.status(arguments.name)
    kept = "ever" if seconds is None else format_duration(seconds)
    names = [f" per {level}" for level in status.description.levels] or [""]
    removed = [
        f"those{name} before {status.description.ticks.local(tick)} are removed"
        for name, tick in zip(names, status.kept, strict=False)
        if tick != status.first_tick
    ]
    print("; ".join([f"{arguments.name}: figures are kept for {kept}", *removed]))


def _delete(arguments: argparse.Namespace, _reader: Reader) -> None:
    """Remove a stream; what observers have seen, they keep."""
    with _writing(arguments) as store:
        store.delete(arguments.name)
    print(
        f"{arguments.name}: deleted. Observers keep what they have seen, so its name stays taken. A"
        " stream of another name that counts the same events is a further release: the losses of"
        " both add up."
    )


def _rotate(arguments: argparse.Namespace, _reader: Reader) -> None:
    """Seal the state of a store with another key."""
    from fadecount.streams import seal_from
    from fadecount.streams.seal import Seal

    new = Seal() if arguments.new_key_file is None else seal_from(arguments.new_key_file)
    with _writing(arguments) as store:
        store.rotate(new)


_ACTIONS: dict[str, Callable[[argparse.Namespace, Reader], None]] = {
    "list": _list,
    "show": _show,
    "curve": _curve,
    "export": _export,
    "top": _top,
    "plot": _plot,
    "catch-up": _catch_up,
    "retain": _retain,
    "delete": _delete,
    "rotate": _rotate,
}
"""The actions, in the order of a stream's life; the docstring of each is its help."""
