"""Events count once, whatever the network does; ticks are closed once, whatever the clock does."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import fadecount as fc
from fadecount.mechanisms import PlanFile, Unit
from fadecount.planning import plan_json
from fadecount.service.client import ServiceError
from tests.service.faulty import LossyProxy
from tests.service.harness import EXACT, START, Harness, StillClock, wait_for

CLIENTS, RETRIES = 32, 30


def total(harness: Harness, key: str = "a") -> int:
    harness.close_tick()
    with harness.client() as client:
        return {each.key: each.value for each in client.total("doors")}[key]


def test_one_key_retried_by_many_clients_counts_once(harness: Harness) -> None:
    outcomes: list[bool] = []

    def retry() -> None:
        with harness.client() as client:
            outcomes.extend(client.add("doors", {"a": 7}, id="same") for _ in range(RETRIES))

    threads = [threading.Thread(target=retry) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == CLIENTS * RETRIES and sum(outcomes) == 1
    assert total(harness) == 7


def test_a_repeated_key_counts_once_across_ticks_and_restarts(tmp_path: Path) -> None:
    clock, token = StillClock(), None
    for _ in range(3):
        with Harness(tmp_path, clock=clock) as harness:
            token = token or harness.token("admin")
            with harness.client(token) as client:
                if not client.streams():
                    harness.create()
                client.add("doors", {"a": 5}, id="once")
                assert total(harness) == 5


def test_an_idempotency_key_belongs_to_a_token(harness: Harness) -> None:
    """One writer can neither ask whether another has sent an id, nor keep it from counting."""
    with (
        harness.client(harness.token("writer")) as one,
        harness.client(harness.token("writer", "doors")) as two,
    ):
        assert [one.add("doors", {"a": 1}, id="same"), two.add("doors", {"a": 10}, id="same")] == [
            True,
            True,
        ]
        assert [one.add("doors", {"a": 1}, id="same"), two.add("doors", {"a": 10}, id="same")] == [
            False,
            False,
        ]
    assert total(harness) == 11


def test_answers_that_get_lost_are_repeated_and_count_once(harness: Harness) -> None:
    with (
        LossyProxy(harness.port, lose_every=2) as proxy,
        fc.Client(proxy.url, harness.admin) as client,
    ):
        for _ in range(20):
            client.add("doors", {"a": 1})
        assert proxy.lost >= 10
    assert total(harness) == 20


def test_creating_may_be_repeated_but_not_with_another_meaning(harness: Harness) -> None:
    with (
        LossyProxy(harness.port, lose_every=2) as proxy,
        fc.Client(proxy.url, harness.admin) as client,
    ):
        assert len(client.streams()) == 1
        assert not client.create(
            "gates", tick="1m", mechanism=EXACT, keys=["a", "b"]
        )  # the answer to the first attempt got lost
        assert proxy.lost == 1
    with harness.client() as client:
        assert client.create("doors-2", tick="1m", mechanism=EXACT)
        assert not client.create("doors-2", tick="1m", mechanism=EXACT)
        client.declare("gates", ["c"])
        client.add("gates", {"a": 3, "c": 1})
        assert not client.create("gates", tick="60s", mechanism=EXACT, keys=["a", "b"])
        other = fc.Gradual(epsilon=2.0**13, exponent=1.0)
        for words in (
            {"keys": ["a"], "tick": "2m"},
            {"keys": ["b", "a"]},
            {"keys": ["a", "b", "c", "d"]},
            {"keys": ["a", "b"], "mechanism": other},
            {"keys": ["a", "b"], "tick": "1d", "zone": "Europe/Zurich"},
        ):
            with pytest.raises(ServiceError) as caught:
                client.create("gates", **{"tick": "1m", "mechanism": EXACT, **words})  # type: ignore[arg-type]
            assert (caught.value.status, caught.value.code) == (409, "exists")
    harness.close_tick(name="gates")
    with harness.client() as client:
        assert [row.value for row in client.total("gates")] == [3, 0, 1]


def test_a_wrong_batch_in_a_group_fails_alone(harness: Harness) -> None:
    statuses: list[int] = []

    def send(key: str) -> None:
        statuses.append(harness.post("/v1/streams/doors/events", {"events": [{"key": key}]}).status)

    threads = [
        threading.Thread(target=send, args=("a" if at % 3 else "unknown",)) for at in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [202] * 20 + [400] * 10
    assert total(harness) == 20


def test_a_stream_without_keys(harness: Harness) -> None:
    plain = {
        "name": "plain",
        "tick": "1m",
        "mechanism": {"kind": "gradual", "epsilon": 16384.0, "exponent": 1.0, "delay": 0},
    }
    assert harness.post("/v1/streams", plain).status == 201
    assert harness.post("/v1/streams/plain/events", {"events": [{"count": 2}, {}]}).status == 202
    harness.close_tick(name="plain")
    with harness.client() as client:
        assert [(each.key, each.value) for each in client.total("plain")] == [("all", 3)]


def test_a_plan_for_persons_needs_a_unit_that_caps_them(harness: Harness) -> None:
    planned = fc.plan(
        {60: 0.5}, horizon=525_600, tick=60, unit=Unit(of="person", events=2, per="tick")
    )
    chosen = next(each for each in planned.options if each.mechanism.kind == "gradual")
    plan = json.loads(plan_json(planned, chosen))
    units: tuple[dict[str, str | int] | None, ...] = (
        None,
        {"of": "event", "amount": 2},
        {"of": "person", "events": 3},
    )
    for unit in units:
        body = {"name": "people", "tick": "1m", "mechanism": plan} | (
            {} if unit is None else {"unit": unit}
        )
        refused = harness.post("/v1/streams", body)
        assert (refused.status, refused.json()["code"]) == (400, "wrong_unit"), unit
        for given in (plan, PlanFile.from_json(json.dumps(plan))):
            with (
                harness.client() as client,
                pytest.raises(ServiceError, match="unit must be the plan's"),
            ):
                client.create("people", tick="1m", mechanism=given, unit=unit)
    several = {
        "name": "people",
        "tick": "1m",
        "mechanism": plan,
        "unit": {"of": "person", "events": 2, "keys": 2},
    }
    assert harness.post("/v1/streams", several).json()["code"] == "wrong_unit"
    capped = {
        "name": "people",
        "tick": "1m",
        "mechanism": plan,
        "unit": {"of": "person", "events": 2},
    }
    assert harness.post("/v1/streams", capped).status == 201


@pytest.mark.parametrize(
    ("wrong", "code", "named"),
    [
        ({"name": "a b"}, "bad_stream", "name must be"),
        ({"tick": "0m"}, "bad_tick", "tick must be"),
        ({"zone": "Vienna"}, "bad_tick", "zone a time zone"),
        ({"mechanism": {"kind": "gradual", "epsilon": -7}}, "bad_mechanism", "mechanism must be"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_by_the_name_of_what_is_wrong(
    harness: Harness, wrong: dict[str, object], code: str, named: str
) -> None:
    right = {"name": "a", "tick": "1m", "mechanism": {"kind": "gradual", "epsilon": 0.5}}
    refused = harness.post("/v1/streams", right | wrong)
    assert (refused.status, refused.json()["code"]) == (400, code)
    assert named in refused.json()["detail"]
    assert "-7" not in refused.json()["detail"]


def test_a_plan_holds_for_its_tick_only(harness: Harness) -> None:
    planned = fc.plan({60: 0.5}, horizon=525_600, tick=60)
    chosen = next(each for each in planned.options if each.mechanism.kind == "gradual")
    plan = json.loads(plan_json(planned, chosen))
    refused = harness.post("/v1/streams", {"name": "planned", "tick": "1s", "mechanism": plan})
    assert (refused.status, refused.json()["code"]) == (400, "wrong_tick")
    with harness.client() as client:
        with pytest.raises(ServiceError, match="tick must be the one for which the plan was made"):
            client.create("planned", tick="1s", mechanism=plan)
        assert client.create("planned", tick="1m", mechanism=plan)
    assert (
        harness.post("/v1/streams", {"name": "planned", "tick": "1m", "mechanism": plan}).status
        == 200
    )


def test_downtime_is_caught_up_and_nothing_released_changes(tmp_path: Path) -> None:
    clock = StillClock()
    noisy = fc.Gradual(epsilon=0.5, exponent=1.0)
    with Harness(tmp_path, clock=clock) as harness, harness.client() as client:
        harness.create(mechanism=noisy)
        harness.close_tick(5)
        before = client.figures("doors", "total")
    clock.moment += 60 * 7000
    with Harness(tmp_path, clock=clock) as harness, harness.client() as client:
        leader = harness.service.writer.leader
        assert leader is not None
        wait_for(lambda: leader.lag_seconds() == 0.0)
        after = client.figures("doors", "total", key="a")
        assert client.figures("doors", "total", until=after[4].end) == before
        starts = [row.end for row in after]
        assert len(starts) == len(set(starts)) >= 7005 and starts == sorted(starts)


def test_a_clock_that_jumps_back_closes_nothing_twice(harness: Harness) -> None:
    harness.close_tick(3)
    assert isinstance(harness.clock, StillClock)
    with harness.client() as client:
        before = client.figures("doors", "total")
        ahead = harness.clock.moment
        harness.clock.moment = START - 10 * 365 * 86400
        client.add("doors", {"a": 2})
        assert client.figures("doors", "total") == before
        harness.clock.moment = ahead
    assert total(harness) == 2


@pytest.mark.parametrize(
    ("tick", "jump"), [("1s", 8 * 86400), ("1m", 10 * 365 * 86400), ("1d", 10 * 86400)]
)
def test_a_clock_far_ahead_closes_nothing_until_it_is_right(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, tick: str, jump: int
) -> None:
    clock = StillClock()
    with Harness(tmp_path, clock=clock) as harness, harness.client() as client:
        harness.create(tick=tick)
        clock.moment += jump
        wait_for(lambda: "stream doors stops: the clock is" in caplog.text)
        assert client.add("doors", {"a": 1})
        assert client.figures("doors", "total") == []
        unready = harness.request("GET", "/readyz")
        assert unready.status == 503 and b"the clock is far ahead" in unready.body
        assert client.stream("doors").state == "clock ahead"
        clock.moment = START + 2 * {"1s": 1, "1m": 60, "1d": 86400}[tick]
        wait_for(lambda: len(client.figures("doors", "total", key="a")) == 2)
        assert caplog.text.count("stops: the clock is") == 1
        wait_for(lambda: harness.request("GET", "/readyz").status == 200)


def test_one_stream_that_was_away_for_long_does_not_make_all_unready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = StillClock()
    with Harness(tmp_path, clock=clock) as harness:
        harness.create()
        clock.moment += 8 * 86400
        wait_for(lambda: harness.request("GET", "/readyz").status == 503)
        harness.create("gates")
        assert harness.request("GET", "/readyz").status == 200
        streams = harness.request("GET", "/v1/streams", token=harness.admin).json()["streams"]
        assert [each["state"] for each in streams] == ["clock ahead", "running"]


def test_a_stream_that_ends_leaves_the_others_alone(harness: Harness) -> None:
    harness.create("short", mechanism=fc.Binary(epsilon=2.0**14, horizon=3))
    harness.close_tick(8)
    with harness.client() as client:
        wait_for(lambda: len(client.figures("short", "total")) >= 6)
        assert [row.value for row in client.figures("short", "total", key="a")] == [0, 0, 0]
        with pytest.raises(ServiceError) as caught:
            client.add("short", {"a": 1})
        assert caught.value.code == "ended"
        client.add("doors", {"a": 2})
    assert total(harness) == 2
    assert harness.request("GET", "/readyz").status == 200


def test_a_second_service_on_the_same_store_is_refused(harness: Harness, tmp_path: Path) -> None:
    with pytest.raises(fc.errors.LockedError), Harness(tmp_path):
        pass


def test_the_client_says_what_the_service_said(harness: Harness) -> None:
    with harness.client() as client, pytest.raises(ServiceError, match="declared") as caught:
        client.add("doors", {"unknown": 1})
    assert (caught.value.status, caught.value.code) == (400, "unknown_key")
    with (
        fc.Client("http://127.0.0.1:1", attempts=1) as nobody,
        pytest.raises(ServiceError, match="cannot be reached"),
    ):
        nobody.streams()
    with pytest.raises(fc.errors.ParameterError):
        fc.Client("ftp://example")
    with harness.client() as client:
        assert client.stream("doors").keys == ("a", "b")


def test_the_unit_is_given_at_creation_shown_and_held(harness: Harness) -> None:
    body = {
        "name": "paid",
        "tick": "1m",
        "keys": ["a", "b"],
        "mechanism": json.loads(EXACT.to_json()),
    }
    assert harness.post("/v1/streams", {**body, "unit": {"of": "event", "amount": 5}}).status == 201
    assert harness.post("/v1/streams", body).status == 409
    for unit in ({"of": "planet"}, {"amount": 0}, {"events": 3}, {"other": 1}, 1):
        assert harness.post("/v1/streams", {**body, "name": "other", "unit": unit}).status == 400
    for events, status in (
        ([{"key": "a", "amount": 5}, {"key": "a", "amount": 2, "count": 3}], 202),
        ([{"key": "b", "amount": 6}, {"key": "b", "amount": 9, "count": 2}, {"key": "b"}], 202),
        ([{"key": "b", "amount": -1}], 400),
        ([{"key": "a", "count": 100}], 202),
    ):
        assert harness.post("/v1/streams/paid/events", {"events": events}).status == status
    assert (
        harness.post("/v1/streams/paid/events", {"events": [{}], "person": "p"}).json()["code"]
        == "wrong_person"
    )
    harness.close_tick(name="paid")
    shown = harness.request("GET", "/v1/streams/paid", token=harness.admin).json()
    text = "one event with an amount up to 5"
    assert (shown["unit_text"], shown["unit"]["amount"]) == (text, 5)
    aged = harness.request("GET", "/v1/streams/paid/privacy?age=1h", token=harness.admin).json()
    assert (aged["unit"], aged["losses"][0]["loss"]) == (text, 5 * EXACT.loss(60))
    with harness.client() as client:
        assert [row.value for row in client.total("paid")] == [111, 16]
        assert client.stream("paid").unit == Unit(amount=5)


def test_a_person_counts_under_as_many_keys_as_the_unit_says(harness: Harness) -> None:
    unit: dict[str, str | int] = {"of": "person", "events": 3, "keys": 2}
    with harness.client() as client:
        client.create("people", tick="1m", mechanism=EXACT, keys=["a", "b", "c"], unit=unit)
        for person in ("one", "two"):
            for key in ("c", "a", "b", "c", "a"):
                assert client.add("people", {key: 2}, person=person)
        harness.close_tick(name="people")
        assert client.add("people", {"b": 9}, person="one")
        harness.close_tick(name="people")
        assert [row.value for row in client.total("people")] == [6, 3, 6]
        text = "one person within a tick, at most 3 events in each of at most 2 keys"
        assert client.stream("people").unit_text == text
    shown = harness.request("GET", "/v1/streams/people", token=harness.admin).json()["unit"]
    assert shown == {"of": "person", "amount": 1, "events": 3, "keys": 2, "per": "tick"}
    aged = harness.request("GET", "/v1/streams/people/privacy?age=1h", token=harness.admin).json()
    assert (aged["unit"], aged["losses"][0]["loss"]) == (text, 6 * EXACT.loss(60))


def test_of_a_person_as_many_events_count_as_the_unit_says(harness: Harness) -> None:
    with harness.client() as client:
        client.create(
            "people",
            tick="1m",
            mechanism=EXACT,
            keys=["a", "b"],
            unit={"of": "person", "events": 3},
        )
        for person in ("one", "two"):
            for _ in range(3):
                assert client.add("people", {"a": 2}, person=person)
        with pytest.raises(ServiceError, match="needs the person") as caught:
            client.add("people", {"a": 1})
        assert caught.value.code == "wrong_person"
        harness.close_tick(name="people")
        assert client.add("people", {"b": 9}, person="one")
        harness.close_tick(name="people")
        assert [row.value for row in client.total("people")] == [6, 3]


def test_distinct_persons_are_not_added_up(harness: Harness) -> None:
    unit: dict[str, str | int] = {"of": "person", "per": "1d"}
    with harness.client() as client:
        client.create("people", tick="1m", mechanism=EXACT, unit=unit)
        client.add("people", {"all": 2}, person="one")
    harness.close_tick(name="people")
    path = "/v1/streams/people"
    about = harness.request("GET", path, token=harness.admin).json()
    assert (about["distinct_per"], about["default_per"]) == ("1d", "1d")
    (day,) = harness.request("GET", f"{path}/figures", token=harness.admin).json()["figures"]
    assert day["value"] == 1
    assert (
        harness.request("GET", f"{path}/so-far", token=harness.admin).json()["figures"][0]["value"]
        == 1
    )
    for route in ("total", "figures?per=total", "figures?per=1w", "so-far?per=1mo"):
        refused = harness.request("GET", f"{path}/{route}", token=harness.admin)
        assert refused.status == 400, route
        assert "distinct persons do not add up" in refused.json()["detail"], route


def test_the_cap_of_a_persons_day_holds_over_ticks(harness: Harness) -> None:
    unit: dict[str, str | int] = {"of": "person", "events": 3, "per": "1d"}
    with harness.client() as client:
        client.create("people", tick="1m", mechanism=EXACT, keys=["a", "b"], unit=unit)
        for key in ("a", "b", "a"):
            assert client.add("people", {key: 2}, person="one")
            assert client.add("people", {key: 1}, person="two")
            harness.close_tick(name="people")
        assert [row.value for row in client.total("people")] == [4, 2]
        assert client.stream("people").unit_text == "one person's day, at most 3 events"
        assert client.stream("people").unit == Unit.from_json(unit)
    plan = fc.plan(
        {60: 0.5}, horizon=525_600, tick=60, unit=Unit(of="person", events=3, per="tick")
    )
    body = {"name": "x", "tick": "1m", "unit": unit, "mechanism": json.loads(plan_json(plan))}
    refused = harness.post("/v1/streams", body)
    assert (refused.status, refused.json()["code"]) == (400, "wrong_unit")
