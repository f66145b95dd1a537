"""What other websites and tools show: a badge, a chart, a list of the largest keys, and a data
package. They are made of published figures, and hold until the next publication."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from html import escape
from zoneinfo import ZoneInfo

import numpy as np

from fadecount.durations import parse_duration
from fadecount.service.answers import Badge, TopKey, TopList
from fadecount.service.http import CSV, Tagged, tagged_json
from fadecount.service.read_routes import ReadRequest, slot_length
from fadecount.service.reader_pool import PublicStream
from fadecount.streams.description import TOTAL
from fadecount.streams.export import (
    TIMES,
    about_stream,
    columns_of,
    csv_text,
    published_tables,
    table_rows,
)
from fadecount.streams.published import Figures, no_figures

SVG = "image/svg+xml"
NARROW = " ,.:fijlrt"
"""Letters of a badge that take 4 of its pixels; the others take 6.8."""

BARS = 30
KEYS_IN_CSV = (
    "A key that begins with = + - @, also after apostrophes, has one more apostrophe first."
)
MOST_ROWS = 50_000
"""Rows of a data package: those of the newest slots."""


def get_badge(request: ReadRequest) -> Tagged:
    """A badge with the last whole slot, as a picture."""
    badge = _badge(request)
    texts = (badge.label, badge.message)
    left, right = (round(sum(4 if c in NARROW else 6.8 for c in text)) + 12 for text in texts)
    middles = (left / 2, left + right / 2)
    written = "".join(
        f'<text x="{middle}" y="14" textLength="{width - 12}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text)}</text>"
        for text, middle, width in zip(texts, middles, (left, right), strict=True)
    )
    return _picture(
        f'width="{left + right}" height="20"',
        ": ".join(texts),
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#444b54"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="#1a6fb0"/></g>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif"'
        f' font-size="11">{written}</g>',
    )


def get_badge_text(request: ReadRequest) -> Tagged:
    """The text of the badge, in the form of shields.io endpoints."""
    return tagged_json(_badge(request))


def _badge(request: ReadRequest) -> Badge:
    stream, label = request.stream, _label(request.stream)
    per, figures, at = _bars(request, 1)
    if not len(figures):
        return Badge(label=label, message="soon")
    begin, end = (_local(stream, int(each[-1])) for each in (figures.starts, figures.ends))
    if per == "1d":
        today = _local(stream, stream.ticks.start_seconds(stream.through or 0)).date()
        slot = "yesterday" if end.date() == today else f"on {begin:%Y-%m-%d}"
    elif per in ("1mo", "1y"):
        slot = f"in {begin:%Y-%m}" if per == "1mo" else f"in {begin:%Y}"
    else:
        slot = f"from {begin:%Y-%m-%d %H:%M}, {per}"
    value, around = int(figures.values[-1, at]), int(figures.half_widths[-1, at])
    return Badge(label=f"{label} {slot}", message=f"{value:,} ± {around:,}")


_STYLE = """
:root{color-scheme:light dark}.c{fill:#fff}
text{font:15px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#39424e}
.b{fill:#1a6fb0}.p{fill:#8db9da}.w{stroke:#14283a;stroke-width:1.5}.g{stroke:#c9d1d9}
@media(prefers-color-scheme:dark){
.c{fill:#15191e}text{fill:#c4ccd6}.b{fill:#5aa9e6}.p{fill:#33607f}.w{stroke:#e8eef4}.g{stroke:#3d4652}}
"""
_LENGTHS = {"1h": "hour", "1d": "day", "1w": "week", "1mo": "month", "1y": "year"}
WIDTH, HEIGHT, TOP, FOOT, LEFT = 480, 220, 36, 26, 8


def get_chart(request: ReadRequest) -> Tagged:
    """The last 30 whole slots as a picture, light or dark as the reader prefers."""
    per, figures, at = _bars(request, BARS)
    count, base = len(figures), HEIGHT - FOOT
    values, around = (each[:, at].tolist() for each in (figures.values, figures.half_widths))
    most = max([1, *map(sum, zip(values, around, strict=True))])

    def y(value: float) -> float:
        return round(base - (base - TOP) * max(0, value) / most, 1)

    step = (WIDTH - 2 * LEFT) / BARS
    drawn = [
        f'<style>{_STYLE}</style><rect class="c" width="100%" height="100%" rx="6"/>'
        f'<line class="g" x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{base}" y2="{base}"/>'
    ]
    bars = zip(values, around, figures.shown_status, strict=True)
    for place, (value, half, status) in enumerate(bars, start=BARS - count):
        x, middle = round(LEFT + place * step, 1), round(LEFT + (place + 0.5) * step - 1.5, 1)
        drawn.append(
            f'<rect class="{"b" if status == "final" else "p"}" x="{x}" y="{y(value)}"'
            f' width="{round(step - 3, 1)}" height="{round(base - y(value), 1)}"/>'
            f'<line class="w" x1="{middle}" x2="{middle}" y1="{y(value - half)}"'
            f' y2="{y(value + half)}"/>'
        )
    title, caption = (
        f"{_label(request.stream)} per {_LENGTHS.get(per, per)}",
        "nothing published yet",
    )
    if count:
        form = "%Y-%m-%d" if per.endswith(("d", "w", "mo", "y")) else "%Y-%m-%d %H:%M"
        first, last = (f"{_local(request.stream, figures.starts[each]):{form}}" for each in (0, -1))
        begin = round(LEFT + (BARS - count) * step, 1)
        drawn.append(f'<text x="{begin}" y="{HEIGHT - 8}">{first if count > 12 else ""}</text>')
        drawn.append(f'<text x="{WIDTH - LEFT}" y="{HEIGHT - 8}" text-anchor="end">{last}</text>')
        caption = f"last: {values[-1]:,} ± {around[-1]:,}"
    drawn.append(f'<text x="{LEFT}" y="20" font-weight="600">{escape(title)}</text>')
    drawn.append(f'<text x="{WIDTH - LEFT}" y="20" text-anchor="end">{caption}</text>')
    return _picture(f'viewBox="0 0 {WIDTH} {HEIGHT}"', f"{title}; {caption} (95 %)", "".join(drawn))


def _picture(size: str, title: str, drawn: str) -> Tagged:
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return Tagged(f"{start}<title>{escape(title)}</title>{drawn}</svg>".encode(), SVG)


def _label(stream: PublicStream) -> str:
    """What is counted: the end of the stream's name."""
    return stream.name.rpartition("_")[2]


def _local(stream: PublicStream, moment: float) -> datetime:
    return datetime.fromtimestamp(moment, ZoneInfo(stream.ticks.zone))


def _last_slots(request: ReadRequest, most: int, *, lag: int = 0) -> tuple[str, Figures]:
    """The length of slots, and the last whole ones that were over ``lag`` ticks ago, oldest
    first."""
    stream, published = request.stream, request.published
    per = slot_length(stream, request.query.per)
    end = published.first_tick + published.steps - lag
    if end <= published.first_tick:
        published.description.require_sum(per)
        return per, no_figures(len(published.keys))
    over = stream.ticks.start_seconds(end)
    begin = stream.ticks.at(over - (most + 2) * parse_duration(per))
    figures = published.figures(per, since=max(stream.status.shown_from, begin), until=end)
    is_whole = ~figures.partial & (figures.ends <= over)
    return per, figures.chosen(np.flatnonzero(is_whole)[-most:])


def _bars(request: ReadRequest, most: int) -> tuple[str, Figures, int]:
    """The last slots with figures of the key that was asked for, or of all together, and its
    column."""
    keys, key = request.stream.keys, request.query.key
    if key is None and len(keys) > 1:
        request = replace(request, published=request.published.together())
    per, figures = _last_slots(request, most)
    if not keys:
        return per, no_figures(1), 0
    at = 0 if key is None else request.positions[0]
    return per, figures.chosen(np.flatnonzero(figures.known.any(axis=1))), at


def get_top(request: ReadRequest) -> Tagged:
    """The keys with the largest figures of the last whole slot."""
    stream, published, ticks = request.stream, request.published, request.stream.ticks
    description = stream.status.description
    lag = 0 if description.hidden is None else description.hidden.discovery.stages[0][0]
    per, slots = _last_slots(request, 1, lag=lag)
    listed = TopList(stream.name, per, ticks.zone, description.unit.text, None, None, [])
    if len(slots):
        start, end = (ticks.at(int(each[0])) for each in (slots.starts, slots.ends))
        keys = [
            TopKey(each.key, each.value, each.low, each.high, not each.close, each.days)
            for each in published.top(since=start, until=end)[: request.query.limit]
        ]
        listed = replace(listed, start=ticks.local(start), end=ticks.local(end), keys=keys)
    return tagged_json(listed)


def get_package(request: ReadRequest) -> Tagged:
    """The stream as a data package (Frictionless): where its figures and its promise are, and what
    the columns mean."""
    kinds = {
        **dict.fromkeys(TIMES, "datetime"),
        **dict.fromkeys(("value", "low", "high"), "integer"),
        "partial": "boolean",
    }
    description = request.stream.status.description
    columns = columns_of(description)
    figures = {
        "name": "figures",
        "path": "figures.csv",
        "profile": "tabular-data-resource",
        "format": "csv",
        "mediatype": "text/csv",
        "encoding": "utf-8",
        "schema": {
            "fields": [
                {
                    "name": name,
                    "type": kinds.get(name, "string"),
                    **({"description": KEYS_IN_CSV} if name == "key" else {}),
                }
                for name in columns
            ],
            "primaryKey": ["start", "end", "key"],
        },
    }
    unit = description.unit
    package = {
        "profile": "data-package",
        "name": description.name.lower(),
        "title": f"Counts of {description.name} with differential privacy",
        "description": "The true value lies from low to high 95 % of the time"
        f" ({description.covers}). The promise is made for {unit.text}.",
        "resources": [figures, {"name": "promise", "path": "promise.json", "format": "json"}],
    }
    return tagged_json(package)


def get_package_figures(request: ReadRequest) -> Tagged:
    """The figures of the data package: of every day (or of the largest blocks below), the newest
    50,000 rows."""
    stream, published, ticks = request.stream, request.published, request.stream.ticks
    # so many slots hold these rows; what is before them is not read
    most, per = MOST_ROWS // max(1, len(stream.keys)) + 2, published.description.default_per
    length = ticks.tick_seconds if per == TOTAL else parse_duration(per)
    has_levels = bool(published.description.levels)  # then each level has its own first figure
    earliest = published.first_tick if has_levels else stream.status.shown_from
    begin = ticks.start_seconds(published.first_tick + published.steps) - most * length
    since = ticks.at(begin) if begin > ticks.start_seconds(earliest + 1) else None
    rows: list[tuple[object, ...]] = []
    for table in published_tables(published, since=since) if published.steps else ():
        newest = {name: column[-MOST_ROWS:] for name, column in table.items()}
        rows = [*rows, *table_rows(stream.name, newest, ticks.zone)][-MOST_ROWS:]
    return Tagged(csv_text([columns_of(published.description), *rows]).encode(), CSV)


def get_package_promise(request: ReadRequest) -> Tagged:
    """The promise of the data package: the protected unit, and what it loses by which age."""
    status = request.stream.status
    return tagged_json(about_stream(status.description, status.group))
