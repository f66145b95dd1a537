"""Views of published figures: days, weeks, totals, so far; bands, status and earlier vintages."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import fadecount as fc
from fadecount.calendar import level_calendar
from fadecount.counters import Counter
from fadecount.counters.figures import FigureMaker
from fadecount.errors import FadecountError, ParameterError, RemovedError
from fadecount.noise import DiscreteLaplace
from fadecount.streams import Description, Ticks
from fadecount.streams.figures import FigureRows
from fadecount.streams.published import FINAL, PROVISIONAL, REVISED, Figures, Published
from tests.counters.block_reference import NamedNoise as BlockNoise
from tests.false_alarm import EACH, explained
from tests.streams.memory import FiguresInMemory

VIENNA = "Europe/Vienna"
QUARTERS = Ticks(tick_seconds=900, zone=VIENNA)
DESIGN = fc.Blocks(
    fc.Level(1, 0.5),
    fc.Level(4, 0.5),
    fc.Level(96, 0.8, lag=5),
    fc.Level(2880, 0.4, lag=5, later=((300, 1.2), (900, 2.0))),
)
"""Quarters of an hour, hours, days and months that are revised once and then final."""


class NoNoise:
    """Every variable is 0."""

    def one(self, distribution: DiscreteLaplace, level: int, round_number: int, node: int) -> int:
        return 0

    def many(
        self, distribution: DiscreteLaplace, level: int, rounds: range, nodes: range, width: int
    ) -> NDArray[np.int64]:
        return np.zeros((len(rounds), len(nodes), width), dtype=np.int64)


def at(text: str, ticks: Ticks = QUARTERS) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ticks.zone))
    return ticks.at(moment.timestamp())


def published(
    counts: NDArray[np.int64],
    *,
    first: int,
    mechanism: fc.Mechanism = DESIGN,
    ticks: Ticks = QUARTERS,
    noise: Any = None,
) -> Published:
    """A stream in memory."""
    source, width = FiguresInMemory(), counts.shape[1]
    calendar = None
    if isinstance(mechanism, fc.Blocks):
        calendar = level_calendar(mechanism.lengths, ticks, first).reaching(len(counts))
        maker = FigureMaker(mechanism, calendar, width, noise)
        for made in maker.close(counts):
            source.add(
                FigureRows(
                    level=made.level,
                    stage=made.stage,
                    first_tick=first + int(made.starts[0]),
                    end_tick=first + int(made.ends[-1]),
                    values=made.values,
                )
            )
    else:
        counter = Counter._with_noise(mechanism, noise, width=width) if noise else None
        counter = counter or Counter(mechanism, shape=(width,))
        values = np.asarray(counter.extend(counts), dtype=np.int64)
        end = first + len(counts)
        source.add(FigureRows(level=0, stage=0, first_tick=first, end_tick=end, values=values))
    return Published(
        description=Description(name="s", mechanism=mechanism, ticks=ticks),
        keys=tuple(f"k{key}" for key in range(width)),
        first_tick=first,
        steps=len(counts),
        source=source.rows,
        calendar=calendar,
    )


def truth(stream: Published, counts: NDArray[np.int64], figures: Figures) -> NDArray[np.int64]:
    """What really happened in the slots, up to what is published."""
    sums = np.concatenate([np.zeros_like(counts[:1]), np.cumsum(counts, axis=0)])
    seconds = stream.description.ticks.tick_seconds
    low, high = (
        np.clip(each // seconds - stream.first_tick, 0, stream.steps)
        for each in (figures.starts, figures.ends)
    )
    between: NDArray[np.int64] = sums[high] - sums[low]
    return between


@pytest.fixture(scope="module")
def counts() -> NDArray[np.int64]:
    """Sixty days from before a change of the clocks on, for two keys."""
    return np.random.default_rng(26).poisson((1.0, 3.0), (96 * 60, 2)).astype(np.int64)


FIRST = at("2026-03-20T10:45")


class TestWithoutNoise:
    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    @pytest.mark.parametrize("per", ["15m", "30m", "1h", "3h", "1d", "2d", "1w", "1mo", "1y"])
    def test_every_slot_is_the_true_count(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism, per: str
    ) -> None:
        stream = published(counts, first=FIRST, mechanism=mechanism, noise=NoNoise())
        figures = stream.figures(per)
        assert np.array_equal(figures.values, truth(stream, counts, figures))
        assert figures.known.all()
        assert np.array_equal(np.unique(figures.starts), figures.starts)
        covered = (figures.starts >= FIRST * 900) & (figures.ends <= (FIRST + len(counts)) * 900)
        # a block is cut short by the beginning of the stream, not partial
        assert np.array_equal(figures.partial[1:], ~covered[1:])

    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    def test_a_stream_may_begin_before_1970(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism
    ) -> None:
        first = at("1969-12-20T10:45")
        stream = published(counts, first=first, mechanism=mechanism, noise=NoNoise())
        figures = stream.figures("1d")
        assert np.array_equal(figures.values, truth(stream, counts, figures))
        assert stream.total().values.tolist() == [counts.sum(axis=0).tolist()]
        assert len(stream.figures("1d", since=0)) < len(figures)

    def test_slots_that_begin_in_a_range(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST, noise=NoNoise())
        whole = stream.figures("1d")
        some = stream.figures("1d", since=at("2026-03-22"), until=at("2026-03-25"))
        assert len(some) == 3
        assert np.array_equal(some.values, whole.values[2:5])
        assert len(stream.figures("1d", since=at("2026-03-22T01:00"), until=at("2026-03-23"))) == 0
        assert len(stream.figures("1d", since=FIRST + len(counts))) == 0

    def test_a_key_that_is_declared_later_begins_with_the_next_blocks(
        self, counts: NDArray[np.int64]
    ) -> None:
        declared = 1234
        stream = published(counts, first=FIRST, noise=NoNoise())
        late = Published(
            **{
                name: getattr(stream, name)
                for name in Published.__slots__
                if name not in ("source", "key_steps")
            },
            source=_Narrow(stream, declared).rows,
            key_steps=((0, 0), (1, declared)),
        )
        counted = counts.copy()
        counted[:declared, 1] = 0
        for per in ("15m", "1h", "1d", "1w", "1mo"):
            figures = late.figures(per)
            exact = truth(late, counted, figures)
            assert np.array_equal(figures.values[:, 0], exact[:, 0]), per
            known = figures.known[:, 1]
            assert np.array_equal(figures.values[known, 1], exact[known, 1]), per
            begun_before = figures.starts < (FIRST + declared) * 900
            assert begun_before[~known].all(), per
            # what was published before stays published then
            before = stream.figures(per).published
            assert np.array_equal(figures.published[~known], before[~known]), per
        assert late.total().values.tolist() == [counted.sum(axis=0).tolist()]


class _Narrow(FiguresInMemory):
    """Figures without the last key in blocks (or running totals, in ticks) that begin before a
    step."""

    def __init__(self, stream: Published, step: int) -> None:
        self._stream, self._step = stream, step

    def rows(self, level: int, stage: int, first_tick: int, end_tick: int) -> Any:
        first = self._stream.first_tick
        for row in self._stream.source(level, stage, first_tick, end_tick):
            ends = self._stream._edges(level, row.first_tick - first, row.end_tick - first)
            begins = np.concatenate([[row.first_tick - first], ends[:-1]])
            split = np.searchsorted(begins, self._step)
            for part, width in ((slice(0, split), -1), (slice(split, None), None)):
                if len(ends[part]):
                    yield replace(
                        row,
                        first_tick=first + int(begins[part][0]),
                        end_tick=first + int(ends[part][-1]),
                        values=row.values[part, :width],
                    )


class TestTogether:
    @pytest.mark.parametrize(
        "mechanism",
        [DESIGN, fc.Gradual(epsilon=0.5, delay=3)],
        ids=["blocks", "tree"],
    )
    @pytest.mark.parametrize("declared", [0, 1234])
    def test_it_is_the_sum_of_the_keys(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism, declared: int
    ) -> None:
        """Exactly, with one band for both keys."""
        stream = published(counts, first=FIRST, mechanism=mechanism)
        if declared:
            stream = replace(
                stream,
                source=_Narrow(stream, declared).rows,
                key_steps=((0, 0), (1, declared)),
            )
        both = stream.together()
        questions: list[Callable[[Published], Figures]] = [
            *(partial(Published.figures, per=per) for per in ("1h", "1d", "1w", "1mo")),
            Published.total,
            lambda each: each.so_far("1d"),
            lambda each: each.window(FIRST + 1000, FIRST + 3000),
            lambda each: next(each.running(since=FIRST + 1200, until=FIRST + 1500)),
        ]
        for question in questions:
            apart, sums = question(stream), question(both)
            assert sums.values.shape == sums.half_widths.shape == (len(apart), 1)
            assert np.array_equal(sums.values, apart.values.sum(axis=1, keepdims=True))
            assert np.array_equal(sums.known, apart.known.any(axis=1, keepdims=True))
            widest, all_of_them = apart.half_widths.max(axis=1), apart.half_widths.sum(axis=1)
            assert (sums.half_widths[:, 0] >= widest).all()
            assert (sums.half_widths[:, 0] <= all_of_them).all()
            alone = apart.known.sum(axis=1) == 1
            assert np.array_equal(sums.half_widths[alone, 0], all_of_them[alone])
            assert np.array_equal(sums.status, apart.status)
        assert len(both.figures("1d", since=FIRST + len(counts))) == 0

    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    @pytest.mark.parametrize("keys", [2, 3, 40])
    def test_bands_hold_the_sum_as_often_as_they_say(
        self, mechanism: fc.Mechanism, keys: int
    ) -> None:
        """Hundreds of streams of few keys, as the keys of one: each sum holds all noises once."""
        streams, steps = min(200, 4000 // keys), 500
        counts = np.zeros((steps, streams * keys), dtype=np.int64)
        whole = published(counts, first=FIRST, mechanism=mechanism)
        figures = [
            replace(
                whole,
                keys=whole.keys[:keys],
                source=_Part(whole, range(number * keys, (number + 1) * keys)).rows,
            ).together()
            for number in range(streams)
        ]
        for per in ("1h", "3h", "1d"):
            found = [stream.figures(per) for stream in figures]
            inside = np.array([np.abs(each.values) <= each.half_widths for each in found])
            chance = float(stats.binom.cdf(inside.sum(), inside.size, 0.95))
            assert chance > EACH, explained(
                f"{per} of {keys} keys hold the truth too rarely", chance
            )
            if keys == 40 and inside.size > 10_000:
                assert inside.mean() < 0.96


class _Part(FiguresInMemory):
    """Figures of some of the keys."""

    def __init__(self, stream: Published, keys: range) -> None:
        self._stream, self._part = stream, slice(keys.start, keys.stop)

    def rows(self, level: int, stage: int, first_tick: int, end_tick: int) -> Any:
        for row in self._stream.source(level, stage, first_tick, end_tick):
            yield replace(row, values=row.values[:, self._part])


class TestStatus:
    def test_months_are_provisional_then_revised_then_final(
        self, counts: NDArray[np.int64]
    ) -> None:
        stream = published(counts, first=FIRST)
        end = at("2026-04-01")
        seen = {}
        for lag in (4, 5, 299, 300, 899, 900):
            month = stream.figures("1mo", as_of=end + lag)
            seen[lag] = (int(month.status[0]), int(month.published[0]) // 900 - end)
        assert seen == {
            4: (PROVISIONAL, 0),
            5: (PROVISIONAL, 5),
            299: (PROVISIONAL, 5),
            300: (REVISED, 300),
            899: (REVISED, 300),
            900: (FINAL, 900),
        }

    def test_the_open_slot_is_partial_and_provisional(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST)
        today = stream.so_far("1d")
        assert today.partial.tolist() == [True]
        assert today.status.tolist() == [PROVISIONAL]
        assert np.array_equal(today.values, stream.figures("1d").values[-1:])
        assert today.starts[0] <= (FIRST + len(counts)) * 900 < today.ends[0]

    @pytest.mark.parametrize(
        ("per", "day"),
        [("1h", "2026-04-02"), ("1d", "2026-04-02"), ("1w", "2026-04-06"), ("1mo", "2026-05-01")],
    )
    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    def test_the_open_slot_begins_where_the_one_before_ends(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism, per: str, day: str
    ) -> None:
        """When a day ends, nothing of the next one has happened: it is there, and empty."""
        stream = published(counts, first=FIRST, mechanism=mechanism)
        begin = at(day)
        slot = stream.so_far(per, as_of=begin)
        assert slot.starts.tolist() == [begin * 900] and slot.ends[0] > begin * 900
        assert not slot.values.any() and not slot.half_widths.any() and slot.known.all()
        assert slot.partial.tolist() == [True] and slot.status.tolist() == [PROVISIONAL]
        before = stream.so_far(per, as_of=begin - 1)
        assert before.ends.tolist() == [begin * 900]
        assert stream.so_far(per, as_of=begin + 1).starts.tolist() == [begin * 900]

    @pytest.mark.parametrize("per", ["1h", "6h", "1d", "1w", "1mo"])
    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    def test_a_part_is_what_the_whole_has_there(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism, per: str
    ) -> None:
        """The first slots of a range are computed alone."""
        stream = published(counts, first=FIRST, mechanism=mechanism)
        whole = stream.figures(per)
        begins = np.maximum(whole.starts // 900, FIRST)
        for since in (FIRST, FIRST + 1, FIRST + 777, at("2026-04-01"), FIRST + len(counts) - 1):
            there = np.flatnonzero(begins >= since)
            for most in (1, 2, 7, 10_000):
                part, same = stream.figures(per, since=since, most=most), there[:most]
                for name in (each.name for each in fields(Figures)):
                    found = getattr(part, name)
                    assert np.array_equal(found, getattr(whole, name)[same]), (since, most, name)

    def test_a_week_is_final_when_its_days_are(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST)
        weeks = stream.figures("1w")
        out = weeks.ends <= (FIRST + len(counts) - DESIGN.levels[2].lag) * 900
        assert np.array_equal(weeks.status[1:] == FINAL, out[1:] & ~weeks.partial[1:])


class TestVintages:
    @pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
    def test_what_was_published_then_is_what_a_shorter_stream_shows(
        self, counts: NDArray[np.int64], mechanism: fc.Mechanism
    ) -> None:
        whole = published(counts, first=FIRST, mechanism=mechanism)
        for steps in (1, 60, 1000, 3333):
            shorter = Published(
                **{name: getattr(whole, name) for name in Published.__slots__ if name != "steps"},
                steps=steps,
            )
            for per in ("1h", "1d", "1mo"):
                then, now = whole.figures(per, as_of=FIRST + steps), shorter.figures(per)
                for name in (each.name for each in fields(Figures)):
                    assert np.array_equal(getattr(then, name), getattr(now, name)), (per, name)
            total = whole.totals([FIRST + steps], as_published=True)
            assert np.array_equal(total.values, shorter.total().values)
            assert np.array_equal(total.half_widths, shorter.total().half_widths)

    def test_totals_now_are_sharper_than_those_published_then(
        self, counts: NDArray[np.int64]
    ) -> None:
        stream = published(counts, first=FIRST)
        days = [at(f"2026-04-{day:02}") for day in (2, 8, 15)]
        now, then = (stream.totals(days, as_published=flag) for flag in (False, True))
        assert (now.half_widths < then.half_widths).all()

    def test_the_future_and_what_was_removed_are_refused(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST)
        with pytest.raises(ParameterError, match="as_of must be from"):
            stream.figures("1d", as_of=FIRST + len(counts) + 1)
        kept = Published(
            **{name: getattr(stream, name) for name in Published.__slots__ if name != "kept"},
            kept=(at("2026-04-02"), FIRST, FIRST, FIRST),
        )
        with pytest.raises(RemovedError, match="were removed"):
            kept.total(as_of=at("2026-04-01T23:45"))
        assert len(kept.total(as_of=at("2026-04-02")))
        with pytest.raises(ParameterError, match="where the stream began"):
            stream.totals([FIRST - 1])

    def test_totals_of_a_tree_that_were_removed(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST, mechanism=fc.Gradual(epsilon=0.5))
        kept = Published(
            **{name: getattr(stream, name) for name in Published.__slots__ if name != "kept"},
            kept=(FIRST + 500,),
        )
        with pytest.raises(RemovedError, match="were removed"):
            list(kept.running(since=FIRST))
        pieces = list(kept.running())
        assert pieces[0].ends[0] == (FIRST + 501) * 900
        assert np.array_equal(
            np.concatenate([piece.values for piece in pieces]),
            np.concatenate([piece.values for piece in stream.running(since=FIRST + 500)]),
        )

    def test_running_totals_are_the_totals_as_published(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts[:700], first=FIRST)
        (piece,) = stream.running(since=FIRST + 100, until=FIRST + 300)
        ticks = np.arange(FIRST + 101, FIRST + 301)
        totals = stream.totals(ticks, as_published=True)
        assert np.array_equal(piece.values, totals.values)
        assert np.array_equal(piece.half_widths, totals.half_widths)
        (same,) = stream.running(since=FIRST + 100, until=FIRST + 900, as_of=FIRST + 300)
        assert np.array_equal(same.values, totals.values)


class TestNews:
    def test_slots_with_news_are_those_whose_figures_came_out_since(
        self, counts: NDArray[np.int64]
    ) -> None:
        stream = published(counts, first=FIRST)
        for per in ("15m", "1h", "1d", "1mo", "1w", "3h"):
            for steps in (0, 1, 700, 2000, 3001, len(counts) - 1):
                news = stream.figures(per, news_since=FIRST + steps)
                whole = stream.figures(per)
                expected = whole.chosen(whole.published > (FIRST + steps) * 900)
                assert news.starts.tolist() == expected.starts.tolist(), (per, steps)
                assert np.array_equal(news.values, expected.values)
        assert len(stream.figures("1d", news_since=FIRST)) == len(stream.figures("1d"))

    def test_a_view_is_published_with_the_last_figure_in_it(
        self, counts: NDArray[np.int64]
    ) -> None:
        """As of that tick its value is what it is now; a tick before, it was often another one."""
        stream = published(counts, first=FIRST, noise=BlockNoise(3))
        weeks, changed = stream.figures("1w"), 0
        for week in range(1, len(weeks)):
            out = int(weeks.published[week]) // 900
            now, before = (stream.figures("1w", as_of=tick) for tick in (out, out - 1))
            assert np.array_equal(now.values[week], weeks.values[week]), week
            changed += not np.array_equal(before.values[week], weeks.values[week])
        assert changed > 2


def test_slots_inside_the_smallest_blocks_are_refused() -> None:
    """Nothing is known about a part of a block: neither a number nor a band would hold."""
    mechanism = fc.Blocks(fc.Level(4, 0.5), fc.Level(24, 0.5, lag=5), fc.Level(96, 0.5, lag=5))
    counts = np.ones((96 * 9, 1), dtype=np.int64)
    stream = published(counts, first=at("2026-03-20"), mechanism=mechanism, noise=NoNoise())
    for per in ("15m", "30m", "90m"):
        with pytest.raises(ParameterError, match="per must be made of whole blocks of 1h, got"):
            stream.figures(per)
        with pytest.raises(ParameterError, match="the stream publishes 1h, 6h, 1d"):
            stream.check_per(per)
    for per, length in (("2h", 8), ("12h", 48), ("1h", 4), ("6h", 24), ("1d", 96)):
        stream.check_per(per)
        assert set(stream.figures(per).values[1:-1].ravel().tolist()) == {length}
    begin = stream.first_tick
    cut = stream.window(begin + 1, begin + 12)
    assert (cut.values.tolist(), cut.partial.tolist()) == ([[8]], [True])


class TestSums:
    def test_a_week_is_the_sum_of_its_days(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST)
        week = (at(f"2026-04-{day:02}") for day in range(6, 14))
        days = [stream.window(low, high).values[0] for low, high in itertools.pairwise(week)]
        whole = stream.window(at("2026-04-06"), at("2026-04-13")).values[0]
        assert np.array_equal(sum(days), whole)

    def test_a_window_outside_is_cut(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST, noise=NoNoise())
        whole = stream.window(FIRST - 10, FIRST + len(counts) + 10)
        assert whole.partial.tolist() == [True]
        assert whole.values.tolist() == [counts.sum(axis=0).tolist()]
        assert len(stream.window(FIRST - 10, FIRST - 5)) == 0

    def test_an_incomplete_store_is_refused(self, counts: NDArray[np.int64]) -> None:
        stream = published(counts, first=FIRST)
        empty = Published(
            **{name: getattr(stream, name) for name in Published.__slots__ if name != "source"},
            source=FiguresInMemory().rows,
        )
        with pytest.raises(FadecountError, match="incomplete"):
            empty.window(FIRST + 1, FIRST + 2)


@pytest.mark.parametrize("mechanism", [DESIGN, fc.Gradual(epsilon=0.5)], ids=["blocks", "tree"])
def test_bands_hold_the_truth_as_often_as_they_say(mechanism: fc.Mechanism) -> None:
    """One value per key and view: keys are independent."""
    keys = 4000
    counts = np.random.default_rng(5).integers(0, 3, (96 * 9, 1)).repeat(keys, axis=1)
    stream = published(counts, first=FIRST, mechanism=mechanism)
    end = FIRST + len(counts)
    views = {
        "an hour": stream.figures("1h").chosen(slice(30, 31)),
        "a day": stream.figures("1d").chosen(slice(2, 3)),
        "so far": stream.so_far("1d"),
        "total": stream.total(),
        "total then": stream.totals([end - 150], as_published=True),
        "last 24 hours": stream.window(end - 96, end),
        "a week": stream.figures("1w").chosen(slice(1, 2)),
    }
    for name, figures in views.items():
        inside = np.abs(figures.values - truth(stream, counts, figures)) <= figures.half_widths
        if name == "total then":
            exact = counts[: len(counts) - 150].sum(axis=0)
            inside = np.abs(figures.values - exact) <= figures.half_widths
        held = int(inside.sum())
        chance = stats.binomtest(held, keys, 0.95, alternative="less").pvalue
        assert chance > EACH, explained(f"{name} held {held} of {keys}", chance)
        # and not much wider than they need to be: discrete noise on a coarse lattice
        assert held < 0.999 * keys or figures.half_widths.max() <= 3, name
