"""Streams that count the same people: their losses add up, and never exceed the promise of the
group. Sums are compared with linear programs."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest

import fadecount as fc
from fadecount.errors import ParameterError, StoreError
from fadecount.mechanisms import Unit
from fadecount.streams import Description, Group, Ticks
from fadecount.streams.loss import GroupLoss, Member, StreamLoss
from tests.mechanisms.any_levels import AnyLevels
from tests.mechanisms.block_oracles import program_loss, random_design
from tests.mechanisms.shift_program import losses_by_program
from tests.streams.backends import Backend, entries_of

MOST = 24
"""Steps of the longest streams."""

RIDERS = Group.of("riders", {"10m": 0.5, "1y": 2})
DAYS = fc.Blocks(fc.Level(1, 0.1), fc.Level(60, 0.2, lag=11))
"""Loses 0.1 up to 10 minutes, and 0.3 later."""


def described(
    name: str = "rides",
    mechanism: fc.Mechanism = DAYS,
    group: Group | None = RIDERS,
    tick: int = 60,
    unit: Unit | None = None,
) -> Description:
    return Description(
        name=name,
        mechanism=mechanism,
        ticks=Ticks(tick_seconds=tick),
        unit=unit or Unit(),
        group=group,
    )


def exact_loss(mechanism: fc.Mechanism, position: int, now: int) -> float:
    """By a linear program that knows only which noise is in which output."""
    if now < position:
        return 0.0
    if isinstance(mechanism, fc.Blocks):
        return program_loss(mechanism, position, now) / 1e6
    return float(losses_by_program(mechanism, [(position, now)])[0])


def random_mechanism(chance: random.Random) -> fc.Mechanism:
    kind, delay = (
        chance.choice(["designed", "designed", "gradual", "linear", "binary", "refresh"]),
        chance.choice([0, 0, 1, 3]),
    )
    if kind == "designed":
        budgets = [
            chance.choice([0.125, 0.5, 2.0, math.inf, chance.uniform(0.05, 2.0)])
            for _ in range(chance.randint(1, 5))
        ]
        return AnyLevels(budgets=budgets, delay=delay)
    if kind == "gradual":
        return fc.Gradual(
            epsilon=chance.uniform(0.1, 1.0), exponent=chance.choice([0.0, 1.0, 2.0]), delay=delay
        )
    if kind == "linear":
        return fc.Linear(epsilon=0.5)
    if kind == "binary":
        return fc.Binary(epsilon=1.0, horizon=MOST)
    return fc.Refresh(
        window=chance.randint(1, 9),
        epsilon_current=chance.uniform(0.1, 2.0),
        epsilon_past=chance.uniform(0.1, 2.0),
    )


@pytest.mark.parametrize("seed", range(150))
def test_no_streams_lose_more_together_than_their_group_states(seed: int) -> None:
    chance = random.Random(seed)
    members = []
    for number in range(chance.randint(1, 4)):
        mechanism: fc.Mechanism = random_design(chance)
        if chance.random() < 0.5:
            mechanism = random_mechanism(chance)
        tick = chance.choice([1, 2, 3, 5, 7])
        loss = StreamLoss(mechanism=mechanism, sensitivity=chance.choice([1, 1, 3]))
        members.append(Member(name=f"s{number}", loss=loss, tick_seconds=tick))
    limits = sorted(chance.uniform(0, 12) for _ in range(3))
    promise = Group.of("all", dict(zip(("4s", "9s", "ever"), limits, strict=True)))
    together = GroupLoss(group=promise, unit="one event", members=tuple(members))
    try:
        together.require_promise()
        kept = True
    except ParameterError:
        kept = False
    event = chance.randrange(12)
    for age in sorted(chance.sample(range(MOST - 12), 5)):
        exact = 0.0
        for member in members:
            # the ticks that are over at that moment
            position, now = event // member.tick_seconds + 1, (event + age) // member.tick_seconds
            assert now <= MOST
            assert isinstance(member.loss, StreamLoss)
            single = exact_loss(member.loss.mechanism, position, now)
            exact += member.loss.sensitivity * single
        total = together.total(age)
        assert total is None or exact <= float(total) + 1e-6
        assert exact <= together.at(age) + 1e-6
        if kept:
            assert exact <= promise.limit(age) + 1e-6


def test_a_promise_holds_up_to_each_age_and_then_for_ever() -> None:
    group = Group.of("all", {"1y": 4, "1h": 0.5, "30d": 2})
    assert group.promise == ((3600, 0.5), (2592000, 2), (None, 4))
    assert [group.limit(age) for age in (0, 3600, 3601, 2592000, 2592001, 10**9, None)] == [
        *(0.5, 0.5, 2, 2, 4, 4, 4)
    ]
    assert Group.of("all", {"ever": 12}).text == "at most 12"
    assert Group.from_json(group.to_json()) == group


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("a b", {"1y": 4}),
        ("all", {}),
        ("all", {"1h": 2, "1y": 1}),
        ("all", {"soon": 2}),
        ("all", {"1h": -1}),
        ("all", {"1h": math.nan}),
        ("all", {"60m": 1, "1h": 1}),
    ],
)
def test_a_promise_that_is_none_is_refused(name: str, loss: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Group.of(name, loss)


def test_decimals_add_up_as_they_are_written() -> None:
    halves = [fc.Blocks(fc.Level(1, epsilon)) for epsilon in (0.1, 0.2)]
    totals: list[fc.Mechanism] = [fc.Binary(epsilon=epsilon, horizon=8) for epsilon in (0.1, 0.2)]
    for mechanisms in (halves, totals):
        members = tuple(
            Member(name=str(at), loss=StreamLoss(mechanism=each), tick_seconds=60)
            for at, each in enumerate(mechanisms)
        )
        group = Group.of("all", {"ever": 0.3})
        GroupLoss(group=group, unit="", members=members).require_promise()
        less = replace(group, promise=((None, 0.299999),))
        with pytest.raises(ParameterError, match=r"at most 0.299999 in the end"):
            GroupLoss(group=less, unit="", members=members).require_promise()


def test_a_stream_that_would_break_the_promise_is_refused(backend: Backend) -> None:
    with backend.open() as store:
        for name in ("rides", "trips"):
            made = store.create(described(name), start_tick=0)
            assert made.description.group == RIDERS
        group = made.status.group
        assert group is not None and [each.name for each in group.members] == ["rides", "trips"]
        assert [group.total(age) for age in (600, 660, None)] == [
            *(pytest.approx(Fraction(2, 10)), pytest.approx(Fraction(6, 10))),
            pytest.approx(Fraction(6, 10)),
        ]
        assert (group.at(600), group.at(None)) == (0.5, 2)
        sharp = fc.Blocks(fc.Level(1, 0.31))
        with pytest.raises(
            ParameterError, match=r"at most 0.5 up to 10 minutes, all together, got"
        ):
            store.create(described("stops", sharp), start_tick=0)
        store.create(described("stops", fc.Blocks(fc.Level(1, 0.3))), start_tick=0)
        assert store.names() == ["rides", "stops", "trips"]
        late = fc.Blocks(fc.Level(1, 1.2, lag=12))
        with pytest.raises(ParameterError, match=r"at most 2 in the end, all together, got 2.10"):
            store.create(described("later", late), start_tick=0)
    details = [each.details for each in entries_of(store._context.audit_log)]
    assert {"keys": 1, "group": "riders"} in details


def test_deleted_streams_go_on_counting_if_they_have_published(backend: Backend) -> None:
    with backend.open() as store:
        whole = fc.Blocks(fc.Level(1, 0.5))
        stream = store.create(described("rides", whole), start_tick=0)
        store.delete("rides")  # nothing is out
        stream = store.create(described("trips", whole), start_tick=0)
        stream.close_through(0)
        store.delete("trips")
        with pytest.raises(ParameterError, match=r"got 0\.80.*the others: trips"):
            store.create(described("stops", fc.Blocks(fc.Level(1, 0.3))), start_tick=0)
        # the promise of the group is still there
        later = fc.Blocks(fc.Level(1, 0.1, lag=11))
        assert store.in_group(described("x", later, Group(name="riders"))).group == RIDERS


def test_a_stream_that_publishes_until_it_is_deleted_goes_on_counting(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread or process publishes while the deletion waits for the lock."""
    with backend.open() as store:
        stream = store.create(described("rides", fc.Blocks(fc.Level(1, 0.5))), start_tick=0)
        lock = store._database.lock

        def published_first(name: str, wait_seconds: float) -> None:
            stream.close_through(0)
            lock(name, wait_seconds)

        monkeypatch.setattr(store._database, "lock", published_first)
        store.delete("rides")
        monkeypatch.undo()
        with pytest.raises(ParameterError, match="never used in this store"):
            store.create(described("rides"), start_tick=0)
        with pytest.raises(ParameterError, match=r"got 0\.80.*the others: rides"):
            store.create(described("stops", fc.Blocks(fc.Level(1, 0.3))), start_tick=0)


