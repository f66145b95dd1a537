"""Look at stored streams: what they are, what they have released, and what is lost about an event.

examples:
  fadecount streams list --state ~/counts
  fadecount streams show visits --state ~/counts --item 2026-03-01T10:00
  fadecount streams curve visits --state ~/counts
  fadecount streams export visits --state ~/counts --since 2026-03-01
  fadecount streams catch-up visits --state ~/counts --yes
  fadecount streams accept-history visits --state ~/counts \\
      --other-histories 1 --yes
  fadecount streams plot visits --state ~/counts --per 1d -o days.svg
  fadecount streams show visits --state ~/counts --person 1/day --for 30d
  fadecount streams retain visits --state ~/counts --for 90d
  fadecount streams delete visits --state ~/counts --yes
  fadecount streams rotate --state ~/counts --key-file old --new-key-file new
  fadecount streams audit-log --state ~/counts
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from fadecount import Mechanism
from fadecount.cli._options import (
    FILE_NAME,
    add_monotone_option,
    add_store_options,
    add_window_options,
    check_window_options,
    json_text,
    monotone_view,
    open_reader,
    open_store,
    parse_time,
    place_store,
)
from fadecount.cli._person import add_person_options, losses_of, someone_words, visits_from
from fadecount.durations import UNITS, format_duration, parse_duration
from fadecount.errors import LockedError, ParameterError, bad_parameter
from fadecount.rounding import rounded_up, shown_factor, shown_loss

if TYPE_CHECKING:
    from fadecount.plots import Panel
    from fadecount.streams import Reader, Store, Ticks, Windows
    from fadecount.streams.status import Status

MOST_PANELS = 24
_AGES = ("h", "d", "w", "mo", "y")
_YEAR = UNITS["y"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", dest="action", required=True, metavar="ACTION")
    made = {}
    for name, text in (
        ("list", "the streams of a store"),
        ("show", "one stream, or what has been lost about an event at a time"),
        ("curve", "what is lost about an event, by its age"),
        ("export", "write published releases to a file"),
        (
            "plot",
            "draw the totals, or the counts per hour, day, ..., with their intervals of 95 percent",
        ),
        ("catch-up", "release all ticks that are over, after the clock seemed to be too far ahead"),
        (
            "accept-history",
            "let a stream go on after an old backup or a lost fence: once, and every loss grows",
        ),
        (
            "retain",
            (
                "keep releases for a time and remove older ones; no loss changes: observers keep"
                " what they have seen"
            ),
        ),
        ("delete", "remove a stream; what observers have seen, they keep"),
        ("rotate", "seal the state of a store with another key"),
        ("audit-log", "print the administrative acts on a store"),
    ):
        one = made[name] = actions.add_parser(name, help=text, description=text)
        if name not in ("list", "rotate", "audit-log"):
            one.add_argument("name", metavar="NAME", help="name of the stream")
        add_store_options(one)
        if name in ("list", "show", "curve", "audit-log"):
            one.add_argument("--json", action="store_true", help="figures as JSON")
    made["show"].add_argument(
        "--item",
        metavar="TIME",
        help="a moment: what has been lost about an event then, now and in a year",
    )
    add_person_options(made["show"], "what is lost, by now")
    for name in ("export", "plot"):
        made[name].add_argument(
            "--since", metavar="TIME", help="only ticks that begin at this time or later"
        )
        made[name].add_argument(
            "--until", metavar="TIME", help="only ticks that begin before this time"
        )
        add_window_options(made[name])
        made[name].add_argument(
            "--zone",
            metavar="ZONE",
            help="with --per: where days begin (default: the stream's zone)",
        )
    made["plot"].add_argument(
        "--key",
        action="append",
        metavar="KEY",
        help="only this key; repeatable (default: up to 24 keys)",
    )
    made["plot"].add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="the picture: .png, .svg, .pdf or .html, by its ending",
    )
    made["export"].add_argument(
        "--output", metavar="FILE", default="-", help=".csv, .jsonl or .parquet (default: -)"
    )
    made["export"].add_argument(
        "--force", action="store_true", help="replace the file that is there"
    )
    add_monotone_option(made["export"])
    made["retain"].add_argument(
        "--for",
        dest="span",
        metavar="LENGTH",
        required=True,
        help="how long releases are kept: 90d, 1y, ..., or ever",
    )
    made["delete"].add_argument("--yes", action="store_true", help="do it without asking")
    made["catch-up"].add_argument(
        "--yes", action="store_true", help="the clock of this machine is right"
    )
    made["accept-history"].add_argument(
        "--other-histories",
        metavar="N",
        type=int,
        required=True,
        help=(
            "how many other histories of the stream were published, all in all; every loss includes"
            " them"
        ),
    )
    made["accept-history"].add_argument(
        "--yes", action="store_true", help="the extra loss is accepted"
    )
    made["rotate"].add_argument(
        "--new-key-file", metavar="FILE", help="the new key (default: no key, state is not sealed)"
    )


def run(arguments: argparse.Namespace) -> int:
    action = {
        "list": _list,
        "show": _show,
        "curve": _curve,
        "export": _export,
        "plot": _plot,
        "catch-up": _catch_up,
        "accept-history": _accept_history,
        "retain": _retain,
        "delete": _delete,
        "rotate": _rotate,
        "audit-log": _audit_log,
    }
    place_store(arguments, keep=True)
    action[arguments.action](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    with open_reader(arguments) as reader:
        statuses = [reader.status(name) for name in reader.names()]
        deleted = reader.deleted()
    if arguments.json:
        print(json_text([_summary(status) for status in statuses]))
        return
    for status in statuses:
        until = (
            "nothing released yet"
            if status.published_tick is None
            else f"released up to {_released_until(status)}"
        )
        tick = format_duration(status.description.ticks.tick_seconds)
        print(f"{status.description.name}: {status.published_steps:,} ticks of {tick}, {until}")
    for name, steps, moment in deleted:
        when = (
            ""
            if moment is None
            else f" on {datetime.fromtimestamp(moment, ZoneInfo('UTC')).date().isoformat()}"
        )
        print(
            f"{name}: deleted{when}{'' if steps is None else f', after {steps:,} ticks'}; its name"
            " stays taken"
        )


def _show(arguments: argparse.Namespace) -> None:
    with open_reader(arguments) as reader:
        status = reader.status(arguments.name)
        if arguments.person is not None:
            shown = _someone(status, arguments.person, arguments.span)
        elif arguments.item is not None:
            shown = _item(reader, status, arguments.item)
        else:
            shown = {**_summary(status), "keys": list(reader.keys(arguments.name))}
            shown["rollback_protection"] = _protection(arguments)
    if arguments.json:
        print(json_text(shown))
    elif "sentence" in shown:
        print(shown["sentence"])
    else:
        shown["released_until"] = _released_until(status)
        for label, value in shown.items():
            print(f"{_LABELS.get(label, label.replace('_', ' '))}: {_in_words(value)}")


_LABELS = {"error_95": "a total is right, in 95 of 100 cases, to within"}


def _released_until(status: Status) -> str | None:
    return (
        None
        if status.published_tick is None
        else status.description.ticks.local(status.published_tick + 1)
    )


def _summary(status: Status) -> dict[str, Any]:
    from fadecount.mechanisms.noise_law import half_widths

    description, steps = status.description, status.published_steps
    end = (
        None
        if status.published_tick is None
        else description.ticks.shown(status.published_tick + 1)
    )
    summary: dict[str, Any] = {
        "name": description.name,
        "tick": format_duration(description.ticks.tick_seconds),
        "zone": description.ticks.zone,
        "mechanism": json.loads(description.mechanism.to_json()),
        "unit": description.unit.text,
        "sensitivity": description.sensitivity,
        "ticks_released": steps,
        "released_until": end,
        "error_95": int(half_widths(description.mechanism, steps, 1)[0]) if steps else None,
        "other_histories": len(status.forks),
        "releases_kept_for": (
            "ever" if status.retain_seconds is None else format_duration(status.retain_seconds)
        ),
    }
    return summary


def _in_words(value: object) -> str:
    if isinstance(value, dict):  # the mechanism
        return repr(Mechanism.from_json(json.dumps(value)))
    return ", ".join(value) if isinstance(value, list) else str(value)


def _protection(arguments: argparse.Namespace) -> str:
    """Where the fence is, and whether one backup is likely to hold both it and the store."""
    from fadecount.streams.fence import FileFence, fence_from, shared_fate
    from fadecount.streams.postgres import PostgresDatabase

    fence = fence_from(arguments.fence)
    if arguments.database is None:
        warning = shared_fate(Path(arguments.state) / FILE_NAME, fence)
    elif isinstance(fence, FileFence):
        warning = None
    else:
        store = PostgresDatabase(arguments.database, writes=False)
        warning = shared_fate(store, fence)
        store.close()
    return f"fence at {fence.where}" if warning is None else f"fence at {fence.where}; {warning}"


def _item(reader: Reader, status: Status, text: str) -> dict[str, Any]:
    name, ticks = status.description.name, status.description.ticks
    tick = ticks.at(parse_time(text, ticks.zone, name="--item").timestamp())
    now, later = reader.loss(name, tick), reader.loss(name, tick, at=time.time() + _YEAR)
    sentence = (
        f"An event in the tick of {ticks.local(tick)}: at most {shown_loss(now)} is lost now, at"
        f" most {shown_loss(later)} in a year. Someone who sees all releases can raise or lower the"
        f" odds of any guess about it by a factor of at most {shown_factor(now)} now,"
        f" {shown_factor(later)} in a year{_except(status)}."
    )
    return {
        "stream": name,
        "tick": ticks.shown(tick),
        "loss_now": now,
        "loss_in_a_year": later,
        "sentence": sentence,
    }


def _except(status: Status) -> str:
    """The chance with which the promise of Gaussian noise may fail."""
    delta = getattr(status.description.mechanism, "delta", None)
    return "" if delta is None else f", except with a chance of {delta:g}"


def _someone(status: Status, often: str, span: str) -> dict[str, Any]:
    """The loss of a person with these visits until now: all visits together, wherever in their time
    they were."""
    tick = status.description.ticks.tick_seconds
    events, every, length = visits_from(often, span, tick)
    seen = (
        length if status.forks else min(length, status.published_steps)
    )  # nothing came before the stream began
    losses = losses_of(
        status.loss, events, every * tick, seen * tick, tick, status.description.unit, _due(status)
    )
    sentence = someone_words(status.description.mechanism, often, length * tick, losses)
    shown = {name: loss.epsilon for name, loss in losses.items()}
    return {
        "stream": status.description.name,
        "person": often,
        "for": span,
        **shown,
        "sentence": sentence,
    }


def _due(status: Status) -> int:
    """The last released step that is over by the clock: releases ahead of it make every event that
    much older."""
    return min(status.loss.steps, status.step_of(status.description.ticks.at(time.time()) - 1))


def _curve(arguments: argparse.Namespace) -> None:
    with open_reader(arguments) as reader:
        status = reader.status(arguments.name)
        tick = status.description.ticks.tick_seconds
        ages = sorted({0, *(max(1, UNITS[unit] // tick) for unit in _AGES), 10 * _YEAR // tick})
        losses = [status.loss.at_age(age, due=_due(status)).epsilon for age in ages]
    rows = [
        {"age": age, "time": format_duration(age * tick), "loss": loss}
        for age, loss in zip(ages, losses, strict=True)
    ]
    if arguments.json:
        print(json_text(rows))
        return
    for row in rows:
        print(
            f"{row['time'] if row['age'] else 'at once':>24}  at most"
            f" {rounded_up(float(str(row['loss'])), 4)}"
        )


def _export(arguments: argparse.Namespace) -> None:
    from fadecount.streams.export import COLUMNS, WINDOW_COLUMNS, ReleaseWriter

    check_window_options(arguments)
    with open_reader(arguments) as reader:
        description, keys = reader.status(arguments.name).description, reader.keys(arguments.name)
        ticks = description.ticks
        since, until = _span(arguments, ticks)
        columns = COLUMNS if arguments.per is None else WINDOW_COLUMNS
        with ReleaseWriter(
            arguments.output, description, force=arguments.force, columns=columns
        ) as writer:
            if arguments.per is not None:
                zone = arguments.zone or ticks.zone
                writer.write_windows(_windows(reader, arguments, since, until), keys, zone)
                return
            view = None if arguments.monotone is None else monotone_view(arguments.monotone)
            writer.write(reader.releases(arguments.name, since=since, until=until, view=view), keys)


def _span(arguments: argparse.Namespace, ticks: Ticks) -> tuple[int | None, int | None]:
    """The first tick that --since names, and the one before which --until ends."""
    since, until = (
        (
            None
            if text is None
            else ticks.first_from(parse_time(text, ticks.zone, name=option).timestamp())
        )
        for text, option in ((arguments.since, "--since"), (arguments.until, "--until"))
    )
    return since, until


def _windows(
    reader: Reader, arguments: argparse.Namespace, since: int | None, until: int | None
) -> Windows:
    return reader.windows(
        arguments.name,
        per=arguments.per,
        zone=arguments.zone,
        since=since,
        until=until,
        nonnegative=arguments.nonnegative,
    )


def _plot(arguments: argparse.Namespace) -> None:
    from fadecount.plots import draw_panels, new_figure, save_figure

    if arguments.nonnegative and arguments.per is None:
        raise ParameterError("--per must be given with --nonnegative; it is about windows")
    with open_reader(arguments) as reader:
        ticks, keys = reader.status(arguments.name).description.ticks, reader.keys(arguments.name)
        wanted = arguments.key or list(keys)
        for key in wanted:
            if key not in keys:
                raise bad_parameter(
                    "--key",
                    key,
                    f"a key of stream {arguments.name!r}",
                    "fadecount streams show lists them",
                )
        if len(wanted) > MOST_PANELS:
            raise ParameterError(
                f"--key must choose at most {MOST_PANELS} keys to draw, the stream has {len(keys)};"
                " repeat --key"
            )
        panels = _panels(reader, arguments, ticks, keys, wanted)
    if not panels or not len(panels[0].times):
        raise ParameterError(
            f"stream {arguments.name!r} has released nothing in that time; there is nothing to draw"
        )
    figure = new_figure(7.2, max(3.6, 2.2 * -(-len(panels) // (1 if len(panels) < 4 else 2))))
    title = (
        f"{arguments.name}: {'running total' if arguments.per is None else f'per {arguments.per}'}"
    )
    draw_panels(
        figure,
        panels,
        bars=arguments.per is not None,
        zone=arguments.zone or ticks.zone,
        title=title,
    )
    save_figure(figure, arguments.output)


def _panels(
    reader: Reader,
    arguments: argparse.Namespace,
    ticks: Ticks,
    keys: tuple[str, ...],
    wanted: list[str],
) -> list[Panel]:
    from fadecount.plots import Panel
    from fadecount.streams.export import releases_table, windows_table

    zone, (since, until) = ZoneInfo(arguments.zone or ticks.zone), _span(arguments, ticks)
    if arguments.per is None:
        table = releases_table(
            reader.releases(arguments.name, since=since, until=until), keys, ticks
        )
    else:
        table = windows_table(_windows(reader, arguments, since, until), keys)
    panels = []
    for key in wanted:
        here = table["key"] == key
        times = [datetime.fromtimestamp(second, zone) for second in table["tick"][here].tolist()]
        columns = {name: table[name][here] for name in ("value", "low", "high")}
        partial = table["partial"][here] if "partial" in table else None
        panels.append(
            Panel(
                key=key,
                times=times,
                values=columns["value"],
                low=columns["low"],
                high=columns["high"],
                partial=partial,
            )
        )
    return panels


def _catch_up(arguments: argparse.Namespace) -> None:
    if not arguments.yes:
        raise ParameterError(
            "--yes must be given: it says that the clock is right; released ticks cannot be taken"
            " back"
        )
    open_reader(arguments).close()
    with open_store(arguments) as store:
        closed = store.open(arguments.name).catch_up(time.time())
    print(f"{arguments.name}: {closed:,} ticks released")


def _accept_history(arguments: argparse.Namespace) -> None:
    if not arguments.yes:
        raise ParameterError(
            "--yes must be given: other histories make every loss of the stream larger, for ever"
        )
    with open_reader(arguments) as reader:
        before = reader.status(arguments.name).loss
        number = arguments.other_histories
        _administer(arguments, lambda store: store.accept_histories(arguments.name, number))
        status = reader.status(arguments.name)
    day = max(1, UNITS["d"] // status.description.ticks.tick_seconds)
    print(
        f"{arguments.name} goes on. Other histories of it: {len(status.forks)}. What is lost about"
        f" an event after a day: at most ε = {shown_loss(status.loss.at_age(day).epsilon)}; with"
        f" this history alone it was at most {shown_loss(before.at_age(day).epsilon)}."
    )


def _retain(arguments: argparse.Namespace) -> None:
    seconds = None if arguments.span == "ever" else parse_duration(arguments.span, name="--for")
    with open_reader(arguments) as reader:

        def retain(store: Store) -> None:
            store.retain(arguments.name, seconds)
            while store.upkeep(arguments.name):
                pass

        _administer(arguments, retain)
        kept = reader.status(arguments.name)
    since = (
        ""
        if kept.kept_tick is None
        else f"; those before {kept.description.ticks.local(kept.kept_tick)} are removed"
    )
    print(
        f"{arguments.name}: releases are kept for"
        f" {'ever' if seconds is None else format_duration(seconds)}{since}"
    )


def _delete(arguments: argparse.Namespace) -> None:
    if not arguments.yes:
        raise ParameterError(
            "--yes must be given to delete a stream; its releases are removed, its name stays taken"
        )
    open_reader(arguments).close()
    _administer(arguments, lambda store: store.delete(arguments.name))
    print(
        f"{arguments.name}: deleted. Observers keep what they have seen, so its name stays taken. A"
        " stream of another name that counts the same events is a further release: the losses of"
        " both add up."
    )


def _administer(arguments: argparse.Namespace, work: Callable[[Store], object]) -> None:
    """Change a stream, unless another process leads it."""
    try:
        with open_store(arguments) as store:
            work(store)
    except LockedError:
        raise LockedError(
            f"stream {arguments.name!r} is in use by another process; stop it first, or ask a"
            " service over HTTP (docs/service.md)"
        ) from None


def _rotate(arguments: argparse.Namespace) -> None:
    from fadecount.streams import Plain, seal_from

    open_reader(arguments).close()
    with open_store(arguments) as store:
        store.rotate(
            Plain() if arguments.new_key_file is None else seal_from(arguments.new_key_file)
        )


def _audit_log(arguments: argparse.Namespace) -> None:
    from fadecount.streams.audit_log import AuditLog
    from fadecount.streams.fence import default_folder

    entries = AuditLog(arguments.state or default_folder()).entries()
    if arguments.json:
        print(json_text([asdict(each) for each in entries]))
        return
    for each in entries:
        details = "".join(
            f", {name.replace('_', ' ')} {value}" for name, value in each.details.items()
        )
        print(f"{each.time}  {each.actor}: {each.act}: {each.object}{details}")
