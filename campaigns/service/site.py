"""Thirty days of a small website: 2,000 visits a day to 300 pages with a long tail. How far are the
figures from the truth, and which pages appear? ``python -m campaigns.service.site`` (``make
site``)."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fadecount.service.website import LATER_DAYS, STREAMS, Websites
from fadecount.streams import Batch, SQLiteStore, Stream
from fadecount.streams.published import Published

DOMAIN = "example.org"
PAGES, VISITS, MEAN_VISITS = 300, 2000, 2.5
FIRST_DAY = 20_000


@dataclass(frozen=True, slots=True)
class Report:
    """Median errors of days, as parts of the truth; the part of the shown pages whose interval
    holds what was counted; how many pages of a day appear when it is over, and finally; and how
    many of those appeared that one visitor alone saw."""

    visits: float
    visitors: float
    within: float
    next_day: float
    finally_: float
    ever: int
    alone: int

    @property
    def text(self) -> str:
        return (
            f"visits: median error {self.visits:.2%}, visitors: {self.visitors:.2%}; of shown"
            f" pages {self.within:.1%} are within their intervals; {self.next_day:.1f} pages of a"
            f" day appear when it is over, {self.finally_:.1f} in the end, {self.ever} on some day;"
            f" {self.alone} of those that one visitor alone saw"
        )


def day_of(chance: np.random.Generator) -> list[tuple[int, str]]:
    """The visits of a day, each with its visitor: how many each makes is geometric, page n has a
    share of 1/n, and one visitor in 50 sees a page that nobody else sees."""
    shares = 1.0 / np.arange(1, PAGES + 1)
    visits: list[tuple[int, str]] = []
    visitor = 0
    while len(visits) < VISITS:
        size = chance.geometric(1 / MEAN_VISITS)
        pages = chance.choice(PAGES, size=size, p=shares / shares.sum()).tolist()
        visits += [(visitor, f"/page/{page}" if page else "/") for page in pages]
        if visitor % 50 == 0:
            visits.append((visitor, f"/only/{chance.integers(1 << 40)}"))
        visitor += 1
    return visits


def simulate(days: int, seed: int, folder: Path) -> Report:
    """Count these days as the service does, close them all, and compare."""
    chance = np.random.default_rng(seed)
    errors: dict[str, list[float]] = {"visits": [], "visitors": []}
    with SQLiteStore(folder / "site.db") as store:
        streams: dict[str, Stream] = {}
        for described, keys in Websites(domains=(DOMAIN,)).streams(DOMAIN):
            kind = described.name.rpartition("_")[2]
            first = described.ticks.first_from(FIRST_DAY * 86_400)
            streams[kind] = store.create(described, keys=keys, start_tick=first)
        truth, counted, lone = [], [], set[str]()
        for _ in range(days):
            visits = day_of(chance)
            truth.append({"visits": len(visits), "visitors": len({who for who, _ in visits})})
            seen: dict[int, list[str]] = {}
            for who, page in visits:
                own = seen.setdefault(who, [])
                if page not in own and len(own) < STREAMS["pages"].unit.keys:
                    own.append(page)
            counted.append(Counter(page for own in seen.values() for page in own))
            lone |= {page for _, page in visits if page.startswith("/only/")}
            for kind, stream in streams.items():
                stream.add_many(
                    Batch(counts={page if kind == "pages" else "all": 1}, person=str(who))
                    for who, page in visits
                )
                per_day = 86_400 // stream.description.ticks.tick_seconds
                stream.close_through(stream.open_tick + per_day - 1)
        for kind, stream in streams.items():
            per_day = 86_400 // stream.description.ticks.tick_seconds
            published = _published(store, stream)
            for number, value in enumerate(published.figures("1d").values[:, 0].tolist()):
                if kind in errors:
                    true = truth[number][kind]
                    errors[kind].append(abs(value - true) / true)
        pages = _published(store, streams["pages"])
        after = pages.first_tick
        fresh = [
            len(pages.discovered(since=day, until=day + 1, as_of=day + 1)["key"])
            for day in range(after, after + days)
        ]
        table = pages.discovered()
        final = table["start"] < (FIRST_DAY + days - LATER_DAYS) * 86_400
        inside = [
            abs(counted[start // 86_400 - FIRST_DAY][key] - value) <= half
            for start, key, value, half in zip(
                table["start"].tolist(),
                table["key"].tolist(),
                table["value"].tolist(),
                (table["high"] - table["value"]).tolist(),
                strict=True,
            )
        ]
        shown = {*table["key"].tolist()}
    return Report(
        float(np.median(errors["visits"])),
        float(np.median(errors["visitors"])),
        float(np.mean(inside)),
        float(np.mean(fresh)),
        float(final.sum() / max(1, days - LATER_DAYS)),
        len(shown),
        len(shown & lone),
    )


def _published(store: SQLiteStore, stream: Stream) -> Published:
    published = store.reader().stream(stream.description.name)
    assert published is not None
    return published


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = simulate(arguments.days, arguments.seed, Path(folder))
    print(f"{arguments.days} days: {report.text}")
    assert report.visits < 0.03 and report.visitors < 0.03


if __name__ == "__main__":
    main()