def test_a_stream_that_is_made_anew_while_it_is_deleted_stays(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with backend.open() as store:
        store.create(described("rides"), start_tick=0)
        delete, lock = store.delete, store._database.lock

        def made_anew(name: str, wait_seconds: float) -> None:
            monkeypatch.undo()
            delete("rides")
            store.create(described("rides"), start_tick=7)
            lock(name, wait_seconds)

        monkeypatch.setattr(store._database, "lock", made_anew)
        with pytest.raises(StoreError, match="made anew meanwhile; try again"):
            delete("rides")
        assert store.reader().status("rides").first_tick == 7


def test_the_promise_and_the_unit_of_a_group_are_fixed(backend: Backend) -> None:
    one_person = Unit(of="person", events=3)
    small = DAYS.for_sensitivity(3)
    with backend.open() as store:
        with pytest.raises(ParameterError, match="'riders' has no stream yet"):
            store.create(described(group=Group(name="riders")), start_tick=0)
        store.create(described("rides", small, unit=one_person), start_tick=0)
        again = described("trips", small, group=Group(name="riders"), unit=one_person)
        assert store.create(again, start_tick=0).description.group == RIDERS
        other = Group.of("riders", {"1y": 3})
        with pytest.raises(ParameterError, match=r"loss of the group must be at most 0.5 up to"):
            store.create(described("stops", group=other, unit=one_person), start_tick=0)
        for wrong in ({"unit": Unit()}, {"unit": one_person, "tick": 120}):
            with pytest.raises(ParameterError, match="protected unit must be one person within a"):
                store.create(described("stops", **wrong), start_tick=0)
        # the cap is the stream's own
        store.create(described("stops", small, unit=Unit(of="person")), start_tick=0)
        # a name that matches the pattern of another one is another group
        store.create(described("x", group=Group.of("r.ders", {"1y": 1})), start_tick=0)
        store.create(described("y", group=Group.of("r_ders", {"1y": 1})), start_tick=0)
    with backend.reader() as reader:
        group = reader.status("stops").group
        assert group is not None and [each.name for each in group.members] == [
            "rides",
            "stops",
            "trips",
        ]
        assert group.unit == "one person within a tick of 1 minute (UTC)"
        lonely = reader.status("y").group
        assert lonely is not None and [each.name for each in lonely.members] == ["y"]


def test_an_existing_stream_keeps_its_group(backend: Backend) -> None:
    with backend.open() as store:
        given = {"tick": Ticks(tick_seconds=60), "mechanism": DAYS, "start_tick": 0}
        store.open_or_create("rides", group=RIDERS, **given)  # type: ignore[arg-type]
        store.open_or_create("alone", **given)  # type: ignore[arg-type]
    with backend.open() as store:
        for group in (None, RIDERS, Group(name="riders")):
            store.open_or_create("rides", tick=Ticks(tick_seconds=60), group=group)
            store._database.unlock(store.reader().status("rides").uid)
        for name, group in (("rides", Group(name="x")), ("alone", RIDERS)):
            with pytest.raises(ParameterError, match=f"group of stream '{name}' is fixed"):
                store.open_or_create(name, tick=Ticks(tick_seconds=60), group=group)
