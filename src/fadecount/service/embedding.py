"""Routes for other websites and tools: a badge, a chart, a list of the largest keys, and a data
package. They are made of published figures, and hold until the next publication."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

import numpy as np

from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.service.answers import Badge, TopKey, TopList
from fadecount.service.http import EMBEDDED_HEADERS, Answer, Call, Tagged, tagged_json
from fadecount.service.parsing import ShownQuery, TopQuery
from fadecount.service.problems import not_found, refusing
from fadecount.service.read_routes import CSV, ReadContext, slot_length, slot_lengths
from fadecount.service.reader_pool import PublicStream
from fadecount.streams.export import (
    TIMES,
    about_stream,
    columns_of,
    csv_text,
    published_tables,
    table_rows,
)
from fadecount.streams.published import Figures, Published, no_figures
from fadecount.streams.reader import Reader
from fadecount.streams.windows import WindowCalendar, window_ticks

SVG = "image/svg+xml"
LONGEST_SHOWN = 3600
"""Seconds for which a badge or a chart may be kept, at most."""

NARROW = " ,.:fijlrt"
"""Letters of a badge that take 4 of its pixels; the others take 6.8."""

BARS = 30
MOST_ROWS = 50_000
"""Rows of a data package: those of the newest slots."""

Make = Callable[[PublicStream, Any, Reader], Tagged]


async def get_badge(context: ReadContext, call: Call) -> Answer:
    """A badge with the last whole slot, as a picture."""
    return await _shown(context, call, _badge_picture)


async def get_badge_text(context: ReadContext, call: Call) -> Answer:
    """The text of the badge, in the form of shields.io endpoints."""
    return await _shown(context, call, lambda *about: tagged_json(_badge(*about)))


async def get_chart(context: ReadContext, call: Call) -> Answer:
    """The last 30 whole slots as a picture, light or dark as the reader prefers."""
    return await _shown(context, call, _chart)


async def get_top(context: ReadContext, call: Call) -> Answer:
    """The keys with the largest figures of the last whole slot."""
    return await _shown(context, call, _top)


async def get_package(context: ReadContext, call: Call) -> Answer:
    """The stream as a data package (Frictionless): where its figures and its promise are, and what
    the columns mean."""
    return await _shown(context, call, _package)


async def get_package_figures(context: ReadContext, call: Call) -> Answer:
    """The figures of the data package: of every day (or of the largest blocks below), the newest
    50,000 rows."""
    return await _shown(context, call, _package_figures)


async def get_package_promise(context: ReadContext, call: Call) -> Answer:
    """The promise of the data package: the protected unit, and what it loses by which age."""
    return await _shown(context, call, _package_promise)


async def _shown(context: ReadContext, call: Call, make: Make) -> Answer:
    stream = await context.stream(call)
    question = (call.scope["path"].rpartition("/")[2], call.query)
    tagged = await context.pool.read(stream, question, partial(make, stream, call.query))
    seconds = context.unchanged(stream, LONGEST_SHOWN)
    answer = tagged.answer(call, public=context.public, seconds=seconds)
    return replace(answer, security=EMBEDDED_HEADERS) if context.public else answer


def _whole(stream: PublicStream, published: Published, per: str, most: int) -> Figures:
    """The last whole slots that have figures, oldest first."""
    if not published.steps:
        return no_figures(len(published.keys))
    end = published.first_tick + published.steps
    begin = stream.ticks.start_seconds(end) - (most + 2) * parse_duration(per)
    figures = published.figures(per, since=max(stream.first_tick, stream.ticks.at(begin)))
    whole = np.flatnonzero(~figures.partial & figures.known.any(axis=1))
    return figures.chosen(whole[-most:])


def _of_key(
    stream: PublicStream, query: ShownQuery, most: int, reader: Reader
) -> tuple[str, Figures, int]:
    """The length of slots, the last of them, and the column of the key that was asked for (or of
    all together)."""
    per, published = slot_length(stream, query), stream.published(reader)
    if query.key is not None and query.key not in stream.positions:
        raise not_found()
    together = query.key is None and len(stream.keys) > 1
    with refusing("bad_query", slot_lengths(stream), (ParameterError,)):
        figures = _whole(stream, published.together() if together else published, per, most)
    return per, figures, 0 if query.key is None else stream.positions[query.key]


def _label(stream: PublicStream) -> str:
    """What is counted: the end of the stream's name."""
    return stream.name.rpartition("_")[2]


