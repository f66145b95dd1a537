"""Plans keep what they promise in both directions, and say so truthfully."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import fadecount as fc
from fadecount.durations import parse_duration
from fadecount.errors import ParameterError
from fadecount.planning import plan_json, save_plan
from fadecount.streams import Description, Ticks
from tests.planning.oracles import limit_at

YEAR = 525_600
TARGETS = {60: 0.5, 43_200: 2.0, YEAR: 4.0}


@pytest.fixture(scope="module")
def late() -> fc.Plan:
    return fc.plan(TARGETS, horizon=YEAR, delay=60, tick="1m")


def test_losses_given_every_option_keeps_them_and_the_best_has_least_error(late: fc.Plan) -> None:
    assert late.best.name == "blocks"
    assert late.mechanism is late.best.mechanism
    every_minute = [option for option in late.options if " every " not in option.name]
    means = [option.error for option in every_minute if " for " not in option.name]
    assert means == sorted(means)
    assert late.best.error <= 1.06 * min(option.error for option in every_minute)
    assert {option.mechanism.delay for option in late.options} == {60}
    assert {option.mechanism.kind for option in late.options} == {"blocks", "gradual"}
    for option in late.options:
        assert all(
            option.mechanism.loss(age) <= limit_at(TARGETS, age)
            for age in (0, 59, 60, 61, 43_200, 43_201, YEAR)
        )
        used = max(option.mechanism.loss(age) / loss for age, loss in TARGETS.items())
        assert used == pytest.approx(1.0, abs=1e-6)
        assert option.mechanism.loss(59) == 0.0


def test_errors_are_those_of_the_mechanism(late: fc.Plan) -> None:
    assert all(option.error == math.sqrt(option.mechanism.mse(YEAR)) for option in late.options)


def test_reasons_are_one_sentence_each_and_true(late: fc.Plan) -> None:
    best = late.best
    assert best.reason.startswith("has nearly the least error")
    for option in late.options:
        assert option.reason.endswith(".")
        assert (
            option.reason.count(".") - option.reason.count("0.") - option.reason.count("1.5") <= 4
        )
    last = late.options[-1]
    more = 100 * (last.error / best.error - 1)
    assert f"{more:.3g} % more error" in last.reason


@pytest.mark.parametrize("value", [100.0, 0.4])
def test_error_given_every_option_has_it_and_the_best_loses_least(value: float) -> None:
    made = fc.plan(horizon=10_000, mean_error=value)
    losses = [option.mechanism.loss(10_000) for option in made.options]
    assert losses == sorted(losses)
    for option in made.options:
        assert value * (1 - 1e-4) <= option.error <= value  # no more private one has it


def test_both_given_options_keep_both_and_lose_no_more_than_they_must() -> None:
    made = fc.plan(TARGETS, mean_error=60)
    assert made.best.error == pytest.approx(60, rel=1e-5)
    assert made.best.mechanism.loss(60) < 0.2
    assert "loses least" in made.best.reason
    names = {option.name for option in made.options if option.mechanism.kind == "gradual"}
    assert names == {"gradual 1.5"}  # the others need more than the losses
    with pytest.raises(ParameterError, match="mean_error must be"):
        fc.plan(TARGETS, mean_error=5)


def test_a_plan_for_a_person_limits_the_sum() -> None:
    made = fc.plan(TARGETS, horizon=YEAR, unit=fc.Unit(of="person", events=24, per="1d"))
    for option in made.options:
        assert all(loss <= limit_at(TARGETS, age) for age, loss in option.curve)
        assert option.mechanism.loss_of([1] * 24, now=YEAR + 1) <= 4.0


def test_targets_within_the_delay_are_kept_by_it() -> None:
    made = fc.plan({10: 0.5}, horizon=1000, delay=100)
    for option in made.options:
        assert option.mechanism.loss(99) == 0.0
        assert option.mechanism.loss(1000) <= 0.5


def test_the_oldest_target_is_the_horizon_if_none_is_given() -> None:
    assert fc.plan({0: 0.1, 500: 1.0}).request.horizon == 500


def test_durations_are_steps_of_the_tick() -> None:
    written = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4}, delay="1h")
    steps = fc.plan(tick=60, loss=TARGETS, delay=60)
    assert written == steps
    assert fc.plan(tick="7s", loss={"1m": 0.5, "1h": 1.0}).request.targets == ((9, 0.5), (515, 1.0))


def test_weights_of_figures_replace_hours_and_days() -> None:
    made = fc.plan(tick="1m", loss=TARGETS, figures={"10m": 20.0})
    assert isinstance(made.mechanism, fc.Blocks)
    assert 10 in [level.length for level in made.mechanism.levels]
    assert made.request.figures == ((10, 20.0),)


def test_the_papers_algorithm_comes_first_where_it_is_better() -> None:
    paper = fc.Gradual(epsilon=0.05, exponent=2.0)
    ages = [0, *(1 << power for power in range(10)), 1000]
    made = fc.plan({age: paper.loss(age) for age in ages})
    assert made.best.name == "gradual 2"
    assert any(option.name == "blocks" for option in made.options)


def test_five_minutes_are_offered_beside_one() -> None:
    made = fc.plan(tick="1m", loss=TARGETS)
    best, five = made.best, next(each for each in made.options if "every 5" in each.name)
    assert isinstance(best.mechanism, fc.Blocks)
    assert isinstance(five.mechanism, fc.Blocks)
    assert [level.length for level in five.mechanism.levels] == [5, 60, 1440, 43_200]
    assert five.error <= 16.9 < 0.74 * best.error
    assert "the total changes every 5 minutes" in five.reason
    assert not any("every" in each.name for each in fc.plan(tick="1h", loss={"1y": 1.0}).options)


# What is published when, and how exact
# ------------------------------------------------------------------------------------------------
def test_what_blocks_publish_when_and_what_is_lost_by_then() -> None:
    made = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4})
    assert isinstance(made.mechanism, fc.Blocks)
    rows = [(row.per, row.status, row.lag, row.loss) for row in made.published()]
    assert rows == [
        ("1m", "final", 0, 0.5),
        ("12m", "provisional", 0, 0.5),
        ("12m", "final", 61, 2.0),
        ("1h", "final", 61, 2.0),
        ("1d", "provisional", 61, 2.0),
        ("1d", "final", 43_201, 4.0),
        ("1mo", "final", 43_201, 4.0),
    ]
    stages = [
        (number, stage)
        for number, level in enumerate(made.mechanism.levels)
        for stage in range(len(level.stages))
    ]
    assert [row.half_width for row in made.published()] == [
        made.mechanism.figure_interval(*each) for each in stages
    ]


def test_losses_are_those_of_the_person() -> None:
    made = fc.plan(tick="1h", loss={"30d": 4.0}, unit=fc.Unit(of="person", events=3, per="1d"))
    blocks = made.mechanism
    assert isinstance(blocks, fc.Blocks)
    assert all(
        row.loss == pytest.approx(3 * blocks.loss(row.lag), abs=1e-9) for row in made.published()
    )


@pytest.mark.parametrize(("tick", "slot"), [("1h", 24), ("1d", 1)])
def test_nothing_is_spent_on_sums_of_distinct_persons(tick: str, slot: int) -> None:
    """The same people come every day, so no stream publishes their months: no loss goes there."""
    loss = {"7d": 2.0, "1y": 4.0}
    made = fc.plan(tick=tick, loss=loss, unit=fc.Unit(of="person", events=1, per="1d"))
    mechanism = made.mechanism
    assert isinstance(mechanism, fc.Blocks)
    assert mechanism.levels[-1].length == slot
    assert mechanism.loss(10 * 365 * slot) == 4.0
    assert "a month" not in [width.name for width in made.widths()]
    twice = fc.plan(tick=tick, loss=loss, unit=fc.Unit(of="person", events=2, per="1d"))
    assert isinstance(twice.mechanism, fc.Blocks)
    assert twice.mechanism.levels[-1].length == 30 * slot


def test_running_totals_are_one_row() -> None:
    made = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2, "1y": 4}, delay="5m")
    late = next(option for option in made.options if option.name.startswith("gradual"))
    (row,) = made.published(late)
    assert (row.per, row.length, row.status, row.lag) == ("total", None, "final", 5)
    assert row.loss == late.mechanism.loss(5)
    assert row.half_width == max(
        late.mechanism.window_interval(0, step + 5) for step in range(YEAR - 1439, YEAR + 1)
    )


def test_widths_are_exact_and_the_worst_of_the_day_is_among_them() -> None:
    made = fc.plan(tick="1h", loss={"1d": 0.5, "30d": 1, "1y": 2})
    for option in made.options:
        mechanism = option.mechanism
        today, hour, day, month, total = made.widths(option)
        assert [each.name for each in (today, hour, day, month, total)] == [
            "so far today",
            "an hour",
            "a day",
            "a month",
            "the total after 1 year",
        ]
        for start, live in ((8736, today), (0, total)):
            seen = sorted(mechanism.window_interval(start, end) for end in range(8737, 8761))
            assert live.half_width == pytest.approx(seen[11], abs=1)
            assert live.at_worst == pytest.approx(seen[-1], abs=1)
        for length, slot in ((1, hour), (24, day), (720, month)):
            end = 8760 // length * length
            if isinstance(mechanism, fc.Blocks):
                lengths = [level.length for level in mechanism.levels]
                level = lengths.index(length)
                last = len(mechanism.levels[level].stages) - 1
                assert slot.lag == mechanism.levels[level].lag
                assert slot.half_width == mechanism.figure_interval(level)
                assert slot.final == mechanism.figure_interval(level, last)
            else:
                assert slot.final == slot.half_width
                assert slot.half_width == mechanism.window_interval(end - length, end)


def test_a_slot_that_is_no_level_is_counted_from_figures() -> None:
    made = fc.plan(tick="1m", loss={"1h": 0.5, "30d": 2}, figures={})
    blocks = made.mechanism
    assert isinstance(blocks, fc.Blocks)
    slots = {"an hour": 60, "a day": 1440, "a month": 43_200}
    others = [
        (width, slots[width.name])
        for width in made.widths()
        if width.name in slots
        and slots[width.name] not in [level.length for level in blocks.levels]
    ]
    assert others
    for width, length in others:
        end = 43_200 // length * length
        assert width.lag is not None
        assert width.half_width == blocks.window_interval(end - length, end, as_of=end + width.lag)
        assert width.final is not None and width.final <= width.half_width


def test_widths_of_short_plans_and_of_odd_ticks() -> None:
    short = fc.plan(tick="1h", loss={"12h": 1.0})
    assert [each.name for each in short.widths()] == ["an hour", "the total after 12 hours"]
    weeks = fc.plan(tick="1w", loss={"1y": 4.0})
    assert all(len(each.name) > 9 for each in weeks.widths())
    days = fc.plan(tick="1d", loss={"1y": 4.0})
    assert [each.name for each in days.widths()][:2] == ["a day", "a month"]
    steps = fc.plan({100: 1.0})
    assert [each.name for each in steps.widths()] == ["the total after 100 steps"]
    assert steps.published()[0].per == "1 step"


@pytest.mark.parametrize("tick", ["1s", "1m", "90s", "15m", "1h", "12h", "1d"])
def test_a_stream_takes_every_option(tick: str) -> None:
    made = fc.plan(tick=tick, loss={"1d": 0.5, "30d": 1, "1y": 2}, figures={"1d": 1.0, "7d": 5.0})
    plain = fc.plan(tick=tick, loss={"1d": 0.5, "30d": 1, "1y": 2})
    for option in (*made.options, *plain.options):
        ticks = Ticks(tick_seconds=parse_duration(tick))
        Description(name="counts", mechanism=option.mechanism, ticks=ticks)


# Files
# ------------------------------------------------------------------------------------------------
def test_a_plan_file_is_accepted_as_a_mechanism(late: fc.Plan) -> None:
    for option in late.options:
        text = plan_json(late, option)
        assert fc.Mechanism.from_json(text) == option.mechanism
        section = json.loads(text)["plan"]
        assert section["version"] == 1
        assert section["request"]["targets"] == {"60": 0.5, "43200": 2.0, "525600": 4.0}
        assert section["option"]["name"] == option.name
        assert len(section["alternatives"]) == len(late.options) - 1
    assert fc.Mechanism.from_json(plan_json(late)) == late.best.mechanism


def test_a_plan_file_is_never_overwritten_by_accident(late: fc.Plan, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    save_plan(file, late)
    with pytest.raises(ParameterError, match=r"^save must be a new file"):
        save_plan(file, late, late.options[1])
    assert fc.Mechanism.from_json(file.read_text()) == late.best.mechanism
    save_plan(file, late, late.options[1], force=True)
    assert fc.Mechanism.from_json(file.read_text()) == late.options[1].mechanism
    with pytest.raises(ParameterError, match=r"^save must be a writable file"):
        save_plan(tmp_path / "nowhere" / "plan.json", late)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"horizon": 100}, "loss must be given; or mean_error=100"),
        ({"mean_error": 5.0}, "horizon must be given"),
        ({"horizon": 100, "mean_error": 0.0}, "mean_error must be"),
        (
            {"horizon": 100, "loss": {5: 1.0}, "delay": 100},
            "delay must be less than the horizon",
        ),
        ({"horizon": 100, "loss": {200: 1.0}}, "target age must be"),
        ({"horizon": 100, "loss": {5: 1.0, 6: 0.5}}, "loss must not decrease"),
        ({"horizon": 100, "loss": {5: 1.0}, "tick": 0}, "tick must be"),
        ({"horizon": 100, "loss": {5: 1.0}, "tick": 0.5}, "tick must be an integer"),
        ({"horizon": 100, "loss": {5: 1.0}, "tick": "9y"}, "tick must be an integer"),
        ({"horizon": 100, "loss": {"1h": 1.0}}, "loss must be a number of steps without a tick"),
        ({"tick": "1h", "loss": {"1h": 1.0, 1: 2.0}}, "loss must have one value per step"),
        ({"horizon": 100, "mean_error": 1e-9}, "mean_error must be an error that noise"),
        ({"loss": {99: 1.0}, "unit": fc.Unit(amount=1 << 40)}, "loss must be one that some noise"),
    ],
)
def test_senseless_requests_get_one_clear_line(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=f"^{words}") as refused:
        fc.plan(**wishes)
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value)
