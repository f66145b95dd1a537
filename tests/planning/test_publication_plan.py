"""What the plan of a publication says: figures, widths that are measured, losses, and sentences."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fadecount as fc
from fadecount.mechanisms import Blocks
from fadecount.planning.publication_file import parse_publication
from fadecount.planning.publication_plan import PublicationPlan

EVENT = """
zone = "UTC"
start = 2026-03-01
tick = "5m"
unit = { of = "event" }
loss = { 1h = 0.5, 30d = 2, ever = 4 }
[measures.visits]
per = ["5m", "1h", "1d", "1mo"]
"""
RIDES = """
zone = "Europe/Vienna"
start = 2026-03-01
unit = { of = "person", each = "1d", max_events = 2 }
delta = 1e-9
loss = { 7d = 2, ever = 4 }
[measures.rides]
key = "station"
keys = ["north", "south"]
overall = true
per = ["1h", "1d", "1mo"]
[measures.riders]
count = "persons"
per = ["1h", "1d"]
[measures.pages]
count = "persons"
key = "page"
discover = true
[measures.minutes]
sum = "minutes"
max = 120
share = 2
"""
GOLDEN = Path(__file__).with_name("publication_plans.json")


def plan_of(text: str) -> PublicationPlan:
    return parse_publication(text, name="made").plan()


def test_the_same_file_gives_the_same_plan() -> None:
    """On every machine: budgets have few digits, so that no rounding decides."""
    for each in json.loads(GOLDEN.read_text(encoding="utf-8")):
        found = plan_of("\n".join(each["file"])).series
        assert [described(series) for series in found] == each["series"]


def described(series: Any) -> dict[str, Any]:
    levels = [
        [level.length, *([stage.lag, stage.millionths] for stage in level.stages)]
        for level in getattr(series.mechanism, "levels", ())
    ]
    selection = series.selection and [*map(list, series.selection.stages)]
    return {
        "part": [series.measure, series.part],
        "weight": series.weight,
        "shifts": [*series.shifts],
        "levels": levels,
        "running": None if levels else json.loads(series.mechanism.to_json()),
        "selection": selection,
    }


def test_the_plan_of_the_example() -> None:
    """What everybody can check: an hour 2.2, a day 1.2 then .8, a month .8, so far today 15 to 17
    (standard errors), to 10 %."""
    plan = plan_of(EVENT)
    (series,) = plan.series
    assert isinstance(series.mechanism, Blocks)
    errors = [
        [
            series.mechanism.figure_variance(number, stage) ** 0.5
            for stage in range(len(each.stages))
        ]
        for number, each in enumerate(series.mechanism.levels)
    ]
    assert errors[1][-1] == pytest.approx(2.2, rel=0.1)
    assert errors[2] == pytest.approx([1.2, 0.8], rel=0.1)
    assert errors[3] == pytest.approx([0.8], rel=0.1)
    times = 360 * 288 + np.arange(1, 288)
    variances = [series.mechanism.window_variance(360 * 288, int(each)) for each in times]
    assert 15 <= math.sqrt(np.mean(variances)) <= 17
    assert plan.losses == [(0, 0.5), (3900, 2.0), (2_592_300, 4.0)]
    assert [plan.loss(age) for age in ("1h", "65m", "30d", "31d", "ever")] == [0.5, 2, 2, 4, 4]


def test_figures_say_when_and_what_is_lost_by_then() -> None:
    plan = plan_of(RIDES)
    found: Any = [(each.per, each.status, each.lag_seconds, each.loss) for each in plan.figures[:4]]
    assert found == [
        ("1h", "final", 0, pytest.approx(0.31184)),
        ("1d", "provisional", 0, pytest.approx(2, abs=1e-3)),
        ("1d", "final", 6 * 86_400 + 3600, pytest.approx(4, abs=1e-3)),
        ("1mo", "final", 6 * 86_400 + 3600, pytest.approx(4, abs=1e-3)),
    ]
    assert {(each.measure, each.part) for each in plan.figures} == {
        ("rides", "keys"),
        ("rides", "overall"),
        ("riders", "keys"),
        ("minutes", "keys"),
    }  # pages has no declared keys
    assert [(each.lag_seconds, each.persons_95) for each in plan.hidden] == [(0, 59), (522_000, 31)]
    assert all(each.loss <= 4 for each in plan.figures)
    assert [each.measure for each in plan.so_far] == ["rides", "rides", "riders"]


def test_each_step_of_the_curve_has_its_own_age() -> None:
    assert plan_of(RIDES).sentences == [
        "One person's day, at most 2 events, loses by all measures together, by its age, at most:",
        "  nothing before 1 hour",
        "  ε = 0.32 from 1 hour on: a guess is right in at most 58 %",
        "  ε = 2.00 from 23 hours on: a guess is right in at most 89 %",
        "  ε = 4.00 from 1 week on: a guess is right in at most 99 %",
        "except with a chance of 1e-09 a day, with which a key appears that nobody else brought"
        " that day",
        "Other publications about the same people are not added up.",
    ]


def test_losses_are_those_before_an_age() -> None:
    """So a promise about an age is kept by the loss at that age."""
    for text in (EVENT, RIDES):
        made = parse_publication(text, name="made")
        for age, most in made.promise.items():
            assert made.loss(age) <= most
        assert made.loss("ever") >= 0.999 * made.promise["ever"]


def test_half_widths_are_those_of_the_noise_that_runs() -> None:
    """Two thousand days of nothing, counted: at least 95 % of the noise is within the half width,
    and fewer within one less; so far today at half of the day."""
    text = RIDES.replace("max_events = 2", "max_events = 1").replace('"Europe/Vienna"', '"UTC"')
    plan = plan_of(text)
    for series in (plan.series[0], plan.series[2]):
        blocks, days = series.mechanism, 2000
        assert isinstance(blocks, Blocks)
        counter = fc.Counter(blocks)
        counter.extend([0] * 24 * days)
        noise: dict[int, list[int]] = {}
        for each in counter.figures():
            if each.stage == 0:
                noise.setdefault(each.level, []).append(each.value)
        figures = [each for each in plan.figures_of(series) if not each.lag_seconds]
        for level, figure in enumerate(figures):
            values = np.abs(noise[level])
            slack = 5 * math.sqrt(0.05 * 0.95 / len(values))
            assert np.mean(values <= figure.half_width) >= 0.95 - slack
            assert np.mean(values < figure.half_width) <= 0.95 + slack
            expected = blocks.figure_variance(level, 0) ** 0.5
            assert np.std(noise[level]) == pytest.approx(expected, rel=0.1)
        today = plan.so_far_of(series)
        assert today is not None
        hours = np.array(noise[0]).reshape(days, 24)
        half = np.abs(hours[:, :12].sum(axis=1))
        assert 0.92 <= np.mean(half <= today.half_width) <= 0.98
        late = np.abs(hours[:, :23].sum(axis=1))
        assert 0.93 <= np.mean(late <= today.at_worst) <= 0.97


def test_tight_first_limits_get_hints_with_numbers() -> None:
    minutes = EVENT.replace('"5m"', '"1m"')
    assert plan_of(minutes).hints == [
        "made so far today is ± 50; it would be ± 30 every five minutes, or ± 37 with nothing"
        " before 1 hour (1h = 0)".replace("made", "visits")
    ]
    assert plan_of(EVENT).hints == [
        "visits so far today is ± 30; it would be ± 22 with nothing before 1 hour (1h = 0)"
    ]
    assert plan_of(EVENT.replace('"5m", "1h", ', "")).hints == []
    assert plan_of(EVENT.replace("1h = 0.5, 30d = 2, ", "")).hints == []
    odd = minutes.replace("= 2026-03-01", "= 2026-03-01T00:01:00")  # five minutes do not fit
    assert plan_of(odd).hints == [
        "visits so far today is ± 50; it would be ± 37 with nothing before 1 hour (1h = 0)"
    ]


def test_a_running_total_is_told_by_age() -> None:
    text = EVENT.replace("per = [", 'mechanism = "gradual"\nper = [')
    plan = plan_of(text)
    (figure,) = plan.figures
    assert (figure.per, figure.lag_seconds) == ("total", 0)
    assert not plan.so_far and not plan.hidden
    assert len(plan.sentences) == 7 and plan.sentences[1].startswith("  ε = 0.")
    assert plan.sentences[-2].startswith("  ε = 4.00 ever")
    for written, most in plan.publication.promise.items():
        assert plan.loss(written) <= most
    mechanism = plan.series[0].mechanism
    for age in (12, 8640, 1 << 59):
        assert plan.series[0].millionths(age) >= 1_000_000 * mechanism.loss(age)
    late = plan_of(text.replace("1h = 0.5", "1h = 0"))
    assert late.figures[0].lag_seconds == 65 * 60 and late.loss("1h") == 0


def test_json_has_what_the_table_has() -> None:
    said = json.loads(json.dumps(plan_of(RIDES).to_json()))
    assert {*said["figures"][0]} == {
        *("measure", "per", "part", "status", "lag_seconds", "half_width", "loss"),
    }
    assert said["loss"][-1] == {"age_seconds": 604_800, "loss": pytest.approx(4, abs=1e-3)}
    assert said["delta"] == 1e-9 and said["hidden_keys"][0]["threshold"] == 53