def _slot(stream: PublicStream, per: str, start: int, end: int) -> str:
    """A slot in words; yesterday, where what is published ends today."""
    zone, through = ZoneInfo(stream.ticks.zone), stream.through or 0
    begins, ends = (datetime.fromtimestamp(each, zone) for each in (start, end))
    today = datetime.fromtimestamp(stream.ticks.start_seconds(through), zone).date()
    if per == "1d":
        return "yesterday" if ends.date() == today else f"on {begins:%Y-%m-%d}"
    if per in ("1mo", "1y"):
        return f"in {begins:%Y-%m}" if per == "1mo" else f"in {begins:%Y}"
    return f"from {begins:%Y-%m-%d %H:%M}, {per}"


def _badge(stream: PublicStream, query: ShownQuery, reader: Reader) -> Badge:
    per, figures, at = _of_key(stream, query, 1, reader)
    label = _label(stream)
    if not len(figures):
        return Badge(label=label, message="soon")
    slot = _slot(stream, per, int(figures.starts[-1]), int(figures.ends[-1]))
    value, around = int(figures.values[-1, at]), int(figures.half_widths[-1, at])
    return Badge(label=f"{label} {slot}", message=f"{value:,} ± {around:,}")


def _badge_picture(stream: PublicStream, query: ShownQuery, reader: Reader) -> Tagged:
    badge = _badge(stream, query, reader)
    texts = (badge.label, badge.message)
    left, right = (round(sum(4 if c in NARROW else 6.8 for c in text)) + 12 for text in texts)
    middles = (left / 2, left + right / 2)
    written = "".join(
        f'<text x="{middle}" y="14" textLength="{width - 12}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text)}</text>"
        for text, middle, width in zip(texts, middles, (left, right), strict=True)
    )
    return Tagged(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">'
        f"<title>{escape(': '.join(texts))}</title>"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444b54"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="#1a6fb0"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif"'
        f' font-size="11">{written}</g></svg>'.encode(),
        SVG,
    )


_STYLE = """
:root{color-scheme:light dark}.c{fill:#fff}
text{font:15px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#39424e}
.b{fill:#1a6fb0}.p{fill:#8db9da}.w{stroke:#14283a;stroke-width:1.5}.g{stroke:#c9d1d9}
@media(prefers-color-scheme:dark){
.c{fill:#15191e}text{fill:#c4ccd6}.b{fill:#5aa9e6}.p{fill:#33607f}.w{stroke:#e8eef4}.g{stroke:#3d4652}}
"""
WIDTH, HEIGHT, TOP, FOOT, LEFT = 480, 220, 36, 26, 8


def _chart(stream: PublicStream, query: ShownQuery, reader: Reader) -> Tagged:
    per, figures, at = _of_key(stream, query, BARS, reader)
    label, count = _label(stream), len(figures)
    values, around = (each[:, at].tolist() for each in (figures.values, figures.half_widths))
    high = max((value + half for value, half in zip(values, around, strict=True)), default=1)
    base, most = HEIGHT - FOOT, max(1, high)

    def y(value: float) -> float:
        return round(base - (base - TOP) * max(0, value) / most, 1)

    step = (WIDTH - 2 * LEFT) / BARS
    drawn = ['<rect class="c" width="100%" height="100%" rx="6"/>']
    drawn.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{base}" y2="{base}"/>')
    for place, (value, half, status) in enumerate(
        zip(values, around, figures.shown_status, strict=True), start=BARS - count
    ):
        x, middle = round(LEFT + place * step, 1), round(LEFT + (place + 0.5) * step, 1)
        kind = "b" if status == "final" else "p"
        drawn.append(
            f'<rect class="{kind}" x="{x}" y="{y(value)}" width="{round(step - 3, 1)}"'
            f' height="{round(base - y(value), 1)}"/>'
            f'<line class="w" x1="{middle - 1.5}" x2="{middle - 1.5}" y1="{y(value - half)}"'
            f' y2="{y(value + half)}"/>'
        )
    title, words = f"{label} per {_LENGTHS.get(per, per)}", "nothing published yet"
    if count:
        zone = ZoneInfo(stream.ticks.zone)
        form = "%Y-%m-%d" if per.endswith(("d", "w", "mo", "y")) else "%Y-%m-%d %H:%M"
        first, last = (
            f"{datetime.fromtimestamp(figures.starts[each], zone):{form}}" for each in (0, -1)
        )
        begin = round(LEFT + (BARS - count) * step, 1)
        drawn.append(f'<text x="{begin}" y="{HEIGHT - 8}">{first if count > 12 else ""}</text>')
        drawn.append(f'<text x="{WIDTH - LEFT}" y="{HEIGHT - 8}" text-anchor="end">{last}</text>')
        words = f"last: {values[-1]:,} ± {around[-1]:,}"
    drawn.append(f'<text x="{LEFT}" y="20" font-weight="600">{escape(title)}</text>')
    drawn.append(f'<text x="{WIDTH - LEFT}" y="20" text-anchor="end">{words}</text>')
    return Tagged(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(f'{title}; {words} (95 %)')}</title><style>{_STYLE}</style>"
        f"{''.join(drawn)}</svg>".encode(),
        SVG,
    )


