"""Plans over HTTP: the library's plans, bounded, kept, made apart from the service, and about no
stream."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest

import fadecount as fc
from fadecount.planning import plan_json
from fadecount.service import plan_route, planner
from fadecount.service.answers import Wish
from fadecount.service.parsing import Query
from fadecount.service.plan_route import Planner, wish_from
from fadecount.service.problems import Problem
from tests.service.harness import Harness, Reply

QUICK = "tick=1d&horizon=1y&losses=1d:1,1y:4"
WISH = Wish(tick_seconds=86400, horizon=365, losses=((1, 1.0), (365, 4.0)))
PATIENCE = 120.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("plans")) as harness:
        yield harness


def ask(service: Harness, query: str, **headers: str) -> Reply:
    """One request, as often as the service asks for patience."""
    end = time.monotonic() + PATIENCE
    while True:
        reply = service.request("GET", f"/v1/plan?{query}", **headers)
        if reply.status not in (429, 503) or time.monotonic() > end:
            return reply
        time.sleep(0.2)


def test_a_plan_is_the_library_s_without_a_token(service: Harness) -> None:
    reply = ask(service, QUICK)
    assert reply.status == 200
    found, made = reply.json(), fc.plan(targets={1: 1.0, 365: 4.0}, horizon=365, tick_seconds=86400)
    assert found["file"] == plan_json(made)
    assert fc.Mechanism.from_json(found["file"]) == made.best.mechanism
    assert [each["name"] for each in found["options"]] == [each.name for each in made.options]
    assert [each["total_margin"] for each in found["options"]] == [
        int(np.ceil(each.forecast.horizon)) for each in made.options
    ]
    assert found["options"][0]["window_margin"] == made.best.mechanism.window_interval(364, 365)
    assert all(point["loss"] <= point["limit"] for point in found["losses"] if point["limit"])
    assert ask(service, QUICK, if_none_match=reply.headers["etag"]).status == 304


def test_another_option_has_its_own_file(service: Harness) -> None:
    made = fc.plan(targets={1: 1.0, 365: 4.0}, horizon=365, tick_seconds=86400)
    found = ask(service, f"{QUICK}&option=2").json()
    assert found["option"] == 2 and found["file"] == plan_json(made, made.options[1])
    assert ask(service, f"{QUICK}&option=20").json()["option"] == len(made.options)


def test_a_person_and_a_delta(service: Harness) -> None:
    found = ask(service, f"{QUICK}&person=1/1w&delta=1e-9").json()
    assert found["unit"] == "a person who comes at most once in any week"
    assert "gaussian" in [each["name"] for each in found["options"]]
    person = json.loads(found["file"])["plan"]["request"]["person"]
    assert (person["events"], person["steps"]) == (1, 7)
    several = Wish(tick_seconds=86400, horizon=365, losses=((365, 4.0),), events=3)
    assert planner.answer(several).unit == "a person who comes at most 3 times in any day"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "losses"),
        ("losses=1h", "losses"),
        ("losses=1h:x", "losses"),
        ("losses=x:1", "losses"),
        ("losses=1h:0", "losses"),
        ("losses=1h:nan", "losses"),
        ("losses=1d:4,1y:1", "fall"),
        ("losses=10y:1", "horizon"),
        ("losses=" + ",".join(f"{day}d:1" for day in range(1, 11)), "losses"),
        ("losses=1y:1&tick=2y", "tick"),
        ("losses=1y:1&horizon=200y", "horizon"),
        ("losses=1d:1&tick=1d&horizon=1d", "horizon"),
        ("losses=1y:1&person=1", "person"),
        ("losses=1y:1&person=5000/1d", "person"),
        ("losses=1y:1&person=1/x", "person"),
        ("losses=1y:1&delta=1", "delta"),
        ("losses=1y:1&daily=0", "daily"),
        ("losses=1y:1&option=99", "option"),
        ("losses=1y:1&seed=1", "parameters"),
    ],
)
def test_a_bad_wish_is_one_line(query: str, name: str) -> None:
    with pytest.raises(Problem) as refused:
        wish_from(Query(query.encode(), plan_route.PARAMETERS))
    assert (
        refused.value.status == 400
        and name in refused.value.detail
        and "\n" not in refused.value.detail
    )


def test_the_stricter_reading_of_ages() -> None:
    found = wish_from(Query(b"tick=1d&losses=1h:2,1d:1,1y:3", plan_route.PARAMETERS))
    assert found.losses == ((1, 1.0), (365, 3.0))


def test_busy_is_said_and_one_client_is_limited(service: Harness) -> None:
    """One plan is made and four wait, and a client may ask 20 times at once: of forty some are
    refused for either reason."""
    queries = [f"tick=1d&horizon=1y&losses=1d:{1 + number / 100:g},1y:4" for number in range(40)]
    with ThreadPoolExecutor(40) as threads:
        replies = list(
            threads.map(lambda query: service.request("GET", f"/v1/plan?{query}"), queries)
        )
    refused = [reply for reply in replies if reply.status != 200]
    assert {reply.status for reply in refused} == {429, 503}
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
    assert {reply.json()["detail"] for reply in refused if reply.status == 503} == {
        "other plans are being made; try again"
    }
    assert service.request("GET", f"/v1/plan?{QUICK}").status == 200  # kept plans are not limited
    assert service.request("GET", "/v1/streams", token=service.admin).status == 200


def in_thread(work: object) -> object:
    """Run a coroutine on a loop in a thread of its own."""
    import asyncio

    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))  # type: ignore[arg-type]
    thread.start()
    thread.join(PATIENCE)
    return found[0]


def test_the_process_has_low_priority_and_a_new_one_follows_when_it_ends() -> None:
    made = Planner()
    try:
        first = in_thread(made.ask(WISH))
        process = made._process
        assert process is not None and os.getpriority(os.PRIO_PROCESS, process.pid) >= min(
            19, os.nice(0) + planner.LOW_PRIORITY
        )
        process.kill()
        process.wait()
        again = in_thread(made.ask(msgspec.structs.replace(WISH, option=2)))
        assert made._process is not None and made._process.pid != process.pid
        assert first != again and made.kept(WISH) is first
    finally:
        made.close()
    assert process.poll() is not None and made._process is None


def test_a_plan_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_route, "PLAN_SECONDS", 0.0)
    made = Planner()
    try:
        with pytest.raises(Problem) as refused:
            made._plan(WISH)
        assert refused.value.status == 503
    finally:
        made.close()
    with pytest.raises(Problem):
        made._plan(WISH)  # closed


def test_the_process_answers_line_by_line() -> None:
    good = json.loads(planner.respond(msgspec.json.encode(WISH)))
    assert good["answer"]["horizon_ticks"] == 365
    impossible = msgspec.structs.replace(WISH, losses=((1, 4.0), (365, 1.0)))
    assert json.loads(planner.respond(msgspec.json.encode(impossible))) == {"answer": None}


def test_made_up_counts_have_the_daily_mean_and_are_the_same_every_time() -> None:
    week = planner.made_up(7 * 1440, 60, 1000)
    assert int(week.sum()) == 7000 and int(week.min()) >= 0
    assert np.array_equal(week, planner.made_up(7 * 1440, 60, 1000))
    assert int(planner.made_up(24, 3600, 1000).sum()) == 1000


def test_simulated_bands_are_those_of_the_mechanism() -> None:
    found = planner.answer(WISH)
    mechanism = fc.Mechanism.from_json(found.file)
    for step, row in enumerate(found.totals, start=1):
        assert row.high - row.value == row.value - row.low == mechanism.window_interval(0, step)
    for step, row in enumerate(found.windows):
        assert row.high - row.value == mechanism.window_interval(step, step + 1)
    assert sum(row.truth for row in found.windows) == found.totals[-1].truth
    assert sum(row.value for row in found.windows) == found.totals[-1].value
    odd = planner.answer(Wish(tick_seconds=7 * 86400, horizon=52, losses=((52, 4.0),)))
    assert odd.window == "1 week" and len(odd.windows) == 30
    short = planner.answer(Wish(tick_seconds=3600, horizon=12, losses=((12, 1.0),)))
    assert short.windows == [] and len(short.totals) == 12