_LENGTHS = {"1h": "hour", "1d": "day", "1w": "week", "1mo": "month", "1y": "year"}


def _top(stream: PublicStream, query: TopQuery, reader: Reader) -> Tagged:
    per, published, ticks = slot_length(stream, query), stream.published(reader), stream.ticks
    start = end = None
    keys: list[TopKey] = []
    if (slot := _last_slot(stream, published, per)) is not None:
        start, end = map(ticks.local, slot)
        keys = [
            TopKey(each.key, each.value, each.low, each.high, not each.close, each.days)
            for each in published.top(since=slot[0], until=slot[1])
        ]
    unit = stream.status.description.unit.text
    listed = keys[: query.limit]
    return tagged_json(TopList(stream.name, per, ticks.zone, unit, start, end, listed))


def _last_slot(stream: PublicStream, published: Published, per: str) -> tuple[int, int] | None:
    """The ticks of the last slot that is over and whose keys are public."""
    hidden, ticks = published.description.hidden, stream.ticks
    lag = 0 if hidden is None else hidden.discovery.stages[0][0]
    last = published.first_tick + published.steps - 1 - lag
    begin = ticks.start_seconds(last + 1) - 3 * parse_duration(per)
    first = max(published.first_tick, ticks.at(begin))
    if last < first:
        return None
    with refusing("bad_query", "per must be made of whole ticks", (ParameterError,)):
        edges, at, _ = window_ticks(ticks, WindowCalendar(per=per, zone=ticks.zone), first, last)
    whole = np.flatnonzero(edges[1:] <= ticks.start_seconds(last + 1))
    return (int(at[whole[-1]]), int(at[whole[-1] + 1])) if len(whole) else None


def _package(stream: PublicStream, _query: Any, _reader: Reader) -> Tagged:
    kinds = {
        **dict.fromkeys(TIMES, "datetime"),
        **dict.fromkeys(("value", "low", "high"), "integer"),
        "partial": "boolean",
    }
    fields = [
        {"name": name, "type": kinds.get(name, "string")}
        for name in columns_of(stream.status.description)
    ]
    unit = stream.status.description.unit
    return tagged_json(
        {
            "profile": "data-package",
            "name": stream.name.lower(),
            "title": f"Counts of {stream.name} with differential privacy",
            "description": f"The true value lies from low to high 95 % of the time ({unit.covers})."
            f" The promise is made for {unit.text}.",
            "resources": [
                {
                    "name": "figures",
                    "path": "figures.csv",
                    "profile": "tabular-data-resource",
                    "format": "csv",
                    "mediatype": "text/csv",
                    "encoding": "utf-8",
                    "schema": {"fields": fields, "primaryKey": ["start", "end", "key"]},
                },
                {"name": "promise", "path": "promise.json", "format": "json"},
            ],
        }
    )


def _package_figures(stream: PublicStream, _query: Any, reader: Reader) -> Tagged:
    published = stream.published(reader)
    tables = published_tables(published) if published.steps else []
    rows: list[Any] = []
    for table in tables:
        newest = {name: column[-MOST_ROWS:] for name, column in table.items()}
        rows = [*rows, *table_rows(stream.name, newest, stream.ticks.zone)][-MOST_ROWS:]
    return Tagged(csv_text([columns_of(published.description), *rows]).encode(), CSV)


def _package_promise(stream: PublicStream, _query: Any, _reader: Reader) -> Tagged:
    status = stream.status
    return tagged_json(about_stream(status.description, status.loss, status.group))
